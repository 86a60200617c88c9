// SPDX-License-Identifier: Apache-2.0
//
// Runs of a session: at once, or asynchronously with their end told to a queue.
#ifndef BACKPLANE_PYTHON_RUNS_HPP
#define BACKPLANE_PYTHON_RUNS_HPP

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cancels.hpp"
#include "completions.hpp"
#include "interrupts.hpp"
#include "sessions.hpp"

namespace bp::python {

/// An array of a size that is known late, on the stack where it is small, as most are.
template <class T>
class Slots {
 public:
  explicit Slots(size_t count) : more_(count > kFew ? count : 0), count_(count) {}
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  T* data() { return count_ > kFew ? more_.data() : few_.data(); }
  T& operator[](size_t i) { return data()[i]; }
  size_t size() const { return count_; }

 private:
  static constexpr size_t kFew = 8;
  std::array<T, kFew> few_{};
  std::vector<T> more_;
  size_t count_;
};

/// What `run` was given, as Python has it.
struct RunArguments {
  const char* function = "run";  // for words
  nb::handle inputs;             // a dict, or for a call of the session a tuple
  nb::handle out = Py_None;
  nb::handle outputs = Py_None;
  nb::handle timeout = Py_None;
  nb::handle cancel = Py_None;
  nb::handle stream = Py_None;
};

/// Handles that a run answered: those that nobody takes are released.
class Answered {
 public:
  explicit Answered(size_t count) : handles_(count) {}
  ~Answered();
  bpa_tensor** data() { return handles_.data(); }
  bpa_tensor* take(size_t i) { return std::exchange(handles_[i], nullptr); }

 private:
  Slots<bpa_tensor*> handles_;
};

/// Which outputs `run` answers, and the tensors that they are bound to. Keeps these.
class OutputPlan {
 public:
  OutputPlan(SessionObject& session, const RunArguments& given);
  /// What bpa_run_args points to lives as long as this.
  void bind(bpa_run_args& args);
  /// By name.
  nb::object make_dict(SessionObject& session, Answered& answered) const;

 private:
  void read_out(SessionObject& session, const RunArguments& given);
  void read_outputs(SessionObject& session, const RunArguments& given);

  std::vector<nb::object> bound_;     // empty, or one per output
  std::vector<bpa_tensor*> handles_;  // of them
  std::vector<size_t> selected_;      // indices of outputs
};

/// What a call of the session answers: a tensor, or a tuple where it has several outputs.
nb::object make_result(SessionObject& session, Answered& answered);

/// The rest, as bpa_run_args has it. Keeps what it points to, since another thread may empty the
/// dict while this one is without the GIL.
class RunRequest {
 public:
  RunRequest(SessionObject& session, const RunArguments& given);

  bpa_run_args& args() { return args_; }
  /// What the library says of the arguments, in Python's names for them.
  Error explain(const Error& error) const;
  uint64_t input_bytes() const { return input_bytes_; }
  const std::shared_ptr<CancelToken>& cancel() const { return cancel_; }

 private:
  void read_dict(nb::handle inputs);
  void read_tuple(nb::handle inputs);
  void convert_inputs();
  nb::object convert(const SessionIo& io, nb::object given) const;
  void read_timeout(nb::handle timeout);

  SessionObject& session_;
  const char* function_;
  Slots<size_t> indices_;  // which input each is
  Slots<nb::object> objects_;
  Slots<const char*> names_;
  Slots<const bpa_tensor*> tensors_;
  std::shared_ptr<CancelToken> cancel_;
  uint64_t input_bytes_ = 0;
  bpa_run_args args_{};
};

/// A run that was queued. Its callback comes on a thread of the library, without the GIL; the last
/// owner may be that thread, so that nothing of Python's is held.
class AsyncRun : public std::enable_shared_from_this<AsyncRun> {
 public:
  AsyncRun(std::shared_ptr<SessionCore> session, size_t output_count,
           std::shared_ptr<CancelToken> followed)
      : session_(std::move(session)), cancel_(std::move(followed)), outputs_(output_count) {}
  ~AsyncRun();

  /// queue: told of the end, by `number`; NULL: none.
  void start(bpa_run_args args, std::shared_ptr<CompletionQueue> queue, uint64_t number);
  void request_cancel() const { cancel_.request(); }
  Ending& ending() { return ending_; }
  /// After the end: gives the outputs out, once, or throws the run's error.
  void give(bpa_tensor** out_outputs);

 private:
  static void finish(void* user, bpa_status status, const char* message, bpa_tensor** outputs,
                     uint64_t output_count);

  std::shared_ptr<SessionCore> session_;
  RunCancel cancel_;
  std::shared_ptr<CompletionQueue> queue_;
  uint64_t number_ = 0;
  bpa_status status_ = BP_OK;
  std::string message_;
  std::string op_;
  std::vector<bpa_tensor*> outputs_;
  Ending ending_;
};

/// Runs and waits. On the main thread a run that is expected to take long is queued, so that Ctrl-C
/// ends it.
void run_now(SessionObject& session, RunRequest& request, bpa_tensor** out_outputs);

}  // namespace bp::python

#endif
