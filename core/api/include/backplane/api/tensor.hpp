// SPDX-License-Identifier: Apache-2.0
//
// Tensors and operator calls of the C++ API. Included by backplane.hpp.
#ifndef BACKPLANE_API_TENSOR_HPP
#define BACKPLANE_API_TENSOR_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backplane/api/runtime.hpp"
#include "backplane/api/stream.hpp"

namespace bp {
inline namespace api {

/// A strided view of values on a device or in host memory. Empty when default-constructed: that is
/// how an absent optional operator input is written.
class Tensor {
 public:
  Tensor() = default;
  /// Takes over a reference.
  static Tensor adopt(bpa_tensor* handle) {
    Tensor tensor;
    tensor.handle_ = handle;
    return tensor;
  }
  Tensor(const Tensor& other) : handle_(other.handle_) { bpa_tensor_retain(handle_); }
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor() {
    if (handle_ != nullptr) bpa_tensor_release(handle_);
  }

  /// Uninitialised.
  static Tensor create(Device device, uint32_t dtype, std::span<const int64_t> sizes) {
    bpa_tensor* handle = nullptr;
    detail::check(bpa_tensor_create(device.handle(), dtype, sizes.data(),
                                    static_cast<uint32_t>(sizes.size()), &handle));
    return adopt(handle);
  }
  static Tensor create(Device device, uint32_t dtype, std::initializer_list<int64_t> sizes) {
    return create(device, dtype, std::span<const int64_t>(sizes.begin(), sizes.size()));
  }

  /// Copies contiguous values; their count must match the sizes. A default Device: host memory.
  template <class T>
  static Tensor from_host(Device device, std::span<const T> values,
                          std::span<const int64_t> sizes) {
    bpa_tensor* handle = nullptr;
    detail::check(bpa_tensor_from_host(device.handle(), detail::dtype_of<T>(), sizes.data(),
                                       static_cast<uint32_t>(sizes.size()), values.data(),
                                       values.size() * sizeof(T), &handle));
    return adopt(handle);
  }
  template <class T>
  static Tensor from_host(Device device, const std::vector<T>& values,
                          std::initializer_list<int64_t> sizes) {
    const std::span<const int64_t> extents(sizes.begin(), sizes.size());
    if constexpr (std::is_same_v<T, bool>) {  // that vector has bits
      const auto bytes = std::make_unique<bool[]>(values.size());
      std::copy(values.begin(), values.end(), bytes.get());
      return from_host<bool>(device, std::span<const bool>(bytes.get(), values.size()), extents);
    } else {
      return from_host<T>(device, std::span<const T>(values), extents);
    }
  }

  /// A tensor in memory that is not the library's, as bpa_tensor_wrap says; args.deleter and
  /// args.user are not looked at. `on_release` is called once, when the last use is over, and not
  /// at all if this throws. It must not throw.
  static Tensor wrap(Device device, bpa_wrap_args args, std::function<void()> on_release = {}) {
    auto owned = std::make_unique<std::function<void()>>(std::move(on_release));
    args.struct_size = sizeof(args);
    args.deleter = [](void* user) {
      const std::unique_ptr<std::function<void()>> last(static_cast<std::function<void()>*>(user));
      if (*last) (*last)();
    };
    args.user = owned.get();
    bpa_tensor* handle = nullptr;
    detail::check(bpa_tensor_wrap(device.handle(), &args, &handle));
    owned.release();
    return adopt(handle);
  }
  /// Contiguous values of the caller, in host memory; a device must be able to reach it
  /// (BP_DEVICE_HOST_MEMORY_BIT). A default Device: host memory that moves where it is used.
  template <class T>
  static Tensor wrap_host(Device device, std::span<T> values, std::span<const int64_t> sizes,
                          std::function<void()> on_release = {}) {
    bpa_wrap_args args{};
    args.memory.handle = reinterpret_cast<uint64_t>(values.data());
    args.bytes = values.size_bytes();
    args.dtype = detail::dtype_of<T>();
    args.rank = static_cast<uint32_t>(sizes.size());
    args.sizes = sizes.data();
    return wrap(device, args, std::move(on_release));
  }
  template <class T>
  static Tensor wrap_host(Device device, std::vector<T>& values,
                          std::initializer_list<int64_t> sizes,
                          std::function<void()> on_release = {}) {
    return wrap_host<T>(device, std::span<T>(values),
                        std::span<const int64_t>(sizes.begin(), sizes.size()),
                        std::move(on_release));
  }

  bpa_tensor* handle() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

  uint32_t dtype() const { return info().dtype; }
  std::vector<int64_t> sizes() const {
    const bpa_tensor_info found = info();
    return {found.sizes, found.sizes + found.rank};
  }
  Device device() const { return Device(info().device); }
  bpa_tensor_info info() const {
    bpa_tensor_info found{};
    found.struct_size = sizeof(found);
    detail::check(bpa_tensor_get_info(handle_, &found));
    return found;
  }

  bool is_read_only() const { return (info().flags & BPA_TENSOR_READ_ONLY_BIT) != 0; }
  /// In the same memory, as bpa_tensor_view says. flags: BPA_TENSOR_READ_ONLY_BIT or 0.
  Tensor view(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset = 0,
              uint32_t flags = 0) const {
    if (sizes.size() != strides.size()) {
      throw Error(BP_INVALID_ARGUMENT, "Tensor::view: " + std::to_string(sizes.size()) +
                                           " sizes and " + std::to_string(strides.size()) +
                                           " strides, expected as many");
    }
    bpa_tensor* view = nullptr;
    detail::check(bpa_tensor_view(handle_, sizes.data(), strides.data(),
                                  static_cast<uint32_t>(sizes.size()), offset, flags, &view));
    return adopt(view);
  }
  Tensor view(std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides,
              int64_t offset = 0, uint32_t flags = 0) const {
    return view(std::span(sizes.begin(), sizes.size()), std::span(strides.begin(), strides.size()),
                offset, flags);
  }
  /// The same bytes as another dtype, as bpa_tensor_view_as says.
  Tensor view_as(uint32_t dtype) const {
    bpa_tensor* view = nullptr;
    detail::check(bpa_tensor_view_as(handle_, dtype, &view));
    return adopt(view);
  }
  /// Writes the values of `source` into this tensor's memory, as bpa_tensor_assign says.
  void assign(const Tensor& source) const {
    detail::check(bpa_tensor_assign(nullptr, handle_, source.handle_));
  }
  void assign(const Tensor& source, const Stream& stream) const {
    detail::check(bpa_tensor_assign(stream.handle(), handle_, source.handle_));
  }

  /// Waits; an asynchronous error surfaces here. The span must have exactly the values' size.
  template <class T>
  void to_host(std::span<T> out_values) const {
    check_dtype(detail::dtype_of<T>());
    detail::check(bpa_tensor_to_host(handle_, out_values.data(), out_values.size_bytes()));
  }
  template <class T>
  std::vector<T> to_vector() const {
    const auto count = static_cast<size_t>(info().bytes / sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {  // that vector has bits
      const auto bytes = std::make_unique<bool[]>(count);
      to_host<bool>(std::span<bool>(bytes.get(), count));
      return std::vector<bool>(bytes.get(), bytes.get() + count);
    } else {
      std::vector<T> values(count);
      to_host<T>(std::span<T>(values));
      return values;
    }
  }
  Tensor to(Device device) const {
    bpa_tensor* handle = nullptr;
    detail::check(bpa_tensor_to_device(handle_, device.handle(), &handle));
    return adopt(handle);
  }

 private:
  void check_dtype(uint32_t expected) const {
    const uint32_t found = dtype();
    if (found == expected) return;
    throw Error(BP_INVALID_ARGUMENT, "the tensor's dtype code is " + std::to_string(found) +
                                         ", read as " + std::to_string(expected));
  }

  bpa_tensor* handle_ = nullptr;
};

inline void Stream::acquire(const Tensor& tensor, uint32_t access) const {
  detail::check(bpa_stream_acquire_tensor(handle_.get(), tensor.handle(), access));
}

inline void Stream::release(const Tensor& tensor, uint32_t access) const {
  detail::check(bpa_stream_release_tensor(handle_.get(), tensor.handle(), access));
}

namespace detail {

/// What <backplane/ops.hpp> is made of: one operator call with N outputs.
template <size_t N>
std::array<Tensor, N> call_op_outputs(uint32_t op_id, std::span<const bpa_tensor* const> inputs,
                                      const void* attributes, const Stream& stream) {
  std::array<bpa_tensor*, N> outputs{};
  const auto count = static_cast<uint32_t>(inputs.size());
  check(stream.handle() != nullptr
            ? bpa_op_call_on(stream.handle(), op_id, inputs.data(), count, attributes, 0,
                             outputs.data(), N)
            : bpa_op_call(nullptr, op_id, inputs.data(), count, attributes, 0, outputs.data(), N));
  std::array<Tensor, N> tensors;
  for (size_t i = 0; i < N; ++i) tensors[i] = Tensor::adopt(outputs[i]);
  return tensors;
}

template <size_t N>
std::array<Tensor, N> call_op_outputs(uint32_t op_id,
                                      std::initializer_list<const bpa_tensor*> inputs,
                                      const void* attributes, const Stream& stream) {
  return call_op_outputs<N>(op_id, std::span(inputs.begin(), inputs.size()), attributes, stream);
}

/// The same of as many outputs as an attribute says; where that is no number of outputs, the call
/// refuses the attribute.
inline std::vector<Tensor> call_op_counted(uint32_t op_id,
                                           std::initializer_list<const bpa_tensor*> inputs,
                                           const void* attributes, const Stream& stream,
                                           int64_t output_count) {
  constexpr int64_t kMost = 65536;  // more than any operator may have
  std::vector<bpa_tensor*> outputs(
      static_cast<size_t>(std::clamp<int64_t>(output_count, 1, kMost)));
  const auto count = static_cast<uint32_t>(outputs.size());
  const auto input_count = static_cast<uint32_t>(inputs.size());
  check(stream.handle() != nullptr
            ? bpa_op_call_on(stream.handle(), op_id, inputs.begin(), input_count, attributes, 0,
                             outputs.data(), count)
            : bpa_op_call(nullptr, op_id, inputs.begin(), input_count, attributes, 0,
                          outputs.data(), count));
  std::vector<Tensor> tensors;
  tensors.reserve(outputs.size());
  for (bpa_tensor* output : outputs) tensors.push_back(Tensor::adopt(output));
  return tensors;
}

inline Tensor call_op(uint32_t op_id, std::span<const bpa_tensor* const> inputs,
                      const void* attributes, const Stream& stream) {
  return std::move(call_op_outputs<1>(op_id, inputs, attributes, stream)[0]);
}

inline Tensor call_op(uint32_t op_id, std::initializer_list<const bpa_tensor*> inputs,
                      const void* attributes, const Stream& stream) {
  return call_op(op_id, std::span(inputs.begin(), inputs.size()), attributes, stream);
}

}  // namespace detail
}  // namespace api
}  // namespace bp

#endif
