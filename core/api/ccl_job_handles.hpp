// SPDX-License-Identifier: Apache-2.0
//
// Inside core/api: the object behind the handle of a job.
#ifndef BACKPLANE_CORE_API_CCL_JOB_HANDLES_HPP
#define BACKPLANE_CORE_API_CCL_JOB_HANDLES_HPP

#include <memory>
#include <string>
#include <utility>

#include "ccl/launch/job_store.hpp"
#include "core/api/ccl_handles.hpp"

namespace bp {

struct ApiJob : Counted<ApiJob> {
  ApiJob(ccl::Job found, std::shared_ptr<ccl::JobStore> opened)
      : job(std::move(found)), launcher(launcher_name(job.launcher)), store(std::move(opened)) {}
  const ccl::Job job;
  const std::string launcher;
  const std::shared_ptr<ccl::JobStore> store;  // stores of the job have a share of their own
};

template <>
struct HandleTraits<bpa_ccl_job> {
  using Object = ApiJob;
  static constexpr HandleKind kKind = HandleKind::kJob;
};

}  // namespace bp

#endif
