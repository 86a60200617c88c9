// SPDX-License-Identifier: Apache-2.0
//
// Level 4: what collectives compute.
#include "sdk/conform/case.hpp"
#include "sdk/conform/collectives/subjects.hpp"

namespace bp::conform {

void add_collective_value_cases(CaseList* list) {
  for (const Subject& subject : all_subjects()) {
    list->add({.id = subject.id(),
               .proves = "every rank receives what the kind says of all that was sent, of any "
                         "count, in place or not, and nothing else is written",
               .needs = kNeedCollectives,
               .run = [subject](Context& context) { run_subject(context, subject); }});
  }
}

}  // namespace bp::conform
