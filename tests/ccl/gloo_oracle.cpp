// SPDX-License-Identifier: Apache-2.0
//
// Cases once more by Gloo: ccl_gloo_oracle KEPT_FOLDER REPORTS_FOLDER. Ranks are threads. It has no
// reduce_scatter: there a sum of all is made, of which each rank takes its block.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <complex>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "tests/ccl/other_library.hpp"

namespace bp::ccl::cases {
namespace {

using Group = std::shared_ptr<gloo::rendezvous::Context>;
using Combine = void (*)(void*, const void*, const void*, size_t);

template <class Number>
Combine combine_as(Reduction reduction) {
  switch (reduction) {
    case Reduction::kProd:
      return &gloo::product<Number>;
    case Reduction::kMin:
      return &gloo::min<Number>;
    case Reduction::kMax:
      return &gloo::max<Number>;
    case Reduction::kSum:
    case Reduction::kAvg:
      break;
  }
  return &gloo::sum<Number>;
}

Combine combine_of(const Case& c) {
  switch (c.format->dtype) {
    case BP_DTYPE_F32:
      return combine_as<float>(c.reduction);
    case BP_DTYPE_F64:
      return combine_as<double>(c.reduction);
    case BP_DTYPE_I8:
      return combine_as<int8_t>(c.reduction);
    case BP_DTYPE_I16:
      return combine_as<int16_t>(c.reduction);
    case BP_DTYPE_I32:
      return combine_as<int32_t>(c.reduction);
    case BP_DTYPE_I64:
      return combine_as<int64_t>(c.reduction);
    case BP_DTYPE_U8:
      return combine_as<uint8_t>(c.reduction);
    case BP_DTYPE_U16:
      return combine_as<uint16_t>(c.reduction);
    case BP_DTYPE_U32:
      return combine_as<uint32_t>(c.reduction);
    case BP_DTYPE_U64:
      return combine_as<uint64_t>(c.reduction);
    // Sums, and averages of these, are all that there is.
    case BP_DTYPE_C64:
      return &gloo::sum<std::complex<float>>;
    case BP_DTYPE_C128:
      return &gloo::sum<std::complex<double>>;
    default:
      throw std::runtime_error("no case reduces this dtype");
  }
}

/// Buffers know their bytes; what an element is the type says.
template <class Options>
void set_reduction(const Case& c, const Group& group, const Bytes& input, Bytes* output,
                   Options* options) {
  auto in = group->createUnboundBuffer(const_cast<std::byte*>(input.data()), input.size());
  auto out = group->createUnboundBuffer(output->data(), output->size());
  const auto set = [&](auto number) {
    using Number = decltype(number);
    options->template setInput<Number>(std::move(in));
    options->template setOutput<Number>(std::move(out));
  };
  if (c.format->bytes == 1) set(uint8_t{});
  if (c.format->bytes == 2) set(uint16_t{});
  if (c.format->bytes == 4) set(uint32_t{});
  if (c.format->bytes == 8) set(uint64_t{});
  if (c.format->bytes == 16) set(std::complex<double>{});
  options->setReduceFunction(combine_of(c));
}

Bytes run_reduction(const Group& group, const Case& c, uint32_t rank, const Bytes& input) {
  Bytes output(input.size());
  if (c.kind == Kind::kReduce) {
    gloo::ReduceOptions options(group);
    set_reduction(c, group, input, &output, &options);
    options.setRoot(static_cast<int>(c.root));
    gloo::reduce(options);
    if (rank != c.root) output.clear();
  } else {
    gloo::AllreduceOptions options(group);
    set_reduction(c, group, input, &output, &options);
    gloo::allreduce(options);
  }
  if (c.kind == Kind::kReduceScatter) {
    const auto bytes = static_cast<std::ptrdiff_t>(c.count * c.format->bytes);
    output = Bytes(output.begin() + rank * bytes, output.begin() + (rank + 1) * bytes);
  }
  divide(c, &output);
  return output;
}

uint8_t* start_of(const Bytes& bytes) {
  return reinterpret_cast<uint8_t*>(const_cast<std::byte*>(bytes.data()));
}

void scatter(const Group& group, const Case& c, uint32_t rank, const Bytes& input, Bytes* output) {
  gloo::ScatterOptions options(group);
  options.setRoot(static_cast<int>(c.root));
  if (rank == c.root) {
    std::vector<uint8_t*> blocks;
    for (uint32_t to = 0; to < c.rank_count; ++to) {
      blocks.push_back(start_of(input) + to * output->size());
    }
    options.setInputs(blocks, output->size());
  }
  options.setOutput(start_of(*output), output->size());
  gloo::scatter(options);
}

void exchange(const Group& group, const Case& c, uint32_t rank, const Bytes& input, Bytes* output) {
  auto in = group->createUnboundBuffer(start_of(input), input.size());
  auto out = group->createUnboundBuffer(output->data(), output->size());
  out->recv(static_cast<int>(c.sender_to(rank)), c.number);
  in->send(static_cast<int>(c.operation(rank).root), c.number);
  in->waitSend();
  out->waitRecv();
}

Bytes run_movement(const Group& group, const Case& c, uint32_t rank, const Bytes& input) {
  Bytes output(c.received_elements(rank) * c.format->bytes);
  const auto set = [&](auto* options) {
    options->setInput(start_of(input), input.size());
    options->setOutput(start_of(output), output.size());
  };
  if (c.kind == Kind::kAllGather) {
    gloo::AllgatherOptions options(group);
    set(&options);
    gloo::allgather(options);
  } else if (c.kind == Kind::kBroadcast) {
    gloo::BroadcastOptions options(group);
    if (rank == c.root) options.setInput(start_of(input), input.size());
    options.setOutput(start_of(output), output.size());
    options.setRoot(static_cast<int>(c.root));
    gloo::broadcast(options);
  } else if (c.kind == Kind::kGather) {
    gloo::GatherOptions options(group);
    options.setInput(start_of(input), input.size());
    if (rank == c.root) options.setOutput(start_of(output), output.size());
    options.setRoot(static_cast<int>(c.root));
    gloo::gather(options);
  } else if (c.kind == Kind::kScatter) {
    scatter(group, c, rank, input, &output);
  } else if (c.kind == Kind::kAllToAll) {
    gloo::AlltoallOptions options(group);
    set(&options);
    gloo::alltoall(options);
  } else if (c.sender_to(rank) == rank) {
    output = input;  // it sends nothing to itself
  } else {
    exchange(group, c, rank, input, &output);
  }
  return output;
}

Bytes run(const Group& group, const Case& c, uint32_t rank, const Bytes& input) {
  return c.reduces() ? run_reduction(group, c, rank, input) : run_movement(group, c, rank, input);
}

/// It divides by the bytes of a buffer, and has few kinds with blocks of different sizes.
bool can_repeat(const Case& c) { return c.count > 0 && !c.has_counts; }

/// Of all cases with as many ranks. Problems by case and rank.
void run_rank(const std::string& folder, const std::vector<Case>& cases, uint32_t rank,
              gloo::rendezvous::Store& store, std::vector<std::string>* problems) {
  const uint32_t rank_count = cases[0].rank_count;
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  const auto group = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank),
                                                                 static_cast<int>(rank_count));
  group->connectFullMesh(store, device);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!can_repeat(cases[i])) continue;
    (*problems)[i] = repeat_on_rank(
        folder, cases[i], rank,
        [&](const Case& c, uint32_t as, const Bytes& input) { return run(group, c, as, input); });
  }
}

void run_group(const std::string& folder, const std::vector<Case>& cases,
               std::vector<CaseResult>* results) {
  const uint32_t rank_count = cases[0].rank_count;
  gloo::rendezvous::HashStore store;
  std::vector<std::vector<std::string>> problems(rank_count,
                                                 std::vector<std::string>(cases.size(), "not run"));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_rank(folder, cases, rank, store, &problems[rank]);
      } catch (const std::exception& error) {
        std::printf("rank %u of %u: %s\n", rank, rank_count, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < cases.size(); ++i) {
    CaseResult result{.table = "Gloo", .what = cases[i], .verdict = Verdict::kPassed};
    if (!can_repeat(cases[i])) {
      result.verdict = Verdict::kUnsupported;
      result.words = cases[i].has_counts ? "it has few kinds with blocks of different sizes"
                                         : "it divides by the bytes of a buffer";
      results->push_back(std::move(result));
      continue;
    }
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      if (problems[rank][i].empty()) continue;
      result.verdict = Verdict::kFailed;
      result.words += "rank " + std::to_string(rank) + ": " + problems[rank][i] + "; ";
    }
    results->push_back(std::move(result));
  }
}

int run_all(const std::string& folder, const std::string& reports) {
  std::vector<CaseResult> results;
  std::vector<Case> left = repeated_cases(folder);
  while (!left.empty()) {
    const uint32_t rank_count = left[0].rank_count;
    std::vector<Case> cases;
    std::copy_if(left.begin(), left.end(), std::back_inserter(cases),
                 [&](const Case& c) { return c.rank_count == rank_count; });
    std::erase_if(left, [&](const Case& c) { return c.rank_count == rank_count; });
    run_group(folder, cases, &results);
  }
  return report_repeated(folder, reports, {"gloo", "Gloo", "Its ranks are threads."},
                         std::move(results));
}

}  // namespace
}  // namespace bp::ccl::cases

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: ccl_gloo_oracle KEPT_FOLDER REPORTS_FOLDER\n");
    return 2;
  }
  return bp::ccl::cases::run_all(argv[1], argv[2]);
}
