// SPDX-License-Identifier: Apache-2.0
#include "dlpack.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "asarray.hpp"
#include "gil.hpp"

namespace bp::python {
namespace {

using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;
using dlpack::DLTensor;

constexpr const char* kOldName = "dltensor";
constexpr const char* kName = "dltensor_versioned";
constexpr int64_t kMostReach = int64_t{1} << 56;  // bytes from an element to another of its axis

/// What a capsule of ours keeps alive. Consumers may end it on any thread, without the GIL: it
/// holds nothing of Python's.
template <class Managed>
struct Export {
  Managed managed{};
  std::array<int64_t, BP_MAX_RANK> sizes;
  std::array<int64_t, BP_MAX_RANK> strides;
  bpa_tensor* tensor = nullptr;           // whose memory is lent
  std::shared_ptr<RuntimeState> runtime;  // of that tensor
  std::unique_ptr<char[]> copied;         // or memory of its own

  Export() = default;
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;
  ~Export() {
    if (tensor == nullptr) return;
    bpa_tensor_release(tensor);
    runtime->drop_export();
  }
};

template <class Managed>
void end_export(Managed* managed) {
  delete static_cast<Export<Managed>*>(managed->manager_ctx);
}

/// Called when nobody took the capsule.
template <class Managed>
void drop_capsule(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;  // taken
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}
void drop_old(PyObject* capsule) { drop_capsule<DLManagedTensor>(capsule, kOldName); }
void drop_new(PyObject* capsule) { drop_capsule<DLManagedTensorVersioned>(capsule, kName); }

template <class Managed>
void lend_memory(Export<Managed>& lent, const TensorObject& tensor) {
  wait_for_writes(tensor);
  bpa_tensor_retain(tensor.handle());
  lent.tensor = tensor.handle();
  lent.runtime = tensor.device().runtime;
  lent.runtime->add_export();
  std::ranges::copy(tensor.strides(), lent.strides.begin());
  lent.managed.dl_tensor.data = tensor.info().bytes == 0 ? nullptr : tensor.host_address();
}

template <class Managed>
void lend_copy(Export<Managed>& lent, const TensorObject& tensor) {
  const uint64_t bytes = tensor.info().bytes;
  lent.copied = read_values(tensor);
  int64_t stride = 1;
  for (size_t i = tensor.sizes().size(); i-- > 0;) {
    lent.strides[i] = stride;
    stride *= tensor.sizes()[i];
  }
  lent.managed.dl_tensor.data = bytes == 0 ? nullptr : lent.copied.get();
}

template <class Managed>
std::unique_ptr<Export<Managed>> make_export(const TensorObject& tensor, bool is_copy) {
  auto lent = std::make_unique_for_overwrite<Export<Managed>>();
  is_copy ? lend_copy(*lent, tensor) : lend_memory(*lent, tensor);
  std::ranges::copy(tensor.sizes(), lent->sizes.begin());
  const Dtype& dtype = tensor.dtype();
  DLTensor& described = lent->managed.dl_tensor;
  described.device = {dlpack::kCpu, 0};
  described.ndim = static_cast<int32_t>(tensor.sizes().size());
  described.dtype = {dtype.dlpack_code, static_cast<uint8_t>(dtype.item_bytes * 8), 1};
  described.shape = lent->sizes.data();
  described.strides = lent->strides.data();
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = end_export<Managed>;
  return lent;
}

std::unique_ptr<Export<DLManagedTensorVersioned>> make_versioned(const TensorObject& tensor,
                                                                 bool is_copy) {
  auto lent = make_export<DLManagedTensorVersioned>(tensor, is_copy);
  lent->managed.version = {dlpack::kMajor, dlpack::kMinor};
  lent->managed.flags = (tensor.is_read_only() && !is_copy ? dlpack::kReadOnlyBit : 0) |
                        (is_copy ? dlpack::kCopiedBit : 0);
  return lent;
}

template <class Managed>
nb::object capsule_of(std::unique_ptr<Export<Managed>> lent, const char* name,
                      PyCapsule_Destructor destructor) {
  nb::object capsule = nb::steal(PyCapsule_New(&lent->managed, name, destructor));
  if (!capsule.is_valid()) throw nb::python_error();
  static_cast<void>(lent.release());  // the capsule's now
  return capsule;
}

void check_host_memory(const TensorObject& tensor, const char* function, const char* way) {
  if (tensor.device().is_host_memory) return;
  fail(PyExc_BufferError, std::string(function) + ": the memory of " + tensor.device().name +
                              " has no address that others could read; " + way + "use to_device()");
}

/// DLPack's versions and devices. Numbers that 64 bits cannot hold become the nearest.
std::array<int64_t, 2> parse_pair(nb::handle object, const char* place) {
  std::array<int64_t, 2> pair{};
  bool is_pair = is_plain_nested(object) && nb::len(object) == 2;
  for (size_t i = 0; is_pair && i < pair.size(); ++i) {
    const nb::object given(object[i]);  // devices are enums of Python's, too
    is_pair = PyIndex_Check(given.ptr()) != 0;
    pair[i] = is_pair ? PyNumber_AsSsize_t(given.ptr(), nullptr) : 0;
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
  }
  if (is_pair) return pair;
  fail(PyExc_TypeError, std::string(place) + ": expected a tuple of two integers, found " +
                            nb::cast<std::string>(nb::repr(object)));
}

bool takes_versions(nb::handle max_version) {
  if (max_version.is_none()) return false;
  return parse_pair(max_version, "__dlpack__: argument 'max_version'")[0] >= dlpack::kMajor;
}

// --- Taking in ----------------------------------------------------------------------------------

/// What a producer says is not to be believed: numbers that nothing can lie behind.
void check_shape(const DLTensor& lent, uint32_t item_bytes) {
  const auto refuse = [](const std::string& words) {
    fail(PyExc_BufferError, "from_dlpack: the array has " + words);
  };
  if (lent.ndim < 0 || lent.ndim > static_cast<int32_t>(BP_MAX_RANK)) {
    refuse(std::to_string(lent.ndim) + " dimensions, expected 0 to " + std::to_string(BP_MAX_RANK));
  }
  if (lent.ndim > 0 && lent.shape == nullptr) refuse("no shape");
  int64_t bytes = item_bytes;
  bool is_empty = false;
  for (int32_t i = 0; i < lent.ndim; ++i) {
    if (lent.shape[i] < 0) refuse("a size of " + std::to_string(lent.shape[i]));
    is_empty = is_empty || lent.shape[i] == 0;
  }
  for (int32_t i = 0; i < lent.ndim && !is_empty; ++i) {
    int64_t reach = 0;
    const bool is_far = lent.strides != nullptr &&
                        (__builtin_mul_overflow(lent.strides[i], int64_t{item_bytes}, &reach) ||
                         __builtin_mul_overflow(reach, lent.shape[i], &reach) ||
                         reach < -kMostReach || reach > kMostReach);
    if (is_far || __builtin_mul_overflow(bytes, lent.shape[i], &bytes)) {
      refuse("sizes or strides beyond any memory");
    }
  }
  if (lent.byte_offset > static_cast<uint64_t>(kMostReach)) refuse("an offset beyond any memory");
  if (!is_empty && lent.data == nullptr) refuse("elements, and no memory");
}

void describe(const DLTensor& lent, HostMemory& out_memory) {
  const Dtype* dtype = find_dlpack_dtype(lent.dtype.code, lent.dtype.bits, lent.dtype.lanes);
  if (dtype == nullptr) {
    fail(PyExc_BufferError, "from_dlpack: DLPack dtype code " + std::to_string(lent.dtype.code) +
                                " of " + std::to_string(lent.dtype.bits) + " bits and " +
                                std::to_string(lent.dtype.lanes) +
                                " lanes has no counterpart in backplane");
  }
  if (lent.device.device_type != dlpack::kCpu) {
    fail(PyExc_BufferError, "from_dlpack: the memory is of DLPack device type " +
                                std::to_string(lent.device.device_type) + ", expected CPU (1)");
  }
  check_shape(lent, dtype->item_bytes);
  out_memory.dtype = dtype;
  out_memory.first = static_cast<char*>(lent.data) + lent.byte_offset;
  out_memory.sizes.assign(lent.shape, lent.shape + lent.ndim);
  out_memory.strides_bytes.resize(out_memory.sizes.size());
  if (std::ranges::find(out_memory.sizes, 0) != out_memory.sizes.end()) return;  // no step is taken
  int64_t stride = 1;
  for (size_t i = out_memory.sizes.size(); i-- > 0;) {
    out_memory.strides_bytes[i] =
        (lent.strides == nullptr ? stride : lent.strides[i]) * dtype->item_bytes;
    stride *= out_memory.sizes[i];
  }
}

template <class Managed>
Managed* take_capsule(nb::handle capsule, const char* name, const char* used_name) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (managed == nullptr || PyCapsule_SetName(capsule.ptr(), used_name) != 0) {
    throw nb::python_error();
  }
  return managed;
}

template <class Managed>
void end_loan(void* lender) {
  auto* managed = static_cast<Managed*>(lender);
  if (managed->deleter != nullptr) managed->deleter(managed);
}

/// Takes it over, also where it throws.
void memory_from_managed(DLManagedTensorVersioned* managed, HostMemory& out_memory) {
  out_memory.loan = {end_loan<DLManagedTensorVersioned>, managed};
  if (managed->version.major != dlpack::kMajor) {
    fail(PyExc_BufferError, "from_dlpack: the array is described by DLPack " +
                                std::to_string(managed->version.major) + ", expected 1");
  }
  out_memory.is_read_only = (managed->flags & dlpack::kReadOnlyBit) != 0;
  describe(managed->dl_tensor, out_memory);
}

void memory_from_capsule(nb::handle capsule, HostMemory& out_memory) {
  if (PyCapsule_IsValid(capsule.ptr(), kName) != 0) {
    return memory_from_managed(
        take_capsule<DLManagedTensorVersioned>(capsule, kName, "used_dltensor_versioned"),
        out_memory);
  }
  if (PyCapsule_IsValid(capsule.ptr(), kOldName) == 0) {
    fail(PyExc_TypeError,
         "from_dlpack: __dlpack__() answered no DLPack capsule that is still to be used");
  }
  auto* managed = take_capsule<DLManagedTensor>(capsule, kOldName, "used_dltensor");
  out_memory.loan = {end_loan<DLManagedTensor>, managed};
  describe(managed->dl_tensor, out_memory);
}

/// Asks for memory that the host reads; older libraries know no arguments.
nb::object ask_for_capsule(nb::handle object, bool is_on_cpu) {
  const nb::object method = object.attr("__dlpack__");
  nb::dict keywords;
  keywords["max_version"] = nb::make_tuple(dlpack::kMajor, dlpack::kMinor);
  if (!is_on_cpu) keywords["dl_device"] = nb::make_tuple(dlpack::kCpu, 0);
  try {
    return call_python_with(method, nb::tuple(), keywords);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError) || !is_on_cpu) throw;
  }
  return call_python(method);
}

}  // namespace

void memory_from_dlpack(nb::handle object, Copy copy, HostMemory& out_memory) {
  if (LentTensor lent = lent_by_peer(object)) {
    return memory_from_managed(lent.release(), out_memory);
  }
  if (!nb::hasattr(object, "__dlpack__") || !nb::hasattr(object, "__dlpack_device__")) {
    fail(PyExc_TypeError, "from_dlpack: argument 'x': expected an array with __dlpack__, found " +
                              name_of_type(object));
  }
  if (is_negated(object)) {  // PyTorch 2.15 lends such views as they lie
    fail(PyExc_BufferError,
         "from_dlpack: argument 'x': expected values as they lie in memory, found a negated view");
  }
  const nb::object device = call_python(object.attr("__dlpack_device__"));
  const bool is_on_cpu =
      parse_pair(device, "from_dlpack: the answer of __dlpack_device__()")[0] == dlpack::kCpu;
  if (!is_on_cpu && copy == Copy::kNever) {
    fail_invalid("from_dlpack: argument 'copy' is False, and the array is not in host memory");
  }
  const nb::object capsule = ask_for_capsule(object, is_on_cpu);
  memory_from_capsule(capsule, out_memory);
}

nb::object tensor_from_dlpack(nb::handle object, nb::handle device, Copy copy) {
  HostMemory memory;
  memory_from_dlpack(object, copy, memory);
  return tensor_from_memory(std::move(memory), device, copy, "from_dlpack");
}

nb::object dlpack_device(const TensorObject& tensor) {
  check_host_memory(tensor, "__dlpack_device__", "ask __dlpack__ for dl_device=(1, 0), or ");
  return nb::make_tuple(dlpack::kCpu, 0);
}

nb::object dlpack_capsule(const TensorObject& tensor, const DlpackArgs& args) {
  const DeviceObject& device = tensor.device();
  device.check_open();
  if (!args.stream.is_none()) {
    fail_invalid("__dlpack__: argument 'stream': expected None for memory of the host");
  }
  const bool wants_cpu = !args.dl_device.is_none();
  if (wants_cpu && parse_pair(args.dl_device, "__dlpack__: argument 'dl_device'") !=
                       std::array<int64_t, 2>{dlpack::kCpu, 0}) {
    fail(PyExc_BufferError, "__dlpack__: argument 'dl_device': only (1, 0), the CPU, is there");
  }
  if (!device.is_host_memory && !wants_cpu) {
    check_host_memory(tensor, "__dlpack__", "ask for dl_device=(1, 0), or ");
  }
  const bool is_copy = !device.is_host_memory || args.copy == Copy::kAlways;
  if (is_copy && args.copy == Copy::kNever) {
    fail(PyExc_BufferError,
         "__dlpack__: argument 'copy' is False, and " + device.name + " has memory of its own");
  }
  const bool is_read_only = tensor.is_read_only() && !is_copy;
  if (!takes_versions(args.max_version)) {
    if (is_read_only) {
      fail(PyExc_BufferError,
           "__dlpack__: the tensor is read-only, which DLPack says from version 1.0 on; pass "
           "max_version, or copy=True");
    }
    return capsule_of(make_export<DLManagedTensor>(tensor, is_copy), kOldName, drop_old);
  }
  auto lent = make_versioned(tensor, is_copy);
  return capsule_of(std::move(lent), kName, drop_new);
}

dlpack::DLManagedTensorVersioned* lend_tensor(const TensorObject& tensor, const char* function) {
  tensor.device().check_open();
  check_host_memory(tensor, function, "");
  return &make_versioned(tensor, false).release()->managed;
}

nb::object take_tensor(dlpack::DLManagedTensorVersioned* managed) {
  HostMemory memory;
  memory_from_managed(managed, memory);
  return tensor_from_memory(std::move(memory), parse_device(nb::none(), "from_dlpack"),
                            Copy::kIfNeeded, "from_dlpack");
}

}  // namespace bp::python
