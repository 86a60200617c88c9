// SPDX-License-Identifier: Apache-2.0
//
// The last error of each thread. Its texts lie on the heap: thread-local variables of this library
// are reached at fixed places of a thread, of which a process has few left when the library is
// loaded late, so that all of them together take no more than a few words.
#include <cstring>
#include <mutex>

#include "core/api/handles.hpp"
#include "core/base/utf8.hpp"

namespace bp {
namespace {

/// Room that is made once, so that setting a thread's later errors cannot fail. Never freed: a
/// thread that ends leaves it to another one.
struct LastError {
  char text[kLastErrorBytes] = {};
  char op[kLastErrorOpBytes] = {};
  LastError* next_unused = nullptr;
};

struct UnusedErrors {
  std::mutex mutex;
  LastError* first = nullptr;
};
constinit UnusedErrors unused_errors;

constinit thread_local LastError* last_error = nullptr;      // nullptr: none yet, or no more
constinit thread_local bool has_ended = false;               // the thread's room was given back
constinit thread_local const char* words_without_room = "";  // of an error that got no room

struct LastErrorOwner {
  ~LastErrorOwner() {
    has_ended = true;
    if (forked()) return;
    const std::lock_guard lock(unused_errors.mutex);
    last_error->next_unused = unused_errors.first;
    unused_errors.first = std::exchange(last_error, nullptr);
  }
};

LastError* take_room() {
  {
    const std::lock_guard lock(unused_errors.mutex);
    if (LastError* found = unused_errors.first; found != nullptr) {
      unused_errors.first = found->next_unused;
      return found;
    }
  }
  return new (std::nothrow) LastError;
}

/// nullptr: out of host memory, or the thread is ending.
LastError* own_last_error() {
  if (last_error == nullptr && !has_ended) {
    last_error = take_room();
    if (last_error != nullptr) static thread_local const LastErrorOwner owner;
  }
  return last_error;
}

template <size_t N>
void keep_text(const char* given, char (&out_text)[N]) {
  const std::string_view kept = utf8_prefix(given, N - 1);
  std::memcpy(out_text, kept.data(), kept.size());
  out_text[kept.size()] = '\0';
}

}  // namespace

bpa_status set_last_error(bpa_status code, const char* words, const char* op) noexcept {
  if (LastError* error = own_last_error(); error != nullptr) {
    keep_text(words, error->text);
    keep_text(op, error->op);
  } else {
    words_without_room = bpa_status_name(code);
  }
  return code;
}

bpa_status set_last_error(const Status& status) {
  return set_last_error(status.code(), status.message().c_str(), status.op().c_str());
}

const char* last_error_text() {
  return last_error != nullptr ? last_error->text : words_without_room;
}

const char* last_error_op() { return last_error != nullptr ? last_error->op : ""; }

void deliver_lines(LogScope* lines) noexcept {
  if (last_error == nullptr) {
    lines->deliver();
    if (last_error != nullptr) last_error->text[0] = last_error->op[0] = '\0';
    return;
  }
  char words[kLastErrorBytes];
  char op[kLastErrorOpBytes];
  std::memcpy(words, last_error->text, sizeof(words));
  std::memcpy(op, last_error->op, sizeof(op));
  lines->deliver();
  std::memcpy(last_error->text, words, sizeof(words));
  std::memcpy(last_error->op, op, sizeof(op));
}

bpa_status ApiScope::fail(const Status& status) const {
  if (lines_.scope.is_outermost()) HandleUses::note_failed_call();
  return set_last_error(status);
}

}  // namespace bp
