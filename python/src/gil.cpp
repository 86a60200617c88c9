// SPDX-License-Identifier: Apache-2.0
#include "gil.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

namespace bp::python {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""ms;

std::atomic<bool> g_is_ending{false};
std::terminate_handler g_terminate_before = nullptr;
thread_local bool t_ends_the_interpreter = false;

bool is_ending_elsewhere() { return g_is_ending.load() && !t_ends_the_interpreter; }

/// The process ends without this thread, as Python 3.14 has it.
[[noreturn]] void stop() {
  for (;;) std::this_thread::sleep_for(1h);
}

/// Between the end of the library and finalization other exit handlers run, which may wait for this
/// thread: so it goes on after a while.
void hold_up() {
  constexpr int kMostTries = 2000;
  for (int i = 0; i < kMostTries; ++i) {
    if (Py_IsInitialized() == 0) stop();  // 0 from the begin of finalization on
    std::this_thread::sleep_for(1ms);
  }
}

/// Unwinding met a function that is noexcept.
[[noreturn]] void on_terminate() {
  if (PyGILState_GetThisThreadState() != nullptr) stop_if_unwound();
  g_terminate_before();
  std::abort();  // a handler must not return
}

}  // namespace

WithoutGil::~WithoutGil() {
  if (is_ending_elsewhere()) hold_up();
  PyEval_RestoreThread(state_);
}

void begin_ending() {
  t_ends_the_interpreter = true;
  if (g_is_ending.exchange(true)) return;
  g_terminate_before = std::set_terminate(on_terminate);
}

void stop_if_unwound() {
  // What unwinds is no exception of C++'s, and is not known as one.
  if (is_ending_elsewhere() && std::current_exception() == nullptr) stop();
}

nb::object call_python_with(nb::handle function, nb::tuple arguments, nb::handle keywords) {
  PyObject* result = stopping_if_unwound(
      [&] { return PyObject_Call(function.ptr(), arguments.ptr(), keywords.ptr()); });
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

void wait_while_ending() {
  if (!is_ending_elsewhere()) return;
  const WithoutGil release;
}

}  // namespace bp::python
