// SPDX-License-Identifier: Apache-2.0
//
// A Runtime that is closed while other threads are in calls of every kind: they end, or find it
// gone, and close waits for those that were in progress.
#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

constexpr int kRounds = 10;
constexpr int kCallsAfter = 3;
constexpr std::chrono::milliseconds kPause{1};
constexpr int64_t kSizes[] = {2, 2};
constexpr uint32_t kRank = 2;
constexpr uint64_t kBytes = 4 * sizeof(float);
constexpr std::array<float, 4> kValues = {1, -2, 3, -4};
constexpr std::array<float, 4> kTwice = {2, -4, 6, -8};
constexpr std::array<float, 4> kThrice = {3, -6, 9, -12};
constexpr std::array<float, 4> kRelu = {1, 0, 3, 0};

/// What threads share, and one Runtime's objects.
struct World {
  bpa_runtime* runtime;
  bpa_device* device;
  bpa_session* session;
  bpa_tensor* shared;
  std::string device_name;
  std::string model;
  std::array<std::atomic<bpa_tensor*>, 4> exchanged{};  // made by one thread, released by another
  std::atomic<int> callbacks_due{0};                    // and deleters
};

/// Releases what a call answered, whatever that was.
template <class Handle, void (*Release)(Handle*)>
struct Made {
  Handle* handle = nullptr;
  Made() = default;
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() { Release(handle); }
};
using MadeTensor = Made<bpa_tensor, bpa_tensor_release>;
using MadeStream = Made<bpa_stream, bpa_stream_release>;

bpa_status from_host(const World& world, MadeTensor* out) {
  return bpa_tensor_from_host(world.device, BP_DTYPE_F32, kSizes, kRank, kValues.data(), kBytes,
                              &out->handle);
}

bpa_status add_on(bpa_stream* stream, bpa_tensor* a, bpa_tensor* b, MadeTensor* out) {
  const bpa_tensor* inputs[] = {a, b};
  return stream == nullptr
             ? bpa_op_call(nullptr, BP_OP_ADD, inputs, 2, nullptr, 0, &out->handle, 1)
             : bpa_op_call_on(stream, BP_OP_ADD, inputs, 2, nullptr, 0, &out->handle, 1);
}

/// What an operator or a model made of kValues.
bpa_status expect_values(bpa_tensor* tensor, const std::array<float, 4>& expected) {
  std::array<float, 4> found{};
  const bpa_status status = bpa_tensor_to_host(tensor, found.data(), kBytes);
  if (status == BP_OK) EXPECT_EQ(found, expected);
  return status;
}

/// The first that is not OK.
bpa_status all_of(std::initializer_list<std::function<bpa_status()>> calls) {
  for (const auto& call : calls) {
    if (const bpa_status status = call(); status != BP_OK) return status;
  }
  return BP_OK;
}

bpa_status call_operators(World& world) {
  MadeTensor mine;
  MadeTensor sum;
  MadeTensor next;
  return all_of({[&] { return from_host(world, &mine); },
                 [&] { return add_on(nullptr, mine.handle, world.shared, &sum); },
                 [&] { return add_on(nullptr, sum.handle, mine.handle, &next); },
                 [&] { return expect_values(next.handle, kThrice); }});
}

bpa_status use_streams(World& world) {
  MadeStream stream;
  MadeStream standard;
  MadeTensor sum;
  return all_of(
      {[&] { return bpa_stream_create(world.device, &stream.handle); },
       [&] { return bpa_stream_get_default(world.device, &standard.handle); },
       [&] { return add_on(stream.handle, world.shared, world.shared, &sum); },
       [&] {
         const bpa_status status = bpa_stream_query(stream.handle);
         return status == BP_PENDING ? BP_OK : status;
       },
       [&] { return bpa_stream_acquire_tensor(stream.handle, sum.handle, BPA_ACCESS_READ_BIT); },
       [&] { return bpa_stream_sync(stream.handle); },
       [&] { return bpa_stream_reset(stream.handle); },
       [&] { return bpa_stream_sync(standard.handle); },
       [&] { return expect_values(sum.handle, kTwice); }});
}

bpa_status run_session(World& world) {
  const char* names[] = {"x"};
  const bpa_tensor* inputs[] = {world.shared};
  MadeTensor output;
  return all_of(
      {[&] { return bpa_session_run(world.session, names, inputs, 1, &output.handle, 1); },
       [&] { return expect_values(output.handle, kRelu); }});
}

bpa_status run_later(World& world) {
  const char* names[] = {"x"};
  const bpa_tensor* inputs[] = {world.shared};
  bpa_run_args args{};
  args.struct_size = sizeof(args);
  args.input_names = names;
  args.inputs = inputs;
  args.input_count = 1;
  const auto ended = [](void* user, bpa_status status, const char* words, bpa_tensor** outputs,
                        uint64_t count) {
    EXPECT_EQ(count, 1u);
    if (status == BP_OK) {
      const bpa_status read = expect_values(outputs[0], kRelu);
      EXPECT_TRUE(read == BP_OK || read == BP_GONE) << bpa_last_error();
      bpa_tensor_release(outputs[0]);
    } else {
      EXPECT_EQ(outputs[0], nullptr);
    }
    EXPECT_TRUE(status == BP_OK || status == BP_GONE || status == BP_CANCELLED) << words;
    --static_cast<World*>(user)->callbacks_due;
  };
  constexpr int kMostQueued = 4;  // the others want to get on, too
  while (world.callbacks_due > kMostQueued) std::this_thread::sleep_for(kPause);
  ++world.callbacks_due;
  const bpa_status status = bpa_session_run_async(world.session, &args, ended, &world);
  if (status != BP_OK) --world.callbacks_due;
  return status;
}

bpa_status load_session(World& world) {
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = world.device;
  bpa_session* session = nullptr;
  const bpa_status status = bpa_session_load(world.runtime, world.model.c_str(), &args, &session);
  bpa_session_release(session);
  return status;
}

bpa_status ask_devices(World& world) {
  uint64_t count = 0;
  bpa_device* found = nullptr;
  bpa_device_info info{};
  info.struct_size = sizeof(info);
  return all_of(
      {[&] { return bpa_runtime_device_count(world.runtime, &count); },
       [&] { return bpa_runtime_find_device(world.runtime, world.device_name.c_str(), &found); },
       [&] { return bpa_device_get_info(found, &info); },
       [&] { return bpa_device_sync(world.device); }});
}

/// Tensors change hands, so that one thread releases what another one made, and perhaps uses.
bpa_status exchange_tensors(World& world) {
  MadeTensor mine;
  MadeTensor sum;
  MadeTensor old;
  static std::atomic<size_t> turn{0};
  auto& place = world.exchanged[++turn % world.exchanged.size()];
  return all_of({[&] { return from_host(world, &mine); },
                 [&] { return add_on(nullptr, mine.handle, mine.handle, &sum); },
                 [&] {
                   old.handle = place.exchange(std::exchange(sum.handle, nullptr));
                   if (old.handle == nullptr) return bpa_status{BP_OK};
                   const bpa_status status = add_on(nullptr, old.handle, world.shared, &sum);
                   return status == BP_OK ? expect_values(sum.handle, kThrice) : status;
                 }});
}

/// Memory of the caller's, whose end is told once.
bpa_status wrap_memory(World& world) {
  static std::array<float, 4> values = kValues;
  bpa_wrap_args args{};
  args.struct_size = sizeof(args);
  args.memory.handle = reinterpret_cast<uint64_t>(values.data());
  args.bytes = kBytes;
  args.dtype = BP_DTYPE_F32;
  args.rank = kRank;
  args.sizes = kSizes;
  args.deleter = [](void* user) { --static_cast<World*>(user)->callbacks_due; };
  args.user = &world;
  MadeTensor host;
  MadeTensor moved;
  ++world.callbacks_due;
  return all_of({[&] { return bpa_tensor_wrap(nullptr, &args, &host.handle); },
                 [&] { return bpa_tensor_to_device(host.handle, world.device, &moved.handle); },
                 [&] { return expect_values(moved.handle, kValues); }});
}

constexpr struct {
  const char* name;
  bpa_status (*call)(World& world);
} kCallers[] = {
    {"call_operators", call_operators}, {"use_streams", use_streams},
    {"run_session", run_session},       {"run_later", run_later},
    {"load_session", load_session},     {"ask_devices", ask_devices},
    {"call_operators", call_operators}, {"exchange_tensors", exchange_tensors},
    {"wrap_memory", wrap_memory},       {"exchange_tensors", exchange_tensors},
};

class CloseTest : public ApiTest {
 protected:
  /// A Runtime's life among threads that call till its end and a little longer.
  void live_and_close(std::chrono::milliseconds life) {
    open({{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_TIMEOUT", "60"}});
    if (IsSkipped()) return;
    Session session = load("relu");
    Tensor shared = make({1, -2, 3, -4}, {2, 2});
    World world{.runtime = runtime_->handle(),
                .device = device_.handle(),
                .session = session.handle(),
                .shared = shared.handle(),
                .device_name = GetParam(),
                .model = model_path("relu")};
    std::atomic<size_t> begun{0};
    std::atomic<size_t> succeeded{0};  // callers, at least once
    std::atomic<bool> closed{false};
    std::vector<std::thread> threads;
    for (const auto& caller : kCallers) {
      threads.emplace_back([&world, &begun, &succeeded, &closed, &caller] {
        ++begun;
        bool has_succeeded = false;
        for (int late = 0; late < kCallsAfter;) {
          const bool is_late = closed;
          const bpa_status status = caller.call(world);
          const bool is_run = caller.call == run_session;
          const bool is_fine =
              is_late ? status == BP_GONE
                      : status == BP_OK || status == BP_GONE || (is_run && status == BP_CANCELLED);
          EXPECT_TRUE(is_fine) << caller.name << (is_late ? " after" : " before")
                               << " close: " << bpa_status_name(status) << ", " << bpa_last_error();
          if (is_late) ++late;
          if (status == BP_OK && !std::exchange(has_succeeded, true)) ++succeeded;
        }
      });
    }
    // The shortest life may be over before the first call; in any other all calls work once.
    const std::atomic<size_t>& awaited = life == life.zero() ? begun : succeeded;
    while (awaited < std::size(kCallers) && !HasFailure()) std::this_thread::sleep_for(kPause);
    std::this_thread::sleep_for(life);
    EXPECT_EQ(bpa_runtime_close(world.runtime), BP_OK) << bpa_last_error();
    closed = true;
    for (std::thread& thread : threads) thread.join();
    for (auto& place : world.exchanged) bpa_tensor_release(place.exchange(nullptr));
    EXPECT_EQ(world.callbacks_due, 0);
  }
};

TEST_P(CloseTest, Closed_AmidCallsOfEveryKind_TheyEndOrFindItGone) {
  for (int round = 0; round < kRounds && !HasFailure() && !IsSkipped(); ++round) {
    live_and_close(round * 4 * kPause);
  }
}

TEST_P(CloseTest, Closed_ByManyThreads_OneClosesAndAllAnswerOk) {
  for (int round = 0; round < kRounds; ++round) {
    open({});
    if (IsSkipped()) return;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([this] {
        EXPECT_EQ(bpa_runtime_close(runtime_->handle()), BP_OK) << bpa_last_error();
        uint64_t count = 0;
        EXPECT_EQ(bpa_runtime_device_count(runtime_->handle(), &count), BP_GONE);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_P(CloseTest, TwoRuntimesClosedAtOnce_DoNotWaitForEachOther) {
  for (int round = 0; round < kRounds; ++round) {
    open({{"BACKPLANE_TIMEOUT", "60"}});
    if (IsSkipped()) return;
    RuntimeOptions args;
    args.install_dir = BP_PLUGIN_DIR;
    Runtime other = Runtime::create(args);
    const Tensor one = make({1, 2}, {2});
    const Tensor two = Tensor::from_host<float>(other.device(GetParam()), {1.0f, 2.0f}, {2});
    std::thread thread([&] { EXPECT_EQ(bpa_runtime_close(other.handle()), BP_OK); });
    EXPECT_EQ(bpa_runtime_close(runtime_->handle()), BP_OK);
    thread.join();
    for (const Tensor* tensor : {&one, &two}) {
      std::array<float, 2> read{};
      EXPECT_EQ(bpa_tensor_to_host(tensor->handle(), read.data(), sizeof(read)), BP_GONE);
    }
  }
}

TEST_P(CloseTest, Closed_InADeleterOfARelease_Closes) {
  std::vector<float> values = {1, 2};
  bpa_status status = BP_INTERNAL;
  Tensor tensor = Tensor::wrap_host(Device(), values, {2},
                                    [&] { status = bpa_runtime_close(runtime_->handle()); });
  tensor = {};
  EXPECT_EQ(status, BP_OK);
  EXPECT_EQ(status_of([&] { make({1}, {1}); }), BP_GONE);
}

TEST_P(CloseTest, Closed_InALogSink_Closes) {
  struct Closer {
    bpa_runtime* runtime;
    std::atomic<int> closed{0};
    static void close(void* user, uint32_t, const char*, uint64_t) {
      auto& closer = *static_cast<Closer*>(user);
      if (bpa_runtime_close(closer.runtime) == BP_OK) ++closer.closed;
    }
  };
  Closer closer{.runtime = runtime_->handle()};
  bpa_log_set_sink(Closer::close, &closer);
  bpa_tensor_release(reinterpret_cast<bpa_tensor*>(&closer));  // logs that it is none
  bpa_log_set_sink(nullptr, nullptr);
  EXPECT_GE(closer.closed, 1);
  EXPECT_EQ(status_of([&] { make({1}, {1}); }), BP_GONE);
}

INSTANTIATE_TEST_SUITE_P(Devices, CloseTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
