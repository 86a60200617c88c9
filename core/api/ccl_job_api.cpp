// SPDX-License-Identifier: Apache-2.0
//
// Jobs, and stores between processes, of the C API.
#include <utility>

#include "ccl/launch/job.hpp"
#include "ccl/launch/job_store.hpp"
#include "ccl/store/endpoint.hpp"
#include "ccl/store/file_store.hpp"
#include "ccl/store/handshake.hpp"
#include "ccl/store/tcp_server.hpp"
#include "ccl/store/tcp_store.hpp"
#include "core/api/ccl_job_handles.hpp"
#include "core/plugin/loader.hpp"

namespace bp {
namespace {

/// A store and its server, which ends after it.
struct ServedStore {
  std::unique_ptr<ccl::TcpServer> server;
  std::shared_ptr<ccl::Store> store;
};

Status give_store(std::shared_ptr<ccl::Store> made, bpa_ccl_store** out_store) {
  auto store = Ref<ApiStore>::make(std::move(made));
  BP_TRY(make_api_handle(store.get(), out_store));
  store.detach();
  return {};
}

Result<std::string> read_text(const char* text, std::string_view name) {
  BP_TRY(check_pointer(text, name));
  BP_TRY(check_text(text, name));
  if (*text != '\0') return std::string(text);
  return bad_argument(name, "is empty");
}

Result<std::string> read_job_name(const char* text, std::string_view name) {
  BP_TRY_ASSIGN(std::string job, read_text(text, name));
  constexpr size_t kMost = ccl::HandshakeTerms::kMostJobBytes;
  if (job.size() <= kMost) return job;
  return bad_argument(name, "has " + std::to_string(job.size()) + " bytes, expected at most " +
                                std::to_string(kMost));
}

/// As BACKPLANE_CCL_TIMEOUT says, unless the environment is not to be believed.
Result<ccl::Store::Clock::time_point> deadline_of(uint64_t timeout_ns) {
  std::chrono::nanoseconds timeout = timeout_of(timeout_ns, std::chrono::nanoseconds(0));
  if (timeout_ns == 0) {
    const auto nothing = [](std::string_view) { return std::optional<std::string>(); };
    BP_TRY_ASSIGN(timeout, ccl::read_timeout(process_is_privileged()
                                                 ? ccl::Environment(nothing)
                                                 : ccl::Environment(ccl::process_variable)));
  }
  const auto now = ccl::Store::Clock::now();
  const auto longest = ccl::Store::Clock::time_point::max() - now;
  return now + std::min<std::chrono::nanoseconds>(timeout, longest);
}

Result<std::shared_ptr<ccl::Store>> open_tcp_store(const bpa_ccl_tcp_store_args& given) {
  const bool serves = (given.flags & BPA_CCL_SERVE_BIT) != 0;
  BP_TRY_ASSIGN(std::string endpoint, read_text(given.endpoint, "args.endpoint"));
  const auto parsed = ccl::parse_endpoint(endpoint);
  if (!parsed.ok()) return parsed.status().with_prefix("argument args.endpoint");
  const bool is_interface = parsed->kind == ccl::Endpoint::Kind::kInterface;
  if (parsed->port == 0 || (is_interface && !serves)) {
    return bad_argument("args.endpoint", "is " + endpoint + ", expected an address and a port");
  }
  BP_TRY_ASSIGN(const std::string token_file, read_text(given.token_file, "args.token_file"));
  BP_TRY_ASSIGN(const std::string job, read_job_name(given.job, "args.job"));
  BP_TRY_ASSIGN(const auto deadline, deadline_of(given.timeout_ns));
  auto token = ccl::Token::from_file(token_file);
  if (!token.ok()) return token.status().with_prefix("argument args.token_file");
  const auto served = std::make_shared<ServedStore>();
  if (serves) {
    BP_TRY_ASSIGN(served->server,
                  ccl::TcpServer::start({.endpoint = endpoint, .token = *token, .job = job}));
    endpoint = served->server->endpoint();
  }
  const auto set_by = given.timeout_ns == 0 ? ccl::kSetByOption : ccl::kSetByProgram;
  BP_TRY_ASSIGN(served->store, ccl::connect_tcp_store({.endpoint = endpoint,
                                                       .token = *token,
                                                       .job = job,
                                                       .deadline = deadline,
                                                       .telling = {.set_by = set_by}}));
  return std::shared_ptr<ccl::Store>(served, served->store.get());
}

bpa_ccl_job_info job_info(const ApiJob& job) {
  bpa_ccl_job_info info{};
  info.rank = job.job.rank;
  info.rank_count = job.job.rank_count;
  info.local_rank = job.job.local_rank;
  info.local_count = job.job.local_count;
  info.restart = job.job.restart;
  info.device = job.job.device.c_str();
  info.launcher = job.launcher.c_str();
  return info;
}

}  // namespace
}  // namespace bp

using bp::ApiJob;
using bp::check_pointer;
using bp::guarded;
using bp::object_of;
using bp::Ref;
using bp::Status;

bpa_status bpa_ccl_job_create(bpa_ccl_job** out_job) {
  return guarded(out_job, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_job, "out_job"));
    if (bp::process_is_privileged()) {
      return Status(BP_UNAVAILABLE,
                    "the process runs with raised privileges, so that its environment, which says "
                    "which rank it is, is not believed");
    }
    const bp::ccl::Environment environment = bp::ccl::process_variable;
    BP_TRY_ASSIGN(bp::ccl::Job found, bp::ccl::read_job(environment));
    BP_TRY_ASSIGN(const auto deadline, bp::deadline_of(0));
    BP_TRY_ASSIGN(auto store, bp::ccl::JobStore::open(found, environment, deadline));
    auto job = Ref<ApiJob>::make(std::move(found), std::move(store));
    BP_TRY(bp::make_api_handle(job.get(), out_job));
    job.detach();
    return {};
  });
}

void bpa_ccl_job_release(bpa_ccl_job* job) { bp::release(job, "bpa_ccl_job_release"); }

bpa_status bpa_ccl_job_get_info(bpa_ccl_job* job, bpa_ccl_job_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const ApiJob* found, object_of(job, "job"));
    return bp::write_struct(out_info, bp::job_info(*found), "out_info");
  });
}

bpa_status bpa_ccl_job_get_store(bpa_ccl_job* job, bpa_ccl_store** out_store) {
  return guarded(out_store, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const ApiJob* found, object_of(job, "job"));
    BP_TRY(check_pointer(out_store, "out_store"));
    return bp::give_store({found->store, found->store->store().get()}, out_store);
  });
}

bpa_status bpa_ccl_store_create_file(const char* path, const char* job, bpa_ccl_store** out_store) {
  return guarded(out_store, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_store, "out_store"));
    BP_TRY_ASSIGN(const std::string path_text, bp::read_text(path, "path"));
    BP_TRY_ASSIGN(const std::string job_text, bp::read_job_name(job, "job"));
    BP_TRY_ASSIGN(auto store, bp::ccl::open_file_store({.path = path_text, .job = job_text}));
    return bp::give_store(std::move(store), out_store);
  });
}

bpa_status bpa_ccl_store_create_tcp(const bpa_ccl_tcp_store_args* args, bpa_ccl_store** out_store) {
  return guarded(out_store, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_store, "out_store"));
    BP_TRY(check_pointer(args, "args"));
    BP_TRY_ASSIGN(const bpa_ccl_tcp_store_args given,
                  bp::read_struct(args, "args", BPA_CCL_SERVE_BIT));
    BP_TRY_ASSIGN(auto store, bp::open_tcp_store(given));
    return bp::give_store(std::move(store), out_store);
  });
}
