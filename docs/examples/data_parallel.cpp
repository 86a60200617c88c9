// SPDX-License-Identifier: Apache-2.0
//
// Training on devices of several vendors at once. Each rank has its share of the batch and computes
// its gradients on its own device; they are averaged while others are still computed, and every
// rank goes on with the same parameters. Ranks are threads, which meet in a store in memory; or
// processes, where a launcher has started them.
//   data_parallel [--check] [DEVICE...]      a rank on each; npu:0 xpu:0 cpu:0 if none is named
//   backplane launch -n 2 --devices npu:0,cpu:0 -- ./data_parallel [--check]
// --check: trains once more on one rank with the whole batch, and compares.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "backplane/device.h"  // BP_EXECUTION_INLINE
#include "backplane/ops.hpp"

namespace {

constexpr int kSteps = 20;
constexpr float kRate = 0.1f;
constexpr int64_t kSamples = 100, kInputs = 2, kHidden = 16;

/// Values that every machine makes alike, from -1 to 1.
std::vector<float> random_values(uint32_t seed, int64_t count, float scale = 1) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(scale * (static_cast<float>(random() >> 8) / (1 << 23) - 1));
  }
  return values;
}

/// Two inputs and their product, for the rows of one rank.
struct Share {
  Share(uint32_t rank, uint32_t rank_count) {
    const int64_t begin = kSamples * rank / rank_count;
    rows = kSamples * (rank + 1) / rank_count - begin;
    const std::vector<float> all = random_values(1, kSamples * kInputs);
    inputs.assign(all.begin() + begin * kInputs, all.begin() + (begin + rows) * kInputs);
    for (int64_t i = 0; i < rows; ++i) {
      targets.push_back(inputs[static_cast<size_t>(2 * i)] *
                        inputs[static_cast<size_t>(2 * i + 1)]);
    }
  }
  int64_t rows;
  std::vector<float> inputs, targets;
};

/// y = relu(x * w1 + b1) * w2 + b2
std::vector<bp::Tensor> make_parameters(bp::Device device, uint32_t seed) {
  return {
      bp::Tensor::from_host<float>(device, random_values(seed, kInputs * kHidden),
                                   {kInputs, kHidden}),
      bp::Tensor::from_host<float>(device, random_values(seed + 1, kHidden, 0.1f), {1, kHidden}),
      bp::Tensor::from_host<float>(device, random_values(seed + 2, kHidden, 0.5f), {kHidden, 1}),
      bp::Tensor::from_host<float>(device, random_values(seed + 3, 1, 0.1f), {1, 1})};
}

bp::Tensor scalar(bp::Device device, float value) {
  return bp::Tensor::from_host<float>(device, std::vector<float>{value}, {1});
}

struct Trained {
  std::vector<float> losses;  // by step
  std::vector<float> parameters;
};

// What a rank does, be it a thread or a process.
Trained train(const bp::ccl::Group& group, bp::Device device, bool prints) {
  const Share share(group.rank(), group.rank_count());
  const auto x = bp::Tensor::from_host<float>(device, share.inputs, {share.rows, kInputs});
  const auto target = bp::Tensor::from_host<float>(device, share.targets, {share.rows, 1});
  // Shares may differ in size: each sample counts as much, whatever rank has it.
  const auto ranks = static_cast<float>(group.rank_count());
  const auto weight = scalar(device, 2 * ranks / static_cast<float>(kSamples));
  const auto rate = scalar(device, kRate);

  // Only rank 0's parameters count.
  std::vector<bp::Tensor> parameters = make_parameters(device, 10 + 10 * group.rank());
  const auto parallel = bp::ccl::DataParallel::create(group, parameters);
  parallel.broadcast_parameters(parameters);

  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const auto& w1 = parameters[0];
    const auto& w2 = parameters[2];
    const auto hidden = bp::relu(bp::add(bp::matmul(x, w1), parameters[1]));
    const auto error = bp::sub(bp::add(bp::matmul(hidden, w2), parameters[3]), target);

    // Backwards, each gradient as soon as it is there.
    const auto d_out = bp::mul(error, weight);
    parallel.ready(3, bp::reduce_sum(d_out, {.axes = {0}}));
    parallel.ready(2, bp::gemm(hidden, d_out, {}, {.trans_a = true}));
    const auto d_hidden = bp::mul(bp::gemm(d_out, w2, {}, {.trans_b = true}), bp::sign(hidden));
    parallel.ready(1, bp::reduce_sum(d_hidden, {.axes = {0}}));
    parallel.ready(0, bp::gemm(x, d_hidden, {}, {.trans_a = true}));
    parallel.finish();  // what comes now comes after the averages; the host does not wait

    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] = bp::sub(parameters[i], bp::mul(parallel.gradient(i), rate));
    }

    const auto loss = bp::reduce_sum(bp::mul(error, error));
    group.all_reduce(loss);
    trained.losses.push_back(loss.to_vector<float>()[0] / static_cast<float>(kSamples));
    if (prints) std::printf("step %2d: loss %.6f\n", step, trained.losses.back());
  }
  for (const bp::Tensor& parameter : parameters) {
    const std::vector<float> values = parameter.to_vector<float>();
    trained.parameters.insert(trained.parameters.end(), values.begin(), values.end());
  }
  return trained;
}

/// A thread for each rank; what each of them came to. Empty: one has failed.
std::vector<Trained> train_on(const std::vector<bp::Device>& devices, bool prints) {
  const auto store = bp::ccl::Store::memory();
  const auto rank_count = static_cast<uint32_t>(devices.size());
  std::vector<Trained> trained(rank_count);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto group = bp::ccl::Group::create(
            devices[rank], {.store = store, .rank = rank, .rank_count = rank_count});
        trained[rank] = train(group, devices[rank], prints && rank == 0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Trained& one : trained) {
    if (one.parameters.empty()) return {};
  }
  return trained;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN, too
  }
  return largest;
}

/// What one rank comes to alone, but for how sums are rounded.
bool equals_one(size_t rank_count, const Trained& trained, const Trained& alone) {
  const float parameters = largest_difference(trained.parameters, alone.parameters);
  const float losses = largest_difference(trained.losses, alone.losses);
  const bool equal = parameters <= 1e-5f && losses <= 1e-5f;
  std::printf("%zu ranks %s one: parameters differ by %.1e at most, losses by %.1e\n", rank_count,
              equal ? "equal" : "do not equal", static_cast<double>(parameters),
              static_cast<double>(losses));
  return equal;
}

/// All ranks have the same bits, too.
bool check(const std::vector<Trained>& trained, const Trained& alone) {
  for (size_t rank = 1; rank < trained.size(); ++rank) {
    if (trained[rank].parameters == trained[0].parameters) continue;
    std::fprintf(stderr, "ranks 0 and %zu have different parameters\n", rank);
    return false;
  }
  return equals_one(trained.size(), trained[0], alone);
}

/// This process is a rank. The exit code.
int run_launched(const bp::ccl::Job& job, bp::Device device, bool checks) {
  const Trained trained = train(job.create_group(device), device, job.rank() == 0);
  if (!checks) return 0;
  const std::vector<Trained> alone = train_on({device}, false);
  return !alone.empty() && equals_one(job.rank_count(), trained, alone[0]) ? 0 : 1;
}

/// Ranks with one queue would wait in it for each other.
void refuse_shared_queues(const std::vector<bp::Device>& devices) {
  std::set<std::string> queued;
  for (const bp::Device device : devices) {
    if (device.info().execution == BP_EXECUTION_INLINE) continue;
    if (queued.insert(device.name()).second) continue;
    throw std::invalid_argument(device.name() +
                                " is named twice: a device with queues is for one "
                                "rank");
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> names(argv + 1, argv + argc);
  const auto wish = std::find(names.begin(), names.end(), "--check");
  const bool checks = wish != names.end();
  if (checks) names.erase(wish);

  auto rt = bp::Runtime::create();
  const auto job = bp::ccl::Job::from_environment();  // without a launcher: of this process alone
  if (job.rank_count() > 1) {
    if (!names.empty()) throw std::invalid_argument(names[0] + ": the launcher says the device");
    return run_launched(job, rt.device(job.device("cpu:0")), checks);
  }
  if (names.empty()) names = {"npu:0", "xpu:0", "cpu:0"};
  std::vector<bp::Device> devices;
  for (const std::string& name : names) devices.push_back(rt.device(name));
  refuse_shared_queues(devices);

  const std::vector<Trained> trained = train_on(devices, true);
  if (trained.empty()) return 1;
  if (!checks) return 0;
  const std::vector<Trained> alone = train_on({devices[0]}, false);
  return !alone.empty() && check(trained, alone[0]) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "data_parallel: %s\n", error.what());
  return 1;
}
