// SPDX-License-Identifier: Apache-2.0
//
// gather_elements, gather_nd and the scatters with reductions none: elements move as bytes, to or
// from where indices say. A bad index is clamped and reported, as in gather.cpp; scatters go
// through their updates in row-major order, so that the last one stays.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "backplane/ops/indexing.h"
#include "kernels/launch.hpp"
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

uint32_t axis_of(int64_t axis, uint32_t rank) {
  const int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) refuse("axis ", axis, " of rank ", rank);
  return static_cast<uint32_t>(from_front);
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

template <class Index>
void scatter_elements(const Launch& launch, uint32_t axis) {
  const Tensor& indices = launch.input(kIndicesInput);
  const Tensor& updates = launch.input(2);
  const Tensor& y = launch.output();
  copy_all(launch.input(0), y);
  const Nest<3> nest{
      indices.rank, indices.sizes, {without(y.strides, axis), indices.strides, updates.strides}};
  for_each_element(nest, [&](const std::array<int64_t, 3>& at) {
    const int64_t index = index_at<Index>(launch, at[1], y.sizes[axis]);
    copy_element(y, at[0] + index * y.strides[axis], updates, at[2]);
  });
}

template <class Index>
void scatter_nd(const Launch& launch) {
  const Tensor& indices = launch.input(kIndicesInput);
  const Tensor& updates = launch.input(2);
  const Tensor& y = launch.output();
  copy_all(launch.input(0), y);
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
    for_each_element(slice, [&](const std::array<int64_t, 2>& at) {
      copy_element(y, to + at[0], updates, from + at[1]);
    });
  });
}

/// Calls body.operator()<Index>() with the type of the indices.
template <class Body>
KernelBody by_index_type(const Body& body) {
  return [body](const Launch& launch) {
    TypeList<int32_t, int64_t>::with_type(
        launch.input(kIndicesInput).dtype,
        [&]<class Index>(Index) { body.template operator()<Index>(launch); });
  };
}

KernelBody prepare_gather_elements(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_gather_elements_defaults());
  return by_index_type([axis = axis_of(attributes.axis, args.tensors[0].rank)]<class Index>(
                           const Launch& launch) { gather_elements<Index>(launch, axis); });
}

KernelBody prepare_gather_nd(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_gather_nd_defaults());
  return by_index_type([batch_dims = static_cast<uint32_t>(attributes.batch_dims)]<class Index>(
                           const Launch& launch) { gather_nd<Index>(launch, batch_dims); });
}

KernelBody prepare_scatter_elements(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_scatter_elements_defaults());
  return by_index_type([axis = axis_of(attributes.axis, args.tensors[0].rank)]<class Index>(
                           const Launch& launch) { scatter_elements<Index>(launch, axis); });
}

KernelBody prepare_scatter_nd(const bp_launch_args&) {
  return by_index_type([]<class Index>(const Launch& launch) { scatter_nd<Index>(launch); });
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
  const uint32_t dtype = sdk::arg_info(query, 0).dtype;
  const bool is_known = dtype < 64 && (kWholeByteDtypes & BP_DTYPE_BIT(dtype)) != 0;
  if (!is_known) return "a dtype that it does not know";
  const bp_str given = read_attributes(query.attributes, defaults).reduction;
  return std::string_view(given.ptr, given.len) == "none" ? nullptr : "takes no reduction";
}
const char* refuse_elements(const bp_kernel_query& query) {
  return refuse_reduction(query, bp_attrs_scatter_elements_defaults());
}
const char* refuse_nd(const bp_kernel_query& query) {
  return refuse_reduction(query, bp_attrs_scatter_nd_defaults());
}

constexpr uint64_t kDtypes[] = {kWholeByteDtypes, TypeList<int32_t, int64_t>::kMask};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "gather_elements_any",
                                                 .op = "gather_elements",
                                                 .dtypes = kDtypes,
                                                 .arg_rules = sdk::kAnyStrides,
                                                 .plan = plan_fault,
                                                 .plan_free = free_nothing,
                                                 .launch = launch<prepare_gather_elements>}),
                                  sdk::describe({.name = "gather_nd_any",
                                                 .op = "gather_nd",
                                                 .dtypes = kDtypes,
                                                 .arg_rules = sdk::kAnyStrides,
                                                 .plan = plan_fault,
                                                 .plan_free = free_nothing,
                                                 .launch = launch<prepare_gather_nd>}),
                                  sdk::describe({.name = "scatter_elements_any",
                                                 .op = "scatter_elements",
                                                 .dtypes = kDtypes,
                                                 .arg_rules = sdk::kAnyStrides,
                                                 .supports = sdk::supports_slot<refuse_elements>,
                                                 .plan = plan_fault,
                                                 .plan_free = free_nothing,
                                                 .launch = launch<prepare_scatter_elements>}),
                                  sdk::describe({.name = "scatter_nd_any",
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
