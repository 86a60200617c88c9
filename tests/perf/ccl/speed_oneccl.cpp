// SPDX-License-Identifier: Apache-2.0
//
// oneCCL's side, under the mpiexec of its MPI: speed_oneccl PREFIX. Rank 0 leaves its address in
// the file PREFIX.address.
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <oneapi/ccl.hpp>
#include <thread>

#include "tests/perf/ccl/speed_rank.hpp"

namespace {

ccl::shared_ptr_class<ccl::kvs> meet(const std::string& path, uint32_t rank) {
  if (rank == 0) {
    auto made = ccl::create_main_kvs();
    const auto address = made->get_address();
    std::ofstream(path + ".part", std::ios::binary).write(address.data(), address.size());
    if (std::rename((path + ".part").c_str(), path.c_str()) != 0) {
      throw std::runtime_error("cannot write " + path);
    }
    return made;
  }
  const auto deadline = perf::Clock::now() + std::chrono::seconds(30);
  struct stat found {};
  while (stat(path.c_str(), &found) != 0) {
    if (perf::Clock::now() > deadline) throw std::runtime_error("rank 0 left no " + path);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ccl::kvs::address_type address;
  std::ifstream(path, std::ios::binary).read(address.data(), address.size());
  return ccl::create_kvs(address);
}

void run(const std::string& prefix, uint32_t rank) {
  ccl::init();
  const auto kvs = meet(prefix + ".address", rank);
  const auto communicator = ccl::create_communicator(2, static_cast<int>(rank), kvs);
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
                               ccl::allreduce(sent.data(), received.data(), count,
                                              ccl::reduction::sum, communicator)
                                   .wait();
                             },
                         .barrier = [&] { ccl::barrier(communicator).wait(); }},
                        rank),
      prefix, rank);
}

}  // namespace

int main(int argc, char** argv) try {
  const char* const rank = std::getenv("PMI_RANK");
  if (argc != 2 || rank == nullptr) throw std::runtime_error("expected PREFIX, under mpiexec");
  run(argv[1], static_cast<uint32_t>(std::stoul(rank)));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "speed_oneccl: %s\n", error.what());
  return 1;
}
