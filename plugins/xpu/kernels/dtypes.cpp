// SPDX-License-Identifier: Apache-2.0
//
// Names of dtypes and build options.
#include "kernels/dtypes.hpp"

namespace bp::xpu {

const char* dtype_name(uint32_t dtype) {
  switch (dtype) {
    case BP_DTYPE_BOOL:
      return "bool";
    case BP_DTYPE_I8:
      return "i8";
    case BP_DTYPE_I16:
      return "i16";
    case BP_DTYPE_I32:
      return "i32";
    case BP_DTYPE_I64:
      return "i64";
    case BP_DTYPE_U8:
      return "u8";
    case BP_DTYPE_U16:
      return "u16";
    case BP_DTYPE_U32:
      return "u32";
    case BP_DTYPE_U64:
      return "u64";
    case BP_DTYPE_F16:
      return "f16";
    case BP_DTYPE_BF16:
      return "bf16";
    case BP_DTYPE_F32:
      return "f32";
    case BP_DTYPE_F64:
      return "f64";
    default:
      sdk::refuse("plan: numbers of dtype code ", dtype);
  }
}

const char* element_type(uint32_t dtype) {
  switch (sdk::dtype_bytes(dtype)) {
    case 1:
      return "uchar";
    case 2:
      return "ushort";
    case 4:
      return "uint";
    case 8:
      return "ulong";
    case 16:
      return "ulong2";
    default:
      sdk::refuse("plan: an element of dtype code ", dtype);
  }
}

uint32_t unsigned_of(uint32_t dtype) {
  switch (sdk::dtype_bytes(dtype)) {
    case 1:
      return BP_DTYPE_U8;
    case 2:
      return BP_DTYPE_U16;
    case 4:
      return BP_DTYPE_U32;
    default:
      return BP_DTYPE_U64;
  }
}

std::string accumulate(uint32_t dtype) {
  if (dtype == BP_DTYPE_F64) {
    return define("BP_DTYPE", "f64") + define("BP_ACC", "double") + define("BP_ACC_DOUBLE", 1);
  }
  if (is_float(dtype)) {
    return define("BP_DTYPE", dtype_name(dtype)) + define("BP_ACC", "float") +
           define("BP_ACC_FLOAT", 1);
  }
  const uint32_t bits = unsigned_of(dtype);
  return define("BP_DTYPE", dtype_name(bits)) +
         define("BP_ACC", bits == BP_DTYPE_U64 ? "ulong" : "uint");
}

std::string define(const char* name, std::string_view value) {
  return std::string(" -D ") + name + "=" + std::string(value);
}

std::string define(const char* name, uint64_t value) { return define(name, std::to_string(value)); }

}  // namespace bp::xpu
