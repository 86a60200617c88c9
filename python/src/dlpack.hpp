// SPDX-License-Identifier: Apache-2.0
//
// DLPack both ways.
#ifndef BACKPLANE_PYTHON_DLPACK_HPP
#define BACKPLANE_PYTHON_DLPACK_HPP

#include <nanobind/nanobind.h>

#include "dlpack_abi.hpp"
#include "host_memory.hpp"
#include "tensors.hpp"

namespace bp::python {

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
/// others.
dlpack::DLManagedTensorVersioned* lend_tensor(const TensorObject& tensor);
/// A tensor over that memory, on the default device. Takes it over, also where it throws.
nb::object take_tensor(dlpack::DLManagedTensorVersioned* managed);

/// Gives the class Tensor its `__dlpack_c_exchange_api__`.
void bind_exchange_api();

}  // namespace bp::python

#endif
