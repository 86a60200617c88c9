// SPDX-License-Identifier: Apache-2.0
#include "ccl/engine/ucx/worker.hpp"

#include <net/if.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace bp_ucx {
namespace {

void check(ucs_status_t status, const std::string& what) {
  if (status == UCS_OK) return;
  const int32_t code = status == UCS_ERR_NO_MEMORY ? BP_OUT_OF_MEMORY : BP_UNAVAILABLE;
  throw Refusal(code, what + ": " + ucp().status_string(status));
}

/// "eth0, lo"
std::string interface_names() {
  struct Free {
    void operator()(struct if_nameindex* list) const { if_freenameindex(list); }
  };
  const std::unique_ptr<struct if_nameindex, Free> list(if_nameindex());
  std::string names;
  for (const auto* entry = list.get(); entry != nullptr && entry->if_name != nullptr; ++entry) {
    names += (names.empty() ? "" : ", ") + std::string(entry->if_name);
  }
  return names;
}

/// UCX ends the process where it is left without descriptors while it is being made (an assertion
/// of its thread for events). It takes about 12, and a peer over the network four more.
void check_descriptors() {
  constexpr size_t kNeeded = 32;
  struct Taken : std::vector<int> {
    ~Taken() {
      for (const int descriptor : *this) close(descriptor);
    }
  } taken;
  taken.reserve(kNeeded);
  while (taken.size() < kNeeded) {
    const int descriptor = eventfd(0, EFD_CLOEXEC);
    if (descriptor < 0) break;
    taken.push_back(descriptor);
  }
  const int failure = errno;
  if (taken.size() == kNeeded) return;
  throw Refusal(BP_UNAVAILABLE, "expected room for " + std::to_string(kNeeded) +
                                    " file descriptors (ulimit -n), found it for " +
                                    std::to_string(taken.size()) + ": " + std::strerror(failure));
}

void check_interface(const std::string& name) {
  if (name.empty()) return;
  if (if_nametoindex(name.c_str()) != 0) {
    if (access(("/sys/class/net/" + name).c_str(), F_OK) == 0) return;
    throw Refusal(BP_UNAVAILABLE,
                  "UCX finds interfaces in /sys/class/net, where '" + name +
                      "' is not: expected the /sys of this network namespace to be mounted");
  }
  throw Refusal(BP_INVALID_ARGUMENT, "expected a network interface of this host (" +
                                         interface_names() + "), found '" + name + "'");
}

std::string transports(const bp_engine_args& args) {
  std::string names = "self";
  if (args.uses_shared_memory != 0) names += ",posix,sysv";
  if (args.uses_shared_memory != 0 && may_copy_between_processes()) names += ",cma";
  if (args.interface_name[0] != 0) names += ",tcp";
  return names;
}

struct Setting {
  const char* name;
  std::string value;
};

std::vector<Setting> settings(const bp_engine_args& args) {
  std::vector<Setting> list = {
      {"TLS", transports(args)},
      // Each side moves bytes of its own memory, or reads the other's; nobody writes there, so that
      // memory whose transfer was given up is left alone.
      {"RNDV_SCHEME", "get_zcopy"},
      {"PROTO_ENABLE", "n"},
      {"MAX_EAGER_LANES", "1"},
      {"MAX_RNDV_LANES", "1"},
      // UCX does not look at peers itself: of those on this host it would read the entries in
      // /proc, and take all of them for dead where this process has no descriptor left for that.
      // They are watched by the kernel, and so are connections to other hosts: what is closed or
      // reset is told at once; what swallows all bytes ends at the deadline, or before by TCP's own
      // looks, which UCX has where it has connected (UCX_TCP_KEEPIDLE, UCX_TCP_KEEPINTVL).
      {"KEEPALIVE_INTERVAL", "inf"},
  };
  // Without it connections that tell of their peer's death fall back from shared memory to TCP.
  if (args.uses_shared_memory != 0) list.push_back({"MM_ERROR_HANDLING", "y"});
  // Of a place in the queue: a header and inline bytes of ours lie in the place itself.
  if (args.uses_shared_memory != 0) list.push_back({"MM_FIFO_ELEM_SIZE", "512"});
  if (args.interface_name[0] != 0) {
    list.push_back({"NET_DEVICES", args.interface_name});
    list.push_back({"PUT_ENABLE", "n"});  // TCP's way to write into a peer's memory
  }
  return list;
}

ucp_context_h make_context(const bp_engine_args& args) {
  ucp_config_t* config = nullptr;
  check(ucp().config_read(nullptr, nullptr, &config), "UCX's settings");
  const std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> kept(config,
                                                                          ucp().config_release);
  for (const Setting& setting : settings(args)) {
    tell_of_override(std::string("UCX_") + setting.name);
    tell_of_override(std::string("UCX_TCP_") + setting.name);  // as people know some of them
    check(ucp().config_modify(config, setting.name, setting.value.c_str()),
          "UCX's setting " + std::string(setting.name) + "=" + setting.value);
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  check(ucp().init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context),
        "UCX's transports " + transports(args));
  return context;
}

}  // namespace

Worker::Worker(const bp_engine_args& args) {
  check_descriptors();
  check_interface(args.interface_name);
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t made = UCS_ERR_NO_DEVICE;
  // UCX leaves an interface out whose link is down, so that ranks of one host meet without it; one
  // that goes down between the context and the worker is left out by the next context.
  for (int tries = 0; made == UCS_ERR_NO_DEVICE && tries < 2; ++tries) {
    context_ = make_context(args);
    made = ucp().worker_create(context_, &params, &worker_);
    if (made != UCS_OK) ucp().cleanup(context_);
  }
  check(made, "UCX's worker");
}

Worker::~Worker() {
  ucp().worker_destroy(worker_);
  ucp().cleanup(context_);
}

std::string Worker::address(bool is_network_only) const {
  ucp_worker_attr_t found{};
  found.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  found.address_flags = is_network_only ? UCP_WORKER_ADDRESS_FLAG_NET_ONLY : 0;
  check(ucp().worker_query(worker_, &found), "UCX's address");
  const auto release = [this](ucp_address_t* address) {
    ucp().worker_release_address(worker_, address);
  };
  const std::unique_ptr<ucp_address_t, decltype(release)> kept(found.address, release);
  return std::string(reinterpret_cast<const char*>(found.address), found.address_length);
}

int Worker::descriptor() const {
  int descriptor = -1;
  check(ucp().worker_get_efd(worker_, &descriptor), "UCX's descriptor to wait with");
  return descriptor;
}

}  // namespace bp_ucx
