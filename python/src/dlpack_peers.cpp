// SPDX-License-Identifier: Apache-2.0
//
// The exchange APIs of other libraries: arrays go to and fro without a call of their Python code.
#include <array>
#include <string>
#include <utility>

#include "dlpack.hpp"
#include "gil.hpp"

namespace bp::python {
namespace {

using dlpack::DLManagedTensorVersioned;
using dlpack::ExchangeApi;

/// A class, and what was found out about it. Both objects are held: no other class comes to lie
/// there, and the API stays.
struct Peer {
  PyTypeObject* type = nullptr;
  PyObject* capsule = nullptr;
  const ExchangeApi* api = nullptr;  // NULL: none that is known here
  bool has_requires_grad = false;
  bool has_is_neg = false;
  bool has_is_conj = false;
};

/// What arrays are asked. PyTorch has these names.
struct Names {
  PyObject* requires_grad = PyUnicode_InternFromString("requires_grad");
  PyObject* is_neg = PyUnicode_InternFromString("is_neg");
  PyObject* is_conj = PyUnicode_InternFromString("is_conj");
};

const Names& names() {
  static const Names made;
  return made;
}

/// Whatever went wrong, `__dlpack__` is asked next. Ctrl-C goes on.
void drop_exception() {
  if (PyErr_Occurred() == nullptr) return;
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw nb::python_error();
  PyErr_Clear();
}

/// The API that the class itself gives. A subclass may override in Python what an inherited one
/// passes by.
nb::object find_capsule(PyTypeObject* type) {
  const auto* object = reinterpret_cast<PyObject*>(type);
  const nb::object own =
      nb::steal(PyObject_GetAttrString(const_cast<PyObject*>(object), "__dict__"));
  nb::object capsule;
  if (own.is_valid()) {
    capsule = nb::steal(PyMapping_GetItemString(own.ptr(), "__dlpack_c_exchange_api__"));
  }
  if (!capsule.is_valid()) drop_exception();
  return capsule;
}

Peer describe(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  Peer peer;
  peer.has_requires_grad = PyObject_HasAttr(object, names().requires_grad) != 0;
  peer.has_is_neg = PyObject_HasAttr(object, names().is_neg) != 0;
  peer.has_is_conj = PyObject_HasAttr(object, names().is_conj) != 0;
  nb::object capsule = find_capsule(type);
  if (capsule.is_valid() && PyCapsule_IsValid(capsule.ptr(), dlpack::kExchangeName) != 0) {
    const auto* api =
        static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeName));
    if (api->header.version.major == dlpack::kMajor) peer.api = api;
  }
  peer.type = type;
  Py_INCREF(object);
  peer.capsule = capsule.release().ptr();
  return peer;
}

/// By value: what is asked next may run Python code, which changes the list.
Peer peer_of(PyTypeObject* type) {
  static std::array<Peer, 4> known;
  static size_t next = 0;
  for (const Peer& peer : known) {
    if (peer.type == type) return peer;
  }
  const Peer peer = describe(type);
  const Peer old = std::exchange(known[next++ % known.size()], peer);
  Py_XDECREF(old.capsule);
  Py_XDECREF(reinterpret_cast<PyObject*>(old.type));
  return peer;
}

/// Takes a new reference, or NULL and an exception.
bool is_false(PyObject* answer) {
  const nb::object kept = nb::steal(answer);
  if (answer == nullptr) drop_exception();
  return answer == Py_False;
}

PyObject* attribute_of(nb::handle array, PyObject* name) {
  return stopping_if_unwound([&] { return PyObject_GetAttr(array.ptr(), name); });
}

PyObject* answer_of(nb::handle array, PyObject* method) {
  return stopping_if_unwound(
      [&] { return PyObject_CallMethodObjArgs(array.ptr(), method, nullptr); });
}

/// Whether memory is all there is to the values. Exchange APIs lend others as they lie.
bool is_plain(const Peer& peer, nb::handle array, bool is_complex) {
  return (!peer.has_requires_grad || is_false(attribute_of(array, names().requires_grad))) &&
         (!peer.has_is_neg || is_false(answer_of(array, names().is_neg))) &&
         (!peer.has_is_conj || !is_complex || is_false(answer_of(array, names().is_conj)));
}

}  // namespace

LentTensor lent_by_peer(nb::handle array) {
  const Peer peer = peer_of(Py_TYPE(array.ptr()));
  if (peer.api == nullptr || peer.api->managed_tensor_from_py_object_no_sync == nullptr) return {};
  DLManagedTensorVersioned* managed = nullptr;
  const int status = stopping_if_unwound(
      [&] { return peer.api->managed_tensor_from_py_object_no_sync(array.ptr(), &managed); });
  LentTensor lent(status == 0 ? managed : nullptr);
  if (lent == nullptr) drop_exception();
  if (lent == nullptr || lent->version.major != dlpack::kMajor) return {};
  const dlpack::DLTensor& tensor = lent->dl_tensor;
  const bool is_on_cpu = tensor.device.device_type == dlpack::kCpu;  // where nothing is waited for
  if (!is_on_cpu || !is_plain(peer, array, tensor.dtype.code == dlpack::kComplex)) return {};
  return lent;
}

bool is_negated(nb::handle array) {
  if (!peer_of(Py_TYPE(array.ptr())).has_is_neg) return false;
  const nb::object answer = nb::steal(answer_of(array, names().is_neg));
  if (!answer.is_valid()) drop_exception();
  return answer.ptr() == Py_True;
}

nb::object array_of_peer(nb::handle x, nb::handle array_type) {
  if (!is_tensor(x.ptr())) {
    fail(PyExc_TypeError, "to_dlpack: argument 'x': expected a Tensor, found " + name_of_type(x));
  }
  const ExchangeApi* api = PyType_Check(array_type.ptr()) != 0
                               ? peer_of(reinterpret_cast<PyTypeObject*>(array_type.ptr())).api
                               : nullptr;
  if (api == nullptr || api->managed_tensor_to_py_object_no_sync == nullptr) {
    fail(PyExc_TypeError,
         "to_dlpack: argument 'array_type': expected a class with a __dlpack_c_exchange_api__ of "
         "its own (DLPack 1), found " +
             nb::cast<std::string>(nb::repr(array_type)) +
             "; call its library's from_dlpack() instead");
  }
  DLManagedTensorVersioned* lent = lend_tensor(tensor_of(x), "to_dlpack");
  void* made = nullptr;
  const int status = stopping_if_unwound(
      [&] { return api->managed_tensor_to_py_object_no_sync(lent, &made); });  // takes it over
  if (status == 0 && made != nullptr) return nb::steal(static_cast<PyObject*>(made));
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  fail(PyExc_RuntimeError, "to_dlpack: the exchange API of " +
                               nb::cast<std::string>(nb::repr(array_type)) +
                               " made no array, and does not say why");
}

}  // namespace bp::python
