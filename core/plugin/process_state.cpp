// SPDX-License-Identifier: Apache-2.0
//
// What is the process's is kept once for all that overlap: the first of them looks, and the last
// puts back, so that none takes what another plugin left for the application's.
#include "core/plugin/process_state.hpp"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bitset>
#include <charconv>
#include <clocale>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/status.hpp"

namespace bp {
namespace {

/// Who handles which signal. Those that the system or its C library keeps for itself answer nothing
/// and stay out.
class SignalHandlers {
 public:
  void look() {
    for (int number = 1; number < NSIG; ++number) {
      Handler& handler = handlers_[static_cast<size_t>(number)];
      handler.is_known = sigaction(number, nullptr, &handler.action) == 0;
    }
  }
  /// Answers which had changed, and whether one of those could not be put back.
  std::bitset<NSIG> put_back(bool* out_are_gone) const {
    std::bitset<NSIG> changed;
    for (int number = 1; number < NSIG; ++number) {
      const Handler& before = handlers_[static_cast<size_t>(number)];
      struct sigaction now {};
      if (!before.is_known || sigaction(number, nullptr, &now) != 0) continue;
      // Not the flags: the C library adds one of its own to what was ever set.
      if (before.action.sa_handler == now.sa_handler) continue;
      if (sigaction(number, &before.action, nullptr) != 0) *out_are_gone = true;
      changed.set(static_cast<size_t>(number));
    }
    return changed;
  }

 private:
  struct Handler {
    bool is_known = false;
    struct sigaction action {};
  };
  std::array<Handler, NSIG> handlers_;
};

/// "INT, SEGV"
std::string names_of(const std::bitset<NSIG>& signals) {
  std::string names;
  for (int number = 1; number < NSIG; ++number) {
    if (!signals.test(static_cast<size_t>(number))) continue;
    const char* const name = sigabbrev_np(number);
    names += names.empty() ? "" : ", ";
    names += name != nullptr ? name : std::to_string(number);
  }
  return names;
}

/// What plugins had changed.
struct Changes {
  bool folder_is_gone = false;
  bool locale = false;
  bool new_file_mask = false;
  std::bitset<NSIG> signals;
  bool handlers_are_gone = false;  // some of them

  bool concern_the_application() const {
    return folder_is_gone || locale || new_file_mask || handlers_are_gone;
  }
  /// What an application is to hear of; empty: nothing.
  std::string words() const {
    std::string told;
    const auto tell = [&](const std::string& what) { told += (told.empty() ? "" : "; ") + what; };
    if (folder_is_gone) tell("the working directory, which is gone");
    if (locale) tell("the locale");
    if (new_file_mask) tell("the mask of new files (umask)");
    if (signals.any()) tell("the handlers of signals " + names_of(signals));
    return told;
  }
};

class ProcessState {
 public:
  /// Throws std::bad_alloc, and then has changed nothing.
  void look() {
    locale_ = locale_now();
    new_file_mask_ = new_file_mask_now();
    signals_.look();
    folder_ = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::fflush(stdout);
    output_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (output_ >= 0) dup2(STDERR_FILENO, STDOUT_FILENO);
  }

  Changes put_back() {
    Changes changes;
    std::fflush(stdout);
    if (output_ >= 0) dup2(output_, STDOUT_FILENO);
    if (output_ >= 0) close(std::exchange(output_, -1));
    changes.folder_is_gone = folder_ >= 0 && fchdir(folder_) != 0;
    if (folder_ >= 0) close(std::exchange(folder_, -1));
    const char* const locale = std::setlocale(LC_ALL, nullptr);
    changes.locale = locale != nullptr && locale != locale_;
    if (changes.locale) std::setlocale(LC_ALL, locale_.c_str());
    changes.new_file_mask = new_file_mask_ && new_file_mask_now() != new_file_mask_;
    if (changes.new_file_mask) umask(*new_file_mask_);
    changes.signals = signals_.put_back(&changes.handlers_are_gone);
    return changes;
  }

 private:
  static std::string locale_now() {
    const char* const name = std::setlocale(LC_ALL, nullptr);
    return name != nullptr ? name : "";
  }
  /// umask() tells it only by setting it, for all threads.
  static std::optional<mode_t> new_file_mask_now() {
    constexpr std::string_view kKey = "\nUmask:\t";
    constexpr size_t kMostBytes = 1024;  // it stands at the beginning
    std::array<char, kMostBytes> text;
    const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    const ssize_t count = read(file, text.data(), text.size());
    close(file);
    const std::string_view status(text.data(), count > 0 ? static_cast<size_t>(count) : 0);
    const size_t at = status.find(kKey);
    if (at == std::string_view::npos) return std::nullopt;
    mode_t mask = 0;
    const char* const end = status.data() + status.size();
    const auto parsed = std::from_chars(status.data() + at + kKey.size(), end, mask, 8);
    return parsed.ec == std::errc() ? std::optional(mask) : std::nullopt;
  }

  int output_ = -1;  // the real one
  int folder_ = -1;
  std::string locale_;
  std::optional<mode_t> new_file_mask_;  // none: the system does not tell
  SignalHandlers signals_;
};

struct Shared {
  std::mutex mutex;
  int users = 0;
  ProcessState state;
};

Shared& shared() {
  static auto* kept = new Shared;  // threads may be loading while static destructors run
  return *kept;
}

}  // namespace

KeepProcessState::KeepProcessState() {
  const std::lock_guard lock(shared().mutex);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
  if (shared().users == 0) shared().state.look();
  ++shared().users;
}

KeepProcessState::~KeepProcessState() {
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  Changes changes;
  {
    const std::lock_guard lock(shared().mutex);
    if (--shared().users == 0) changes = shared().state.put_back();
  }
  [[maybe_unused]] const Status logged = contain([&] {
    const std::string told = changes.words();
    // Drivers handle signals as a matter of course, and an interpreter has handlers of its own
    // before it loads them: once those are back, nothing of the application's is lost.
    const uint32_t level = changes.concern_the_application() ? BP_LOG_WARNING : BP_LOG_INFO;
    if (!told.empty()) log(level, "plugins changed " + told + "; that is put back");
  });
}

}  // namespace bp
