// SPDX-License-Identifier: Apache-2.0
//
// A rank as a program has it, through libbackplane: says what it learned of its job, once all ranks
// have come.
//
//   job_probe [status STATUS RANK]     ends with that status where it is that rank
//   job_probe rebuild RANK             that rank is killed; the others go on without it
//   job_probe serve ENDPOINT TOKEN_FILE JOB     is no rank, and serves a store until it is killed
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "backplane/backplane.hpp"

static void sum(const bp::ccl::Group& group, bp::Device device) {
  const std::vector<float> one = {1};
  auto x = bp::Tensor::from_host<float>(device, one, {1});
  group.all_reduce(x);
  std::printf("rank %u of %u: %g\n", group.rank(), group.rank_count(), x.to_vector<float>()[0]);
  std::fflush(stdout);
}

/// As docs/collectives.md shows it.
static void rebuild(const bp::ccl::Job& job, uint32_t lost_rank) {
  auto runtime = bp::Runtime::create();
  const bp::Device device = runtime.device("cpu:0");
  auto group = job.create_group(device);
  sum(group, device);
  if (job.rank() == lost_rank) std::raise(SIGKILL);
  try {
    sum(group, device);
  } catch (const bp::ccl::GroupError& error) {
    const auto& lost = error.failure().culprits;
    std::vector<uint32_t> left;
    for (uint32_t rank = 0; rank < group.rank_count(); ++rank) {
      if (std::find(lost.begin(), lost.end(), rank) == lost.end()) left.push_back(rank);
    }
    bp::Stream::default_of(device).reset();
    group = group.rebuild({.epoch = group.epoch() + 1, .members = left});
    sum(group, device);
  }
}

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "serve" && argc == 5) {
      const auto store = bp::ccl::Store::tcp(
          {.endpoint = argv[2], .token_file = argv[3], .job = argv[4], .serve = true});
      for (;;) ::pause();
    }
    const auto job = bp::ccl::Job::from_environment();
    std::printf("rank %u of %u, %u of %u here, restart %u, launcher '%s', device '%s'\n",
                job.rank(), job.rank_count(), job.local_rank(), job.local_count(), job.restart(),
                job.launcher().c_str(), job.device("none").c_str());
    if (job.store().handle() == nullptr) return 1;
    if (mode == "rebuild" && argc == 3) rebuild(job, static_cast<uint32_t>(std::atoi(argv[2])));
    if (argc == 4 && mode == "status" && static_cast<uint32_t>(std::atoi(argv[3])) == job.rank()) {
      return std::atoi(argv[2]);
    }
    return 0;
  } catch (const bp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 9;
  }
}
