// SPDX-License-Identifier: Apache-2.0
//
// Tokens that stop runs. The library takes one token per run; a run that is also stopped by a
// signal or by its future has a token of its own, which hears of the user's one.
#ifndef BACKPLANE_PYTHON_CANCELS_HPP
#define BACKPLANE_PYTHON_CANCELS_HPP

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <vector>

#include "errors.hpp"

namespace bp::python {

/// A user's token. Any thread.
class CancelToken {
 public:
  CancelToken() : own_(Cancel::create()) {}
  void request();
  void reset();
  bool is_requested();
  bpa_cancel* handle() const { return own_.handle(); }

 private:
  friend class RunCancel;

  Cancel own_;
  std::mutex mutex_;
  bool is_requested_ = false;
  std::vector<bpa_cancel*> followers_;
};

/// Backs the Python class Cancel. Runs own the token without owning Python's object.
struct CancelObject {
  std::shared_ptr<CancelToken> token = std::make_shared<CancelToken>();
};

/// The token of one run. `followed`: NULL for none.
class RunCancel {
 public:
  explicit RunCancel(std::shared_ptr<CancelToken> followed);
  ~RunCancel();
  RunCancel(const RunCancel&) = delete;
  RunCancel& operator=(const RunCancel&) = delete;
  void request() const { own_.request(); }
  bpa_cancel* handle() const { return own_.handle(); }

 private:
  Cancel own_;
  std::shared_ptr<CancelToken> followed_;
};

void bind_cancels(nb::module_& module);

}  // namespace bp::python

#endif
