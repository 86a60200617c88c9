// SPDX-License-Identifier: Apache-2.0
//
// What Python gives to a run and gets from it: inputs brought to what the session takes, and
// outputs as Python objects.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "argument_names.hpp"
#include "asarray.hpp"
#include "host_memory.hpp"
#include "runs.hpp"
#include "scalars.hpp"
#include "streams.hpp"

namespace bp::python {
namespace {

[[noreturn]] void refuse(const char* function, const std::string& argument, const char* expected,
                         nb::handle found) {
  fail(PyExc_TypeError, std::string(function) + ": argument '" + argument + "': expected " +
                            expected + ", found " + name_of_type(found));
}

size_t count_inputs(const RunArguments& given) {
  PyObject* inputs = given.inputs.ptr();
  if (PyDict_Check(inputs)) return static_cast<size_t>(PyDict_Size(inputs));
  if (PyTuple_Check(inputs)) return static_cast<size_t>(PyTuple_Size(inputs));
  refuse(given.function, "inputs", "a dict of names and arrays", given.inputs);
}

/// The index of a name among `ios`, which are the model's inputs or outputs.
size_t index_of(const std::vector<SessionIo>& ios, nb::handle name, const char* function,
                const char* argument, const char* kind) {
  const int64_t index = find_io(ios, name);
  if (index >= 0) return static_cast<size_t>(index);
  if (!nb::isinstance<nb::str>(name)) refuse(function, argument, "names of type str", name);
  fail_invalid(std::string(function) + ": argument '" + argument + "': the model has no " + kind +
               " " + nb::cast<std::string>(nb::repr(name)) + ", it has " + names_of(ios));
}

/// As an argument: on the session's first device wherever the run left it.
nb::object output_object(SessionObject& session, bpa_tensor* taken) {
  bpa_tensor_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_tensor_get_info(taken, &info);
  if (status == BP_OK && info.device != nullptr) {
    return make_tensor(taken, session.device_for(info.device));
  }
  const bp::Tensor left_on_host = bp::Tensor::adopt(taken);
  check(status);
  bpa_tensor* moved = nullptr;
  {
    const HostCopy copy(session.device(), info.bytes);
    check(bpa_tensor_to_device(taken, session.device().device.handle(), &moved));
  }
  return make_tensor(moved, session.device_object());
}

}  // namespace

RunRequest::RunRequest(SessionObject& session, const RunArguments& given)
    : session_(session),
      function_(given.function),
      indices_(count_inputs(given)),
      objects_(indices_.size()),
      names_(indices_.size()),
      tensors_(indices_.size()) {
  args_.struct_size = sizeof(args_);
  PyTuple_Check(given.inputs.ptr()) ? read_tuple(given.inputs) : read_dict(given.inputs);
  convert_inputs();
  if (!given.timeout.is_none()) read_timeout(given.timeout);
  if (!given.cancel.is_none()) {
    if (!nb::isinstance<CancelObject>(given.cancel) || !nb::inst_ready(given.cancel)) {
      refuse(function_, "cancel", "a Cancel or None", given.cancel);
    }
    cancel_ = nb::inst_ptr<CancelObject>(given.cancel)->token;
  }
  args_.stream = given.stream.is_none() ? current_stream_of(session.device())
                                        : parse_stream(given.stream, function_);
  args_.input_names = names_.data();
  args_.inputs = tensors_.data();
  args_.input_count = tensors_.size();
}

void RunRequest::read_tuple(nb::handle inputs) {
  const size_t most = session_.inputs().size();
  if (objects_.size() > most) {
    fail_invalid(std::string(function_) + ": expected at most " + std::to_string(most) +
                 " inputs (" + names_of(session_.inputs()) + "), found " +
                 std::to_string(objects_.size()));
  }
  for (size_t i = 0; i < objects_.size(); ++i) {
    indices_[i] = i;
    objects_[i] = nb::borrow(PyTuple_GetItem(inputs.ptr(), static_cast<Py_ssize_t>(i)));
  }
}

/// Runs no Python code, which could change the dict.
void RunRequest::read_dict(nb::handle inputs) {
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  for (size_t i = 0; PyDict_Next(inputs.ptr(), &position, &name, &value) != 0; ++i) {
    indices_[i] = index_of(session_.inputs(), name, function_, "inputs", "input");
    objects_[i] = nb::borrow(value);
  }
}

void RunRequest::convert_inputs() {
  for (size_t i = 0; i < objects_.size(); ++i) {
    const SessionIo& io = session_.inputs()[indices_[i]];
    if (!is_tensor(objects_[i].ptr())) objects_[i] = convert(io, objects_[i]);
    const TensorObject& tensor = tensor_of(objects_[i]);
    if (tensor.device().runtime != session_.device().runtime) {
      fail_invalid(std::string(function_) + ": input '" + io.io.name + "' is on " +
                   tensor.device().name + " of another Runtime than the session");
    }
    names_[i] = io.io.name.c_str();
    tensors_[i] = tensor.handle();
    input_bytes_ += tensor.info().bytes;
  }
}

/// Arrays keep their dtype; Python numbers take that of the input.
nb::object RunRequest::convert(const SessionIo& io, nb::object given) const {
  const std::string place = std::string(function_) + ": input '" + io.io.name + "'";
  AsarrayArgs args;
  args.function = place.c_str();
  args.device = nb::borrow(session_.device_object());
  args.number_dtype = find_dtype(io.io.dtype);
  Kind kind{};
  if (number_kind(given, kind)) args.dtype = args.number_dtype;
  return as_tensor(given, args);
}

void RunRequest::read_timeout(nb::handle timeout) {
  constexpr double kMost = 1e9;  // seconds; the library counts nanoseconds
  if (PyBool_Check(timeout.ptr())) refuse(function_, "timeout", "seconds or None", timeout);
  const double seconds = PyFloat_AsDouble(timeout.ptr());
  if (seconds == -1.0 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    refuse(function_, "timeout", "seconds or None", timeout);
  }
  if (!(seconds > 0.0) || seconds > kMost) {
    fail_invalid(std::string(function_) + ": argument 'timeout': expected seconds above 0 and at " +
                 "most 1e9, found " + nb::cast<std::string>(nb::repr(timeout)));
  }
  args_.timeout_ns = static_cast<uint64_t>(std::ceil(seconds * 1e9));
}

Error RunRequest::explain(const Error& error) const {
  std::vector<ArgumentName> names = {{"args.stream", "stream"}, {"args.cancel", "cancel"}};
  const auto add = [&names](const char* array, size_t i, const char* place,
                            const std::string& name) {
    names.push_back({array + ("[" + std::to_string(i) + "]"), place + ("['" + name + "']")});
  };
  for (size_t i = 0; i < args_.input_count; ++i) {
    add("args.inputs", i, "inputs", args_.input_names[i]);
  }
  for (size_t i = 0; i < args_.bound_output_count; ++i) {
    add("args.bound_outputs", i, "out", session_.outputs()[i].io.name);
  }
  return renamed(error, function_, names);
}

Answered::~Answered() {
  for (size_t i = 0; i < handles_.size(); ++i) bpa_tensor_release(handles_[i]);
}

OutputPlan::OutputPlan(SessionObject& session, const RunArguments& given) {
  if (!given.out.is_none()) read_out(session, given);
  if (!given.outputs.is_none()) {
    read_outputs(session, given);
  } else {
    for (size_t i = 0; i < session.outputs().size(); ++i) selected_.push_back(i);
  }
}

void OutputPlan::read_out(SessionObject& session, const RunArguments& given) {
  if (!nb::isinstance<nb::dict>(given.out)) {
    refuse(given.function, "out", "a dict of names and Tensors", given.out);
  }
  const std::vector<SessionIo>& outputs = session.outputs();
  bound_.resize(outputs.size());
  handles_.resize(outputs.size());
  for (auto [name, tensor] : nb::borrow<nb::dict>(given.out)) {
    const size_t index = index_of(outputs, name, given.function, "out", "output");
    if (!is_tensor(tensor.ptr())) {
      refuse(given.function, "out['" + outputs[index].io.name + "']", "a Tensor", tensor);
    }
    bound_[index] = nb::borrow(tensor);
    handles_[index] = tensor_of(tensor).handle();
  }
}

void OutputPlan::read_outputs(SessionObject& session, const RunArguments& given) {
  if (!nb::isinstance<nb::list>(given.outputs) && !nb::isinstance<nb::tuple>(given.outputs)) {
    refuse(given.function, "outputs", "a list of names or None", given.outputs);
  }
  for (nb::handle name : given.outputs) {
    const size_t index = index_of(session.outputs(), name, given.function, "outputs", "output");
    if (std::find(selected_.begin(), selected_.end(), index) != selected_.end()) {
      fail_invalid(std::string(given.function) + ": argument 'outputs': '" +
                   session.outputs()[index].io.name + "' is listed twice");
    }
    selected_.push_back(index);
  }
}

void OutputPlan::bind(bpa_run_args& args) {
  args.bound_outputs = handles_.data();
  args.bound_output_count = handles_.size();
}

nb::object OutputPlan::make_dict(SessionObject& session, Answered& answered) const {
  nb::dict made;
  for (const size_t i : selected_) {
    const bool is_bound = !bound_.empty() && bound_[i].is_valid();
    made[session.outputs()[i].name_object] =
        is_bound ? bound_[i] : output_object(session, answered.take(i));
  }
  return made;
}

nb::object make_result(SessionObject& session, Answered& answered) {
  const size_t count = session.outputs().size();
  if (count == 1) return output_object(session, answered.take(0));
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!tuple.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < count; ++i) {
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i),
                    output_object(session, answered.take(i)).release().ptr());
  }
  return tuple;
}

}  // namespace bp::python
