// SPDX-License-Identifier: Apache-2.0
#include "runs.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "gil.hpp"

namespace bp::python {
namespace {

using Clock = std::chrono::steady_clock;

/// A run that a signal may end. A second signal ends the wait for that end too.
void run_watched(SessionObject& session, RunRequest& request, bpa_tensor** out_outputs) {
  const auto run =
      std::make_shared<AsyncRun>(session.core(), session.outputs().size(), request.cancel());
  run->start(request.args(), nullptr, 0);
  try {
    run->ending().wait();
  } catch (nb::python_error&) {
    run->request_cancel();
    run->ending().wait();
    throw;
  }
  run->give(out_outputs);
}

void run_directly(SessionObject& session, RunRequest& request, bpa_tensor** out_outputs) {
  std::shared_ptr<SessionCore> core = session.core();
  bpa_run_args& args = request.args();
  if (request.cancel() != nullptr) args.cancel = request.cancel()->handle();
  const uint64_t output_count = session.outputs().size();
  const WithoutGil release;
  const std::shared_ptr<SessionCore> used = std::move(core);  // ends without the GIL
  check(bpa_session_run_with(used->handle, &args, out_outputs, output_count));
}

}  // namespace

AsyncRun::~AsyncRun() {
  for (bpa_tensor* output : outputs_) bpa_tensor_release(output);
}

void AsyncRun::start(bpa_run_args args, std::shared_ptr<CompletionQueue> queue, uint64_t number) {
  queue_ = std::move(queue);
  number_ = number;
  args.cancel = cancel_.handle();
  auto kept = std::make_unique<std::shared_ptr<AsyncRun>>(shared_from_this());
  if (queue_ != nullptr) queue_->expect_one();
  const bpa_status status = bpa_session_run_async(session_->handle, &args, &finish, kept.get());
  if (status != BP_OK) {
    if (queue_ != nullptr) queue_->expect_less();
    check(status);
  }
  static_cast<void>(kept.release());  // the callback's now
}

void AsyncRun::finish(void* user, bpa_status status, const char* message, bpa_tensor** outputs,
                      uint64_t output_count) {
  const std::unique_ptr<std::shared_ptr<AsyncRun>> kept(
      static_cast<std::shared_ptr<AsyncRun>*>(user));
  AsyncRun& run = **kept;
  run.status_ = status;
  if (status == BP_OK) {
    std::copy_n(outputs, output_count, run.outputs_.begin());
  } else {
    try {
      run.message_ = message;
      run.op_ = bpa_last_error_op();
    } catch (const std::exception&) {  // no memory for words: the status tells
    }
  }
  run.ending_.set();
  if (run.queue_ != nullptr) run.queue_->push(run.number_);
}

void AsyncRun::give(bpa_tensor** out_outputs) {
  if (status_ != BP_OK) throw Error(status_, message_, op_);
  std::copy(outputs_.begin(), outputs_.end(), out_outputs);
  std::fill(outputs_.begin(), outputs_.end(), nullptr);
}

void run_now(SessionObject& session, RunRequest& request, bpa_tensor** out_outputs) {
  if (!is_main_thread()) return run_directly(session, request, out_outputs);
  const bool is_long = session.times().expect_long(request.input_bytes());
  const auto begin = Clock::now();
  is_long ? run_watched(session, request, out_outputs)
          : run_directly(session, request, out_outputs);
  session.times().note(Clock::now() - begin, request.input_bytes());
}

}  // namespace bp::python
