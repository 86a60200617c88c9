// SPDX-License-Identifier: Apache-2.0
#include "argument_names.hpp"

namespace bp::python {

Error renamed(const Error& error, const char* function, std::span<const ArgumentName> names) {
  const std::string status = std::string(bpa_status_name(error.status())) + ": ";
  std::string words = error.what();
  if (words.starts_with(status)) words.erase(0, status.size());
  for (const ArgumentName& name : names) {
    const std::string found = "argument " + name.in_c + " ";
    if (!words.starts_with(found)) continue;
    words =
        std::string(function) + ": argument '" + name.in_python + "' " + words.substr(found.size());
    return {error.status(), words, error.op()};
  }
  return error;
}

}  // namespace bp::python
