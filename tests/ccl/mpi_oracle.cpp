// SPDX-License-Identifier: Apache-2.0
//
// Cases once more by MPI: mpirun -n 8 ccl_mpi_oracle KEPT_FOLDER REPORTS_FOLDER. Groups of fewer
// ranks are communicators of the first ones.
#define OMPI_SKIP_MPICXX 1  // bindings of another library
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "tests/ccl/other_library.hpp"

namespace bp::ccl::cases {
namespace {

constexpr int kProcesses = 8;

void demand(int code) {
  if (code != MPI_SUCCESS) throw std::runtime_error("MPI answers " + std::to_string(code));
}

MPI_Datatype type_of(const Format& format) {
  switch (format.dtype) {
    case BP_DTYPE_F32:
      return MPI_FLOAT;
    case BP_DTYPE_F64:
      return MPI_DOUBLE;
    case BP_DTYPE_C64:
      return MPI_C_FLOAT_COMPLEX;
    case BP_DTYPE_C128:
      return MPI_C_DOUBLE_COMPLEX;
    case BP_DTYPE_I8:
      return MPI_INT8_T;
    case BP_DTYPE_I16:
      return MPI_INT16_T;
    case BP_DTYPE_I32:
      return MPI_INT32_T;
    case BP_DTYPE_I64:
      return MPI_INT64_T;
    case BP_DTYPE_U8:
      return MPI_UINT8_T;
    case BP_DTYPE_U16:
      return MPI_UINT16_T;
    case BP_DTYPE_U32:
      return MPI_UINT32_T;
    case BP_DTYPE_U64:
      return MPI_UINT64_T;
    default:
      return MPI_BYTE;
  }
}

MPI_Op op_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kProd:
      return MPI_PROD;
    case Reduction::kMin:
      return MPI_MIN;
    case Reduction::kMax:
      return MPI_MAX;
    case Reduction::kSum:
    case Reduction::kAvg:
      break;
  }
  return MPI_SUM;
}

struct Places {
  std::vector<int> counts;
  std::vector<int> firsts;
};

Places places_of(const std::vector<uint64_t>& counts) {
  Places places;
  for (size_t i = 0; i < counts.size(); ++i) {
    places.counts.push_back(static_cast<int>(counts[i]));
    places.firsts.push_back(static_cast<int>(Case::first_of(counts, i)));
  }
  return places;
}

/// Blocks of different sizes.
void run_with_counts(MPI_Comm group, const Case& c, uint32_t rank, const void* in, void* out) {
  const auto root = static_cast<int>(c.root);
  const MPI_Datatype type = type_of(*c.format);
  const Places sent = places_of(c.send_counts(rank));
  const Places received = places_of(c.recv_counts(rank));
  const int own = received.counts[rank];
  switch (c.kind) {
    case Kind::kReduceScatter:
      demand(MPI_Reduce_scatter(in, out, sent.counts.data(), type, op_of(c.reduction), group));
      break;
    case Kind::kAllGather:
      demand(MPI_Allgatherv(in, own, type, out, received.counts.data(), received.firsts.data(),
                            type, group));
      break;
    case Kind::kGather:
      demand(MPI_Gatherv(in, own, type, out, received.counts.data(), received.firsts.data(), type,
                         root, group));
      break;
    case Kind::kScatter:
      demand(MPI_Scatterv(in, sent.counts.data(), sent.firsts.data(), type, out, own, type, root,
                          group));
      break;
    case Kind::kAllToAll:
      demand(MPI_Alltoallv(in, sent.counts.data(), sent.firsts.data(), type, out,
                           received.counts.data(), received.firsts.data(), type, group));
      break;
    default:
      throw std::runtime_error("no such case");
  }
}

Bytes run(MPI_Comm group, const Case& c, uint32_t rank, const Bytes& input) {
  const auto count = static_cast<int>(c.count);
  const auto root = static_cast<int>(c.root);
  const MPI_Datatype type = type_of(*c.format);
  const MPI_Op op = op_of(c.reduction);
  Bytes output(c.received_elements(rank) * c.format->bytes);
  const void* const in = input.data();
  void* const out = output.data();
  if (c.has_counts) {
    run_with_counts(group, c, rank, in, out);
    if (c.reduces()) divide(c, &output);
    return output;
  }
  switch (c.kind) {
    case Kind::kAllReduce:
      demand(MPI_Allreduce(in, out, count, type, op, group));
      break;
    case Kind::kReduceScatter:
      demand(MPI_Reduce_scatter_block(in, out, count, type, op, group));
      break;
    case Kind::kReduce:
      demand(MPI_Reduce(in, out, count, type, op, root, group));
      break;
    case Kind::kAllGather:
      demand(MPI_Allgather(in, count, type, out, count, type, group));
      break;
    case Kind::kBroadcast:
      if (rank == c.root) output = input;
      demand(MPI_Bcast(output.data(), count, type, root, group));
      break;
    case Kind::kGather:
      demand(MPI_Gather(in, count, type, out, count, type, root, group));
      break;
    case Kind::kScatter:
      demand(MPI_Scatter(in, count, type, out, count, type, root, group));
      break;
    case Kind::kAllToAll:
      demand(MPI_Alltoall(in, count, type, out, count, type, group));
      break;
    case Kind::kSend:
      demand(MPI_Sendrecv(in, count, type, static_cast<int>(c.operation(rank).root), 0, out, count,
                          type, static_cast<int>(c.sender_to(rank)), 0, group, MPI_STATUS_IGNORE));
      break;
    case Kind::kRecv:
    case Kind::kBarrier:
      throw std::runtime_error("no such case");
  }
  if (c.reduces()) divide(c, &output);
  return output;
}

int run_all(const std::string& folder, const std::string& reports) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::map<uint32_t, MPI_Comm> groups;  // by their ranks
  std::vector<CaseResult> results;
  for (const Case& c : repeated_cases(folder)) {
    const bool takes_part = rank < static_cast<int>(c.rank_count);
    if (groups.count(c.rank_count) == 0) {
      MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, rank, &groups[c.rank_count]);
    }
    std::string problem;
    if (takes_part) {
      problem = repeat_on_rank(folder, c, static_cast<uint32_t>(rank),
                               [&](const Case& of, uint32_t as, const Bytes& input) {
                                 return run(groups[c.rank_count], of, as, input);
                               });
    }
    if (!problem.empty()) std::printf("rank %d: %s\n", rank, problem.c_str());
    const int failed = problem.empty() ? 0 : 1;
    int any_failed = 0;
    MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    results.push_back({.table = "Open MPI",
                       .what = c,
                       .verdict = any_failed == 0 ? Verdict::kPassed : Verdict::kFailed,
                       .words = any_failed == 0 ? "" : "a rank has printed what differs"});
  }
  int code = 0;
  if (rank == 0) {
    code = report_repeated(
        folder, reports,
        {"open_mpi", "Open MPI", "Its ranks are processes, the first ones of eight on one host."},
        results);
  }
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return code;
}

}  // namespace
}  // namespace bp::ccl::cases

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int processes = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  int code = 2;
  if (argc != 3 || processes != bp::ccl::cases::kProcesses) {
    std::fprintf(stderr, "usage: mpirun -n %d ccl_mpi_oracle KEPT_FOLDER REPORTS_FOLDER\n",
                 bp::ccl::cases::kProcesses);
  } else {
    code = bp::ccl::cases::run_all(argv[1], argv[2]);
  }
  MPI_Finalize();
  return code;
}
