// SPDX-License-Identifier: Apache-2.0
//
// Which operator an error is about: of calls, runs and callbacks, per thread.
#include <future>
#include <thread>

#include "backplane/ops.h"
#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

class ErrorOpTest : public ApiTest {
 protected:
  Tensor ones(std::initializer_list<int64_t> sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    return make(std::vector<float>(static_cast<size_t>(count), 1.0f), sizes);
  }
  bpa_status call_matmul(const Tensor& a, const Tensor& b) {
    bpa_tensor* made = nullptr;
    return bpa_matmul(runtime_->handle(), a.handle(), b.handle(), &made);
  }
  /// An error of no operator.
  void look_for_no_device() {
    bpa_device* device = nullptr;
    EXPECT_EQ(bpa_runtime_find_device(runtime_->handle(), "nope:0", &device), BP_UNAVAILABLE);
  }
  /// What the function throws; it is to throw.
  template <class Function>
  static Error error_of(Function function) {
    try {
      function();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error(BP_OK, "");
  }
};

TEST_P(ErrorOpTest, Call_IsRefused_ItsOperatorIsTold) {
  EXPECT_EQ(call_matmul(ones({2, 3}), ones({2, 3})), BP_INVALID_ARGUMENT);
  EXPECT_STREQ(bpa_last_error_op(), "matmul");
  EXPECT_EQ(error_of([&] { add(ones({2}), ones({3})); }).op(), "add");
  EXPECT_STREQ(bpa_last_error_op(), "add") << "the newest";
  look_for_no_device();
  EXPECT_STREQ(bpa_last_error_op(), "");
  EXPECT_EQ(error_of([&] { runtime_->device("nope:0"); }).op(), "");
}

TEST_P(ErrorOpTest, Call_WithWrongNumbers_TellsAsWell) {
  const Tensor x = ones({2});
  const bpa_tensor* both[] = {x.handle(), x.handle(), x.handle()};
  bpa_tensor* made[2] = {};
  const auto call = [&](uint32_t op, uint32_t inputs, uint32_t outputs) {
    return bpa_op_call(nullptr, op, both, inputs, nullptr, 0, made, outputs);
  };
  EXPECT_EQ(call(BP_OP_ADD, 2, 2), BP_INVALID_ARGUMENT);  // of the library's door
  EXPECT_STREQ(bpa_last_error_op(), "add");
  EXPECT_EQ(call(BP_OP_RELU, 3, 1), BP_INVALID_ARGUMENT);  // of the call behind it
  EXPECT_STREQ(bpa_last_error_op(), "relu");
  EXPECT_EQ(call(UINT32_MAX, 2, 1), BP_INVALID_ARGUMENT);
  EXPECT_STREQ(bpa_last_error_op(), "") << "no operator has that id";
}

TEST_P(ErrorOpTest, Call_AfterClose_TellsItsOperator) {
  const Tensor x = ones({2});
  runtime_->close();
  EXPECT_EQ(error_of([&] { relu(x); }).op(), "relu");
  EXPECT_EQ(call_matmul(x, x), BP_GONE);
  EXPECT_STREQ(bpa_last_error_op(), "matmul");
}

TEST_P(ErrorOpTest, Threads_HaveTheirOwn) {
  const Tensor wide = ones({2, 3});
  std::promise<void> failed;
  std::promise<void> go;
  std::thread other([&] {
    EXPECT_STREQ(bpa_last_error_op(), "") << "none yet";
    EXPECT_EQ(call_matmul(wide, wide), BP_INVALID_ARGUMENT);
    failed.set_value();
    go.get_future().wait();
    EXPECT_STREQ(bpa_last_error_op(), "matmul");
  });
  failed.get_future().wait();
  EXPECT_EQ(error_of([&] { add(wide, ones({4})); }).op(), "add");
  EXPECT_STREQ(bpa_last_error_op(), "add");
  go.set_value();
  other.join();
  std::thread next([] { EXPECT_STREQ(bpa_last_error_op(), "") << "another thread's is left"; });
  next.join();
}

TEST_P(ErrorOpTest, Run_ANodeFails_ItsOperatorIsTold) {
  const Session session = load("fixed_sum");  // of w, of 4 rows
  const NamedTensors x = {{"x", ones({3, 2})}};
  const Error direct = error_of([&] { session.run(x); });
  EXPECT_EQ(direct.op(), "add") << direct.what();
  EXPECT_NE(std::string(direct.what()).find("node"), std::string::npos) << direct.what();
  auto future = session.run_async(x);
  ASSERT_EQ(future.wait_for(kTestDeadline), std::future_status::ready);
  const Error later = error_of([&] { future.get(); });
  EXPECT_EQ(later.op(), "add");
  EXPECT_STREQ(later.what(), direct.what());
  const Error wrong = error_of([&] { session.run({{"x", ones({3})}}); });
  EXPECT_EQ(wrong.op(), "") << "it is an input's: " << wrong.what();
}

TEST_P(ErrorOpTest, Fault_OfALookup_GoesWithItsResults) {
  const Session session = load("lookup");
  const Tensor index = Tensor::from_host<int64_t>(device_, std::vector<int64_t>{2, 99}, {2});
  // In the run, or where its result is read.
  const Error error = error_of([&] {
    session.run({{"x", ones({4})}, {"index", index}}).at("y").to_vector<float>();
  });
  EXPECT_EQ(error.op(), "gather") << error.what();
}

TEST_P(ErrorOpTest, Callback_AsksForTheErrorOfItsRun) {
  struct Found {
    std::promise<void> called;
    std::string words;
    std::string message;
    std::string op;
  } found;
  std::promise<void> deleted;
  auto is_deleted = deleted.get_future();
  const Session session = load("fixed_sum");
  std::vector<float> values(6, 1.0f);
  const auto start = [&](const Tensor& x, bpa_run_callback callback) {
    const char* const names[] = {"x"};
    const bpa_tensor* const inputs[] = {x.handle()};
    bpa_run_args args{};
    args.struct_size = sizeof(args);
    args.input_names = names;
    args.inputs = inputs;
    args.input_count = 1;
    ASSERT_EQ(bpa_session_run_async(session.handle(), &args, callback, &found), BP_OK)
        << bpa_last_error();
  };
  // The run is the last owner of its input, whose end makes an error of its own.
  start(Tensor::wrap_host(Device(), values, {3, 2},
                          [&] {
                            look_for_no_device();
                            deleted.set_value();
                          }),
        [](void* user, bpa_status, const char* message, bpa_tensor**, uint64_t) {
          auto& out = *static_cast<Found*>(user);
          out.message = message;
          out.words = bpa_last_error();
          out.op = bpa_last_error_op();
          out.called.set_value();
        });
  ASSERT_EQ(found.called.get_future().wait_for(kTestDeadline), std::future_status::ready);
  EXPECT_EQ(found.op, "add");
  EXPECT_EQ(found.words, found.message);
  EXPECT_NE(found.message.find("add"), std::string::npos) << found.message;
  // Elsewhere the copy to the device may hold it for longer than the run does.
  const auto limit = GetParam() == "cpu:0" ? std::chrono::seconds(0) : kTestDeadline;
  EXPECT_EQ(is_deleted.wait_for(limit), std::future_status::ready);
}

INSTANTIATE_TEST_SUITE_P(Devices, ErrorOpTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

TEST(ErrorTest, Copies_ThrowNothingAndKeepTheOperator) {
  static_assert(std::is_nothrow_copy_constructible_v<Error>);
  const Error error(BP_INTERNAL, "words", "scaled_dot_product_attention");
  const Error copy = error;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(copy.op(), "scaled_dot_product_attention");
  EXPECT_STREQ(copy.what(), "INTERNAL: words");
  EXPECT_EQ(Error(BP_INTERNAL, "words").op(), "");
}

}  // namespace
}  // namespace bp
