// SPDX-License-Identifier: Apache-2.0
//
// Kernels of each plugin with queries, arguments, answers and launches of every size. The operators
// relu and add are in all plugins; a cast and a gather are asked too where they are.
#include <array>

#include "plugin_fixture.hpp"

namespace bp::abi {
namespace {

constexpr int64_t kCount = 64;
constexpr int64_t kSizes[] = {kCount};
constexpr int64_t kStrides[] = {1};
constexpr uint32_t kRequiredQuery =
    offsetof(bp_kernel_query, attributes_bytes) + sizeof(bp_kernel_query::attributes_bytes);
constexpr uint32_t kRequiredArg = offsetof(bp_arg_info, strides) + sizeof(bp_arg_info::strides);
constexpr uint32_t kRequiredLaunch =
    offsetof(bp_launch_args, out_extents) + sizeof(bp_launch_args::out_extents);

/// Arguments of which each ends after arg_bytes; the last one at the end of the memory.
struct Arguments {
  Arguments(uint32_t count, uint32_t arg_bytes)
      : stride(std::max(arg_bytes, 8u)), memory(new std::byte[size_t{count} * stride]) {
    note_size<bp_arg_info>(arg_bytes);
    bp_arg_info info{};
    info.struct_size = arg_bytes;
    info.dtype = BP_DTYPE_F32;
    info.rank = 1;
    info.sizes = kSizes;
    info.strides = kStrides;
    for (uint32_t i = 0; i < count; ++i) {
      std::memcpy(memory.get() + size_t{i} * stride, &info, std::min<size_t>(stride, sizeof(info)));
    }
  }
  const uint32_t stride;
  const std::unique_ptr<std::byte[]> memory;
};

bp_kernel_query query_of(const bp_kernel* kernel, uint32_t input_count,
                         const Arguments& arguments) {
  bp_kernel_query query{};
  query.kernel = kernel;
  query.op_version = kernel->version_max;
  query.input_count = input_count;
  query.output_count = 1;
  query.arg_stride_bytes = arguments.stride;
  query.args = reinterpret_cast<const bp_arg_info*>(arguments.memory.get());
  return query;
}

class TruncatedKernel : public PluginTest {
 protected:
  /// Calls body(kernel, number of inputs) for the operators that this device has.
  template <class Body>
  void for_each_kernel(Body body) const {
    const std::pair<std::string_view, uint32_t> operators[] = {
        {"relu", 1}, {"add", 2}, {"cast", 1}, {"gather", 2}};
    for (const auto& [op, input_count] : operators) {
      const bp_kernel* const found = kernel(op);
      if (found != nullptr) body(found, input_count);
    }
  }
  void ask_supports(const bp_kernel* kernel, const bp_kernel_query* query, bool must_answer) {
    if (kernel->supports == nullptr) return;
    bp_support support{};
    support.struct_size = sizeof(support);
    const bp_status status = kernel->supports(device(), query, &support);
    if (must_answer) {
      EXPECT_EQ(status, BP_OK);
    }
  }
  /// OK or UNSUPPORTED where the question is whole: the operators differ.
  void ask_plan(const bp_kernel* kernel, const bp_kernel_query* query, bool must_answer) {
    if (kernel->plan == nullptr) return;
    bp_plan_info info{};
    info.struct_size = sizeof(info);
    bp_kernel_plan* plan = nullptr;
    const bp_status status = kernel->plan(device(), query, &info, &plan);
    if (must_answer) {
      EXPECT_TRUE(status == BP_OK || status == BP_UNSUPPORTED || status == BP_INVALID_ARGUMENT);
    }
    if (plan != nullptr) kernel->plan_free(device(), plan);
  }
};

TEST_P(TruncatedKernel, Query_OfEverySize_IsReadToItsEnd) {
  for_each_kernel([&](const bp_kernel* kernel, uint32_t input_count) {
    const Arguments arguments(input_count + 1, sizeof(bp_arg_info));
    const bp_kernel_query whole = query_of(kernel, input_count, arguments);
    for_each_size<bp_kernel_query>([&](uint32_t bytes) {
      Truncated<bp_kernel_query> query(whole, bytes);
      ask_supports(kernel, query.get(), bytes >= kRequiredQuery);
      ask_plan(kernel, query.get(), bytes >= kRequiredQuery);
    });
  });
}

TEST_P(TruncatedKernel, ArgInfo_OfEverySize_IsReadToItsEnd) {
  for_each_kernel([&](const bp_kernel* kernel, uint32_t input_count) {
    for_each_size<bp_arg_info>([&](uint32_t bytes) {
      if (bytes % 8 != 0) return;  // elements of an array are aligned
      const Arguments arguments(input_count + 1, bytes);
      bp_kernel_query query = query_of(kernel, input_count, arguments);
      query.struct_size = sizeof(query);
      ask_supports(kernel, &query, bytes >= kRequiredArg);
      ask_plan(kernel, &query, bytes >= kRequiredArg);
    });
  });
}

TEST_P(TruncatedKernel, Answers_OfEverySize_AreFilledToTheirEnd) {
  for_each_kernel([&](const bp_kernel* kernel, uint32_t input_count) {
    const Arguments arguments(input_count + 1, sizeof(bp_arg_info));
    bp_kernel_query query = query_of(kernel, input_count, arguments);
    query.struct_size = sizeof(query);
    for_each_size<bp_support>([&](uint32_t bytes) {
      if (kernel->supports == nullptr) return;
      Truncated<bp_support> out({}, bytes);
      kernel->supports(device(), &query, out.get());
      EXPECT_EQ(out.struct_size(), bytes);
    });
    for_each_size<bp_plan_info>([&](uint32_t bytes) {
      if (kernel->plan == nullptr) return;
      Truncated<bp_plan_info> out({}, bytes);
      bp_kernel_plan* plan = nullptr;
      kernel->plan(device(), &query, out.get(), &plan);
      EXPECT_EQ(out.struct_size(), bytes);
      if (plan != nullptr) kernel->plan_free(device(), plan);
    });
  });
}

/// A relu that is ready to be launched.
class TruncatedLaunch : public TruncatedKernel {
 protected:
  void SetUp() override {
    TruncatedKernel::SetUp();
    if (HasFatalFailure()) return;
    relu_ = kernel("relu");
    ASSERT_NE(relu_, nullptr);
    in_ = alloc(kBytes);
    out_ = alloc(kBytes);
    const Arguments arguments(2, sizeof(bp_arg_info));
    bp_kernel_query query = query_of(relu_, 1, arguments);
    query.struct_size = sizeof(query);
    bp_plan_info info{};
    info.struct_size = sizeof(info);
    if (relu_->plan != nullptr) {
      ASSERT_EQ(relu_->plan(device(), &query, &info, &plan_), BP_OK);
    }
    if (relu_->state_create != nullptr) {
      ASSERT_EQ(relu_->state_create(device(), relu_, plan_, &state_), BP_OK);
    }
  }
  void TearDown() override {
    if (state_ != nullptr) relu_->state_destroy(device(), state_);
    if (plan_ != nullptr) relu_->plan_free(device(), plan_);
    if (in_ != 0) free(in_);
    if (out_ != 0) free(out_);
    TruncatedKernel::TearDown();
  }
  void copy(uint32_t kind, bp_mem dst, bp_mem src) const {
    const bp_copy_args args = tests::copy_args(kind, dst, src, kBytes);
    ASSERT_EQ(memory().mem_copy(device(), &args), BP_OK);
  }
  static bp_tensor tensor_of(uint64_t handle) {
    bp_tensor tensor{};
    tensor.handle = handle;
    tensor.storage_bytes = kBytes;
    tensor.dtype = BP_DTYPE_F32;
    tensor.rank = 1;
    tensor.sizes = kSizes;
    tensor.strides = kStrides;
    return tensor;
  }

  static constexpr uint64_t kBytes = kCount * sizeof(float);
  const bp_kernel* relu_ = nullptr;
  bp_kernel_plan* plan_ = nullptr;
  bp_kernel_state* state_ = nullptr;
  uint64_t in_ = 0;
  uint64_t out_ = 0;
};

TEST_P(TruncatedLaunch, Launch_ArgsOfEverySize_ComputeOrRefuse) {
  std::array<float, kCount> sent{};
  for (int64_t i = 0; i < kCount; ++i) sent[i] = static_cast<float>(i - 10);
  copy(BP_COPY_HOST_TO_DEVICE, {in_, 0}, {reinterpret_cast<uint64_t>(sent.data()), 0});
  const bp_tensor tensors[] = {tensor_of(in_), tensor_of(out_)};
  bp_launch_args whole{};
  whole.device = device();
  whole.kernel = relu_;
  whole.plan = plan_;
  whole.state = state_;
  whole.tensors = tensors;
  whole.input_count = 1;
  whole.output_count = 1;
  whole.op_seq = 3;
  for_each_size<bp_launch_args>([&](uint32_t bytes) {
    Truncated<bp_launch_args> args(whole, bytes);
    const bp_status status = relu_->launch(args.get());
    if (bytes >= kRequiredLaunch) {
      EXPECT_EQ(status, BP_OK) << bytes;
    }
  });
  std::array<float, kCount> found{};
  copy(BP_COPY_DEVICE_TO_HOST, {reinterpret_cast<uint64_t>(found.data()), 0}, {out_, 0});
  for (int64_t i = 0; i < kCount; ++i) EXPECT_EQ(found[i], std::max(sent[i], 0.0F)) << i;
}

#define BP_FOR_PLUGINS(suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(Plugins, suite, testing::ValuesIn(plugin_folders()), \
                           testing::PrintToStringParamName())
BP_FOR_PLUGINS(TruncatedKernel);
BP_FOR_PLUGINS(TruncatedLaunch);

}  // namespace
}  // namespace bp::abi
