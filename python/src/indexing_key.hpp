// SPDX-License-Identifier: Apache-2.0
//
// What a key chooses of a tensor: a view, and in it the dimensions that integers and masks index.
#ifndef BACKPLANE_PYTHON_INDEXING_KEY_HPP
#define BACKPLANE_PYTHON_INDEXING_KEY_HPP

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "tensors.hpp"

namespace bp::python {

/// One index by values. It takes the place of `dim_count` dimensions of the view: 1 for integers,
/// its rank for a mask, none for a single bool.
struct Chosen {
  nb::object tensor;  // integers or bools on the tensor's device; empty for a single bool
  bool is_mask = false;
  bool truth = false;    // of a single bool
  size_t first_dim = 0;  // of the view
  size_t dim_count = 0;
  size_t axis = 0;  // of the tensor, for words
};

struct Selection {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  std::vector<Chosen> chosen;
  // Where the dimensions of the indices stand among those that are left: instead of theirs where
  // the indices (single integers among them) are neighbours in the key, else in front.
  size_t place = 0;
};

/// Throws IndexError for a key that does not fit.
Selection select(const TensorObject& tensor, nb::handle key);

[[noreturn]] void fail_out_of_range(const std::string& index, size_t axis, int64_t size);

}  // namespace bp::python

#endif
