// SPDX-License-Identifier: Apache-2.0
//
// Loading a model: what Python gives, as bpa_session_args has it.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "argument_names.hpp"
#include "deferred.hpp"
#include "interrupts.hpp"
#include "sessions.hpp"

namespace bp::python {
namespace {

[[noreturn]] void refuse(const std::string& argument, const std::string& expected,
                         nb::handle found) {
  fail(PyExc_TypeError, "load: argument '" + argument + "': expected " + expected + ", found " +
                            name_of_type(found));
}

/// bool is no number here.
int64_t parse_integer(nb::handle object, const std::string& argument, const char* expected) {
  if (PyBool_Check(object.ptr()) || !PyIndex_Check(object.ptr())) {
    refuse(argument, expected, object);
  }
  const Py_ssize_t value = PyNumber_AsSsize_t(object.ptr(), PyExc_OverflowError);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw nb::python_error();
    PyErr_Clear();
    fail(PyExc_OverflowError, "load: argument '" + argument +
                                  "': expected an int that 64 bits hold, found one that they "
                                  "cannot");
  }
  return value;
}

/// None is 0, which stands for the library's default.
uint64_t parse_count(nb::handle object, const char* argument, int64_t most) {
  if (object.is_none()) return 0;
  const int64_t value = parse_integer(object, argument, "an int or None");
  if (value < 1 || value > most) {
    fail_invalid("load: argument '" + std::string(argument) + "': expected 1 to " +
                 std::to_string(most) + ", found " + std::to_string(value));
  }
  return static_cast<uint64_t>(value);
}

/// All that the call uses, since it outlives a wait that a signal ends. It holds nothing of
/// Python's but the model's bytes.
struct LoadCall {
  LoadCall() = default;
  LoadCall(const LoadCall&) = delete;
  LoadCall& operator=(const LoadCall&) = delete;
  ~LoadCall() {
    bpa_session_release(made);
    if (bytes != nullptr) give_back_bytes(bytes);
  }

  /// Any thread, with or without the GIL.
  static void give_back_bytes(void* user) {
    auto* object = static_cast<PyObject*>(user);
    defer([object] { Py_DECREF(object); });
  }

  void run() {
    if (bytes == nullptr) {
      return check(bpa_session_load(runtime->handle(), path.c_str(), &args, &made));
    }
    check(bpa_session_create(runtime->handle(), data, byte_count, give_back_bytes, bytes, &args,
                             &made));
    bytes = nullptr;  // the deleter's now
  }

  std::shared_ptr<RuntimeState> runtime;
  std::string path;
  PyObject* bytes = nullptr;  // owned; the library reads them where they lie
  const char* data = nullptr;
  uint64_t byte_count = 0;
  bpa_session* made = nullptr;

  std::vector<bpa_device*> devices;
  std::vector<std::string> names;
  std::vector<const char*> name_texts;
  std::vector<int64_t> sizes;
  std::vector<std::string> range_names;
  std::vector<const char*> range_name_texts;
  std::vector<int64_t> range_mins;
  std::vector<int64_t> range_maxes;
  bpa_session_args args{};
};

void read_model(nb::handle model, LoadCall& call) {
  if (PyBytes_Check(model.ptr())) {
    call.bytes = nb::borrow(model).release().ptr();
  } else if (PyObject_CheckBuffer(model.ptr())) {  // it may change: copied
    Py_buffer view{};
    if (PyObject_GetBuffer(model.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
    call.bytes = PyBytes_FromStringAndSize(static_cast<const char*>(view.buf), view.len);
    PyBuffer_Release(&view);
    if (call.bytes == nullptr) throw nb::python_error();
  } else {
    if (!nb::isinstance<nb::str>(model) && !nb::hasattr(model, "__fspath__")) {
      refuse("model", "a path, or the bytes of an ONNX file", model);
    }
    PyObject* path = nullptr;
    if (PyUnicode_FSConverter(model.ptr(), &path) == 0) throw nb::python_error();
    call.path = PyBytes_AsString(path);
    Py_DECREF(path);
    return;
  }
  call.data = PyBytes_AsString(call.bytes);
  call.byte_count = static_cast<uint64_t>(PyBytes_Size(call.bytes));
  if (call.byte_count == 0) {
    fail_invalid(
        "load: argument 'model': expected a path, or the bytes of an ONNX file, found 0 bytes");
  }
}

/// One device, or a list of them in order of preference. Answers the first.
nb::object read_devices(nb::handle given, LoadCall& call) {
  nb::object first;
  const auto add = [&](nb::handle one) {
    nb::object device = parse_device(one, "load");
    nb::cast<const DeviceObject&>(device).check_open();
    call.devices.push_back(nb::cast<const DeviceObject&>(device).device.handle());
    if (!first.is_valid()) first = std::move(device);
  };
  if (nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given)) {
    for (nb::handle one : given) {
      if (one.is_none()) refuse("device", "Devices or names in the list", one);
      add(one);
    }
    if (!first.is_valid()) fail_invalid("load: argument 'device': the list is empty");
  } else {
    add(given);
  }
  call.runtime = nb::cast<const DeviceObject&>(first).runtime;
  call.args.devices = call.devices.data();
  call.args.device_count = call.devices.size();
  return first;
}

/// A size, or (min, max), where None is no upper end.
void read_dim(const std::string& name, nb::handle size, LoadCall& call) {
  constexpr const char* kExpected = "an int, or a tuple (min, max)";
  const std::string argument = "dims['" + name + "']";
  if (!nb::isinstance<nb::tuple>(size)) {
    call.sizes.push_back(parse_integer(size, argument, kExpected));
    call.names.push_back(name);
    return;
  }
  if (nb::len(size) != 2) {
    fail_invalid("load: argument '" + argument + "': expected " + kExpected +
                 ", found a tuple of " + std::to_string(nb::len(size)));
  }
  const nb::object min(size[0]);
  const nb::object max(size[1]);
  call.range_mins.push_back(parse_integer(min, argument, kExpected));
  call.range_maxes.push_back(max.is_none() ? INT64_MAX : parse_integer(max, argument, kExpected));
  call.range_names.push_back(name);
}

void read_dims(nb::handle given, LoadCall& call) {
  if (given.is_none()) return;
  if (!nb::isinstance<nb::dict>(given)) refuse("dims", "a dict of names and sizes", given);
  for (auto [name, size] : nb::borrow<nb::dict>(given)) {
    if (!nb::isinstance<nb::str>(name)) refuse("dims", "names of type str", name);
    read_dim(c_text(name, "load: argument 'dims'"), size, call);
  }
  for (const std::string& name : call.names) call.name_texts.push_back(name.c_str());
  for (const std::string& name : call.range_names) call.range_name_texts.push_back(name.c_str());
  call.args.dim_names = call.name_texts.data();
  call.args.dim_sizes = call.sizes.data();
  call.args.dim_count = call.sizes.size();
  call.args.range_names = call.range_name_texts.data();
  call.args.range_mins = call.range_mins.data();
  call.args.range_maxes = call.range_maxes.data();
  call.args.range_count = call.range_mins.size();
}

/// Python's names of what the call hands over. `devices`: what was given for them.
std::vector<ArgumentName> names_of(const LoadCall& call, nb::handle devices) {
  std::vector<ArgumentName> names = {{"path", "model"},
                                     {"data", "model"},
                                     {"bytes", "len(model)"},
                                     {"args.dim_names", "dims"},
                                     {"args.range_names", "dims"}};
  const bool is_list = nb::isinstance<nb::list>(devices) || nb::isinstance<nb::tuple>(devices);
  for (size_t i = 0; i < call.devices.size(); ++i) {
    const std::string index = "[" + std::to_string(i) + "]";
    names.push_back({"args.devices" + index, is_list ? "device" + index : "device"});
  }
  const auto add = [&names](const std::vector<std::string>& dims,
                            std::initializer_list<const char*> arrays) {
    for (size_t i = 0; i < dims.size(); ++i) {
      for (const char* array : arrays) {
        names.push_back({array + ("[" + std::to_string(i) + "]"), "dims['" + dims[i] + "']"});
      }
    }
  };
  add(call.names, {"args.dim_names", "args.dim_sizes"});
  add(call.range_names, {"args.range_names", "args.range_mins", "args.range_maxes"});
  return names;
}

/// A path where nothing is: an exception that is also Python's FileNotFoundError.
void refuse_missing_file(const LoadCall& call, nb::handle model) {
  if (call.bytes != nullptr) return;
  if (access(call.path.c_str(), F_OK) == 0 || errno != ENOENT) return;
  const nb::object kind = nb::module_::import_("backplane._errors").attr("MissingFileError");
  const nb::object path = nb::module_::import_("os").attr("fspath")(model);
  const nb::object made = kind(ENOENT, std::strerror(ENOENT), path);
  PyErr_SetObject(kind.ptr(), made.ptr());
  throw nb::python_error();
}

}  // namespace

std::pair<bpa_session*, nb::object> load_session(const LoadArguments& given) {
  const auto call = std::make_shared<LoadCall>();
  bpa_session_args& args = call->args;
  args.struct_size = sizeof(args);
  if (given.deterministic) args.flags |= BPA_SESSION_DETERMINISTIC_BIT;
  if (given.read_weights) args.flags |= BPA_SESSION_READ_WEIGHTS_BIT;
  args.memory_limit_bytes = parse_count(given.memory_limit, "memory_limit", INT64_MAX);
  args.max_contexts =
      static_cast<uint32_t>(parse_count(given.max_contexts, "max_contexts", UINT32_MAX));
  nb::object device = read_devices(given.device, *call);
  read_dims(given.dims, *call);
  read_model(given.model, *call);
  try {
    call_interruptibly([call] { call->run(); });
  } catch (const Error& error) {
    if (error.status() == BP_UNAVAILABLE) refuse_missing_file(*call, given.model);
    throw renamed(error, "load", names_of(*call, given.device));
  }
  return {std::exchange(call->made, nullptr), std::move(device)};
}

}  // namespace bp::python
