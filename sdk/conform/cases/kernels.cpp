// SPDX-License-Identifier: Apache-2.0
//
// Level 3: the trials as cases, and what is to be said of a whole kernel list. What a device has no
// kernel for is UNSUPPORTED there, and counted.
#include <algorithm>
#include <string>

#include "core/base/dtype.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/options.hpp"
#include "ops/register.hpp"
#include "sdk/conform/case.hpp"
#include "sdk/conform/kernels/planned.hpp"
#include "sdk/conform/kernels/trial.hpp"

namespace bp::conform {
namespace {

constexpr std::string_view kProves =
    "a kernel computes what its operator means, from every layout that its rules admit, writes all "
    "of its outputs and nothing else";
/// Strides of a call's inputs: with channels last where a kernel takes that.
std::vector<Dims> strides_of(const KernelRecord& record, const Call& call, Layout layout) {
  std::vector<Dims> strides;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Dims& sizes = call.inputs[i].sizes;
    const bool lies_so = call.inputs[i].dtype != BP_DTYPE_NONE && can_lie(layout, sizes) &&
                         takes(arg_rule(record, i).strides, layout, sizes);
    strides.push_back(strides_in(lies_so ? layout : Layout::kDense, sizes));
  }
  return strides;
}

/// Whether the kernel takes any call of the operator in these dtypes. `out_why`: the last refusal.
bool takes_any(Context& context, const KernelRecord& record, const OpSchema& schema,
               const DtypeChoice& dtypes, std::string* out_why) {
  const Recipe& recipe = *find_recipe(schema.name);
  for (const Shot* shot : all_shots(recipe)) {
    const auto call = make_call(schema, recipe, *shot, dtypes, Pass::kExact);
    if (!call.ok()) continue;
    for (const Layout layout : {Layout::kDense, Layout::kChannelsLast}) {
      const Planned planned(
          context, record, *call, strides_of(record, *call, layout),
          {.any_order = layout != Layout::kDense && chooses_order(record, *call)});
      if (planned.refusal().empty()) return true;
      *out_why = planned.refusal();
    }
  }
  return false;
}

/// What a kernel lists, variable by variable, it must take in some call that the kit makes:
/// otherwise no case would ever run it.
void check_listed_dtypes(Context& context, const KernelRecord& record, const OpSchema& schema) {
  const std::vector<DtypeChoice> choices = dtype_choices(schema);
  for (size_t variable = 0; variable < schema.type_vars.size(); ++variable) {
    const uint64_t listed = record.dtype_masks[variable] & schema.type_vars[variable].dtype_mask;
    for (uint32_t dtype = 1; dtype < 64; ++dtype) {
      if ((listed & BP_DTYPE_BIT(dtype)) == 0) continue;
      std::string why = "no call has these dtypes";
      const bool taken =
          std::any_of(choices.begin(), choices.end(), [&](const DtypeChoice& choice) {
            return choice.variables[variable] == dtype && admits(record, schema, choice) &&
                   takes_any(context, record, schema, choice, &why);
          });
      context.expect(taken, words("that kernel ", record.name, " takes some call of ", schema.name,
                                  " with ", schema.type_vars[variable].name, " = ",
                                  dtype_name(dtype), ", which it lists; last refusal: ", why));
    }
  }
}

void each_listed_dtype_is_taken(Context& context, const OpSchema& schema) {
  bool has_kernels = false;
  for (const KernelRecord& record : context.kernels().kernels) {
    if (schema.name != record.op) continue;
    has_kernels = true;
    if (context.expect_equal(words("type variables in the descriptor of ", record.name),
                             record.dtype_masks.size(), schema.type_vars.size())) {
      check_listed_dtypes(context, record, schema);
    }
  }
  if (!has_kernels) throw NotApplicable{words("no kernel for ", schema.name)};
}

/// A name with a dot is a vendor's own operator, which the kit cannot know.
void each_operator_is_known(Context& context) {
  std::vector<std::string> known;
  for (const OpSchema& schema : all_schemas()) known.emplace_back(schema.name);
  context.expect(true, "a list");
  for (const KernelRecord& record : context.kernels().kernels) {
    const std::string op = foreign_text(record.op);
    const bool is_known = op.find('.') != std::string::npos ||
                          std::find(known.begin(), known.end(), op) != known.end();
    if (is_known) continue;
    const auto near = nearest_match(op, known);
    context.fail(words("kernel ", record.name, " is for '", op, "', which is no operator",
                       near ? "; did you mean " + *near + "?" : ""));
  }
}

void none_is_refused(Context& context) {
  context.expect(true, "a list");
  for (const std::string& refused : context.kernels().refused) context.fail(refused);
}

/// Golden points of every operator and dtype that there are some of.
void add_golden_cases(CaseList* list) {
  for (const GoldenLine& line : golden_lines()) {
    const OpSchema* schema = golden_schema(line);
    if (schema == nullptr || find_recipe(line.op) == nullptr) continue;  // tests/conform tells
    const std::string dtypes = golden_dtypes(*schema, line).name();
    list->add({.id = "L3." + std::string(line.op) + "." + dtypes + ".golden",
               .proves = "a kernel computes what functions that others wrote compute",
               .run = [schema, &line](Context& context) { run_golden(context, *schema, line); }});
  }
}

}  // namespace

void add_kernel_cases(CaseList* list) {
  list->add({.id = "L3.list.none_is_refused",
             .proves = "every descriptor of the kernel list is one that a core can use",
             .brief = true,
             .run = none_is_refused});
  list->add({.id = "L3.list.each_operator_is_known",
             .proves = "no kernel is left unused because its operator's name is misspelt",
             .run = each_operator_is_known});
  for (const OpSchema& schema : all_schemas()) {
    if (find_recipe(schema.name) != nullptr) {
      // Of one operator each: a device may compile a program for every dtype.
      list->add(
          {.id = "L3." + std::string(schema.name) + ".each_dtype_is_taken",
           .proves = "a kernel takes calls in each dtype that it lists",
           .run = [&schema](Context& context) { each_listed_dtype_is_taken(context, schema); }});
      continue;
    }
    if (schema.constant || schema.of_types) continue;
    list->add({.id = "L3." + std::string(schema.name) + ".has_a_recipe",
               .proves = "the kit knows how to try every operator",
               .run = [](Context& context) { context.fail("the kit has no recipe for it"); }});
  }
  for (Trial& trial : all_trials()) {
    list->add(
        {.id = trial.id, .proves = kProves, .brief = trial.brief, .run = [trial](Context& context) {
           run_trial(context, trial);
         }});
  }
  add_golden_cases(list);
}

}  // namespace bp::conform
