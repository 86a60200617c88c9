// SPDX-License-Identifier: Apache-2.0
//
// What a program with raised privileges sees: a test makes copies of it that belong to another user
// and have the set-user-ID bit. The core is linked in, since such a program gets no library from a
// path relative to itself.
//   privilege_probe [PLUGIN_PATH]
#include <sys/auxv.h>

#include <cstdio>
#include <cstdlib>

#include "core/runtime/runtime.hpp"
#include "ops/register.hpp"

namespace {

int probe(int argc, char** argv) {
  std::printf("secure %d\n", getauxval(AT_SECURE) != 0 ? 1 : 0);
  bp::RuntimeArgs args;
  args.register_ops = bp::register_ops;
  if (argc > 1) args.plugin_path = {argv[1]};
  auto runtime = bp::Runtime::create(args);
  if (!runtime.ok()) {
    std::printf("no runtime: %s\n", runtime.status().to_string().c_str());
    return 1;
  }
  for (const auto& device : (*runtime)->devices())
    std::printf("device %s\n", device->name().c_str());
  for (const bp::SkippedPlugin& skipped : (*runtime)->plugins().skipped) {
    std::printf("skipped %s\n", skipped.to_string().c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int exit_code = probe(argc, argv);
  std::fflush(stdout);
  // At exit LeakSanitizer's tracer would look into this process, which its privileges may forbid.
  std::_Exit(exit_code);
}
