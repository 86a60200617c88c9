// SPDX-License-Identifier: Apache-2.0
#include "argument_names.hpp"

namespace bp::python {

Error renamed(const Error& error, const char* function, std::span<const ArgumentName> names) {
  std::string words = words_of(error);
  for (const ArgumentName& name : names) {
    const std::string in_c = "argument " + name.in_c + " ";
    const size_t place = words.find(in_c);  // behind the model's name, or at the beginning
    if (place == std::string::npos) continue;
    words.replace(place, in_c.size(), "argument '" + name.in_python + "' ");
    return {error.status(), std::string(function) + ": " + words, error.op()};
  }
  return error;
}

}  // namespace bp::python
