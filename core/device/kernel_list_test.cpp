// SPDX-License-Identifier: Apache-2.0
//
// Kernel descriptors of every size and with each defect: good ones are masked copies, bad ones are
// left out by name.
#include "core/device/kernel_list.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <memory>

#include "core/base/log.hpp"

namespace bp {
namespace {

bp_status launch(const bp_launch_args*) { return BP_OK; }
bp_status plan(bp_device*, const bp_kernel_query*, bp_plan_info*, bp_kernel_plan**) {
  return BP_OK;
}
void plan_free(bp_device*, bp_kernel_plan*) {}
void state_destroy(bp_device*, bp_kernel_state*) {}

constexpr uint64_t kMasks[] = {BP_DTYPE_BIT(BP_DTYPE_F32) | 1 | (uint64_t{1} << 60),
                               BP_DTYPE_BIT(BP_DTYPE_U4)};

class ValidateKernels : public testing::Test {
 protected:
  ValidateKernels() {
    kernel_.struct_size = sizeof(kernel_);
    kernel_.name = {"mine", 4};
    kernel_.op = {"conv", 4};
    kernel_.version_min = 1;
    kernel_.version_max = 2;
    kernel_.dtype_masks = kMasks;
    kernel_.dtype_mask_count = 2;
    kernel_.launch = launch;
    rule_.struct_size = sizeof(rule_);
  }
  static Result<KernelList> validate(const std::vector<const bp_kernel*>& kernels) {
    bp_kernel_list list{};
    list.struct_size = sizeof(list);
    list.kernels = kernels.data();
    list.kernel_count = kernels.size();
    return validate_kernels("npu", list);
  }
  /// Why kernel_ is left out; empty: it is not.
  std::string refusal() const {
    const auto list = validate({&kernel_});
    EXPECT_EQ(list->kernels.size() + list->refused.size(), 1u);
    return list->refused.empty() ? "" : list->refused[0];
  }
  void use_rule() {
    kernel_.arg_rules = rules_;
    kernel_.arg_rule_count = 1;
  }
  bp_kernel kernel_{};
  bp_arg_rule rule_{};
  const bp_arg_rule* rules_[1] = {&rule_};
};

TEST_F(ValidateKernels, ValidateKernels_GoodKernel_IsAMaskedCopy) {
  use_rule();
  rule_.flags = BP_ARG_HOST_AT_PLAN_BIT | 0x100;
  rule_.strides = BP_STRIDES_INNER_DENSE;
  rule_.alignment_bytes = 16;
  kernel_.flags = BP_KERNEL_DETERMINISTIC_BIT | 0x100;
  kernel_.depends_on = BP_DEPENDS_SIZES_BIT | 0x100;
  kernel_.priority = -3;
  const auto list = validate({&kernel_});
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->kernels.size(), 1u);
  const KernelRecord& record = list->kernels[0];
  EXPECT_EQ(record.original, &kernel_);
  EXPECT_EQ(record.name, "mine");
  EXPECT_EQ(record.op, "conv");
  EXPECT_EQ(record.kernel.flags, BP_KERNEL_DETERMINISTIC_BIT);
  EXPECT_EQ(record.kernel.depends_on, BP_DEPENDS_SIZES_BIT);
  EXPECT_EQ(record.kernel.priority, -3);
  EXPECT_EQ(record.kernel.version_max, 2u);
  ASSERT_EQ(record.dtype_masks.size(), 2u);
  EXPECT_EQ(record.dtype_masks[0], BP_DTYPE_BIT(BP_DTYPE_F32));
  EXPECT_EQ(record.dtype_masks[1], BP_DTYPE_BIT(BP_DTYPE_U4));
  EXPECT_EQ(record.kernel.dtype_masks, record.dtype_masks.data());
  ASSERT_EQ(record.arg_rules.size(), 1u);
  EXPECT_EQ(record.arg_rules[0].flags, BP_ARG_HOST_AT_PLAN_BIT);
  EXPECT_EQ(record.arg_rules[0].strides, BP_STRIDES_INNER_DENSE);
  EXPECT_EQ(record.arg_rules[0].alignment_bytes, 16u);
}

TEST_F(ValidateKernels, ValidateKernels_OperatorOfAVendor_IsTaken) {
  kernel_.op = {"npu.fuse", 8};
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(validate({&kernel_})->kernels[0].op, "npu.fuse");
}

TEST_F(ValidateKernels, ValidateKernels_NewestDtype_IsKnown) {
  constexpr uint64_t kNewest[] = {BP_DTYPE_BIT(BP_DTYPE_I2) | BP_DTYPE_BIT(BP_DTYPE_F8E8M0),
                                  BP_DTYPE_BIT(BP_DTYPE_F8E8M0) << 1};
  kernel_.dtype_masks = kNewest;
  const auto list = validate({&kernel_});
  ASSERT_EQ(list->kernels.size(), 1u);
  EXPECT_EQ(list->kernels[0].dtype_masks[0], kNewest[0]);
  EXPECT_EQ(list->kernels[0].dtype_masks[1], 0u);
}

TEST_F(ValidateKernels, ValidateKernels_EverySize_IsCopiedOrRefused) {
  for (uint32_t bytes = 8; bytes <= sizeof(bp_kernel) + 32; bytes += 8) {
    const auto memory = std::make_unique<std::byte[]>(bytes);  // exact, for sanitizers
    kernel_.state_create = nullptr;
    std::memcpy(memory.get(), &kernel_, std::min<size_t>(bytes, sizeof(kernel_)));
    std::memcpy(memory.get(), &bytes, sizeof(bytes));
    const auto list = validate({reinterpret_cast<const bp_kernel*>(memory.get())});
    ASSERT_TRUE(list.ok());
    const bool whole = bytes >= offsetof(bp_kernel, state_create);
    EXPECT_EQ(list->kernels.size(), whole ? 1u : 0u) << bytes;
    if (whole) {
      EXPECT_EQ(list->kernels[0].kernel.struct_size, sizeof(bp_kernel));
    }
    if (!whole) {
      EXPECT_THAT(list->refused[0], testing::HasSubstr("struct_size is"));
    }
  }
}

TEST_F(ValidateKernels, ValidateKernels_OddOrHugeSize_IsRefused) {
  kernel_.struct_size = sizeof(kernel_) + 4;
  EXPECT_THAT(refusal(), testing::HasSubstr("expected a multiple of 8"));
  kernel_.struct_size = 70'000;
  EXPECT_THAT(refusal(), testing::HasSubstr("struct_size is 70000"));
}

TEST_F(ValidateKernels, ValidateKernels_MissingTexts_AreRefused) {
  kernel_.op = {nullptr, 0};
  EXPECT_EQ(refusal(), "kernel 0 (mine): name or op is empty or no text");
  kernel_.op = {nullptr, 4};
  EXPECT_EQ(refusal(), "kernel 0 (mine): name or op is empty or no text");
  kernel_.op = {"conv", 4};
  kernel_.name = {"\xff", 1};
  EXPECT_EQ(refusal(), "kernel 0 (): name or op is empty or no text");
}

TEST_F(ValidateKernels, ValidateKernels_FunctionsThatDoNotComeTogether_AreRefused) {
  kernel_.plan = plan;
  EXPECT_EQ(refusal(), "kernel 0 (mine): plan and plan_free do not come together");
  kernel_.plan_free = plan_free;
  EXPECT_EQ(refusal(), "");
  kernel_.plan = nullptr;
  EXPECT_EQ(refusal(), "kernel 0 (mine): plan and plan_free do not come together");
  kernel_.plan = plan;
  kernel_.state_destroy = state_destroy;
  EXPECT_EQ(refusal(), "kernel 0 (mine): state_create and state_destroy do not come together");
  kernel_.launch = nullptr;
  EXPECT_EQ(refusal(), "kernel 0 (mine): launch is missing");
}

TEST_F(ValidateKernels, ValidateKernels_BadNumbers_AreRefused) {
  kernel_.version_min = 3;
  EXPECT_EQ(refusal(), "kernel 0 (mine): version_min is above version_max");
  kernel_.version_min = 1;
  kernel_.dtype_mask_count = 257;
  EXPECT_EQ(refusal(), "kernel 0 (mine): dtype_mask_count is above 256");
  kernel_.dtype_mask_count = 1;
  kernel_.dtype_masks = nullptr;
  EXPECT_EQ(refusal(), "kernel 0 (mine): dtype_masks is null");
  kernel_.dtype_mask_count = 0;
  EXPECT_EQ(refusal(), "");
  kernel_.arg_rule_count = 1;
  EXPECT_EQ(refusal(), "kernel 0 (mine): arg_rules is null");
  kernel_.arg_rule_count = 4'000'000'000u;
  EXPECT_EQ(refusal(), "kernel 0 (mine): arg_rule_count is above 256");
}

TEST_F(ValidateKernels, ValidateKernels_BadArgumentRules_AreRefused) {
  use_rule();
  EXPECT_EQ(refusal(), "");
  rule_.strides = 5;
  EXPECT_EQ(refusal(),
            "kernel 0 (mine): arg_rules[0]: strides 5 is unknown, or alignment_bytes 0 "
            "no power of two up to 256");
  rule_.strides = 0;
  rule_.alignment_bytes = 24;
  EXPECT_THAT(refusal(), testing::HasSubstr("alignment_bytes 24 no power of two"));
  rule_.alignment_bytes = 256;
  EXPECT_EQ(refusal(), "");
  rule_.alignment_bytes = 512;
  EXPECT_THAT(refusal(), testing::HasSubstr("alignment_bytes 512 no power of two up to 256"));
  rule_.struct_size = 0;
  EXPECT_THAT(refusal(), testing::HasSubstr("arg_rules[0]: struct_size is 0"));
  rules_[0] = nullptr;
  EXPECT_EQ(refusal(), "kernel 0 (mine): arg_rules[0]: the pointer is null");
}

/// `pointer`, some bytes further on.
template <class T>
T* moved(T* pointer, int bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uint64_t>(pointer) + static_cast<uint64_t>(bytes));
}

TEST_F(ValidateKernels, ValidateKernels_WhatIsNotAligned_IsRefusedUnread) {
  use_rule();
  kernel_.dtype_masks = moved(kMasks, 4);
  EXPECT_EQ(refusal(), "kernel 0 (mine): dtype_masks is not aligned");
  kernel_.dtype_masks = kMasks;
  kernel_.arg_rules = moved(rules_, 4);
  EXPECT_EQ(refusal(), "kernel 0 (mine): arg_rules is not aligned");
  kernel_.arg_rules = rules_;
  rules_[0] = moved(&rule_, 2);
  EXPECT_EQ(refusal(), "kernel 0 (mine): arg_rules[0]: the pointer is not aligned to 4 bytes");
  rules_[0] = &rule_;
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(
      validate({moved(&kernel_, 4)})->refused,
      std::vector<std::string>{"kernel 0 (): bp_kernel: the pointer is not aligned to 8 bytes"});
  const bp_kernel* const kernels[2] = {&kernel_, &kernel_};
  bp_kernel_list list{};
  list.kernels = moved(kernels, 4);
  list.kernel_count = 1;
  const Status status = validate_kernels("npu:0", list).status();
  EXPECT_THAT(status.to_string(),
              testing::MatchesRegex(
                  "INTERNAL: npu:0: kernel_list: the array at 0x[0-9a-f]+ is not aligned"));
}

TEST_F(ValidateKernels, ValidateKernels_RuleOfAnOlderPlugin_IsZeroBeyondItsSize) {
  use_rule();
  rule_.struct_size = 8;
  rule_.strides = 4711;  // not the plugin's: its rule ends before
  const auto list = validate({&kernel_});
  ASSERT_EQ(list->kernels.size(), 1u);
  EXPECT_EQ(list->kernels[0].arg_rules[0].strides, BP_STRIDES_CONTIGUOUS);
  EXPECT_EQ(list->kernels[0].arg_rules[0].struct_size, sizeof(bp_arg_rule));
}

TEST_F(ValidateKernels, ValidateKernels_BadOnesAmongGood_LeaveTheOthers) {
  bp_kernel second = kernel_;
  second.name = {"second", 6};
  const auto list = validate({&kernel_, nullptr, &kernel_, &second});
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->kernels.size(), 2u);
  EXPECT_EQ(list->kernels[0].name, "mine");
  EXPECT_EQ(list->kernels[1].name, "second");
  EXPECT_THAT(list->refused, testing::ElementsAre("kernel 1 (): bp_kernel: the pointer is null",
                                                  "kernel 2 (mine): another kernel has that name"));
}

TEST_F(ValidateKernels, ValidateKernels_NoGoodOneOf65536_IsALinePerKind) {
  bp_kernel without_launch = kernel_;
  without_launch.launch = nullptr;
  std::vector<const bp_kernel*> all(65535, &without_launch);
  all.push_back(nullptr);
  int lines = 0;
  set_log_sink([&](uint32_t, std::string_view) { ++lines; });
  const auto list = validate(all);
  set_log_sink({});
  ASSERT_TRUE(list.ok());
  EXPECT_THAT(list->refused,
              testing::ElementsAre("kernel 0 (mine) and 65534 more: launch is missing",
                                   "kernel 65535 (): bp_kernel: the pointer is null"));
  EXPECT_EQ(lines, 2);
}

TEST_F(ValidateKernels, ValidateKernels_ManyKindsOfRefusal_AreBoundedToo) {
  std::vector<bp_kernel> kernels(100, kernel_);
  std::vector<const bp_kernel*> all;
  for (uint32_t i = 0; i < 100; ++i) {
    kernels[i].struct_size = 8 * i + 1;  // a size of its own in each reason
    all.push_back(&kernels[i]);
  }
  const auto list = validate(all);
  ASSERT_EQ(list->refused.size(), 17u);
  EXPECT_EQ(list->refused.back(), "the rest (84 kernels, other reasons)");
}

TEST_F(ValidateKernels, ValidateKernels_NameThatForgesLines_IsCleanedForPeople) {
  const std::string name = "mine\n\x1b[31m" + std::string(300, 'x');
  kernel_.name = {name.data(), name.size()};
  const auto list = validate({&kernel_});
  ASSERT_EQ(list->kernels.size(), 1u);
  EXPECT_EQ(list->kernels[0].name, "mine  [31m" + std::string(246, 'x') + "...");
  kernel_.launch = nullptr;
  EXPECT_EQ(refusal().find_first_of("\n\x1b"), std::string::npos);
}

TEST_F(ValidateKernels, ValidateKernels_ListThatCannotBeRead_IsAnError) {
  bp_kernel_list list{};
  list.kernel_count = 1;
  EXPECT_EQ(validate_kernels("npu", list).status().code(), BP_INTERNAL);
  list.kernel_count = uint64_t{1} << 61;
  EXPECT_EQ(validate_kernels("npu", list).status().code(), BP_INTERNAL);
  list.kernel_count = 0;
  EXPECT_TRUE(validate_kernels("npu", list)->kernels.empty());
}

TEST_F(ValidateKernels, KernelRecord_Moved_KeepsItsMasks) {
  auto list = validate({&kernel_});
  const KernelRecord moved = std::move(list->kernels[0]);
  EXPECT_EQ(moved.kernel.dtype_masks, moved.dtype_masks.data());
  EXPECT_EQ(moved.kernel.dtype_masks[1], BP_DTYPE_BIT(BP_DTYPE_U4));
}

}  // namespace
}  // namespace bp
