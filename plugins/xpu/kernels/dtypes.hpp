// SPDX-License-Identifier: Apache-2.0
//
// Dtypes as the sources know them, for build options and descriptors.
#ifndef BACKPLANE_PLUGINS_XPU_KERNELS_DTYPES_HPP
#define BACKPLANE_PLUGINS_XPU_KERNELS_DTYPES_HPP

#include <cstdint>
#include <string>
#include <string_view>

#include "backplane/sdk/sdk.hpp"

namespace bp::xpu {

/// For kernels that move elements, or look only at their bits.
inline constexpr uint64_t kUpTo8Bytes =
    sdk::dtypes({BP_DTYPE_BOOL, BP_DTYPE_I8, BP_DTYPE_I16, BP_DTYPE_I32, BP_DTYPE_I64, BP_DTYPE_U8,
                 BP_DTYPE_U16, BP_DTYPE_U32, BP_DTYPE_U64, BP_DTYPE_F16, BP_DTYPE_BF16,
                 BP_DTYPE_F32, BP_DTYPE_F64, BP_DTYPE_C64, BP_DTYPE_F8E4M3FN, BP_DTYPE_F8E5M2,
                 BP_DTYPE_F8E4M3FNUZ, BP_DTYPE_F8E5M2FNUZ});
inline constexpr uint64_t kUpTo16Bytes = kUpTo8Bytes | BP_DTYPE_BIT(BP_DTYPE_C128);
inline constexpr uint64_t kFloats =
    sdk::dtypes({BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64});
inline constexpr uint64_t kIntegers =
    sdk::dtypes({BP_DTYPE_I8, BP_DTYPE_I16, BP_DTYPE_I32, BP_DTYPE_I64, BP_DTYPE_U8, BP_DTYPE_U16,
                 BP_DTYPE_U32, BP_DTYPE_U64});
inline constexpr uint64_t kNumbers = kFloats | kIntegers;
inline constexpr uint64_t kIndices = sdk::dtypes({BP_DTYPE_I32, BP_DTYPE_I64});

/// "f32": the name of a dtype of kNumbers or bool in common.cl. Throws sdk::Failure for others.
const char* dtype_name(uint32_t dtype);
/// "uint": the type that moves elements of this dtype. Throws sdk::Failure for those not in
/// kUpTo16Bytes.
const char* element_type(uint32_t dtype);
inline bool is_half(uint32_t dtype) { return dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16; }
inline bool is_float(uint32_t dtype) { return (BP_DTYPE_BIT(dtype) & kFloats) != 0; }

/// The unsigned dtype of as many bytes: what only moves keeps its bits, and what wraps is defined.
uint32_t unsigned_of(uint32_t dtype);
/// Build options for sums of this dtype: BP_DTYPE, in which elements are read, and BP_ACC, in which
/// they are summed. Half types are summed in f32; integers wrap.
std::string accumulate(uint32_t dtype);

/// " -D NAME=VALUE"
std::string define(const char* name, std::string_view value);
std::string define(const char* name, uint64_t value);

}  // namespace bp::xpu

#endif
