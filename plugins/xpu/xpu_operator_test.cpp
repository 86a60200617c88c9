// SPDX-License-Identifier: Apache-2.0
//
// What the conformance kit does not reach: sizes round those of tiles and groups, padding beside
// weights that are not finite, and the fault word, on the kernels that are written by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>

#include "backplane/ops/indexing.h"
#include "backplane/ops/nn.h"
#include "backplane/ops/normalization.h"
#include "backplane/ops/sorting.h"
#include "xpu_test_support.hpp"

namespace bp::xpu_test::operators {
namespace {

using Sizes = std::vector<int64_t>;

/// A contiguous tensor on the host.
struct Array {
  uint32_t dtype = BP_DTYPE_F32;
  Sizes sizes;
  std::vector<uint8_t> bytes;
  Sizes strides;

  template <class T>
  std::vector<T> values() const {
    std::vector<T> result(bytes.size() / sizeof(T));
    std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
    return result;
  }
};

template <class T>
Array array_of(uint32_t dtype, const Sizes& sizes, const std::vector<T>& values) {
  Array array{dtype, sizes, std::vector<uint8_t>(values.size() * sizeof(T)),
              Sizes(sizes.size(), 1)};
  if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  for (size_t d = sizes.size(); d-- > 1;) array.strides[d - 1] = array.strides[d] * sizes[d];
  return array;
}

int64_t count_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Small whole numbers of both signs: sums of their products are exact in f32.
Array numbers(const Sizes& sizes, int seed) {
  std::vector<float> values(static_cast<size_t>(count_of(sizes)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>((i * 7 + static_cast<size_t>(seed)) % 11) - 5);
  }
  return array_of(BP_DTYPE_F32, sizes, values);
}

class XpuOperatorTest : public XpuTest {
 protected:
  /// Runs `op` on the inputs; outputs come with their dtypes and sizes, and go with their bytes.
  /// Answers the fault word.
  bp_fault_word run(std::string_view op, const std::vector<Array>& inputs,
                    std::vector<Array>* outputs, const void* attributes) {
    std::vector<bp_arg_info> infos;
    std::vector<bp_tensor> tensors;
    const auto add = [&](const Array& array) {
      const uint64_t bytes = std::max<uint64_t>(array.bytes.size(), 16);
      const uint64_t handle = alloc(bytes);
      if (!array.bytes.empty()) {
        EXPECT_EQ(upload({handle, 0}, array.bytes.data(), array.bytes.size()), BP_OK);
      }
      const auto rank = static_cast<uint32_t>(array.sizes.size());
      infos.push_back({sizeof(bp_arg_info), 0, array.dtype, rank, array.sizes.data(),
                       array.strides.data(), array.bytes.data()});
      tensors.push_back(
          {handle, 0, bytes, array.dtype, rank, array.sizes.data(), array.strides.data(), 0, 0, 0});
    };
    for (const Array& input : inputs) add(input);
    for (const Array& output : *outputs) add(output);
    const bp_fault_word fault = launch(find_kernel(op), infos, tensors, inputs.size(), attributes);
    for (size_t i = 0; i < outputs->size(); ++i) {
      Array& output = (*outputs)[i];
      output.bytes = read_bytes(tensors[inputs.size() + i].handle, output.bytes.size());
    }
    for (const bp_tensor& tensor : tensors) free(tensor.handle);
    return fault;
  }

  template <class T>
  std::vector<T> run_one(std::string_view op, const std::vector<Array>& inputs, uint32_t dtype,
                         const Sizes& sizes, const void* attributes) {
    std::vector<Array> outputs{
        array_of(dtype, sizes, std::vector<T>(static_cast<size_t>(count_of(sizes)), T(99)))};
    run(op, inputs, &outputs, attributes);
    return outputs[0].values<T>();
  }

 private:
  bp_fault_word launch(const bp_kernel* kernel, const std::vector<bp_arg_info>& infos,
                       const std::vector<bp_tensor>& tensors, size_t input_count,
                       const void* attributes) {
    bp_kernel_query query{};
    query.struct_size = sizeof(query);
    query.kernel = kernel;
    query.op_version = 1;
    query.input_count = static_cast<uint32_t>(input_count);
    query.output_count = static_cast<uint32_t>(infos.size() - input_count);
    query.arg_stride_bytes = sizeof(bp_arg_info);
    query.args = infos.data();
    query.attributes = attributes;
    bp_plan_info info{};
    info.struct_size = sizeof(info);
    bp_kernel_plan* plan = nullptr;
    EXPECT_EQ(kernel->plan(device_, &query, &info, &plan), BP_OK) << services().last_message();
    bp_kernel_state* state = nullptr;
    EXPECT_EQ(kernel->state_create(device_, kernel, plan, &state), BP_OK)
        << services().last_message();
    bp_launch_args args{};
    args.struct_size = sizeof(args);
    args.device = device_;
    args.kernel = kernel;
    args.plan = plan;
    args.state = state;
    args.tensors = tensors.data();
    args.input_count = query.input_count;
    args.output_count = query.output_count;
    args.attributes = attributes;
    args.op_seq = 77;
    if (info.workspace_bytes != 0) args.workspace = {alloc(info.workspace_bytes), 0};
    args.fault = {alloc(sizeof(bp_fault_word)), 0};
    EXPECT_EQ(fill(args.fault, sizeof(bp_fault_word), 0, 4), BP_OK);
    EXPECT_EQ(kernel->launch(&args), BP_OK) << services().last_message();
    bp_fault_word fault{};
    EXPECT_EQ(download(&fault, args.fault, sizeof(fault)), BP_OK);
    free(args.fault.handle);
    if (args.workspace.handle != 0) free(args.workspace.handle);
    kernel->state_destroy(device_, state);
    kernel->plan_free(device_, plan);
    return fault;
  }
};

/// y[m, n] = sum of a[m, k] b[k, n], in double.
std::vector<float> product(const Array& a, const Array& b) {
  const auto x = a.values<float>();
  const auto w = b.values<float>();
  const auto at = [](const Sizes& sizes, int64_t i, int64_t j) {
    return static_cast<size_t>(i * sizes[1] + j);
  };
  std::vector<float> y;
  for (int64_t i = 0; i < a.sizes[0]; ++i) {
    for (int64_t j = 0; j < b.sizes[1]; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.sizes[1]; ++k) {
        sum +=
            static_cast<double>(x[at(a.sizes, i, k)]) * static_cast<double>(w[at(b.sizes, k, j)]);
      }
      y.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

TEST_F(XpuOperatorTest, Matmul_AcrossTiles_MatchesLoop) {
  for (const Sizes& sizes : {Sizes{8, 1, 8}, {9, 8, 31}, {32, 9, 33}, {33, 17, 64}, {65, 70, 8}}) {
    const Array a = numbers({sizes[0], sizes[1]}, 1);
    const Array b = numbers({sizes[1], sizes[2]}, 2);
    // The same b, lying across: the tiles in local memory read it.
    Array across = numbers({sizes[2], sizes[1]}, 2);
    std::vector<float> turned(static_cast<size_t>(count_of(b.sizes)));
    const auto values = b.values<float>();
    for (int64_t k = 0; k < sizes[1]; ++k) {
      for (int64_t n = 0; n < sizes[2]; ++n) {
        turned[static_cast<size_t>(n * sizes[1] + k)] =
            values[static_cast<size_t>(k * sizes[2] + n)];
      }
    }
    across = array_of(BP_DTYPE_F32, across.sizes, turned);
    across.sizes = b.sizes;
    across.strides = {1, sizes[1]};
    const Sizes out{sizes[0], sizes[2]};
    EXPECT_EQ(run_one<float>("matmul", {a, b}, BP_DTYPE_F32, out, nullptr), product(a, b));
    EXPECT_EQ(run_one<float>("matmul", {a, across}, BP_DTYPE_F32, out, nullptr), product(a, b));
  }
}

TEST_F(XpuOperatorTest, Conv_MoreChannelsAndPlacesThanATile_MatchesTheProduct) {
  // A window of one element is a matrix product over the channels; the shapes take different ways.
  for (const Sizes& spatial : {Sizes{67, 1}, {1, 67}, {1, 3}}) {
    for (const int64_t channels : {2, 35}) {
      const int64_t places = spatial[0] * spatial[1];
      const Array x = numbers({1, 37, spatial[0], spatial[1]}, 3);
      const Array w = numbers({channels, 37, 1, 1}, 4);
      Array x_matrix = x;
      x_matrix.sizes = {37, places};
      Array w_matrix = w;
      w_matrix.sizes = {channels, 37};
      const bp_attrs_conv attributes = bp_attrs_conv_defaults();
      EXPECT_EQ(run_one<float>("conv", {x, w}, BP_DTYPE_F32, {1, channels, spatial[0], spatial[1]},
                               &attributes),
                product(w_matrix, x_matrix));
    }
  }
}

TEST_F(XpuOperatorTest, Conv_WeightThatIsNotFinite_AddsNothingWhereItMeetsPadding) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // The window goes along the second last dimension, then along the last: by tiles, and by strips.
  for (const bool along_last : {false, true}) {
    for (const int64_t channels : {1, 9}) {
      std::vector<float> weights(static_cast<size_t>(channels) * 3, 1.0f);
      weights[0] = kInfinity;  // of channel 0, met by what stands before
      const Sizes w_sizes = along_last ? Sizes{channels, 1, 1, 3} : Sizes{channels, 1, 3, 1};
      const Sizes x_sizes = along_last ? Sizes{1, 1, 1, 4} : Sizes{1, 1, 4, 1};
      const Array w = array_of(BP_DTYPE_F32, w_sizes, weights);
      const Array x = array_of(BP_DTYPE_F32, x_sizes, std::vector<float>{1, 2, 3, 4});
      bp_attrs_conv attributes = bp_attrs_conv_defaults();
      const int64_t pads[] = {!along_last, along_last, !along_last, along_last};
      attributes.pads = {pads, 4};
      Sizes y_sizes = x_sizes;
      y_sizes[1] = channels;
      const auto y = run_one<float>("conv", {x, w}, BP_DTYPE_F32, y_sizes, &attributes);
      EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 4),
                (std::vector<float>{3, kInfinity, kInfinity, kInfinity}));
      if (channels > 1) {
        EXPECT_EQ(y[4], 3);
      }
    }
  }
}

TEST_F(XpuOperatorTest, GatherNd_IndexOutOfRange_IsClampedAndReported) {
  const Array x = array_of(BP_DTYPE_F32, {2, 3}, std::vector<float>{0, 1, 2, 3, 4, 5});
  const Array indices = array_of(BP_DTYPE_I64, {3, 2}, std::vector<int64_t>{0, -1, 1, 9, -2, 0});
  const bp_attrs_gather_nd attributes = bp_attrs_gather_nd_defaults();
  std::vector<Array> y{array_of(BP_DTYPE_F32, {3}, std::vector<float>(3))};
  const bp_fault_word fault = run("gather_nd", {x, indices}, &y, &attributes);
  EXPECT_EQ(y[0].values<float>(), (std::vector<float>{2, 5, 0}));
  EXPECT_EQ(fault.code, BP_FAULT_INDEX);
  EXPECT_EQ(fault.input, 1u);
  EXPECT_EQ(fault.op_seq, 77u);
  EXPECT_EQ(fault.index, 9);
  EXPECT_EQ(fault.extent, 3);
}

TEST_F(XpuOperatorTest, ScatterNd_ManyRowsForFewPlaces_TheLastOneStays) {
  // So many that several work items share the rows out.
  constexpr int64_t kRows = 1000;
  std::vector<int64_t> places;
  std::vector<float> values;
  std::vector<float> expected(5, -1.0f);
  for (int64_t i = 0; i < kRows; ++i) {
    places.push_back(i * 7 % 5);
    values.push_back(static_cast<float>(i));
    expected[static_cast<size_t>(places.back())] = values.back();
  }
  const bp_attrs_scatter_nd attributes = bp_attrs_scatter_nd_defaults();
  EXPECT_EQ(run_one<float>("scatter_nd",
                           {array_of(BP_DTYPE_F32, {5}, std::vector<float>(5, -1.0f)),
                            array_of(BP_DTYPE_I64, {kRows, 1}, places),
                            array_of(BP_DTYPE_F32, {kRows}, values)},
                           BP_DTYPE_F32, {5}, &attributes),
            expected);
}

TEST_F(XpuOperatorTest, Scatter_IntoNothing_ReportsAndWritesNothing) {
  const bp_attrs_scatter_elements attributes = bp_attrs_scatter_elements_defaults();
  std::vector<Array> y{array_of(BP_DTYPE_F32, {0}, std::vector<float>())};
  const bp_fault_word fault = run("scatter_elements",
                                  {y[0], array_of(BP_DTYPE_I32, {1}, std::vector<int32_t>{0}),
                                   array_of(BP_DTYPE_F32, {1}, std::vector<float>{1})},
                                  &y, &attributes);
  EXPECT_EQ(fault.code, BP_FAULT_INDEX);
  EXPECT_EQ(fault.extent, 0);
}

TEST_F(XpuOperatorTest, TopK_EqualsAndNan_KeepTheirOrder) {
  // More elements than a group has work items, most of them equal.
  constexpr int64_t kLength = 1000;
  std::vector<float> values(kLength, 1.0f);
  values[3] = std::nanf("");
  values[500] = 2.0f;
  values[999] = std::numeric_limits<float>::infinity();
  const bp_attrs_top_k attributes = bp_attrs_top_k_defaults();
  std::vector<Array> outputs{array_of(BP_DTYPE_F32, {6}, std::vector<float>(6)),
                             array_of(BP_DTYPE_I64, {6}, std::vector<int64_t>(6))};
  run("top_k",
      {array_of(BP_DTYPE_F32, {kLength}, values),
       array_of(BP_DTYPE_I64, {1}, std::vector<int64_t>{6})},
      &outputs, &attributes);
  EXPECT_EQ(outputs[1].values<int64_t>(), (std::vector<int64_t>{3, 999, 500, 0, 1, 2}));
  EXPECT_TRUE(std::isnan(outputs[0].values<float>()[0]));
  EXPECT_EQ(outputs[0].values<float>()[2], 2.0f);
}

/// Where the elements of a lane lie that begins at `first`, the greatest first, equals in order.
template <class T>
std::vector<int64_t> descending_places(const std::vector<T>& x, int64_t first, int64_t length,
                                       int64_t step) {
  std::vector<int64_t> places(static_cast<size_t>(length));
  std::iota(places.begin(), places.end(), int64_t{0});
  std::ranges::stable_sort(places, std::greater<>(),
                           [&](int64_t i) { return x[static_cast<size_t>(first + i * step)]; });
  return places;
}

TEST_F(XpuOperatorTest, TopK_MoreThanABlock_IsAStableSort) {
  // Three lanes side by side; counts around those of one block, of two, and of no power of two.
  constexpr int64_t kLanes = 3;
  bp_attrs_top_k attributes = bp_attrs_top_k_defaults();
  attributes.axis = 0;
  const auto check = [&]<class T>(uint32_t dtype, int64_t length, int64_t k, T scale) {
    std::vector<T> x(static_cast<size_t>(kLanes * length));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 7919 % 331) * scale;
    std::vector<Array> outputs{
        array_of(dtype, {k, kLanes}, std::vector<T>(static_cast<size_t>(k * kLanes))),
        array_of(BP_DTYPE_I64, {k, kLanes}, std::vector<int64_t>(static_cast<size_t>(k * kLanes)))};
    run("top_k",
        {array_of(dtype, {length, kLanes}, x),
         array_of(BP_DTYPE_I64, {1}, std::vector<int64_t>{k})},
        &outputs, &attributes);
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const std::vector<int64_t> places = descending_places(x, lane, length, kLanes);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t place = places[static_cast<size_t>(i)];
        const auto at = static_cast<size_t>(i * kLanes + lane);
        ASSERT_EQ(outputs[1].values<int64_t>()[at], place) << length << ' ' << k << ' ' << i;
        ASSERT_EQ(outputs[0].values<T>()[at], x[static_cast<size_t>(place * kLanes + lane)]);
      }
    }
  };
  for (const int64_t k : {1, 31, 32, 33, 64, 65, 1000, 5001}) {
    for (const int64_t length : {k, k + 100}) {
      check(BP_DTYPE_F32, length, k, -0.5f);
      check(BP_DTYPE_I64, length, k, int64_t{-1} << 40);
    }
  }
}

TEST_F(XpuOperatorTest, Argmax_LongLane_FindsTheFirstOfEqualOnes) {
  std::vector<float> values(777, 0.0f);
  values[70] = values[700] = 5.0f;
  bp_attrs_argmax attributes = bp_attrs_argmax_defaults();
  const Array x = array_of(BP_DTYPE_F32, {777}, values);
  EXPECT_EQ(run_one<int64_t>("argmax", {x}, BP_DTYPE_I64, {1}, &attributes)[0], 70);
  attributes.select_last_index = 1;
  EXPECT_EQ(run_one<int64_t>("argmax", {x}, BP_DTYPE_I64, {1}, &attributes)[0], 700);
}

TEST_F(XpuOperatorTest, LayerNorm_RowsThatHardlyVary_KeepTheirDigits) {
  // In f32 the mean of such rows is off by its last bit, which 1 / sqrt(epsilon) makes visible.
  const bp_attrs_layer_norm attributes = bp_attrs_layer_norm_defaults();
  const Sizes sizes{2, 768};
  const Array ones = array_of(BP_DTYPE_F32, {768}, std::vector<float>(768, 1.0f));
  const Array zeros = array_of(BP_DTYPE_F32, {768}, std::vector<float>(768, 0.0f));
  for (const float value : {0.1f, 200.3f, 1000.7f, -54321.9f}) {
    std::vector<float> x(2 * 768, value);
    for (size_t i = 768; i < x.size(); i += 2) x[i] += value * 0x1p-20f;
    const std::vector<float> y =
        run_one<float>("layer_norm", {array_of(BP_DTYPE_F32, sizes, x), ones, zeros}, BP_DTYPE_F32,
                       sizes, &attributes);
    const double half = (double{x[768]} - double{x[769]}) / 2;
    const double expected = half / std::sqrt(half * half + attributes.epsilon);
    for (size_t i = 0; i < 768; ++i) ASSERT_NEAR(y[i], 0.0f, 1e-6) << value;
    for (size_t i = 768; i < x.size(); ++i) {
      ASSERT_NEAR(y[i], i % 2 == 0 ? expected : -expected, 2e-6) << value;
    }
  }
}

}  // namespace
}  // namespace bp::xpu_test::operators
