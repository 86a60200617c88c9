// SPDX-License-Identifier: Apache-2.0
#include "core/base/status.hpp"

#include <gtest/gtest.h>

namespace bp {
namespace {

TEST(Status, Op_IsKeptBesideTheWords) {
  const Status plain(BP_UNSUPPORTED, "no kernel");
  EXPECT_EQ(plain.op(), "");
  const Status of_op = plain.with_op("matmul");
  EXPECT_EQ(of_op.op(), "matmul");
  EXPECT_EQ(of_op.code(), BP_UNSUPPORTED);
  EXPECT_EQ(of_op.message(), "no kernel");
  EXPECT_EQ(plain.op(), "") << "others that share the error keep theirs";
}

TEST(Status, Op_TheInnermostWins) {
  const Status inner = Status(BP_INTERNAL, "words").with_op("add");
  EXPECT_EQ(inner.with_op("layer_norm").op(), "add");
  EXPECT_EQ(inner.with_op("").op(), "add");
  EXPECT_EQ(Status(BP_INTERNAL, "words").with_op("").with_op("add").op(), "add");
}

TEST(Status, Op_GoesThroughPrefixesAndResults) {
  const Status inner = Status(BP_INTERNAL, "words").with_op("scaled_dot_product_attention");
  const auto outer = [&]() -> Status {
    const Result<int> failed = inner;
    BP_TRY(failed);
    return {};
  };
  const Status status = outer().with_prefix("node 'n'").with_prefix("node 'n'");
  EXPECT_EQ(status.message(), "node 'n': words");
  EXPECT_EQ(status.op(), "scaled_dot_product_attention");
}

TEST(Status, Op_OfASuccess_IsNone) {
  const Status success = Status().with_op("add");
  EXPECT_TRUE(success.ok());
  EXPECT_EQ(success.op(), "");
}

}  // namespace
}  // namespace bp
