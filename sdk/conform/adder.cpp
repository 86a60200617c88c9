// SPDX-License-Identifier: Apache-2.0
//
// Plan, state, workspace and launch of one kernel.
#include "sdk/conform/adder.hpp"

#include <array>
#include <cstring>

#include "core/emulation/emulate_missing.hpp"

namespace bp::conform {

Bytes to_bytes(const Floats& values) {
  Bytes bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

const KernelRecord* find_adder(const KernelList& kernels) {
  for (const KernelRecord& record : kernels.kernels) {
    const bool takes_f32 =
        record.dtype_masks.size() == 1 && (record.dtype_masks[0] & BP_DTYPE_BIT(BP_DTYPE_F32)) != 0;
    if (record.op == "add" && takes_f32) return &record;
  }
  return nullptr;
}

Adder::Adder(Context& context, int64_t count)
    : context_(context), kernel_(*find_adder(context.kernels())), count_(count) {
  if (kernel_.kernel.plan != nullptr) make_plan();
  const DeviceTable& table = context_.table();
  if (kernel_.kernel.state_create != nullptr) {
    context_.require_ok("state_create",
                        table.state_create(kernel_.kernel, kernel_.original, plan_, &state_));
  }
  if (info_.workspace_bytes > 0) {
    context_.require_ok(
        "mem_alloc of the workspace",
        context_.mem_alloc(info_.workspace_bytes, info_.workspace_alignment_bytes, &workspace_));
  }
}

void Adder::make_plan() {
  bp_arg_info info{};
  info.struct_size = sizeof(info);
  info.dtype = BP_DTYPE_F32;
  info.rank = 1;
  info.sizes = &count_;
  info.strides = &stride_;
  const std::array<bp_arg_info, 3> args{info, info, info};
  bp_kernel_query query{};
  query.struct_size = sizeof(query);
  query.kernel = kernel_.original;
  query.op_version = kernel_.kernel.version_max;
  query.input_count = 2;
  query.output_count = 1;
  query.arg_stride_bytes = sizeof(bp_arg_info);
  query.args = args.data();
  info_.struct_size = sizeof(info_);
  context_.require_ok("plan", context_.table().plan(kernel_.kernel, query, &info_, &plan_));
}

Adder::~Adder() {
  const DeviceTable& table = context_.table();
  if (workspace_ != 0) context_.expect_ok("mem_free", context_.mem_free(workspace_));
  if (state_ != nullptr) table.state_destroy(kernel_.kernel, state_);
  if (plan_ != nullptr) table.plan_free(kernel_.kernel, plan_);
}

bp_tensor Adder::tensor(const Memory& memory, uint64_t offset_elements) const {
  return {.handle = memory.handle(),
          .offset_bytes = offset_elements * sizeof(float),
          .storage_bytes = memory.bytes(),
          .dtype = BP_DTYPE_F32,
          .rank = 1,
          .sizes = &count_,
          .strides = &stride_,
          .layout = 0,
          .flags = 0,
          .reserved = 0};
}

bp_status Adder::launch(bp_stream* stream, const Memory& a, const Memory& b, const Memory& y,
                        uint64_t op_seq, uint64_t offset_elements) {
  const std::array<bp_tensor, 3> tensors{tensor(a, offset_elements), tensor(b, offset_elements),
                                         tensor(y, offset_elements)};
  return launch(stream, tensors.data(), op_seq);
}

bp_status Adder::launch(bp_stream* stream, const bp_tensor* tensors, uint64_t op_seq) {
  const DeviceTable& table = context_.table();
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = table.device;
  args.kernel = kernel_.original;
  args.plan = plan_;
  args.state = state_;
  args.stream = stream;
  args.tensors = tensors;
  args.input_count = 2;
  args.output_count = 1;
  args.workspace = {workspace_, 0};
  args.op_seq = op_seq;
  return call_launch(table, stream, args, nullptr);
}

}  // namespace bp::conform
