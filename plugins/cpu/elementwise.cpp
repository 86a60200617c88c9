// SPDX-License-Identifier: Apache-2.0
//
// Row finding for elementwise kernels. See elementwise.hpp.
#include "elementwise.hpp"

#include "kernel_support.hpp"
#include "nest.hpp"

namespace bp::cpu {
namespace {

static_assert(kMaxMapInputs + 1 <= kMaxOperands);

constexpr int64_t kNoStride = -1;

// The stride of an input that needs no nest: 1 if it runs along the whole output, 0 if it is one
// element, else kNoStride. An input with as many elements as the output has its shape.
int64_t simple_stride(const bp_tensor& input, const bp_tensor& output, int64_t output_count,
                      bool is_row_major) {
  const int64_t count = sdk::element_count(input);
  if (count == 1) return 0;
  if (count != output_count) return kNoStride;
  return (is_row_major ? is_contiguous(input) : lie_alike(input, output)) ? 1 : kNoStride;
}

int64_t bytes_of(const bp_tensor& tensor) {
  return static_cast<int64_t>(sdk::dtype_bytes(tensor.dtype));
}

// The operands of a launch, first elements and bytes of one.
template <size_t InputCount>
struct Operands {
  explicit Operands(const bp_launch_args& args)
      : y(address_of(output_of(args))), y_bytes(bytes_of(output_of(args))) {
    for (size_t i = 0; i < InputCount; ++i) {
      const bp_tensor& input = args.tensors[i];
      inputs[i] = address_of(input);
      bytes[i] = bytes_of(input);
    }
  }

  std::byte* y;
  int64_t y_bytes;
  const std::byte* inputs[InputCount];
  int64_t bytes[InputCount];
};

template <size_t InputCount>
bp_status run_nest(const bp_launch_args& args, const MapRow& given) {
  const Operands<InputCount> operands(args);
  const bp_tensor* inputs[InputCount];
  for (size_t i = 0; i < InputCount; ++i) inputs[i] = &args.tensors[i];
  const Nest nest = broadcast_nest(output_of(args), inputs, static_cast<int>(InputCount));
  MapRow row = given;
  for (size_t i = 0; i < InputCount; ++i) row.strides[i] = nest.strides[i + 1][nest.rank - 1];
  constexpr int kOperands = static_cast<int>(InputCount) + 1;
  args.device->workers.for_ranges(
      nest.count, given.form->item_cost, [&](int64_t begin, int64_t end) noexcept {
        walk_rows(nest, kOperands, begin, end, [&](const int64_t* offsets, int64_t row_count) {
          MapRow part = row;
          part.y = operands.y + offsets[0] * operands.y_bytes;
          for (size_t i = 0; i < InputCount; ++i) {
            part.inputs[i] = operands.inputs[i] + offsets[i + 1] * operands.bytes[i];
          }
          part.count = row_count;
          part.form->function(part);
        });
      });
  return BP_OK;
}

}  // namespace

template <size_t InputCount>
bp_status run_map(const bp_launch_args& args, const MapForm& form) {
  const int64_t count = sdk::element_count(output_of(args));
  if (count == 0) return BP_OK;
  MapRow row{.y = nullptr,
             .inputs = {},
             .strides = {},
             .count = count,
             .constants = form.constants,
             .form = &form};
  bool is_simple = true;
  const bool is_row_major = is_contiguous(output_of(args));
  for (size_t i = 0; i < InputCount; ++i) {
    row.strides[i] = simple_stride(args.tensors[i], output_of(args), count, is_row_major);
    is_simple = is_simple && row.strides[i] != kNoStride;
  }
  if (!is_simple) return run_nest<InputCount>(args, row);
  const Operands<InputCount> operands(args);
  args.device->workers.for_ranges(count, form.item_cost, [&](int64_t begin, int64_t end) noexcept {
    MapRow part = row;
    part.y = operands.y + begin * operands.y_bytes;
    for (size_t i = 0; i < InputCount; ++i) {
      part.inputs[i] = operands.inputs[i] + begin * row.strides[i] * operands.bytes[i];
    }
    part.count = end - begin;
    form.function(part);
  });
  return BP_OK;
}

std::unique_ptr<OrderedPlan> plan_map(bp_device*, const bp_kernel_query& query,
                                      bp_plan_info* info) {
  auto plan = std::make_unique<OrderedPlan>();
  follow_inputs(query, plan.get(), info);
  return plan;
}

template bp_status run_map<1>(const bp_launch_args&, const MapForm&);
template bp_status run_map<2>(const bp_launch_args&, const MapForm&);
template bp_status run_map<3>(const bp_launch_args&, const MapForm&);

}  // namespace bp::cpu
