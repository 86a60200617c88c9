// SPDX-License-Identifier: Apache-2.0
#include "devices.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "backplane/device.h"
#include "deferred.hpp"
#include "gil.hpp"
#include "interrupts.hpp"
#include "logging.hpp"
#include "streams.hpp"

namespace bp::python {
namespace {

/// What is left to do at exit. Never destroyed.
struct Process {
  std::mutex mutex;
  std::vector<std::weak_ptr<RuntimeState>> runtimes;
  std::shared_ptr<RuntimeState> default_runtime;
  bool is_ending = false;
};

Process& process() {
  static auto* state = new Process();
  return *state;
}

/// What vendors' wheels and `logging` say (_settings.py), where the program says nothing itself.
/// Python code runs here: no lock is held.
void add_further_options(RuntimeOptions& options) {
  nb::dict named;
  for (const auto& [name, value] : options.options) named[name.c_str()] = value;
  const nb::object settings = nb::module_::import_("backplane._settings");
  const nb::object further = settings.attr("for_runtime")(named, options.install_dir.has_value());
  for (auto [name, value] : nb::cast<nb::dict>(further)) {
    const auto option = nb::cast<std::string>(name);
    options.options[option] = c_text(value, option);
  }
}

std::shared_ptr<RuntimeState> create_runtime(const RuntimeOptions& options) {
  auto state = std::make_shared<RuntimeState>(Runtime::create(options));
  const std::lock_guard lock(process().mutex);
  std::erase_if(process().runtimes, [](const auto& old) { return old.expired(); });
  process().runtimes.push_back(state);
  return state;
}

/// Made when first asked for, and anew after it was closed.
std::shared_ptr<RuntimeState> default_runtime() {
  static std::mutex making;
  const auto current = [] {
    const std::lock_guard lock(process().mutex);
    Process& state = process();
    const bool is_usable = state.default_runtime != nullptr &&
                           (state.is_ending || !state.default_runtime->is_closed());
    return is_usable ? state.default_runtime : nullptr;
  };
  if (auto found = current()) return found;
  RuntimeOptions options;
  add_further_options(options);
  std::shared_ptr<RuntimeState> made;
  {
    const WithoutGil release;
    const std::lock_guard one_at_a_time(making);
    if (auto found = current()) return found;
    made = create_runtime(options);
    const std::lock_guard lock(process().mutex);
    process().default_runtime = made;
  }
  flush_log();
  return made;
}

DeviceObject describe(const std::shared_ptr<RuntimeState>& runtime, Device device) {
  const bpa_device_info info = device.info();
  constexpr uint64_t kHost = BP_DEVICE_HOST_MEMORY_BIT | BP_DEVICE_ADDRESS_BIT;
  const bool is_inline = info.execution == BP_EXECUTION_INLINE;
  const bool is_host_memory = (info.device_flags & kHost) == kHost;
  return {runtime,   device,         detail::text(info.name),
          is_inline, is_host_memory, is_inline ? Stream::default_of(device) : Stream()};
}

std::vector<DeviceObject> list_devices(const std::shared_ptr<RuntimeState>& runtime) {
  runtime->check_open();
  std::vector<DeviceObject> devices;
  for (const Device& device : runtime->runtime().devices()) {
    devices.push_back(describe(runtime, device));
  }
  return devices;
}

DeviceObject find_device(const std::shared_ptr<RuntimeState>& runtime, const std::string& name) {
  refuse_nul(name, "device: argument 'name'");
  runtime->check_open();
  return describe(runtime, runtime->runtime().device(name));
}

DeviceObject default_device(const std::shared_ptr<RuntimeState>& runtime) {
  const std::vector<DeviceObject> devices = list_devices(runtime);
  if (devices.empty()) throw Error(BP_UNAVAILABLE, "there is no device: no plugin was found");
  for (const DeviceObject& device : devices) {
    if (device.is_inline && device.is_host_memory) return device;
  }
  return devices.front();
}

void close_all(const std::vector<std::weak_ptr<RuntimeState>>& runtimes) {
  for (const auto& weak : runtimes) {
    const auto state = weak.lock();
    if (state == nullptr || state->is_forked()) continue;
    try {
      state->close();
    } catch (const Error&) {  // nobody is left to be told
    }
  }
}

/// A signal ends the wait for work that is queued, and what waits ends with the process.
void close_all_at_exit() {
  begin_ending();
  std::vector<std::weak_ptr<RuntimeState>> runtimes;
  {
    const std::lock_guard lock(process().mutex);
    process().is_ending = true;
    runtimes = process().runtimes;
  }
  std::exception_ptr raised;
  try {
    call_interruptibly([runtimes] { close_all(runtimes); });
  } catch (...) {
    raised = std::current_exception();
  }
  run_deferred();
  end_logging();
  stop_deferred();
  if (raised) std::rethrow_exception(raised);
}

std::string option_text(nb::handle value, const std::string& name) {
  if (PyBool_Check(value.ptr())) return nb::cast<bool>(value) ? "1" : "0";
  if (!nb::isinstance<nb::str>(value) && !PyLong_Check(value.ptr())) {
    fail(PyExc_TypeError, "Runtime: option '" + name + "': expected a str, int or bool, found " +
                              name_of_type(value));
  }
  return c_text(nb::str(value), "Runtime: option '" + name + "'");
}

/// A folder as a str or a path object. The empty text would stand for none.
std::string folder_text(nb::handle folder, const std::string& argument) {
  if (!nb::isinstance<nb::str>(folder) && !nb::hasattr(folder, "__fspath__")) {
    fail(PyExc_TypeError,
         argument + ": expected the path of a folder, found " + name_of_type(folder));
  }
  const nb::object text = nb::module_::import_("os").attr("fsdecode")(folder);
  std::string path = c_text(text, argument);
  if (path.empty()) fail_invalid(argument + ": expected the path of a folder, found ''");
  return path;
}

/// One folder or a list of them, with colons between.
std::string folders_text(nb::handle folders, const std::string& argument) {
  const bool is_one = !nb::isinstance<nb::list>(folders) && !nb::isinstance<nb::tuple>(folders);
  const nb::object list = is_one ? nb::make_tuple(folders) : nb::borrow(folders);
  std::string joined;
  for (nb::handle folder : list) {
    const std::string path = folder_text(folder, argument);
    if (path.find(':') != std::string::npos) {
      fail_invalid(argument + ": expected folders without ':' in their paths, found '" + path +
                   "'");
    }
    joined += (joined.empty() ? "" : ":") + path;
  }
  return joined;
}

std::shared_ptr<RuntimeState> runtime_from_python(nb::handle plugin_path, nb::handle install_dir,
                                                  nb::handle options) {
  constexpr const char* kPluginPath = "Runtime: argument 'plugin_path'";
  constexpr const char* kInstallDir = "Runtime: argument 'install_dir'";
  RuntimeOptions made;
  if (!plugin_path.is_none()) made.plugin_path = folders_text(plugin_path, kPluginPath);
  if (!install_dir.is_none()) made.install_dir = folder_text(install_dir, kInstallDir);
  if (!options.is_none()) {
    if (!nb::isinstance<nb::dict>(options)) {
      fail(PyExc_TypeError,
           "Runtime: argument 'options': expected a dict, found " + name_of_type(options));
    }
    for (auto [name, value] : nb::borrow<nb::dict>(options)) {
      if (!nb::isinstance<nb::str>(name)) {
        fail(PyExc_TypeError,
             "Runtime: argument 'options': expected names as str, found " + name_of_type(name));
      }
      const std::string text = c_text(name, "Runtime: argument 'options'");
      made.options[text] = option_text(value, text);
    }
  }
  add_further_options(made);
  std::shared_ptr<RuntimeState> state;
  {
    const WithoutGil release;
    state = create_runtime(made);
  }
  flush_log();
  return state;
}

nb::dict counters_of(const bpa_device_info& info) {
  nb::dict counters;
  counters["launch_count"] = info.launch_count;
  counters["decomposed_count"] = info.decomposed_count;
  counters["fallback_count"] = info.fallback_count;
  counters["copy_in_count"] = info.copy_in_count;
  counters["copy_out_count"] = info.copy_out_count;
  counters["materialise_count"] = info.materialise_count;
  counters["output_copy_count"] = info.output_copy_count;
  return counters;
}

std::map<std::string, std::string> features_of(const Device& device) {
  std::map<std::string, std::string> features;
  for (const Feature& feature : device.features()) {
    features[feature.name] = feature.state == BPA_FEATURE_NATIVE     ? "native"
                             : feature.state == BPA_FEATURE_EMULATED ? "emulated"
                                                                     : "absent";
  }
  return features;
}

bpa_device_info info_of(const DeviceObject& self) {
  self.check_open();
  return self.device.info();
}

std::string describe_device(const DeviceObject& self) {
  if (self.runtime->is_closed()) return "<backplane.Device '" + self.name + "': closed>";
  try {
    return "<backplane.Device '" + self.name + "': " + detail::text(self.device.info().full_name) +
           ">";
  } catch (const Error& error) {
    return "<backplane.Device '" + self.name + "': " + error.what() + ">";
  }
}

std::string describe_runtime(const RuntimeState& self) {
  if (self.is_closed()) return "<backplane.Runtime: closed>";
  std::string names;
  try {
    for (const Device& device : self.runtime().devices()) {
      names += (names.empty() ? "" : ", ") + device.name();
    }
  } catch (const Error& error) {
    names = error.what();
  }
  return "<backplane.Runtime: " + (names.empty() ? "no devices" : names) + ">";
}

void close_without_gil(RuntimeState& self) {
  const WithoutGil release;
  self.close();
}

void bind_device_class(nb::module_& module) {
  nb::class_<DeviceObject>(module, "Device", nb::is_final(), nb::is_weak_referenceable(),
                           "One piece of hardware, opened by a plugin. Any thread.")
      .def_prop_ro(
          "name", [](const DeviceObject& self) { return self.name; },
          "What device() finds it by, such as \"npu:0\".")
      .def_prop_ro(
          "full_name",
          [](const DeviceObject& self) { return detail::text(info_of(self).full_name); },
          "What its vendor calls it.")
      .def_prop_ro(
          "vendor", [](const DeviceObject& self) { return detail::text(info_of(self).vendor); },
          "Who makes it.")
      .def_prop_ro(
          "driver", [](const DeviceObject& self) { return detail::text(info_of(self).driver); },
          "The driver and its version, in the plugin's words.")
      .def_prop_ro(
          "memory", [](const DeviceObject& self) { return info_of(self).memory_bytes; },
          "Bytes of memory.")
      .def_prop_ro(
          "memory_used", [](const DeviceObject& self) { return info_of(self).memory_used_bytes; },
          "Bytes in live tensors and plans.")
      .def_prop_ro(
          "features",
          [](const DeviceObject& self) {
            self.check_open();
            return features_of(self.device);
          },
          "Groups of optional functions: 'native', 'emulated' or 'absent'.")
      .def_prop_ro(
          "counters", [](const DeviceObject& self) { return counters_of(info_of(self)); },
          "What was done so far: launches, copies, fallbacks.")
      .def(
          "sync",
          [](const DeviceObject& self) {
            self.check_open();
            call_interruptibly([runtime = self.runtime, device = self.device] { device.sync(); });
          },
          "Waits for all work; its first failure is raised.")
      .def(
          "new_stream", [](nb::handle_t<DeviceObject> self) { return new_stream(self); },
          nb::sig("def new_stream(self) -> Stream"), "A queue of its own: a Stream.")
      .def("__eq__",
           [](const DeviceObject& self, nb::handle other) {
             return nb::isinstance<DeviceObject>(other) &&
                    nb::cast<const DeviceObject&>(other).device.handle() == self.device.handle();
           })
      .def("__hash__",
           [](const DeviceObject& self) {
             return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self.device.handle()) >> 8 &
                                           0x7fffffff);
           })
      .def("__str__", [](const DeviceObject& self) { return self.name; })
      .def("__repr__", describe_device);
}

}  // namespace

RuntimeState::RuntimeState(Runtime runtime) : runtime_(std::move(runtime)), process_id_(getpid()) {}

bool RuntimeState::is_forked() const { return getpid() != process_id_; }

void RuntimeState::throw_closed() { throw Error(BP_GONE, "the Runtime is closed"); }

void RuntimeState::close() {
  is_closed_.store(true);
  if (export_count_.load() == 0) Runtime(runtime_).close();
}

void RuntimeState::drop_export() {
  if (--export_count_ != 0 || !is_closed_.load()) return;
  defer([self = shared_from_this()] {
    const WithoutGil release;
    try {
      self->close();
    } catch (const Error&) {  // the one who closed is long gone
    }
  });
}

/// The default device of the default runtime, kept until there is another such runtime.
static nb::object usual_device() {
  static PyObject* kept = nullptr;
  const auto runtime = default_runtime();
  if (kept == nullptr || nb::inst_ptr<DeviceObject>(kept)->runtime != runtime) {
    nb::object found = nb::cast(default_device(runtime));
    nb::object old = nb::steal(std::exchange(kept, found.release().ptr()));
  }
  return nb::borrow(kept);
}

nb::object parse_device(nb::handle object, const char* function) {
  if (object.is_none()) return usual_device();
  if (nb::isinstance<nb::str>(object)) {
    return nb::cast(find_device(default_runtime(),
                                c_text(object, std::string(function) + ": argument 'device'")));
  }
  if (nb::isinstance<DeviceObject>(object)) return nb::borrow(object);
  fail(PyExc_TypeError, std::string(function) +
                            ": argument 'device': expected a Device or its name, found " +
                            name_of_type(object));
}

nb::object device_object_of(const std::shared_ptr<RuntimeState>& runtime, bpa_device* handle) {
  return nb::cast(describe(runtime, Device(handle)));
}

void bind_devices(nb::module_& module) {
  bind_device_class(module);
  nb::class_<RuntimeState>(
      module, "Runtime", nb::is_final(), nb::is_weak_referenceable(),
      "Finds plugins and opens their devices; owns everything on them. "
      "plugin_path: a folder or a list of them, searched before the "
      "installed plugins; absolute paths of what is there. install_dir: such a folder in place "
      "of the installed plugins, those of other wheels too. options: a dict of "
      "plugins' options (\"npu.memory\": \"64MiB\") and of the library's "
      "(\"BACKPLANE_LOG\"), before which the environment gives way; values are "
      "str, int or bool. Any thread; `with` closes it.")
      .def(nb::new_(&runtime_from_python), nb::kw_only(), nb::arg("plugin_path") = nb::none(),
           nb::arg("install_dir") = nb::none(), nb::arg("options") = nb::none())
      .def(
          "devices", [](RuntimeState& self) { return list_devices(self.shared_from_this()); },
          "All its devices, in the order in which plugins were found.")
      .def(
          "device",
          [](RuntimeState& self, const std::string& name) {
            return find_device(self.shared_from_this(), name);
          },
          nb::arg("name"), "The device of that name; an Error lists what there is.")
      .def_prop_ro(
          "default_device",
          [](RuntimeState& self) { return default_device(self.shared_from_this()); },
          "Where tensors are made unless told otherwise: the host's, or the first without one.")
      .def_prop_ro("is_closed", &RuntimeState::is_closed, "Whether close() was called.")
      .def("close", &close_without_gil,
           "Ends all work; later use of anything below raises GONE. Memory that NumPy or others "
           "hold stays until they let go.")
      .def("__enter__", [](RuntimeState& self) { return self.shared_from_this(); })
      .def("__exit__", [](RuntimeState& self, nb::args) { close_without_gil(self); })
      .def("__repr__", describe_runtime);
  module.def("default_runtime", &default_runtime,
             "The Runtime of calls that name none: made when first used, closed at exit.");
  module.def(
      "devices", [] { return list_devices(default_runtime()); },
      "The devices of the default Runtime.");
  module.def(
      "device", [](const std::string& name) { return find_device(default_runtime(), name); },
      nb::arg("name"),
      "A device of the default Runtime by name, such as \"npu:0\"; an Error lists what there is.");
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(close_all_at_exit));
}

}  // namespace bp::python
