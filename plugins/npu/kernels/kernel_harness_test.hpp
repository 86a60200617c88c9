// SPDX-License-Identifier: Apache-2.0
//
// One operator call as the core makes it: inputs with any strides go to the device, the kernel is
// asked, planned and launched, the output comes back.
#ifndef BACKPLANE_PLUGINS_NPU_KERNELS_KERNEL_HARNESS_TEST_HPP
#define BACKPLANE_PLUGINS_NPU_KERNELS_KERNEL_HARNESS_TEST_HPP

#include <algorithm>
#include <cstring>

#include "backplane/ops/attributes.h"
#include "plugins/npu/npu_harness_test.hpp"

namespace bp::npu_test {

using Dims = std::vector<int64_t>;

template <class T>
constexpr uint32_t dtype_of() {
  if constexpr (std::is_same_v<T, float>) return BP_DTYPE_F32;
  if constexpr (std::is_same_v<T, int32_t>) return BP_DTYPE_I32;
  if constexpr (std::is_same_v<T, int64_t>) return BP_DTYPE_I64;
  if constexpr (std::is_same_v<T, uint16_t>) return BP_DTYPE_U16;
  return BP_DTYPE_U8;  // also read as bool
}

inline Dims contiguous_strides(const Dims& sizes) {
  Dims strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

inline size_t count_of(const Dims& sizes) {
  size_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<size_t>(size);
  return count;
}

/// An input: storage, and a view of it.
struct Input {
  uint32_t dtype = BP_DTYPE_NONE;
  Dims sizes;
  Dims strides;
  int64_t offset = 0;  // elements
  std::vector<uint8_t> bytes;
};

template <class T>
Input strided(const Dims& sizes, const Dims& strides, int64_t offset,
              const std::vector<T>& values) {
  Input input{dtype_of<T>(), sizes, strides, offset, {}};
  input.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(input.bytes.data(), values.data(), input.bytes.size());
  return input;
}

template <class T>
Input dense(const Dims& sizes, const std::vector<T>& values) {
  return strided<T>(sizes, contiguous_strides(sizes), 0, values);
}

inline Input as_bool(Input input) {
  input.dtype = BP_DTYPE_BOOL;
  return input;
}

inline const bp_kernel* find_kernel(const Device& device, std::string_view op) {
  bp_kernel_list list{};
  list.struct_size = sizeof list;
  EXPECT_EQ(plugin().kernel->kernel_list(device.get(), &list), BP_OK);
  for (uint64_t i = 0; i < list.kernel_count; ++i) {
    if (sdk::view(list.kernels[i]->op) == op) return list.kernels[i];
  }
  ADD_FAILURE() << "no kernel for " << op;
  return nullptr;
}

/// One call of an operator: owns device memory, descriptors and the plan until it is destroyed.
class Call {
 public:
  Call(std::string_view op, const std::vector<Input>& inputs, uint32_t out_dtype, Dims out_sizes,
       const void* attributes = nullptr, const OptionList& options = kSmall)
      : device(options), kernel(find_kernel(device, op)), attributes_(attributes) {
    for (const Input& input : inputs) add(input);
    Dims out_strides = contiguous_strides(out_sizes);
    const size_t bytes = count_of(out_sizes) * sdk::dtype_bytes(out_dtype);
    add({out_dtype, std::move(out_sizes), std::move(out_strides), 0,
         std::vector<uint8_t>(bytes, 0xee)});
    args.struct_size = sizeof args;
    args.device = device.get();
    args.kernel = kernel;
    args.input_count = static_cast<uint32_t>(inputs.size());
    args.output_count = 1;
    args.attributes = attributes;
    args.op_seq = 77;
    fault = new_memory(std::vector<uint8_t>(sizeof(bp_fault_word)));
    extents = new_memory(std::vector<uint8_t>(BP_MAX_RANK * sizeof(int64_t), 0xff));
  }
  ~Call() {
    if (plan_ != nullptr) kernel->plan_free(device.get(), plan_);
    for (const uint64_t handle : handles_) device.free(handle);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// supports, then plan where the kernel has one.
  bp_status make_plan() {
    const bp_kernel_query query = make_query();
    if (kernel->supports != nullptr) {
      bp_support support{};
      support.struct_size = sizeof support;
      const bp_status status = kernel->supports(device.get(), &query, &support);
      if (status != BP_OK) return status;
      if (support.answer == BP_SUPPORT_NO) {
        reason = sdk::view(support.reason);
        return BP_UNSUPPORTED;
      }
    }
    if (kernel->plan == nullptr) return BP_OK;
    bp_plan_info info{};
    info.struct_size = sizeof info;
    const bp_status status = kernel->plan(device.get(), &query, &info, &plan_);
    can_fault = (info.flags & BP_PLAN_CAN_FAULT_BIT) != 0;
    args.plan = plan_;
    return status;
  }

  bp_status launch(bp_stream* stream = nullptr) {
    tensors_.clear();
    for (size_t i = 0; i < infos_.size(); ++i) {
      const Input& info = infos_[i];
      const uint64_t element_bytes = sdk::dtype_bytes(info.dtype);
      tensors_.push_back({handles_[i], static_cast<uint64_t>(info.offset) * element_bytes,
                          info.bytes.size(), info.dtype, static_cast<uint32_t>(info.sizes.size()),
                          info.sizes.data(), info.strides.data(), 0, 0, 0});
    }
    args.tensors = tensors_.data();
    args.stream = stream;
    return kernel->launch(&args);
  }

  template <class T>
  std::vector<T> output() {
    const Input& info = infos_.back();
    if (info.bytes.empty()) return {};
    return device.download<T>({handles_[infos_.size() - 1], 0}, info.bytes.size() / sizeof(T));
  }
  uint64_t output_handle() const { return handles_[infos_.size() - 1]; }
  /// What launch gave to the kernel; for tests that spoil it.
  std::vector<Input>& infos() { return infos_; }

  Device device;
  const bp_kernel* kernel;
  bp_launch_args args{};
  uint32_t query_flags = 0;
  uint32_t info_flags = 0;  // of each argument of the query
  bool can_fault = false;
  std::string reason;
  bp_mem fault{};
  bp_mem extents{};

 private:
  void add(Input input) {
    infos_.push_back(std::move(input));
    new_memory(infos_.back().bytes);
  }

  bp_mem new_memory(const std::vector<uint8_t>& bytes) {
    handles_.push_back(device.alloc(std::max<size_t>(bytes.size(), 1)));
    if (!bytes.empty()) device.upload<uint8_t>({handles_.back(), 0}, bytes);
    return {handles_.back(), 0};
  }

  bp_kernel_query make_query() {
    query_args_.clear();
    for (const Input& info : infos_) {
      query_args_.push_back({sizeof(bp_arg_info), info_flags, info.dtype,
                             static_cast<uint32_t>(info.sizes.size()), info.sizes.data(),
                             info.strides.data(), nullptr});
    }
    return {sizeof(bp_kernel_query), query_flags,        kernel,      1, args.input_count, 1,
            sizeof(bp_arg_info),     query_args_.data(), attributes_, 0};
  }

  const void* attributes_;
  std::vector<Input> infos_;
  std::vector<uint64_t> handles_;
  std::vector<bp_arg_info> query_args_;
  std::vector<bp_tensor> tensors_;
  bp_kernel_plan* plan_ = nullptr;
};

/// The output of a call that must work, the same with and without a stream.
template <class T>
std::vector<T> compute(std::string_view op, const std::vector<Input>& inputs, const Dims& out_sizes,
                       const void* attributes = nullptr, uint32_t out_dtype = dtype_of<T>()) {
  Call now(op, inputs, out_dtype, out_sizes, attributes);
  EXPECT_EQ(now.make_plan(), BP_OK) << now.reason;
  EXPECT_EQ(now.launch(), BP_OK) << now.device.host().last_message();
  Call queued(op, inputs, out_dtype, out_sizes, attributes);
  const Stream stream(queued.device);
  EXPECT_EQ(queued.make_plan(), BP_OK);
  EXPECT_EQ(queued.launch(stream.get()), BP_OK) << queued.device.host().last_message();
  EXPECT_EQ(stream.sync(), BP_OK);
  std::vector<T> result = now.output<T>();
  const std::vector<T> other = queued.output<T>();
  EXPECT_TRUE(result.empty() ||
              std::memcmp(result.data(), other.data(), result.size() * sizeof(T)) == 0);
  return result;
}

inline bp_i64_span span_of(const Dims& values) { return {values.data(), values.size()}; }

}  // namespace bp::npu_test

#endif
