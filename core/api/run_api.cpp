// SPDX-License-Identifier: Apache-2.0
//
// Runs of the C API: at once or later on a worker, with outputs bound, a deadline, a token. What a
// run was given is held by a RunRequest, so that the caller may let go of it all.
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>

#include "core/api/handles.hpp"
#include "core/base/log.hpp"

namespace bp {
namespace {

/// A tensor that a run writes: kept, and no other run's until this one is over.
class BoundOutput {
 public:
  BoundOutput() = default;
  BoundOutput(BoundOutput&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), use_(std::move(other.use_)) {}
  BoundOutput& operator=(BoundOutput&&) = delete;
  ~BoundOutput() { bpa_tensor_release(finish()); }

  Status take(bpa_tensor* handle, const std::string& name) {
    if (!retain_handle(handle, HandleKind::kTensor)) {
      return explain_handle(handle, HandleKind::kTensor, name);
    }
    handle_ = handle;
    if (use_.take(handle, HandleKind::kTensor)) return {};
    return Status(BP_BUSY, "argument " + name + " is bound by a run in progress");
  }
  bool is_bound() const { return handle_ != nullptr; }
  Ref<Tensor> tensor() const { return handle_ != nullptr ? Ref(find_object(handle_)) : nullptr; }
  /// Ends the run's use and gives the owner out.
  bpa_tensor* finish() {
    use_.end();
    return std::exchange(handle_, nullptr);
  }

 private:
  bpa_tensor* handle_ = nullptr;
  ExclusiveUse use_;
};

struct RunRequest {
  Ref<Session> session;
  std::vector<NamedTensor> inputs;
  std::vector<BoundOutput> bound;                    // empty, or one per output
  std::shared_ptr<const ApiCancel::Flag> cancelled;  // its token may be gone
  Ref<ApiStream> stream;
  RunControl control;
  bool is_stoppable = false;

  Result<std::vector<Ref<Tensor>>> run() const {
    std::vector<Ref<Tensor>> tensors;
    for (const BoundOutput& output : bound) tensors.push_back(output.tensor());
    return session->run(inputs, {.outputs = tensors,
                                 .control = is_stoppable ? &control : nullptr,
                                 .stream = stream ? &stream->stream : nullptr});
  }
};

/// What is another Runtime's may be closed at any time, for all that this one knows.
Status check_same_runtime(const Tensor& tensor, const RunRequest& request,
                          const std::string& name) {
  const Device* device = tensor.device();
  if (device == nullptr || &device->runtime() == &request.session->runtime()) return {};
  return bad_argument(name, "is on a device of another runtime");
}

Status read_inputs(const char* const* names, const bpa_tensor* const* tensors, uint64_t count,
                   std::string_view prefix, RunRequest* request) {
  const std::string names_name = std::string(prefix) + "input_names";
  const std::string inputs_name = std::string(prefix) + "inputs";
  const size_t most = request->session->inputs().size();
  if (count > most) {
    return bad_argument(
        std::string(prefix) + "input_count",
        "is " + std::to_string(count) + ", the model has " + std::to_string(most) + " inputs");
  }
  BP_TRY(check_array(names, count, names_name));
  BP_TRY(check_array(tensors, count, inputs_name));
  for (uint64_t i = 0; i < count; ++i) {
    const std::string index = "[" + std::to_string(i) + "]";
    BP_TRY(check_text(names[i], names_name + index));
    BP_TRY_ASSIGN(Tensor * tensor, object_of(tensors[i], inputs_name + index));
    BP_TRY(check_same_runtime(*tensor, *request, inputs_name + index));
    request->inputs.emplace_back(names[i], Ref<Tensor>(tensor));
  }
  return {};
}

Status read_bound(const bpa_run_args& given, RunRequest* request) {
  const uint64_t count = given.bound_output_count;
  if (count == 0) return {};
  const size_t expected = request->session->outputs().size();
  if (count != expected) {
    return bad_argument(
        "args.bound_output_count",
        "is " + std::to_string(count) + ", expected 0 or " + std::to_string(expected));
  }
  BP_TRY(check_array(given.bound_outputs, count, "args.bound_outputs"));
  request->bound.resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    bpa_tensor* handle = given.bound_outputs[i];
    if (handle == nullptr) continue;
    const std::string name = "args.bound_outputs[" + std::to_string(i) + "]";
    if (std::find(given.bound_outputs, given.bound_outputs + i, handle) !=
        given.bound_outputs + i) {
      return bad_argument(name, "is bound to an earlier output too");
    }
    BP_TRY(request->bound[i].take(handle, name));
    if (request->bound[i].tensor()->is_read_only()) return bad_argument(name, "is read-only");
    BP_TRY(check_same_runtime(*request->bound[i].tensor(), *request, name));
  }
  return {};
}

Status read_control(const bpa_run_args& given, const Runtime& runtime, RunRequest* request) {
  if (given.cancel != nullptr) {
    BP_TRY_ASSIGN(ApiCancel * cancel, object_of(given.cancel, "args.cancel"));
    request->cancelled = cancel->flag();
    request->control.cancelled = request->cancelled.get();
  }
  if (given.stream != nullptr) {
    BP_TRY_ASSIGN(ApiStream * stream, object_of(given.stream, "args.stream"));
    if (&stream->stream.device() != &request->session->device()) {
      return bad_argument("args.stream", "is of " + stream->stream.device().name() +
                                             ", expected the session's first device, " +
                                             request->session->device().name());
    }
    request->stream = Ref<ApiStream>(stream);
  }
  request->control.closing = &runtime.stopping();
  constexpr uint64_t kForEverNs = uint64_t{1} << 61;  // 73 years: no deadline, and no overflow
  if (given.timeout_ns > 0 && given.timeout_ns < kForEverNs) {
    request->control.deadline =
        RunControl::Clock::now() + std::chrono::nanoseconds(given.timeout_ns);
  }
  request->is_stoppable = given.cancel != nullptr || given.timeout_ns > 0;
  return {};
}

Status read_request(const ApiSession& session, const bpa_run_args* args, RunRequest* request) {
  BP_TRY(check_pointer(args, "args"));
  BP_TRY_ASSIGN(const bpa_run_args given, read_struct(args, "args"));
  request->session = session.session;
  BP_TRY(read_control(given, session.session->runtime(), request));
  BP_TRY(read_inputs(given.input_names, given.inputs, given.input_count, "args.", request));
  return read_bound(given, request);
}

Status check_outputs(bpa_tensor** out_outputs, uint64_t count, const RunRequest& request) {
  const size_t expected = request.session->outputs().size();
  if (count != expected) {
    return bad_argument("output_count",
                        "is " + std::to_string(count) + ", expected " + std::to_string(expected));
  }
  const bool all_bound =
      !request.bound.empty() && std::all_of(request.bound.begin(), request.bound.end(),
                                            [](const BoundOutput& b) { return b.is_bound(); });
  return all_bound ? Status() : check_array(out_outputs, count, "out_outputs");
}

/// Gives all outputs to the caller, bound ones as they came; on an error none. out_outputs NULL:
/// all are bound.
Status give_outputs(RunRequest* request, std::vector<Ref<Tensor>> outputs,
                    bpa_tensor** out_outputs) {
  const auto is_bound = [&](size_t i) {
    return !request->bound.empty() && request->bound[i].is_bound();
  };
  if (out_outputs == nullptr) return {};
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (is_bound(i)) continue;
    const Status status = give_tensor(std::move(outputs[i]), &out_outputs[i]);
    if (status.ok()) continue;
    for (size_t j = 0; j < i; ++j) bpa_tensor_release(std::exchange(out_outputs[j], nullptr));
    return status;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (is_bound(i)) out_outputs[i] = request->bound[i].finish();
  }
  return {};
}

Status run_and_give(RunRequest* request, bpa_tensor** out_outputs) {
  BP_TRY_ASSIGN(std::vector<Ref<Tensor>> outputs, request->run());
  return give_outputs(request, std::move(outputs), out_outputs);
}

/// An asynchronous run, from its submission to its callback. All memory that the callback needs is
/// there before the run begins.
struct AsyncRun {
  RunRequest request;
  bpa_run_callback callback;
  void* user;
  std::vector<bpa_tensor*> outputs;

  void finish(bool begin) noexcept {
    // Copies, since the callback may make errors of its own; on the stack, since it must not fail.
    std::array<char, kLastErrorBytes> message{};
    std::array<char, kLastErrorOpBytes> op{};
    const bpa_status code = run(begin, message, op);
    // In no scope: calls from the callback are the outermost on this thread, and it may exit().
    const Status called = contain([&] {
      if (forked()) return;
      // What ended with the run may have made errors, too.
      if (code != BP_OK) set_last_error(code, message.data(), op.data());
      callback(user, code, message.data(), outputs.data(), outputs.size());
    });
    const ApiScope scope;  // these may be the last owners of the Runtime, which logs as it closes
    report_throw("a run's callback", called);
    request.stream = nullptr;
    request.session = nullptr;
  }

 private:
  bpa_status run(bool begin, std::span<char> message, std::span<char> op) noexcept {
    const ApiScope scope;
    const bpa_status code = guarded([&]() -> Status {
      Status status(BP_GONE, "");
      if (begin) status = run_and_give(&request, outputs.data());
      // It was taken while the Runtime was open: not the caller's error.
      if (status.code() != BP_GONE) return status;
      return Status(BP_CANCELLED, "the Runtime was closed before the run ended");
    });
    if (code != BP_OK) {
      std::snprintf(message.data(), message.size(), "%s", last_error_text());
      std::snprintf(op.data(), op.size(), "%s", last_error_op());
    }
    request.bound.clear();
    request.inputs.clear();
    return code;
  }
};

}  // namespace
}  // namespace bp

using bp::ApiCancel;
using bp::ApiSession;
using bp::guarded;
using bp::object_of;
using bp::Ref;
using bp::RunRequest;
using bp::Status;

bpa_status bpa_session_run(bpa_session* session, const char* const* input_names,
                           const bpa_tensor* const* inputs, uint64_t input_count,
                           bpa_tensor** out_outputs, uint64_t output_count) {
  return guarded(out_outputs, output_count, [&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    RunRequest request;
    request.session = found->session;
    BP_TRY(bp::check_outputs(out_outputs, output_count, request));
    BP_TRY(bp::read_inputs(input_names, inputs, input_count, "", &request));
    return bp::run_and_give(&request, out_outputs);
  });
}

bpa_status bpa_session_run_with(bpa_session* session, const bpa_run_args* args,
                                bpa_tensor** out_outputs, uint64_t output_count) {
  return guarded(out_outputs, output_count, [&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    RunRequest request;
    BP_TRY(bp::read_request(*found, args, &request));
    BP_TRY(bp::check_outputs(out_outputs, output_count, request));
    return bp::run_and_give(&request, out_outputs);
  });
}

bpa_status bpa_session_run_async(bpa_session* session, const bpa_run_args* args,
                                 bpa_run_callback callback, void* user) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    auto run = std::make_shared<bp::AsyncRun>();
    BP_TRY(bp::read_request(*found, args, &run->request));
    if (callback == nullptr) return bp::bad_argument("callback", "is NULL");
    bp::WorkerPool::IsStopped is_stopped;
    if (run->request.is_stoppable) {
      is_stopped = [run] { return run->request.control.is_stopped(); };
    }
    run->request.is_stoppable = true;  // so that its work is over when the callback is called
    run->callback = callback;
    run->user = user;
    run->outputs.resize(found->session->outputs().size());
    bp::Runtime& runtime = found->session->runtime();
    BP_TRY(runtime.check_open());
    return runtime.workers().submit([run](bool begin) { run->finish(begin); },
                                    std::move(is_stopped));
  });
}

bpa_status bpa_cancel_create(bpa_cancel** out_cancel) {
  return guarded(out_cancel, 1, [&]() -> Status {
    BP_TRY(bp::check_pointer(out_cancel, "out_cancel"));
    auto cancel = Ref<ApiCancel>::make();
    BP_TRY(bp::make_api_handle(cancel.get(), out_cancel));
    cancel.detach();
    return {};
  });
}

bpa_status bpa_cancel_request(bpa_cancel* cancel) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiCancel * found, object_of(cancel, "cancel"));
    found->request();
    return {};
  });
}

bpa_status bpa_cancel_reset(bpa_cancel* cancel) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiCancel * found, object_of(cancel, "cancel"));
    found->reset();
    return {};
  });
}

void bpa_cancel_release(bpa_cancel* cancel) { bp::release(cancel, "bpa_cancel_release"); }
