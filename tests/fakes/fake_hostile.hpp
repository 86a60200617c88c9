// SPDX-License-Identifier: Apache-2.0
//
// What a plugin may do to its core, at any slot: the environment variable FAKE_HOSTILE is
// "SLOT=ACTION,...". FAKE_SLOT(function) is the slot to put into a table.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_HOSTILE_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_HOSTILE_HPP

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "backplane/device_api.h"

namespace hostile {

/// The process's exit code where a slot ends it.
inline constexpr int kEndedBySlot = 42;

template <size_t length>
struct Name {
  char text[length];
  constexpr Name(const char (&from)[length]) {
    for (size_t i = 0; i < length; ++i) text[i] = from[i];
  }
};

/// Begins a line of its own, has a colour, and turns the reading direction round: with a mark of
/// direction, a line end of C1, and separators of lines.
inline constexpr std::string_view kForged =
    "chip\r\nERROR forged \x1b[31m\xe2\x80\xae \xc2\x85 \xe2\x80\xa8 \x7f";

/// 400 bytes in characters of two.
inline constexpr auto kLongText = [] {
  std::array<char, 400> text{};
  for (size_t i = 0; i < text.size(); ++i) text[i] = i % 2 == 0 ? '\xc3' : '\xa9';
  return text;
}();
inline constexpr std::string_view kLong{kLongText.data(), kLongText.size()};

inline std::string_view action_at(std::string_view slot) {
  const char* const wish = std::getenv("FAKE_HOSTILE");
  if (wish == nullptr) return {};
  std::string_view rest = wish;
  while (!rest.empty()) {
    const std::string_view text = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    const size_t sign = text.find('=');
    if (text.substr(0, sign) == slot) return text.substr(sign + 1);
  }
  return {};
}

inline void flush_tiny_numbers() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u);
#else
  std::fesetround(FE_UPWARD);  // for want of a name for it
#endif
}

inline void act(std::string_view action) {
  if (action == "throw") throw std::runtime_error("thrown \x1b[31m on purpose");
  if (action == "throw_int") throw 7;
  if (action == "crash") std::abort();
  if (action == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  if (action == "print") std::puts("the vendor says hello");
  if (action == "print") std::fflush(stdout);
  if (action == "chdir" && chdir("/") != 0) std::abort();
  if (action == "stall") std::this_thread::sleep_for(std::chrono::seconds(3));
  if (action == "handlers") std::signal(SIGSEGV, [](int) { std::_Exit(1); });
  if (action == "handlers") std::signal(SIGINT, SIG_IGN);
  if (action == "locale" && std::setlocale(LC_ALL, "C.UTF-8") == nullptr) std::abort();
  if (action == "umask") umask(0);
  if (action == "flush") flush_tiny_numbers();
  if (action == "leave") pthread_exit(nullptr);
  if (action == "end") std::_Exit(kEndedBySlot);
}

/// The answer of a slot that gives a handle: NULL, the one before, a place behind the beginning of
/// that, or one that is not aligned.
template <class Handle>
void spoil(std::string_view action, Handle* out) {
  static Handle before{};
  static auto* const given = new std::vector<Handle>;  // what is lost here is no leak
  given->push_back(*out);
  if (action == "null") *out = Handle{};
  if (action == "odd") *out = Handle(reinterpret_cast<char*>(*out) + 1);
  if (action == "same" && before != Handle{}) *out = before;
  if (action == "inside" && before != Handle{})
    *out = Handle(reinterpret_cast<char*>(before) + 4096);
  before = *out;
}
inline void spoil(std::string_view action, uint64_t* out) {
  void* pointer = reinterpret_cast<void*>(*out);
  spoil<void*>(action, &pointer);
  *out = reinterpret_cast<uint64_t>(pointer);
}

template <Name name, auto function>
struct Slot;

template <Name name, class... Arguments, bp_status (*function)(Arguments...)>
struct Slot<name, function> {
  static bp_status call(Arguments... arguments) {
    const std::string_view action = action_at(name.text);
    act(action);
    if (action == "unknown") return 4711;
    if (action == "pending") return BP_PENDING;
    if (action == "timeout") return BP_TIMEOUT;
    if (action == "cancelled") return BP_CANCELLED;
    if (action == "forked") return BP_FORKED;
    if (action == "no_memory") return BP_OUT_OF_MEMORY;
    if (action == "unsupported") return BP_UNSUPPORTED;
    const bp_status status = function(arguments...);
    // Who is to know that it has written what it answers, late as it is.
    if (action == "stall") std::raise(SIGUSR1);
    using Last = std::tuple_element_t<sizeof...(Arguments) - 1, std::tuple<Arguments...>>;
    if constexpr (std::is_same_v<Last, uint64_t*> ||
                  std::is_pointer_v<std::remove_pointer_t<Last>>) {
      if (status == BP_OK)
        spoil(action, std::get<sizeof...(Arguments) - 1>(std::tie(arguments...)));
    }
    return status;
  }
};

/// What it ends is ended, whatever it does then.
template <Name name, class... Arguments, void (*function)(Arguments...)>
struct Slot<name, function> {
  static void call(Arguments... arguments) {
    function(arguments...);
    act(action_at(name.text));
  }
};

/// What the device says of itself. It has more bands than those that are on unless asked.
inline void change(bp_device_props* props, const bp::sdk::Host& host) {
  if (action_at("device") == "concurrent") props->flags |= BP_DEVICE_CONCURRENT_BIT;
  if (action_at("execution") == "inline") props->execution = BP_EXECUTION_INLINE;
  if (action_at("streams") == "emulated") props->features = 0;
  if (action_at("bands") == "all") {
    props->features |=
        BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT | BP_FEATURE_TIMING_BIT;
  }
  if (action_at("names") == "forged") {
    props->name = bp::sdk::str(kForged);
    props->vendor = props->driver = props->name;
    host.log(BP_LOG_ERROR, kForged);
  }
  if (action_at("names") == "long") props->driver = bp::sdk::str(kLong);
}

}  // namespace hostile

struct bp_kernel_plan {};
struct bp_kernel_state {};

namespace hostile {

// --- functions of a kernel that needs none of them ---

inline bp_status supports(bp_device*, const bp_kernel_query*, bp_support* out_support) {
  out_support->answer = BP_SUPPORT_YES;
  return BP_OK;
}

inline bp_status plan(bp_device*, const bp_kernel_query*, bp_plan_info* out_info,
                      bp_kernel_plan** out_plan) {
  if (action_at("faults") == "can") out_info->flags |= BP_PLAN_CAN_FAULT_BIT;
  *out_plan = new bp_kernel_plan;
  return BP_OK;
}
inline void plan_free(bp_device*, bp_kernel_plan* ended) { delete ended; }

inline bp_status state_create(bp_device*, const bp_kernel*, const bp_kernel_plan*,
                              bp_kernel_state** out_state) {
  *out_state = new bp_kernel_state;
  return BP_OK;
}
inline void state_destroy(bp_device*, bp_kernel_state* state) { delete state; }

inline bp_status prepack_query(bp_device*, const bp_kernel_plan*, uint32_t,
                               bp_prepack_info* out_info) {
  out_info->bytes = 1;
  out_info->layout = bp::sdk::str("as it is");
  return BP_OK;
}
inline bp_status prepack(bp_device*, const bp_prepack_args*) { return BP_OK; }

constexpr bp_kernel with_all_functions(bp_kernel kernel) {
  kernel.supports = &Slot<"supports", supports>::call;
  kernel.plan = &Slot<"plan", plan>::call;
  kernel.plan_free = &Slot<"plan_free", plan_free>::call;
  kernel.state_create = &Slot<"state_create", state_create>::call;
  kernel.state_destroy = &Slot<"state_destroy", state_destroy>::call;
  kernel.prepack_query = &Slot<"prepack_query", prepack_query>::call;
  kernel.prepack = &Slot<"prepack", prepack>::call;
  return kernel;
}

__attribute__((constructor)) static void opened() { act(action_at("constructor")); }

}  // namespace hostile

#define FAKE_KERNEL(kernel) hostile::with_all_functions(kernel)
#define FAKE_SLOT(function) (&hostile::Slot<#function, function>::call)

#endif
