// SPDX-License-Identifier: Apache-2.0
//
// POSIX: where processes of one user on one host keep the files of a job that no other user may
// see, and how these files go away again. Whoever uses files of a name holds a lock on it, which
// the system drops with the process, however it ends; files of a name that nobody holds are removed
// by the next one who comes by. So a name never leads to what an earlier job left.
#ifndef BACKPLANE_CCL_LAUNCH_PRIVATE_FOLDER_HPP
#define BACKPLANE_CCL_LAUNCH_PRIVATE_FOLDER_HPP

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ccl/launch/job.hpp"
#include "ccl/store/descriptor.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// XDG_RUNTIME_DIR/backplane where that is a folder of this user, else /tmp/backplane-UID. It is
/// made with mode 0700. Errors: UNAVAILABLE where it cannot be made; INVALID_ARGUMENT for one that
/// is another user's, open to others, or no folder.
Result<std::string> private_folder(const Environment& environment);

/// A name in such a folder, which this process holds while this lives. Any thread.
class HeldName {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// `name`: letters, digits and "-". Removes all files of the folder whose names nobody holds,
  /// this one's too. Errors: UNAVAILABLE with the path; TIMEOUT where another process keeps the
  /// folder.
  static Result<std::unique_ptr<HeldName>> hold(const std::string& folder, const std::string& name,
                                                TimePoint deadline);
  /// The last process that lets go removes the files.
  ~HeldName();
  HeldName(const HeldName&) = delete;
  HeldName& operator=(const HeldName&) = delete;

  /// A file of this name, for the caller to make: path("store").
  std::string path(std::string_view kind) const { return path_ + "." + std::string(kind); }

 private:
  HeldName(std::string folder, std::string path, Descriptor held)
      : folder_(std::move(folder)), path_(std::move(path)), held_(std::move(held)) {}

  const std::string folder_;
  const std::string path_;
  Descriptor held_;
};

}  // namespace bp::ccl

#endif
