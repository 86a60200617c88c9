// SPDX-License-Identifier: Apache-2.0
//
// The functions of UCX, which is opened when the engine's library is, and stays for ever. It is not
// linked, since it decides while it is being loaded whether it takes the process's signals, hooks
// its memory and loads further libraries, by the environment alone.
#ifndef BACKPLANE_CCL_ENGINE_UCX_UCP_HPP
#define BACKPLANE_CCL_ENGINE_UCX_UCP_HPP

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include <stdexcept>
#include <string>

#include "ccl/engine/abi/engine_abi.h"

namespace bp_ucx {

/// A call that cannot be done; it becomes a status and words at the library's edge.
struct Refusal : std::runtime_error {
  Refusal(int32_t code, const std::string& words) : std::runtime_error(words), status(code) {}
  int32_t status;
};

struct Ucp {
  decltype(&ucp_am_data_release) am_data_release;
  decltype(&ucp_am_recv_data_nbx) am_recv_data_nbx;
  decltype(&ucp_am_send_nbx) am_send_nbx;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_config_modify) config_modify;
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_ep_close_nbx) ep_close_nbx;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_flush_nbx) ep_flush_nbx;
  decltype(&ucp_init_version) init_version;
  decltype(&ucp_request_check_status) request_check_status;
  decltype(&ucp_request_free) request_free;
  decltype(&ucp_worker_arm) worker_arm;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_destroy) worker_destroy;
  decltype(&ucp_worker_get_efd) worker_get_efd;
  decltype(&ucp_worker_progress) worker_progress;
  decltype(&ucp_worker_query) worker_query;
  decltype(&ucp_worker_release_address) worker_release_address;
  decltype(&ucp_worker_set_am_recv_handler) worker_set_am_recv_handler;
  decltype(&ucs_log_push_handler) log_push_handler;
  decltype(&ucs_status_string) status_string;
};

/// Loads UCX with the first call. Throws Refusal.
const Ucp& open_ucp(const bp_engine_host& host);
/// After open_ucp().
const Ucp& ucp();
/// A line for the user's log. After open_ucp().
constexpr uint32_t kLogError = 1;  // as in backplane/host.h
constexpr uint32_t kLogWarning = 2;
constexpr uint32_t kLogInfo = 3;
void tell(uint32_t level, const char* text);
/// Warns once of a variable such as UCX_TLS that the user has set and the engine sets itself.
void tell_of_override(const std::string& variable);
/// Whether processes of this user may read each other's memory (the kernel's ptrace_scope is 0).
bool may_copy_between_processes();

}  // namespace bp_ucx

#endif
