// SPDX-License-Identifier: Apache-2.0
//
// The store of a job as one of its ranks opens it.
#ifndef BACKPLANE_CCL_LAUNCH_JOB_STORE_HPP
#define BACKPLANE_CCL_LAUNCH_JOB_STORE_HPP

#include <memory>
#include <string>

#include "ccl/launch/job.hpp"
#include "ccl/launch/private_folder.hpp"
#include "ccl/store/store.hpp"
#include "ccl/store/tcp_server.hpp"
#include "ccl/store/told_wait.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// What both sides of a connection to the job's store call it.
std::string handshake_job(const std::string& job_name);

/// Any thread.
class JobStore {
 public:
  /// Opens the store, serves it where that is this rank's, and waits until all ranks have come. So
  /// what is wrong with a job shows here, and no later rank can take the store's file for one that
  /// an earlier job left. Errors: TIMEOUT naming the ranks that did not come; INVALID_ARGUMENT for
  /// a rank that is there already, and on all that wait for ranks that disagree on how many there
  /// are; those of the store's kind.
  static Result<std::shared_ptr<JobStore>> open(const Job& job, const Environment& environment,
                                                Store::Clock::time_point deadline,
                                                const Telling& telling = {});
  /// Where this rank serves the store, it waits for the other ranks to leave it, 5 s at most.
  ~JobStore();
  JobStore(const JobStore&) = delete;
  JobStore& operator=(const JobStore&) = delete;

  /// For groups: a part of it, which each run of the job has anew.
  const std::shared_ptr<Store>& store() const { return store_; }

 private:
  JobStore() = default;
  Status open_store(const Job& job, const Environment& environment,
                    Store::Clock::time_point deadline, const Telling& telling);

  std::unique_ptr<TcpServer> server_;
  std::unique_ptr<HeldName> held_;
  std::shared_ptr<Store> store_;  // ends first
};

}  // namespace bp::ccl

#endif
