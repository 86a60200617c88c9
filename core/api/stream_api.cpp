// SPDX-License-Identifier: Apache-2.0
//
// Streams of the C API.
#include "core/api/handles.hpp"

namespace bp {
namespace {

/// What acquire and release of a tensor share: the objects, and whether the access writes.
struct TensorUse {
  ApiStream* stream = nullptr;
  Tensor* tensor = nullptr;
  bool read = false;
  bool write = false;
};

Result<TensorUse> read_access(bpa_stream* stream, const bpa_tensor* tensor, uint32_t access) {
  constexpr uint32_t kKnown = BPA_ACCESS_READ_BIT | BPA_ACCESS_WRITE_BIT;
  BP_TRY_ASSIGN(ApiStream * found, object_of(stream, "stream"));
  BP_TRY_ASSIGN(Tensor * used, object_of(tensor, "tensor"));
  BP_TRY(check_flags(access, kKnown, "access"));
  if (access == 0) return bad_argument("access", "is 0: neither a read nor a write");
  const Device& device = found->stream.device();
  BP_TRY(check_open(device));
  if (used->device() != &device) {
    return bad_argument("tensor",
                        "is " + used->describe() + ", and the stream is of " + device.name());
  }
  if (used->is_read_only() && (access & BPA_ACCESS_WRITE_BIT) != 0) {
    return bad_argument("tensor", "is read-only, and access has BPA_ACCESS_WRITE_BIT");
  }
  return TensorUse{found, used, (access & BPA_ACCESS_READ_BIT) != 0,
                   (access & BPA_ACCESS_WRITE_BIT) != 0};
}

Status give_stream(Ref<ApiStream> stream, bpa_stream** out_stream) {
  BP_TRY(make_api_handle(stream.get(), out_stream));
  stream.detach();
  return {};
}

}  // namespace
}  // namespace bp

using bp::ApiStream;
using bp::guarded;
using bp::object_of;
using bp::Ref;
using bp::Status;

bpa_status bpa_stream_create(bpa_device* device, bpa_stream** out_stream) {
  return guarded(out_stream, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const bp::DeviceUse owner, object_of(device, "device"));
    BP_TRY(bp::check_pointer(out_stream, "out_stream"));
    BP_TRY(bp::check_open(*owner));
    BP_TRY_ASSIGN(bp::Stream * stream, owner->acquire_stream());
    return bp::give_stream(Ref<ApiStream>::make(*stream, true), out_stream);
  });
}

bpa_status bpa_stream_get_default(bpa_device* device, bpa_stream** out_stream) {
  return guarded(out_stream, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const bp::DeviceUse owner, object_of(device, "device"));
    BP_TRY(bp::check_pointer(out_stream, "out_stream"));
    BP_TRY(bp::check_open(*owner));
    return bp::give_stream(Ref<ApiStream>::make(owner->default_stream(), false), out_stream);
  });
}

void bpa_stream_release(bpa_stream* stream) { bp::release(stream, "bpa_stream_release"); }

bpa_status bpa_stream_sync(bpa_stream* stream) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiStream * found, object_of(stream, "stream"));
    BP_TRY(bp::check_open(found->stream.device()));
    return found->stream.sync_and_claim_own();
  });
}

bpa_status bpa_stream_query(bpa_stream* stream) {
  bool pending = false;
  const bpa_status status = guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiStream * found, object_of(stream, "stream"));
    BP_TRY(bp::check_open(found->stream.device()));
    Status found_status = found->stream.query();
    pending = found_status.code() == BP_PENDING;
    return pending ? Status() : found_status;
  });
  return pending ? BP_PENDING : status;
}

bpa_status bpa_stream_reset(bpa_stream* stream) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiStream * found, object_of(stream, "stream"));
    BP_TRY(bp::check_open(found->stream.device()));
    return found->stream.reset();
  });
}

bpa_status bpa_stream_wrap(bpa_device* device, const char* kind, uint64_t handle,
                           bpa_stream** out_stream) {
  return guarded(out_stream, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const bp::DeviceUse owner, object_of(device, "device"));
    BP_TRY(bp::check_text(kind, "kind"));
    BP_TRY(bp::check_pointer(out_stream, "out_stream"));
    BP_TRY(bp::check_open(*owner));
    BP_TRY_ASSIGN(bp::Stream * stream, owner->wrap_stream(kind, handle));
    return bp::give_stream(Ref<ApiStream>::make(*stream, true), out_stream);
  });
}

bpa_status bpa_stream_native_handle(bpa_stream* stream, const char** out_kind,
                                    uint64_t* out_handle) {
  if (out_handle != nullptr) *out_handle = 0;
  return guarded(out_kind, 1, [&]() -> Status {
    BP_TRY_ASSIGN(ApiStream * found, object_of(stream, "stream"));
    BP_TRY(bp::check_pointer(out_kind, "out_kind"));
    BP_TRY(bp::check_pointer(out_handle, "out_handle"));
    BP_TRY(bp::check_open(found->stream.device()));
    BP_TRY_ASSIGN(bp::NativeQueue queue, found->stream.native_handle());
    *out_kind = found->keep_kind(std::move(queue.kind));
    *out_handle = queue.handle;
    return {};
  });
}

bpa_status bpa_stream_acquire_tensor(bpa_stream* stream, const bpa_tensor* tensor,
                                     uint32_t access) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const bp::TensorUse found, bp::read_access(stream, tensor, access));
    bp::Stream& queue = found.stream->stream;
    if (found.write && !found.read) return found.tensor->order_before_write(queue);
    bp::Storage& storage = found.tensor->storage();
    BP_TRY(storage.order_before(queue, found.write ? bp::Access::kWrite : bp::Access::kRead));
    storage.note_unseen_read(queue);
    return {};
  });
}

bpa_status bpa_stream_release_tensor(bpa_stream* stream, const bpa_tensor* tensor,
                                     uint32_t access) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const bp::TensorUse found, bp::read_access(stream, tensor, access));
    bp::Stream& queue = found.stream->stream;
    BP_TRY_ASSIGN(const uint64_t seq, queue.device().note_native_work(queue));
    found.tensor->storage().note_use(queue, seq, found.write);
    if (found.write) found.tensor->storage().note_unseen_write(queue);
    return {};
  });
}
