// SPDX-License-Identifier: Apache-2.0
//
// Groups whose ranks are wrong, late, or give up: who is told what, and what is left. Wrong handles
// and structs of each function are bad_input_test's.
#include <gmock/gmock.h>

#include <array>
#include <future>

#include "tests/api/ccl_fixture.hpp"

namespace bp {
namespace {

using ccl::Group;
using ccl::Kind;
using ccl::Reduction;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CclErrors : public CclTest {
 protected:
  /// What creating a group with these options answers, in words.
  std::string create(const ccl::GroupOptions& options, const std::string& device = "cpu:0") {
    std::string words;
    status_of([&] { Group::create(runtime_->device(device), options); }, &words);
    return words;
  }
  /// What the call throws; it must be an INVALID_ARGUMENT that the group survives.
  template <class Function>
  static std::string refusal(Function function) {
    std::string words;
    EXPECT_EQ(status_of(function, &words), BP_INVALID_ARGUMENT) << words;
    return words;
  }
  static void make_barrier(bpa_ccl_call* call, size_t struct_size) {
    call->struct_size = static_cast<uint32_t>(struct_size);
    call->kind = BPA_CCL_BARRIER;
  }
  /// A group of one rank on cpu:0.
  Group alone() {
    return Group::create(runtime_->device("cpu:0"),
                         {.store = ccl::Store::memory(), .rank = 0, .rank_count = 1});
  }
};

TEST_F(CclErrors, Create_WrongArguments_AreNamed) {
  const ccl::Store store = ccl::Store::memory();
  EXPECT_THAT(create({.rank_count = 1}), HasSubstr("args.store is NULL"));
  EXPECT_THAT(create({.store = store, .rank = 2, .rank_count = 2}),
              HasSubstr("args.rank is 2, expected less than args.rank_count, 2"));
  EXPECT_THAT(create({.store = store, .rank_count = 0}), HasSubstr("args.rank_count is 0"));
  EXPECT_THAT(create({.store = store, .rank_count = 65537}), HasSubstr("args.rank_count is 65537"));
  EXPECT_THAT(create({.store = store, .name = ""}), HasSubstr("args.name has 0 bytes"));
  EXPECT_THAT(create({.store = store, .name = std::string(257, 'x')}),
              HasSubstr("args.name has 257 bytes"));
  EXPECT_THAT(create({.store = store, .name = "\xff"}), HasSubstr("args.name is not UTF-8"));
  EXPECT_THAT(create({.store = store, .timeout = std::chrono::seconds(61)}),
              AllOf(HasSubstr("args.timeout_ns"), HasSubstr("BACKPLANE_TIMEOUT")));
  EXPECT_THAT(create({.store = store, .timeout = std::chrono::seconds(-1)}),
              HasSubstr("a timeout is negative"));
  EXPECT_THAT(create({.store = store, .name = std::string(256, 'x')}), IsEmpty());
}

TEST_F(CclErrors, Create_ARankTwice_IsRefusedAndTheGroupIsMade) {
  store_ = ccl::Store::memory();
  std::atomic<uint32_t> refused{0};
  const auto join = [&] {
    const std::string words = create({.store = store_, .rank = 0, .rank_count = 2});
    if (words.empty()) return;  // the first one, once the second has taken the other rank
    ++refused;
    EXPECT_THAT(words,
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("rank 0 is in the group already")));
    EXPECT_THAT(create({.store = store_, .rank = 1, .rank_count = 2}), IsEmpty());
  };
  std::thread one(join);
  std::thread other(join);
  one.join();
  other.join();
  EXPECT_EQ(refused, 1u);
}

TEST_F(CclErrors, Create_RanksThatDisagree_AreBothNamed) {
  store_ = ccl::Store::memory();
  // In the words of who came later.
  const auto names_both = AllOf(HasSubstr("INVALID_ARGUMENT"),
                                AnyOf(HasSubstr("rank 1 was told of 3 ranks, rank 0 of 2"),
                                      HasSubstr("rank 0 was told of 2 ranks, rank 1 of 3")));
  std::thread other(
      [&] { EXPECT_THAT(create({.store = store_, .rank = 0, .rank_count = 2}), names_both); });
  EXPECT_THAT(create({.store = store_, .rank = 1, .rank_count = 3}), names_both);
  other.join();
}

TEST_F(CclErrors, Create_AMissingRank_IsNamedInTime) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(create({.store = ccl::Store::memory(),
                      .rank = 0,
                      .rank_count = 3,
                      .timeout = std::chrono::milliseconds(200)}),
              AllOf(HasSubstr("TIMEOUT"), HasSubstr("did not come in time: 1, 2")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(CclErrors, Create_WithANameOfBefore_IsRefused) {
  const ccl::Store store = ccl::Store::memory();
  EXPECT_THAT(create({.store = store, .name = "once"}), IsEmpty());
  EXPECT_THAT(create({.store = store, .name = "once"}), HasSubstr("is in the group already"));
  EXPECT_THAT(create({.store = store, .name = "again"}), IsEmpty());
}

TEST_F(CclErrors, Tensors_ThatCannotBe_AreNamedAndTheGroupGoesOn) {
  const Group group = alone();
  const Device device = runtime_->device("cpu:0");
  const Tensor x = upload(device, {1, 2});
  const auto text_of = [&](const Tensor& send, const Tensor& recv) {
    return refusal([&] { group.all_reduce(send, recv); });
  };
  EXPECT_THAT(text_of({}, x), HasSubstr("argument send is NULL"));
  EXPECT_THAT(text_of(x, {}), HasSubstr("argument recv is NULL"));
  EXPECT_THAT(text_of(upload(runtime_->device("npu:0"), {1, 2}), x),
              AllOf(HasSubstr("all_reduce: send is"), HasSubstr("npu:0")));
  EXPECT_THAT(text_of(x, upload(Device(), {1, 2})), HasSubstr("all_reduce: recv is"));
  EXPECT_THAT(text_of(x, upload(device, {1, 2, 3})), HasSubstr("do not fit"));
  EXPECT_THAT(text_of(x, Tensor::create(device, BP_DTYPE_I32, {2})), HasSubstr("two dtypes"));
  const Tensor small = Tensor::create(device, BP_DTYPE_I4, {2});
  EXPECT_THAT(text_of(small, small), HasSubstr("no whole bytes"));
  const Tensor bools = Tensor::create(device, BP_DTYPE_BOOL, {2});
  EXPECT_THAT(text_of(bools, bools), HasSubstr("sum takes"));
  const Tensor square = Tensor::from_host<float>(device, {1, 2, 3, 4}, {2, 2});
  EXPECT_THAT(text_of(square, transpose(square)), HasSubstr("overlap"));
  EXPECT_THAT(text_of(upload(device, {1, 2, 3, 4}), transpose(square)), HasSubstr("contiguous"));
  EXPECT_THAT(refusal([&] { group.all_to_all(x, x); }), HasSubstr("overlap"));
  EXPECT_THAT(refusal([&] { group.broadcast({}, 0); }), HasSubstr("argument recv is NULL"));
  EXPECT_THAT(refusal([&] { group.gather(x, {}, 0); }), HasSubstr("recv is missing"));
  EXPECT_THAT(refusal([&] { group.all_reduce(bools, {.op = Reduction::avg}); }),
              HasSubstr("avg takes"));
  EXPECT_FALSE(group.failure());
  group.all_reduce(x);
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2}));
}

TEST_F(CclErrors, OtherArguments_ThatCannotBe_AreNamed) {
  const Group group = alone();
  const Tensor x = upload(runtime_->device("cpu:0"), {1, 2});
  EXPECT_THAT(refusal([&] { group.broadcast(x, 1); }),
              HasSubstr("argument root is 1, the group has 1 ranks"));
  EXPECT_THAT(refusal([&] { group.send(x, 7); }), HasSubstr("argument peer is 7"));
  EXPECT_THAT(refusal([&] { group.recv(x, 7); }), HasSubstr("argument peer is 7"));
  EXPECT_THAT(refusal([&] { group.all_reduce(x, {.op = static_cast<Reduction>(5)}); }),
              HasSubstr("argument reduction is 5"));
  EXPECT_THAT(refusal([&] { group.batch({}); }), HasSubstr("argument call_count is 0"));
  EXPECT_THAT(refusal([&] { group.batch(std::vector<ccl::Call>(1025)); }),
              HasSubstr("argument call_count is 1025"));
  EXPECT_THAT(refusal([&] { group.batch({{.kind = static_cast<Kind>(11)}}); }),
              HasSubstr("argument calls[0].kind is 11"));
  EXPECT_THAT(refusal([&] {
                group.batch({{.kind = Kind::barrier}, {.kind = Kind::all_reduce}});
              }),
              HasSubstr("all_reduce: send is missing"));
  EXPECT_THAT(refusal([&] { group.barrier({.timeout = std::chrono::minutes(2)}); }),
              HasSubstr("options.timeout_ns"));
  EXPECT_THAT(
      refusal([&] { group.barrier({.stream = Stream::create(runtime_->device("npu:0"))}); }),
      HasSubstr("options.stream is of npu:0, and the group is on cpu:0"));
  EXPECT_FALSE(group.failure());
}

TEST_F(CclErrors, BatchInC_StridesAndSizes_AreChecked) {
  const Group group = alone();
  std::array<bpa_ccl_call, 2> calls{};
  for (bpa_ccl_call& call : calls) make_barrier(&call, sizeof(call));
  const auto batch = [&](uint64_t stride) {
    return bpa_ccl_batch(group.handle(), calls.data(), 2, stride, nullptr, nullptr);
  };
  EXPECT_EQ(batch(sizeof(bpa_ccl_call)), BP_OK) << bpa_last_error();
  for (const uint64_t stride : {uint64_t{0}, uint64_t{4}, uint64_t{44}, UINT64_MAX - 7}) {
    EXPECT_EQ(batch(stride), BP_INVALID_ARGUMENT) << stride;
    EXPECT_THAT(bpa_last_error(), HasSubstr("argument stride_bytes"));
  }
  EXPECT_EQ(batch(16), BP_INVALID_ARGUMENT);
  EXPECT_THAT(bpa_last_error(), HasSubstr("argument calls[0] has struct_size"));
  // An older caller knows less of the struct, a newer one more.
  struct Newer {
    bpa_ccl_call call;
    uint64_t added;
  };
  std::array<Newer, 2> newer{};
  for (Newer& one : newer) make_barrier(&one.call, sizeof(one));
  const auto of_newer = [&] {
    return bpa_ccl_batch(group.handle(), &newer[0].call, 2, sizeof(Newer), nullptr, nullptr);
  };
  EXPECT_EQ(of_newer(), BP_OK) << bpa_last_error();
  newer[1].added = 1;
  EXPECT_EQ(of_newer(), BP_UNSUPPORTED);
  EXPECT_THAT(bpa_last_error(), HasSubstr("argument calls[1]"));
  calls[1].struct_size = 8;
  EXPECT_EQ(batch(sizeof(bpa_ccl_call)), BP_INVALID_ARGUMENT) << "an all_reduce without tensors";
}

class CclFailures : public CclErrors, public testing::WithParamInterface<DeviceNames> {
 protected:
  void SetUp() override {
    if (!has_all(GetParam())) GTEST_SKIP() << "a device is not on this machine";
  }
  /// The group ended on this rank by that failure, for good.
  static void expect_failed(const Group& group, Device device, const ccl::Failure& expected) {
    const ccl::Failure failure = group.failure();
    EXPECT_EQ(failure.code, expected.code);
    EXPECT_EQ(failure.words, expected.words);
    EXPECT_EQ(failure.culprits, expected.culprits);
    const Tensor x = upload(device, {1});
    EXPECT_EQ(failure_of([&] { group.all_reduce(x); }).words, expected.words);
    EXPECT_EQ(failure_of([&] { group.async().barrier(); }).code, expected.code);
    EXPECT_EQ(x.to_vector<float>(), Floats{1}) << "the device goes on";
  }
};

TEST_P(CclFailures, Abort_EndsOperationsOnAllRanksByItsWords) {
  run(GetParam(), [&](const Group& group, Device device) {
    const Tensor x = upload(device, {1});
    if (group.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      group.abort("enough is enough");
      group.abort("a second time");
    }
    const ccl::Failure failure = failure_of([&] { group.all_reduce(x); });
    EXPECT_EQ(failure.code, BP_CANCELLED);
    EXPECT_THAT(failure.words, AllOf(HasSubstr("rank 0"), HasSubstr("enough is enough")));
    EXPECT_THAT(failure.culprits, ElementsAre(0u));
    expect_failed(group, device, failure);
  });
}

TEST_P(CclFailures, RankThatDoesNotCome_IsTheCulpritOnAllOthers) {
  std::atomic<uint32_t> come{0};
  std::atomic<uint32_t> told{0};
  run(GetParam(), [&](const Group& group, Device device) {
    const uint32_t last = group.rank_count() - 1;
    const Tensor x = upload(device, {1});
    group.barrier();
    if (group.rank() == last) return meet(&told, last + 1);
    meet(&come, last);
    const ccl::Failure failure =
        failure_of([&] { group.all_reduce(x, {.timeout = std::chrono::seconds(3)}); });
    meet(&told, last + 1);
    EXPECT_EQ(failure.code, BP_TIMEOUT);
    EXPECT_THAT(failure.culprits, ElementsAre(last));
    EXPECT_TRUE(failure.retryable);
    EXPECT_GT(failure.sequence, 0u);
    EXPECT_THAT(failure.operation, HasSubstr("all_reduce sum f32 1"));
    EXPECT_THAT(failure.words, HasSubstr("rank " + std::to_string(last)));
    expect_failed(group, device, failure);
  });
}

// Both timeouts are one: a wait is told what the group says of it.
TEST_P(CclFailures, WaitAsLongAsTheGroups_NamesWhoDidNotCome) {
  open({{"BACKPLANE_TIMEOUT", "3"}, {"BACKPLANE_CCL_TIMEOUT", "3"}});
  timeout_ = std::chrono::seconds(0);
  std::atomic<uint32_t> come{0};
  std::atomic<uint32_t> told{0};
  run(GetParam(), [&](const Group& group, Device device) {
    const uint32_t last = group.rank_count() - 1;
    if (group.rank() == last) return meet(&told, last + 1);
    const Tensor x = upload(device, {1});
    const Tensor y = room(device, 1);
    meet(&come, last);
    const auto work = group.async().all_reduce(x, y);
    const ccl::Failure failure = failure_of([&] { work.wait(); });
    meet(&told, last + 1);
    EXPECT_EQ(failure.code, BP_TIMEOUT);
    EXPECT_THAT(failure.culprits, ElementsAre(last)) << failure.words;
  });
}

// No timeout is given: who reads a result waits as long as the core may, and hears of the rank.
TEST_P(CclFailures, ReadOfAResultThatDoesNotCome_NamesWhoDidNotCome) {
  open({{"BACKPLANE_TIMEOUT", "5"}});
  timeout_ = std::chrono::seconds(0);
  std::atomic<uint32_t> come{0};
  std::atomic<uint32_t> told{0};
  run(GetParam(), [&](const Group& group, Device device) {
    const uint32_t last = group.rank_count() - 1;
    if (group.rank() == last) return meet(&told, last + 1);
    const Tensor x = upload(device, {1});
    const Tensor y = room(device, 1);
    meet(&come, last);
    const auto work = group.async().all_reduce(x, y);
    std::string words;
    EXPECT_NE(status_of([&] { y.to_vector<float>(); }, &words), BP_OK);
    meet(&told, last + 1);
    EXPECT_THAT(words, HasSubstr("rank " + std::to_string(last)));
    EXPECT_THAT(work.failure().culprits, ElementsAre(last)) << words;
  });
}

TEST_P(CclFailures, ResultsOfAFailedOperation_AnswerIt) {
  std::atomic<uint32_t> begun{0};
  run(GetParam(), [&](const Group& group, Device device) {
    if (group.rank() == 0) {
      while (begun + 1 < group.rank_count()) std::this_thread::yield();
      return group.abort("no more");
    }
    const Tensor y = room(device, 1);
    const auto work = group.async().all_reduce(upload(device, {1}), y);
    ++begun;
    const ccl::Failure failure = failure_of([&] { work.wait(); });
    EXPECT_EQ(failure.code, BP_CANCELLED);
    EXPECT_EQ(work.failure().words, failure.words);
    EXPECT_THAT(work.failure().culprits, ElementsAre(0u));
    EXPECT_TRUE(work.done());
    std::string words;
    EXPECT_NE(status_of([&] { y.to_vector<float>(); }, &words), BP_OK);
    EXPECT_THAT(words, HasSubstr("no more"));
  });
}

TEST_P(CclFailures, RanksThatCallDifferentOperations_AllLearnOfIt) {
  run(GetParam(), [&](const Group& group, Device device) {
    if (group.info().is_native == 1) return;  // the plugin's own collectives tell in their own way
    const Tensor x = upload(device, Floats(group.rank() + 1, 1));
    const ccl::Failure failure = failure_of([&] { group.all_reduce(x); });
    EXPECT_EQ(failure.code, BP_INVALID_ARGUMENT) << failure.words;
    EXPECT_THAT(failure.words, HasSubstr("all_reduce sum f32"));
    EXPECT_FALSE(failure.culprits.empty());
    expect_failed(group, device, failure);
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, CclFailures, testing::ValuesIn(pairs_and_all()), name_of_group);

}  // namespace
}  // namespace bp
