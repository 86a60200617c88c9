// SPDX-License-Identifier: Apache-2.0
//
// The slots that README.md shows, over a library made up here.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <string>

#include "backplane/sdk/comm_init.hpp"
#include "backplane/sdk/sdk.hpp"

/// acme: a group is complete once acme_let_others_come is called.
struct AcmeComm {
  uint64_t uid = 0;
  bool is_aborted = false;
};

namespace {

struct Acme {
  std::mutex mutex;
  std::condition_variable changed;
  bool have_others_come = false;
  int comms = 0;
};
Acme g_acme;

AcmeComm* acme_new(const void* uid, uint32_t rank, uint32_t rank_count) {
  if (rank >= rank_count) return nullptr;
  const std::lock_guard lock(g_acme.mutex);
  ++g_acme.comms;
  auto* const comm = new AcmeComm;
  std::memcpy(&comm->uid, uid, sizeof(comm->uid));
  return comm;
}
int acme_join(AcmeComm* comm) {
  std::unique_lock lock(g_acme.mutex);
  g_acme.changed.wait(lock, [comm] { return g_acme.have_others_come || comm->is_aborted; });
  return comm->is_aborted || comm->uid == 0 ? 5 : 0;
}
void acme_abort(AcmeComm* comm) {
  const std::lock_guard lock(g_acme.mutex);
  comm->is_aborted = true;
  g_acme.changed.notify_all();
}
void acme_free(AcmeComm* comm) {
  const std::lock_guard lock(g_acme.mutex);
  if (comm != nullptr) --g_acme.comms;
  delete comm;
}
const char* acme_error(int code) { return code == 5 ? "no such group" : "success"; }

}  // namespace

struct bp_device {
  const bp::sdk::Host& host() const { return services; }
  bp::sdk::Host services;
};

namespace sdk = bp::sdk;

// The thread owns it, perhaps for longer than there is a device: it has copies alone.
struct Join {
  explicit Join(const bp_comm_args& args)
      : comm(acme_new(args.uids, args.rank, args.rank_count), acme_free) {
    if (comm == nullptr) sdk::refuse("comm_init: rank ", args.rank, " of ", args.rank_count);
  }
  // Waits for all ranks. The last owner of what it answers calls acme_free.
  std::shared_ptr<AcmeComm> init() {
    const int code = acme_join(comm.get());
    if (code != 0) throw sdk::Failure{BP_UNAVAILABLE, acme_error(code), code};
    return comm;
  }
  // Makes acme_join return. A library that cannot do that has no abort here.
  void abort() { acme_abort(comm.get()); }
  const std::shared_ptr<AcmeComm> comm;
};

struct bp_comm {
  const sdk::Host& host() const { return device.host(); }
  bp_device& device;
  sdk::CommInit<Join> joining;
  std::atomic<uint64_t> enqueued_sequence{0};
};

namespace {

bp_status comm_init(bp_device* device, const bp_comm_args* args, bp_comm** out_comm) {
  return sdk::slot("comm_init", device, {args, out_comm}, [&] {
    auto join = std::make_unique<Join>(sdk::read_args(args, 0));
    *out_comm = new bp_comm{*device, sdk::CommInit<Join>(std::move(join))};
  });
}

bp_status comm_poll(bp_comm* comm, bp_comm_state* out_state) {
  return sdk::slot("comm_poll", comm, {out_state}, [&] {
    bp_comm_state state = comm->joining.poll(comm->host());
    state.enqueued_sequence = comm->enqueued_sequence;
    sdk::write_out(out_state, state);
  });
}

bp_status comm_abort(bp_device* device, const bp_comm_abort_args* args) {
  return sdk::slot("comm_abort", device, {args}, [&] {
    const bp_comm_abort_args wanted = sdk::read_args(args, 0);
    for (uint64_t i = 0; i < wanted.comm_count; ++i) {
      bp_comm& comm = *wanted.comms[i];
      auto* const ready = comm.joining.abort(comm.host());
      if (ready != nullptr) acme_abort(ready->get());  // its operations end with BP_CANCELLED
    }
  });
}

bp_status comm_destroy(bp_comm* comm) {
  return sdk::slot("comm_destroy", comm, {}, [&] { delete comm; });
}

class CommInitExampleTest : public testing::Test {
 protected:
  CommInitExampleTest() {
    api_.struct_size = sizeof(api_);
    api_.report = [](void* test, const bp_report_info* info) {
      static_cast<CommInitExampleTest*>(test)->words_ = sdk::view(info->message);
    };
    device_.services = sdk::Host(&api_, this);
  }
  void TearDown() override {
    if (comm_ != nullptr) {
      EXPECT_EQ(comm_destroy(comm_), BP_OK);
    }
    const std::lock_guard lock(g_acme.mutex);
    g_acme.have_others_come = false;
    EXPECT_EQ(g_acme.comms, 0);
  }

  bp_status join(uint64_t uid, uint32_t rank = 0) {
    bp_comm_args args{};
    args.struct_size = sizeof(args);
    args.uids = &uid;
    args.uid_bytes = sizeof(uid);
    args.uid_count = 1;
    args.rank = rank;
    args.rank_count = 2;
    return comm_init(&device_, &args, &comm_);
  }
  bp_comm_state poll() {
    bp_comm_state state{};
    state.struct_size = sizeof(state);
    EXPECT_EQ(comm_poll(comm_, &state), BP_OK);
    return state;
  }
  bp_comm_state poll_until_settled() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (poll().state == BP_COMM_JOINING && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return poll();
  }
  void abort() {
    const bp_comm_abort_args args{sizeof(args), 0, &comm_, 1};
    EXPECT_EQ(comm_abort(&device_, &args), BP_OK);
  }
  static void let_others_come() {
    const std::lock_guard lock(g_acme.mutex);
    g_acme.have_others_come = true;
    g_acme.changed.notify_all();
  }

  bp_host_api api_{};
  bp_device device_;
  bp_comm* comm_ = nullptr;
  std::string words_;
};

TEST_F(CommInitExampleTest, Group_OnceTheOthersHaveCome_IsReady) {
  ASSERT_EQ(join(7), BP_OK);
  EXPECT_EQ(poll().state, BP_COMM_JOINING);
  let_others_come();
  EXPECT_EQ(poll_until_settled().state, BP_COMM_READY);
  EXPECT_EQ(comm_->joining.require_ready()->uid, 7u);
  abort();
  EXPECT_EQ(poll().state, BP_COMM_FAILED);
  EXPECT_EQ(poll().status, BP_CANCELLED);
  EXPECT_TRUE(comm_->joining.abort(sdk::Host()) == nullptr);
}

TEST_F(CommInitExampleTest, Group_ThatTheLibraryRefuses_FailsWithItsWords) {
  let_others_come();
  ASSERT_EQ(join(0), BP_OK);
  EXPECT_EQ(poll_until_settled().status, BP_UNAVAILABLE);
  EXPECT_EQ(words_, "no such group");
}

TEST_F(CommInitExampleTest, Abort_WhileItJoins_IsCancelled) {
  ASSERT_EQ(join(7), BP_OK);
  abort();
  EXPECT_EQ(poll().status, BP_CANCELLED);
  EXPECT_EQ(words_, "the communicator was aborted");
}

TEST_F(CommInitExampleTest, Destroy_WhileItJoins_LeavesNothing) { ASSERT_EQ(join(7), BP_OK); }

TEST_F(CommInitExampleTest, Init_OfNoRank_IsRefusedWithWords) {
  EXPECT_EQ(join(7, 2), BP_INVALID_ARGUMENT);
  EXPECT_EQ(words_, "comm_init: rank 2 of 2");
  EXPECT_EQ(comm_, nullptr);
}

}  // namespace
