// SPDX-License-Identifier: Apache-2.0
#ifndef BACKPLANE_CCL_ENGINE_LOAD_LIBRARY_HPP
#define BACKPLANE_CCL_ENGINE_LOAD_LIBRARY_HPP

#include "ccl/engine/abi/engine_abi.h"
#include "ccl/engine/library_engine.hpp"

namespace bp::ccl {

/// The library's table, which is there for ever. Errors: make_library_engine()'s.
Result<const bp_engine_api*> load_engine_library(const LibraryEngineArgs& args);

}  // namespace bp::ccl

#endif
