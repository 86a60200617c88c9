// SPDX-License-Identifier: Apache-2.0
#include "cancels.hpp"

#include <utility>

namespace bp::python {

void CancelToken::request() {
  const std::lock_guard lock(mutex_);
  is_requested_ = true;
  own_.request();
  for (bpa_cancel* follower : followers_) check(bpa_cancel_request(follower));
}

/// Runs that began before stay told to stop, as the library has it: their tokens are left alone.
void CancelToken::reset() {
  const std::lock_guard lock(mutex_);
  own_.reset();
  is_requested_ = false;
}

bool CancelToken::is_requested() {
  const std::lock_guard lock(mutex_);
  return is_requested_;
}

RunCancel::RunCancel(std::shared_ptr<CancelToken> followed)
    : own_(Cancel::create()), followed_(std::move(followed)) {
  if (followed_ == nullptr) return;
  const std::lock_guard lock(followed_->mutex_);
  if (followed_->is_requested_) own_.request();
  followed_->followers_.push_back(own_.handle());
}

RunCancel::~RunCancel() {
  if (followed_ == nullptr) return;
  const std::lock_guard lock(followed_->mutex_);
  std::erase(followed_->followers_, own_.handle());
}

void bind_cancels(nb::module_& module) {
  nb::class_<CancelObject>(module, "Cancel", nb::is_final(), nb::is_weak_referenceable(),
                           "Tells runs to stop; one token serves any number of them.")
      .def(nb::init<>(), nb::sig("def __init__(self) -> None"))
      .def(
          "request", [](const CancelObject& self) { self.token->request(); },
          "Every run with this token ends with CancelledError, later ones too, until reset().")
      .def(
          "reset", [](const CancelObject& self) { self.token->reset(); },
          "For runs that begin after this there was no request; those that began before it still "
          "end.")
      .def("__repr__", [](const CancelObject& self) {
        return std::string("<backplane.Cancel: ") +
               (self.token->is_requested() ? "requested>" : "not requested>");
      });
}

}  // namespace bp::python
