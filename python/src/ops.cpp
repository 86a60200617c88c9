// SPDX-License-Identifier: Apache-2.0
#include "ops.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "asarray.hpp"
#include "backplane/backplane.hpp"
#include "host_memory.hpp"
#include "operands.hpp"
#include "ops_attributes.hpp"
#include "ops_table.hpp"
#include "scalars.hpp"
#include "streams.hpp"
#include "tensors.hpp"

namespace bp::python {
namespace {

constexpr int64_t kMostOutputs = 65536;  // more than any operator may have

/// One call: Python's arguments, and what was made of them.
class OperatorCall {
 public:
  OperatorCall(const OperatorRow& row, std::span<PyObject* const> inputs)
      : row_(row), given_(inputs), attributes_(row) {}

  void take_keyword(nb::handle name, nb::handle value) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &length);
    if (text == nullptr) throw nb::python_error();
    const std::string_view key(text, static_cast<size_t>(length));
    if (attributes_.set(key, value)) return;
    if (key != "device") {
      fail(PyExc_TypeError,
           std::string(row_.name) + ": unexpected keyword argument '" + std::string(key) + "'");
    }
    if (!value.is_none()) wanted_device_ = parse_device(value, row_.name);
  }

  nb::object run() {
    attributes_.check_complete();
    check_count();
    find_device();
    handles_.resize(given_.size());
    for (size_t i = 0; i < given_.size(); ++i) handles_[i] = handle_of(i);
    std::vector<bpa_tensor*> outputs(output_count());
    call(outputs);
    return outputs.size() == 1 && row_.counting_attribute < 0 ? output_of(outputs[0])
                                                              : tuple_of_outputs(outputs);
  }

 private:
  const InputRow& input(size_t i) const {
    return row_.inputs[0].is_variadic ? row_.inputs[0] : row_.inputs[i];
  }
  std::string place(size_t i) const {
    const std::string name = std::string("'") + input(i).name + "'";
    const std::string number = input(i).is_variadic ? "[" + std::to_string(i) + "]" : "";
    return std::string(row_.name) + ": argument " + name + number + ": ";
  }

  void check_count() const {
    if (row_.inputs[0].is_variadic) return;  // the library says what is too few
    size_t needed = 0;
    for (const InputRow& input : row_.inputs) needed += input.is_optional ? 0 : 1;
    if (given_.size() >= needed && given_.size() <= row_.inputs.size()) return;
    const std::string most = std::to_string(row_.inputs.size());
    fail(PyExc_TypeError,
         std::string(row_.name) + ": expected " +
             (needed == row_.inputs.size() ? most : std::to_string(needed) + " to " + most) +
             " inputs, found " + std::to_string(given_.size()));
  }

  /// That of the first tensor, which the library holds the others to.
  void find_device() {
    const TensorObject* first = nullptr;
    for (PyObject* object : given_) {
      if (!is_tensor(object)) continue;
      const TensorObject& tensor = tensor_of(object);
      tensor.device().check_open();
      if (first == nullptr) first = &tensor;
      is_large_ = is_large_ || are_large(*first, tensor);
      if (!device_.is_valid()) device_ = nb::borrow(tensor.device_object());
    }
    has_tensor_ = device_.is_valid();
    if (!has_tensor_) {
      device_ = wanted_device_.is_valid() ? wanted_device_ : parse_device(nb::none(), row_.name);
      device().check_open();
      return;
    }
    if (!wanted_device_.is_valid()) return;
    const auto& wanted = nb::cast<const DeviceObject&>(wanted_device_);
    if (wanted.device.handle() == device().device.handle()) return;
    fail_invalid(std::string(row_.name) + ": argument 'device' is " + wanted.name +
                 ", and the inputs are on " + device().name);
  }
  const DeviceObject& device() const { return *nb::inst_ptr<DeviceObject>(device_); }

  const bpa_tensor* handle_of(size_t i) {
    PyObject* object = given_[i];
    if (is_tensor(object)) return tensor_of(object).handle();
    const InputRow& row = input(i);
    if (object == Py_None) {
      if (row.is_optional) return nullptr;
      fail(PyExc_TypeError, place(i) + "expected a Tensor, found None");
    }
    nb::object number;
    Kind kind{};
    if (take_number(object, number, kind)) {
      // Where sizes are read, one is a list of one.
      const bool is_list = row.is_host && row.variable < 0;
      return is_list ? values_of(i, nb::make_tuple(number)) : number_of(i, number, kind);
    }
    const bool is_text = PyUnicode_Check(object) || PyBytes_Check(object);
    if (row.is_host && PySequence_Check(object) != 0 && !is_text) return values_of(i, object);
    fail(PyExc_TypeError, place(i) +
                              (row.is_host ? "expected numbers or a Tensor, found "
                                           : "expected a Tensor or a number, found ") +
                              name_of_type(object));
  }

  /// A list of numbers in host memory.
  const bpa_tensor* values_of(size_t i, nb::handle list) {
    const nb::object items = nb::steal(PySequence_Tuple(list.ptr()));
    if (!items.is_valid()) throw nb::python_error();
    const auto count = static_cast<int64_t>(nb::len(items));
    const uint32_t code = input(i).variable < 0 ? input(i).dtype : dtype_for(i).code;
    const Dtype& dtype = dtype_row(code);
    std::vector<char> bytes(static_cast<size_t>(count) * dtype.item_bytes + 16);
    char* next = bytes.data();
    for (nb::handle item : nb::borrow<nb::tuple>(items)) {
      nb::object number;
      Kind kind{};
      if (!take_number(item.ptr(), number, kind)) {
        fail(PyExc_TypeError, place(i) + "expected numbers, found " + name_of_type(item));
      }
      check_kind(i, kind, dtype);
      encode_number(number, dtype, next);
      next += dtype.item_bytes;
    }
    const auto byte_count = static_cast<uint64_t>(next - bytes.data());
    bpa_device* where = has_tensor_ ? nullptr : device().device.handle();
    bpa_tensor* made = nullptr;
    {
      std::optional<HostCopy> copy;
      if (!has_tensor_) copy.emplace(device(), byte_count);
      check(bpa_tensor_from_host(where, code, &count, 1, bytes.data(), byte_count, &made));
    }
    return keep(bp::Tensor::adopt(made));
  }

  const bpa_tensor* number_of(size_t i, nb::handle number, Kind kind) {
    const Dtype& dtype = dtype_for(i);
    check_kind(i, kind, dtype);
    bp::Tensor scalar = scalar_for(device(), number, dtype);
    if (!has_tensor_ && !device().is_inline) {
      const HostCopy copy(device(), dtype.item_bytes);
      scalar = scalar.to(device().device);
    }
    return keep(std::move(scalar));
  }

  /// A number takes the dtype beside it, and must not lose what it is on the way.
  void check_kind(size_t i, Kind kind, const Dtype& dtype) const {
    const auto rank = [](Kind of) { return of == Kind::kUint ? Kind::kInt : of; };
    if (rank(kind) <= rank(dtype.kind)) return;
    constexpr const char* kNames[] = {"a bool", "an int", "an int", "a float", "a complex"};
    fail(PyExc_TypeError, place(i) + "expected a value of " + dtype.name + ", found " +
                              kNames[static_cast<size_t>(kind)]);
  }

  /// The dtype of a number at this place: the operator's, or that of a tensor of the same type
  /// variable, or what the numbers there become by themselves.
  const Dtype& dtype_for(size_t i) const {
    if (input(i).variable < 0) return dtype_row(input(i).dtype);
    Kind highest = Kind::kBool;
    for (size_t k = 0; k < given_.size(); ++k) {
      if (input(k).variable != input(i).variable) continue;
      if (is_tensor(given_[k])) return tensor_of(given_[k]).dtype();
      for_numbers(given_[k], [&](Kind kind) { highest = std::max(highest, kind); });
    }
    return default_dtype(highest);
  }

  template <class Visit>
  static void for_numbers(PyObject* object, const Visit& visit) {
    nb::object number;
    Kind kind{};
    if (take_number(object, number, kind)) return visit(kind);
    if (!is_plain_nested(object)) return;
    const nb::object items = nb::steal(PySequence_Tuple(object));
    if (!items.is_valid()) throw nb::python_error();
    for (nb::handle item : nb::borrow<nb::tuple>(items)) {
      if (take_number(item.ptr(), number, kind)) visit(kind);
    }
  }

  const bpa_tensor* keep(bp::Tensor tensor) {
    made_.push_back(std::move(tensor));
    return made_.back().handle();
  }

  size_t output_count() const {
    if (row_.counting_attribute < 0) return row_.output_count;
    const int64_t count = attributes_.i64(static_cast<size_t>(row_.counting_attribute));
    return static_cast<size_t>(std::clamp<int64_t>(count, 1, kMostOutputs));
  }

  /// Whether the call waits for a device: for sizes, which depend on values there.
  bool waits() const {
    if (device().is_inline) return is_large_;
    if (row_.has_extents) return true;
    for (size_t i = 0; i < given_.size(); ++i) {
      if (input(i).is_host && is_tensor(given_[i])) return true;
    }
    return false;
  }

  void call(std::vector<bpa_tensor*>& outputs) const {
    const Work work(device(), waits());
    const auto input_count = static_cast<uint32_t>(handles_.size());
    const auto output_count = static_cast<uint32_t>(outputs.size());
    const auto call_on = [&](bpa_stream* stream) {
      return bpa_op_call_on(stream, row_.id, handles_.data(), input_count, attributes_.data(), 0,
                            outputs.data(), output_count);
    };
    if (bpa_stream* stream = current_stream_of(device()); stream != nullptr) {
      check(call_on(stream));
    } else if (has_tensor_) {
      check(bpa_op_call(nullptr, row_.id, handles_.data(), input_count, attributes_.data(), 0,
                        outputs.data(), output_count));
    } else {  // nothing else says where
      check(call_on(Stream::default_of(device().device).handle()));
    }
  }

  nb::object output_of(bpa_tensor* output) const {
    return make_tensor(output, device_, current_stream_of(device()) != nullptr);
  }

  nb::object tuple_of_outputs(const std::vector<bpa_tensor*>& outputs) const {
    std::vector<nb::object> tensors;
    for (bpa_tensor* output : outputs) tensors.push_back(output_of(output));
    nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
    for (size_t i = 0; i < tensors.size(); ++i) {
      PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), tensors[i].release().ptr());
    }
    return tuple;
  }

  const OperatorRow& row_;
  std::span<PyObject* const> given_;
  AttributeValues attributes_;
  nb::object wanted_device_;
  nb::object device_;
  bool has_tensor_ = false;
  bool is_large_ = false;
  std::vector<const bpa_tensor*> handles_;
  std::vector<bp::Tensor> made_;
};

const OperatorRow& find_operator(nb::handle given) {
  const std::span<const OperatorRow> rows = operator_rows();
  if (PyLong_Check(given.ptr())) {
    int overflow = 0;
    const int64_t id = PyLong_AsLongLongAndOverflow(given.ptr(), &overflow);
    const auto found =
        std::lower_bound(rows.begin(), rows.end(), id,
                         [](const OperatorRow& row, int64_t wanted) { return row.id < wanted; });
    if (overflow == 0 && found != rows.end() && found->id == id) return *found;
    fail_invalid("call_operator: no operator has the id " + nb::cast<std::string>(nb::str(given)));
  }
  if (!PyUnicode_Check(given.ptr())) {
    fail(PyExc_TypeError,
         "call_operator: argument 'op': expected a name or an id, found " + name_of_type(given));
  }
  static const auto* by_name = [] {
    auto* made = new std::unordered_map<std::string_view, const OperatorRow*>();
    for (const OperatorRow& row : operator_rows()) made->emplace(row.name, &row);
    return made;
  }();
  const auto name = nb::cast<std::string>(given);
  const auto found = by_name->find(name);
  if (found == by_name->end()) fail_invalid("call_operator: no operator is named '" + name + "'");
  return *found->second;
}

/// A function of the interpreter's fast convention: the binding layer's own way for any keywords
/// costs as much again as a small operator.
PyObject* call_operator_function(PyObject*, PyObject* const* arguments, Py_ssize_t count,
                                 PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    if (count == 0) fail(PyExc_TypeError, "call_operator: argument 'op' is missing");
    OperatorCall call(find_operator(arguments[0]), {arguments + 1, static_cast<size_t>(count) - 1});
    const Py_ssize_t keyword_count = keywords == nullptr ? 0 : PyTuple_Size(keywords);
    for (Py_ssize_t i = 0; i < keyword_count; ++i) {
      call.take_keyword(PyTuple_GetItem(keywords, i), arguments[count + i]);
    }
    return call.run().release().ptr();
  });
}

constexpr const char* kDoc =
    "call_operator($module, op, /, *inputs, device=None, **attributes)\n--\n\n"
    "Runs the operator of that name or id on the device of its inputs. Inputs: tensors, numbers,\n"
    "None for what is left out. One output is a Tensor, several are a tuple.";

}  // namespace

void bind_operators(nb::module_& module) {
  static PyMethodDef functions[] = {
      {"call_operator",
       reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_operator_function)),
       METH_FASTCALL | METH_KEYWORDS, kDoc},
      {nullptr, nullptr, 0, nullptr},
  };
  if (PyModule_AddFunctions(module.ptr(), functions) != 0) throw nb::python_error();
}

}  // namespace bp::python
