// SPDX-License-Identifier: Apache-2.0
//
// Launches that the core cannot hand to the plugin as they are. An emulated one runs later, on the
// stream's worker, but a launch consumes all that it reads before it returns: so everything that
// the arguments point to is copied, host arguments too, into one block of memory.
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "core/base/checked.hpp"
#include "core/base/dtype.hpp"
#include "core/emulation/emulation.hpp"

namespace bp {
namespace {

/// The bytes behind a tensor's handle that its elements take.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }
};

bool is_host_argument(const bp_tensor& tensor) {
  return tensor.dtype != BP_DTYPE_NONE && (tensor.flags & BP_TENSOR_HOST_BIT) != 0;
}

bool has_elements(const bp_tensor& tensor) {
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[i] == 0) return false;
  }
  return true;
}

/// Offsets in elements of the first and the one past the last element from element [0, 0, ...].
/// False if they overflow.
bool element_range(const bp_tensor& tensor, int64_t* out_first, int64_t* out_end) {
  int64_t first = 0;
  int64_t last = 0;
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    int64_t reach = 0;
    if (tensor.sizes[i] < 0) return false;
    if (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &reach)) return false;
    int64_t& bound = reach < 0 ? first : last;
    if (__builtin_add_overflow(bound, reach, &bound)) return false;
  }
  *out_first = first;
  return !__builtin_add_overflow(last, int64_t{1}, out_end);
}

/// False if the elements lie outside the tensor's storage.
bool byte_range(const bp_tensor& tensor, uint32_t bits, ByteRange* out_range) {
  int64_t first = 0;
  int64_t end = 0;
  int64_t begin_bits = 0;
  int64_t end_bits = 0;
  if (!has_elements(tensor)) {
    *out_range = {tensor.offset_bytes, tensor.offset_bytes};
    return tensor.offset_bytes <= tensor.storage_bytes;
  }
  if (!element_range(tensor, &first, &end) ||
      __builtin_mul_overflow(first, int64_t{bits}, &begin_bits) ||
      __builtin_mul_overflow(end, int64_t{bits}, &end_bits) || begin_bits % 8 != 0) {
    return false;
  }
  const auto before_bytes = static_cast<uint64_t>(-(begin_bits / 8));
  const auto after_bytes = static_cast<uint64_t>(end_bits) / 8 + (end_bits % 8 != 0 ? 1 : 0);
  if (before_bytes > tensor.offset_bytes || tensor.offset_bytes > tensor.storage_bytes ||
      after_bytes > tensor.storage_bytes - tensor.offset_bytes) {
    return false;
  }
  *out_range = {tensor.offset_bytes - before_bytes, tensor.offset_bytes + after_bytes};
  return true;
}

/// Where the bytes of a host argument begin in a unit of alignment; copies begin alike, so that a
/// kernel finds the alignment that it asked for.
uint64_t phase_bytes(const bp_tensor& tensor, const ByteRange& range) {
  return (tensor.handle + range.begin) % kHostAlignmentBytes;
}

/// `before_bytes` and a copy of a host argument together; nullopt: there is no such memory.
std::optional<uint64_t> with_copy(uint64_t before_bytes, const bp_tensor& tensor,
                                  const ByteRange& range) {
  const auto copied = checked_add(phase_bytes(tensor, range), range.size());
  const auto whole = copied ? checked_align_up(*copied, kHostAlignmentBytes) : copied;
  const auto sum = whole ? checked_add(before_bytes, *whole) : whole;
  return sum && *sum <= kMostBytes ? sum : std::nullopt;
}

class LaunchTask final : public Task {
 public:
  LaunchTask(EmulatedStream& stream, const bp_launch_args& args,
             std::shared_ptr<const void> keep_alive)
      : stream_(stream), args_(args), keep_alive_(std::move(keep_alive)) {
    args_.stream = nullptr;
  }

  /// Takes copies of all that the arguments point to.
  bp_status copy_arguments();
  void run(Failure* failure) override;

 private:
  size_t tensor_count() const { return size_t{args_.input_count} + args_.output_count; }
  bp_status check_tensor(size_t index, ByteRange* out_range) const;
  bp_status refuse(bp_status status, size_t index, const std::string& why) const;
  bp_status launch_now() const;
  void copy_dims(bp_tensor* tensor, int64_t** next_dims) const;
  void copy_host_bytes(bp_tensor* tensor, const ByteRange& range, std::byte** next_bytes) const;

  EmulatedStream& stream_;
  bp_launch_args args_;
  std::shared_ptr<const void> keep_alive_;
  HostBuffer block_;  // host bytes, then tensors, then their sizes and strides
};

bp_status LaunchTask::refuse(bp_status status, size_t index, const std::string& why) const {
  return stream_.emulation.fail(
      status, "launch on an emulated stream: tensor " + std::to_string(index) + ": " + why,
      stream_.handle(), args_.op_seq);
}

bp_status LaunchTask::check_tensor(size_t index, ByteRange* out_range) const {
  const bp_tensor& tensor = args_.tensors[index];
  if (tensor.rank > BP_MAX_RANK) {
    return refuse(BP_INVALID_ARGUMENT, index, "rank " + std::to_string(tensor.rank));
  }
  if (!is_host_argument(tensor)) return BP_OK;
  if (index >= args_.input_count) {
    return refuse(BP_INVALID_ARGUMENT, index, "an output cannot be a host argument");
  }
  if (tensor.rank > 0 && (tensor.sizes == nullptr || tensor.strides == nullptr)) {
    return refuse(BP_INVALID_ARGUMENT, index, "host argument without sizes or strides");
  }
  const uint32_t bits = dtype_bits(tensor.dtype);
  if (bits == 0) {
    return refuse(BP_UNSUPPORTED, index,
                  "host argument of unknown dtype " + std::to_string(tensor.dtype));
  }
  if (!byte_range(tensor, bits, out_range)) {
    return refuse(
        BP_INVALID_ARGUMENT, index,
        "host argument reaches outside its " + std::to_string(tensor.storage_bytes) + " bytes");
  }
  return BP_OK;
}

void LaunchTask::copy_dims(bp_tensor* tensor, int64_t** next_dims) const {
  for (const int64_t** dims : {&tensor->sizes, &tensor->strides}) {
    if (*dims == nullptr) continue;
    std::memcpy(*next_dims, *dims, tensor->rank * sizeof(int64_t));
    *dims = *next_dims;
    *next_dims += tensor->rank;
  }
}

void LaunchTask::copy_host_bytes(bp_tensor* tensor, const ByteRange& range,
                                 std::byte** next_bytes) const {
  const uint64_t phase = phase_bytes(*tensor, range);
  const std::byte* source = host_address(tensor->handle) + range.begin;
  if (range.size() > 0) std::memcpy(*next_bytes + phase, source, range.size());
  tensor->handle = reinterpret_cast<uint64_t>(*next_bytes);
  tensor->offset_bytes = phase + (tensor->offset_bytes - range.begin);
  tensor->storage_bytes = phase + range.size();
  *next_bytes += align_up(tensor->storage_bytes);
}

bp_status LaunchTask::copy_arguments() {
  uint64_t host_bytes = 0;
  uint64_t dims_count = 0;
  ByteRange range;
  for (size_t i = 0; i < tensor_count(); ++i) {
    const bp_status status = check_tensor(i, &range);
    if (status != BP_OK) return status;
    const bp_tensor& tensor = args_.tensors[i];
    dims_count += uint64_t{2} * tensor.rank;
    if (!is_host_argument(tensor)) continue;
    const auto sum = with_copy(host_bytes, tensor, range);
    if (!sum) return refuse(BP_OUT_OF_MEMORY, i, "there is no host memory for copies as large");
    host_bytes = *sum;
  }
  const uint64_t tensors_bytes = tensor_count() * sizeof(bp_tensor);
  block_ = HostBuffer(host_bytes + tensors_bytes + dims_count * sizeof(int64_t));
  if (block_.empty()) return BP_OUT_OF_MEMORY;

  std::byte* next_bytes = block_.data();
  auto* tensors = reinterpret_cast<bp_tensor*>(block_.data() + host_bytes);
  auto* next_dims = reinterpret_cast<int64_t*>(block_.data() + host_bytes + tensors_bytes);
  for (size_t i = 0; i < tensor_count(); ++i) {
    bp_tensor* tensor = new (&tensors[i]) bp_tensor(args_.tensors[i]);
    if (is_host_argument(*tensor)) {
      byte_range(*tensor, dtype_bits(tensor->dtype), &range);  // checked above
      copy_host_bytes(tensor, range, &next_bytes);
    }
    copy_dims(tensor, &next_dims);
  }
  args_.tensors = tensors;
  return BP_OK;
}

bp_status LaunchTask::launch_now() const {
  return stream_.emulation.native().launch(*args_.kernel, args_);
}

void LaunchTask::run(Failure* failure) {
  if (failure->failed()) return;
  const bp_status status = launch_now();
  if (status == BP_OK) return;
  *failure = {sticky_status(status), args_.op_seq, Slot::kLaunch, args_.kernel};
  stream_.emulation.fail(failure->status, "", stream_.handle(), args_.op_seq);
}

}  // namespace

bp_status emulated_launch(bp_stream* stream, const bp_launch_args& args,
                          std::shared_ptr<const void> keep_alive) {
  EmulatedStream& target = EmulatedStream::from(stream);
  return target.emulation.guarded([&] {
    auto task = std::make_unique<LaunchTask>(target, args, std::move(keep_alive));
    const bp_status status = task->copy_arguments();
    return status == BP_OK ? target.queue->enqueue(std::move(task)) : status;
  });
}

bp_status call_launch(const DeviceTable& table, bp_stream* stream, const bp_launch_args& args,
                      std::shared_ptr<const void> keep_alive) {
  if (stream != nullptr && table.stream_emulated()) {
    return emulated_launch(stream, args, std::move(keep_alive));
  }
  bp_launch_args plugin_args = args;
  plugin_args.stream = stream;
  return table.launch(*plugin_args.kernel, plugin_args);
}

}  // namespace bp
