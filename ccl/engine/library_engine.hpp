// SPDX-License-Identifier: Apache-2.0
//
// Engines that are libraries, opened when a group first needs one.
#ifndef BACKPLANE_CCL_ENGINE_LIBRARY_ENGINE_HPP
#define BACKPLANE_CCL_ENGINE_LIBRARY_ENGINE_HPP

#include <memory>
#include <string>
#include <vector>

#include "ccl/engine/engine.hpp"

namespace bp::ccl {

struct LibraryEngineArgs {
  std::string name;  // "ucx"
  /// The folders where plugins are searched, by the same rules: absolute, the first one wins. The
  /// library backplane_engine_NAME.so lies in one, or in a folder of it.
  std::vector<std::string> search_path;
  /// Of the network whose interface this is, a socket listens on its address; empty: no socket.
  std::string interface_name;
  /// Between processes of this host.
  bool uses_shared_memory = true;
};

/// Finds, checks and opens the library, and makes an end. It is trusted as a plugin's is
/// (core/plugin/admit.cpp), and stays mapped. Errors: UNAVAILABLE, naming where it was looked for,
/// and with the library's words where it cannot serve here; INCOMPATIBLE for one of another
/// release; INVALID_ARGUMENT for one that is not trusted, and for an interface that is not there.
Result<std::unique_ptr<Engine>> make_library_engine(const LibraryEngineArgs& args);

}  // namespace bp::ccl

#endif
