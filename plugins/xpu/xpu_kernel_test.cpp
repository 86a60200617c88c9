// SPDX-License-Identifier: Apache-2.0
//
// The kernels of xpu against fp64 loops over the same strided views: broadcast, negative and zero
// strides, odd places in buffers, empty and 0-d tensors, both ways of launching.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <thread>

#include "xpu_test_support.hpp"

namespace bp::xpu_test {
namespace {

using ::testing::HasSubstr;
using Sizes = std::vector<int64_t>;

int64_t count_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

Sizes contiguous(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d > 0; --d) {
    strides[d - 1] = step;
    step *= sizes[d - 1];
  }
  return strides;
}

/// A view of host elements that is uploaded, `start` elements into its storage.
template <class T>
struct View {
  Sizes sizes;
  Sizes strides;
  int64_t start = 0;
  std::vector<T> storage;

  const T& at(const Sizes& index) const {
    int64_t place = start;
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * strides[d];
    return storage[static_cast<size_t>(place)];
  }
};

/// A view with room round it; the values are different from each other and of both signs.
template <class T>
View<T> make_view(const Sizes& sizes, const Sizes& strides) {
  int64_t low = 0;
  int64_t high = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t reach = std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
    (reach < 0 ? low : high) += reach;
  }
  View<T> view{sizes, strides, 3 - low, {}};
  view.storage.resize(static_cast<size_t>(high - low + 6));
  for (size_t i = 0; i < view.storage.size(); ++i) {
    view.storage[i] = static_cast<T>(static_cast<double>(i) * 0.37 - 4.0);
  }
  return view;
}

template <class T>
View<T> make_view(const Sizes& sizes) {
  return make_view<T>(sizes, contiguous(sizes));
}

/// Calls `visit` with every index of `sizes` in row-major order.
void for_each_index(const Sizes& sizes, const std::function<void(const Sizes&)>& visit) {
  Sizes index(sizes.size(), 0);
  for (int64_t i = 0; i < count_of(sizes); ++i) {
    visit(index);
    for (size_t d = sizes.size(); d > 0; --d) {
      if (++index[d - 1] < sizes[d - 1]) break;
      index[d - 1] = 0;
    }
  }
}

/// The element of `view` that belongs to `index` of the broadcast result.
template <class T>
T broadcast_at(const View<T>& view, const Sizes& index) {
  Sizes own(view.sizes.size());
  const size_t missing = index.size() - own.size();
  for (size_t d = 0; d < own.size(); ++d) own[d] = view.sizes[d] == 1 ? 0 : index[missing + d];
  return view.at(own);
}

class XpuKernelTest : public XpuTest {
 protected:
  static bp_arg_info info_of(uint32_t dtype, const Sizes& sizes, const Sizes& strides) {
    return {.struct_size = sizeof(bp_arg_info),
            .flags = 0,
            .dtype = dtype,
            .rank = static_cast<uint32_t>(sizes.size()),
            .sizes = sizes.data(),
            .strides = strides.data(),
            .host_data = nullptr};
  }

  static bp_kernel_query query_of(const bp_kernel* kernel, const std::vector<bp_arg_info>& args) {
    return {.struct_size = sizeof(bp_kernel_query),
            .flags = 0,
            .kernel = kernel,
            .op_version = 1,
            .input_count = static_cast<uint32_t>(args.size() - 1),
            .output_count = 1,
            .arg_stride_bytes = sizeof(bp_arg_info),
            .args = args.data(),
            .attributes = nullptr,
            .attributes_bytes = 0};
  }

  bp_status plan(const bp_kernel* kernel, const std::vector<bp_arg_info>& args,
                 bp_kernel_plan** out_plan) {
    const bp_kernel_query query = query_of(kernel, args);
    bp_plan_info info{};
    info.struct_size = sizeof(info);
    const bp_status status = kernel->plan(device_, &query, &info, out_plan);
    EXPECT_EQ(info.workspace_bytes, 0u);
    return status;
  }

  /// Uploads the views at odd places, runs the operator, and returns the output; it checks that
  /// nothing round the output was written.
  template <class T>
  std::vector<T> run(std::string_view op, uint32_t dtype, const std::vector<View<T>>& inputs,
                     const Sizes& out_sizes, bp_stream* stream = nullptr) {
    constexpr uint64_t kPadding = 132 / sizeof(T) * sizeof(T) + sizeof(T);
    const bp_kernel* kernel = find_kernel(op);
    const Sizes out_strides = contiguous(out_sizes);
    std::vector<bp_arg_info> args;
    std::vector<bp_tensor> tensors;
    for (const View<T>& view : inputs) {
      const uint64_t bytes = view.storage.size() * sizeof(T);
      const uint64_t handle = alloc(bytes + kPadding);
      EXPECT_EQ(upload({handle, kPadding}, view.storage.data(), bytes), BP_OK);
      args.push_back(info_of(dtype, view.sizes, view.strides));
      tensors.push_back(tensor_of(args.back(), handle,
                                  kPadding + static_cast<uint64_t>(view.start) * sizeof(T),
                                  bytes + kPadding));
    }
    const uint64_t out_bytes = static_cast<uint64_t>(count_of(out_sizes)) * sizeof(T);
    const uint64_t out_handle = alloc(out_bytes + 2 * kPadding);
    EXPECT_EQ(fill({out_handle, 0}, out_bytes + 2 * kPadding, 0xEE, 1), BP_OK);
    args.push_back(info_of(dtype, out_sizes, out_strides));
    tensors.push_back(tensor_of(args.back(), out_handle, kPadding, out_bytes + 2 * kPadding));

    launch_once(kernel, args, tensors, stream);
    const std::vector<uint8_t> bytes = read_bytes(out_handle, out_bytes + 2 * kPadding);
    for (uint64_t i = 0; i < kPadding; ++i) {
      EXPECT_EQ(bytes[i], 0xEE) << "written before the output";
      EXPECT_EQ(bytes[kPadding + out_bytes + i], 0xEE) << "written behind the output";
    }
    std::vector<T> result(static_cast<size_t>(count_of(out_sizes)));
    if (out_bytes != 0) std::memcpy(result.data(), bytes.data() + kPadding, out_bytes);
    for (const bp_tensor& tensor : tensors) free(tensor.handle);
    return result;
  }

  static bp_tensor tensor_of(const bp_arg_info& info, uint64_t handle, uint64_t offset_bytes,
                             uint64_t storage_bytes) {
    return {.handle = handle,
            .offset_bytes = offset_bytes,
            .storage_bytes = storage_bytes,
            .dtype = info.dtype,
            .rank = info.rank,
            .sizes = info.sizes,
            .strides = info.strides,
            .layout = 0,
            .flags = 0,
            .reserved = 0};
  }

  bp_launch_args args_of(const bp_kernel* kernel, const bp_kernel_plan* plan,
                         bp_kernel_state* state, bp_stream* stream,
                         const std::vector<bp_tensor>& tensors) {
    bp_launch_args args{};
    args.struct_size = sizeof(args);
    args.device = device_;
    args.kernel = kernel;
    args.plan = plan;
    args.state = state;
    args.stream = stream;
    args.tensors = tensors.data();
    args.input_count = static_cast<uint32_t>(tensors.size() - 1);
    args.output_count = 1;
    args.op_seq = 11;
    return args;
  }

  void launch_once(const bp_kernel* kernel, const std::vector<bp_arg_info>& args,
                   const std::vector<bp_tensor>& tensors, bp_stream* stream) {
    bp_kernel_plan* made = nullptr;
    ASSERT_EQ(plan(kernel, args, &made), BP_OK) << services().last_message();
    bp_kernel_state* state = nullptr;
    ASSERT_EQ(kernel->state_create(device_, kernel, made, &state), BP_OK)
        << services().last_message();
    const bp_launch_args launch_args = args_of(kernel, made, state, stream, tensors);
    EXPECT_EQ(kernel->launch(&launch_args), BP_OK) << services().last_message();
    if (stream != nullptr) {
      EXPECT_EQ(plugin_.stream->stream_sync(stream, BP_TIMEOUT_FOREVER), BP_OK);
    }
    kernel->state_destroy(device_, state);
    kernel->plan_free(device_, made);
  }

  void expect_relu(const View<float>& x) {
    const std::vector<float> y = run<float>("relu", BP_DTYPE_F32, {x}, x.sizes);
    size_t i = 0;
    for_each_index(x.sizes, [&](const Sizes& index) {
      const double expected = std::max(static_cast<double>(x.at(index)), 0.0);
      EXPECT_EQ(static_cast<double>(y[i]), expected) << "element " << i;
      ++i;
    });
    EXPECT_EQ(i, y.size());
  }

  void expect_add(const View<float>& a, const View<float>& b, const Sizes& sizes) {
    const std::vector<float> y = run<float>("add", BP_DTYPE_F32, {a, b}, sizes);
    size_t i = 0;
    for_each_index(sizes, [&](const Sizes& index) {
      // The double sum of two floats rounds to the float sum.
      const double sum =
          static_cast<double>(broadcast_at(a, index)) + static_cast<double>(broadcast_at(b, index));
      EXPECT_EQ(y[i], static_cast<float>(sum)) << "element " << i;
      ++i;
    });
    EXPECT_EQ(i, y.size());
  }

  template <class T>
  void expect_identity(uint32_t dtype, const View<T>& x) {
    const std::vector<T> y = run<T>("identity", dtype, {x}, x.sizes);
    size_t i = 0;
    for_each_index(x.sizes, [&](const Sizes& index) {
      EXPECT_EQ(y[i], x.at(index)) << "dtype " << dtype << " element " << i;
      ++i;
    });
    EXPECT_EQ(i, y.size());
  }

  /// NumPy's matmul in fp64, within the rounding bound of an f32 sum of `depth` products.
  void expect_matmul(const View<float>& a, const View<float>& b, const Sizes& sizes) {
    const std::vector<float> y = run<float>("matmul", BP_DTYPE_F32, {a, b}, sizes);
    const bool has_rows = a.sizes.size() > 1;
    const bool has_columns = b.sizes.size() > 1;
    const int64_t depth = a.sizes.back();
    const size_t batch_rank = sizes.size() - (has_rows ? 1u : 0u) - (has_columns ? 1u : 0u);
    size_t i = 0;
    for_each_index(sizes, [&](const Sizes& index) {
      Sizes a_index(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(batch_rank));
      Sizes b_index = a_index;
      if (has_rows) a_index.push_back(index[batch_rank]);
      a_index.push_back(0);
      b_index.push_back(0);
      if (has_columns) b_index.push_back(index.back());
      double sum = 0;
      double magnitude = 0;
      for (int64_t k = 0; k < depth; ++k) {
        a_index.back() = k;
        b_index[batch_rank] = k;
        const double product =
            static_cast<double>(batch_at(a, a_index)) * static_cast<double>(batch_at(b, b_index));
        sum += product;
        magnitude += std::abs(product);
      }
      const double bound = std::numeric_limits<float>::epsilon() *
                           (std::abs(sum) + std::sqrt(static_cast<double>(depth)) * magnitude * 2);
      EXPECT_NEAR(static_cast<double>(y[i]), sum, bound) << "element " << i;
      ++i;
    });
    EXPECT_EQ(i, y.size());
  }

  /// As broadcast_at, for an operand that lacks leading batch dimensions.
  static float batch_at(const View<float>& view, const Sizes& index) {
    const Sizes tail(index.end() - static_cast<std::ptrdiff_t>(view.sizes.size()), index.end());
    return broadcast_at(view, tail);
  }
};

TEST_F(XpuKernelTest, List_KernelsHaveRulesAndDependOnShapes) {
  bp_kernel_list list{};
  list.struct_size = sizeof(list);
  ASSERT_EQ(plugin_.kernel->kernel_list(device_, &list), BP_OK);
  ASSERT_GE(list.kernel_count, 6u);
  for (uint64_t i = 0; i < list.kernel_count; ++i) {
    const bp_kernel& kernel = *list.kernels[i];
    EXPECT_EQ(kernel.struct_size, sizeof(bp_kernel));
    EXPECT_NE(kernel.dtype_masks[0], 0u);
    ASSERT_GE(kernel.arg_rule_count, 1u);
    EXPECT_EQ(kernel.arg_rules[0]->flags, 0u);
    constexpr uint32_t kNeeded = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT;
    EXPECT_EQ(kernel.depends_on & kNeeded, kNeeded);
  }
}

TEST_F(XpuKernelTest, Relu_AnyShapeAndStrides_MatchesLoop) {
  for (const Sizes& sizes : {Sizes{}, {1}, {7}, {1000}, {0}, {3, 0, 2}, {2, 3, 4}, {1, 1, 5, 1}}) {
    expect_relu(make_view<float>(sizes));
  }
  expect_relu(make_view<float>({4, 5}, {1, 4}));
  expect_relu(make_view<float>({4, 5}, {-10, 2}));
  expect_relu(make_view<float>({3, 4}, {0, -1}));
  expect_relu(make_view<float>({2, 1, 3}, {3, -999, 1}));
}

TEST_F(XpuKernelTest, Relu_SpecialValues_KeepsNanAndZeroesTheRest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  View<float> x = make_view<float>({6});
  const float values[] = {std::nanf(""), kInfinity, -kInfinity, -0.0f, 1e-44f, -1e-44f};
  std::copy(std::begin(values), std::end(values), x.storage.begin() + x.start);
  const std::vector<float> y = run<float>("relu", BP_DTYPE_F32, {x}, {6});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_FALSE(std::signbit(y[3]));
  EXPECT_GE(y[4], 0.0f);
  EXPECT_EQ(y[5], 0.0f);
}

TEST_F(XpuKernelTest, Add_BroadcastAndStrides_MatchesLoop) {
  expect_add(make_view<float>({}), make_view<float>({}), {});
  expect_add(make_view<float>({1000}), make_view<float>({1000}), {1000});
  expect_add(make_view<float>({2, 3, 4}), make_view<float>({2, 3, 4}), {2, 3, 4});
  expect_add(make_view<float>({2, 3, 4}), make_view<float>({}), {2, 3, 4});
  expect_add(make_view<float>({3, 1}), make_view<float>({4}), {3, 4});
  expect_add(make_view<float>({1, 4}), make_view<float>({5, 3, 1}), {5, 3, 4});
  expect_add(make_view<float>({0, 4}), make_view<float>({1, 4}), {0, 4});
  expect_add(make_view<float>({3, 4}, {1, 3}), make_view<float>({3, 4}, {-4, 1}), {3, 4});
  expect_add(make_view<float>({2, 8, 3}, {24, 0, 1}), make_view<float>({8, 1}), {2, 8, 3});
  const Sizes deep(16, 2);
  Sizes one_wide(16, 1);
  one_wide[0] = one_wide[15] = 2;
  expect_add(make_view<float>(deep), make_view<float>(one_wide), deep);
}

TEST_F(XpuKernelTest, Identity_EveryElementSize_MakesContiguous) {
  const Sizes sizes{3, 4, 5};
  const Sizes strides{1, -15, 3};
  expect_identity<uint8_t>(BP_DTYPE_U8, make_view<uint8_t>(sizes, strides));
  expect_identity<int8_t>(BP_DTYPE_BOOL, make_view<int8_t>(sizes));
  expect_identity<uint16_t>(BP_DTYPE_BF16, make_view<uint16_t>(sizes, strides));
  expect_identity<int16_t>(BP_DTYPE_I16, make_view<int16_t>({0}));
  expect_identity<float>(BP_DTYPE_F32, make_view<float>(sizes, strides));
  expect_identity<float>(BP_DTYPE_F32, make_view<float>({}));
  expect_identity<int32_t>(BP_DTYPE_I32, make_view<int32_t>({6, 7}, {0, 0}));
  expect_identity<double>(BP_DTYPE_F64, make_view<double>(sizes, strides));
  expect_identity<std::complex<double>>(BP_DTYPE_C128,
                                        make_view<std::complex<double>>(sizes, strides));
  expect_identity<int64_t>(BP_DTYPE_I64, make_view<int64_t>({2, 2, 2, 2, 2, 2, 2, 2, 2},
                                                            {1, 2, 4, 8, 16, 32, 64, 128, 256}));
}

TEST_F(XpuKernelTest, Identity_DtypeWithoutAKernel_IsNotListed) {
  const bp_kernel* kernel = find_kernel("identity");
  EXPECT_EQ(kernel->dtype_masks[0] & BP_DTYPE_BIT(BP_DTYPE_I4), 0u);
  const Sizes sizes{2};
  const Sizes strides{1};
  const bp_arg_info info = info_of(BP_DTYPE_I4, sizes, strides);
  bp_kernel_plan* made = nullptr;
  EXPECT_EQ(plan(kernel, {info, info}, &made), BP_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
}

TEST_F(XpuKernelTest, Matmul_AnyShape_MatchesLoop) {
  for (const int64_t rows : {1, 3, 4, 9}) {
    for (const int64_t columns : {1, 7, 8, 21}) {
      for (const int64_t depth : {0, 1, 5, 64}) {
        expect_matmul(make_view<float>({rows, depth}), make_view<float>({depth, columns}),
                      {rows, columns});
      }
    }
  }
  expect_matmul(make_view<float>({0, 5}), make_view<float>({5, 9}), {0, 9});
  expect_matmul(make_view<float>({5}), make_view<float>({5}), {});
  expect_matmul(make_view<float>({5}), make_view<float>({5, 9}), {9});
  expect_matmul(make_view<float>({9, 5}), make_view<float>({5}), {9});
}

TEST_F(XpuKernelTest, Matmul_Batches_Broadcast) {
  expect_matmul(make_view<float>({2, 3, 4, 5}), make_view<float>({5, 9}), {2, 3, 4, 9});
  expect_matmul(make_view<float>({2, 1, 4, 5}), make_view<float>({3, 5, 9}), {2, 3, 4, 9});
  expect_matmul(make_view<float>({4, 5}), make_view<float>({3, 5, 2}), {3, 4, 2});
  expect_matmul(make_view<float>({5}), make_view<float>({3, 5, 8}), {3, 8});
  expect_matmul(make_view<float>({3, 4, 5}), make_view<float>({5}), {3, 4});
  expect_matmul(make_view<float>({0, 4, 5}), make_view<float>({1, 5, 8}), {0, 4, 8});
}

TEST_F(XpuKernelTest, Matmul_Strides_MatchLoop) {
  expect_matmul(make_view<float>({6, 5}, {1, 6}), make_view<float>({5, 9}), {6, 9});
  expect_matmul(make_view<float>({6, 5}), make_view<float>({5, 9}, {1, 5}), {6, 9});
  expect_matmul(make_view<float>({6, 5}, {-7, 1}), make_view<float>({5, 16}, {-20, 1}), {6, 16});
  expect_matmul(make_view<float>({6, 5}, {0, 2}), make_view<float>({5, 16}, {16, -1}), {6, 16});
  expect_matmul(make_view<float>({2, 6, 5}, {-30, 5, 1}), make_view<float>({2, 5, 8}, {0, 8, 1}),
                {2, 6, 8});
}

TEST_F(XpuKernelTest, Matmul_LargerThanAGroup_MatchesLoop) {
  expect_matmul(make_view<float>({67, 131}), make_view<float>({131, 93}), {67, 93});
}

TEST_F(XpuKernelTest, Launch_OnAStream_FollowsItsOrder) {
  Gate gate;
  bp_stream* stream = make_stream();
  const bp_kernel* kernel = find_kernel("add");
  const Sizes sizes{64};
  const Sizes strides{1};
  const bp_arg_info info = info_of(BP_DTYPE_F32, sizes, strides);
  bp_kernel_plan* made = nullptr;
  ASSERT_EQ(plan(kernel, {info, info, info}, &made), BP_OK);
  bp_kernel_state* state = nullptr;
  ASSERT_EQ(kernel->state_create(device_, kernel, made, &state), BP_OK);
  const uint64_t x = alloc(256);
  const uint64_t y = alloc(256);
  const std::vector<float> ones(64, 1.0f);
  std::vector<float> result(64);

  ASSERT_EQ(gate.hold(*plugin_.stream, stream), BP_OK);
  ASSERT_EQ(upload({x, 0}, ones.data(), 256, stream), BP_OK);
  ASSERT_EQ(fill({y, 0}, 256, 0, 4, stream), BP_OK);
  for (int i = 0; i < 100; ++i) {
    std::vector<bp_tensor> tensors{tensor_of(info, y, 0, 256), tensor_of(info, x, 0, 256),
                                   tensor_of(info, y, 0, 256)};
    const bp_launch_args args = args_of(kernel, made, state, stream, tensors);
    ASSERT_EQ(kernel->launch(&args), BP_OK);
    // launch has consumed them.
    std::memset(tensors.data(), 0xFF, tensors.size() * sizeof(bp_tensor));
  }
  ASSERT_EQ(download(result.data(), {y, 0}, 256, stream), BP_OK);
  EXPECT_EQ(plugin_.stream->stream_query(stream), BP_PENDING);
  gate.release();
  ASSERT_EQ(plugin_.stream->stream_sync(stream, BP_TIMEOUT_FOREVER), BP_OK);
  EXPECT_EQ(result, std::vector<float>(64, 100.0f));

  kernel->state_destroy(device_, state);
  kernel->plan_free(device_, made);
  EXPECT_EQ(plugin_.stream->stream_destroy(stream), BP_OK);
  free(x);
  free(y);
}

TEST_F(XpuKernelTest, Launch_FromManyThreads_SharesThePlan) {
  constexpr int kThreads = 4;
  const bp_kernel* kernel = find_kernel("relu");
  const Sizes sizes{32};
  const Sizes strides{1};
  const bp_arg_info info = info_of(BP_DTYPE_F32, sizes, strides);
  bp_kernel_plan* made = nullptr;
  ASSERT_EQ(plan(kernel, {info, info}, &made), BP_OK);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      bp_kernel_state* state = nullptr;
      EXPECT_EQ(kernel->state_create(device_, kernel, made, &state), BP_OK);
      bp_stream* stream = t % 2 == 0 ? make_stream() : nullptr;
      const uint64_t x = alloc(128);
      const uint64_t y = alloc(128);
      for (int i = 0; i < 50; ++i) {
        const std::vector<float> values(32, static_cast<float>(t * 100 + i));
        std::vector<float> result(32);
        const std::vector<bp_tensor> tensors{tensor_of(info, x, 0, 128),
                                             tensor_of(info, y, 0, 128)};
        const bp_launch_args args = args_of(kernel, made, state, stream, tensors);
        bool ok = upload({x, 0}, values.data(), 128, stream) == BP_OK &&
                  kernel->launch(&args) == BP_OK &&
                  download(result.data(), {y, 0}, 128, stream) == BP_OK;
        if (stream != nullptr)
          ok = ok && plugin_.stream->stream_sync(stream, BP_TIMEOUT_FOREVER) == BP_OK;
        if (!ok || result != values) wrong += 1;
      }
      kernel->state_destroy(device_, state);
      if (stream != nullptr) {
        EXPECT_EQ(plugin_.stream->stream_destroy(stream), BP_OK);
      }
      free(x);
      free(y);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  kernel->plan_free(device_, made);
}

TEST_F(XpuKernelTest, Plan_BadShapes_AreRefusedWithWords) {
  const Sizes three{3};
  const Sizes four{4};
  const Sizes unknown{-1};
  const Sizes dense{1};
  const bp_arg_info a = info_of(BP_DTYPE_F32, three, dense);
  const bp_arg_info b = info_of(BP_DTYPE_F32, four, dense);
  const bp_arg_info open = info_of(BP_DTYPE_F32, unknown, dense);
  const Sizes none;
  const bp_arg_info scalar = info_of(BP_DTYPE_F32, none, none);
  bp_kernel_plan* made = nullptr;
  EXPECT_EQ(plan(find_kernel("add"), {a, b, b}, &made), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "plan: an input's size 3 does not broadcast to 4");
  EXPECT_EQ(plan(find_kernel("add"), {a, a, scalar}, &made), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plan(find_kernel("relu"), {open, open}, &made), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("has no known sizes"));
  EXPECT_EQ(plan(find_kernel("relu"), {a, a, a}, &made), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "plan: 2 inputs and 1 outputs; expected 1 and 1");
  EXPECT_EQ(plan(find_kernel("matmul"), {a, b, scalar}, &made), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plan(find_kernel("matmul"), {scalar, a, a}, &made), BP_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
}

TEST_F(XpuKernelTest, Launch_OnMemoryThatIsNotTheDevices_IsRefused) {
  const bp_kernel* kernel = find_kernel("relu");
  const Sizes sizes{4};
  const Sizes strides{1};
  const bp_arg_info info = info_of(BP_DTYPE_F32, sizes, strides);
  bp_kernel_plan* made = nullptr;
  ASSERT_EQ(plan(kernel, {info, info}, &made), BP_OK);
  bp_kernel_state* state = nullptr;
  ASSERT_EQ(kernel->state_create(device_, kernel, made, &state), BP_OK);
  const uint64_t handle = alloc(64);
  const bp_tensor own = tensor_of(info, handle, 0, 64);
  for (const auto& [wrong, words] :
       {std::pair{tensor_of(info, handle + 8, 0, 64), "is not an allocation of this device"},
        std::pair{tensor_of(info, handle, 0, 65), "reach beyond the 64 bytes"}}) {
    for (const std::vector<bp_tensor>& tensors : {std::vector{wrong, own}, {own, wrong}}) {
      bp_launch_args args = args_of(kernel, made, state, nullptr, tensors);
      EXPECT_EQ(kernel->launch(&args), BP_INVALID_ARGUMENT);
      EXPECT_THAT(services().last_message(), HasSubstr(words));
    }
  }
  free(handle);
  kernel->state_destroy(device_, state);
  kernel->plan_free(device_, made);
}

TEST_F(XpuKernelTest, Launch_WithoutMemoryOrState_IsRefused) {
  const bp_kernel* kernel = find_kernel("relu");
  const Sizes sizes{4};
  const Sizes strides{1};
  const bp_arg_info info = info_of(BP_DTYPE_F32, sizes, strides);
  bp_kernel_plan* made = nullptr;
  ASSERT_EQ(plan(kernel, {info, info}, &made), BP_OK);
  bp_kernel_state* state = nullptr;
  ASSERT_EQ(kernel->state_create(device_, kernel, made, &state), BP_OK);
  const std::vector<bp_tensor> tensors{tensor_of(info, 0, 0, 0), tensor_of(info, 0, 0, 0)};
  bp_launch_args args = args_of(kernel, made, state, nullptr, tensors);
  EXPECT_EQ(kernel->launch(&args), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "relu_dense: tensor 0 has no memory");
  args.state = nullptr;
  EXPECT_EQ(kernel->launch(&args), BP_INVALID_ARGUMENT);
  kernel->state_destroy(device_, state);
  kernel->plan_free(device_, made);
}

}  // namespace
}  // namespace bp::xpu_test
