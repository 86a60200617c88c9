// SPDX-License-Identifier: Apache-2.0
#include "interrupts.hpp"

#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "errors.hpp"
#include "gil.hpp"

namespace bp::python {
namespace {

unsigned long g_main_thread = 0;

struct Call {
  std::function<void()> work;
  std::exception_ptr error;
  Ending ending;

  void run() noexcept {
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    work = nullptr;  // who waits may be gone
    ending.set();
  }
};

bool start_thread(const std::shared_ptr<Call>& call) {
  try {
    std::thread([call] { call->run(); }).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

bool is_main_thread() { return PyThread_get_thread_ident() == g_main_thread; }

void Ending::set() noexcept {
  const std::lock_guard lock(mutex_);
  is_set_ = true;
  changed_.notify_all();
}

bool Ending::wait_for(std::chrono::milliseconds most_time) {
  const WithoutGil release;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most_time, [this] { return is_set_; });
}

void Ending::wait() {
  while (!wait_for(kLookForSignals)) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void call_interruptibly(std::function<void()> work) {
  if (is_main_thread()) {
    const auto call = std::make_shared<Call>();
    call->work = work;
    if (start_thread(call)) {
      call->ending.wait();
      if (call->error) std::rethrow_exception(call->error);
      return;
    }
  }
  const WithoutGil release;
  work();
}

void bind_interrupts() {
  const nb::object main_thread = nb::module_::import_("threading").attr("main_thread")();
  g_main_thread = nb::cast<unsigned long>(main_thread.attr("ident"));
}

}  // namespace bp::python
