// SPDX-License-Identifier: Apache-2.0
//
// Tensors of the C API. Memory that the caller brings is checked here, once: whatever sizes and
// strides say later stays inside it.
#include <array>

#include "core/api/deleter.hpp"
#include "core/api/handles.hpp"
#include "core/base/dtype.hpp"
#include "core/dispatch/call.hpp"

namespace bp {
namespace {

constexpr uint64_t kAlignment = 256;  // what plans count on, and express offsets by

Result<Dims> read_dims(const int64_t* values, uint32_t rank, std::string_view name,
                       std::string_view rank_name = "rank") {
  if (rank > BP_MAX_RANK) {
    return bad_argument(rank_name, "is " + std::to_string(rank) + ", expected at most " +
                                       std::to_string(BP_MAX_RANK));
  }
  if (rank > 0) BP_TRY(check_pointer(values, name));
  return Dims(std::span<const int64_t>(values, rank));
}

Result<uint64_t> checked_bytes(uint32_t dtype, const Dims& sizes, std::string_view prefix = {}) {
  if (!is_dtype(dtype)) {
    return bad_argument(std::string(prefix) + "dtype",
                        "is " + std::to_string(dtype) + ", which is no dtype code");
  }
  const auto count = checked_element_count(sizes);
  if (!count) {
    return bad_argument(std::string(prefix) + "sizes",
                        "are " + numbers_text(sizes) + ": negative or too large together");
  }
  return dtype_storage_bytes(dtype, *count);
}

Result<Ref<Tensor>> host_tensor(uint32_t dtype, const Dims& sizes, const void* data) {
  void* place = nullptr;
  BP_TRY_ASSIGN(HostTensor host, HostTensor::allocate(dtype, sizes, &place));
  if (host.bytes > 0) std::memcpy(place, data, host.bytes);
  return Tensor::wrap_host(std::move(host));
}

/// Elements of [sizes, strides] lie within `bytes` bytes, element [0, ...] at `offset`. In bytes,
/// by 128-bit integers: foreign strides overflow anything smaller.
Status check_inside(const bpa_wrap_args& args, const Dims& sizes, const Dims& strides) {
  if (element_count(sizes) == 0) return {};
  const uint32_t bits = dtype_bits(args.dtype);
  if (bits < 8 && !is_contiguous(sizes, strides)) {
    return bad_argument("args.strides", "of a dtype below one byte must be contiguous");
  }
  __extension__ using Wide = __int128;
  Wide lowest = 0;
  Wide highest = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Wide reach = Wide{sizes[i] - 1} * strides[i];
    if (reach > Wide{INT64_MAX} || reach < Wide{INT64_MIN}) {
      return bad_argument("args.strides", numbers_text(strides) + " are more than memory has");
    }
    (reach < 0 ? lowest : highest) += reach;
  }
  const Wide first = Wide{args.memory.offset_bytes} + lowest * bits / 8;
  const Wide end = Wide{args.memory.offset_bytes} + (highest * bits + bits + 7) / 8;
  if (first >= 0 && end <= Wide{args.bytes}) return {};
  return bad_argument(args.strides != nullptr ? "args.strides" : "args.sizes",
                      numbers_text(sizes) + " with strides " + numbers_text(strides) +
                          " from byte " + std::to_string(args.memory.offset_bytes) + " leave the " +
                          std::to_string(args.bytes) + " bytes of memory (args.bytes)");
}

Status check_place(const Device* device, const bpa_wrap_args& args, bool address) {
  if (args.memory.handle == 0) return bad_argument("args.memory", "has handle 0: no memory");
  const uint64_t start = address ? args.memory.handle : 0;
  // Also from the boundary below `start`, as wrap() counts.
  if (args.bytes > INT64_MAX - kAlignment || start > UINT64_MAX - args.bytes) {
    return bad_argument("args.bytes", "is " + std::to_string(args.bytes) + ", more than there is");
  }
  if (args.memory.offset_bytes > args.bytes) {
    return bad_argument("args.memory", "has offset " + std::to_string(args.memory.offset_bytes) +
                                           " beyond args.bytes, " + std::to_string(args.bytes));
  }
  const uint64_t element_bytes = std::max(dtype_bits(args.dtype) / 8, 1u);
  const uint64_t alignment = element_bytes & (~element_bytes + 1);
  if ((start + args.memory.offset_bytes) % alignment == 0) return {};
  return bad_argument("args.memory", "is not aligned to an element of " +
                                         std::to_string(element_bytes) + " bytes" +
                                         (device != nullptr ? " on " + device->name() : ""));
}

Status wrap(Device* device, const bpa_wrap_args& args, bpa_tensor** out_tensor) {
  BP_TRY_ASSIGN(const Dims sizes, read_dims(args.sizes, args.rank, "args.sizes", "args.rank"));
  BP_TRY(checked_bytes(args.dtype, sizes, "args."));
  Dims strides = contiguous_strides(sizes);
  if (args.strides != nullptr) {
    BP_TRY_ASSIGN(const Dims given,
                  read_dims(args.strides, args.rank, "args.strides", "args.rank"));
    // Where no step is ever taken the given stride means nothing, and may be any number: kernels
    // count with what they get.
    const bool is_empty = element_count(sizes) == 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (!is_empty && sizes[i] > 1) strides[i] = given[i];
    }
  }
  const bool address =
      device == nullptr || (device->table().props.flags & BP_DEVICE_ADDRESS_BIT) != 0;
  BP_TRY(check_place(device, args, address));
  BP_TRY(check_inside(args, sizes, strides));
  // Where handles are addresses the storage begins on a boundary, so that the tensor's offset tells
  // how it is aligned.
  const uint64_t skew = address ? args.memory.handle % kAlignment : 0;
  const auto deleter = std::make_shared<Deleter>();
  Ref<Storage> storage =
      Storage::wrap(device, args.memory.handle - skew, args.bytes + skew, deleter, skew);
  auto tensor = Ref<Tensor>::make(std::move(storage), args.dtype, sizes, strides,
                                  args.memory.offset_bytes + skew);
  if ((args.flags & BPA_TENSOR_READ_ONLY_BIT) != 0) tensor->forbid_writes();
  BP_TRY(give_tensor(std::move(tensor), out_tensor));
  deleter->arm(args.deleter, args.user);  // last: on an error the memory stays the caller's
  return {};
}

}  // namespace
}  // namespace bp

using bp::bad_argument;
using bp::check_pointer;
using bp::Dims;
using bp::guarded;
using bp::object_of;
using bp::Ref;
using bp::Status;
using bp::Tensor;

bpa_status bpa_tensor_create(bpa_device* device, uint32_t dtype, const int64_t* sizes,
                             uint32_t rank, bpa_tensor** out_tensor) {
  return guarded(out_tensor, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_tensor, "out_tensor"));
    BP_TRY_ASSIGN(const bp::DeviceUse target, object_of(device, "device"));
    BP_TRY_ASSIGN(const Dims dims, bp::read_dims(sizes, rank, "sizes"));
    BP_TRY(bp::checked_bytes(dtype, dims));
    BP_TRY(bp::check_open(*target));
    BP_TRY_ASSIGN(Ref<Tensor> tensor, Tensor::create(*target, dtype, dims));
    return bp::give_tensor(std::move(tensor), out_tensor);
  });
}

bpa_status bpa_tensor_from_host(bpa_device* device, uint32_t dtype, const int64_t* sizes,
                                uint32_t rank, const void* data, uint64_t bytes,
                                bpa_tensor** out_tensor) {
  return guarded(out_tensor, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_tensor, "out_tensor"));
    bp::DeviceUse target;
    if (device != nullptr) {
      BP_TRY_ASSIGN(target, object_of(device, "device"));
    }
    BP_TRY_ASSIGN(const Dims dims, bp::read_dims(sizes, rank, "sizes"));
    BP_TRY_ASSIGN(const uint64_t needed, bp::checked_bytes(dtype, dims));
    if (bytes != needed) {
      return bad_argument("bytes", "is " + std::to_string(bytes) + ", " +
                                       std::string(bp::dtype_name(dtype)) + bp::to_string(dims) +
                                       " has " + std::to_string(needed));
    }
    if (bytes > 0) BP_TRY(check_pointer(data, "data"));
    const Status values = bp::HostTensor{dtype, dims, data, bytes, nullptr}.check_values();
    if (!values.ok()) return values.with_prefix("argument data");
    if (target.get() == nullptr) {
      BP_TRY_ASSIGN(Ref<Tensor> host, bp::host_tensor(dtype, dims, data));
      return bp::give_tensor(std::move(host), out_tensor);
    }
    BP_TRY(bp::check_open(*target));
    BP_TRY_ASSIGN(Ref<Tensor> tensor, bp::copy_from_host(target->default_stream(), dtype, dims,
                                                         data, bp::MemoryTag::kIo));
    // Who takes the memory, or loses the stream, relies on the values being there.
    BP_TRY(tensor->storage().wait_on_host(false));
    return bp::give_tensor(std::move(tensor), out_tensor);
  });
}

bpa_status bpa_tensor_wrap(bpa_device* device, const bpa_wrap_args* args, bpa_tensor** out_tensor) {
  return guarded(out_tensor, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_tensor, "out_tensor"));
    BP_TRY(check_pointer(args, "args"));
    BP_TRY_ASSIGN(bpa_wrap_args given, bp::read_struct(args, "args", BPA_TENSOR_READ_ONLY_BIT));
    bp::DeviceUse target;
    if (device != nullptr) {
      BP_TRY_ASSIGN(target, object_of(device, "device"));
      BP_TRY(bp::check_open(*target));
    }
    return bp::wrap(target.get(), given, out_tensor);
  });
}

bpa_status bpa_tensor_to_host(bpa_tensor* tensor, void* out_data, uint64_t bytes) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(Tensor * source, object_of(tensor, "tensor"));
    const uint64_t needed = bp::dtype_storage_bytes(source->dtype(), source->element_count());
    if (bytes != needed) {
      return bad_argument("bytes", "is " + std::to_string(bytes) + ", " + source->describe() +
                                       " has " + std::to_string(needed));
    }
    if (bytes > 0) BP_TRY(check_pointer(out_data, "out_data"));
    BP_TRY(bp::check_open(*source));
    return bp::copy_to_host(Ref<Tensor>(source), out_data, bytes);
  });
}

bpa_status bpa_tensor_to_device(bpa_tensor* tensor, bpa_device* device, bpa_tensor** out_tensor) {
  return guarded(out_tensor, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_tensor, "out_tensor"));
    BP_TRY_ASSIGN(Tensor * source, object_of(tensor, "tensor"));
    BP_TRY_ASSIGN(const bp::DeviceUse target, object_of(device, "device"));
    BP_TRY(bp::check_open(*target));
    BP_TRY(bp::check_open(*source));
    if (source->device() == target.get()) {
      if (!bp::retain_handle(tensor, bp::HandleKind::kTensor)) {
        return bp::explain_handle(tensor, bp::HandleKind::kTensor, "tensor");
      }
      *out_tensor = tensor;
      return {};
    }
    BP_TRY_ASSIGN(Ref<Tensor> moved,
                  bp::copy_to_device(Ref<Tensor>(source), *target, target->default_stream(),
                                     bp::MemoryTag::kIo));
    return bp::give_tensor(std::move(moved), out_tensor);
  });
}

bpa_status bpa_tensor_get_info(bpa_tensor* tensor, bpa_tensor_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const Tensor* source, object_of(tensor, "tensor"));
    const bp::Storage& storage = source->storage();
    bpa_tensor_info info{};
    info.flags = source->is_read_only() ? BPA_TENSOR_READ_ONLY_BIT : 0;
    info.dtype = source->dtype();
    info.rank = static_cast<uint32_t>(source->sizes().size());
    info.sizes = source->sizes().data();
    info.strides = source->strides().data();
    info.device = bp::to_handle(source->device());
    info.bytes = bp::dtype_storage_bytes(source->dtype(), source->element_count());
    info.memory = {storage.handle(), storage.offset_bytes() + source->offset_bytes()};
    return bp::write_struct(out_info, info, "out_info");
  });
}

void bpa_tensor_retain(bpa_tensor* tensor) {
  if (tensor == nullptr || bp::forked()) return;
  if (!bp::retain_handle(tensor, bp::HandleKind::kTensor)) {
    bp::report_bad_release(tensor, bp::HandleKind::kTensor, "bpa_tensor_retain");
  }
}

void bpa_tensor_release(bpa_tensor* tensor) { bp::release(tensor, "bpa_tensor_release"); }
