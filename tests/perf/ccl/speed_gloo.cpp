// SPDX-License-Identifier: Apache-2.0
//
// Gloo's side: speed_gloo PREFIX RANK ring|bcube HOST. Ranks meet in the folder PREFIX.store.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>

#include "tests/perf/ccl/speed_rank.hpp"

namespace {

void run(const std::string& prefix, uint32_t rank, const std::string& algorithm,
         const std::string& host) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = host;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank), 2);
  gloo::rendezvous::FileStore store(prefix + ".store");
  context->connectFullMesh(store, device);
  perf::pin_to_processor(rank);
  std::vector<float> sent;
  std::vector<float> received;
  const auto memory_of = [](std::vector<float>* all, uint64_t count) {
    if (all->size() != count) *all = std::vector<float>(count);
    return all->data();
  };
  const auto all_reduce = [&](uint64_t count) {
    gloo::AllreduceOptions options(context);
    options.setInput(sent.data(), count);
    options.setOutput(received.data(), count);
    options.setReduceFunction(
        [](void* to, const void* a, const void* b, size_t n) { gloo::sum<float>(to, a, b, n); });
    options.setAlgorithm(algorithm == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                              : gloo::AllreduceOptions::Algorithm::RING);
    gloo::allreduce(options);
  };
  const auto barrier = [&] {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  };
  perf::serve(
      perf::commands_of({.send = [&](uint64_t count) { return memory_of(&sent, count); },
                         .recv = [&](uint64_t count) { return memory_of(&received, count); },
                         .all_reduce = all_reduce,
                         .barrier = barrier},
                        rank),
      prefix, rank);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) throw std::runtime_error("expected PREFIX, RANK, ALGORITHM and HOST");
  run(argv[1], static_cast<uint32_t>(std::stoul(argv[2])), argv[3], argv[4]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "speed_gloo: %s\n", error.what());
  return 1;
}
