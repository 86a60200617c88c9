// SPDX-License-Identifier: Apache-2.0
//
// The operator call of the C API: the one function here that is called a million times a second, so
// handles are looked up without an error in hand, and words are made when there is one.
#include "core/api/handles.hpp"
#include "core/base/arg_array.hpp"
#include "core/dispatch/call.hpp"

namespace bp {
namespace {

/// Nothing, or why the inputs do not belong to the Runtime that was given.
Status check_runtime(const Runtime& given, std::span<Tensor* const> inputs) {
  BP_TRY(given.check_open());
  for (Tensor* input : inputs) {
    if (input == nullptr || input->device() == nullptr) continue;
    if (&input->device()->runtime() == &given) continue;
    return bad_argument("runtime", "is not the one that an input's device belongs to");
  }
  return {};
}

Runtime* runtime_of(std::span<Tensor* const> inputs) {
  for (Tensor* input : inputs) {
    if (input != nullptr && input->device() != nullptr) return &input->device()->runtime();
  }
  return nullptr;
}

[[gnu::always_inline]] inline Status find_inputs(const bpa_tensor* const* handles,
                                                 std::span<Tensor*> out_inputs) {
  for (size_t i = 0; i < out_inputs.size(); ++i) {
    out_inputs[i] = nullptr;
    if (handles[i] == nullptr) continue;
    out_inputs[i] = find_object(handles[i]);
    if (out_inputs[i] == nullptr) [[unlikely]] {
      return explain_handle(handles[i], HandleKind::kTensor, "inputs[" + std::to_string(i) + "]");
    }
  }
  return {};
}

struct OpCall {
  Runtime* runtime;
  Stream* stream;
  uint32_t op_id;
  const void* attributes;
  uint64_t flags;
};

// Apart from run(): to make and end eight references costs as much as a small kernel.
[[gnu::noinline]] Status run_for_many(Runtime& runtime, const CallArgs& args,
                                      std::span<bpa_tensor*> out_outputs) {
  ArgArray<Ref<Tensor>> outputs(out_outputs.size());
  BP_TRY(call(runtime, args, outputs.span()));
  return give_tensors(outputs.span(), out_outputs.data());
}

[[gnu::always_inline]] inline Status run(const OpCall& asked, std::span<Tensor* const> inputs,
                                         std::span<bpa_tensor*> out_outputs) {
  Runtime* const runtime = asked.runtime != nullptr ? asked.runtime : runtime_of(inputs);
  if (runtime == nullptr) [[unlikely]] {
    return Status(BP_INVALID_ARGUMENT,
                  "no input is on a device, and no runtime is given; move an input to a device "
                  "first, or give a runtime");
  }
  const auto op = runtime->registry().find_by_source_id(asked.op_id);
  if (!op) [[unlikely]] {
    return bad_argument("op_id", "is " + std::to_string(asked.op_id) + ", which is no operator");
  }
  const OpSchema& schema = runtime->registry().schema(*op);
  if (asked.runtime != nullptr) {
    if (Status status = check_runtime(*runtime, inputs); !status.ok()) [[unlikely]]
      return status.with_op(schema.name);
  }
  const size_t expected = schema.outputs.size();
  // Where the number depends on attributes, the call checks both.
  if (out_outputs.size() != expected && !schema.counts_outputs()) [[unlikely]] {
    return bad_argument("output_count", "is " + std::to_string(out_outputs.size()) + ", expected " +
                                            std::to_string(expected))
        .with_op(schema.name);
  }
  const CallArgs args{.op = *op,
                      .inputs = inputs,
                      .attributes = asked.attributes,
                      .stream = asked.stream,
                      .device = runtime->host_device(),
                      .deterministic = (asked.flags & BPA_OP_DETERMINISTIC_BIT) != 0};
  if (out_outputs.size() != 1) [[unlikely]]
    return run_for_many(*runtime, args, out_outputs);
  Ref<Tensor> output;
  BP_TRY(call(*runtime, args, {&output, 1}));
  return give_tensor(std::move(output), out_outputs.data());
}

}  // namespace
}  // namespace bp

namespace bp {
namespace {

/// What both functions take, under the same names.
struct GivenCall {
  uint32_t op_id;
  const bpa_tensor* const* inputs;
  uint32_t input_count;
  const void* attributes;
  uint64_t flags;
  bpa_tensor** out_outputs;
  uint32_t output_count;
};

[[gnu::noinline]] Status check_call(const GivenCall& given) {
  BP_TRY(check_array(given.inputs, given.input_count, "inputs"));
  BP_TRY(check_array(given.out_outputs, given.output_count, "out_outputs"));
  BP_TRY(check_pointer(given.out_outputs, "out_outputs"));
  return check_flags(given.flags, BPA_OP_DETERMINISTIC_BIT, "flags");
}

/// What check_call has no objection to, for nearly all calls.
bool is_plain(const GivenCall& given) {
  return given.inputs != nullptr && given.input_count <= kLocalArgs &&
         given.out_outputs != nullptr && given.output_count <= kLocalArgs && given.flags == 0;
}

[[gnu::always_inline]] inline Status call_op(Runtime* runtime, Stream* stream,
                                             const GivenCall& given) {
  if (!is_plain(given)) [[unlikely]]
    BP_TRY(check_call(given));
  ArgArray<Tensor*> inputs(given.input_count);
  BP_TRY(find_inputs(given.inputs, inputs.span()));
  return run({runtime, stream, given.op_id, given.attributes, given.flags}, inputs.span(),
             {given.out_outputs, given.output_count});
}

}  // namespace
}  // namespace bp

bpa_status bpa_op_call(bpa_runtime* runtime, uint32_t op_id, const bpa_tensor* const* inputs,
                       uint32_t input_count, const void* attributes, uint64_t flags,
                       bpa_tensor** out_outputs, uint32_t output_count) {
  return bp::guarded(out_outputs, output_count, [&]() -> bp::Status {
    bp::Runtime* owner = nullptr;
    if (runtime != nullptr) {
      BP_TRY_ASSIGN(owner, bp::object_of(runtime, "runtime"));
    }
    return bp::call_op(owner, nullptr,
                       {op_id, inputs, input_count, attributes, flags, out_outputs, output_count});
  });
}

bpa_status bpa_op_call_on(bpa_stream* stream, uint32_t op_id, const bpa_tensor* const* inputs,
                          uint32_t input_count, const void* attributes, uint64_t flags,
                          bpa_tensor** out_outputs, uint32_t output_count) {
  return bp::guarded(out_outputs, output_count, [&]() -> bp::Status {
    BP_TRY_ASSIGN(bp::ApiStream * found, bp::object_of(stream, "stream"));
    return bp::call_op(found->runtime.get(), &found->stream,
                       {op_id, inputs, input_count, attributes, flags, out_outputs, output_count});
  });
}
