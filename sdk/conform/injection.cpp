// SPDX-License-Identifier: Apache-2.0
//
// A table that lacks a function of version 1 is as good as none.
#include "sdk/conform/injection.hpp"

namespace bp::conform {

Injection::Injection(const LoadedPlugin& plugin) : instance_(plugin.instance()) {
  for (const PluginExtension& extension : plugin.tables().extensions) {
    if (extension.name != BP_TEST_INJECT_NAME || extension.version < 1) continue;
    const auto* table = static_cast<const bp_test_inject_api*>(extension.table);
    if (table == nullptr || table->struct_size < sizeof(bp_test_inject_api)) continue;
    if (table->inject_arm == nullptr || table->inject_read == nullptr) continue;
    table_ = table;
  }
}

void Injection::arm(Checks& checks, uint64_t nth) const {
  bp_inject_args args{};
  args.struct_size = sizeof(args);
  args.kind = nth != 0 ? BP_INJECT_FAIL_CALL : BP_INJECT_NONE;
  args.status = BP_INVALID_ARGUMENT;
  args.nth = nth;
  checks.require_ok("inject_arm", table_->inject_arm(instance_, &args));
}

bool Injection::has_failed(Checks& checks) const {
  bp_inject_info info{};
  info.struct_size = sizeof(info);
  checks.require_ok("inject_read", table_->inject_read(instance_, &info));
  return info.failed_count != 0;
}

}  // namespace bp::conform
