// SPDX-License-Identifier: Apache-2.0
#include "host_memory.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "deferred.hpp"
#include "gil.hpp"
#include "interrupts.hpp"

namespace bp::python {
namespace {

std::atomic<int64_t> g_lent_to_queues{0};  // memories, as long as they are lent

bool is_contiguous(const HostMemory& memory) {
  int64_t expected = memory.dtype->item_bytes;
  for (size_t i = memory.sizes.size(); i-- > 0;) {
    if (memory.sizes[i] != 1 && memory.strides_bytes[i] != expected) return false;
    expected *= memory.sizes[i];
  }
  return true;
}

/// Copies the elements from axis `axis` on to `out_values`, and answers where the next ones go.
char* pack(const HostMemory& memory, size_t axis, const char* from, char* out_values) {
  const size_t item = memory.dtype->item_bytes;
  if (axis == memory.sizes.size()) {
    std::memcpy(out_values, from, item);
    return out_values + item;
  }
  const int64_t stride = memory.strides_bytes[axis];
  const int64_t size = memory.sizes[axis];
  if (axis + 1 == memory.sizes.size() && stride == static_cast<int64_t>(item)) {
    std::memcpy(out_values, from, static_cast<size_t>(size) * item);
    return out_values + static_cast<size_t>(size) * item;
  }
  for (int64_t i = 0; i < size; ++i)
    out_values = pack(memory, axis + 1, from + i * stride, out_values);
  return out_values;
}

/// Why the library cannot compute in this memory as it lies, or NULL.
const char* reason_to_copy(const HostMemory& memory, const DeviceObject& device) {
  if (!device.is_host_memory) return "the device has memory of its own";
  const auto alignment = memory.dtype->item_bytes / (memory.dtype->kind == Kind::kComplex ? 2 : 1);
  if (reinterpret_cast<uintptr_t>(memory.first) % alignment != 0) {
    return "the values are not aligned";
  }
  for (const int64_t stride : memory.strides_bytes) {
    if (stride % memory.dtype->item_bytes != 0) return "strides are no multiples of the item size";
  }
  return nullptr;
}

/// What a tensor of the library's keeps.
struct WrappedLoan {
  Loan loan;
  bool is_lent_to_queues;
};

void give_back(void* user) {
  defer([user] {
    const std::unique_ptr<WrappedLoan> wrapped(static_cast<WrappedLoan*>(user));
    if (wrapped->is_lent_to_queues) --g_lent_to_queues;
    wrapped->loan.end(wrapped->loan.lender);
  });
}

nb::object wrap(HostMemory& memory, nb::handle device) {
  char* low = memory.first;
  char* high = memory.first + memory.dtype->item_bytes;
  std::array<int64_t, BP_MAX_RANK> strides;
  for (size_t i = 0; i < memory.sizes.size(); ++i) {
    const int64_t reach = (memory.sizes[i] - 1) * memory.strides_bytes[i];
    (reach < 0 ? low : high) += reach;
    strides[i] = memory.strides_bytes[i] / memory.dtype->item_bytes;
  }
  const auto& target = nb::cast<const DeviceObject&>(device);
  auto loan = std::make_unique<WrappedLoan>(WrappedLoan{memory.loan, !target.is_inline});
  bpa_wrap_args args{};
  args.struct_size = sizeof(args);
  args.flags = memory.is_read_only ? BPA_TENSOR_READ_ONLY_BIT : 0;
  args.memory = {reinterpret_cast<uint64_t>(low), static_cast<uint64_t>(memory.first - low)};
  args.bytes = static_cast<uint64_t>(high - low);
  args.dtype = memory.dtype->code;
  args.rank = static_cast<uint32_t>(memory.sizes.size());
  args.sizes = memory.sizes.data();
  args.strides = strides.data();
  args.deleter = give_back;
  args.user = loan.get();
  bpa_tensor* made = nullptr;
  check(bpa_tensor_wrap(target.device.handle(), &args, &made));
  static_cast<void>(loan.release());  // the deleter's now
  if (!target.is_inline) ++g_lent_to_queues;
  memory.loan = {};
  return make_tensor(made, device);
}

}  // namespace

HostCopy::HostCopy(const DeviceObject& device, uint64_t bytes)
    : work_(device, bytes >= kLargeBytes || !is_done_at_once(device)) {}

int64_t count_elements(std::span<const int64_t> sizes) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;  // whatever the others are
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

std::unique_ptr<char[]> packed_values(const HostMemory& memory) {
  const auto bytes = static_cast<size_t>(count_elements(memory.sizes)) * memory.dtype->item_bytes;
  std::unique_ptr<char[]> packed = host_bytes(bytes);
  std::optional<WithoutGil> release;
  if (bytes >= kLargeBytes) release.emplace();
  if (bytes != 0) pack(memory, 0, memory.first, packed.get());
  return packed;
}

Copy parse_copy(nb::handle object, const char* function) {
  if (object.is_none()) return Copy::kIfNeeded;
  if (!PyBool_Check(object.ptr())) {
    fail(PyExc_TypeError, std::string(function) +
                              ": argument 'copy': expected True, False or None, found " +
                              name_of_type(object));
  }
  return object.ptr() == Py_True ? Copy::kAlways : Copy::kNever;
}

nb::object tensor_from_values(const Dtype& dtype, std::span<const int64_t> sizes,
                              const void* values, nb::handle device) {
  const auto& target = nb::cast<const DeviceObject&>(device);
  target.check_open();
  const auto bytes = static_cast<uint64_t>(count_elements(sizes)) * dtype.item_bytes;
  bpa_tensor* made = nullptr;
  {
    const HostCopy copy(target, bytes);
    check(bpa_tensor_from_host(target.device.handle(), dtype.code, sizes.data(),
                               static_cast<uint32_t>(sizes.size()), values, bytes, &made));
  }
  return make_tensor(made, device);
}

nb::object tensor_from_memory(HostMemory&& memory, nb::handle device, Copy copy,
                              const char* function) {
  const auto& target = nb::cast<const DeviceObject&>(device);
  target.check_open();
  run_deferred();
  const char* reason = reason_to_copy(memory, target);
  const bool is_empty = count_elements(memory.sizes) == 0;  // shares no element with anyone
  if (reason == nullptr && copy != Copy::kAlways && !is_empty) return wrap(memory, device);
  if (reason != nullptr && copy == Copy::kNever) {
    fail_invalid(std::string(function) + ": argument 'copy' is False, and " + reason);
  }
  if (is_empty || is_contiguous(memory)) {
    return tensor_from_values(*memory.dtype, memory.sizes, memory.first, device);
  }
  return tensor_from_values(*memory.dtype, memory.sizes, packed_values(memory).get(), device);
}

bool release_may_wait(const DeviceObject& device, bool is_of_stream) {
  if (device.is_inline) return !is_of_stream && has_busy_streams(device);
  return device.is_host_memory && g_lent_to_queues.load() != 0;
}

static void wait_for_writes_of(const DeviceObject& device, const bpa_tensor* tensor) {
  if (!device.is_inline) return check(bpa_device_sync(device.device.handle()));
  bpa_stream* stream = device.default_stream.handle();  // no queue: there the host waits
  check(bpa_stream_acquire_tensor(stream, tensor, BPA_ACCESS_READ_BIT));
  check(bpa_stream_release_tensor(stream, tensor, BPA_ACCESS_READ_BIT));
}

void wait_for_writes(const TensorObject& tensor) {
  const DeviceObject& device = tensor.device();
  if (is_wait_long(device)) {
    return call_interruptibly(
        [device, kept = shared_handle(tensor)] { wait_for_writes_of(device, kept.get()); });
  }
  const HostCopy release(device, tensor.info().bytes);
  wait_for_writes_of(device, tensor.handle());
}

}  // namespace bp::python
