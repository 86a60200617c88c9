// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gil.hpp"
#include "interrupts.hpp"
#include "refuse_new.hpp"
#include "tensors.hpp"

namespace bp::python {

constinit thread_local CurrentStream* t_current_stream = nullptr;
std::vector<const StreamObject*>& g_live_streams = *new std::vector<const StreamObject*>();

namespace {

nb::object make_stream(nb::object device, Stream stream, bool is_default = false) {
  const nb::handle type = nb::type<StreamObject>();
  nb::object made = nb::inst_alloc(type);
  new (nb::inst_ptr<void>(made)) StreamObject(std::move(device), std::move(stream), is_default);
  nb::inst_mark_ready(made);
  return made;
}

/// native_handle: what the property of that name answers.
nb::object wrap(nb::handle device, nb::handle native_handle) {
  const nb::object owner = parse_device(device, "Stream.wrap");
  const auto& target = nb::cast<const DeviceObject&>(owner);
  target.check_open();
  const bool is_pair = nb::isinstance<nb::tuple>(native_handle) && nb::len(native_handle) == 2;
  if (!is_pair || !nb::isinstance<nb::str>(native_handle[0]) ||
      !PyLong_Check(nb::object(native_handle[1]).ptr())) {
    fail(PyExc_TypeError,
         "Stream.wrap: argument 'native_handle': expected a tuple (kind, handle) of str and int, "
         "found " +
             nb::cast<std::string>(nb::repr(native_handle)));
  }
  const nb::object number(native_handle[1]);
  const unsigned long long handle = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return make_stream(
      owner,
      Stream::wrap(target.device, nb::cast<std::string>(nb::object(native_handle[0])), handle));
}

nb::object native_handle(const StreamObject& self) {
  self.check_open();
  const NativeStream native = self.stream.native();
  return nb::make_tuple(native.kind, native.handle);
}

void sync(const StreamObject& self) {
  self.check_open();
  call_interruptibly(
      [runtime = self.device_object().runtime, stream = self.stream] { stream.sync(); });
}

void reset(const StreamObject& self) {
  self.check_open();
  call_interruptibly(
      [runtime = self.device_object().runtime, stream = self.stream] { stream.reset(); });
}

nb::object enter(nb::handle_t<StreamObject> self) {
  const StreamObject& stream = *nb::inst_ptr<StreamObject>(self);
  stream.check_open();
  t_current_stream = new CurrentStream{self.ptr(), stream.stream.handle(),
                                       stream.device_object().device.handle(), t_current_stream};
  self.inc_ref();
  return nb::borrow(self);
}

/// The innermost `with` of this stream: generators may end them in another order.
void leave(nb::handle_t<StreamObject> self) {
  CurrentStream** place = &t_current_stream;
  while (*place != nullptr && (*place)->object != self.ptr()) place = &(*place)->outer;
  if (*place == nullptr) {
    fail(PyExc_RuntimeError, "the stream is not current on this thread: it was entered on another");
  }
  CurrentStream* left = std::exchange(*place, (*place)->outer);
  delete left;
  self.dec_ref();
}

nb::object current_stream(nb::handle device) {
  const nb::object owner = parse_device(device, "current_stream");
  const auto& target = nb::cast<const DeviceObject&>(owner);
  target.check_open();
  for (CurrentStream* at = t_current_stream; at != nullptr; at = at->outer) {
    if (at->device == target.device.handle()) return nb::borrow(at->object);
  }
  return make_stream(owner, Stream::default_of(target.device), true);
}

bool is_same(const StreamObject& self, nb::handle other) {
  if (!nb::isinstance<StreamObject>(other)) return false;
  const auto& stream = *nb::inst_ptr<StreamObject>(other);
  return &stream == &self ||
         (stream.is_default && self.is_default &&
          stream.device_object().device.handle() == self.device_object().device.handle());
}

Py_hash_t hash_of(const StreamObject& self) {
  if (self.is_default) return nb::hash(self.device);
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(&self) >> 4 & 0x7fffffff);
}

uint32_t access_of(bool write) { return write ? BPA_ACCESS_WRITE_BIT : BPA_ACCESS_READ_BIT; }

void acquire(const StreamObject& self, const TensorObject& tensor, bool write) {
  self.check_open();
  const WithoutGil release;  // a stream that is no queue waits
  check(bpa_stream_acquire_tensor(self.stream.handle(), tensor.handle(), access_of(write)));
}

void release(const StreamObject& self, const TensorObject& tensor, bool write) {
  self.check_open();
  check(bpa_stream_release_tensor(self.stream.handle(), tensor.handle(), access_of(write)));
}

std::string describe(const StreamObject& self) {
  const std::string start = "<backplane.Stream of " + self.device_object().name;
  if (self.device_object().runtime->is_closed()) return start + ": closed>";
  const bpa_status status = bpa_stream_query(self.stream.handle());
  return start + ": " +
         (status == BP_OK        ? "idle"
          : status == BP_PENDING ? "busy"
                                 : bpa_status_name(status)) +
         ">";
}

}  // namespace

StreamObject::StreamObject(nb::object its_device, Stream its_stream, bool is_the_default)
    : device(std::move(its_device)), stream(std::move(its_stream)), is_default(is_the_default) {
  if (!is_default) g_live_streams.push_back(this);
}

StreamObject::~StreamObject() {
  is_ending = true;
  {
    const WithoutGil release;
    stream = {};
  }
  std::erase(g_live_streams, this);
}

bool is_a_live_stream_busy(const DeviceObject& device) {
  return std::ranges::any_of(g_live_streams, [&](const StreamObject* object) {
    if (object->device_object().device.handle() != device.device.handle()) return false;
    return object->is_ending || bpa_stream_query(object->stream.handle()) == BP_PENDING;
  });
}

bool is_wait_long(const DeviceObject& device) {
  constexpr std::chrono::microseconds kShort{200};
  if (!is_main_thread() || (device.is_inline && g_live_streams.empty())) return false;
  const Stream stream = Stream::default_of(device.device);
  const auto begin = std::chrono::steady_clock::now();
  while (bpa_stream_query(stream.handle()) == BP_PENDING || has_busy_streams(device)) {
    if (std::chrono::steady_clock::now() - begin > kShort) return true;
    std::this_thread::yield();
  }
  return false;
}

nb::object new_stream(nb::handle device) {
  const auto& owner = nb::cast<const DeviceObject&>(device);
  owner.check_open();
  return make_stream(nb::borrow(device), Stream::create(owner.device));
}

bpa_stream* parse_stream(nb::handle object, const char* function) {
  if (object.is_none()) return nullptr;
  if (!nb::isinstance<StreamObject>(object)) {
    fail(PyExc_TypeError, std::string(function) +
                              ": argument 'stream': expected a Stream or None, found " +
                              name_of_type(object));
  }
  return nb::inst_ptr<StreamObject>(object)->stream.handle();
}

static const PyType_Slot kSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(refuse_new)},
    {0, nullptr},
};

void bind_streams(nb::module_& module) {
  nb::class_<StreamObject>(module, "Stream", nb::type_slots(kSlots), nb::is_final(),
                           nb::is_weak_referenceable(),
                           "An ordered queue of one device. In `with stream:` the operators, "
                           "assignments and runs of this thread on that device go there.")
      .def_static("wrap", &wrap, nb::arg("device"), nb::arg("native_handle"),
                  nb::sig("def wrap(device: Device | str, native_handle: tuple[str, int]) -> "
                          "Stream"),
                  "A stream over a queue of the vendor's own interface, which lives at least as "
                  "long: (kind, handle), as `native_handle` answers it.")
      .def_prop_ro(
          "device", [](const StreamObject& self) { return self.device; },
          "The Device whose queue it is.")
      .def_prop_ro("native_handle", &native_handle,
                   "The vendor's queue behind the stream: (kind, handle).")
      .def("sync", &sync, "Waits for all work; its first failure is raised, again at each call.")
      .def(
          "query",
          [](const StreamObject& self) {
            self.check_open();
            return self.stream.done();
          },
          "Whether nothing is left to do. Never waits.")
      .def("reset", &reset, "Ends a failure: waits for the rest, and begins anew.")
      .def("acquire", &acquire, nb::arg("tensor"), nb::kw_only(), nb::arg("write") = false,
           "What the caller enqueues on the native queue from now on waits for the tensor.")
      .def("release", &release, nb::arg("tensor"), nb::kw_only(), nb::arg("write") = false,
           "Who uses the tensor from now on waits for what the caller has enqueued.")
      .def("__eq__", &is_same)
      .def("__hash__", &hash_of)
      .def("__enter__", &enter)
      .def("__exit__", [](nb::handle_t<StreamObject> self, nb::args) { leave(self); })
      .def("__repr__", &describe);
  module.def("current_stream", &current_stream, nb::arg("device") = nb::none(),
             nb::sig("def current_stream(device: Device | str | None = None) -> Stream"),
             "The stream to which this thread's work on the device goes.");
}

}  // namespace bp::python
