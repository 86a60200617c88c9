// SPDX-License-Identifier: Apache-2.0
//
// Ranks on a device whose memory the host cannot touch: speed_npu PREFIX RANK. Ranks meet in the
// file PREFIX.store. Their tensors are staged, in chunks; and a step of data parallel training, of
// a network whose kernels take as long as kKernelNs says, is timed in parts; and the call alone of
// an operation that such kernels are before.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "backplane/backplane.hpp"
#include "backplane/ops.hpp"
#include "tests/perf/ccl/speed_rank.hpp"

namespace {

constexpr uint32_t kRanks = 2;
constexpr int64_t kKernelNs = 10'000'000;
constexpr int kKernelsBefore = 20;
constexpr int kLayers = 16;
constexpr int64_t kLayerFloats = 512 * 1024;
constexpr uint64_t kBucketBytes = 2 * kLayerFloats * sizeof(float);

/// Throws unless the operations that have ended were staged: `bytes` more were copied, or more.
class StagedCheck {
 public:
  StagedCheck(const bp::ccl::Group& group, uint64_t bytes)
      : group_(group), expected_(group.info().staged_bytes + bytes) {}
  void run() const {
    const bpa_ccl_group_info info = group_.info();
    if (info.is_native == 0 && info.staged_bytes >= expected_) return;
    throw std::runtime_error("expected " + std::to_string(expected_) +
                             " bytes staged or more, found " + std::to_string(info.staged_bytes));
  }

 private:
  const bp::ccl::Group& group_;
  const uint64_t expected_;
};

/// Throws unless so many operations more were the device's own.
class NativeCheck {
 public:
  NativeCheck(const bp::ccl::Group& group, uint64_t operations)
      : group_(group), expected_(group.info().native_operations + operations) {}
  void run() const {
    const uint64_t found = group_.info().native_operations;
    if (found == expected_) return;
    throw std::runtime_error("expected " + std::to_string(expected_) +
                             " native operations, found " + std::to_string(found));
  }

 private:
  const bp::ccl::Group& group_;
  const uint64_t expected_;
};

std::vector<float> values_of(uint64_t count, uint32_t rank, uint64_t turn) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = perf::value_of(i, rank, turn);
  return values;
}

template <class Expected>
void check_values(const bp::Tensor& tensor, Expected expected) {
  const std::vector<float> values = tensor.to_vector<float>();
  const std::string problem = perf::wrong_value(values.data(), values.size(), expected);
  if (!problem.empty()) throw std::runtime_error(problem);
}

/// What is left in a device's memory is of an earlier turn.
void check_sum(const bp::Tensor& tensor, uint64_t turn) {
  check_values(tensor, [turn](uint64_t i) {
    return perf::value_of(i, 0, turn) + perf::value_of(i, 1, turn);
  });
}

double time_broadcast(const bp::ccl::Group& group, const bp::Device& device, uint64_t bytes,
                      uint64_t iterations, uint64_t turn) {
  const auto count = static_cast<int64_t>(bytes / sizeof(float));
  const auto tensor = bp::Tensor::from_host<float>(
      device, values_of(static_cast<uint64_t>(count), group.rank(), turn), {count});
  device.sync();
  group.barrier();
  const StagedCheck check(group, bytes * iterations);
  const double each = perf::nanoseconds_of(iterations, [&] { group.broadcast(tensor, 0); });
  check.run();
  check_values(tensor, [turn](uint64_t i) { return perf::value_of(i, 0, turn); });
  return each;
}

double time_all_reduce(const bp::ccl::Group& group, const bp::Device& device, uint64_t bytes,
                       uint64_t iterations, uint64_t turn) {
  const auto count = static_cast<int64_t>(bytes / sizeof(float));
  const auto send = bp::Tensor::from_host<float>(
      device, values_of(static_cast<uint64_t>(count), group.rank(), turn), {count});
  const auto recv = bp::Tensor::create(device, send.dtype(), {count});
  device.sync();
  group.barrier();
  const StagedCheck check(group, 2 * bytes * iterations);
  const double each = perf::nanoseconds_of(iterations, [&] { group.all_reduce(send, recv); });
  check.run();
  check_sum(recv, turn);
  return each;
}

/// The call alone, whose operation waits for the kernels that are queued before it: the median.
/// turn: of the first call.
double time_enqueue(const bp::ccl::Group& group, const bp::Device& device, uint64_t bytes,
                    uint64_t iterations, uint64_t turn) {
  const auto count = static_cast<int64_t>(bytes / sizeof(float));
  const auto zero = bp::Tensor::from_host<float>(device, std::vector<float>{0}, {1});
  const auto recv = bp::Tensor::create(device, zero.dtype(), {count});
  const NativeCheck check(group, iterations);
  std::vector<double> took(iterations);
  for (double& one : took) {
    const auto values = values_of(static_cast<uint64_t>(count), group.rank(), turn);
    bp::Tensor send = bp::Tensor::from_host<float>(device, values, {count});
    device.sync();
    group.barrier();
    const auto begin = perf::Clock::now();
    for (int kernel = 0; kernel < kKernelsBefore; ++kernel) send = bp::add(send, zero);
    one = perf::nanoseconds_of(1, [&] { group.async().all_reduce(send, recv); });
    check_sum(recv, turn++);
    const auto all = std::chrono::nanoseconds(perf::Clock::now() - begin).count();
    if (all < kKernelsBefore * kKernelNs) throw std::runtime_error("the kernels took no time");
  }
  check.run();
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>(iterations / 2);
  std::nth_element(took.begin(), middle, took.end());
  return *middle;
}

/// Backwards through the layers: a kernel for the gradient of each, and one that copies it into its
/// bucket, whose average is on its way while the others are computed.
class Training {
 public:
  Training(const bp::ccl::Group& group, const bp::Device& device) : group_(group), device_(device) {
    for (int i = 0; i < kLayers; ++i) {
      const std::vector<float> values(kLayerFloats, own_value(i, group.rank()));
      inputs_.push_back(bp::Tensor::from_host<float>(device, values, {kLayerFloats}));
    }
    parallel_ = bp::ccl::DataParallel::create(
        group, inputs_, {.bucket_bytes = kBucketBytes, .first_bucket_bytes = kBucketBytes});
  }

  double time(bool computes, bool communicates, uint64_t iterations) {
    const auto factor = static_cast<float>(2 + ++turn_ % 100);  // other gradients each time
    factor_ = bp::Tensor::from_host<float>(device_, std::vector<float>{factor}, {1});
    device_.sync();
    group_.barrier();
    const double each = perf::nanoseconds_of(iterations, [&] { step(computes, communicates); });
    for (int i = 0; i < kLayers && computes && communicates; ++i) {
      const float average = (own_value(i, 0) + own_value(i, 1)) * factor / 2;
      check_values(parallel_.gradient(static_cast<uint64_t>(i)), [&](uint64_t) { return average; });
    }
    return each;
  }

 private:
  static float own_value(int layer, uint32_t rank) {
    return static_cast<float>(layer + 1) + static_cast<float>(rank) * 100;
  }
  void step(bool computes, bool communicates) {
    for (size_t i = kLayers; i-- > 0;) {
      bp::Tensor gradient;
      if (computes) gradient = bp::mul(inputs_[i], factor_);
      if (communicates) {
        parallel_.ready(i, gradient);
      } else {
        gradient = bp::mul(gradient, factor_);  // as long as the copy
      }
    }
    if (communicates) parallel_.finish();
    device_.sync();
  }

  const bp::ccl::Group& group_;
  const bp::Device device_;
  bp::Tensor factor_;
  uint64_t turn_ = 0;
  std::vector<bp::Tensor> inputs_;
  bp::ccl::DataParallel parallel_;
};

void run(const std::string& prefix, uint32_t rank) {
  auto runtime = bp::Runtime::create(
      {.options = {{"npu.memory", "1GiB"}, {"npu.launch_latency_ns", std::to_string(kKernelNs)}}});
  const bp::Device device = runtime.device("npu:0");
  const auto store = bp::ccl::Store::file(prefix + ".store", "speed");
  const auto group =
      bp::ccl::Group::create(device, {.store = store, .rank = rank, .rank_count = kRanks});
  const auto gradients = bp::ccl::Group::create(
      device, {.store = store, .name = "gradients", .rank = rank, .rank_count = kRanks});
  Training training(gradients, device);
  const auto step = [&](bool computes, bool communicates) {
    return [&training, computes, communicates](uint64_t, uint64_t iterations) {
      return training.time(computes, communicates, iterations);
    };
  };
  uint64_t turns = 0;  // of both ranks, which are told the same
  const auto in_turn = [&](auto time) {
    return [&, time](uint64_t bytes, uint64_t iterations) {
      const uint64_t turn = turns;
      turns += iterations;
      return time(group, device, bytes, iterations, turn);
    };
  };
  perf::serve({{"memcpy", perf::time_memcpy},
               {"broadcast", in_turn(time_broadcast)},
               {"all_reduce", in_turn(time_all_reduce)},
               {"enqueue", in_turn(time_enqueue)},
               {"ring_bytes",
                [&](uint64_t, uint64_t) { return static_cast<double>(group.info().ring_bytes); }},
               {"compute", step(true, false)},
               {"communicate", step(false, true)},
               {"train", step(true, true)}},
              prefix, rank);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("expected PREFIX and RANK");
  run(argv[1], static_cast<uint32_t>(std::stoul(argv[2])));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "speed_npu: %s\n", error.what());
  return 1;
}
