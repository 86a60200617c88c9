// SPDX-License-Identifier: Apache-2.0
#include "ccl/operation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bp::ccl {
namespace {

using testing::HasSubstr;

Operation operation(Kind kind, uint32_t dtype, uint64_t count, uint32_t root = 0) {
  return {kind, dtype, Reduction::kSum, root, count, false};
}

std::string refusal(const Operation& operation, RankPlace place = {0, 4}) {
  const Status status = check_operation(operation, place);
  return status.ok() ? "fine" : status.to_string();
}

TEST(Operation, Counts_EveryKind_AreThoseOfTheAbi) {
  struct Row {
    Kind kind;
    uint64_t send_root, recv_root, send_other, recv_other;
  };
  constexpr uint64_t kN = 5;
  constexpr uint64_t kAll = 4 * kN;
  const Row rows[] = {
      {Kind::kAllReduce, kN, kN, kN, kN},
      {Kind::kAllGather, kN, kAll, kN, kAll},
      {Kind::kReduceScatter, kAll, kN, kAll, kN},
      {Kind::kBroadcast, kN, kN, 0, kN},
      {Kind::kSend, kN, 0, kN, 0},
      {Kind::kRecv, 0, kN, 0, kN},
      {Kind::kReduce, kN, kN, kN, 0},
      {Kind::kGather, kN, kAll, kN, 0},
      {Kind::kScatter, kAll, kN, 0, kN},
      {Kind::kAllToAll, kAll, kAll, kAll, kAll},
      {Kind::kBarrier, 0, 0, 0, 0},
  };
  for (const Row& row : rows) {
    const Operation asked = operation(row.kind, BP_DTYPE_F32, kN, 2);
    EXPECT_EQ(send_count(asked, {2, 4}), row.send_root) << describe(asked);
    EXPECT_EQ(recv_count(asked, {2, 4}), row.recv_root) << describe(asked);
    EXPECT_EQ(send_count(asked, {1, 4}), row.send_other) << describe(asked);
    EXPECT_EQ(recv_count(asked, {1, 4}), row.recv_other) << describe(asked);
  }
  const Operation large = operation(Kind::kAllGather, BP_DTYPE_U8, UINT64_MAX / 2);
  EXPECT_EQ(recv_count(large, {0, 3}), UINT64_MAX);
}

TEST(Operation, Describe_EveryForm_IsShort) {
  EXPECT_EQ(describe(operation(Kind::kAllReduce, BP_DTYPE_F32, 3)), "all_reduce sum f32 3");
  EXPECT_EQ(describe(operation(Kind::kBroadcast, BP_DTYPE_I8, 16, 2)), "broadcast i8 16 root 2");
  EXPECT_EQ(describe(operation(Kind::kSend, BP_DTYPE_F32, 8, 1)), "send f32 8 to 1");
  EXPECT_EQ(describe(operation(Kind::kRecv, BP_DTYPE_F32, 8, 1)), "recv f32 8 from 1");
  EXPECT_EQ(describe({}), "barrier");
  EXPECT_EQ(describe({Kind::kReduce, BP_DTYPE_BF16, Reduction::kMax, 1, 7, true}),
            "reduce max bf16 7 root 1 deterministic");
}

TEST(Operation, Check_ReductionsAndDtypes_TakeWhatHasArithmetic) {
  const auto takes = [](Reduction reduction, uint32_t dtype) {
    return check_operation({Kind::kAllReduce, dtype, reduction, 0, 1, false}, {0, 4}).ok();
  };
  for (const uint32_t dtype : {BP_DTYPE_I8, BP_DTYPE_U64}) {
    EXPECT_TRUE(takes(Reduction::kSum, dtype) && takes(Reduction::kMin, dtype));
    EXPECT_FALSE(takes(Reduction::kAvg, dtype));
  }
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F64, BP_DTYPE_F8E4M3FN,
                               BP_DTYPE_F8E5M2, BP_DTYPE_F8E4M3FNUZ, BP_DTYPE_F8E5M2FNUZ}) {
    EXPECT_TRUE(takes(Reduction::kProd, dtype) && takes(Reduction::kMax, dtype) &&
                takes(Reduction::kAvg, dtype));
  }
  for (const uint32_t dtype : {BP_DTYPE_C64, BP_DTYPE_C128}) {
    EXPECT_TRUE(takes(Reduction::kSum, dtype) && takes(Reduction::kProd, dtype) &&
                takes(Reduction::kAvg, dtype));
    EXPECT_FALSE(takes(Reduction::kMin, dtype) || takes(Reduction::kMax, dtype));
  }
  for (const uint32_t dtype : {BP_DTYPE_BOOL, BP_DTYPE_F8E8M0, BP_DTYPE_I4, BP_DTYPE_NONE}) {
    for (uint32_t i = 0; i < kReductionCount; ++i) {
      EXPECT_FALSE(takes(static_cast<Reduction>(i), dtype)) << dtype;
    }
  }
}

TEST(Operation, Check_MovedDtypes_AreWholeBytes) {
  for (const uint32_t dtype : {BP_DTYPE_BOOL, BP_DTYPE_F8E8M0, BP_DTYPE_C128}) {
    EXPECT_EQ(refusal(operation(Kind::kAllGather, dtype, 1)), "fine");
  }
  for (const uint32_t dtype : {BP_DTYPE_I4, BP_DTYPE_U2, BP_DTYPE_F4E2M1}) {
    EXPECT_THAT(refusal(operation(Kind::kAllGather, dtype, 2)), HasSubstr("smaller than a byte"));
  }
  EXPECT_THAT(refusal(operation(Kind::kAllGather, 77, 2)), HasSubstr("dtype 77 is none"));
}

TEST(Operation, Check_BadOperations_NameWhatIsWrong) {
  EXPECT_EQ(refusal(operation(Kind::kBroadcast, BP_DTYPE_I8, 16, 4)),
            "INVALID_ARGUMENT: broadcast i8 16 root 4: there is no rank 4 in a group of 4");
  EXPECT_EQ(refusal(operation(Kind::kAllReduce, BP_DTYPE_I8, 16, 1)),
            "INVALID_ARGUMENT: all_reduce sum i8 16: this kind has no root, expected 0, found 1");
  EXPECT_THAT(refusal(operation(Kind::kSend, BP_DTYPE_I8, 16, 9)), HasSubstr("there is no rank 9"));
  EXPECT_THAT(refusal(operation(Kind::kSend, BP_DTYPE_I8, 16), {4, 4}),
              HasSubstr("there is no rank 4"));
  EXPECT_THAT(refusal({Kind::kBarrier, BP_DTYPE_F32, Reduction::kSum, 0, 0, false}),
              HasSubstr("a barrier has dtype none and count 0, found dtype f32 and count 0"));
  EXPECT_THAT(refusal({Kind::kBarrier, BP_DTYPE_NONE, Reduction::kSum, 0, 2, false}),
              HasSubstr("count 2"));
  EXPECT_THAT(refusal({Kind::kGather, BP_DTYPE_F32, Reduction::kMax, 0, 2, false}),
              HasSubstr("this kind does not reduce, expected reduction 0, found 3"));
  EXPECT_THAT(refusal({Kind::kReduce, BP_DTYPE_F32, static_cast<Reduction>(9), 0, 2, false}),
              HasSubstr("reduction 9 is none"));
  EXPECT_THAT(refusal({static_cast<Kind>(99), BP_DTYPE_F32, Reduction::kSum, 0, 2, false}),
              HasSubstr("collective kind 99 is none"));
  EXPECT_THAT(refusal({Kind::kReduce, BP_DTYPE_BOOL, Reduction::kSum, 0, 2, false}),
              HasSubstr("sum takes {i8, i16,"));
}

TEST(Operation, Check_HugeBuffers_AreRefusedBeforeAnythingIsComputed) {
  for (const uint64_t count : {uint64_t{1} << 45, UINT64_MAX / 4, UINT64_MAX}) {
    EXPECT_THAT(refusal(operation(Kind::kAllGather, BP_DTYPE_F32, count)),
                HasSubstr("larger than any device"));
  }
  EXPECT_EQ(refusal(operation(Kind::kAllGather, BP_DTYPE_F32, uint64_t{1} << 42)), "fine");
}

TEST(Operation, BlocksThatDifferInSize_AreSaidAndChecked) {
  const Operation gather{
      .kind = Kind::kAllGather, .dtype = BP_DTYPE_F32, .count = 7, .blocks = 0x5c0f31aa00000002};
  EXPECT_EQ(describe(gather), "all_gather_v f32 7 blocks 5c0f31aa");
  EXPECT_TRUE(check_operation(gather, {0, 3}).ok());
  Operation sum = gather;
  sum.kind = Kind::kAllReduce;
  EXPECT_EQ(check_operation(sum, {0, 3}).message(),
            "all_reduce_v sum f32 7 blocks 5c0f31aa: this kind has no blocks");
  Operation exchange = gather;
  exchange.kind = Kind::kAllToAll;
  EXPECT_EQ(check_operation(exchange, {0, 3}).code(), BP_INVALID_ARGUMENT);
  exchange.blocks = kOwnBlocks;
  exchange.count = 0;
  EXPECT_TRUE(check_operation(exchange, {0, 3}).ok());
  EXPECT_EQ(describe(exchange), "all_to_all_v f32");
  Operation large = gather;
  large.count = uint64_t{1} << 44;
  EXPECT_TRUE(check_operation(large, {0, 3}).ok()) << "all of them together";
  large.blocks = 0;
  EXPECT_EQ(check_operation(large, {0, 3}).code(), BP_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace bp::ccl
