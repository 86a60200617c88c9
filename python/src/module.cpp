// SPDX-License-Identifier: Apache-2.0
//
// The extension backplane._core: thin bindings over the public C API, in this order of files:
// errors, dtypes, scalars (single values), devices (runtimes too), tensors, operands and
// arithmetic, ops (any operator by its id), indexing, values, host_memory with buffers and dlpack,
// asarray, creation, streams, sessions (load, runs and their arguments, cancels, completions).
// Deleters of the library, which run on any thread, go through deferred; waits that Ctrl-C ends,
// through interrupts.
#include <nanobind/nanobind.h>

#include "array_api.hpp"
#include "buffers.hpp"
#include "cancels.hpp"
#include "completions.hpp"
#include "creation.hpp"
#include "devices.hpp"
#include "dlpack.hpp"
#include "dtypes.hpp"
#include "errors.hpp"
#include "interrupts.hpp"
#include "logging.hpp"
#include "ops.hpp"
#include "session_class.hpp"
#include "streams.hpp"
#include "tensors.hpp"

NB_MODULE(bound_core, module) {
  nanobind::set_leak_warnings(false);  // what is alive at exit belongs to the program
  bp::python::bind_errors(module);
  bp::python::bind_logging(module);
  bp::python::bind_dtypes(module);
  bp::python::bind_interrupts();
  bp::python::bind_devices(module);
  bp::python::bind_tensors(module);
  bp::python::bind_exchange_api(module);
  bp::python::bind_buffers(module);
  bp::python::bind_array_api(module);
  bp::python::bind_creation(module);
  bp::python::bind_streams(module);
  bp::python::bind_cancels(module);
  bp::python::bind_completions(module);
  bp::python::bind_sessions(module);
  bp::python::bind_operators(module);
  module.attr("__version__") = bpa_version();
}
