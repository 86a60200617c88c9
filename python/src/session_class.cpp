// SPDX-License-Identifier: Apache-2.0
#include "session_class.hpp"

#include <memory>
#include <string>
#include <utility>

#include "gil.hpp"
#include "refuse_new.hpp"
#include "runs.hpp"
#include "sessions.hpp"
#include "tensors.hpp"

namespace bp::python {
namespace {

/// Backs the Python class _Run: a run that was queued, and what its end needs of Python.
struct RunObject {
  nb::object session;
  OutputPlan plan;
  std::shared_ptr<AsyncRun> run;
};

SessionObject& session_of(nb::handle object) { return *nb::inst_ptr<SessionObject>(object); }

nb::object python_function(const char* module, const char* name) {
  return nb::module_::import_(module).attr(name);
}

nb::object load(nb::handle model, const nb::args& more, nb::handle device, nb::handle dims,
                nb::handle memory_limit, nb::handle max_contexts, bool deterministic,
                bool read_weights) {
  if (more.size() != 0) {
    fail(PyExc_TypeError, "load: takes one argument by position, the model, found " +
                              std::to_string(more.size() + 1) +
                              "; others go by name: load(model, device=...)");
  }
  auto [handle, first_device] =
      load_session({model, device, dims, memory_limit, max_contexts, deterministic, read_weights});
  nb::object made;
  try {
    made = nb::inst_alloc(nb::type<SessionObject>());
  } catch (...) {
    bpa_session_release(handle);
    throw;
  }
  new (nb::inst_ptr<void>(made)) SessionObject(handle, std::move(first_device));
  nb::inst_mark_ready(made);
  return made;
}

/// Calls the library; what it says of arguments becomes Python's words.
template <class Body>
void explained(const RunRequest& request, Body body) {
  try {
    body();
  } catch (const Error& error) {
    throw request.explain(error);
  }
}

/// The way of small models: nothing is parsed but the inputs.
PyObject* call(PyObject* self, PyObject* inputs, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    if (keywords != nullptr && PyDict_Size(keywords) != 0) {
      fail(PyExc_TypeError, "Session(): takes inputs in order and no keywords; run() takes names");
    }
    SessionObject& session = session_of(self);
    RunRequest request(session, {.function = "Session()", .inputs = inputs});
    Answered answered(session.outputs().size());
    explained(request, [&] { run_now(session, request, answered.data()); });
    return make_result(session, answered).release().ptr();
  });
}

nb::object run(SessionObject& session, nb::handle inputs, nb::handle out, nb::handle outputs,
               nb::handle timeout, nb::handle cancel, nb::handle stream) {
  const RunArguments given{"run", inputs, out, outputs, timeout, cancel, stream};
  OutputPlan plan(session, given);
  RunRequest request(session, given);
  plan.bind(request.args());
  Answered answered(session.outputs().size());
  explained(request, [&] { run_now(session, request, answered.data()); });
  return plan.make_dict(session, answered);
}

/// noted: (runs, number, future), a dict that gets the run and its future by that number before the
/// run may end.
nb::object start(nb::handle_t<SessionObject> self, const CompletionQueueObject& queue,
                 const nb::tuple& noted, const char* function, nb::handle inputs, nb::handle out,
                 nb::handle outputs, nb::handle timeout, nb::handle cancel, nb::handle stream) {
  SessionObject& session = session_of(self);
  const RunArguments given{function, inputs, out, outputs, timeout, cancel, stream};
  OutputPlan plan(session, given);
  RunRequest request(session, given);
  plan.bind(request.args());
  auto run = std::make_shared<AsyncRun>(session.core(), session.outputs().size(), request.cancel());
  nb::object made = nb::cast(RunObject{nb::borrow(self), std::move(plan), run});
  auto runs = nb::borrow<nb::dict>(noted[0]);
  runs[noted[1]] = nb::make_tuple(made, noted[2]);
  try {
    const auto number = nb::cast<uint64_t>(noted[1]);
    explained(request, [&] { run->start(request.args(), queue.queue, number); });
  } catch (...) {
    nb::del(runs[noted[1]]);
    throw;
  }
  return made;
}

nb::object result_of(const RunObject& self) {
  SessionObject& session = session_of(self.session);
  Answered answered(session.outputs().size());
  self.run->give(answered.data());
  return self.plan.make_dict(session, answered);
}

// --- What a session tells ----------------------------------------------------------------------

/// (name, dtype, has_rank, sizes, dim_names, has_default, min_sizes, max_sizes)
nb::object describe_io(const SessionIo& io) {
  nb::object names = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(io.io.dim_names.size())));
  for (size_t i = 0; i < io.io.dim_names.size(); ++i) {
    PyTuple_SetItem(names.ptr(), static_cast<Py_ssize_t>(i),
                    nb::str(io.io.dim_names[i].c_str()).release().ptr());
  }
  const Dtype* dtype = find_dtype(io.io.dtype);
  return nb::make_tuple(io.name_object, dtype == nullptr ? nb::none() : dtype_object(*dtype),
                        io.io.has_rank, tuple_of(io.io.sizes), names, io.io.has_default,
                        tuple_of(io.io.min_sizes), tuple_of(io.io.max_sizes));
}

nb::object describe_ios(const std::vector<SessionIo>& ios) {
  nb::list rows;
  for (const SessionIo& io : ios) rows.append(describe_io(io));
  return call_python(python_function("backplane._session", "describe_ios"), rows);
}

const char* placement_name(uint32_t placement) {
  switch (placement) {
    case BPA_PLACEMENT_NATIVE:
      return "native";
    case BPA_PLACEMENT_DECOMPOSED:
      return "decomposed";
    case BPA_PLACEMENT_FALLBACK:
      return "fallback";
    case BPA_PLACEMENT_VIEW:
      return "view";
    default:
      return "known";
  }
}

nb::object node_at(SessionObject& session, bpa_session* handle, uint64_t index) {
  bpa_node_info info{};
  info.struct_size = sizeof(info);
  check(bpa_session_get_node(handle, index, &info));
  const nb::object device =
      info.device == nullptr ? nb::none() : nb::borrow(session.device_for(info.device));
  return nb::make_tuple(info.name, info.op, device, placement_name(info.placement), info.kernels,
                        info.reason);
}

nb::object placement(SessionObject& session) {
  const std::shared_ptr<SessionCore> core = session.core();
  bpa_placement_info info{};
  info.struct_size = sizeof(info);
  check(bpa_session_get_placement(core->handle, &info));
  uint64_t count = 0;
  check(bpa_session_node_count(core->handle, &count));
  nb::list nodes;
  for (uint64_t i = 0; i < count; ++i) nodes.append(node_at(session, core->handle, i));
  nb::dict counts;
  counts["native_count"] = info.native_count;
  counts["decomposed_count"] = info.decomposed_count;
  counts["fallback_count"] = info.fallback_count;
  counts["view_count"] = info.view_count;
  counts["known_count"] = info.known_count;
  counts["memory_used"] = info.memory_used_bytes;
  counts["arena_bytes"] = info.arena_bytes;
  counts["live_bytes_peak"] = info.live_bytes_peak;
  return call_python(python_function("backplane._session", "describe_placement"), nodes, counts);
}

constexpr char kSubmit[] = "submit";
constexpr char kRunAsync[] = "run_async";

/// Done in Python, by the function of this name in backplane._async.
template <const char* Name>
nb::object delegate(nb::handle_t<SessionObject> self, nb::handle inputs, nb::handle out,
                    nb::handle outputs, nb::handle timeout, nb::handle cancel, nb::handle stream) {
  nb::dict options;
  options["out"] = out;
  options["outputs"] = outputs;
  options["timeout"] = timeout;
  options["cancel"] = cancel;
  options["stream"] = stream;
  return call_python(python_function("backplane._async", Name), self, inputs, options);
}

// --- Classes -----------------------------------------------------------------------------------

const PyType_Slot kSlots[] = {
    {Py_tp_call, reinterpret_cast<void*>(call)},
    {Py_tp_new, reinterpret_cast<void*>(refuse_new)},
    {0, nullptr},
};

using SessionClass = nb::class_<SessionObject>;

/// For help(): what the three ways to run have in common.
std::string run_signature(const char* name, const char* answer) {
  return "def " + std::string(name) +
         "(self, inputs: dict[str, object], *, out: dict[str, Tensor] | None = None, outputs: "
         "Sequence[str] | None = None, timeout: float | None = None, cancel: Cancel | None = None, "
         "stream: Stream | None = None) -> " +
         answer;
}

void bind_run_methods(SessionClass& bound) {
  bound
      .def("run", &run, nb::arg("inputs"), nb::kw_only(), nb::arg("out") = nb::none(),
           nb::arg("outputs") = nb::none(), nb::arg("timeout") = nb::none(),
           nb::arg("cancel") = nb::none(), nb::arg("stream") = nb::none(),
           nb::sig(run_signature("run", "dict[str, Tensor]").c_str()),
           "Runs once and answers a dict of the outputs by name, or of those listed in `outputs`. "
           "inputs: tensors, or what asarray() takes, by name. out: tensors that get outputs, by "
           "name. timeout: seconds, above 0. cancel: a Cancel. stream: a Stream of the session's "
           "device; the thread's current one unless given. Any thread; the GIL is released.")
      .def("submit", &delegate<kSubmit>, nb::arg("inputs"), nb::kw_only(),
           nb::arg("out") = nb::none(), nb::arg("outputs") = nb::none(),
           nb::arg("timeout") = nb::none(), nb::arg("cancel") = nb::none(),
           nb::arg("stream") = nb::none(),
           nb::sig(run_signature("submit", "Future[dict[str, Tensor]]").c_str()),
           "Queues a run, and answers a concurrent.futures.Future of what run() answers. Inputs "
           "that share memory with arrays must not change until the run has ended.")
      .def("run_async", &delegate<kRunAsync>, nb::arg("inputs"), nb::kw_only(),
           nb::arg("out") = nb::none(), nb::arg("outputs") = nb::none(),
           nb::arg("timeout") = nb::none(), nb::arg("cancel") = nb::none(),
           nb::arg("stream") = nb::none(),
           nb::sig(run_signature("run_async", "Coroutine[Any, Any, dict[str, Tensor]]").c_str()),
           "run() to be awaited. A task that is cancelled cancels the run.")
      .def("_start", &start, nb::arg("queue"), nb::arg("noted"), nb::arg("function"),
           nb::arg("inputs"), nb::kw_only(), nb::arg("out") = nb::none(),
           nb::arg("outputs") = nb::none(), nb::arg("timeout") = nb::none(),
           nb::arg("cancel") = nb::none(), nb::arg("stream") = nb::none());
}

void bind_load(nb::module_& module) {
  module.def(
      "load", &load, nb::arg("model").none(), nb::arg("more"), nb::arg("device") = nb::none(),
      nb::arg("dims") = nb::none(), nb::arg("memory_limit") = nb::none(),
      nb::arg("max_contexts") = nb::none(), nb::arg("deterministic") = false,
      nb::arg("read_weights") = false,
      nb::sig("def load(model: str | PathLike | bytes, *, device: Device | str | Sequence[Device "
              "| str] | None = None, dims: dict[str, int | tuple[int, int | None]] | None = None, "
              "memory_limit: int | None = None, max_contexts: int | None = None, deterministic: "
              "bool = False, read_weights: bool = False) -> Session"),
      "A Session of an ONNX model: a path, or the bytes of a file. device: a Device or its "
      "name; a list: in order of preference. dims: sizes of symbolic dimensions, or "
      "(min, max) of each, where None is no end. memory_limit: bytes. max_contexts: runs at once. "
      "deterministic: equal bits on equal runs. read_weights: files are read, not mapped. "
      "MissingFileError, a FileNotFoundError, where there is no file.");
}

}  // namespace

void bind_sessions(nb::module_& module) {
  nb::class_<RunObject>(module, "_Run", nb::is_final())
      .def("cancel", [](const RunObject& self) { self.run->request_cancel(); })
      .def("result", &result_of);
  SessionClass bound(module, "Session", nb::type_slots(kSlots), nb::is_final(),
                     nb::is_weak_referenceable(),
                     "A model made ready to run, from any number of threads at once. A call takes "
                     "the inputs in order and answers a tensor, or a tuple of them.");
  bind_run_methods(bound);
  bound
      .def_prop_ro(
          "device", [](const SessionObject& self) { return nb::borrow(self.device_object()); },
          "The Device that runs the model; the first where load() was given several.")
      .def_prop_ro(
          "inputs", [](const SessionObject& self) { return describe_ios(self.inputs()); },
          "A TensorInfo (name, dtype, shape, ...) of each input, in the order of calls.")
      .def_prop_ro(
          "outputs", [](const SessionObject& self) { return describe_ios(self.outputs()); },
          "A TensorInfo (name, dtype, shape, ...) of each output, in the order of answers.")
      .def_prop_ro("placement", &placement,
                   "How the nodes of the newest run were placed; before the first run, those that "
                   "load() planned ahead. A Placement.")
      .def_prop_ro("is_closed", &SessionObject::is_closed, "Whether close() was called.")
      .def("close", &SessionObject::close,
           "Later calls raise GONE. Runs in progress end as they would have.")
      .def("__enter__", [](nb::handle_t<SessionObject> self) { return nb::borrow(self); })
      .def("__exit__", [](SessionObject& self, nb::args) { self.close(); })
      .def("__repr__", [](nb::handle_t<SessionObject> self) {
        return call_python(python_function("backplane._session", "describe"), self);
      });
  bind_load(module);
}

}  // namespace bp::python
