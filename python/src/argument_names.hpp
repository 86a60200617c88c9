// SPDX-License-Identifier: Apache-2.0
//
// The library names arguments as the C API has them; Python's callers know other names.
#ifndef BACKPLANE_PYTHON_ARGUMENT_NAMES_HPP
#define BACKPLANE_PYTHON_ARGUMENT_NAMES_HPP

#include <span>
#include <string>

#include "errors.hpp"

namespace bp::python {

struct ArgumentName {
  std::string in_c;       // "args.bound_outputs[0]"
  std::string in_python;  // "out['y']"
};

/// The error in Python's words: "argument args.stream is ..." as "run: argument 'stream' is ...".
/// One that names none of the arguments stays as it is.
Error renamed(const Error& error, const char* function, std::span<const ArgumentName> names);

}  // namespace bp::python

#endif
