// SPDX-License-Identifier: Apache-2.0
//
// A rank as a program has it, through libbackplane: says what it learned of its job, once all ranks
// have come.
//
//   job_probe [status STATUS RANK]     ends with that status where it is that rank
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "backplane/backplane.hpp"

int main(int argc, char** argv) {
  try {
    const auto job = bp::ccl::Job::from_environment();
    std::printf("rank %u of %u, %u of %u here, restart %u, launcher '%s', device '%s'\n",
                job.rank(), job.rank_count(), job.local_rank(), job.local_count(), job.restart(),
                job.launcher().c_str(), job.device("none").c_str());
    if (job.store().handle() == nullptr) return 1;
    if (argc == 4 && std::string_view(argv[1]) == "status" &&
        static_cast<uint32_t>(std::atoi(argv[3])) == job.rank()) {
      return std::atoi(argv[2]);
    }
    return 0;
  } catch (const bp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 9;
  }
}
