// SPDX-License-Identifier: Apache-2.0
//
// The library's log on its way to Python. Lines come on any thread and at any moment, where nobody
// may take the GIL and no handler of Python's may run: they wait until a thread of Python's own
// (backplane._logging) fetches them. What it does not fetch in time, because Python is busy, or
// waits for the very thing that the line is about, goes to standard error.
#ifndef BACKPLANE_PYTHON_LOGGING_HPP
#define BACKPLANE_PYTHON_LOGGING_HPP

#include <nanobind/nanobind.h>

namespace bp::python {

namespace nb = nanobind;

/// From here on the log of the process goes to Python.
void bind_logging(nb::module_& module);

/// Waits a little until what was logged so far is told, so that it stands before what the program
/// logs next. The GIL is held, and given away meanwhile.
void flush_log();

/// Tells what waits; later lines go to standard error. The GIL is held.
void end_logging();

}  // namespace bp::python

#endif
