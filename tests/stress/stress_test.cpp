// SPDX-License-Identifier: Apache-2.0
//
// Many threads make random calls of the application API at once, on all devices, with tensors and
// sessions that they share; every value that comes back is checked. BP_STRESS_THREADS,
// BP_STRESS_SECONDS and BP_STRESS_SEED change the run.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "tests/environment.hpp"
#include "tests/stress/value.hpp"

namespace bp::stress {
namespace {

using Random = std::mt19937_64;

// Fault words and the like, which streams keep for later.
constexpr uint64_t kKeptBytes = 64 << 10;

RuntimeOptions runtime_options() {
  return {.install_dir = BP_PLUGIN_DIR,
          .options = {{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_TIMEOUT", "300"}}};
}

class Stress {
 public:
  explicit Stress(uint64_t seed) : seed_(seed), runtime_(Runtime::create(runtime_options())) {
    devices_ = runtime_.devices();
    for (const Device& device : devices_) used_before_.push_back(device.info().memory_used_bytes);
    for (size_t i = 0; i < devices_.size(); ++i) references_.push_back(run_digits(load_digits(i)));
    for (size_t i = 0; i < devices_.size(); ++i) sessions_.push_back(load_digits(i));
  }

  void run(uint64_t threads, std::chrono::seconds time);
  void close();
  uint64_t call_count() const { return call_count_; }
  uint64_t checked_count() const { return checked_count_; }
  const std::string& first_problem() const { return first_problem_; }

 private:
  void work(uint64_t index, std::chrono::steady_clock::time_point end);
  void one_call(Random& random);

  void make(Random& random);
  void combine(Random& random);
  void view(Random& random);
  void reduce(Random& random);
  void move(Random& random);
  void read(Random& random);
  void ask(Random& random);
  void misuse(Random& random);
  void contest(Random& random);
  void run_session(Random& random);
  void reload_session(Random& random);
  void other_runtime(Random& random);

  Session load_digits(size_t device) const;
  static Numbers run_digits(const Session& session);
  std::optional<Value> partner_of(const Value& value, Random& random);
  void keep(Value value, Random& random);
  void compare(const Numbers& found, const Numbers& expected, float tolerance,
               const std::string& what);
  void problem(const std::string& what);
  Device device_at(int index) const {
    return index < 0 ? Device() : devices_[static_cast<size_t>(index)];
  }
  int any_device(Random& random) const { return static_cast<int>(random() % devices_.size()); }

  const uint64_t seed_;
  Runtime runtime_;
  std::vector<Device> devices_;
  std::vector<uint64_t> used_before_;
  Pool pool_;
  std::mutex sessions_mutex_;
  std::vector<Session> sessions_;  // one per device
  std::vector<Numbers> references_;
  std::mutex other_runtime_mutex_;
  // Raw handles that some threads use while others release them.
  std::array<std::atomic<bpa_tensor*>, 4> contested_{};
  std::atomic<uint64_t> call_count_{0};
  std::atomic<uint64_t> checked_count_{0};
  std::atomic<bool> stopped_{false};
  std::mutex problem_mutex_;
  std::string first_problem_;
};

void Stress::problem(const std::string& what) {
  stopped_ = true;
  const std::lock_guard lock(problem_mutex_);
  if (first_problem_.empty()) first_problem_ = what + " (seed " + std::to_string(seed_) + ")";
}

void Stress::compare(const Numbers& found, const Numbers& expected, float tolerance,
                     const std::string& what) {
  ++checked_count_;
  if (found.size() != expected.size()) return problem(what + ": the number of values differs");
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::fabs(found[i] - expected[i]) <= tolerance) continue;
    return problem(what + ": value " + std::to_string(i) + " is " + std::to_string(found[i]) +
                   ", expected " + std::to_string(expected[i]));
  }
}

void Stress::keep(Value value, Random& random) {
  if (largest(value.expected) > kLargest) return;  // read by nobody, released at once
  pool_.put(random, std::move(value));
}

void Stress::make(Random& random) {
  static const std::vector<Sizes> kSizes = {{0}, {1}, {5}, {4, 8}, {16, 16}, {8, 4}, {3000}};
  Value value;
  value.sizes = kSizes[random() % kSizes.size()];
  value.device = random() % 8 == 0 ? -1 : any_device(random);
  value.expected.resize(count_of(value.sizes));
  for (float& number : value.expected) number = static_cast<float>(random() % 9) - 4;
  value.tensor = Tensor::from_host<float>(device_at(value.device), value.expected, value.sizes);
  keep(std::move(value), random);
}

/// Another one that elementwise operators take beside this one; itself, if none is found soon.
std::optional<Value> Stress::partner_of(const Value& value, Random& random) {
  for (int i = 0; i < 8; ++i) {
    std::optional<Value> other = pool_.take(random);
    if (!other || other->device != value.device) continue;
    if (other->sizes == value.sizes || other->sizes == Sizes{1}) return other;
  }
  return value;
}

void Stress::combine(Random& random) {
  const std::optional<Value> a = pool_.take(random);
  if (!a || a->device < 0) return;
  const std::optional<Value> b = partner_of(*a, random);
  Value result{{}, {}, a->sizes, a->device};
  switch (random() % 6) {
    case 0:
      result.tensor = add(a->tensor, b->tensor);
      result.expected =
          elementwise(a->expected, b->expected, [](float x, float y) { return x + y; });
      break;
    case 1:
      result.tensor = sub(a->tensor, b->tensor);
      result.expected =
          elementwise(a->expected, b->expected, [](float x, float y) { return x - y; });
      break;
    case 2:
      result.tensor = mul(a->tensor, b->tensor);
      result.expected =
          elementwise(a->expected, b->expected, [](float x, float y) { return x * y; });
      break;
    case 3:
      result.tensor = max(a->tensor, b->tensor);
      result.expected =
          elementwise(a->expected, b->expected, [](float x, float y) { return std::max(x, y); });
      break;
    case 4:
      result.tensor = relu(a->tensor);
      result.expected =
          elementwise(a->expected, {0}, [](float x, float y) { return std::max(x, y); });
      break;
    default:
      if (a->sizes != Sizes{16, 16} || b->sizes != a->sizes) return;
      result.tensor = matmul(a->tensor, b->tensor);
      result.expected = multiplied(a->expected, b->expected, 16);
  }
  keep(std::move(result), random);
}

/// Tensors that share memory with others.
void Stress::view(Random& random) {
  const std::optional<Value> a = pool_.take(random);
  if (!a || a->device < 0) return;
  Value result{{}, a->expected, a->sizes, a->device};
  if (a->sizes.size() == 2) {
    result.tensor = transpose(a->tensor);
    result.expected = transposed(a->expected, a->sizes);
    std::swap(result.sizes[0], result.sizes[1]);
  } else {
    const auto count = static_cast<int64_t>(a->expected.size());
    if (count == 0) return;
    result.tensor = reshape(reshape(a->tensor, {1, count}), {count});
  }
  keep(std::move(result), random);
}

void Stress::reduce(Random& random) {
  const std::optional<Value> a = pool_.take(random);
  if (!a || a->device < 0 || a->sizes.size() != 2) return;
  Value result{reduce_sum(a->tensor, {.axes = {1}, .keepdims = false}),
               row_sums(a->expected, a->sizes),
               {a->sizes[0]},
               a->device};
  keep(std::move(result), random);
}

void Stress::move(Random& random) {
  std::optional<Value> a = pool_.take(random);
  if (!a) return;
  a->device = any_device(random);
  a->tensor = a->tensor.to(device_at(a->device));
  keep(std::move(*a), random);
}

void Stress::read(Random& random) {
  const std::optional<Value> a = pool_.take(random);
  if (a) compare(a->tensor.to_vector<float>(), a->expected, 0, "a tensor");
}

void Stress::ask(Random& random) {
  const Device device = device_at(any_device(random));
  switch (random() % 4) {
    case 0:
      return device.sync();
    case 1:
      if (device.info().memory_reserved_bytes < device.info().memory_used_bytes) {
        problem("a device uses more memory than it has reserved, twice");
      }
      return;
    case 2:
      if (runtime_.device(device.name()).handle() != device.handle()) {
        problem("a device's name finds another device");
      }
      return;
    default:
      // Made and never written.
      const std::vector<int64_t> sizes = {static_cast<int64_t>(random() % 5000), 3};
      if (Tensor::create(device, BP_DTYPE_I64, sizes).sizes() != sizes) {
        problem("a new tensor has other sizes");
      }
  }
}

/// Each thread must find the words of its own error.
void Stress::misuse(Random& random) {
  const Device device = device_at(any_device(random));
  const auto count = static_cast<int64_t>(2 + random() % 1000);
  const Tensor a = Tensor::create(device, BP_DTYPE_F32, std::vector<int64_t>{count});
  const Tensor b = Tensor::create(device, BP_DTYPE_F32, std::vector<int64_t>{count + 1});
  try {
    static_cast<void>(add(a, b));
    problem("tensors of different sizes were added");
  } catch (const Error& error) {
    const std::string words = error.what();
    if (error.status() != BP_INVALID_ARGUMENT ||
        words.find(std::to_string(count + 1)) == std::string::npos) {
      problem("the sizes " + std::to_string(count) + " and " + std::to_string(count + 1) +
              " were refused with: " + words);
    }
  }
}

/// The values are all 2, so that whichever tensor is found is right.
void Stress::contest(Random& random) {
  constexpr size_t kCount = 8;
  std::atomic<bpa_tensor*>& place = contested_[random() % contested_.size()];
  if (random() % 2 == 0) {
    const std::array<float, kCount> twos{2, 2, 2, 2, 2, 2, 2, 2};
    const int64_t size = kCount;
    bpa_tensor* made = nullptr;
    const Device device = device_at(any_device(random));
    if (bpa_tensor_from_host(device.handle(), BP_DTYPE_F32, &size, 1, twos.data(), sizeof(twos),
                             &made) != BP_OK) {
      problem(std::string("a contested tensor was not made: ") + bpa_last_error());
    }
    bpa_tensor_release(place.exchange(made));
    return;
  }
  bpa_tensor* const found = place;
  bpa_tensor* sum = nullptr;
  const bpa_tensor* inputs[] = {found, found};
  bpa_status status = bpa_op_call(runtime_.handle(), BP_OP_ADD, inputs, 2, nullptr, 0, &sum, 1);
  std::array<float, kCount> read{};
  if (status == BP_OK) status = bpa_tensor_to_host(sum, read.data(), sizeof(read));
  bpa_tensor_release(sum);
  if (status == BP_OK) {
    compare(Numbers(read.begin(), read.end()), Numbers(kCount, 4), 0, "a contested tensor");
  } else if (status != BP_INVALID_ARGUMENT) {
    problem(std::string("a contested tensor was refused with: ") + bpa_last_error());
  }
}

Session Stress::load_digits(size_t device) const {
  SessionOptions options;
  options.device = devices_[device].name();
  options.max_contexts = 3;
  return Session::load(runtime_, BP_DIGITS_DIR "/digits.onnx", options);
}

Numbers Stress::run_digits(const Session& session) {
  bpa_io_info info{};
  info.struct_size = sizeof(info);
  detail::check(bpa_session_get_input(session.handle(), 0, &info));
  Sizes sizes(info.sizes, info.sizes + info.rank);
  for (int64_t& size : sizes) size = std::max<int64_t>(size, 1);
  Numbers image(count_of(sizes));
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 7) / 8;
  const Tensor input = Tensor::from_host<float>(Device(), image, sizes);
  return session.run({{info.name, input}}).begin()->second.to_vector<float>();
}

void Stress::run_session(Random& random) {
  const auto device = static_cast<size_t>(any_device(random));
  std::unique_lock lock(sessions_mutex_);
  const Session session = sessions_[device];
  lock.unlock();
  compare(run_digits(session), references_[device], 1e-3f,
          "a session on " + devices_[device].name());
}

void Stress::reload_session(Random& random) {
  const auto device = static_cast<size_t>(any_device(random));
  Session session = load_digits(device);
  const std::lock_guard lock(sessions_mutex_);
  std::swap(sessions_[device], session);
}

/// A second Runtime beside the first, with everything gone again before it is let go or after.
void Stress::other_runtime(Random& random) {
  const std::unique_lock lock(other_runtime_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  Runtime runtime = Runtime::create(runtime_options());
  const auto devices = runtime.devices();
  const Device device = devices[random() % devices.size()];
  const Tensor a = Tensor::from_host<float>(device, Numbers{1, 2, 3}, {3});
  const Tensor b = add(a, a);
  if (random() % 2 == 0) {
    compare(b.to_vector<float>(), {2, 4, 6}, 0, "a tensor of a second Runtime");
    return;
  }
  runtime.close();
  try {
    static_cast<void>(add(a, a));
    problem("a closed Runtime still adds");
  } catch (const Error& error) {
    if (error.status() != BP_GONE) problem(std::string("after close: ") + error.what());
  }
}

void Stress::one_call(Random& random) {
  const uint64_t kind = random() % 1000;
  if (kind < 120) return make(random);
  if (kind < 150) return contest(random);
  if (kind < 500) return combine(random);
  if (kind < 580) return view(random);
  if (kind < 640) return reduce(random);
  if (kind < 720) return move(random);
  if (kind < 840) return read(random);
  if (kind < 900) return ask(random);
  if (kind < 930) return misuse(random);
  if (kind < 960) return pool_.put(random, std::nullopt);
  if (kind < 996) return run_session(random);
  if (kind < 998) return reload_session(random);
  return other_runtime(random);
}

void Stress::work(uint64_t index, std::chrono::steady_clock::time_point end) {
  Random random(seed_ * 1000 + index);
  try {
    while (!stopped_ && std::chrono::steady_clock::now() < end) {
      one_call(random);
      ++call_count_;
    }
  } catch (const std::exception& error) {
    problem(error.what());
  }
}

void Stress::run(uint64_t thread_count, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < thread_count; ++i) threads.emplace_back([=, this] { work(i, end); });
  for (std::thread& thread : threads) thread.join();
}

/// Nothing may be left on any device when the last handle is gone.
void Stress::close() {
  for (auto& place : contested_) bpa_tensor_release(place.exchange(nullptr));
  pool_.clear();
  sessions_.clear();
  for (size_t i = 0; i < devices_.size(); ++i) {
    devices_[i].sync();
    const uint64_t used_bytes = devices_[i].info().memory_used_bytes;
    EXPECT_LE(used_bytes, used_before_[i] + kKeptBytes) << devices_[i].name();
  }
  runtime_.close();
}

TEST(Stress, RandomCallsFromManyThreads_GiveTheRightValues) {
  const uint64_t thread_count = tests::number_from_environment("BP_STRESS_THREADS", 16);
  const uint64_t seconds = tests::number_from_environment("BP_STRESS_SECONDS", 3);
  Stress stress(tests::number_from_environment("BP_STRESS_SEED", 1));
  stress.run(thread_count, std::chrono::seconds(seconds));
  EXPECT_EQ(stress.first_problem(), "");
  EXPECT_GT(stress.call_count(), 10 * thread_count);
  EXPECT_GT(stress.checked_count(), thread_count);
  stress.close();
  std::cout << stress.call_count() << " calls, " << stress.checked_count() << " checks\n";
}

}  // namespace
}  // namespace bp::stress
