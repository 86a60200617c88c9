// SPDX-License-Identifier: Apache-2.0
//
// Attributes between generations: a plugin that knows more attributes than the core takes the
// defaults of those that the core's struct does not have, one that knows fewer leaves the rest.
#include <algorithm>
#include <cmath>
#include <memory>

#include "backplane/ops/attributes.h"
#include "core/device/kernel_list.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "driver.hpp"

namespace bp::abi {
namespace {

struct Shape {
  std::vector<int64_t> sizes;

  std::vector<int64_t> strides() const {
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
    return strides;
  }
  uint64_t count() const {
    uint64_t count = 1;
    for (const int64_t size : sizes) count *= static_cast<uint64_t>(size);
    return count;
  }
};

/// An operator on constant inputs, with all attributes at their defaults; its values are constant
/// too, and others where a default is read as zero.
struct Case {
  std::string_view op;
  const void* attributes;
  uint64_t attributes_bytes;
  std::vector<Shape> shapes;  // inputs, then the output; without sizes: absent
  std::vector<float> inputs;  // what each input is filled with
  float expected;
};

/// The arguments of a case in device memory, and as a query shows them.
class Arguments {
 public:
  Arguments(const Subject& subject, const Case& example) : example_(example) {
    for (size_t i = 0; i < example.shapes.size(); ++i) {
      const Shape& shape = example.shapes[i];
      strides_.push_back(shape.strides());
      memory_.push_back(std::make_unique<DeviceMemory>(subject, shape.count() * sizeof(float)));
      const float value = i < example.inputs.size() ? example.inputs[i] : -1;
      const std::vector<float> data(shape.count(), value);
      memory_.back()->upload(data.data());
    }
    for (size_t i = 0; i < example.shapes.size(); ++i) add(i);
  }

  bp_kernel_query query(const KernelRecord& record) const {
    return {.struct_size = sizeof(bp_kernel_query),
            .flags = 0,
            .kernel = record.original,
            .op_version = record.kernel.version_max,
            .input_count = input_count(),
            .output_count = 1,
            .arg_stride_bytes = sizeof(bp_arg_info),
            .args = infos_.data(),
            .attributes = example_.attributes,
            .attributes_bytes = example_.attributes_bytes};
  }
  const bp_tensor* tensors() const { return tensors_.data(); }
  uint32_t input_count() const { return static_cast<uint32_t>(tensors_.size() - 1); }
  std::vector<float> output() const {
    std::vector<float> values(example_.shapes.back().count());
    memory_.back()->download(values.data());
    return values;
  }

 private:
  void add(size_t index) {
    const Shape& shape = example_.shapes[index];
    const uint32_t dtype = shape.sizes.empty() ? BP_DTYPE_NONE : BP_DTYPE_F32;
    const auto rank = static_cast<uint32_t>(shape.sizes.size());
    infos_.push_back({.struct_size = sizeof(bp_arg_info),
                      .flags = 0,
                      .dtype = dtype,
                      .rank = rank,
                      .sizes = shape.sizes.data(),
                      .strides = strides_[index].data(),
                      .host_data = nullptr});
    tensors_.push_back({.handle = memory_[index]->at().handle,
                        .offset_bytes = 0,
                        .storage_bytes = memory_[index]->bytes(),
                        .dtype = dtype,
                        .rank = rank,
                        .sizes = shape.sizes.data(),
                        .strides = strides_[index].data(),
                        .layout = 0,
                        .flags = 0,
                        .reserved = 0});
  }

  const Case& example_;
  std::vector<std::vector<int64_t>> strides_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<bp_arg_info> infos_;
  std::vector<bp_tensor> tensors_;
};

void run_case(const Subject& subject, const KernelRecord& record, const Case& example) {
  const Arguments arguments(subject, example);
  const bp_kernel_query query = arguments.query(record);
  bp_kernel_plan* plan = nullptr;
  bp_plan_info info{};
  info.struct_size = sizeof(info);
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = subject.table.device;
  args.kernel = record.original;
  args.tensors = arguments.tensors();
  args.input_count = arguments.input_count();
  args.output_count = 1;
  args.attributes = example.attributes;
  args.op_seq = 1;
  if (record.kernel.plan != nullptr) {
    const bp_status code = subject.table.plan(record.kernel, query, &info, &plan);
    subject.checks.expect_ok(subject.plugin.host(), code, "plan with attributes");
  }
  args.plan = plan;
  const DeviceMemory workspace(subject, std::max<uint64_t>(info.workspace_bytes, 64));
  args.workspace = workspace.at();
  const bp_status code = call_launch(subject.table, nullptr, args, nullptr);
  subject.checks.expect_ok(subject.plugin.host(), code, "launch with attributes");
  const std::vector<float> found = arguments.output();
  const auto wrong = std::count_if(found.begin(), found.end(), [&](float value) {
    return !(std::abs(value - example.expected) < 1e-5F);
  });
  subject.checks.expect(wrong == 0, std::string(example.op) + ": " + std::to_string(wrong) +
                                        " values are not those of its attributes' defaults");
  if (plan != nullptr) subject.table.plan_free(record.kernel, plan);
}

}  // namespace

void check_attributes(const Subject& subject) {
  const bp_attrs_softmax softmax = bp_attrs_softmax_defaults();
  const bp_attrs_conv conv = bp_attrs_conv_defaults();
  // Softmax of equal values along the last axis, not the first; a convolution of one group.
  const std::vector<Case> cases = {
      {"softmax", &softmax, sizeof(softmax), {{{2, 3}}, {{2, 3}}}, {0}, 1.0F / 3},
      {"conv",
       &conv,
       sizeof(conv),
       {{{1, 1, 2, 2}}, {{1, 1, 1, 1}}, {}, {{1, 1, 2, 2}}},
       {1, 3, 0},
       3}};
  const Result<KernelList> list = list_kernels(subject.plugin, subject.table);
  if (!list.ok()) return;
  size_t run_count = 0;
  for (const Case& example : cases) {
    const auto at =
        std::find_if(list->kernels.begin(), list->kernels.end(), [&](const auto& record) {
          return record.op == example.op && record.kernel.state_create == nullptr;
        });
    if (at == list->kernels.end()) continue;
    run_case(subject, *at, example);
    ++run_count;
  }
  const std::string& id = subject.plugin.manifest().id;
  subject.checks.expect(run_count > 0 || (id != "cpu" && id != "npu"),
                        "a kernel with attributes was run");
}

}  // namespace bp::abi
