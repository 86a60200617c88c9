// SPDX-License-Identifier: Apache-2.0
//
// See known_call.hpp.
#include "ccl/group/known_call.hpp"

namespace bp::ccl {
namespace {

uint64_t address_of(const Tensor& tensor) {
  const Storage& storage = tensor.storage();
  return storage.handle() + storage.offset_bytes() + tensor.offset_bytes();
}

bool has_counts(const Call& call) { return !call.counts.empty() || !call.send_counts.empty(); }

}  // namespace

bool KnownCall::Shape::is_of(const Ref<Tensor>& tensor, const Device& device) const {
  if (!tensor) return !is_given;
  return is_given && tensor->device() == &device && tensor->dtype() == dtype &&
         tensor->sizes() == sizes && tensor->strides() == strides;
}

/// Both tensors as the caller gave them, and apart or one and the same: what else there is, a check
/// tells.
bool KnownCall::can_remember(const Call& call, const CheckedCall& checked) {
  if (has_counts(call)) return false;
  if (checked.send.get() != call.send.get() || checked.recv.get() != call.recv.get()) return false;
  if (checked.send && !checked.send->contiguous()) return false;
  return !checked.is_in_place || checked.send.get() == checked.recv.get();
}

const KnownCall::Served* KnownCall::remember(const Call& call, const CheckedCall& checked,
                                             Served served) {
  served_ = std::move(served);
  is_set_ = can_remember(call, checked);
  if (!is_set_) return &served_;
  const auto shape_of = [](const Ref<Tensor>& tensor) -> Shape {
    if (!tensor) return {};
    return {true, tensor->dtype(), tensor->sizes(), tensor->strides()};
  };
  send_ = shape_of(call.send);
  recv_ = shape_of(call.recv);
  checked_.operation = checked.operation;
  checked_.send_bytes = checked.send_bytes;
  checked_.recv_bytes = checked.recv_bytes;
  checked_.is_in_place = checked.is_in_place;
  return &served_;
}

const KnownCall::Served* KnownCall::recall(const Call& call, const Device& device,
                                           CheckedCall* out) const {
  const Operation& known = checked_.operation;
  const bool is_same = is_set_ && call.kind == known.kind && call.reduction == known.reduction &&
                       call.root == known.root && call.is_deterministic == known.is_deterministic &&
                       !has_counts(call);
  if (!is_same || !send_.is_of(call.send, device) || !recv_.is_of(call.recv, device))
    return nullptr;
  if (call.recv && call.recv->is_read_only()) return nullptr;
  if (checked_.is_in_place) {
    if (call.send.get() != call.recv.get()) return nullptr;
  } else if (call.send && call.recv) {
    const uint64_t send = address_of(*call.send);
    const uint64_t recv = address_of(*call.recv);
    const bool are_apart = send + checked_.send_bytes <= recv || recv + checked_.recv_bytes <= send;
    if (!are_apart) return nullptr;
  }
  out->operation = known;
  out->send = call.send;
  out->recv = call.recv;
  out->send_bytes = checked_.send_bytes;
  out->recv_bytes = checked_.recv_bytes;
  out->is_in_place = checked_.is_in_place;
  return &served_;
}

}  // namespace bp::ccl
