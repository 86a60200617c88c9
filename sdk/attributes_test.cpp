// SPDX-License-Identifier: Apache-2.0
//
// Attributes of a writer that knows fewer members than the reader, or more.
#include <gtest/gtest.h>

#include "backplane/ops/nn.h"
#include "backplane/sdk/query.hpp"

namespace bp::sdk {
namespace {

TEST(ReadAttributes, MissingMembers_KeepTheirDefaults) {
  bp_attrs_conv written = bp_attrs_conv_defaults();
  const int64_t strides[] = {2, 2};
  written.strides = {strides, 2};
  written.group = 0;  // beyond what the writer says it has
  written.struct_size = offsetof(bp_attrs_conv, pads);
  const bp_attrs_conv read = read_attributes(&written, bp_attrs_conv_defaults());
  EXPECT_EQ(read.strides.count, 2u);
  EXPECT_EQ(read.group, 1);
  EXPECT_EQ(read.struct_size, sizeof(bp_attrs_conv));
}

TEST(ReadAttributes, UnknownMembersAndNull_AreLeftOut) {
  struct Longer {
    bp_attrs_softmax known = bp_attrs_softmax_defaults();
    int64_t later = 7;
  } written;
  written.known.axis = 1;
  written.known.struct_size = sizeof(written);
  EXPECT_EQ(read_attributes(&written, bp_attrs_softmax_defaults()).axis, 1);
  EXPECT_EQ(read_attributes(nullptr, bp_attrs_softmax_defaults()).axis, -1);
}

}  // namespace
}  // namespace bp::sdk
