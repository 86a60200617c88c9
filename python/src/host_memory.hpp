// SPDX-License-Identifier: Apache-2.0
//
// Memory of other libraries, as the buffer protocol and DLPack lend it, and tensors made of it.
#ifndef BACKPLANE_PYTHON_HOST_MEMORY_HPP
#define BACKPLANE_PYTHON_HOST_MEMORY_HPP

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "gil.hpp"
#include "tensors.hpp"

namespace bp::python {

/// NumPy's: share where possible, always copy, or rather fail.
enum class Copy : uint8_t { kIfNeeded, kAlways, kNever };

Copy parse_copy(nb::handle object, const char* function);

/// A strided array in host memory. What it borrows is given back under the GIL.
struct HostMemory {
  const Dtype* dtype = nullptr;
  char* first = nullptr;  // element [0, 0, ...]
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides_bytes;
  bool is_read_only = false;
  std::function<void()> release;

  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }
  HostMemory& operator=(HostMemory&& other) noexcept {
    dtype = other.dtype;
    first = other.first;
    sizes = std::move(other.sizes);
    strides_bytes = std::move(other.strides_bytes);
    is_read_only = other.is_read_only;
    release = std::exchange(other.release, nullptr);
    return *this;
  }
  ~HostMemory() {
    if (release) release();
  }
};

/// While one lives, its thread copies between the host and a device, or between two devices. Where
/// that waits for a queue, the GIL is given away, whatever the size; else for a large copy alone.
class HostCopy {
 public:
  HostCopy(const DeviceObject& device, uint64_t bytes);

 private:
  std::optional<WithoutGil> release_;
};

/// A tensor over that memory where the device computes in host memory, else of a copy.
nb::object tensor_from_memory(HostMemory memory, nb::handle device, Copy copy,
                              const char* function);
/// A copy of contiguous values.
nb::object tensor_from_values(const Dtype& dtype, std::span<const int64_t> sizes,
                              const void* values, nb::handle device);

/// Whether letting go of a tensor of that device may wait for its queues: they may use memory that
/// was lent to the library.
bool release_may_wait(const DeviceObject& device);

/// Waits until nothing that the library does writes the tensor's memory any more.
void wait_for_writes(const TensorObject& tensor);

}  // namespace bp::python

#endif
