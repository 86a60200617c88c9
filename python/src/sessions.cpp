// SPDX-License-Identifier: Apache-2.0
#include "sessions.hpp"

#include <cstring>

#include "deferred.hpp"
#include "gil.hpp"

namespace bp::python {
namespace {

template <class Count, class Get>
std::vector<SessionIo> describe(bpa_session* session, Count get_count, Get get) {
  uint64_t count = 0;
  check(get_count(session, &count));
  std::vector<SessionIo> all;
  for (uint64_t i = 0; i < count; ++i) {
    bpa_io_info info{};
    info.struct_size = sizeof(info);
    check(get(session, i, &info));
    Io io{info.name,
          info.dtype,
          info.has_rank != 0,
          {info.sizes, info.sizes + info.rank},
          {info.dim_names, info.dim_names + info.rank},
          info.has_default != 0,
          {info.min_sizes, info.min_sizes + info.rank},
          {info.max_sizes, info.max_sizes + info.rank}};
    PyObject* name = PyUnicode_DecodeUTF8(
        info.name, static_cast<Py_ssize_t>(std::strlen(info.name)), "surrogateescape");
    if (name == nullptr) throw nb::python_error();
    PyUnicode_InternInPlace(&name);  // most names that users give are this very object
    all.push_back({nb::steal(name), std::move(io)});
  }
  return all;
}

}  // namespace

SessionObject::SessionObject(bpa_session* handle, nb::object device)
    : core_(std::make_shared<SessionCore>(handle)),
      devices_{std::move(device)},
      inputs_(describe(handle, bpa_session_input_count, bpa_session_get_input)),
      outputs_(describe(handle, bpa_session_output_count, bpa_session_get_output)) {}

std::shared_ptr<SessionCore> SessionObject::core() const {
  device().check_open();
  if (core_ == nullptr) throw Error(BP_GONE, "the Session is closed");
  return core_;
}

void SessionObject::close() {
  std::shared_ptr<SessionCore> last = std::move(core_);
  core_ = nullptr;
  if (last == nullptr) return;
  {
    const WithoutGil release;
    last.reset();
  }
  run_deferred();  // what that let go of: a model's bytes
}

nb::handle SessionObject::device_for(bpa_device* handle) {
  for (const nb::object& known : devices_) {
    if (nb::inst_ptr<DeviceObject>(known)->device.handle() == handle) return known;
  }
  devices_.push_back(device_object_of(device().runtime, handle));
  return devices_.back();
}

int64_t find_io(const std::vector<SessionIo>& ios, nb::handle name) {
  for (size_t i = 0; i < ios.size(); ++i) {
    if (ios[i].name_object.ptr() == name.ptr()) return static_cast<int64_t>(i);
  }
  if (!PyUnicode_Check(name.ptr())) return -1;
  for (size_t i = 0; i < ios.size(); ++i) {
    if (PyUnicode_Compare(ios[i].name_object.ptr(), name.ptr()) == 0) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

std::string names_of(const std::vector<SessionIo>& ios) {
  std::string names;
  for (const SessionIo& io : ios) names += (names.empty() ? "" : ", ") + io.io.name;
  return names;
}

}  // namespace bp::python
