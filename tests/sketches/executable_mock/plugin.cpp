// SPDX-License-Identifier: Apache-2.0
//
// A chip that runs whole graphs and has no kernels: the slots of bp.sketch.executable over the
// NPU's memory and queues.
#include <iterator>
#include <utility>

#include "queue.hpp"
#include "tests/sketches/executable_mock/executable.hpp"
#include "tests/sketches/npu_entry.hpp"

namespace bp::sketch {
namespace {

using sdk::read_args;
using sdk::slot;

/// One of a context's runs, until it has ended or is dropped with its stream.
class Ticket {
 public:
  explicit Ticket(std::shared_ptr<std::atomic<int>> pending) : pending_(std::move(pending)) {
    ++*pending_;
  }
  ~Ticket() { release(); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
  void release() {
    if (!released_.exchange(true)) --*pending_;
  }

 private:
  const std::shared_ptr<std::atomic<int>> pending_;
  std::atomic<bool> released_ = false;
};

/// One run, owning everything that the worker will look at.
struct Run {
  const bp_executable* executable;
  Sizes symbols;
  std::vector<bp_mem> places;  // of all values
  uint64_t op_seq;
  bp_mem fault;
  std::shared_ptr<Ticket> ticket;
};

bp_status executable_claim(bp_device* device, const void* image, uint64_t image_bytes,
                           bp_claim* out_claim) {
  return slot("executable_claim", device, {image, out_claim}, [&] {
    const char* reason = nullptr;
    const Program program = read_program(Image(image, image_bytes), &reason);
    if (out_claim->node_count != program.nodes.size() || out_claim->groups == nullptr) {
      sdk::refuse("executable_claim: room for ", out_claim->node_count, " nodes; the image has ",
                  program.nodes.size());
    }
    // Nodes that follow each other without a hole need nothing from outside in between.
    uint32_t group = 1;
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      const bool taken = program.nodes[i].compute != nullptr;
      if (!taken && i > 0 && program.nodes[i - 1].compute != nullptr) ++group;
      out_claim->groups[i] = taken ? group : 0;
    }
    if (reason != nullptr) out_claim->reason = sdk::str(reason);
  });
}

void tell(bp_compile_info* out_info, const Executable& executable) {
  bp_compile_info info{};
  info.weight_bytes = executable.weight_bytes();
  sdk::write_out(out_info, info);
}

bp_status executable_compile(bp_device* device, const bp_compile_args* args,
                             bp_compile_info* out_info, bp_executable** out_executable) {
  return slot("executable_compile", device, {args, out_info, out_executable}, [&] {
    const bp_compile_args wanted = read_args(args, 0);
    const auto* const first = static_cast<const std::byte*>(wanted.image);
    if (first == nullptr) sdk::refuse("executable_compile: no image");
    std::vector<std::span<const std::byte>> constants;
    for (const bp_constant& constant : std::span(wanted.constants, wanted.constant_count)) {
      constants.emplace_back(static_cast<const std::byte*>(constant.data), constant.bytes);
    }
    auto made = std::make_unique<bp_executable>(
        device, std::vector(first, first + wanted.image_bytes), constants);
    tell(out_info, *made);
    *out_executable = made.release();
  });
}

bp_status executable_free(bp_executable* executable) {
  return slot("executable_free", executable, {}, [&] { delete executable; });
}

bp_status executable_io_info(bp_executable* executable, const bp_io_query* query,
                             bp_io_info* out_info) {
  return slot("executable_io_info", executable, {query, out_info}, [&] {
    const bp_io_query wanted = read_args(query, 0);
    const std::span symbols(wanted.symbols, wanted.symbol_count);
    const Program& program = executable->program();
    program.check_symbols(symbols);
    const bp_io_info given = read_args(out_info);
    if (given.output_count != program.outputs.size()) sdk::refuse("a wrong number of outputs");
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const Sizes sizes = program.sizes_of(program.outputs[i], symbols);
      std::copy(sizes.begin(), sizes.end(), given.output_sizes + i * BP_MAX_RANK);
    }
    bp_io_info info = given;
    info.flags = program.can_fault() ? BP_IO_CAN_FAULT_BIT : 0;
    info.workspace_bytes = executable->workspace_bytes(symbols);
    sdk::write_out(out_info, info);
  });
}

bp_status executable_context_create(bp_executable* executable,
                                    bp_executable_context** out_context) {
  return slot("executable_context_create", executable, {out_context},
              [&] { *out_context = new bp_executable_context{executable}; });
}

bp_status executable_context_destroy(bp_executable_context* context) {
  return slot("executable_context_destroy", context, {}, [&] {
    const std::unique_ptr<bp_executable_context> owner(context);
    const sdk::Host host = context->host();
    if (*context->pending == 0) return BP_OK;
    return host.fail(BP_BUSY, "a context was destroyed while a run used it");
  });
}

/// Symbols from the inputs' sizes; every tensor is held against its value.
Sizes bind_symbols(const Program& program, std::span<const bp_tensor> tensors) {
  Sizes symbols(program.symbols.size(), -1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool is_input = i < program.inputs.size();
    const uint32_t id = is_input ? program.inputs[i] : program.outputs[i - program.inputs.size()];
    const ProgramValue& value = program.values[id];
    bool fits = tensors[i].dtype == value.dtype && tensors[i].rank == value.sizes.size();
    for (size_t d = 0; fits && d < value.sizes.size(); ++d) {
      int64_t expected = value.sizes[d];
      if (expected < 0) {
        int64_t& symbol = symbols[static_cast<size_t>(-2 - expected)];
        if (symbol < 0) symbol = tensors[i].sizes[d];
        expected = symbol;
      }
      fits = tensors[i].sizes[d] == expected;
    }
    if (!fits) sdk::refuse("executable_run: tensor ", i, " is not of the image's type");
  }
  program.check_symbols(symbols);
  return symbols;
}

void write_fault(const Run& run, size_t node, const DataFault& found) {
  if (!found.found || run.fault.handle == 0) return;
  npu::DeviceMemory& memory = run.executable->device()->memory();
  auto* const word =
      reinterpret_cast<bp_fault_word*>(memory.translate(run.fault, sizeof(bp_fault_word)));
  uint32_t expected = BP_FAULT_NONE;
  if (!std::atomic_ref(word->code).compare_exchange_strong(expected, BP_FAULT_INDEX)) return;
  word->input = found.input;
  word->op_seq = run.op_seq + node;
  word->index = found.index;
  word->extent = found.extent;
}

void run_node(const Run& run, size_t index) {
  const Executable& executable = *run.executable;
  const ProgramNode& node = executable.program().nodes[index];
  executable.device()->driver_call();
  std::vector<Array> args;
  for (const uint32_t id : node.values) {
    const uint64_t bytes = executable.bytes_of(id, run.symbols);
    std::byte* const data =
        bytes == 0 ? nullptr : executable.device()->memory().translate(run.places[id], bytes);
    args.push_back({executable.program().sizes_of(id, run.symbols), data});
  }
  if (std::ranges::any_of(args, [](const Array& array) { return array.data == nullptr; })) return;
  DataFault fault;
  node.compute(node, args, &fault);
  write_fault(run, index, fault);
}

/// A failure names its node by op_seq, so that the stream's error is the node's.
void run_nodes(const Run& run) {
  struct Ended {
    Ticket& ticket;
    ~Ended() { ticket.release(); }
  } const ended{*run.ticket};
  const Program& program = run.executable->program();
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    try {
      run_node(run, i);
    } catch (const sdk::Failure& failure) {
      throw npu::StreamFailure{failure.status,
                               "node '" + program.nodes[i].name + "': " + failure.message,
                               run.op_seq + i};
    }
  }
}

bp_status executable_run(const bp_run_args* args) {
  if (args == nullptr || !BP_SDK_HAS(args, fault)) return BP_INVALID_ARGUMENT;
  const bp_run_args wanted = read_args(args);
  return slot("executable_run", wanted.context, {wanted.tensors}, [&] {
    const bp_executable& executable = *wanted.context->executable;
    const Program& program = executable.program();
    if (wanted.flags != 0) sdk::fail(BP_UNSUPPORTED, "executable_run: flags ", wanted.flags);
    if (wanted.input_count != program.inputs.size() ||
        wanted.output_count != program.outputs.size()) {
      sdk::refuse("executable_run: a wrong number of inputs or outputs");
    }
    if (wanted.stream != nullptr && &wanted.stream->device() != executable.device()) {
      sdk::refuse("executable_run: the stream is of another device");
    }
    const std::span tensors(wanted.tensors, size_t{wanted.input_count} + wanted.output_count);
    const Sizes symbols = bind_symbols(program, tensors);
    std::vector<bp_mem> given;
    for (const bp_tensor& tensor : tensors) given.push_back({tensor.handle, tensor.offset_bytes});
    if (const uint64_t bytes = executable.workspace_bytes(symbols); bytes > 0) {
      executable.device()->memory().translate(wanted.workspace, bytes);  // is it there?
    }
    const Run run{.executable = &executable,
                  .symbols = symbols,
                  .places = executable.places_of(symbols, given, wanted.workspace),
                  .op_seq = wanted.op_seq,
                  .fault = wanted.fault,
                  .ticket = std::make_shared<Ticket>(wanted.context->pending)};
    if (wanted.stream == nullptr) {
      try {
        return run_nodes(run);
      } catch (const npu::StreamFailure& failure) {
        throw sdk::Failure{failure.status, failure.message};
      }
    }
    wanted.stream->push(
        {.work = [run](const std::stop_token&) { run_nodes(run); }, .op_seq = wanted.op_seq});
  });
}

bp_status executable_serialize(bp_executable* executable, bp_blob_space* out_blob) {
  return slot("executable_serialize", executable, {out_blob}, [&] {
    const std::vector<std::byte> blob = executable->serialize();
    bp_blob_space space = read_args(out_blob);
    space.bytes = blob.size();
    if (space.data != nullptr && space.capacity_bytes >= blob.size()) {
      std::memcpy(space.data, blob.data(), blob.size());
    }
    sdk::write_out(out_blob, space);
  });
}

std::span<const std::byte> bytes_of(const bp_blob* blob) {
  const bp_blob given = read_args(blob, 0);
  return {static_cast<const std::byte*>(given.data), given.bytes};
}

bp_status executable_deserialize(bp_device* device, const bp_blob* blob, bp_compile_info* out_info,
                                 bp_executable** out_executable) {
  return slot("executable_deserialize", device, {blob, out_info, out_executable}, [&] {
    auto made = deserialize(device, bytes_of(blob));
    tell(out_info, *made);
    *out_executable = made.release();
  });
}

bp_status executable_compat(bp_device* device, const bp_blob* blob, bp_compat* out_compat) {
  return slot("executable_compat", device, {blob, out_compat}, [&] {
    const char* const defect = blob_defect(bytes_of(blob), false);
    bp_compat compat{};
    compat.verdict = defect == nullptr ? BP_COMPAT_YES : BP_COMPAT_NO;
    if (defect != nullptr) compat.reason = sdk::str(defect);
    sdk::write_out(out_compat, compat);
  });
}

constexpr bp_executable_api kTable = {.struct_size = sizeof(bp_executable_api),
                                      .flags = static_cast<uint32_t>(BP_FEATURE_SERIALIZE_BIT),
                                      .executable_claim = executable_claim,
                                      .executable_compile = executable_compile,
                                      .executable_free = executable_free,
                                      .executable_io_info = executable_io_info,
                                      .executable_context_create = executable_context_create,
                                      .executable_context_destroy = executable_context_destroy,
                                      .executable_run = executable_run,
                                      .executable_serialize = executable_serialize,
                                      .executable_deserialize = executable_deserialize,
                                      .executable_compat = executable_compat};

constexpr bp_extension kExtension = {.struct_size = sizeof(bp_extension),
                                     .flags = 0,
                                     .name = sdk::str("bp.sketch.executable"),
                                     .version = BP_SKETCH_EXECUTABLE,
                                     .reserved = 0,
                                     .table = &kTable};
constexpr const bp_extension* kExtensions[] = {&kExtension,
                                               &sdk::TestInjectSlots<bp_instance>::kExtension};

bp_status no_kernels(bp_device* device, bp_kernel_list* out_list) {
  return slot("kernel_list", device, {out_list},
              [&] { sdk::write_out(out_list, bp_kernel_list{}); });
}

// The released root table demands a kernel table, so a chip without kernels has an empty list.
constexpr bp_kernel_api kNoKernels = {
    .struct_size = sizeof(bp_kernel_api), .flags = 0, .kernel_list = no_kernels};

}  // namespace
}  // namespace bp::sketch

int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
  return bp::sketch::mock_entry(
      core_abi, out_plugin, bp::sketch::kExtensions,
      [](bp_plugin* plugin) { plugin->kernel = &bp::sketch::kNoKernels; });
}
