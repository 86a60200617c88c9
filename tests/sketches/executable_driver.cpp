// SPDX-License-Identifier: Apache-2.0
//
// Order before, range of sequence numbers under the stream's lock, marks after: as a segment runs.
#include "tests/sketches/executable_driver.hpp"

#include <map>

#include "core/base/dtype.hpp"

namespace bp {
namespace {

bp_mem place_of(const Storage& storage) { return {storage.handle(), storage.offset_bytes()}; }

}  // namespace

CompiledGraph::~CompiledGraph() {
  if (handle_ == nullptr) return;
  [[maybe_unused]] const bp_status status = api_.executable_free(handle_);
}

Status CompiledGraph::compile() {
  BP_TRY_ASSIGN(const GraphImage image, write_image(graph_));
  const bp_compile_args args{.struct_size = sizeof(args),
                             .flags = 0,
                             .image = image.data(),
                             .image_bytes = image.bytes(),
                             .constants = image.constants.data(),
                             .constant_count = image.constants.size()};
  info_.struct_size = sizeof(info_);
  const bp_status code = api_.executable_compile(device_.table().device, &args, &info_, &handle_);
  return code == BP_OK ? Status() : device_.failure(code, "executable_compile");
}

Status CompiledGraph::load(std::span<const std::byte> bytes) {
  const bp_blob blob{sizeof(blob), 0, bytes.data(), bytes.size()};
  info_.struct_size = sizeof(info_);
  const bp_status code =
      api_.executable_deserialize(device_.table().device, &blob, &info_, &handle_);
  return code == BP_OK ? Status() : device_.failure(code, "executable_deserialize");
}

Result<std::vector<std::byte>> CompiledGraph::serialize() {
  bp_blob_space space{sizeof(space), 0, nullptr, 0, 0};
  bp_status code = api_.executable_serialize(handle_, &space);
  std::vector<std::byte> bytes(space.bytes);
  space.data = bytes.data();
  space.capacity_bytes = bytes.size();
  if (code == BP_OK) code = api_.executable_serialize(handle_, &space);
  if (code != BP_OK) return device_.failure(code, "executable_serialize");
  return bytes;
}

CompiledContext::~CompiledContext() {
  if (handle_ == nullptr) return;
  [[maybe_unused]] const Status waited = stream_.sync();
  [[maybe_unused]] const bp_status status = compiled_.api().executable_context_destroy(handle_);
}

Status CompiledContext::prepare() {
  Device& device = compiled_.device();
  const bp_status code = compiled_.api().executable_context_create(compiled_.handle(), &handle_);
  if (code != BP_OK) return device.failure(code, "executable_context_create");
  BP_TRY_ASSIGN(fault_,
                Storage::allocate(device, sizeof(bp_fault_word), MemoryTag::kWorkspace, stream_));
  return device.fill_zero(stream_, place_of(*fault_), sizeof(bp_fault_word));
}

Status CompiledContext::make_room(const bp_io_info& info) {
  if (info.workspace_bytes == 0 || (workspace_ && workspace_->bytes() >= info.workspace_bytes)) {
    return {};
  }
  // The old one goes back to the stream's pool, behind the work that uses it.
  BP_TRY_ASSIGN(workspace_, Storage::allocate(compiled_.device(), info.workspace_bytes,
                                              MemoryTag::kActivations, stream_));
  return {};
}

Result<std::vector<Ref<Tensor>>> CompiledContext::make_outputs(
    std::span<const Ref<Tensor>> inputs) {
  const Graph& graph = compiled_.graph();
  std::map<int64_t, int64_t> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Dims& declared = graph.value(graph.inputs()[i]).type.sizes;
    for (size_t d = 0; d < declared.size() && d < inputs[i]->sizes().size(); ++d) {
      if (declared[d] < kUnknownDim) symbols[kUnknownDim - 1 - declared[d]] = inputs[i]->sizes()[d];
    }
  }
  std::vector<int64_t> values;
  for (const auto& [symbol, value] : symbols) values.push_back(value);
  const bp_io_query query{sizeof(query), 0, values.data(), values.size()};
  std::vector<int64_t> sizes(graph.outputs().size() * BP_MAX_RANK);
  bp_io_info info{};
  info.struct_size = sizeof(info);
  info.output_sizes = sizes.data();
  info.output_count = graph.outputs().size();
  const bp_status code = compiled_.api().executable_io_info(compiled_.handle(), &query, &info);
  if (code != BP_OK) return compiled_.device().failure(code, "executable_io_info");
  BP_TRY(make_room(info));
  std::vector<Ref<Tensor>> outputs;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const TensorType& type = graph.value(graph.outputs()[i]).type;
    const Dims real(std::span<const int64_t>(sizes).subspan(i * BP_MAX_RANK, type.sizes.size()));
    BP_TRY_ASSIGN(const Ref<Tensor> output,
                  Tensor::allocate(compiled_.device(), type.dtype, real, MemoryTag::kIo, stream_));
    outputs.push_back(output);
  }
  return outputs;
}

Result<uint64_t> CompiledContext::enqueue(std::span<const bp_tensor> tensors, size_t input_count) {
  bp_status code = BP_OK;
  uint64_t last_seq = 0;
  {
    TimedLock lock;
    BP_TRY(stream_.hold(lock));
    BP_TRY(stream_.check_healthy());
    // One number for each node, so that a report names a node as it names a launch.
    uint64_t first_seq = 0;
    for (const Node& node : compiled_.graph().nodes()) {
      last_seq = stream_.next_seq();
      if (first_seq == 0) first_seq = last_seq;
      stream_.note_launch(last_seq, node.op);
    }
    first_op_seq_ = stream_.op_seq(first_seq);
    const bp_run_args args{.struct_size = sizeof(args),
                           .flags = 0,
                           .context = handle_,
                           .stream = stream_.handle(),
                           .tensors = tensors.data(),
                           .input_count = static_cast<uint32_t>(input_count),
                           .output_count = static_cast<uint32_t>(tensors.size() - input_count),
                           .workspace = workspace_ ? place_of(*workspace_) : bp_mem{},
                           .op_seq = first_op_seq_,
                           .fault = place_of(*fault_)};
    code = compiled_.api().executable_run(&args);
  }
  if (code != BP_OK) return stream_.failure(code, "executable_run");
  return last_seq;
}

Result<std::vector<Ref<Tensor>>> CompiledContext::run(std::span<const Ref<Tensor>> inputs) {
  BP_TRY_ASSIGN(std::vector<Ref<Tensor>> outputs, make_outputs(inputs));
  std::vector<bp_tensor> tensors;
  for (const Ref<Tensor>& input : inputs) {
    BP_TRY(input->storage().order_before(stream_, Access::kRead));
    tensors.push_back(input->abi());
  }
  for (const Ref<Tensor>& output : outputs) tensors.push_back(output->abi());
  BP_TRY_ASSIGN(const uint64_t seq, enqueue(tensors, inputs.size()));
  for (const Ref<Tensor>& input : inputs) input->storage().note_use(stream_, seq, false);
  for (const Ref<Tensor>& output : outputs) output->storage().note_use(stream_, seq, true);
  return outputs;
}

Status CompiledContext::wait() {
  BP_TRY(stream_.sync());
  bp_fault_word word{};
  BP_TRY(compiled_.device().read(&word, place_of(*fault_), sizeof(word)));
  if (word.code == BP_FAULT_NONE) return {};
  BP_TRY(compiled_.device().fill_zero(stream_, place_of(*fault_), sizeof(word)));
  const std::span<const Node> nodes = compiled_.graph().nodes();
  const uint64_t index = word.op_seq - first_op_seq_;
  const std::string who = index < nodes.size() ? nodes[index].name : "an earlier run";
  return Status(BP_INVALID_ARGUMENT, "node '" + who + "': index " + std::to_string(word.index) +
                                         " in input " + std::to_string(word.input) +
                                         " is out of range for extent " +
                                         std::to_string(word.extent));
}

}  // namespace bp
