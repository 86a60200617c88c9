// SPDX-License-Identifier: Apache-2.0
//
// What a copy is told, and the host's end of one.
#ifndef BACKPLANE_CORE_RUNTIME_COPY_ARGS_HPP
#define BACKPLANE_CORE_RUNTIME_COPY_ARGS_HPP

#include <cstdint>

#include "backplane/device_api.h"

namespace bp {

inline bp_mem host_end(const void* pointer) { return {reinterpret_cast<uint64_t>(pointer), 0}; }

/// `kind`: BP_COPY_*.
inline bp_copy_args copy_args(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes) {
  bp_copy_args args{};
  args.struct_size = sizeof(args);
  args.kind = kind;
  args.dst = dst;
  args.src = src;
  args.bytes = bytes;
  return args;
}

}  // namespace bp

#endif
