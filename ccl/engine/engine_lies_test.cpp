// SPDX-License-Identifier: Apache-2.0
//
// A library that breaks its table's contract is an error, or does nothing; it harms neither the
// process nor transfers that are no lie.
#include "ccl/engine/engine_harness_test.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Result<std::unique_ptr<Engine>> make_liar(const std::string& lie,
                                          const std::string& name = "liar") {
  LibraryEngineArgs args;
  args.name = name;
  args.search_path = {BP_OTHER_ENGINES};
  args.interface_name = lie;
  return make_library_engine(args);
}

TEST(EngineLies, TableWithNull_IsRefused) {
  const Status status = make_liar("", "half").status();
  EXPECT_EQ(status.code(), BP_INTERNAL);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("backplane_engine_half.so"), HasSubstr("a NULL in it")));
}

TEST(EngineLies, AnswersToCreate_AreErrorsInWords) {
  struct Lie {
    const char* how;
    bp_status code;
    const char* words;
  };
  for (const Lie& lie :
       {Lie{"endless words", BP_UNAVAILABLE, "xxx..."},
        Lie{"unknown status", BP_INTERNAL, "engine liar"},
        Lie{"no end", BP_INTERNAL, "it made no end"}, Lie{"throws at once", BP_INTERNAL, "at once"},
        Lie{"no address", BP_INTERNAL, "it gave no address"},
        Lie{"endless address", BP_INTERNAL, "expected 1 to 65536 bytes"}}) {
    const Status status = make_liar(lie.how).status();
    EXPECT_EQ(status.code(), lie.code) << lie.how;
    EXPECT_THAT(status.to_string(), HasSubstr(lie.words)) << lie.how;
  }
}

/// The engine's two transfers after it was driven, and then cancelled.
std::vector<bp_status> run_lie(const std::string& lie, RecordingInbox* inbox) {
  auto engine = make_liar(lie);
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  if (!engine.ok()) return {};
  std::array<Transfer, 2> transfers;
  std::array<std::byte, 16> into{};
  // As a group does: what is thrown is the call's error.
  [[maybe_unused]] const Status sent =
      contain([&] { (*engine)->send(0, {}, into.data(), into.size(), &transfers[0]); });
  [[maybe_unused]] const Status received =
      contain([&] { (*engine)->receive(1, into.data(), &transfers[1]); });
  for (int i = 0; i < 3; ++i) (*engine)->progress(*inbox);
  (*engine)->wake();
  std::vector<bp_status> statuses;
  for (Transfer& transfer : transfers) {
    (*engine)->cancel(&transfer);
    statuses.push_back(transfer.status);
  }
  return statuses;
}

TEST(EngineLies, WhatEndsTransfers_EndsThoseInProgressOnce) {
  struct Lie {
    const char* how;
    std::vector<bp_status> statuses;
  };
  for (const Lie& lie :
       {Lie{"ends what never was", {BP_INTERNAL, BP_INTERNAL}},
        Lie{"ends twice", {BP_INTERNAL, BP_OK}}, Lie{"ends as pending", {BP_INTERNAL, BP_INTERNAL}},
        Lie{"unknown answers", {BP_INTERNAL, BP_INTERNAL}},
        Lie{"throws in cancel", {BP_INTERNAL, BP_INTERNAL}}}) {
    RecordingInbox inbox;
    EXPECT_EQ(run_lie(lie.how, &inbox), lie.statuses) << lie.how;
  }
}

TEST(EngineLies, WhatThrows_EndsNoProcess) {
  RecordingInbox inbox;
  run_lie("throws", &inbox);
  EXPECT_TRUE(inbox.arrived.empty());
}

TEST(EngineLies, StateThatIsNone_IsUnknown) {
  for (const auto& [how, state] : {std::pair{"", PeerState::kStopped},
                                   {"unknown answers", PeerState::kUnknown},
                                   {"throws", PeerState::kUnknown}}) {
    auto engine = make_liar(how);
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    EXPECT_EQ((*engine)->state_of(0), state) << how;
  }
}

TEST(EngineLies, BadNews_ComesAsAnInboxMayHaveIt) {
  struct Inbox final : ccl::Inbox {
    void message_arrived(uint32_t, std::span<const std::byte> header, uint64_t,
                         uint64_t) noexcept override {
      EXPECT_TRUE(header.empty());
      ++arrived_count;
    }
    void peer_lost(uint32_t, const Status& why) noexcept override {
      EXPECT_EQ(why.code(), BP_INTERNAL);
      words = why.message();
    }
    int arrived_count = 0;
    std::string words;
  } inbox;
  auto engine = make_liar("bad news");
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  (*engine)->progress(inbox);
  EXPECT_EQ(inbox.arrived_count, 2);
  EXPECT_EQ(inbox.words, "gone  [2J");
}

}  // namespace
}  // namespace bp::ccl
