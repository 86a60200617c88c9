// SPDX-License-Identifier: Apache-2.0
//
// The buffer protocol: memory of others taken in, and a tensor's memory lent to NumPy.
#include "buffers.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "asarray.hpp"

namespace bp::python {
namespace {

/// The dtype that a format means, by its kind and the item's size: 'l' has two.
const Dtype* dtype_of_format(std::string_view format, uint32_t item_bytes) {
  if (!format.empty() && std::string_view("@=<").find(format[0]) != std::string_view::npos) {
    format.remove_prefix(1);
  }
  if (format.size() == 2 && format[0] == 'Z') return find_dtype(Kind::kComplex, item_bytes);
  if (format.size() != 1) return nullptr;
  const auto is_in = [&](std::string_view set) { return set.find(format[0]) != set.npos; };
  if (is_in("?")) return find_dtype(Kind::kBool, item_bytes);
  if (is_in("bhilqn")) return find_dtype(Kind::kInt, item_bytes);
  if (is_in("BHILQN")) return find_dtype(Kind::kUint, item_bytes);
  return is_in("efd") ? find_dtype(Kind::kFloat, item_bytes) : nullptr;
}

[[noreturn]] void refuse_format(nb::handle object, const std::string& format,
                                const char* function) {
  const std::string start = std::string(function) + ": argument 'obj': ";
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  const std::string named = dtype.is_none() ? "format '" + format + "'"
                                            : "dtype " + nb::cast<std::string>(nb::str(dtype));
  if (!format.empty() && (format[0] == '>' || format[0] == '!')) {
    fail_invalid(start + named + " has another byte order than this machine; convert it with " +
                 ".astype(x.dtype.newbyteorder('='))");
  }
  fail(PyExc_TypeError, start + named + " has no counterpart in backplane");
}

struct BufferHolder {
  Py_buffer view{};
  ~BufferHolder() { PyBuffer_Release(&view); }
};

/// A dtype that the buffer protocol has no letter for, of arrays that can show their bits.
const Dtype* unlettered_dtype(nb::handle object) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  if (dtype.is_none() || !nb::hasattr(object, "view")) return nullptr;
  const nb::object name = nb::getattr(dtype, "name", nb::none());
  if (!nb::isinstance<nb::str>(name)) return nullptr;
  const Dtype* row = find_dtype(std::string_view(nb::cast<std::string>(name)));
  return row != nullptr && !row->has_format ? row : nullptr;
}

/// Of dates and bytes NumPy's scalars, though not its arrays, lend plain bytes.
bool is_bytes_of_another_dtype(nb::handle object) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  const nb::object name = nb::getattr(dtype, "name", nb::none());
  return nb::isinstance<nb::str>(name) && nb::cast<std::string>(name) != "uint8";
}

void describe_memory(std::unique_ptr<BufferHolder> holder, const Dtype& dtype, const char* function,
                     HostMemory& out_memory) {
  const Py_buffer& view = holder->view;
  out_memory.dtype = &dtype;
  out_memory.first = static_cast<char*>(view.buf);
  out_memory.is_read_only = view.readonly != 0;
  if (view.ndim > static_cast<int>(BP_MAX_RANK)) {
    fail_invalid(std::string(function) + ": argument 'obj': expected at most " +
                 std::to_string(BP_MAX_RANK) + " dimensions, found " + std::to_string(view.ndim));
  }
  out_memory.sizes.assign(view.shape, view.shape + view.ndim);
  if (view.strides != nullptr) {
    out_memory.strides_bytes.assign(view.strides, view.strides + view.ndim);
  } else {  // of ctypes, also where they were asked for
    int64_t stride = view.itemsize;
    out_memory.strides_bytes.resize(out_memory.sizes.size());
    for (size_t i = out_memory.sizes.size(); i-- > 0;) {
      out_memory.strides_bytes[i] = stride;
      stride *= out_memory.sizes[i];
    }
  }
  out_memory.loan = {[](void* lender) { delete static_cast<BufferHolder*>(lender); },
                     holder.release()};
}

/// Backs `_HostBuffer`: a tensor's memory, lent by address.
struct HostBuffer {
  explicit HostBuffer(nb::handle_t<TensorObject> tensor) : owner(nb::borrow(tensor)) {
    const TensorObject& lent = tensor_of(tensor);
    lent.device().check_open();
    if (!lent.device().is_host_memory) fail(PyExc_BufferError, "the host cannot read the memory");
    wait_for_writes(lent);
    for (size_t i = 0; i < lent.sizes().size(); ++i) {
      sizes.push_back(static_cast<Py_ssize_t>(lent.sizes()[i]));
      strides.push_back(static_cast<Py_ssize_t>(lent.strides()[i] * lent.dtype().item_bytes));
    }
    lent.device().runtime->add_export();
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() {
    const std::shared_ptr<RuntimeState> runtime = tensor().device().runtime;
    owner.reset();
    runtime->drop_export();
  }
  const TensorObject& tensor() const { return tensor_of(owner); }

  nb::object owner;
  std::vector<Py_ssize_t> sizes;
  std::vector<Py_ssize_t> strides;
};

int get_buffer(PyObject* self, Py_buffer* out_view, int flags) {
  if (!nb::inst_ready(self)) {
    out_view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, "the object was not made by its constructor");
    return -1;
  }
  HostBuffer& lent = *nb::inst_ptr<HostBuffer>(self);
  const TensorObject& tensor = lent.tensor();
  const bool is_writable = !tensor.is_read_only();
  const char* words = (flags & PyBUF_WRITABLE) != 0 && !is_writable ? "the tensor is read-only"
                      : (flags & PyBUF_STRIDES) != PyBUF_STRIDES && !tensor.is_contiguous()
                          ? "the tensor is strided"
                          : nullptr;
  if (words != nullptr) {
    out_view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, words);
    return -1;
  }
  static char nothing[16];  // an empty tensor may lie nowhere
  *out_view = {};
  out_view->buf = tensor.info().bytes == 0 ? nothing : tensor.host_address();
  out_view->obj = self;
  Py_INCREF(self);
  out_view->len = static_cast<Py_ssize_t>(tensor.info().bytes);
  out_view->itemsize = tensor.dtype().item_bytes;
  out_view->readonly = is_writable ? 0 : 1;
  out_view->ndim = static_cast<int>(lent.sizes.size());
  if ((flags & PyBUF_FORMAT) != 0) out_view->format = const_cast<char*>(tensor.dtype().format);
  if ((flags & PyBUF_ND) != 0) out_view->shape = lent.sizes.data();
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) out_view->strides = lent.strides.data();
  return 0;
}

const PyType_Slot kSlots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {0, nullptr},
};

/// Reads a tensor into a writable, contiguous buffer.
void read_into(nb::handle_t<TensorObject> tensor, nb::handle target) {
  BufferHolder holder;
  if (PyObject_GetBuffer(target.ptr(), &holder.view, PyBUF_WRITABLE) != 0) {
    throw nb::python_error();
  }
  read_values(tensor_of(tensor), holder.view.buf, static_cast<uint64_t>(holder.view.len));
}

}  // namespace

bool memory_from_buffer(nb::handle object, const char* function, HostMemory& out_memory) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  auto holder = std::make_unique<BufferHolder>();
  const Dtype* unlettered = nullptr;
  if (PyObject_GetBuffer(object.ptr(), &holder->view, PyBUF_RECORDS_RO) != 0) {
    nb::python_error refused;  // takes the error over
    if (!nb::hasattr(object, "dtype")) throw refused;
    unlettered = unlettered_dtype(object);  // NumPy has no letter for bfloat16, dates, ...
    if (unlettered == nullptr) refuse_format(object, "", function);
    const nb::object bits = object.attr("view")(unlettered->item_bytes == 2 ? "uint16" : "uint8");
    if (PyObject_GetBuffer(bits.ptr(), &holder->view, PyBUF_RECORDS_RO) != 0) {
      throw nb::python_error();
    }
  }
  const std::string format = holder->view.format == nullptr ? "B" : holder->view.format;
  const auto item_bytes = static_cast<uint32_t>(holder->view.itemsize);
  const Dtype* dtype = unlettered != nullptr ? unlettered : dtype_of_format(format, item_bytes);
  const bool is_misnamed =
      unlettered == nullptr && format == "B" && is_bytes_of_another_dtype(object);
  if (dtype == nullptr || is_misnamed) refuse_format(object, format, function);
  describe_memory(std::move(holder), *dtype, function, out_memory);
  return true;
}

void bind_buffers(nb::module_& module) {
  nb::class_<HostBuffer>(module, "_HostBuffer", nb::type_slots(kSlots), nb::is_final())
      .def(nb::init<nb::handle_t<TensorObject>>());
  module.def("_read_into", &read_into);
  module.def("_is_host_memory",
             [](const TensorObject& tensor) { return tensor.device().is_host_memory; });
}

}  // namespace bp::python
