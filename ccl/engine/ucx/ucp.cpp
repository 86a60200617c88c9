// SPDX-License-Identifier: Apache-2.0
//
// UCX reads its settings while it is loaded: from the environment, and before that from files
// ucx.conf, one of them in the working directory. Files could name a folder of libraries to load;
// so the thread that loads it has a working directory of its own, the root.
//
// The environment of a process with threads cannot be changed safely: setenv() frees what another
// thread's getenv() may be reading. For as long as UCX is loaded, `environ` therefore leads to an
// array of our own, which has the same strings besides ours, and is kept for ever. A getenv() then
// reads one of two arrays that are both whole. What remains is a setenv() in another thread at that
// very moment; its change is kept, and ours then stay in the environment, too.
#include "ccl/engine/ucx/ucp.hpp"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

namespace bp_ucx {
namespace {

constexpr const char* kLibrary = "libucp.so.0";

const bp_engine_host* g_host = nullptr;  // set before UCX is loaded
Ucp g_ucp{};

/// UCX's words, as people read them elsewhere in the log. What concerns a peer is told by the
/// engine itself; so nothing here is a warning.
ucs_log_func_rc_t take_line(const char*, unsigned, const char*, ucs_log_level_t level,
                            const ucs_log_component_config_t*, const char* format, va_list list) {
  if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;
  std::array<char, 512> text{};
  va_list copy;
  va_copy(copy, list);
  const int begin = std::snprintf(text.data(), text.size(), "engine ucx: ");
  std::vsnprintf(text.data() + begin, text.size() - static_cast<size_t>(begin), format, copy);
  va_end(copy);
  tell(kLogInfo, text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

/// What must hold whatever the user's own settings of UCX are.
std::vector<std::string> fixed_settings() {
  return {"UCX_HANDLE_ERRORS=none",  // or it takes SIGSEGV and others
          "UCX_DEBUG_SIGNO=0",       // ... and SIGHUP
          "UCX_MEM_EVENTS=no",       // or it patches mmap and its like
          "UCX_MEM_MMAP_HOOK_MODE=none", "UCX_MEM_MALLOC_HOOKS=no", "UCX_MEM_MALLOC_RELOC=no",
          "UCX_MEMTYPE_CACHE=no",
          "UCX_VFS_ENABLE=no",  // a service thread with a file system
          "UCX_WARN_UNUSED_ENV_VARS=no",
          // It opens its libraries by name; where the kernel limits who may read another's memory,
          // that one would lift the limit for the whole process.
          std::string("UCX_MODULES=") + (may_copy_between_processes() ? "cma" : "none")};
}

bool is_same_name(std::string_view entry, std::string_view other) {
  return entry.substr(0, entry.find('=')) == other.substr(0, other.find('='));
}

struct Environment {
  std::vector<std::string> settings = fixed_settings();
  std::vector<char*> entries = {};
  std::unique_ptr<Environment> earlier = {};  // of an opening that failed
};

/// Never freed: other threads may read it at any time.
char** make_environment() {
  static Environment* newest = nullptr;
  auto made = std::make_unique<Environment>();
  Environment* const kept = made.get();
  const bool is_privileged = getauxval(AT_SECURE) != 0;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    // With more rights than its user a process takes no settings from that one.
    bool is_kept = !is_privileged || (!text.starts_with("UCX_") && !text.starts_with("HOME="));
    for (const std::string& ours : kept->settings) is_kept = is_kept && !is_same_name(text, ours);
    if (is_kept) kept->entries.push_back(*entry);
  }
  for (std::string& ours : kept->settings) kept->entries.push_back(ours.data());
  kept->entries.push_back(nullptr);
  made->earlier.reset(newest);
  newest = made.release();
  return newest->entries.data();
}

struct Opened {
  void* library = nullptr;
  std::string words;
};

/// On a thread of its own, which takes no signals meanwhile.
Opened load_library() {
  Opened opened;
  std::thread loader([&opened] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    if (unshare(CLONE_FS) != 0 || chdir("/") != 0) {
      opened.words = std::string("a working directory for its loading: ") + std::strerror(errno);
      return;
    }
    char** const before = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
    char** ours = nullptr;
    try {
      ours = make_environment();
    } catch (const std::bad_alloc&) {
      opened.words = "there is no memory";
      return;
    }
    __atomic_store_n(&environ, ours, __ATOMIC_RELEASE);
    opened.library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (opened.library == nullptr) opened.words = dlerror();
    __atomic_compare_exchange_n(&environ, &ours, before, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  });
  loader.join();
  return opened;
}

template <class Function>
void find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  if (*out == nullptr) {
    throw Refusal(BP_INCOMPATIBLE,
                  std::string(kLibrary) + " has no " + name + ": expected UCX 1.13 or newer");
  }
}

void find_functions(void* library) {
  find(library, "ucp_am_data_release", &g_ucp.am_data_release);
  find(library, "ucp_am_recv_data_nbx", &g_ucp.am_recv_data_nbx);
  find(library, "ucp_am_send_nbx", &g_ucp.am_send_nbx);
  find(library, "ucp_cleanup", &g_ucp.cleanup);
  find(library, "ucp_config_modify", &g_ucp.config_modify);
  find(library, "ucp_config_read", &g_ucp.config_read);
  find(library, "ucp_config_release", &g_ucp.config_release);
  find(library, "ucp_ep_close_nbx", &g_ucp.ep_close_nbx);
  find(library, "ucp_ep_create", &g_ucp.ep_create);
  find(library, "ucp_ep_flush_nbx", &g_ucp.ep_flush_nbx);
  find(library, "ucp_init_version", &g_ucp.init_version);
  find(library, "ucp_request_check_status", &g_ucp.request_check_status);
  find(library, "ucp_request_free", &g_ucp.request_free);
  find(library, "ucp_worker_arm", &g_ucp.worker_arm);
  find(library, "ucp_worker_create", &g_ucp.worker_create);
  find(library, "ucp_worker_destroy", &g_ucp.worker_destroy);
  find(library, "ucp_worker_get_efd", &g_ucp.worker_get_efd);
  find(library, "ucp_worker_progress", &g_ucp.worker_progress);
  find(library, "ucp_worker_query", &g_ucp.worker_query);
  find(library, "ucp_worker_release_address", &g_ucp.worker_release_address);
  find(library, "ucp_worker_set_am_recv_handler", &g_ucp.worker_set_am_recv_handler);
  find(library, "ucs_log_push_handler", &g_ucp.log_push_handler);
  find(library, "ucs_status_string", &g_ucp.status_string);
}

}  // namespace

bool may_copy_between_processes() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  return !(file >> scope) || scope == 0;  // a kernel without the file has no such limit
}

const Ucp& open_ucp(const bp_engine_host& host) {
  static std::mutex mutex;
  static bool is_open = false;
  const std::lock_guard lock(mutex);
  if (is_open) return g_ucp;
  g_host = &host;
  const Opened opened = load_library();
  if (opened.library == nullptr) {
    throw Refusal(BP_UNAVAILABLE, opened.words + "; install UCX (Debian's package libucx0)");
  }
  find_functions(opened.library);
  g_ucp.log_push_handler(take_line);
  for (const std::string& ours : fixed_settings()) tell_of_override(ours.substr(0, ours.find('=')));
  is_open = true;
  return g_ucp;
}

const Ucp& ucp() { return g_ucp; }

void tell(uint32_t level, const char* text) { g_host->log(level, text); }

void tell_of_override(const std::string& variable) {
  static std::mutex mutex;
  static std::set<std::string> told;
  if (std::getenv(variable.c_str()) == nullptr) return;
  const std::lock_guard lock(mutex);
  if (!told.insert(variable).second) return;
  tell(kLogWarning,
       ("engine ucx: " + variable + " has no effect: the engine sets it itself").c_str());
}

}  // namespace bp_ucx
