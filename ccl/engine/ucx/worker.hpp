// SPDX-License-Identifier: Apache-2.0
//
// UCX's objects of one end, made with the settings that the engine relies on.
#ifndef BACKPLANE_CCL_ENGINE_UCX_WORKER_HPP
#define BACKPLANE_CCL_ENGINE_UCX_WORKER_HPP

#include <string>

#include "ccl/engine/ucx/ucp.hpp"

namespace bp_ucx {

class Worker {
 public:
  /// Throws Refusal.
  explicit Worker(const bp_engine_args& args);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h get() const { return worker_; }
  /// By every transport, or by those of the network alone. Throws Refusal.
  std::string address(bool is_network_only) const;
  /// To be read when there is something to do, after arm().
  int descriptor() const;
  /// False: there is something to do now.
  bool arm() { return ucp().worker_arm(worker_) == UCS_OK; }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
};

}  // namespace bp_ucx

#endif
