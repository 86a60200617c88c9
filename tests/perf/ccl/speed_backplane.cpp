// SPDX-License-Identifier: Apache-2.0
//
// Backplane's side: speed_backplane PREFIX RANK. Ranks meet in the file PREFIX.store.
#include <cstdio>
#include <vector>

#include "backplane/backplane.hpp"
#include "tests/perf/ccl/speed_rank.hpp"

namespace {

/// Memory of the program, as a tensor.
class Memory {
 public:
  explicit Memory(const bp::Device& device) : device_(device) {}
  float* get(uint64_t count) {
    if (values_.size() == count) return values_.data();
    tensor_ = bp::Tensor();
    values_ = std::vector<float>(count);
    tensor_ = bp::Tensor::wrap_host(device_, values_, {static_cast<int64_t>(count)});
    return values_.data();
  }
  const bp::Tensor& tensor() const { return tensor_; }

 private:
  bp::Device device_;
  std::vector<float> values_;
  bp::Tensor tensor_;
};

void run(const std::string& prefix, uint32_t rank) {
  auto runtime = bp::Runtime::create();
  const bp::Device device = runtime.device("cpu:0");
  const auto group = bp::ccl::Group::create(
      device,
      {.store = bp::ccl::Store::file(prefix + ".store", "speed"), .rank = rank, .rank_count = 2});
  // After the threads of kernels were made, which may run anywhere.
  perf::pin_to_processor(rank);
  Memory sent(device);
  Memory received(device);
  perf::serve({.send = [&](uint64_t count) { return sent.get(count); },
               .recv = [&](uint64_t count) { return received.get(count); },
               .all_reduce = [&](uint64_t) { group.all_reduce(sent.tensor(), received.tensor()); },
               .barrier = [&] { group.barrier(); }},
              prefix, rank);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("expected PREFIX and RANK");
  run(argv[1], static_cast<uint32_t>(std::stoul(argv[2])));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "speed_backplane: %s\n", error.what());
  return 1;
}
