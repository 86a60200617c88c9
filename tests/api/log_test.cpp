// SPDX-License-Identifier: Apache-2.0
//
// The log sink as a user of the API: it may call whatever it likes, and gets the lines of a call in
// order, on the thread that made the call, before the call returns.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

constexpr uint32_t kWarning = 2;
constexpr uint32_t kDebug = 4;

/// Keeps what it gets; on_line is called for each line, and what that logs does not come here.
struct Sink {
  std::function<void(const std::string& line)> on_line = [](const std::string&) {};
  std::mutex mutex;
  std::vector<std::string> lines{};
  std::vector<std::thread::id> threads{};

  void set() { bpa_log_set_sink(add, this); }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex);
    return std::move(lines);
  }
  static void add(void* user, uint32_t, const char* line, uint64_t bytes) {
    auto& sink = *static_cast<Sink*>(user);
    const std::string text(line, bytes);
    {
      const std::lock_guard lock(sink.mutex);
      sink.lines.push_back(text);
      sink.threads.push_back(std::this_thread::get_id());
    }
    sink.on_line(text);
  }
};

/// A hang is a failure with words. It ends the program, since its locks are held for ever.
void within_deadline(const std::function<void()>& body) {
  std::packaged_task<void()> task(body);
  std::future<void> done = task.get_future();
  std::thread thread(std::move(task));
  if (done.wait_for(kTestDeadline) != std::future_status::ready) {
    std::fputs("a call with a log sink that calls the API does not return\n", stderr);
    std::_Exit(1);
  }
  thread.join();
  done.get();
}

/// Each logs one line, which begins with the function's name.
void bad_cancel_release() {
  bpa_cancel* cancel = nullptr;
  EXPECT_EQ(bpa_cancel_create(&cancel), BP_OK);
  bpa_cancel_release(cancel);
  bpa_cancel_release(cancel);
}
void bad_tensor_release() { bpa_tensor_release(reinterpret_cast<bpa_tensor*>(uintptr_t{64})); }

/// One API call: the release of a tensor, with a body that runs inside it.
void inside_a_call(const std::function<void()>& body) {
  std::vector<float> values(4);
  Tensor::wrap_host(Device(), values, {4}, body);
}

class LogTest : public testing::Test {
 protected:
  void SetUp() override { set_log_level(kDebug); }
  void TearDown() override {
    bpa_log_set_sink(nullptr, nullptr);
    set_log_level(kWarning);
  }

  void open(const char* device, const std::map<std::string, std::string>& options = {}) {
    RuntimeOptions args;
    args.install_dir = BP_PLUGIN_DIR;
    args.plugin_path = BP_FAKES_DIR "/good";
    args.options = options;
    runtime_ = Runtime::create(args);
    device_ = runtime_->device(device);
  }
  bpa_status create(int64_t mib) {
    return status_of([&] { Tensor::create(device_, BP_DTYPE_F32, {mib << 18}); });
  }

  std::optional<Runtime> runtime_;
  Device device_;
  Sink sink_;
};

TEST_F(LogTest, OutOfMemory_TheSinkMakesATensor) {
  open("npu:0", {{"npu.memory", "64MiB"}});
  std::atomic<int> made{0};
  sink_.on_line = [&](const std::string& line) {
    if (line.find("OUT_OF_MEMORY") != std::string::npos && create(4) == BP_OK) ++made;
  };
  sink_.set();
  within_deadline([&] { EXPECT_EQ(create(400), BP_OUT_OF_MEMORY); });
  EXPECT_GT(made, 0) << "no line told of it";
}

TEST_F(LogTest, KernelIsLeftOut_TheSinkCallsAnOperator) {
  open("good:0");
  const Tensor x = Tensor::from_host<float>(device_, std::vector<float>{1, 2}, {2});
  std::vector<float> sum;
  sink_.on_line = [&](const std::string& line) {
    if (line.find("left out:") != std::string::npos) sum = add(x, x).to_vector<float>();
  };
  sink_.set();
  within_deadline([&] { add(x, x); });
  EXPECT_EQ(sum, (std::vector<float>{2, 4}));
}

// Among them those of a launch, on the queue's own thread and under the device's lock.
TEST_F(LogTest, AnyDriverCallFails_TheSinkTakesMemory) {
  for (int nth = 1; nth <= 12; ++nth) {
    SCOPED_TRACE(nth);
    std::atomic<bpa_device*> device{nullptr};
    std::atomic<int> calls{0};
    Sink sink;
    sink.on_line = [&](const std::string&) {
      if (device == nullptr) return;
      const int64_t size = 1 << 20;
      bpa_tensor* tensor = nullptr;
      bpa_tensor_create(device, BP_DTYPE_F32, &size, 1, &tensor);
      bpa_tensor_release(tensor);
      ++calls;
    };
    sink.set();
    within_deadline([&] {
      const auto use = [&] {
        open("good:0", {{"good.inject", "fail_call"}, {"good.inject_nth", std::to_string(nth)}});
        device = device_.handle();
        const Tensor x = Tensor::from_host<float>(device_, std::vector<float>(9, 1.0f), {9});
        for (int i = 0; i < 3; ++i) add(x, x).to_vector<float>();
      };
      status_of(use);
      device = nullptr;
      runtime_.reset();
    });
    bpa_log_set_sink(nullptr, nullptr);
    EXPECT_TRUE(calls > 0 || nth == 1);
  }
}

// Its end waits for the thread that the sink is on.
TEST_F(LogTest, SinkOnAThreadOfADevice_CloseIsBusy) {
  std::atomic<bpa_runtime*> runtime{nullptr};
  std::atomic<int> busy{0};
  std::atomic<int> others{0};
  std::atomic<std::thread::id> own;
  sink_.on_line = [&](const std::string&) {
    if (runtime == nullptr || std::this_thread::get_id() == own) return;
    ++(bpa_runtime_close(runtime) == BP_BUSY ? busy : others);
  };
  sink_.set();
  for (int nth = 1; nth <= 12; ++nth) {
    within_deadline([&] {
      own = std::this_thread::get_id();
      status_of([&] {
        open("good:0", {{"good.inject", "fail_call"}, {"good.inject_nth", std::to_string(nth)}});
        const Tensor x = Tensor::from_host<float>(device_, std::vector<float>(9, 1.0f), {9});
        runtime = runtime_->handle();
        add(x, x).to_vector<float>();
      });
      runtime = nullptr;
      runtime_.reset();
    });
  }
  EXPECT_GT(busy, 0) << "no line came on a thread of the device";
  EXPECT_EQ(others, 0);
}

TEST_F(LogTest, SinkOnAThreadOfADevice_ReleasesTheLastOwner) {
  std::optional<Runtime> last;
  std::atomic<bool> is_armed{false};
  std::atomic<bool> is_rehearsal{false};  // shows whether the nth call makes such a line
  std::atomic<bool> is_given{false};
  std::atomic<int> lines{0};
  std::atomic<int> released{0};
  std::atomic<std::thread::id> own;
  sink_.on_line = [&](const std::string&) {
    if (!is_armed || std::this_thread::get_id() == own) return;
    ++lines;
    if (is_rehearsal) return;
    while (is_armed && !is_given) std::this_thread::yield();
    if (!is_given.exchange(false)) return;
    last.reset();
    ++released;
  };
  sink_.set();
  const auto launch = [&](int nth) {
    own = std::this_thread::get_id();
    lines = 0;
    open("npu:0", {{"npu.inject", "fail_call"}, {"npu.inject_nth", std::to_string(nth)}});
    const Tensor x = Tensor::from_host<float>(device_, std::vector<float>(9, 1.0f), {9});
    is_armed = true;
    add(x, x);
  };
  for (int nth = 1; nth <= 12; ++nth) {
    within_deadline([&] {
      is_rehearsal = true;
      status_of([&] { launch(nth); });
      runtime_.reset();  // after the queued work
      is_armed = false;
      is_rehearsal = false;
      if (lines == 0) return;
      status_of([&] { launch(nth); });
      while (lines == 0) std::this_thread::yield();
      last = std::exchange(runtime_, std::nullopt);
      const int before = released;
      is_given = true;
      while (released == before) std::this_thread::yield();
      is_armed = false;
    });
  }
  EXPECT_GT(released, 0) << "no line came on a thread of the device";
}

TEST_F(LogTest, LastError_IsOfTheCallThatLogged) {
  open("npu:0", {{"npu.memory", "64MiB"}});
  sink_.on_line = [](const std::string&) {
    EXPECT_EQ(bpa_tensor_create(nullptr, 0, nullptr, 0, nullptr), BP_INVALID_ARGUMENT);
    EXPECT_NE(std::string(bpa_last_error()).find("out_tensor"), std::string::npos);
  };
  sink_.set();
  std::string words;
  const auto create = [&] { Tensor::create(device_, BP_DTYPE_F32, {100 << 20}); };
  EXPECT_EQ(status_of(create, &words), BP_OUT_OF_MEMORY);
  EXPECT_NE(words.find("out of memory"), std::string::npos) << words;
  EXPECT_FALSE(sink_.take().empty());
  const Tensor x = Tensor::create(device_, BP_DTYPE_F32, {10 << 20});
  EXPECT_EQ(status_of([&] { relu(x); }), BP_OUT_OF_MEMORY);
  EXPECT_STREQ(bpa_last_error_op(), "relu");
  EXPECT_FALSE(sink_.take().empty());
}

TEST_F(LogTest, NamesOfTheCaller_AreCleanInLinesAndInTheLastError) {
  sink_.set();
  RuntimeOptions args;
  args.install_dir = BP_PLUGIN_DIR;
  args.options = {{"BACKPLANE_PLUGIN_PATH", "/none\x1b[2J\nforged \u202e"}};
  runtime_ = Runtime::create(args);
  bool is_told = false;
  for (const std::string& line : sink_.take()) {
    is_told = is_told || line.starts_with("/none [2J forged \ufffd skipped at discover: ");
  }
  EXPECT_TRUE(is_told);
  bpa_device* device = nullptr;
  EXPECT_EQ(bpa_runtime_find_device(runtime_->handle(), "x\x1b[2J\n", &device), BP_UNAVAILABLE);
  const std::string words = bpa_last_error();
  EXPECT_NE(words.find("'x [2J '"), std::string::npos) << words;
}

TEST_F(LogTest, Lines_ComeInOrderAtTheEndOfTheOutermostCall) {
  sink_.set();
  inside_a_call([&] {
    bad_cancel_release();
    bad_tensor_release();
    bad_cancel_release();
    EXPECT_TRUE(sink_.take().empty()) << "the outermost call is not over";
  });
  const std::vector<std::string> lines = sink_.take();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("bpa_cancel_release")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("bpa_tensor_release")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("bpa_cancel_release")) << lines[2];
  for (const std::thread::id thread : sink_.threads) EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST_F(LogTest, Lines_InARunCallback_ComeAtTheEndOfItsCalls) {
  open("npu:0");
  const Session session = Session::load(*runtime_, model_path("relu"), {.device = "npu:0"});
  const Tensor x = Tensor::from_host<float>(device_, std::vector<float>(4, 1.0f), {2, 2});
  std::promise<size_t> count;
  sink_.set();
  session.run_async({{"x", x}}, {}, [&](std::exception_ptr, const NamedTensors&) {
    sink_.take();
    bad_tensor_release();
    count.set_value(sink_.take().size());
  });
  auto counted = count.get_future();
  ASSERT_EQ(counted.wait_for(kTestDeadline), std::future_status::ready);
  EXPECT_EQ(counted.get(), 1u);
}

TEST_F(LogTest, ManyLines_TheLastTellsHowManyWereDropped) {
  sink_.set();
  inside_a_call([] {
    for (int i = 0; i < 1234; ++i) bad_tensor_release();
  });
  const std::vector<std::string> lines = sink_.take();
  ASSERT_EQ(lines.size(), 1001u);
  EXPECT_TRUE(lines[999].starts_with("bpa_tensor_release")) << lines[999];
  EXPECT_EQ(lines[1000], "234 more log lines of this call were dropped");
  bad_tensor_release();
  EXPECT_EQ(sink_.take().size(), 1u) << "a later call begins anew";
}

TEST_F(LogTest, SinkReplacedMeanwhile_TheNewOneGetsTheLines) {
  Sink newer;
  sink_.set();
  inside_a_call([&] {
    bad_tensor_release();
    std::thread([&] { newer.set(); }).join();
    bad_cancel_release();
  });
  EXPECT_TRUE(sink_.take().empty()) << "it was replaced before";
  EXPECT_EQ(newer.take().size(), 2u);
}

TEST_F(LogTest, SinkReplacedByItself_TheNewOneGetsTheRest) {
  Sink newer;
  sink_.on_line = [&](const std::string&) { newer.set(); };
  sink_.set();
  inside_a_call([] {
    for (int i = 0; i < 3; ++i) bad_tensor_release();
  });
  EXPECT_EQ(sink_.take().size(), 1u);
  EXPECT_EQ(newer.take().size(), 2u);
}

TEST_F(LogTest, SinkThrows_NeitherTheCallNorTheNextLineIsLost) {
  sink_.on_line = [](const std::string&) { throw std::runtime_error("from the sink"); };
  sink_.set();
  inside_a_call([] {
    bad_tensor_release();
    bad_cancel_release();
  });
  EXPECT_EQ(sink_.take().size(), 2u);
  EXPECT_EQ(status_of([] { Cancel::create(); }), BP_OK);
}

TEST_F(LogTest, DeleterThrows_IsToldAndNothingElseIsLost) {
  sink_.set();
  float value = 1;
  const int64_t size = 1;
  bpa_wrap_args args{};
  args.struct_size = sizeof(args);
  args.memory = {reinterpret_cast<uint64_t>(&value), 0};
  args.bytes = sizeof(value);
  args.dtype = BP_DTYPE_F32;
  args.sizes = &size;
  args.rank = 1;
  args.deleter = [](void*) { throw std::runtime_error("from the deleter"); };
  bpa_tensor* tensor = nullptr;
  ASSERT_EQ(bpa_tensor_wrap(nullptr, &args, &tensor), BP_OK);
  bpa_tensor_release(tensor);
  EXPECT_EQ(sink_.take(), std::vector<std::string>{
                              "a deleter of the application's threw, and the exception is lost: "
                              "from the deleter"});
}

}  // namespace
}  // namespace bp
