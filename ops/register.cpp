// SPDX-License-Identifier: Apache-2.0
//
// Registration of the generated schema rows.
#include "ops/register.hpp"

namespace bp {

Status register_ops(OpRegistry* registry) {
  for (const OpSchema& schema : all_schemas()) BP_TRY(registry->add(schema));
  return {};
}

}  // namespace bp
