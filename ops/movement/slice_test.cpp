// SPDX-License-Identifier: Apache-2.0
//
// Inference and views of squeeze, unsqueeze, expand, slice, concat and split.
#include <gtest/gtest.h>

#include <optional>

#include "ops/infer/infer_test_support.hpp"

namespace bp::ops {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kMost = INT64_MAX;
constexpr int64_t kLeast = INT64_MIN;

/// An operator of x and lists that are known; nullopt: an absent one.
std::string of_lists(std::string_view op, const TensorType& x,
                     const std::vector<std::optional<Ints>>& lists) {
  std::vector<TensorType> types{x};
  std::vector<const void*> data{nullptr};
  for (const auto& list : lists) {
    types.push_back(list ? typed(BP_DTYPE_I64, {static_cast<int64_t>(list->size())})
                         : TensorType{});
    data.push_back(list ? list->data() : nullptr);
  }
  return inferred(op, types, nullptr, data);
}

/// ... and lists of which the length alone is known.
std::string of_lengths(std::string_view op, const TensorType& x, const Ints& lengths) {
  std::vector<TensorType> types{x};
  for (int64_t length : lengths) types.push_back(typed(BP_DTYPE_I64, {length}));
  return inferred(op, types);
}

TEST(InferSqueeze, Dimensions_Go) {
  EXPECT_EQ(of_lists("squeeze", f32({1, 2, 1, kN}), {Ints{0, -2}}), "f32[2, s0]");
  EXPECT_EQ(of_lists("squeeze", f32({1, 2, 1}), {}), "f32[2]");
  EXPECT_EQ(of_lists("squeeze", f32({1, 2, 1}), {std::nullopt}), "f32[2]");
  EXPECT_EQ(of_lists("squeeze", f32({1, 2}), {Ints{}}), "f32[1, 2]");
  EXPECT_EQ(of_lists("squeeze", f32({kU, kN}), {Ints{0}}), "f32[s0]") << "it has to be 1";
  EXPECT_EQ(of_lists("squeeze", f32({0, 1}), {}), "f32[0]");
}

TEST(InferSqueeze, Unknowns_GiveWhatIsKnown) {
  EXPECT_EQ(of_lists("squeeze", f32({1, kN}), {}), "f32[...]") << "s0 may be 1";
  EXPECT_EQ(of_lists("squeeze", no_rank(), {Ints{0}}), "f32[...]");
  EXPECT_EQ(of_lengths("squeeze", f32({1, 2, 1}), {2}), "f32[?]");
  EXPECT_EQ(of_lengths("squeeze", f32({1, 2, 1}), {kN}), "f32[...]");
}

TEST(InferSqueeze, BadAxes_AreNamed) {
  EXPECT_EQ(of_lists("squeeze", f32({1, 2}), {Ints{1}}),
            "squeeze: input 'axes': dimension 1 of [1, 2]: expected size 1, found 2");
  EXPECT_EQ(of_lists("squeeze", f32({1, 2}), {Ints{2}}),
            "squeeze: input 'axes': expected -2 to 1, found 2");
  EXPECT_EQ(of_lists("squeeze", f32({1, 2}), {Ints{0, -2}}),
            "squeeze: input 'axes': expected each axis once, found -2 again");
  EXPECT_EQ(of_lengths("squeeze", f32({1, 2}), {3}),
            "squeeze: input 'axes': expected up to 2 values, found 3");
  EXPECT_EQ(of_lengths("squeeze", no_rank(), {17}),
            "squeeze: input 'axes': expected up to 16 values, found 17");
}

TEST(InferUnsqueeze, Dimensions_Come) {
  EXPECT_EQ(of_lists("unsqueeze", f32({2, kN}), {Ints{3, 0}}), "f32[1, 2, s0, 1]");
  EXPECT_EQ(of_lists("unsqueeze", f32({}), {Ints{-1}}), "f32[1]");
  EXPECT_EQ(of_lists("unsqueeze", f32({2}), {Ints{}}), "f32[2]");
  EXPECT_EQ(of_lengths("unsqueeze", f32({2}), {1}), "f32[?, ?]");
  EXPECT_EQ(of_lengths("unsqueeze", f32({2}), {kU}), "f32[...]");
  EXPECT_EQ(of_lists("unsqueeze", no_rank(), {Ints{0}}), "f32[...]");
}

TEST(InferUnsqueeze, BadAxes_AreNamed) {
  EXPECT_EQ(of_lists("unsqueeze", f32({2}), {Ints{2}}),
            "unsqueeze: input 'axes': expected -2 to 1, found 2");
  EXPECT_EQ(of_lists("unsqueeze", f32({2}), {Ints{0, 0}}),
            "unsqueeze: input 'axes': expected each axis once, found 0 again");
  Dims fifteen;
  fifteen.resize(15, 1);
  EXPECT_EQ(of_lists("unsqueeze", f32(fifteen), {Ints{0, 1}}),
            "unsqueeze: input 'axes': the output would have rank 17, above 16");
  EXPECT_EQ(inferred("unsqueeze", {f32({2})}), "unsqueeze: expected 2 inputs, found 1");
}

TEST(InferExpand, Sizes_Broadcast) {
  EXPECT_EQ(of_lists("expand", f32({3, 1}), {Ints{2, 1, 6}}), "f32[2, 3, 6]");
  EXPECT_EQ(of_lists("expand", f32({3, 4}), {Ints{1}}), "f32[3, 4]");
  EXPECT_EQ(of_lists("expand", f32({kN, 1}), {Ints{1, 5}}), "f32[s0, 5]");
  EXPECT_EQ(of_lists("expand", f32({kN, 1}), {Ints{7, 1}}), "f32[7, 1]");
  EXPECT_EQ(of_lists("expand", f32({1}), {Ints{0}}), "f32[0]");
  EXPECT_EQ(of_lists("expand", f32({}), {Ints{}}), "f32[]");
  EXPECT_EQ(of_lengths("expand", f32({3, 1}), {3}), "f32[?, 3, ?]");
  EXPECT_EQ(of_lengths("expand", f32({3, 1}), {kN}), "f32[...]");
  EXPECT_EQ(of_lists("expand", no_rank(), {Ints{2}}), "f32[...]");
}

TEST(InferExpand, BadShapes_AreNamed) {
  EXPECT_EQ(of_lists("expand", f32({3}), {Ints{2}}),
            "expand: input 'shape': expected sizes that broadcast (each pair, counted from the "
            "end, equal or with a 1), found [3] and [2]");
  EXPECT_EQ(of_lists("expand", f32({3}), {Ints{-1}}),
            "expand: input 'shape': expected sizes from 0, found -1");
  EXPECT_NE(of_lists("expand", f32({1}), {Ints{kMost, kMost}}).find("can be counted"),
            std::string::npos);
}

TEST(InferSlice, Ranges_AreCutToTheDimension) {
  const TensorType x = f32({5, 7});
  EXPECT_EQ(of_lists("slice", x, {Ints{1, 2}, Ints{4, 9}}), "f32[3, 5]");
  EXPECT_EQ(of_lists("slice", x, {Ints{-3}, Ints{-1}}), "f32[2, 7]");
  EXPECT_EQ(of_lists("slice", x, {Ints{0}, Ints{kMost}, Ints{-1}, Ints{3}}), "f32[5, 3]");
  EXPECT_EQ(of_lists("slice", x, {Ints{4}, Ints{1}}), "f32[0, 7]");
  EXPECT_EQ(of_lists("slice", x, {Ints{9}, Ints{kMost}}), "f32[0, 7]");
  EXPECT_EQ(of_lists("slice", x, {Ints{-99}, Ints{99}}), "f32[5, 7]");
  EXPECT_EQ(of_lists("slice", x, {Ints{}, Ints{}}), "f32[5, 7]");
  EXPECT_EQ(of_lists("slice", f32({0}), {Ints{0}, Ints{1}}), "f32[0]");
}

TEST(InferSlice, NegativeSteps_GoBackwards) {
  const TensorType x = f32({5});
  const auto with_step = [&](int64_t start, int64_t end, int64_t step) {
    return of_lists("slice", x, {Ints{start}, Ints{end}, std::nullopt, Ints{step}});
  };
  EXPECT_EQ(with_step(-1, kLeast, -1), "f32[5]");
  EXPECT_EQ(with_step(99, -99, -2), "f32[3]");
  EXPECT_EQ(with_step(3, 0, -1), "f32[3]");
  EXPECT_EQ(with_step(0, 3, -1), "f32[0]");
  EXPECT_EQ(with_step(3, -1, -1), "f32[0]") << "-1 is the last place, not the one before 0";
  EXPECT_EQ(with_step(kMost, kLeast, kLeast), "f32[1]");
  EXPECT_EQ(with_step(kLeast, kMost, kMost), "f32[1]");
  EXPECT_EQ(with_step(-6, -6, -2), "f32[1]") << "it begins at 0 and ends before";
  EXPECT_EQ(with_step(kLeast, kLeast, -1), "f32[1]");
  EXPECT_EQ(with_step(-6, 0, -1), "f32[0]");
  EXPECT_EQ(of_lists("slice", f32({0}), {Ints{-1}, Ints{kLeast}, std::nullopt, Ints{-1}}),
            "f32[0]");
}

TEST(InferSlice, UnknownSizes_StayWhereAllIsTaken) {
  const TensorType x = f32({kN, kU, 4});
  EXPECT_EQ(of_lists("slice", x, {Ints{0}, Ints{kMost}}), "f32[s0, ?, 4]");
  EXPECT_EQ(of_lists("slice", x, {Ints{-1}, Ints{kLeast}, Ints{0}, Ints{-1}}), "f32[s0, ?, 4]");
  EXPECT_EQ(of_lists("slice", x, {Ints{1}, Ints{kMost}}), "f32[?, ?, 4]");
  EXPECT_EQ(of_lists("slice", x, {Ints{0}, Ints{2147483647}}), "f32[?, ?, 4]");
  EXPECT_EQ(of_lists("slice", x, {Ints{1}, Ints{3}, Ints{2}}), "f32[s0, ?, 2]");
}

TEST(InferSlice, UnknownLists_LeaveTheirDimensionsOpen) {
  const TensorType x = f32({5, 7, 9});
  EXPECT_EQ(of_lengths("slice", x, {2, 2}), "f32[?, ?, 9]");
  EXPECT_EQ(of_lengths("slice", x, {1, 1, 1}), "f32[?, ?, ?]");
  EXPECT_EQ(of_lengths("slice", x, {kU, kU}), "f32[?, ?, ?]");
  EXPECT_EQ(of_lists("slice", no_rank(), {Ints{0}, Ints{1}}), "f32[...]");
  const Ints axis{2};
  const TensorType list = typed(BP_DTYPE_I64, {1});
  EXPECT_EQ(
      inferred("slice", {x, list, list, list}, nullptr, {nullptr, nullptr, nullptr, axis.data()}),
      "f32[5, 7, ?]");
}

TEST(InferSlice, BadLists_AreNamed) {
  const TensorType x = f32({5, 7});
  EXPECT_EQ(of_lists("slice", x, {Ints{0}, Ints{1, 2}}),
            "slice: input 'ends': expected 1 values, as in starts, found 2");
  EXPECT_EQ(of_lists("slice", x, {Ints{0}, Ints{1}, Ints{0, 1}}),
            "slice: input 'axes': expected 1 values, as in starts, found 2");
  EXPECT_EQ(of_lists("slice", x, {Ints{0}, Ints{1}, Ints{2}}),
            "slice: input 'axes': expected -2 to 1, found 2");
  EXPECT_EQ(of_lists("slice", x, {Ints{0, 0}, Ints{1, 1}, Ints{1, -1}}),
            "slice: input 'axes': expected each axis once, found -1 again");
  EXPECT_EQ(of_lists("slice", x, {Ints{0}, Ints{1}, Ints{0}, Ints{0}}),
            "slice: input 'steps': expected steps other than 0, found 0");
  EXPECT_EQ(of_lists("slice", x, {Ints{0, 0, 0}, Ints{1, 1, 1}}),
            "slice: input 'starts': expected up to 2 values, one for each dimension of x, found 3");
  EXPECT_EQ(of_lists("slice", x, {Ints{0}, Ints{1}, std::nullopt, Ints{1, 1}}),
            "slice: input 'steps': expected 1 values, as in starts, found 2");
  EXPECT_NE(inferred("slice", {x, typed(BP_DTYPE_I32, {1}), typed(BP_DTYPE_I32, {1})})
                .find("input 'starts': expected dtype i64, found i32"),
            std::string::npos);
}

std::string concatenated(const std::vector<TensorType>& parts, int64_t axis) {
  bp_attrs_concat attributes = bp_attrs_concat_defaults();
  attributes.axis = axis;
  return inferred("concat", parts, &attributes);
}

TEST(InferConcat, Sizes_AddUpAlongTheAxis) {
  EXPECT_EQ(concatenated({f32({2, 3}), f32({2, 4})}, 1), "f32[2, 7]");
  EXPECT_EQ(concatenated({f32({2, 3}), f32({5, 3}), f32({0, 3})}, -2), "f32[7, 3]");
  EXPECT_EQ(concatenated({f32({2})}, 0), "f32[2]");
  EXPECT_EQ(concatenated({f32({kN, 3}), f32({kN, 4})}, 1), "f32[s0, 7]");
  EXPECT_EQ(concatenated({f32({kU, 3}), f32({2, 4})}, 1), "f32[2, 7]");
  EXPECT_EQ(concatenated({f32({kN, 3}), f32({2, 3})}, 0), "f32[?, 3]");
  EXPECT_EQ(concatenated({f32({kN, 3}), f32({0, 3})}, 0), "f32[s0, 3]");
  EXPECT_EQ(concatenated({no_rank(), f32({2, 3})}, 0), "f32[?, 3]");
  EXPECT_EQ(concatenated({no_rank(), no_rank()}, 0), "f32[...]");
}

TEST(InferConcat, BadParts_AreNamed) {
  EXPECT_EQ(concatenated({f32({2, 3}), f32({2, 3}), f32({3, 3})}, 1),
            "concat: input 'x': number 3: expected sizes like number 1, [2, 3], but for dimension "
            "1, found [3, 3]");
  EXPECT_EQ(concatenated({no_rank(), f32({2, 3}), f32({2})}, 1),
            "concat: input 'x': number 3: expected sizes like number 2, [2, 3], but for dimension "
            "1, found [2]");
  EXPECT_EQ(concatenated({f32({2, 3})}, 2), "concat: attribute 'axis': expected -2 to 1, found 2");
  EXPECT_EQ(concatenated({f32({})}, 0),
            "concat: attribute 'axis': expected none, as the input has rank 0, found 0");
  EXPECT_EQ(concatenated({}, 0), "concat: expected 1 or more inputs, found 0");
  EXPECT_EQ(concatenated({f32({2}), typed(BP_DTYPE_I64, {2})}, 0),
            "concat: input 'x' number 2: expected dtype f32 like input 'x' number 1, found i64");
  constexpr int64_t kHalf = kMost / 32 + 1;
  EXPECT_NE(concatenated({f32({kHalf}), f32({kHalf})}, 0).find("can be counted"),
            std::string::npos);
}

std::string parted(const TensorType& x, int64_t count, const Ints& sizes = {}, int64_t axis = 0) {
  bp_attrs_split attributes = bp_attrs_split_defaults();
  attributes.num_outputs = count;
  attributes.axis = axis;
  attributes.sizes = {sizes.data(), sizes.size()};
  std::vector<TensorType> outputs;
  const void* const no_data[] = {nullptr};
  const Status status =
      infer_types(schema_of("split"),
                  {.inputs = {&x, 1}, .host_data = no_data, .attributes = &attributes}, &outputs);
  std::string text = status.message();
  for (const TensorType& out : outputs) {
    if (!status.ok()) break;
    text += (text.empty() ? "" : ", ") + std::string(dtype_name(out.dtype)) +
            (out.has_rank ? to_string(out.sizes) : "[...]");
  }
  return text;
}

TEST(InferSplit, Parts_AreAsManyAsTheAttributeSays) {
  EXPECT_EQ(parted(f32({6, 2}), 3), "f32[2, 2], f32[2, 2], f32[2, 2]");
  EXPECT_EQ(parted(f32({7, 2}), 3), "f32[3, 2], f32[3, 2], f32[1, 2]");
  EXPECT_EQ(parted(f32({2, 0}), 2, {}, -1), "f32[2, 0], f32[2, 0]");
  EXPECT_EQ(parted(f32({3}), 4), "f32[1], f32[1], f32[1], f32[0]");
  EXPECT_EQ(parted(f32({2, 7}), 3, {0, 5, 2}, 1), "f32[2, 0], f32[2, 5], f32[2, 2]");
  EXPECT_EQ(parted(f32({kN, kU}), 1), "f32[s0, ?]");
  EXPECT_EQ(parted(f32({kN, 2}), 2), "f32[?, 2], f32[?, 2]");
  EXPECT_EQ(parted(f32({kN, 2}), 2, {3, 4}), "f32[3, 2], f32[4, 2]");
  EXPECT_EQ(parted(no_rank(), 2), "f32[...], f32[...]");
}

TEST(InferSplit, BadParts_AreNamed) {
  EXPECT_EQ(parted(f32({2}), 0),
            "split: attribute 'num_outputs': expected 1 to 65535 outputs, found 0");
  EXPECT_EQ(parted(f32({2}), kMost),
            "split: attribute 'num_outputs': expected 1 to 65535 outputs, found " +
                std::to_string(kMost));
  EXPECT_EQ(parted(f32({2}), 4),
            "split: attribute 'num_outputs': expected as many parts as a dimension of size 2 has, "
            "found 4");
  EXPECT_EQ(parted(f32({7}), 2, {7}),
            "split: attribute 'sizes': expected one size for each of 2 outputs, found 1");
  EXPECT_EQ(parted(f32({7}), 2, {-1, 8}),
            "split: attribute 'sizes': expected sizes from 0 that together are the dimension's, 7, "
            "found -1");
  EXPECT_EQ(parted(f32({7}), 2, {3, 3}),
            "split: attribute 'sizes': expected sizes that together are 7, found 6");
  EXPECT_EQ(parted(f32({kN}), 2, {kMost, 1}),
            "split: attribute 'sizes': expected sizes from 0 that together are the dimension's, "
            "found 1");
  EXPECT_EQ(parted(f32({7}), 1, {}, 1), "split: attribute 'axis': expected -1 to 0, found 1");
  EXPECT_EQ(parted(f32({}), 1),
            "split: attribute 'axis': expected none, as the input has rank 0, found 0");
}

TEST(InferBitCast, Widths_MustBeEqual) {
  const auto cast_to = [](uint32_t from, uint32_t to) {
    bp_attrs_bit_cast attributes = bp_attrs_bit_cast_defaults();
    attributes.to = to;
    return inferred("bit_cast", {typed(from, {kN, 3})}, &attributes);
  };
  EXPECT_EQ(cast_to(BP_DTYPE_F32, BP_DTYPE_I32), "i32[s0, 3]");
  EXPECT_EQ(cast_to(BP_DTYPE_BOOL, BP_DTYPE_U8), "u8[s0, 3]");
  EXPECT_EQ(cast_to(BP_DTYPE_BOOL, BP_DTYPE_BOOL), "bool[s0, 3]");
  EXPECT_EQ(cast_to(BP_DTYPE_F32, BP_DTYPE_I64),
            "bit_cast: attribute 'to': expected a dtype of 32 bits other than bool, as f32 has, "
            "found i64");
  EXPECT_NE(cast_to(BP_DTYPE_U8, BP_DTYPE_BOOL).find("other than bool"), std::string::npos);
}

// --- views
// ----------------------------------------------------------------------------------------

/// "offset [strides]"; "copy" where there is none.
std::string view_of(std::string_view op, const Dims& sizes, const Dims& strides,
                    const Dims& out_sizes, const std::vector<std::optional<Ints>>& lists,
                    bool known = true) {
  std::vector<TensorType> types{f32(sizes)};
  std::vector<const void*> data{nullptr};
  for (const auto& list : lists) {
    types.push_back(list ? typed(BP_DTYPE_I64, {static_cast<int64_t>(list->size())})
                         : TensorType{});
    data.push_back(list && known ? list->data() : nullptr);
  }
  const ViewResult view = schema_of(op).view({types, data, nullptr}, strides, out_sizes);
  if (!view.possible) return "copy";
  return std::to_string(view.offset) + " " + numbers_text({view.strides.data(), out_sizes.size()});
}

TEST(ViewSlice, Strides_AreStepsAndTheOffsetIsTheStart) {
  const Dims x{5, 7};
  const Dims strides{7, 1};
  EXPECT_EQ(view_of("slice", x, strides, {3, 5}, {Ints{1, 2}, Ints{4, 9}}), "9 [7, 1]");
  EXPECT_EQ(view_of("slice", x, strides, {5, 3}, {Ints{0}, Ints{kMost}, Ints{1}, Ints{3}}),
            "0 [7, 3]");
  EXPECT_EQ(view_of("slice", x, strides, {5, 7}, {Ints{-1}, Ints{kLeast}, Ints{0}, Ints{-1}}),
            "28 [-7, 1]");
  EXPECT_EQ(view_of("slice", x, {1, 5}, {3, 7}, {Ints{9}, Ints{kLeast}, Ints{0}, Ints{-2}}),
            "4 [-2, 5]");
  EXPECT_EQ(view_of("slice", x, strides, {1, 7}, {Ints{4}, Ints{kMost}, Ints{0}, Ints{kMost}}),
            "28 [7, 1]")
      << "a step that leads nowhere does not overflow";
  EXPECT_EQ(view_of("slice", x, strides, {0, 7}, {Ints{4}, Ints{2}}), "0 [7, 1]")
      << "nothing lies beyond the memory";
}

TEST(ViewSlice, ListsThatAreNotThere_GiveNone) {
  EXPECT_EQ(view_of("slice", {5, 7}, {7, 1}, {3, 7}, {Ints{1}, Ints{4}}, false), "copy");
}

TEST(ViewExpand, RepeatedDimensions_HaveNoStride) {
  EXPECT_EQ(view_of("expand", {3, 1}, {1, 1}, {2, 3, 6}, {Ints{2, 1, 6}}), "0 [0, 1, 0]");
  EXPECT_EQ(view_of("expand", {3, 1}, {5, 9}, {3, 1}, {Ints{1}}), "0 [5, 9]");
  EXPECT_EQ(view_of("expand", {}, {}, {2, 2}, {Ints{2, 2}}), "0 [0, 0]");
}

TEST(ViewSqueeze, Strides_OfTheOthersStay) {
  EXPECT_EQ(view_of("squeeze", {3, 1, 2}, {1, 7, 3}, {3, 2}, {Ints{1}}), "0 [1, 3]");
  EXPECT_EQ(view_of("squeeze", {3, 1, 2}, {-1, 7, 0}, {3, 2}, {Ints{1}}, false), "0 [-1, 0]");
  EXPECT_EQ(view_of("unsqueeze", {3, 2}, {1, 3}, {3, 1, 2}, {Ints{1}}), "0 [1, 6, 3]");
}

}  // namespace
}  // namespace bp::ops
