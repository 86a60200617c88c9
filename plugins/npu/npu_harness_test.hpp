// SPDX-License-Identifier: Apache-2.0
//
// The built plugin, driven through its raw tables (tests/raw_abi.hpp), with its streams and events.
// Every helper makes the one call that its name says.
#ifndef BACKPLANE_PLUGINS_NPU_NPU_HARNESS_TEST_HPP
#define BACKPLANE_PLUGINS_NPU_NPU_HARNESS_TEST_HPP

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "backplane/sdk/sdk.hpp"
#include "tests/raw_abi.hpp"

namespace bp::npu_test {

using tests::copy_args;
using tests::host_mem;
using tests::OptionList;

inline const bp_plugin& plugin() {
  static const bp_plugin kLoaded = tests::load_plugin(NPU_PLUGIN_PATH);
  return kLoaded;
}

struct Instance : tests::RawInstance {
  explicit Instance(const OptionList& options = {}) : RawInstance(plugin(), options) {}
};

/// Little memory: sanitizers visit all of it when a device is opened and closed.
inline const OptionList kSmall = {{"memory", "1048576"}};

/// An open device of an instance of its own.
struct Device : tests::RawDevice {
  explicit Device(const OptionList& options = kSmall) : RawDevice(plugin(), options) {}

  template <class T>
  void upload(bp_mem dst, const std::vector<T>& values) const {
    EXPECT_EQ(copy(copy_args(BP_COPY_HOST_TO_DEVICE, dst, host_mem(values.data()),
                             values.size() * sizeof(T))),
              BP_OK)
        << host().last_message();
  }
  template <class T>
  std::vector<T> download(bp_mem src, size_t count) const {
    std::vector<T> values(count);
    EXPECT_EQ(
        copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(values.data()), src, count * sizeof(T))),
        BP_OK)
        << host().last_message();
    return values;
  }
};

/// A stream that is destroyed at the end of the test, or earlier.
class Stream {
 public:
  explicit Stream(const Device& device) {
    const bp_stream_args args{sizeof args, 0};
    EXPECT_EQ(plugin().stream->stream_create(device.get(), &args, &stream_), BP_OK);
  }
  ~Stream() { destroy(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void destroy() {
    if (stream_ == nullptr) return;
    EXPECT_EQ(plugin().stream->stream_destroy(std::exchange(stream_, nullptr)), BP_OK);
  }
  bp_stream* get() const { return stream_; }
  bp_status sync(uint64_t timeout_ns = BP_TIMEOUT_FOREVER) const {
    return plugin().stream->stream_sync(stream_, timeout_ns);
  }
  bp_status query() const { return plugin().stream->stream_query(stream_); }
  bp_status copy(const bp_copy_args& args) const {
    return plugin().stream->mem_copy_async(stream_, &args);
  }
  bp_status host_call(bp_host_fn fn, void* user) const {
    return plugin().stream->stream_host_call(stream_, fn, user);
  }

 private:
  bp_stream* stream_ = nullptr;
};

class Event {
 public:
  explicit Event(const Device& device, uint32_t flags = 0) {
    const bp_event_args args{sizeof args, flags};
    EXPECT_EQ(plugin().stream->event_create(device.get(), &args, &event_), BP_OK);
  }
  ~Event() { destroy(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void destroy() {
    if (event_ == nullptr) return;
    EXPECT_EQ(plugin().stream->event_destroy(std::exchange(event_, nullptr)), BP_OK);
  }
  bp_event* get() const { return event_; }
  bp_status record(const Stream& stream) const {
    return plugin().stream->event_record(event_, stream.get());
  }
  bp_status let_wait(const Stream& stream) const {
    return plugin().stream->event_wait(event_, stream.get());
  }
  bp_status sync(uint64_t timeout_ns = BP_TIMEOUT_FOREVER) const {
    return plugin().stream->event_sync(event_, timeout_ns);
  }
  bp_status query() const { return plugin().stream->event_query(event_); }

 private:
  bp_event* event_ = nullptr;
};

/// Holds a stream up from the beginning.
struct Gate : tests::Gate {
  explicit Gate(const Stream& stream) { EXPECT_EQ(hold(*plugin().stream, stream.get()), BP_OK); }
};

}  // namespace bp::npu_test

#endif
