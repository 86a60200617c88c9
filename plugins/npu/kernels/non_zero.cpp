// SPDX-License-Identifier: Apache-2.0
//
// non_zero: how many elements there are is known only when it has run. The output is allocated for
// the most there can be; the real sizes go to out_extents, and the rows stay where that puts them.
#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

template <class T>
int64_t write_indices(const Tensor& x, const Tensor& y) {
  // Operand 0 is a counter of elements in row-major order, from which the index is worked out.
  Nest<2> nest{x.rank, x.sizes, {Dims{}, x.strides}};
  for (int64_t d = x.rank - int64_t{1}, stride = 1; d >= 0; --d) {
    nest.strides[0][static_cast<size_t>(d)] = stride;
    stride *= x.sizes[static_cast<size_t>(d)];
  }
  int64_t count = 0;
  for_each_element(nest, [&](const std::array<int64_t, 2>& offsets) {
    if (load(x.as<T>()[offsets[1]]) == 0) return;
    for (uint32_t d = 0; d < x.rank; ++d) {
      const int64_t index = offsets[0] / nest.strides[0][d] % x.sizes[d];
      y.as<int64_t>()[d * y.strides[0] + count * y.strides[1]] = index;
    }
    ++count;
  });
  return count;
}

void non_zero(const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  int64_t* const extents = launch.out_extents();
  extents[0] = x.rank;
  extents[1] = 0;
  Elements::with_type(x.dtype, [&]<class T>(T) { extents[1] = write_indices<T>(x, y); });
}

constexpr bp_kernel kKernels[] = {describe({.name = "non_zero_any",
                                            .op = "non_zero",
                                            .dtypes = Elements::kDtypes,
                                            .arg_rules = sdk::kAnyStrides,
                                            .launch = launch<non_zero>})};

}  // namespace

BP_SDK_KERNELS(non_zero, kKernels);

}  // namespace bp::npu
