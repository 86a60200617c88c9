// SPDX-License-Identifier: Apache-2.0
//
// What the executor would do with an executable, over the core's own devices, streams, storages and
// allocator: this is where the sketch is held against them.
#ifndef BACKPLANE_TESTS_SKETCHES_EXECUTABLE_DRIVER_HPP
#define BACKPLANE_TESTS_SKETCHES_EXECUTABLE_DRIVER_HPP

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backplane/sketch/executable.h"
#include "core/runtime/device.hpp"
#include "core/runtime/tensor.hpp"
#include "tests/sketches/image_writer.hpp"

namespace bp {

/// A compiled graph. Immutable; any thread.
class CompiledGraph {
 public:
  CompiledGraph(Device& device, const bp_executable_api& api, const Graph& graph)
      : device_(device), api_(api), graph_(graph) {}
  ~CompiledGraph();
  CompiledGraph(const CompiledGraph&) = delete;
  CompiledGraph& operator=(const CompiledGraph&) = delete;

  Status compile();
  Status load(std::span<const std::byte> blob);
  Result<std::vector<std::byte>> serialize();

  Device& device() const { return device_; }
  const bp_executable_api& api() const { return api_; }
  const Graph& graph() const { return graph_; }
  bp_executable* handle() const { return handle_; }
  uint64_t weight_bytes() const { return info_.weight_bytes; }

 private:
  Device& device_;
  const bp_executable_api api_;
  const Graph graph_;
  bp_executable* handle_ = nullptr;
  bp_compile_info info_{};
};

/// Used by one run at a time.
class CompiledContext {
 public:
  CompiledContext(const CompiledGraph& compiled, Stream& stream)
      : compiled_(compiled), stream_(stream) {}
  ~CompiledContext();
  CompiledContext(const CompiledContext&) = delete;
  CompiledContext& operator=(const CompiledContext&) = delete;

  Status prepare();
  /// Enqueues a run and answers before it is done. Errors: call errors.
  Result<std::vector<Ref<Tensor>>> run(std::span<const Ref<Tensor>> inputs);
  /// Waits. Errors: the stream's failure, naming operator and node; a data fault, naming the node.
  Status wait();

 private:
  Status make_room(const bp_io_info& info);
  Result<std::vector<Ref<Tensor>>> make_outputs(std::span<const Ref<Tensor>> inputs);
  Result<uint64_t> enqueue(std::span<const bp_tensor> tensors, size_t input_count);

  const CompiledGraph& compiled_;
  Stream& stream_;
  bp_executable_context* handle_ = nullptr;
  Ref<Storage> workspace_;
  Ref<Storage> fault_;
  uint64_t first_op_seq_ = 0;
};

}  // namespace bp

#endif
