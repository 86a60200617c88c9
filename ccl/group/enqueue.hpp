// SPDX-License-Identifier: Apache-2.0
//
// What a batch of operations is made of, while it is being made.
#ifndef BACKPLANE_CCL_GROUP_ENQUEUE_HPP
#define BACKPLANE_CCL_GROUP_ENQUEUE_HPP

#include <boost/container/small_vector.hpp>
#include <list>
#include <memory>
#include <optional>

#include "ccl/group/group.hpp"

namespace bp::ccl {

/// Where the tensor's elements lie on its device; nothing for none.
inline bp_mem place_of(const Ref<Tensor>& tensor) {
  if (!tensor) return {};
  return {tensor->storage().handle(), tensor->storage().offset_bytes() + tensor->offset_bytes()};
}
/// What a plugin's collectives are told of it, to whom an empty tensor has no place.
inline bp_mem native_place_of(const Ref<Tensor>& tensor) {
  return tensor && tensor->element_count() == 0 ? bp_mem{} : place_of(tensor);
}

/// The memory itself, of tensors on a device that has the host's.
inline HostBuffers host_buffers_of(const CheckedCall& call) {
  const auto address_of = [](const Ref<Tensor>& tensor) -> std::byte* {
    if (!tensor) return nullptr;
    const bp_mem mem = place_of(tensor);
    return reinterpret_cast<std::byte*>(mem.handle) + mem.offset_bytes;
  };
  return {.send = address_of(call.send), .recv = address_of(call.recv)};
}
/// Its tensors stay for ever: whoever drives may still use their memory, for all that is known.
inline void keep_for_ever(CheckedCall* call) {
  call->send.detach();
  call->recv.detach();
}
inline RecordEntry record_entry_of(const CheckedCall& call, uint64_t sequence,
                                   std::chrono::nanoseconds timeout, OperationPath path) {
  return {.operation = call.operation,
          .sequence = sequence,
          .send_bytes = call.send_bytes,
          .recv_bytes = call.recv_bytes,
          .timeout_ns = static_cast<uint64_t>(timeout.count()),
          .path = path};
}

/// An operation, or a piece of it (see group_islands.cpp).
struct ProcessGroup::EnqueuedOne {
  CheckedCall call;
  uint64_t sequence = 0;
  uint64_t record_id = 0;
  bool is_recorded = false;             // by an earlier piece
  HostBuffers staged = {};              // in host memory, where it is staged as a whole
  bool is_native = false;               // by the plugin's own collectives
  bool is_among_leaders = false;        // by messages: of each island one rank takes part
  bool is_last = true;                  // of the pieces that this rank has
  bool uses_results = false;            // its send is a strided view of what one before it gives
  const CheckedCall* whole = nullptr;   // of a piece: what the caller has called
  std::optional<Average> average = {};  // of the plugin's sum

  const CheckedCall& called() const { return whole != nullptr ? *whole : call; }
};

/// What a rank does for an operation or a part of it, in its stream's order.
struct ProcessGroup::Piece {
  CheckedCall call;
  bool is_native = false;
};

struct ProcessGroup::Enqueue {
  using One = EnqueuedOne;
  boost::container::small_vector<One, 1> ones;
  Stream* stream = nullptr;
  std::chrono::nanoseconds timeout{0};
  bool is_native = false;     // all of them
  bool is_in_pieces = false;  // one after the other: the plugin runs some, or parts of some
  bool is_in_parts = false;   // some use what others give (see group_batch.cpp)
  bool is_inline = false;     // the caller runs it and waits
  bool is_check = false;      // ... of others; without tensors or records
  Clock::time_point begun;
  OperationPath path = OperationPath::kHost;
  Ref<Work> work;
  std::shared_ptr<Batch> batch;
  std::shared_ptr<DeviceHold> hold;

  // What is kept from when it has begun, made before: then there is no way back.
  Lanes::Lane entries;
  std::list<Ref<Work>> copies;
};

}  // namespace bp::ccl

#endif
