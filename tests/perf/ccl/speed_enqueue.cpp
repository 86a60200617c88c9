// SPDX-License-Identifier: Apache-2.0
//
// A rank of a group by messages, of a device whose memory the host cannot touch and of cpu:0:
// speed_enqueue PREFIX RANK DEVICE, where rank 1 is on cpu:0 whatever DEVICE is. Ranks meet in the
// file PREFIX.store. Timed are calls alone: rank 0's behind kernels that its device is busy with,
// and rank 1's behind an operation that waits for them.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "backplane/backplane.hpp"
#include "backplane/ops.hpp"
#include "tests/perf/ccl/speed_rank.hpp"

namespace {

constexpr uint32_t kRanks = 2;
constexpr std::chrono::milliseconds kBusy{200};
constexpr int64_t kSide = 512;  // of the matrices that keep a device busy

/// Two sums, one behind the other.
class Sums {
 public:
  Sums(const bp::ccl::Group& group, const bp::Device& device, uint64_t bytes)
      : group_(group),
        zero_(bp::Tensor::from_host<float>(device, std::vector<float>{0}, {1})),
        send_(tensor_of(device, bytes, group.rank())),
        first_(tensor_of(device, bytes, kRanks)),
        second_(tensor_of(device, bytes, kRanks)) {}

  /// What is sent is there once the kernels before are done.
  void come_after_kernels() { send_ = bp::add(send_, zero_); }
  void call_first() const { group_.async().all_reduce(send_, first_); }
  void call_second() const { group_.async().all_reduce(send_, second_); }
  void check() const {
    for (const bp::Tensor& recv : {first_, second_}) {
      const std::vector<float> values = recv.to_vector<float>();
      for (uint64_t i = 0; i < values.size(); ++i) {
        if (values[i] == perf::value_of(i, 0) + perf::value_of(i, 1)) continue;
        throw std::runtime_error("wrong sum at element " + std::to_string(i) + ": " +
                                 std::to_string(values[i]));
      }
    }
  }

 private:
  static bp::Tensor tensor_of(const bp::Device& device, uint64_t bytes, uint32_t rank) {
    std::vector<float> values(bytes / sizeof(float));
    for (uint64_t i = 0; i < values.size(); ++i) values[i] = perf::value_of(i, rank);
    return bp::Tensor::from_host<float>(device, values, {static_cast<int64_t>(values.size())});
  }

  const bp::ccl::Group& group_;
  const bp::Tensor zero_;
  bp::Tensor send_;
  const bp::Tensor first_;
  const bp::Tensor second_;
};

/// Keeps a device busy for longer than kBusy.
class Kernels {
 public:
  explicit Kernels(const bp::Device& device) : device_(device) {
    std::vector<float> values(kSide * kSide);
    for (int64_t i = 0; i < kSide; ++i) values[static_cast<size_t>(i * kSide + i)] = 1;
    one_ = bp::Tensor::from_host<float>(device, values, {kSide, kSide});
    perf::Clock::duration least = kBusy;  // of kTried kernels
    for (int i = 0; i < 5; ++i) least = std::min(least, time_of(kTried));
    // Twice as many: where others use the machine now, they may not later.
    count_ = static_cast<int>(2 * kTried * kBusy / least) + 1;
  }
  void queue() const {
    bp::Tensor product = one_;
    for (int i = 0; i < count_; ++i) product = bp::matmul(product, one_);
  }

 private:
  static constexpr int kTried = 4;
  perf::Clock::duration time_of(int count) {
    count_ = count;
    const auto begin = perf::Clock::now();
    queue();
    device_.sync();
    return perf::Clock::now() - begin;
  }

  const bp::Device device_;
  bp::Tensor one_;
  int count_ = 0;
};

/// Of this rank's call that something is before.
double time_once(const bp::ccl::Group& group, const bp::Device& device, const Kernels* kernels,
                 uint64_t bytes) {
  Sums sums(group, device, bytes);
  device.sync();
  group.barrier();
  const auto begin = perf::Clock::now();
  double took = 0;
  if (kernels != nullptr) {
    kernels->queue();
    sums.come_after_kernels();
    took = perf::nanoseconds_of(1, [&] { sums.call_first(); });
    sums.call_second();
  } else {
    sums.call_first();
    took = perf::nanoseconds_of(1, [&] { sums.call_second(); });
  }
  sums.check();
  // The other rank's kernels may have begun a moment before this one looked at its clock.
  const bool has_waited = perf::Clock::now() - begin >= kBusy * 9 / 10;
  if (!has_waited) throw std::runtime_error("nothing was before it");
  return took;
}

/// The median; 0 on the rank that is not looked at.
double time_enqueue(const std::function<double()>& once, bool is_looked_at, uint64_t iterations) {
  std::vector<double> took(iterations);
  for (double& one : took) one = once();
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>(iterations / 2);
  std::nth_element(took.begin(), middle, took.end());
  return is_looked_at ? *middle : 0;
}

void run(const std::string& prefix, uint32_t rank, const std::string& name) {
  auto runtime = bp::Runtime::create({.options = {{"npu.launch_latency_ns", "10000000"}}});
  const bp::Device device = runtime.device(rank == 0 ? name : "cpu:0");
  const auto group =
      bp::ccl::Group::create(device, {.store = bp::ccl::Store::file(prefix + ".store", "speed"),
                                      .rank = rank,
                                      .rank_count = kRanks});
  std::optional<Kernels> kernels;
  if (rank == 0) kernels.emplace(device);
  const auto of_rank = [&](uint32_t looked_at) {
    return [&, looked_at](uint64_t bytes, uint64_t iterations) {
      const uint64_t staged = group.info().staged_bytes;
      const auto once = [&] {
        return time_once(group, device, kernels ? &*kernels : nullptr, bytes);
      };
      const double took = time_enqueue(once, rank == looked_at, iterations);
      const bool is_staged = group.info().staged_bytes > staged;
      if (is_staged != (rank == 0)) throw std::runtime_error("staged, or not, on the wrong rank");
      return took;
    };
  };
  perf::serve({{"enqueue_staged", of_rank(0)}, {"enqueue_host", of_rank(1)}}, prefix, rank);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) throw std::runtime_error("expected PREFIX, RANK and DEVICE");
  run(argv[1], static_cast<uint32_t>(std::stoul(argv[2])), argv[3]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "speed_enqueue: %s\n", error.what());
  return 1;
}
