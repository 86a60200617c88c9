// SPDX-License-Identifier: Apache-2.0
//
// Streams of the C API.
#include "core/api/handles.hpp"

namespace bp {
namespace {

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
    BP_TRY_ASSIGN(bp::Device * owner, object_of(device, "device"));
    BP_TRY(bp::check_pointer(out_stream, "out_stream"));
    BP_TRY_ASSIGN(bp::Stream * stream, owner->acquire_stream());
    return bp::give_stream(Ref<ApiStream>::make(*stream, true), out_stream);
  });
}

bpa_status bpa_stream_get_default(bpa_device* device, bpa_stream** out_stream) {
  return guarded(out_stream, 1, [&]() -> Status {
    BP_TRY_ASSIGN(bp::Device * owner, object_of(device, "device"));
    BP_TRY(bp::check_pointer(out_stream, "out_stream"));
    BP_TRY(owner->check_open());
    return bp::give_stream(Ref<ApiStream>::make(owner->default_stream(), false), out_stream);
  });
}

void bpa_stream_release(bpa_stream* stream) {
  bp::release(stream, "bpa_stream_release", [](ApiStream* object) { object->release(); });
}

bpa_status bpa_stream_sync(bpa_stream* stream) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiStream * found, object_of(stream, "stream"));
    return found->stream.sync_and_claim();
  });
}

bpa_status bpa_stream_query(bpa_stream* stream) {
  bool pending = false;
  const bpa_status status = guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiStream * found, object_of(stream, "stream"));
    Status found_status = found->stream.query();
    pending = found_status.code() == BP_PENDING;
    return pending ? Status() : found_status;
  });
  return pending ? BP_PENDING : status;
}

bpa_status bpa_stream_reset(bpa_stream* stream) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiStream * found, object_of(stream, "stream"));
    return found->stream.reset();
  });
}
