// SPDX-License-Identifier: Apache-2.0
//
// The side of an MPI library, under its mpirun: speed_mpi PREFIX.
#include <mpi.h>

#include <cstdio>

#include "tests/perf/ccl/speed_rank.hpp"

namespace {

void run(const std::string& prefix, uint32_t rank) {
  perf::pin_to_processor(rank);
  std::vector<float> sent;
  std::vector<float> received;
  const auto memory_of = [](std::vector<float>* all, uint64_t count) {
    if (all->size() != count) *all = std::vector<float>(count);
    return all->data();
  };
  perf::serve(
      perf::commands_of({.send = [&](uint64_t count) { return memory_of(&sent, count); },
                         .recv = [&](uint64_t count) { return memory_of(&received, count); },
                         .all_reduce =
                             [&](uint64_t count) {
                               MPI_Allreduce(sent.data(), received.data(), static_cast<int>(count),
                                             MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                             },
                         .barrier = [] { MPI_Barrier(MPI_COMM_WORLD); }},
                        rank),
      prefix, rank);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int status = 1;
  try {
    if (argc != 2) throw std::runtime_error("expected PREFIX");
    run(argv[1], static_cast<uint32_t>(rank));
    status = 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "speed_mpi: %s\n", error.what());
  }
  MPI_Finalize();
  return status;
}
