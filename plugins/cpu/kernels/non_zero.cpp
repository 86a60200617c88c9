// SPDX-License-Identifier: Apache-2.0
//
// non_zero: indices of the elements that are not 0, in row-major order, which makes it serial. The
// output was allocated for the case that no element is 0; the real count goes to out_extents.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernel_support.hpp"
#include "nest.hpp"

namespace bp::cpu {
namespace {

// Where indices are written: y[d][i] for dimension d of the i-th element found.
struct Output {
  int64_t* y;
  int64_t dimension_stride;
  int64_t element_stride;
};

// Floats are compared as bits without their sign: everything but +0 and -0 counts.
template <class T>
T value_mask(uint32_t dtype) {
  const bool is_float = (kFloatTypes & BP_DTYPE_BIT(dtype)) != 0;
  return is_float ? static_cast<T>(std::numeric_limits<T>::max() >> 1)
                  : std::numeric_limits<T>::max();
}

// The nest is not merged: its position is what is written.
template <class T>
int64_t find(const bp_tensor& x, const Output& output) {
  const T mask = value_mask<T>(x.dtype);
  const T* element = address_of<const T>(x);
  const int rank = static_cast<int>(x.rank);
  int64_t position[BP_MAX_RANK] = {};
  int64_t found = 0;
  for (int64_t left = sdk::element_count(x); left > 0; --left) {
    if ((*element & mask) != 0) {
      int64_t* const to = output.y + found * output.element_stride;
      for (int d = 0; d < rank; ++d) to[d * output.dimension_stride] = position[d];
      ++found;
    }
    for (int d = rank - 1; d >= 0; --d) {
      element += x.strides[d];
      if (++position[d] < x.sizes[d]) break;
      element -= x.sizes[d] * x.strides[d];
      position[d] = 0;
    }
  }
  return found;
}

int64_t find_in(const bp_tensor& x, const Output& output) {
  switch (sdk::dtype_bytes(x.dtype)) {
    case 1:
      return find<uint8_t>(x, output);
    case 2:
      return find<uint16_t>(x, output);
    case 4:
      return find<uint32_t>(x, output);
    default:
      return find<uint64_t>(x, output);
  }
}

bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& y = output_of(args);
  if (args.out_extents.handle == 0) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "non_zero: the launch has no place for real sizes"};
  }
  const Output output{.y = address_of<int64_t>(y),
                      .dimension_stride = y.strides[0],
                      .element_stride = y.strides[1]};
  int64_t* const extents = address_of<int64_t>(args.out_extents);
  extents[0] = x.rank;
  extents[1] = find_in(x, output);
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kAnyTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "non_zero_loop",
                                                 .op = "non_zero",
                                                 .dtypes = kMasks,
                                                 .arg_rules = sdk::kAnyStrides,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(non_zero, kKernels);

}  // namespace bp::cpu
