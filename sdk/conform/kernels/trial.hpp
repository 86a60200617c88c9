// SPDX-License-Identifier: Apache-2.0
//
// Level 3: an operator in some dtypes, tried on every kernel of a device that takes it.
#ifndef BACKPLANE_SDK_CONFORM_KERNELS_TRIAL_HPP
#define BACKPLANE_SDK_CONFORM_KERNELS_TRIAL_HPP

#include <string>
#include <string_view>
#include <vector>

#include "sdk/conform/context.hpp"
#include "sdk/conform/kernels/call.hpp"
#include "sdk/conform/kernels/golden.hpp"
#include "sdk/conform/kernels/operand.hpp"

namespace bp::conform {

/// What is done with a call beside asking for its result.
enum class Manner {
  kOnce,
  kMixed,     // inputs in layouts that differ from each other
  kAgain,     // a plan is launched with other memory and values, and with the first ones again
  kOrdered,   // the plan chooses the order of the outputs
  kThreads,   // two threads at once, where the device allows it
  kInPlace,   // output 0 is in the memory of an input, where the kernel allows it
  kPacked,    // inputs are constants, which the plan may want packed
  kRecorded,  // a launch that may be recorded is made again, on what its memory holds then
  kViews,     // outputs lie in layouts too, where the kernel writes into such
};

struct Trial {
  std::string id;
  bool brief = false;
  const OpSchema* schema = nullptr;
  const Recipe* recipe = nullptr;
  DtypeChoice dtypes;
  Pass pass = Pass::kExact;
  Manner manner = Manner::kOnce;
  Layout layout = Layout::kDense;
  std::vector<Border> borders = {Border::kNan};  // each is tried with the first shot
  bool all_borders = false;                      // ... and with the others
  std::vector<const Shot*> shots;
};

/// Every operator, but for constants and those without a recipe, in all its dtypes. The same list
/// for all devices.
std::vector<Trial> all_trials();
/// nullptr: none. Static data.
const Recipe* find_recipe(std::string_view op);
std::vector<const Shot*> all_shots(const Recipe& recipe);

/// Throws NotApplicable where no kernel takes any of the calls.
void run_trial(Context& context, const Trial& trial);
/// The same with values that are given, and with what they give.
void run_golden(Context& context, const OpSchema& schema, const GoldenLine& line);

}  // namespace bp::conform

#endif
