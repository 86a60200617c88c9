// SPDX-License-Identifier: Apache-2.0
//
// An operator's struct of attributes, filled from Python's keywords.
#ifndef BACKPLANE_PYTHON_OPS_ATTRIBUTES_HPP
#define BACKPLANE_PYTHON_OPS_ATTRIBUTES_HPP

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops_table.hpp"

namespace bp::python {

namespace nb = nanobind;

class AttributeValues {
 public:
  /// All defaults.
  explicit AttributeValues(const OperatorRow& row);
  AttributeValues(const AttributeValues&) = delete;
  AttributeValues& operator=(const AttributeValues&) = delete;

  /// False for a name that the operator does not have. Throws TypeError for a value of another
  /// type. Texts are borrowed from `value`.
  bool set(std::string_view name, nb::handle value);
  /// Throws TypeError for what must be given and was not.
  void check_complete() const;

  /// The struct, or NULL where the operator has none.
  const void* data() const { return row_.attributes.empty() ? nullptr : bytes_; }
  int64_t i64(size_t index) const;

 private:
  static constexpr size_t kMostBytes = 512;

  void store(const AttributeRow& attribute, nb::handle value);
  template <class T>
  void write(const AttributeRow& attribute, const T& value);

  const OperatorRow& row_;
  alignas(8) char bytes_[kMostBytes];
  std::vector<std::vector<int64_t>> lists_;  // what the struct points to
  uint64_t given_ = 0;                       // one bit per attribute
  size_t next_ = 0;                          // generated callers name them in order
};

}  // namespace bp::python

#endif
