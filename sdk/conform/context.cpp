// SPDX-License-Identifier: Apache-2.0
//
// Slots under short names, and their owners.
#include "sdk/conform/context.hpp"

#include <optional>
#include <utility>

#include "core/plugin/host_context.hpp"

namespace bp::conform {

Bytes make_bytes(size_t count, uint32_t seed) {
  Bytes bytes(count);
  uint32_t state = seed * 2654435761U + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

bp_status Context::mem_alloc(uint64_t bytes, uint64_t alignment_bytes, uint64_t* out_handle) {
  const bp_alloc_args args{.struct_size = sizeof(bp_alloc_args),
                           .flags = 0,
                           .bytes = bytes,
                           .alignment_bytes = alignment_bytes,
                           .usage = BP_USAGE_ACTIVATIONS,
                           .reserved = 0};
  return table().mem_alloc(args, out_handle);
}

bp_status Context::mem_free(uint64_t handle) { return table().mem_free(handle); }

namespace {

bp_copy_args copy_args(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes) {
  return {.struct_size = sizeof(bp_copy_args),
          .flags = 0,
          .kind = kind,
          .reserved = 0,
          .dst = dst,
          .src = src,
          .bytes = bytes};
}

}  // namespace

bp_status Context::copy(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes) {
  const bp_copy_args args = copy_args(kind, dst, src, bytes);
  return table().mem_copy(args);
}

bp_status Context::copy_async(bp_stream* stream, uint32_t kind, bp_mem dst, bp_mem src,
                              uint64_t bytes) {
  const bp_copy_args args = copy_args(kind, dst, src, bytes);
  return stream_api().mem_copy_async(stream, args);
}

bp_status Context::fill(bp_stream* stream, bp_mem dst, uint64_t bytes, uint64_t pattern,
                        uint32_t pattern_bytes) {
  const bp_fill_args args{.struct_size = sizeof(bp_fill_args),
                          .flags = 0,
                          .dst = dst,
                          .bytes = bytes,
                          .pattern = pattern,
                          .pattern_bytes = pattern_bytes,
                          .reserved = 0,
                          .stream = stream};
  return table().mem_fill(args);
}

bp_status Context::map(bp_mem mem, uint64_t bytes, uint32_t access, void** out_ptr) {
  const bp_map_args args{.struct_size = sizeof(bp_map_args),
                         .flags = 0,
                         .mem = mem,
                         .bytes = bytes,
                         .access = access,
                         .reserved = 0};
  return table().mem_map(args, out_ptr);
}

bp_status Context::unmap(void* ptr) { return table().mem_unmap(ptr); }

bp_status Context::host_alloc(uint64_t bytes, void** out_ptr) {
  const bp_host_alloc_args args{
      .struct_size = sizeof(bp_host_alloc_args), .flags = 0, .bytes = bytes};
  return table().host_alloc(args, out_ptr);
}

bp_status Context::host_free(void* ptr) { return table().host_free(ptr); }

bp_status Context::stream_create(bp_stream** out_stream) {
  const bp_stream_args args{.struct_size = sizeof(bp_stream_args), .flags = 0};
  const bp_status status = stream_api().stream_create(args, out_stream);
  const std::lock_guard lock(streams_mutex_);
  if (status == BP_OK) streams_.insert(*out_stream);
  return status;
}

bp_status Context::event_create(uint32_t flags, bp_event** out_event) {
  const bp_event_args args{.struct_size = sizeof(bp_event_args), .flags = flags};
  return stream_api().event_create(args, out_event);
}

std::string Context::take_plugin_words(bp_status found) {
  if (table().host != HostContext::api()) return {};
  HostContext& host = *static_cast<HostContext*>(table().host_ctx);
  std::string words;
  const auto take = [&](const std::optional<PluginReport>& report) {
    const bool fits = report && report->status == known_status(found);
    if (fits && words.empty()) words = report->message;
  };
  take(host.take_report());
  const std::lock_guard lock(streams_mutex_);
  for (bp_stream* stream : streams_) take(host.take_stream_report(stream));
  return words;
}

Memory::Memory(Context& context, uint64_t bytes, uint64_t alignment_bytes)
    : context_(context), bytes_(bytes) {
  context_.require_ok(words("mem_alloc of ", bytes, " bytes aligned to ", alignment_bytes),
                      context_.mem_alloc(bytes, alignment_bytes, &handle_));
  context_.require(handle_ != 0, "a handle that is not 0");
}

Memory::Memory(Context& context, const Bytes& content) : Memory(context, content.size()) {
  write(content);
}

Memory::Memory(Memory&& other) noexcept
    : context_(other.context_),
      handle_(std::exchange(other.handle_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

void Memory::write(const Bytes& content, uint64_t offset_bytes) {
  context_.require_ok("mem_copy to the device",
                      context_.copy(BP_COPY_HOST_TO_DEVICE, at(offset_bytes),
                                    host_end(content.data()), content.size()));
}

Bytes Memory::read(uint64_t offset_bytes, uint64_t bytes) const {
  Bytes content(bytes);
  context_.require_ok(
      "mem_copy to the host",
      context_.copy(BP_COPY_DEVICE_TO_HOST, host_end(content.data()), at(offset_bytes), bytes));
  return content;
}

void Memory::expect(std::string_view what, const Bytes& content) const {
  context_.expect_bytes(what, read(), content);
}

void Memory::free() {
  const uint64_t handle = std::exchange(handle_, 0);
  if (handle != 0) context_.expect_ok("mem_free", context_.mem_free(handle));
}

Stream::Stream(Context& context) : context_(context) {
  context_.require_ok("stream_create", context_.stream_create(&stream_));
  context_.require(stream_ != nullptr, "a stream that is not NULL");
}

Stream::Stream(Stream&& other) noexcept
    : context_(other.context_), stream_(std::exchange(other.stream_, nullptr)) {}

bp_status Stream::sync() const {
  return context_.stream_api().stream_sync(stream_, context_.patience_ns());
}

void Stream::destroy() {
  bp_stream* stream = std::exchange(stream_, nullptr);
  if (stream == nullptr) return;
  context_.expect_ok("stream_destroy", context_.stream_api().stream_destroy(stream));
}

void Stream::upload(const Memory& dst, const Bytes& src, uint64_t offset_bytes) const {
  context_.expect_ok("mem_copy_async to the device",
                     context_.copy_async(stream_, BP_COPY_HOST_TO_DEVICE, dst.at(offset_bytes),
                                         host_end(src.data()), src.size()));
}

void Stream::download(Bytes* dst, const Memory& src) const {
  context_.expect_ok("mem_copy_async to the host",
                     context_.copy_async(stream_, BP_COPY_DEVICE_TO_HOST, host_end(dst->data()),
                                         src.at(), dst->size()));
}

void Stream::copy(const Memory& dst, const Memory& src) const {
  context_.expect_ok(
      "mem_copy_async within the device",
      context_.copy_async(stream_, BP_COPY_DEVICE_TO_DEVICE, dst.at(), src.at(), src.bytes()));
}

void Stream::call(bp_host_fn fn, void* user) const {
  context_.expect_ok("stream_host_call", context_.stream_api().stream_host_call(stream_, fn, user));
}

Event::Event(Context& context, uint32_t flags) : context_(context) {
  context_.require_ok("event_create", context_.event_create(flags, &event_));
  context_.require(event_ != nullptr, "an event that is not NULL");
}

Event::Event(Event&& other) noexcept
    : context_(other.context_), event_(std::exchange(other.event_, nullptr)) {}

void Event::record(const Stream& stream) const {
  context_.expect_ok("event_record", context_.stream_api().event_record(event_, stream.get()));
}

void Event::wait_on(const Stream& stream) const {
  context_.expect_ok("event_wait", context_.stream_api().event_wait(event_, stream.get()));
}

bp_status Event::sync(uint64_t timeout_ns) const {
  return context_.stream_api().event_sync(event_, timeout_ns);
}

void Event::destroy() {
  bp_event* event = std::exchange(event_, nullptr);
  if (event == nullptr) return;
  context_.expect_ok("event_destroy", context_.stream_api().event_destroy(event));
}

Gate::Gate(Context& context, const Stream& stream)
    : context_(context), state_(std::make_shared<State>()) {
  auto user = std::make_unique<std::shared_ptr<State>>(state_);
  context.require_ok("stream_host_call",
                     context.stream_api().stream_host_call(stream.get(), hold, user.get()));
  static_cast<void>(user.release());  // hold owns it now
}

void Gate::hold(void* user, bp_status) {
  const std::unique_ptr<std::shared_ptr<State>> owner(static_cast<std::shared_ptr<State>*>(user));
  State& state = **owner;
  std::unique_lock lock(state.mutex);
  state.reached = true;
  state.changed.notify_all();
  state.changed.wait(lock, [&] { return state.opened; });
}

void Gate::open() {
  const std::lock_guard lock(state_->mutex);
  state_->opened = true;
  state_->changed.notify_all();
}

bool Gate::reached() {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, std::chrono::nanoseconds(context_.patience_ns()),
                                  [this] { return state_->reached; });
}

}  // namespace bp::conform
