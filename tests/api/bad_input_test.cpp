// SPDX-License-Identifier: Apache-2.0
//
// Every exported function with every argument wrong in every way that the generator knows: each
// answers with a status and the argument's name, changes nothing, and leaves the next call as it
// was. The same calls with valid arguments work, from anywhere, and after close answer GONE.
#include "tests/api/bad_input.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <future>
#include <memory>
#include <set>
#include <string>

namespace bp::bad_input {
namespace {

bool is_valid_case(const Case& c) { return std::string(c.argument).empty(); }

std::string name_of(const Case& c) {
  return std::string(c.function) + "(" + c.argument + ": " + c.what + ")";
}

void run_case(Fixture& f, const Case& c) {
  f.refresh();
  c.run(f);
  if (std::string(c.function) == "bpa_session_run_async" && f.result == BP_OK) f.note_async_run();
}

class BadInputTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { fixture_ = std::make_unique<Fixture>(); }
  static void TearDownTestSuite() { fixture_ = nullptr; }
  void TearDown() override { bpa_log_set_sink(nullptr, nullptr); }

  static std::unique_ptr<Fixture> fixture_;
};
std::unique_ptr<Fixture> BadInputTest::fixture_;

TEST_F(BadInputTest, EachFunctionHasCases) {
  std::set<std::string> functions;
  size_t wrong = 0;
  for (const Case& c : cases()) {
    functions.insert(c.function);
    wrong += is_valid_case(c) ? 0 : 1;
  }
  EXPECT_GE(functions.size(), 30u);
  EXPECT_GE(wrong, 500u);
}

TEST_F(BadInputTest, WrongArguments_AreRefusedByName) {
  // A line for each bad release is as it should be, and is not to be read here.
  bpa_log_set_sink([](void*, uint32_t, const char*, uint64_t) {}, nullptr);
  for (const Case& c : cases()) {
    if (is_valid_case(c)) continue;
    SCOPED_TRACE(name_of(c));
    run_case(*fixture_, c);
    if (c.has_status) {
      EXPECT_TRUE(fixture_->result == BP_INVALID_ARGUMENT || fixture_->result == BP_UNSUPPORTED)
          << bpa_status_name(fixture_->result) << ": " << bpa_last_error();
      EXPECT_FALSE(fixture_->left_something) << "an out argument is not 0 after an error";
    }
    EXPECT_NE(std::string(bpa_last_error()).find(c.words), std::string::npos) << bpa_last_error();
  }
}

TEST_F(BadInputTest, ValidArguments_Work) {
  for (const Case& c : cases()) {
    if (!is_valid_case(c)) continue;
    SCOPED_TRACE(c.function);
    run_case(*fixture_, c);
    EXPECT_EQ(fixture_->result, BP_OK) << bpa_last_error();
    EXPECT_FALSE(fixture_->left_something);
  }
  EXPECT_TRUE(fixture_->wait_for_runs());
}

struct FromSink {
  Fixture* fixture;
  const Case* c;
  int calls = 0;
};

TEST_F(BadInputTest, ValidArguments_FromTheLogSink_Work) {
  for (const Case& c : cases()) {
    if (!is_valid_case(c)) continue;
    SCOPED_TRACE(c.function);
    fixture_->refresh();
    FromSink from{fixture_.get(), &c};
    bpa_log_set_sink(
        [](void* user, uint32_t, const char*, uint64_t) {
          auto& me = *static_cast<FromSink*>(user);
          if (++me.calls == 1) me.c->run(*me.fixture);
        },
        &from);
    bpa_tensor_release(fixture_->stale_tensor);  // logs a line
    bpa_log_set_sink(nullptr, nullptr);
    EXPECT_GE(from.calls, 1);
    EXPECT_EQ(fixture_->result, BP_OK) << bpa_last_error();
    if (std::string(c.function) == "bpa_session_run_async") fixture_->note_async_run();
    EXPECT_TRUE(fixture_->wait_for_runs());
  }
}

struct FromCallback {
  Fixture* fixture;
  const Case* c;
  std::promise<std::string> words;
};

TEST_F(BadInputTest, ValidArguments_FromARunCallback_Work) {
  for (const Case& c : cases()) {
    if (!is_valid_case(c)) continue;
    SCOPED_TRACE(c.function);
    fixture_->refresh();
    FromCallback from{fixture_.get(), &c, {}};
    const bpa_run_args args = fixture_->run_args();
    const auto callback = [](void* user, bpa_status status, const char* message,
                             bpa_tensor** outputs, uint64_t) {
      auto& me = *static_cast<FromCallback*>(user);
      bpa_tensor_release(outputs[0]);
      if (status != BP_OK) return me.words.set_value(message);
      me.c->run(*me.fixture);
      me.words.set_value(me.fixture->result == BP_OK ? "" : bpa_last_error());
    };
    ASSERT_EQ(bpa_session_run_async(fixture_->session, &args, callback, &from), BP_OK);
    auto words = from.words.get_future();
    ASSERT_EQ(words.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    EXPECT_EQ(words.get(), "");
    if (std::string(c.function) == "bpa_session_run_async") fixture_->note_async_run();
    EXPECT_TRUE(fixture_->wait_for_runs());
  }
}

TEST_F(BadInputTest, AfterClose_CallsAnswerGoneOrNeedNoDevice) {
  // These look at what is in the objects, or make new ones.
  const std::set<std::string> needs_none = {"bpa_ccl_group_abort",
                                            "bpa_ccl_group_get_error",
                                            "bpa_ccl_group_get_info",
                                            "bpa_ccl_group_get_trace",
                                            "bpa_ccl_work_get_error",
                                            "bpa_ccl_store_create_memory",
                                            "bpa_ccl_mesh_get_group",
                                            "bpa_ccl_mesh_get_shard",
                                            "bpa_ccl_data_parallel_get_info",
                                            "bpa_ccl_data_parallel_get_gradient",
                                            "bpa_log_set_level",
                                            "bpa_runtime_create",
                                            "bpa_runtime_close",
                                            "bpa_device_feature_count",
                                            "bpa_session_input_count",
                                            "bpa_session_output_count",
                                            "bpa_session_get_input",
                                            "bpa_session_get_output",
                                            "bpa_session_get_placement",
                                            "bpa_session_node_count",
                                            "bpa_session_get_node",
                                            "bpa_cancel_create",
                                            "bpa_cancel_request",
                                            "bpa_cancel_reset",
                                            "bpa_tensor_get_info",
                                            "bpa_ccl_job_create",
                                            "bpa_ccl_job_get_info",
                                            "bpa_ccl_job_get_store",
                                            "bpa_ccl_store_create_file",
                                            "bpa_ccl_store_create_tcp"};
  Fixture closed;
  ASSERT_EQ(bpa_runtime_close(closed.runtime), BP_OK) << bpa_last_error();
  for (const Case& c : cases()) {
    if (!is_valid_case(c) || !c.has_status) continue;
    SCOPED_TRACE(c.function);
    closed.result = BP_OK;
    c.run(closed);
    if (needs_none.contains(c.function)) {
      EXPECT_EQ(closed.result, BP_OK) << bpa_last_error();
    } else {
      EXPECT_EQ(closed.result, BP_GONE) << bpa_last_error();
      EXPECT_FALSE(closed.left_something);
    }
  }
}

// A caller newer than the library sets a member that the library does not know.
template <class Args>
struct Newer {
  Args args;
  uint64_t added = 1;
};

template <class Args>
Newer<Args> newer(Args args) {
  args.struct_size = sizeof(Newer<Args>);
  return {args};
}

TEST_F(BadInputTest, MembersFromTheFuture_AreRefusedUnlessZero) {
  Fixture& f = *fixture_;
  auto runtime_args = newer(f.runtime_args());
  auto wrap_args = newer(f.wrap_args());
  auto session_args = newer(f.session_args());
  auto run_args = newer(f.run_args());
  auto group_args = newer(f.group_args());
  auto options = newer(f.ccl_options());
  bpa_runtime* runtime = nullptr;
  bpa_tensor* tensor = nullptr;
  bpa_session* session = nullptr;
  bpa_ccl_group* group = nullptr;
  auto mesh_args = newer(f.mesh_args());
  auto parallel_args = newer(f.parallel_args());
  auto moves = newer(f.redistribute_args());
  bpa_ccl_mesh* mesh = nullptr;
  bpa_ccl_data_parallel* parallel = nullptr;
  const auto all = [&] {
    return std::array{bpa_runtime_create(&runtime_args.args, &runtime),
                      bpa_tensor_wrap(f.device, &wrap_args.args, &tensor),
                      bpa_session_load(f.runtime, f.model_path, &session_args.args, &session),
                      bpa_ccl_group_create(f.device, &group_args.args, &group),
                      bpa_ccl_barrier(f.group, &options.args, nullptr),
                      bpa_ccl_mesh_create(f.device, &mesh_args.args, &mesh),
                      bpa_ccl_data_parallel_create(f.group, &parallel_args.args, &parallel)};
  };
  for (const bpa_status status : all()) EXPECT_EQ(status, BP_UNSUPPORTED);
  EXPECT_EQ(bpa_session_run_with(f.session, &run_args.args, &tensor, 1), BP_UNSUPPORTED);
  EXPECT_NE(std::string(bpa_last_error()).find("argument args"), std::string::npos);
  runtime_args.added = wrap_args.added = session_args.added = run_args.added = 0;
  group_args.added = options.added = mesh_args.added = parallel_args.added = 0;
  for (const bpa_status status : all()) EXPECT_EQ(status, BP_OK) << bpa_last_error();
  bpa_runtime_release(runtime);
  bpa_tensor_release(tensor);
  bpa_session_release(session);
  bpa_ccl_group_release(group);
  bpa_ccl_mesh_release(mesh);
  bpa_ccl_data_parallel_release(parallel);
  EXPECT_EQ(bpa_ccl_redistribute(f.mesh, &moves.args, &tensor), BP_UNSUPPORTED);
  moves.added = 0;
  EXPECT_EQ(bpa_ccl_redistribute(f.mesh, &moves.args, &tensor), BP_OK);
  bpa_tensor_release(std::exchange(tensor, nullptr));
  EXPECT_EQ(bpa_session_run_with(f.session, &run_args.args, &tensor, 1), BP_OK);
  bpa_tensor_release(tensor);
}

TEST_F(BadInputTest, OutStructs_OldCallersGetWhatTheyKnow) {
  // As a caller that knows only the first members: nothing behind them is touched.
  alignas(8) std::array<unsigned char, sizeof(bpa_device_info)> room;
  room.fill(0xAB);
  auto* info = reinterpret_cast<bpa_device_info*>(room.data());
  info->struct_size = offsetof(bpa_device_info, memory_used_bytes);
  info->flags = 0;
  ASSERT_EQ(bpa_device_get_info(fixture_->device, info), BP_OK) << bpa_last_error();
  EXPECT_EQ(std::string(info->name.ptr, info->name.len), "cpu:0");
  for (size_t i = info->struct_size; i < room.size(); ++i) EXPECT_EQ(room[i], 0xAB) << i;
}

}  // namespace
}  // namespace bp::bad_input
