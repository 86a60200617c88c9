// SPDX-License-Identifier: Apache-2.0
//
// Groups where the plugin cpu is not loaded, whose kernels reduce what goes by messages; and where
// a device's own collectives differ.
#include <gmock/gmock.h>

#include "tests/api/ccl_fixture.hpp"

namespace bp {
namespace {

using testing::HasSubstr;

class CclWithoutCpu : public CclTest {
 protected:
  CclWithoutCpu() { open({{"BACKPLANE_PLUGINS", "npu"}}); }
};

TEST_F(CclWithoutCpu, ADevicesOwnCollectives_Serve) {
  ASSERT_EQ(runtime_->devices().size(), 2u);
  run({"npu:0", "npu:1"}, [](const ccl::Group& group, Device device) {
    EXPECT_EQ(group.info().is_native, 1u) << group.info().why_not_native;
    const Tensor x = upload(device, {static_cast<float>(group.rank() + 1), 10});
    group.all_reduce(x);
    EXPECT_EQ(x.to_vector<float>(), (Floats{3, 20}));
  });
}

TEST_F(CclWithoutCpu, WhatMessagesMove_Arrives) {
  run({"npu:0", "npu:1"}, [](const ccl::Group& group, Device device) {
    const std::vector<uint64_t> counts = {1, 2};
    const Tensor own =
        upload(device, Floats(counts[group.rank()], static_cast<float>(group.rank())));
    const Tensor all = room(device, 3);
    group.all_gather_v(own, all, counts);
    EXPECT_EQ(all.to_vector<float>(), (Floats{0, 1, 1}));
  });
}

TEST_F(CclWithoutCpu, WhatMessagesReduce_NamesWhatIsMissing) {
  run({"npu:0", "npu:1"}, [](const ccl::Group& group, Device device) {
    const std::vector<uint64_t> counts = {1, 2};
    const Tensor all = upload(device, {1, 2, 3});
    const Tensor own = room(device, counts[group.rank()]);
    std::string words;
    EXPECT_EQ(status_of([&] { group.reduce_scatter_v(all, own, counts); }, &words), BP_UNSUPPORTED);
    EXPECT_THAT(words, HasSubstr("no device that computes on host memory is loaded"));
    // Refused before anything began: the group goes on.
    const Tensor x = upload(device, {1});
    group.all_reduce(x);
    EXPECT_EQ(x.to_vector<float>(), Floats{2});
  });
}

TEST_F(CclTest, AGroupWhoseDevicesTakeSeveralIds_GetsOne) {
  open({{"npu.collective_ids", "2"}});
  run({"npu:0", "npu:1"}, [](const ccl::Group& group, Device device) {
    EXPECT_EQ(group.info().is_native, 1u) << group.info().why_not_native;
    const Tensor x = upload(device, {static_cast<float>(group.rank() + 1)});
    group.all_reduce(x);
    EXPECT_EQ(x.to_vector<float>(), Floats{3});
  });
}

}  // namespace
}  // namespace bp
