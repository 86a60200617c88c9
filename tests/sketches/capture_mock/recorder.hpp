// SPDX-License-Identifier: Apache-2.0
//
// What the mock remembers of streams that record: a graph of nodes with what each waits for. A node
// plays on the thread of the stream that the capture is launched on.
#ifndef BACKPLANE_TESTS_SKETCHES_CAPTURE_MOCK_RECORDER_HPP
#define BACKPLANE_TESTS_SKETCHES_CAPTURE_MOCK_RECORDER_HPP

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backplane/sketch/capture.h"
#include "queue.hpp"
#include "tests/sketches/capture_mock/stream_pool.hpp"

namespace bp::sketch {

/// What a launch of the capture brings.
struct Play {
  bp_device* device;
  uint64_t op_seq;
  bp_mem fault;
};

struct CaptureNode {
  std::string what;  // kind and kernel: with `waits`, the topology
  std::set<size_t> waits;
  std::function<bp_status(const Play&, uint64_t launch_index)> play;  // empty: order only
  bool is_launch = false;
  uint64_t launch_index = 0;
};

}  // namespace bp::sketch

struct bp_capture final {
  bp_device* device = nullptr;
  const bp_stream* origin = nullptr;
  std::vector<bp::sketch::CaptureNode> nodes;
  std::map<const bp_stream*, std::set<size_t>> frontiers;  // per stream: what its next node awaits
  std::vector<size_t> order;                               // filled by instantiate
  std::vector<bp::sketch::FreedBlock> freed;               // may be taken again
  std::vector<bp::sketch::PoolBlock> kept;                 // goes with the capture
  uint64_t launch_count = 0;
  uint64_t block_bytes = 0;

  const bp::sdk::Host& host() const { return device->host(); }
  size_t add(const bp_stream* stream, bp::sketch::CaptureNode node);
  /// Every node that must be over before `nodes_from` are.
  std::set<size_t> before(const std::set<size_t>& nodes_from) const;
};

namespace bp::sketch {

/// Which streams record, and which events were recorded by them. Any-thread.
class Recorder {
 public:
  static Recorder& instance();

  /// The capture that a stream records into; nullptr: it runs.
  std::shared_ptr<bp_capture> of(const bp_stream* stream);
  void begin(bp_stream* stream);
  /// Throws Failure; the capture is over in any case.
  std::shared_ptr<bp_capture> end(bp_stream* stream);
  /// A stream that is destroyed takes its capture with it.
  void drop(const bp_stream* stream);

  void record(const bp_event* event, const bp_stream* stream);
  /// True: the event is a place in a capture, and `stream` waits for it there.
  bool wait(const bp_event* event, const bp_stream* stream);
  bool is_captured(const bp_event* event);
  void forget(const bp_event* event);

 private:
  struct EventMark {
    std::weak_ptr<bp_capture> capture;
    std::set<size_t> nodes;
  };
  void leave(const std::shared_ptr<bp_capture>& capture);

  std::mutex mutex_;
  std::map<const bp_stream*, std::shared_ptr<bp_capture>> captures_;
  std::map<const bp_event*, EventMark> events_;
};

}  // namespace bp::sketch

#endif
