// SPDX-License-Identifier: Apache-2.0
//
// DLPack both ways.
#ifndef BACKPLANE_PYTHON_DLPACK_HPP
#define BACKPLANE_PYTHON_DLPACK_HPP

#include <nanobind/nanobind.h>

#include <memory>

#include "dlpack_abi.hpp"
#include "host_memory.hpp"
#include "tensors.hpp"

namespace bp::python {

/// The host memory that another library's array lends. With Copy::kNever an array elsewhere is an
/// error.
void memory_from_dlpack(nb::handle object, Copy copy, HostMemory& out_memory);
/// A tensor over the memory that another library's array lends, on `device`.
nb::object tensor_from_dlpack(nb::handle object, nb::handle device, Copy copy);

struct DlpackArgs {
  nb::handle stream;
  nb::handle max_version;
  nb::handle dl_device;
  Copy copy = Copy::kIfNeeded;
};

/// The capsule of `__dlpack__`.
nb::object dlpack_capsule(const TensorObject& tensor, const DlpackArgs& args);
nb::object dlpack_device(const TensorObject& tensor);

/// The memory of a tensor that the host reads; the caller owns the answer. Throws BufferError for
/// others, naming `function`.
dlpack::DLManagedTensorVersioned* lend_tensor(const TensorObject& tensor, const char* function);
/// A tensor over that memory, on the default device. Takes it over, also where it throws.
nb::object take_tensor(dlpack::DLManagedTensorVersioned* managed);

struct GiveBack {
  void operator()(dlpack::DLManagedTensorVersioned* managed) const {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
};
/// Memory that is lent to us.
using LentTensor = std::unique_ptr<dlpack::DLManagedTensorVersioned, GiveBack>;

/// What another library's array lends by the exchange API of its class. NULL where it does not, or
/// might differ from `__dlpack__`: to be asked then.
LentTensor lent_by_peer(nb::handle array);
/// Whether the values are the negatives of what lies in memory, which DLPack cannot say.
bool is_negated(nb::handle array);
/// to_dlpack: another library's array in the memory of a tensor.
nb::object array_of_peer(nb::handle x, nb::handle array_type);

/// Gives the class Tensor its `__dlpack_c_exchange_api__`, and the module to_dlpack.
void bind_exchange_api(nb::module_& module);

}  // namespace bp::python

#endif
