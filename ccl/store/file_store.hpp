// SPDX-License-Identifier: Apache-2.0
//
// A store in a file, for ranks on one host: no server, and no listening socket.
#ifndef BACKPLANE_CCL_STORE_FILE_STORE_HPP
#define BACKPLANE_CCL_STORE_FILE_STORE_HPP

#include <chrono>
#include <memory>
#include <string>

#include "ccl/store/store.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

struct FileStoreOptions {
  std::string path;
  /// The job's name and run, at most 256 bytes: another for each run, so that the file that an
  /// earlier one left is not taken for this one's.
  std::string job;
  /// For how long another process may hold the file in each call, before that is TIMEOUT.
  std::chrono::milliseconds answer_timeout{30'000};
};

/// Opens the file, or makes it, with mode 0600. Processes take turns by a lock of the file, and a
/// process that is killed leaves it in order. Who waits for a key looks every 10 ms at most. The
/// file is written anew beside itself (path.new) once most of it is outdated; nobody removes it.
///
/// Errors: INVALID_ARGUMENT for a file of another job, one that is no store's, no regular file (a
/// symbolic link is none), not this user's, or open to its group or to others; UNAVAILABLE where it
/// cannot be opened or made; TIMEOUT where another process holds it; FORKED.
Result<std::shared_ptr<Store>> open_file_store(FileStoreOptions options);

}  // namespace bp::ccl

#endif
