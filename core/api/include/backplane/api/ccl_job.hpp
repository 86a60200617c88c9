// SPDX-License-Identifier: Apache-2.0
//
// Ranks as processes, in the C++ API. Included by backplane.hpp; ccl_job.h says what each function
// does, docs/launch.md tells it from the beginning.
//
//   auto job = bp::ccl::Job::from_environment();        // once in each process
//   auto device = runtime.device(job.device("cpu:0"));  // as --devices says, else cpu:0
//   auto group = job.create_group(device);              // of all ranks
#ifndef BACKPLANE_API_CCL_JOB_HPP
#define BACKPLANE_API_CCL_JOB_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "backplane/api/ccl.hpp"
#include "backplane/api/ccl_job.h"

namespace bp {
inline namespace api {
namespace ccl {

/// A store that one rank serves over TCP.
struct TcpStoreOptions {
  std::string endpoint{};               // "10.0.0.1:4711"
  std::string token_file{};             // 64 hexadecimal digits, mode 0600
  std::string job = "job";              // the same on all ranks
  bool serve = false;                   // on one rank
  std::chrono::nanoseconds timeout{0};  // for a server to come; 0: BACKPLANE_CCL_TIMEOUT
};

inline Store Store::file(const std::string& path, const std::string& job) {
  bpa_ccl_store* handle = nullptr;
  detail::check(bpa_ccl_store_create_file(path.c_str(), job.c_str(), &handle));
  return Store(handle);
}

inline Store Store::tcp(const TcpStoreOptions& options) {
  bpa_ccl_tcp_store_args args{};
  args.struct_size = sizeof(args);
  args.flags = options.serve ? BPA_CCL_SERVE_BIT : 0;
  args.endpoint = options.endpoint.c_str();
  args.token_file = options.token_file.c_str();
  args.job = options.job.c_str();
  args.timeout_ns = detail::timeout_ns(options.timeout);
  bpa_ccl_store* handle = nullptr;
  detail::check(bpa_ccl_store_create_tcp(&args, &handle));
  return Store(handle);
}

/// The job of which this process is a rank. Copies are the same job.
class Job {
 public:
  /// None.
  Job() = default;
  /// Waits until all ranks have called it. Once in each process.
  static Job from_environment() {
    bpa_ccl_job* handle = nullptr;
    detail::check(bpa_ccl_job_create(&handle));
    Job job;
    job.handle_ = std::shared_ptr<bpa_ccl_job>(handle, bpa_ccl_job_release);
    return job;
  }
  bpa_ccl_job* handle() const { return handle_.get(); }

  uint32_t rank() const { return info().rank; }
  uint32_t rank_count() const { return info().rank_count; }
  uint32_t local_rank() const { return info().local_rank; }
  uint32_t local_count() const { return info().local_count; }
  uint32_t restart() const { return info().restart; }
  /// The device that the launcher gave to this rank, or `otherwise`.
  std::string device(const std::string& otherwise = {}) const {
    const std::string given = info().device;
    return given.empty() ? otherwise : given;
  }
  std::string launcher() const { return info().launcher; }

  /// Where the job's ranks meet.
  Store store() const {
    bpa_ccl_store* handle = nullptr;
    detail::check(bpa_ccl_job_get_store(this->handle(), &handle));
    return Store(handle);
  }
  /// A group of all ranks, under a name that the job has not used yet. timeout: as GroupOptions.
  Group create_group(Device device, const std::string& name = "default",
                     std::chrono::nanoseconds timeout = {}) const {
    const bpa_ccl_job_info place = info();
    return Group::create(device, {.store = store(),
                                  .name = name,
                                  .rank = place.rank,
                                  .rank_count = place.rank_count,
                                  .timeout = timeout});
  }

  /// Texts live as long as the job.
  bpa_ccl_job_info info() const {
    bpa_ccl_job_info info{};
    info.struct_size = sizeof(info);
    detail::check(bpa_ccl_job_get_info(handle(), &info));
    return info;
  }

 private:
  std::shared_ptr<bpa_ccl_job> handle_;
};

}  // namespace ccl
}  // namespace api
}  // namespace bp

#endif
