// SPDX-License-Identifier: Apache-2.0
//
// Memory of other libraries, as the buffer protocol and DLPack lend it, and tensors made of it.
#ifndef BACKPLANE_PYTHON_HOST_MEMORY_HPP
#define BACKPLANE_PYTHON_HOST_MEMORY_HPP

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "streams.hpp"
#include "tensors.hpp"

namespace bp::python {

/// NumPy's: share where possible, always copy, or rather fail.
enum class Copy : uint8_t { kIfNeeded, kAlways, kNever };

Copy parse_copy(nb::handle object, const char* function);

/// A number for each axis.
class AxisValues {
 public:
  /// At most BP_MAX_RANK of them.
  void assign(const int64_t* begin, const int64_t* end) {
    std::copy(begin, end, values_.begin());
    size_ = static_cast<size_t>(end - begin);
  }
  void resize(size_t size) {
    if (size > size_) std::fill(values_.begin() + size_, values_.begin() + size, 0);
    size_ = size;
  }
  size_t size() const { return size_; }
  const int64_t* data() const { return values_.data(); }
  int64_t& operator[](size_t i) { return values_[i]; }
  int64_t operator[](size_t i) const { return values_[i]; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }

 private:
  std::array<int64_t, BP_MAX_RANK> values_;  // as many as there are axes
  size_t size_ = 0;
};

/// What somebody lends, until `end(lender)` is called.
struct Loan {
  void (*end)(void* lender) = nullptr;  // NULL: nothing is lent
  void* lender = nullptr;
};

/// A strided array in host memory. What it borrows is given back under the GIL.
struct HostMemory {
  const Dtype* dtype = nullptr;
  char* first = nullptr;  // element [0, 0, ...]
  AxisValues sizes;
  AxisValues strides_bytes;
  bool is_read_only = false;
  Loan loan;

  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() {
    if (loan.end != nullptr) loan.end(loan.lender);
  }
};

/// While one lives, its thread copies between the host and a device, or between two devices. Where
/// that waits for a queue, the GIL is given away, whatever the size; else for a large copy alone.
class HostCopy {
 public:
  HostCopy(const DeviceObject& device, uint64_t bytes);

 private:
  Work work_;
};

/// The values, contiguous.
std::unique_ptr<char[]> packed_values(const HostMemory& memory);
int64_t count_elements(std::span<const int64_t> sizes);

/// A tensor over that memory where the device computes in host memory, else of a copy.
nb::object tensor_from_memory(HostMemory&& memory, nb::handle device, Copy copy,
                              const char* function);
/// A copy of contiguous values.
nb::object tensor_from_values(const Dtype& dtype, std::span<const int64_t> sizes,
                              const void* values, nb::handle device);

/// Whether letting go of a tensor of that device may wait: for its queues, which may use memory
/// that was lent to the library, or on an inline device for a stream other than the one that made
/// it.
bool release_may_wait(const DeviceObject& device, bool is_of_stream);

/// Waits until nothing that the library does writes the tensor's memory any more.
void wait_for_writes(const TensorObject& tensor);

}  // namespace bp::python

#endif
