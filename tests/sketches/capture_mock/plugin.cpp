// SPDX-License-Identifier: Apache-2.0
//
// The NPU with streams that can be captured: its stream and memory slots, each of which looks first
// whether the stream records, and the slots of bp.sketch.capture.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "tests/sketches/capture_mock/kernels.hpp"
#include "tests/sketches/capture_mock/recorder.hpp"
#include "tests/sketches/npu_entry.hpp"

namespace bp::sketch {
namespace {

using npu::kMemoryApi;
using npu::kStreamApi;
using sdk::read_args;
using sdk::slot;

// --- the memory of each device in the order of streams ---

class Pools {
 public:
  static Pools& instance() {
    static Pools pools;
    return pools;
  }
  StreamPool& of(npu::Device& device) {
    const std::scoped_lock lock(mutex_);
    auto& pool = pools_[&device];
    if (pool == nullptr) pool = std::make_unique<StreamPool>(device);
    return *pool;
  }
  void close(const npu::Device* device) {
    const std::scoped_lock lock(mutex_);
    pools_.erase(device);
  }

 private:
  std::mutex mutex_;
  std::map<const npu::Device*, std::unique_ptr<StreamPool>> pools_;
};

bp_status device_close(bp_device* device) {
  Pools::instance().close(device);
  return npu::kDeviceApi.device_close(device);
}

// --- streams and events that may record ---

/// What cannot be captured has no effect, and the capture goes on.
void refuse_captured(std::string_view name, const bp_stream* stream) {
  if (Recorder::instance().of(stream) == nullptr) return;
  sdk::fail(BP_UNSUPPORTED, name, ": the stream is being captured");
}

bp_status stream_destroy(bp_stream* stream) {
  if (stream != nullptr) {
    Recorder::instance().drop(stream);
    Pools::instance().of(stream->device()).forget_stream(stream);
  }
  return kStreamApi.stream_destroy(stream);
}

bp_status stream_sync(bp_stream* stream, uint64_t timeout_ns) {
  return slot("stream_sync", stream, {}, [&]() -> bp_status {
    refuse_captured("stream_sync", stream);
    return kStreamApi.stream_sync(stream, timeout_ns);
  });
}

bp_status stream_query(bp_stream* stream) {
  return slot("stream_query", stream, {}, [&]() -> bp_status {
    refuse_captured("stream_query", stream);
    return kStreamApi.stream_query(stream);
  });
}

bp_status event_destroy(bp_event* event) {
  Recorder::instance().forget(event);
  return kStreamApi.event_destroy(event);
}

bp_status event_record(bp_event* event, bp_stream* stream) {
  if (event == nullptr || Recorder::instance().of(stream) == nullptr) {
    Recorder::instance().forget(event);
    return kStreamApi.event_record(event, stream);
  }
  return slot("event_record", event, {stream}, [&] { Recorder::instance().record(event, stream); });
}

bp_status event_wait(bp_event* event, bp_stream* stream) {
  return slot("event_wait", event, {stream}, [&]() -> bp_status {
    Recorder& recorder = Recorder::instance();
    if (recorder.wait(event, stream)) return BP_OK;
    if (recorder.of(stream) == nullptr) return kStreamApi.event_wait(event, stream);
    const bp_status status = kStreamApi.event_query(event);
    if (status != BP_PENDING) return status;
    sdk::fail(BP_UNSUPPORTED, "event_wait: a captured stream cannot wait for work outside");
  });
}

bp_status event_sync(bp_event* event, uint64_t timeout_ns) {
  return slot("event_sync", event, {}, [&]() -> bp_status {
    if (!Recorder::instance().is_captured(event)) return kStreamApi.event_sync(event, timeout_ns);
    sdk::fail(BP_UNSUPPORTED, "event_sync: the event was recorded by a captured stream");
  });
}

bp_status event_query(bp_event* event) {
  return slot("event_query", event, {}, [&]() -> bp_status {
    if (!Recorder::instance().is_captured(event)) return kStreamApi.event_query(event);
    sdk::fail(BP_UNSUPPORTED, "event_query: the event was recorded by a captured stream");
  });
}

bp_status stream_host_call(bp_stream* stream, bp_host_fn fn, void* user) {
  return slot("stream_host_call", stream, {}, [&]() -> bp_status {
    refuse_captured("stream_host_call", stream);
    return kStreamApi.stream_host_call(stream, fn, user);
  });
}

bp_status mem_copy_async(bp_stream* stream, const bp_copy_args* args) {
  return slot("mem_copy_async", stream, {args}, [&]() -> bp_status {
    const auto capture = Recorder::instance().of(stream);
    if (capture == nullptr) return kStreamApi.mem_copy_async(stream, args);
    const bp_copy_args copy = read_args(args, 0);
    npu::resolve(stream->device().memory(), copy);  // is it there?
    CaptureNode node;
    node.what = "copy " + std::to_string(copy.kind);
    node.play = [copy](const Play& play, uint64_t) {
      bp_copy_args own = copy;
      own.struct_size = sizeof(own);
      return kMemoryApi.mem_copy(play.device, &own);
    };
    capture->add(stream, std::move(node));
    return BP_OK;
  });
}

bp_status mem_fill(bp_device* device, const bp_fill_args* args) {
  return slot("mem_fill", device, {args}, [&]() -> bp_status {
    const bp_fill_args fill = read_args(args, 0);
    const auto capture = Recorder::instance().of(fill.stream);
    if (capture == nullptr) return kMemoryApi.mem_fill(device, args);
    npu::resolve(device->memory(), fill);
    CaptureNode node;
    node.what = "fill";
    node.play = [fill](const Play& play, uint64_t) {
      bp_fill_args own = fill;
      own.struct_size = sizeof(own);
      own.stream = nullptr;
      return kMemoryApi.mem_fill(play.device, &own);
    };
    capture->add(fill.stream, std::move(node));
    return BP_OK;
  });
}

// --- the sketch's slots ---

bp_status capture_begin(bp_stream* stream) {
  return slot("capture_begin", stream, {}, [&] {
    if (kStreamApi.stream_query(stream) > BP_PENDING) {
      sdk::fail(BP_POISONED, "capture_begin: the stream broke before");
    }
    Recorder::instance().begin(stream);
  });
}

bp_status capture_end(bp_stream* stream, bp_capture_info* out_info, bp_capture** out_capture) {
  return slot("capture_end", stream, {out_info, out_capture}, [&] {
    const std::shared_ptr<bp_capture> capture = Recorder::instance().end(stream);
    StreamPool& pool = Pools::instance().of(stream->device());
    for (const FreedBlock& freed : capture->freed) {
      pool.give_from_capture(capture->origin, freed.block);
    }
    capture->freed.clear();
    bp_capture_info info{};
    info.node_count = capture->nodes.size();
    info.launch_count = capture->launch_count;
    info.block_bytes = capture->block_bytes;
    info.stream_count = capture->frontiers.size();
    sdk::write_out(out_info, info);
    *out_capture = new bp_capture(std::move(*capture));
  });
}

/// An order that the waits allow, and as far from that of the capture as they do: a wait that the
/// core forgot then shows in the results.
std::vector<size_t> late_order(const bp_capture& capture) {
  std::vector<size_t> order;
  std::vector<bool> done(capture.nodes.size());
  while (order.size() < capture.nodes.size()) {
    for (size_t i = capture.nodes.size(); i-- > 0;) {
      const std::set<size_t>& waits = capture.nodes[i].waits;
      const auto is_done = [&](size_t node) { return done[node]; };
      if (done[i] || !std::all_of(waits.begin(), waits.end(), is_done)) continue;
      done[i] = true;
      order.push_back(i);
      break;
    }
  }
  return order;
}

bp_status capture_instantiate(bp_capture* capture) {
  return slot("capture_instantiate", capture, {}, [&] {
    if (!capture->order.empty()) sdk::fail(BP_BUSY, "capture_instantiate: the second time");
    capture->order = late_order(*capture);
  });
}

bp_status capture_update(bp_capture* capture, const bp_capture* newer) {
  return slot("capture_update", capture, {newer}, [&] {
    const bool equal =
        std::equal(capture->nodes.begin(), capture->nodes.end(), newer->nodes.begin(),
                   newer->nodes.end(), [](const CaptureNode& a, const CaptureNode& b) {
                     return a.what == b.what && a.waits == b.waits;
                   });
    if (!equal) sdk::fail(BP_UNSUPPORTED, "capture_update: the topologies differ");
    capture->nodes = newer->nodes;
  });
}

bp_status capture_launch(const bp_capture_launch_args* args) {
  if (args == nullptr || !BP_SDK_HAS(args, fault)) return BP_INVALID_ARGUMENT;
  const bp_capture_launch_args wanted = read_args(args);
  return slot("capture_launch", wanted.capture, {wanted.stream}, [&] {
    const bp_capture& capture = *wanted.capture;
    if (capture.order.size() != capture.nodes.size()) {
      sdk::refuse("capture_launch: the capture is not instantiated");
    }
    if (&wanted.stream->device() != capture.device) {
      sdk::refuse("capture_launch: the stream is of another device");
    }
    refuse_captured("capture_launch", wanted.stream);
    const Play play{capture.device, wanted.op_seq, wanted.fault};
    const auto work = [&capture, play](const std::stop_token&) {
      for (const size_t index : capture.order) {
        const CaptureNode& node = capture.nodes[index];
        if (!node.play) continue;
        const bp_status status = node.play(play, node.launch_index);
        if (status == BP_OK) continue;
        throw npu::StreamFailure{status,
                                 "node " + std::to_string(index) + " of a capture: " + node.what,
                                 node.is_launch ? play.op_seq + node.launch_index : 0};
      }
    };
    wanted.stream->push({.work = work, .op_seq = wanted.op_seq});
  });
}

bp_status capture_free(bp_capture* capture) {
  return slot("capture_free", capture, {}, [&] {
    StreamPool& pool = Pools::instance().of(*capture->device);
    for (const PoolBlock& block : capture->kept) {
      pool.give_from_capture(capture->origin, block);
    }
    delete capture;
  });
}

/// A block that the capture has freed where `stream` comes after, else one of an earlier capture,
/// else a new one.
PoolBlock take_captured(bp_capture* capture, const bp_stream* stream,
                        const bp_async_alloc_args& wanted) {
  const std::set<size_t> over = capture->before(capture->frontiers[stream]);
  const auto found =
      std::find_if(capture->freed.begin(), capture->freed.end(), [&](const FreedBlock& freed) {
        return freed.block.bytes >= wanted.bytes && over.contains(freed.node);
      });
  if (found == capture->freed.end()) {
    StreamPool& pool = Pools::instance().of(*capture->device);
    const PoolBlock block =
        pool.take_for_capture(capture->origin, wanted.bytes, wanted.alignment_bytes);
    capture->block_bytes += block.bytes;
    return block;
  }
  const PoolBlock block = found->block;
  capture->freed.erase(found);
  return block;
}

bp_status mem_alloc_async(bp_device* device, const bp_async_alloc_args* args,
                          uint64_t* out_handle) {
  return slot("mem_alloc_async", device, {args, out_handle}, [&] {
    const bp_async_alloc_args wanted = read_args(args, 0);
    if (wanted.bytes == 0) sdk::refuse("mem_alloc_async: 0 bytes");
    const auto capture = Recorder::instance().of(wanted.stream);
    if (capture == nullptr) {
      StreamPool& pool = Pools::instance().of(*device);
      *out_handle = pool.alloc(wanted.stream, wanted.bytes, wanted.alignment_bytes);
      return;
    }
    const PoolBlock block = take_captured(capture.get(), wanted.stream, wanted);
    capture->kept.push_back(block);
    capture->add(wanted.stream, {.what = "alloc", .waits = {}, .play = {}});
    *out_handle = block.handle;
  });
}

bp_status mem_free_async(bp_stream* stream, uint64_t handle) {
  return slot("mem_free_async", stream, {}, [&] {
    const auto capture = Recorder::instance().of(stream);
    if (capture == nullptr) {
      auto done = std::make_shared<std::atomic<bool>>(false);
      Pools::instance().of(stream->device()).free(stream, handle, done);
      stream->push(
          {.notice = [done](const npu::StreamFailure&) { *done = true; }, .even_if_broken = true});
      return;
    }
    const auto found = std::find_if(capture->kept.begin(), capture->kept.end(),
                                    [&](const PoolBlock& block) { return block.handle == handle; });
    if (found == capture->kept.end()) {
      sdk::refuse("mem_free_async: the handle was not allocated in this capture");
    }
    const size_t node = capture->add(stream, {.what = "free", .waits = {}, .play = {}});
    capture->freed.push_back({*found, node});
    capture->kept.erase(found);
  });
}

constexpr bp_capture_api kTable = {
    .struct_size = sizeof(bp_capture_api),
    .flags = static_cast<uint32_t>(BP_FEATURE_CAPTURE_BIT | BP_FEATURE_STREAM_ALLOC_BIT),
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .capture_instantiate = capture_instantiate,
    .capture_update = capture_update,
    .capture_launch = capture_launch,
    .capture_free = capture_free,
    .mem_alloc_async = mem_alloc_async,
    .mem_free_async = mem_free_async};

constexpr bp_extension kExtension = {.struct_size = sizeof(bp_extension),
                                     .flags = 0,
                                     .name = sdk::str("bp.sketch.capture"),
                                     .version = BP_SKETCH_CAPTURE,
                                     .reserved = 0,
                                     .table = &kTable};
constexpr const bp_extension* kExtensions[] = {&kExtension,
                                               &sdk::TestInjectSlots<bp_instance>::kExtension};

/// The NPU's tables with the slots that look first.
struct Tables {
  bp_device_api device;
  bp_memory_api memory;
  bp_stream_api stream;
};

const Tables& tables() {
  static const Tables made = [] {
    Tables all{npu::kDeviceApi, kMemoryApi, kStreamApi};
    all.device.device_close = device_close;
    all.memory.mem_fill = mem_fill;
    all.stream.stream_destroy = stream_destroy;
    all.stream.stream_sync = stream_sync;
    all.stream.stream_query = stream_query;
    all.stream.event_destroy = event_destroy;
    all.stream.event_record = event_record;
    all.stream.event_wait = event_wait;
    all.stream.event_sync = event_sync;
    all.stream.event_query = event_query;
    all.stream.mem_copy_async = mem_copy_async;
    all.stream.stream_host_call = stream_host_call;
    return all;
  }();
  return made;
}

}  // namespace
}  // namespace bp::sketch

int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
  return bp::sketch::mock_entry(core_abi, out_plugin, bp::sketch::kExtensions,
                                [](bp_plugin* plugin) {
                                  plugin->device = &bp::sketch::tables().device;
                                  plugin->memory = &bp::sketch::tables().memory;
                                  plugin->stream = &bp::sketch::tables().stream;
                                  plugin->kernel = &bp::sketch::kRecordingKernels;
                                });
}
