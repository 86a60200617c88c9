// SPDX-License-Identifier: Apache-2.0
//
// Kernels from the list to values: supports, plan, state, launch, now and on a stream.
#include <algorithm>
#include <array>

#include "core/base/dtype.hpp"
#include "core/device/kernel_list.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "driver.hpp"

namespace bp::abi {
namespace {

constexpr int64_t kCount = 1000;
constexpr int64_t kSizes[] = {kCount};
constexpr int64_t kStrides[] = {1};

/// The question about f32 vectors, with the arguments behind it.
struct Query {
  Query(const KernelRecord& record, uint32_t input_count, uint32_t dtype = BP_DTYPE_F32) {
    for (bp_arg_info& arg : args) {
      arg = {.struct_size = sizeof(bp_arg_info),
             .flags = 0,
             .dtype = dtype,
             .rank = 1,
             .sizes = kSizes,
             .strides = kStrides,
             .host_data = nullptr};
    }
    query = {.struct_size = sizeof(bp_kernel_query),
             .flags = 0,
             .kernel = record.original,
             .op_version = record.kernel.version_max,
             .input_count = input_count,
             .output_count = 1,
             .arg_stride_bytes = sizeof(bp_arg_info),
             .args = args.data(),
             .attributes = nullptr,
             .attributes_bytes = 0};
  }
  std::array<bp_arg_info, 3> args{};
  bp_kernel_query query{};
};

/// A planned kernel and its state; ended in the right order.
struct Planned {
  Planned(const Subject& subject_in, const KernelRecord& record_in, uint32_t input_count)
      : subject(subject_in), record(record_in) {
    const Query query(record, input_count);
    const bp_kernel& kernel = record.kernel;
    Checks& checks = subject.checks;
    const DeviceTable& table = subject.table;
    if (kernel.supports != nullptr) {
      bp_support support{};
      support.struct_size = sizeof(support);
      checks.expect_ok(subject.plugin.host(), table.supports(kernel, query.query, &support),
                       "supports");
      checks.expect(support.answer != BP_SUPPORT_NO, "supports: f32 vectors");
    }
    if (kernel.plan != nullptr) {
      bp_plan_info info{};
      info.struct_size = sizeof(info);
      checks.expect_ok(subject.plugin.host(), table.plan(kernel, query.query, &info, &plan),
                       "plan");
      checks.expect(info.workspace_bytes == 0, "plan: no workspace for this operator");
    }
    if (kernel.state_create != nullptr) {
      checks.expect_ok(subject.plugin.host(),
                       table.state_create(kernel, record.original, plan, &state), "state_create");
    }
  }
  ~Planned() {
    if (state != nullptr) subject.table.state_destroy(record.kernel, state);
    if (plan != nullptr) subject.table.plan_free(record.kernel, plan);
  }
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;

  const Subject& subject;
  const KernelRecord& record;
  bp_kernel_plan* plan = nullptr;
  bp_kernel_state* state = nullptr;
};

bp_tensor tensor_of(const DeviceMemory& memory) {
  return {.handle = memory.at().handle,
          .offset_bytes = 0,
          .storage_bytes = memory.bytes(),
          .dtype = BP_DTYPE_F32,
          .rank = 1,
          .sizes = kSizes,
          .strides = kStrides,
          .layout = 0,
          .flags = 0,
          .reserved = 0};
}

void launch(const Planned& planned, const std::vector<bp_tensor>& tensors, bp_stream* stream) {
  const Subject& subject = planned.subject;
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = subject.table.device;
  args.kernel = planned.record.original;
  args.plan = planned.plan;
  args.state = planned.state;
  args.stream = stream;
  args.tensors = tensors.data();
  args.input_count = static_cast<uint32_t>(tensors.size() - 1);
  args.output_count = 1;
  args.op_seq = 1;
  const bp_status code = call_launch(subject.table, stream, args, nullptr);
  subject.checks.expect_ok(subject.plugin.host(), code,
                           stream == nullptr ? "launch" : "launch on a stream");
}

struct Operator {
  std::string_view name;
  uint32_t input_count;
  float (*compute)(float, float);
};

void check_values(const Subject& subject, const Planned& planned, const Operator& op,
                  bp_stream* stream) {
  const uint64_t bytes = kCount * sizeof(float);
  const DeviceMemory a(subject, bytes);
  const DeviceMemory b(subject, bytes);
  const DeviceMemory out(subject, bytes);
  std::vector<float> left(kCount);
  std::vector<float> right(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    left[i] = static_cast<float>(i - kCount / 2);
    right[i] = static_cast<float>(3 * i);
  }
  a.upload(left.data());
  b.upload(right.data());
  std::vector<bp_tensor> tensors = {tensor_of(a)};
  if (op.input_count == 2) tensors.push_back(tensor_of(b));
  tensors.push_back(tensor_of(out));
  launch(planned, tensors, stream);
  if (stream != nullptr) {
    subject.checks.expect_ok(subject.plugin.host(), subject.table.stream_sync(stream, kDeadlineNs),
                             "stream_sync");
  }
  std::vector<float> found(kCount);
  out.download(found.data());
  size_t wrong = 0;
  for (int64_t i = 0; i < kCount; ++i) wrong += found[i] != op.compute(left[i], right[i]);
  subject.checks.expect(wrong == 0, std::string(op.name) + ": " + std::to_string(wrong) +
                                        " wrong values of " + std::to_string(kCount));
}

/// A dtype that the plugin does not know is not supported, whoever says so.
void check_unknown_dtype(const Subject& subject, const KernelRecord& record) {
  if (record.kernel.supports == nullptr) return;
  const Query query(record, 1, 60);
  bp_support support{};
  support.struct_size = sizeof(support);
  const bp_status code = subject.table.supports(record.kernel, query.query, &support);
  subject.checks.expect(code != BP_OK || support.answer != BP_SUPPORT_YES,
                        "supports: an unknown dtype");
}

void check_operator(const Subject& subject, const KernelList& list, const Operator& op) {
  const auto at = std::find_if(list.kernels.begin(), list.kernels.end(), [&](const auto& record) {
    return record.op == op.name && (record.dtype_masks.at(0) & BP_DTYPE_BIT(BP_DTYPE_F32)) != 0;
  });
  subject.checks.expect(at != list.kernels.end(), "a kernel for " + std::string(op.name));
  if (at == list.kernels.end()) return;
  const Planned planned(subject, *at, op.input_count);
  check_values(subject, planned, op, nullptr);
  bp_stream* stream = nullptr;
  const bp_stream_args args{.struct_size = sizeof(bp_stream_args), .flags = 0};
  subject.checks.expect_ok(subject.plugin.host(), subject.table.stream_create(args, &stream),
                           "stream_create");
  if (stream == nullptr) return;
  check_values(subject, planned, op, stream);
  subject.checks.expect_ok(subject.plugin.host(), subject.table.stream_destroy(stream),
                           "stream_destroy");
}

}  // namespace

void check_kernels(const Subject& subject) {
  const Result<KernelList> list = list_kernels(subject.plugin, subject.table);
  subject.checks.expect(list.ok(), "list_kernels: " + as_status(list).to_string());
  if (!list.ok()) return;
  check_operator(subject, *list, {"relu", 1, [](float a, float) { return a < 0 ? 0.0F : a; }});
  check_operator(subject, *list, {"add", 2, [](float a, float b) { return a + b; }});
  for (const KernelRecord& record : list->kernels) check_unknown_dtype(subject, record);
  // The kernel whose rule has strides of a later ABI is left out by name. To the past, which has
  // no strides in its rules, it is a kernel like the others.
  const bool is_refused = std::any_of(
      list->refused.begin(), list->refused.end(),
      [](const std::string& words) { return words.find("future_strides") != std::string::npos; });
#if defined(BP_GENERATION_PAST)
  subject.checks.expect(!is_refused, "future_strides: unknown to the past");
#else
  subject.checks.expect(is_refused == (subject.plugin_generation == Generation::kFuture),
                        "future_strides: refused by name");
#endif
}

}  // namespace bp::abi
