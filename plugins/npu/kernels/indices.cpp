// SPDX-License-Identifier: Apache-2.0
//
// gather_elements, gather_nd and the scatters: elements move as bytes, to or from where indices
// say, unless a scatter reduces. A bad index is clamped and reported, as in gather.cpp; scatters go
// through their updates in row-major order, so that the last one stays.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "backplane/ops/indexing.h"
#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

constexpr uint32_t kIndicesInput = 1;

/// The index at an element of the indices, from the front and in range. Throws Failure where there
/// is no element to choose.
template <class Index>
int64_t index_at(const Launch& launch, int64_t offset, int64_t extent) {
  if (extent == 0) refuse("an index of a dimension without elements");
  const int64_t given = launch.input(kIndicesInput).as<Index>()[offset];
  const int64_t index = given < 0 ? given + extent : given;
  if (index < 0 || index >= extent) launch.report_index(kIndicesInput, given, extent);
  return std::clamp<int64_t>(index, 0, extent - 1);
}

void copy_element(const Tensor& to, int64_t to_offset, const Tensor& from, int64_t from_offset) {
  const auto bytes = static_cast<int64_t>(sdk::dtype_bytes(to.dtype));
  std::memcpy(to.data + to_offset * bytes, from.data + from_offset * bytes,
              static_cast<size_t>(bytes));
}

Dims without(Dims strides, uint32_t axis) {
  strides[axis] = 0;
  return strides;
}

template <class Index>
void gather_elements(const Launch& launch, uint32_t axis) {
  const Tensor& x = launch.input(0);
  const Tensor& indices = launch.input(kIndicesInput);
  const Tensor& y = launch.output();
  const Nest<3> nest{y.rank, y.sizes, {y.strides, without(x.strides, axis), indices.strides}};
  for_each_element(nest, [&](const std::array<int64_t, 3>& at) {
    const int64_t index = index_at<Index>(launch, at[2], x.sizes[axis]);
    copy_element(y, at[0], x, at[1] + index * x.strides[axis]);
  });
}

/// Calls visit(row, offset) for each row of the indices: the number of the row, and where in
/// `indexed` the elements that it names begin, whose dimensions from `first` on it indexes.
template <class Index, class Visit>
void for_each_point(const Launch& launch, const Tensor& indexed, uint32_t first,
                    const Visit& visit) {
  const Tensor& indices = launch.input(kIndicesInput);
  if (indices.rank == 0) refuse("indices of rank 0");
  const uint32_t last = indices.rank - 1;
  const auto count = static_cast<uint32_t>(indices.sizes[last]);
  if (first + count > indexed.rank) refuse("rows of ", count, " indices");
  Nest<2> rows{last, indices.sizes, {indices.strides, Dims{}}};
  std::copy_n(indexed.strides.begin(), first, rows.strides[1].begin());
  int64_t row = 0;
  for_each_element(rows, [&](const std::array<int64_t, 2>& at) {
    int64_t offset = at[1];
    for (uint32_t i = 0; i < count; ++i) {
      const int64_t extent = indexed.sizes[first + i];
      offset += index_at<Index>(launch, at[0] + i * indices.strides[last], extent) *
                indexed.strides[first + i];
    }
    visit(row++, offset);
  });
}

/// The dimensions of `tensor` behind the first ones.
Nest<2> slice_nest(const Tensor& tensor, uint32_t first, const Dims& other_strides) {
  Nest<2> nest{tensor.rank - first, Dims{}, {Dims{}, other_strides}};
  std::copy(tensor.sizes.begin() + first, tensor.sizes.begin() + tensor.rank, nest.sizes.begin());
  std::copy(tensor.strides.begin() + first, tensor.strides.begin() + tensor.rank,
            nest.strides[0].begin());
  return nest;
}

/// Row-major strides of sizes.
Dims dense_strides(uint32_t rank, const Dims& sizes) {
  Dims strides{};
  int64_t stride = 1;
  for (uint32_t d = rank; d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

template <class Index>
void gather_nd(const Launch& launch, uint32_t batch_dims) {
  const Tensor& x = launch.input(0);
  const Tensor& indices = launch.input(kIndicesInput);
  if (batch_dims >= indices.rank) refuse("batch_dims ", batch_dims);
  const auto first = static_cast<uint32_t>(batch_dims + indices.sizes[indices.rank - 1]);
  if (first > x.rank) refuse("rows of ", first - batch_dims, " indices");
  Nest<2> slice = slice_nest(x, first, Dims{});
  slice.strides[1] = dense_strides(slice.rank, slice.sizes);
  int64_t slice_count = 1;
  for (uint32_t d = 0; d < slice.rank; ++d) slice_count *= slice.sizes[d];
  for_each_point<Index>(launch, x, batch_dims, [&](int64_t row, int64_t from) {
    for_each_element(slice, [&](const std::array<int64_t, 2>& at) {
      copy_element(launch.output(), row * slice_count + at[1], x, from + at[0]);
    });
  });
}

void copy_all(const Tensor& from, const Tensor& to) {
  const Nest<2> nest{to.rank, to.sizes, {to.strides, from.strides}};
  for_each_element(nest,
                   [&](const std::array<int64_t, 2>& at) { copy_element(to, at[0], from, at[1]); });
}

/// Calls put(to, from) for each update of scatter_elements: its place in y and in updates.
template <class Index, class Put>
void for_each_element_update(const Launch& launch, uint32_t axis, const Put& put) {
  const Tensor& indices = launch.input(kIndicesInput);
  const Tensor& y = launch.output();
  const Nest<3> nest{indices.rank,
                     indices.sizes,
                     {without(y.strides, axis), indices.strides, launch.input(2).strides}};
  for_each_element(nest, [&](const std::array<int64_t, 3>& at) {
    put(at[0] + index_at<Index>(launch, at[1], y.sizes[axis]) * y.strides[axis], at[2]);
  });
}

/// ... of scatter_nd.
template <class Index, class Put>
void for_each_slice_update(const Launch& launch, const Put& put) {
  const Tensor& indices = launch.input(kIndicesInput);
  const Tensor& updates = launch.input(2);
  const Tensor& y = launch.output();
  const auto first = static_cast<uint32_t>(indices.sizes[indices.rank - 1]);
  const uint32_t row_rank = indices.rank - 1;
  if (first > y.rank || updates.rank != row_rank + y.rank - first) {
    refuse("updates of rank ", updates.rank);
  }
  Nest<2> slice = slice_nest(y, first, Dims{});
  std::copy(updates.strides.begin() + row_rank, updates.strides.begin() + updates.rank,
            slice.strides[1].begin());
  for_each_point<Index>(launch, y, 0, [&](int64_t row, int64_t to) {
    int64_t from = 0;
    for (uint32_t d = row_rank; d-- > 0;) {
      from += row % updates.sizes[d] * updates.strides[d];
      row /= updates.sizes[d];
    }
    for_each_element(slice,
                     [&](const std::array<int64_t, 2>& at) { put(to + at[0], from + at[1]); });
  });
}

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

/// What becomes of an element and an update. Of bool kAdd and kMax are or, kMul and kMin are and.
template <class T>
Running<T> reduce(Reduction reduction, Running<T> a, Running<T> b) {
  const auto left = static_cast<Compute<T>>(a);
  const auto right = static_cast<Compute<T>>(b);
  switch (reduction) {
    case Reduction::kAdd:
      return std::is_same_v<T, bool> ? std::max(a, b) : a + b;
    case Reduction::kMul:
      return a * b;
    case Reduction::kMax:
      return left > right || left != left ? a : b;  // NaN if either is
    case Reduction::kMin:
      return left < right || left != left ? a : b;
    case Reduction::kNone:
      break;
  }
  return b;
}

/// Sums and products of half types are rounded once, so that the elements of y stay wide until all
/// updates are in them.
template <class T, class ForEachUpdate>
void scatter_wide(const Launch& launch, Reduction reduction, const ForEachUpdate& for_each_update) {
  const Tensor& x = launch.input(0);
  const Tensor& updates = launch.input(2);
  const Tensor& y = launch.output();
  std::vector<Running<T>> wide(static_cast<size_t>(y.element_count()));
  const Nest<2> nest{y.rank, y.sizes, {y.strides, x.strides}};
  for_each_element(nest, [&](const std::array<int64_t, 2>& at) {
    wide[static_cast<size_t>(at[0])] = load_running(x.as<T>()[at[1]]);
  });
  for_each_update([&](int64_t to, int64_t from) {
    auto& element = wide[static_cast<size_t>(to)];
    element = reduce<T>(reduction, element, load_running(updates.as<T>()[from]));
  });
  std::transform(wide.begin(), wide.end(), y.as<T>(), store_running<T>);
}

template <class ForEachUpdate>
void scatter(const Launch& launch, Reduction reduction, const ForEachUpdate& for_each_update) {
  const Tensor& y = launch.output();
  if (reduction != Reduction::kNone) {
    Elements::with_type(y.dtype,
                        [&]<class T>(T) { scatter_wide<T>(launch, reduction, for_each_update); });
    return;
  }
  copy_all(launch.input(0), y);
  for_each_update([&](int64_t to, int64_t from) { copy_element(y, to, launch.input(2), from); });
}

/// False: a text that is none of them.
bool read_reduction(bp_str text, Reduction* out_reduction) {
  constexpr std::string_view kNames[] = {"none", "add", "mul", "max", "min"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] != sdk::view(text)) continue;
    *out_reduction = static_cast<Reduction>(i);
    return true;
  }
  return false;
}

Reduction reduction_of(bp_str text) {
  Reduction reduction{};
  if (!read_reduction(text, &reduction)) refuse("reduction '", sdk::view(text), "'");
  return reduction;
}

/// Calls body.operator()<Index>() with the type of the indices.
template <class Body>
KernelBody by_index_type(const Body& body) {
  return [body](const Launch& launch) {
    Indices::with_type(launch.input(kIndicesInput).dtype,
                       [&]<class Index>(Index) { body.template operator()<Index>(launch); });
  };
}

KernelBody prepare_gather_elements(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_gather_elements_defaults());
  return by_index_type([axis = axis_from_front(attributes.axis, args.tensors[0].rank)]<class Index>(
                           const Launch& launch) { gather_elements<Index>(launch, axis); });
}

KernelBody prepare_gather_nd(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_gather_nd_defaults());
  return by_index_type([batch_dims = static_cast<uint32_t>(attributes.batch_dims)]<class Index>(
                           const Launch& launch) { gather_nd<Index>(launch, batch_dims); });
}

KernelBody prepare_scatter_elements(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_scatter_elements_defaults());
  return by_index_type(
      [axis = axis_from_front(attributes.axis, args.tensors[0].rank),
       reduction = reduction_of(attributes.reduction)]<class Index>(const Launch& launch) {
        scatter(launch, reduction,
                [&](const auto& put) { for_each_element_update<Index>(launch, axis, put); });
      });
}

KernelBody prepare_scatter_nd(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_scatter_nd_defaults());
  return by_index_type([reduction =
                            reduction_of(attributes.reduction)]<class Index>(const Launch& launch) {
    scatter(launch, reduction, [&](const auto& put) { for_each_slice_update<Index>(launch, put); });
  });
}

/// All that is planned is that a launch can fault.
bp_status plan_fault(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                     bp_kernel_plan** out_plan) {
  return slot("plan", device, {query, out_info, out_plan}, [&] {
    bp_plan_info info{};
    info.flags = BP_PLAN_CAN_FAULT_BIT;
    sdk::write_out(out_info, info);
    *out_plan = nullptr;
  });
}

void free_nothing(bp_device*, bp_kernel_plan*) {}

template <class Attributes>
const char* refuse_reduction(const bp_kernel_query& query, Attributes defaults) {
  Reduction reduction{};
  const bp_str text = read_attributes(query.attributes, defaults).reduction;
  if (!read_reduction(text, &reduction)) return "a reduction that it does not know";
  const uint64_t known = reduction == Reduction::kNone ? kWholeByteDtypes : Elements::kMask;
  const uint32_t dtype = sdk::arg_info(query, 0).dtype;
  const bool fits = dtype < 64 && (known & BP_DTYPE_BIT(dtype)) != 0;
  return fits ? nullptr : "a dtype that it does not know";
}
const char* refuse_elements(const bp_kernel_query& query) {
  return refuse_reduction(query, bp_attrs_scatter_elements_defaults());
}
const char* refuse_nd(const bp_kernel_query& query) {
  return refuse_reduction(query, bp_attrs_scatter_nd_defaults());
}

constexpr uint64_t kDtypes[] = {kWholeByteDtypes, Indices::kMask};

constexpr bp_kernel kKernels[] = {describe({.name = "gather_elements_any",
                                            .op = "gather_elements",
                                            .dtypes = kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .plan = plan_fault,
                                            .plan_free = free_nothing,
                                            .launch = launch<prepare_gather_elements>}),
                                  describe({.name = "gather_nd_any",
                                            .op = "gather_nd",
                                            .dtypes = kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .plan = plan_fault,
                                            .plan_free = free_nothing,
                                            .launch = launch<prepare_gather_nd>}),
                                  describe({.name = "scatter_elements_any",
                                            .op = "scatter_elements",
                                            .dtypes = kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .supports = sdk::supports_slot<refuse_elements>,
                                            .plan = plan_fault,
                                            .plan_free = free_nothing,
                                            .launch = launch<prepare_scatter_elements>}),
                                  describe({.name = "scatter_nd_any",
                                            .op = "scatter_nd",
                                            .dtypes = kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .supports = sdk::supports_slot<refuse_nd>,
                                            .plan = plan_fault,
                                            .plan_free = free_nothing,
                                            .launch = launch<prepare_scatter_nd>})};

}  // namespace

BP_SDK_KERNELS(indices, kKernels);

}  // namespace bp::npu
