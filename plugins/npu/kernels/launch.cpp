// SPDX-License-Identifier: Apache-2.0
//
// How a launch takes over its arguments, checks the memory they name, and reaches the stream.
#include "kernels/launch.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "queue.hpp"

namespace bp::npu {
namespace {

Tensor copy_tensor(const bp_tensor& tensor) {
  if (tensor.rank > BP_MAX_RANK) refuse("a tensor of rank ", tensor.rank, "; expected 16 or less");
  if (tensor.layout != 0) refuse("a tensor in private layout ", tensor.layout);
  Tensor copy;
  copy.dtype = tensor.dtype;
  copy.rank = tensor.rank;
  std::copy_n(tensor.sizes, tensor.rank, copy.sizes.begin());
  std::copy_n(tensor.strides, tensor.rank, copy.strides.begin());
  copy.mem = {tensor.handle, tensor.offset_bytes};
  copy.storage_bytes = tensor.storage_bytes;
  copy.on_host = (tensor.flags & BP_TENSOR_HOST_BIT) != 0;
  return copy;
}

/// Where the elements lie, in bytes from element [0, 0, ...]: [begin, end).
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

ByteRange touched_range(const Tensor& tensor, int64_t element_bytes) {
  ByteRange range{0, element_bytes};
  bool overflow = false;
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    int64_t reach = 0;  // from the first to the last element along this dimension
    overflow |= __builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &reach);
    overflow |= __builtin_mul_overflow(reach, element_bytes, &reach);
    int64_t& bound = reach < 0 ? range.begin : range.end;
    overflow |= __builtin_add_overflow(bound, reach, &bound);
  }
  if (overflow) refuse("a tensor's sizes and strides reach beyond 2^63 bytes");
  return range;
}

/// Calls take(offset, before_bytes, after_bytes) with what the elements take of the storage,
/// counted from element [0, 0, ...] at `offset`. Not for a tensor without elements.
template <class Take>
void with_checked_range(const Tensor& tensor, const Take& take) {
  if (tensor.dtype == BP_DTYPE_NONE || tensor.element_count() == 0) return;
  const auto element_bytes = static_cast<int64_t>(sdk::dtype_bytes(tensor.dtype));
  const ByteRange range = touched_range(tensor, element_bytes);
  const uint64_t before = static_cast<uint64_t>(-range.begin);
  const uint64_t after = static_cast<uint64_t>(range.end);
  const uint64_t offset = tensor.mem.offset_bytes;
  if (offset < before || offset + after > tensor.storage_bytes) {
    refuse("a tensor at offset ", offset, " touches ", before, " bytes before and ", after,
           " behind it; its storage has ", tensor.storage_bytes);
  }
  if (offset % sdk::dtype_bytes(tensor.dtype) != 0) {
    refuse("a tensor at offset ", offset, " is not aligned to its elements");
  }
  take(offset, before, after);
}

void resolve_tensor(const DeviceMemory& memory, Tensor* tensor) {
  if (tensor->on_host) return;
  tensor->data = nullptr;
  with_checked_range(*tensor, [&](uint64_t offset, uint64_t before, uint64_t after) {
    tensor->data = memory.translate({tensor->mem.handle, offset - before}, before + after) + before;
  });
}

/// Whether the kernel's rules say that it takes an input on the host.
bool is_host_input(const bp_kernel& kernel, size_t index) {
  if (kernel.arg_rule_count == 0) return false;
  const bp_arg_rule& rule = *kernel.arg_rules[std::min<size_t>(index, kernel.arg_rule_count - 1)];
  return (rule.flags & (BP_ARG_HOST_AT_PLAN_BIT | BP_ARG_HOST_AT_LAUNCH_BIT)) != 0;
}

/// The bytes of a host argument, which are the caller's again when the launch returns.
std::vector<std::byte> copy_host_argument(Tensor* tensor) {
  std::vector<std::byte> copy;
  with_checked_range(*tensor, [&](uint64_t offset, uint64_t before, uint64_t after) {
    const auto* const first = reinterpret_cast<const std::byte*>(tensor->mem.handle) + offset;
    copy.assign(first - before, first + after);
    tensor->data = copy.data() + before;
  });
  return copy;
}

void wait_latency(int64_t latency_ns) {
  if (latency_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(latency_ns));
}

}  // namespace

int64_t Tensor::element_count() const {
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; ++i) count *= sizes[i];
  return count;
}

Launch::Launch(const bp_launch_args& args)
    : memory_(args.device->memory()),
      op_seq_(args.op_seq),
      input_count_(args.input_count),
      fault_mem_(args.fault),
      out_extents_mem_(args.out_extents) {
  const std::span tensors(args.tensors, size_t{args.input_count} + args.output_count);
  for (const bp_tensor& tensor : tensors) {
    tensors_.push_back(copy_tensor(tensor));
    Tensor& copy = tensors_.back();
    const size_t index = tensors_.size() - 1;
    const bool is_there = copy.dtype != BP_DTYPE_NONE;
    if (is_there && copy.on_host != (index < input_count_ && is_host_input(*args.kernel, index))) {
      refuse("tensor ", index, copy.on_host ? " is in host memory" : " is not in host memory");
    }
    if (copy.on_host) host_copies_.push_back(copy_host_argument(&copy));
  }
}

void Launch::resolve() {
  for (Tensor& tensor : tensors_) resolve_tensor(memory_, &tensor);
  if (fault_mem_.handle != 0) {
    fault_ = reinterpret_cast<bp_fault_word*>(memory_.translate(fault_mem_, sizeof *fault_));
  }
  if (out_extents_mem_.handle != 0) {
    const size_t bytes = (tensors_.size() - input_count_) * sizeof(Dims);
    out_extents_ = reinterpret_cast<int64_t*>(memory_.translate(out_extents_mem_, bytes));
  }
}

void Launch::report_index(uint32_t input, int64_t index, int64_t extent) const {
  if (fault_ == nullptr) return;
  uint32_t expected = BP_FAULT_NONE;
  std::atomic_ref<uint32_t> code(fault_->code);
  if (!code.compare_exchange_strong(expected, BP_FAULT_INDEX)) return;
  fault_->input = input;
  fault_->op_seq = op_seq_;
  fault_->index = index;
  fault_->extent = extent;
}

int64_t* Launch::out_extents(size_t output) const {
  if (out_extents_ == nullptr) refuse("the launch has no out_extents");
  return out_extents_ + output * BP_MAX_RANK;
}

bp_status launch_kernel(const bp_launch_args* args, PrepareKernel prepare) noexcept {
  // All members up to this one are of the oldest ABI that this plugin serves.
  if (args == nullptr || !BP_SDK_HAS(args, out_extents)) return BP_INVALID_ARGUMENT;
  return slot("launch", args->device, {args->kernel, args->tensors}, [&] {
    const bp_launch_args wanted = read_args(args, 0);
    if (wanted.stream != nullptr && &wanted.stream->device() != wanted.device) {
      refuse("launch: the stream is of another device");
    }
    // Memory is looked up now, so that bad memory is the caller's error, and again when the body
    // runs: on a chip too that is when it must be there.
    const auto launch = std::make_shared<Launch>(wanted);
    launch->resolve();
    const int64_t latency_ns = wanted.device->options().launch_latency_ns;
    auto work = [launch, latency_ns, body = prepare(wanted)](const std::stop_token&) {
      wait_latency(latency_ns);
      launch->resolve();
      body(*launch);
    };
    if (wanted.stream == nullptr) {
      wanted.device->driver_call();
      return work({});
    }
    wanted.stream->push({.work = std::move(work), .op_seq = wanted.op_seq});
  });
}

}  // namespace bp::npu
