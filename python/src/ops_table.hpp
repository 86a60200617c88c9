// SPDX-License-Identifier: Apache-2.0
//
// What call_operator knows of each operator: a table generated from ops/defs.
#ifndef BACKPLANE_PYTHON_OPS_TABLE_HPP
#define BACKPLANE_PYTHON_OPS_TABLE_HPP

#include <cstdint>
#include <span>

namespace bp::python {

enum class AttributeKind : uint8_t { kI64, kF64, kBool, kDtype, kStr, kI64s };

struct InputRow {
  const char* name;
  uint32_t dtype;    // BP_DTYPE_*; NONE: that of the type variable
  int32_t variable;  // index of the type variable, or -1
  bool is_optional = false;
  bool is_variadic = false;
  bool is_host = false;  // its values are read on the host
};

struct AttributeRow {
  const char* name;
  AttributeKind kind;
  uint32_t offset;  // in the operator's bp_attrs_ struct
  bool is_required = false;
};

struct OperatorRow {
  uint32_t id;
  const char* name;
  std::span<const InputRow> inputs;
  std::span<const AttributeRow> attributes = {};
  uint32_t attributes_bytes = 0;
  void (*write_defaults)(void* out_attributes) = nullptr;
  uint32_t output_count = 0;
  int32_t counting_attribute = -1;  // index of the attribute that says how many outputs there are
  bool has_extents = false;         // the sizes of its outputs depend on values
};

/// By id.
std::span<const OperatorRow> operator_rows();

}  // namespace bp::python

#endif
