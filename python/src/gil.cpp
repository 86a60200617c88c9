// SPDX-License-Identifier: Apache-2.0
#include "gil.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace bp::python {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""ms;

std::atomic<bool> g_is_ending{false};
std::atomic<int64_t> g_returning_count{0};
thread_local bool t_ends_the_interpreter = false;

}  // namespace

WithoutGil::~WithoutGil() {
  ++g_returning_count;
  if (g_is_ending.load() && !t_ends_the_interpreter) {
    --g_returning_count;
    for (;;) std::this_thread::sleep_for(1h);
  }
  PyEval_RestoreThread(state_);
  --g_returning_count;
}

void begin_ending() {
  t_ends_the_interpreter = true;
  g_is_ending.store(true);
}

void let_others_pass() {
  constexpr int kMostTries = 500;
  PyThreadState* state = PyEval_SaveThread();
  for (int i = 0; i < kMostTries && g_returning_count.load() > 0; ++i) {
    std::this_thread::sleep_for(1ms);
  }
  PyEval_RestoreThread(state);
}

}  // namespace bp::python
