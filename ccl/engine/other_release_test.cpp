// SPDX-License-Identifier: Apache-2.0
//
// The library of an engine of another release: nothing of it may be called.
#include <cstdlib>

#include "ccl/engine/abi/engine_abi.h"

extern "C" {
__attribute__((visibility("default"))) extern const uint32_t bp_engine_abi = BP_ENGINE_ABI + 1;

__attribute__((visibility("default"))) int32_t bp_engine_open(const bp_engine_host*,
                                                              bp_engine_words*,
                                                              const bp_engine_api**) {
  std::abort();
}
}
