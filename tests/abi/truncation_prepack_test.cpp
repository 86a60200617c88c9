// SPDX-License-Identifier: Apache-2.0
//
// Packing with structs of every size, for each plugin that packs the weights of a convolution.
// (Those of a product lie well as they are on some processors.)
#include <iterator>
#include <vector>

#include "plugin_fixture.hpp"

namespace bp::abi {
namespace {

struct Shape {
  int64_t sizes[4];
  int64_t strides[4];  // row-major
};
constexpr Shape kShapes[] = {{{1, 16, 12, 12}, {16 * 144, 144, 12, 1}},   // x
                             {{16, 16, 3, 3}, {16 * 9, 9, 3, 1}},         // w
                             {{1, 16, 10, 10}, {16 * 100, 100, 10, 1}}};  // y
constexpr size_t kWeightCount = 16 * 16 * 9;
constexpr uint32_t kWeights = 1;  // the input that is packed
constexpr uint32_t kRequiredInfo =
    offsetof(bp_prepack_info, layout) + sizeof(bp_prepack_info::layout);
constexpr uint32_t kRequiredArgs =
    offsetof(bp_prepack_args, packed_bytes) + sizeof(bp_prepack_args::packed_bytes);

/// A convolution whose weights are constant, planned.
class TruncatedPrepack : public PluginTest {
 protected:
  void SetUp() override {
    PluginTest::SetUp();
    if (HasFatalFailure()) return;
    for (const bp_kernel* each : kernels()) {
      constexpr size_t kEnd = offsetof(bp_kernel, prepack) + sizeof(bp_kernel::prepack);
      const bool packs = each->struct_size >= kEnd && each->prepack != nullptr;
      if (!packs || std::string_view(each->op.ptr, each->op.len) != "conv") continue;
      kernel_ = each;
      break;
    }
    if (kernel_ == nullptr) GTEST_SKIP() << "no kernel packs weights";
    bp_arg_info args[3] = {};
    for (size_t i = 0; i < std::size(args); ++i) {
      args[i].struct_size = sizeof(args[i]);
      args[i].dtype = BP_DTYPE_F32;
      args[i].rank = 4;
      args[i].sizes = kShapes[i].sizes;
      args[i].strides = kShapes[i].strides;
    }
    args[kWeights].flags = BP_INFO_CONSTANT_BIT;
    bp_kernel_query query{};
    query.struct_size = sizeof(query);
    query.kernel = kernel_;
    query.op_version = kernel_->version_max;
    query.input_count = 2;
    query.output_count = 1;
    query.arg_stride_bytes = sizeof(bp_arg_info);
    query.args = args;
    bp_plan_info info{};
    info.struct_size = sizeof(info);
    ASSERT_EQ(kernel_->plan(device(), &query, &info, &plan_), BP_OK);
    if (info.packed_inputs != uint64_t{1} << kWeights) GTEST_SKIP() << "plain weights are best";
  }
  void TearDown() override {
    if (plan_ != nullptr) kernel_->plan_free(device(), plan_);
    PluginTest::TearDown();
  }
  bp_prepack_info info() {
    bp_prepack_info answer{};
    answer.struct_size = sizeof(answer);
    EXPECT_EQ(kernel_->prepack_query(device(), plan_, kWeights, &answer), BP_OK);
    return answer;
  }

  const bp_kernel* kernel_ = nullptr;
  bp_kernel_plan* plan_ = nullptr;
};

TEST_P(TruncatedPrepack, Info_OfEverySize_IsFilledToItsEnd) {
  const bp_prepack_info whole = info();
  EXPECT_GE(whole.bytes, kWeightCount * sizeof(float));
  for_each_size<bp_prepack_info>([&](uint32_t bytes) {
    Truncated<bp_prepack_info> out({}, bytes);
    const bp_status status = kernel_->prepack_query(device(), plan_, kWeights, out.get());
    EXPECT_EQ(out.struct_size(), bytes);
    if (bytes < kRequiredInfo) return;
    EXPECT_EQ(status, BP_OK);
    EXPECT_EQ(out.whole().bytes, whole.bytes);
  });
}

TEST_P(TruncatedPrepack, Args_OfEverySize_PackOrAreRefused) {
  const bp_prepack_info answer = info();
  std::vector<float> weights(kWeightCount, 1);
  const uint64_t packed = alloc(answer.bytes);
  bp_tensor input{};
  input.handle = reinterpret_cast<uint64_t>(weights.data());
  input.storage_bytes = weights.size() * sizeof(float);
  input.dtype = BP_DTYPE_F32;
  input.rank = 4;
  input.sizes = kShapes[kWeights].sizes;
  input.strides = kShapes[kWeights].strides;
  bp_prepack_args whole{};
  whole.kernel = kernel_;
  whole.plan = plan_;
  whole.input = &input;
  whole.input_index = kWeights;
  whole.packed = {packed, 0};
  whole.packed_bytes = answer.bytes;
  for_each_size<bp_prepack_args>([&](uint32_t bytes) {
    Truncated<bp_prepack_args> args(whole, bytes);
    const bp_status status = kernel_->prepack(device(), args.get());
    EXPECT_EQ(status, bytes >= kRequiredArgs ? BP_OK : BP_INVALID_ARGUMENT) << bytes;
  });
  free(packed);
}

INSTANTIATE_TEST_SUITE_P(Plugins, TruncatedPrepack, testing::ValuesIn(plugin_folders()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace bp::abi
