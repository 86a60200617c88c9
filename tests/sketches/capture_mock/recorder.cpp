// SPDX-License-Identifier: Apache-2.0
//
// Streams that join and leave a capture.
#include "tests/sketches/capture_mock/recorder.hpp"

#include <utility>

size_t bp_capture::add(const bp_stream* stream, bp::sketch::CaptureNode node) {
  std::set<size_t>& frontier = frontiers[stream];
  node.waits = frontier;
  if (node.is_launch) node.launch_index = launch_count++;
  nodes.push_back(std::move(node));
  frontier = {nodes.size() - 1};
  return nodes.size() - 1;
}

std::set<size_t> bp_capture::before(const std::set<size_t>& nodes_from) const {
  std::set<size_t> found = nodes_from;
  std::vector<size_t> open(nodes_from.begin(), nodes_from.end());
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    for (const size_t wait : nodes[node].waits) {
      if (found.insert(wait).second) open.push_back(wait);
    }
  }
  return found;
}

namespace bp::sketch {

Recorder& Recorder::instance() {
  static Recorder recorder;
  return recorder;
}

std::shared_ptr<bp_capture> Recorder::of(const bp_stream* stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = captures_.find(stream);
  return found == captures_.end() ? nullptr : found->second;
}

void Recorder::begin(bp_stream* stream) {
  const std::scoped_lock lock(mutex_);
  if (captures_.contains(stream)) sdk::fail(BP_BUSY, "capture_begin: the stream records already");
  auto capture = std::make_shared<bp_capture>();
  capture->device = static_cast<bp_device*>(&stream->device());
  capture->origin = stream;
  capture->frontiers[stream] = {};
  captures_[stream] = std::move(capture);
}

void Recorder::leave(const std::shared_ptr<bp_capture>& capture) {
  std::erase_if(captures_, [&](const auto& entry) { return entry.second == capture; });
  std::erase_if(events_, [&](const auto& entry) { return entry.second.capture.lock() == capture; });
}

std::shared_ptr<bp_capture> Recorder::end(bp_stream* stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = captures_.find(stream);
  if (found == captures_.end() || found->second->origin != stream) {
    sdk::refuse("capture_end: the stream did not begin a capture");
  }
  const std::shared_ptr<bp_capture> capture = found->second;
  leave(capture);
  const std::set<size_t> joined = capture->before(capture->frontiers[stream]);
  for (const auto& [other, frontier] : capture->frontiers) {
    for (const size_t node : frontier) {
      if (joined.contains(node)) continue;
      sdk::refuse("capture_end: nothing waits for node ", node, " (", capture->nodes[node].what,
                  ") of another stream");
    }
  }
  return capture;
}

void Recorder::drop(const bp_stream* stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = captures_.find(stream);
  if (found == captures_.end()) return;
  const std::shared_ptr<bp_capture> capture = found->second;
  leave(capture);
}

void Recorder::record(const bp_event* event, const bp_stream* stream) {
  const std::scoped_lock lock(mutex_);
  const std::shared_ptr<bp_capture>& capture = captures_.at(stream);
  events_[event] = {capture, capture->frontiers[stream]};
}

bool Recorder::wait(const bp_event* event, const bp_stream* stream) {
  const std::scoped_lock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return false;
  const std::shared_ptr<bp_capture> capture = found->second.capture.lock();
  if (capture == nullptr) return false;
  const auto own = captures_.find(stream);
  if (own != captures_.end() && own->second != capture) {
    sdk::fail(BP_UNSUPPORTED, "event_wait: the event belongs to another capture");
  }
  captures_[stream] = capture;
  capture->frontiers[stream].insert(found->second.nodes.begin(), found->second.nodes.end());
  return true;
}

bool Recorder::is_captured(const bp_event* event) {
  const std::scoped_lock lock(mutex_);
  return events_.contains(event);
}

void Recorder::forget(const bp_event* event) {
  const std::scoped_lock lock(mutex_);
  events_.erase(event);
}

}  // namespace bp::sketch
