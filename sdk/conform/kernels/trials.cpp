// SPDX-License-Identifier: Apache-2.0
//
// The list of trials, made from schemas and recipes.
#include <algorithm>
#include <iterator>

#include "core/base/dtype.hpp"
#include "ops/register.hpp"
#include "sdk/conform/kernels/trial.hpp"

namespace bp::conform {
namespace {

constexpr Layout kLayouts[] = {Layout::kOffset,      Layout::kRows,     Layout::kGaps,
                               Layout::kTransposed,  Layout::kRepeated, Layout::kReversed,
                               Layout::kChannelsLast};
constexpr Border kBorders[] = {Border::kFinite, Border::kPageBehind, Border::kPageBefore};

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = all_recipes();
  return all;
}

std::vector<const Shot*> shots_of(const Variant& variant) {
  std::vector<const Shot*> shots;
  for (const Shot& shot : variant.shots) shots.push_back(&shot);
  return shots;
}

void add_trial(std::vector<Trial>* trials, std::string_view name, const Trial& trial, bool brief) {
  Trial& added = trials->emplace_back(trial);
  added.id =
      "L3." + std::string(trial.schema->name) + "." + trial.dtypes.name() + "." + std::string(name);
  added.brief = brief && trial.brief;
}

/// Of each variant one, the first or the last.
std::vector<const Shot*> some_shots(const Recipe& recipe, bool last) {
  std::vector<const Shot*> shots;
  for (const Variant& variant : recipe.variants) {
    shots.push_back(last ? &variant.shots.back() : &variant.shots.front());
  }
  return shots;
}

bool can_any_lie(Layout layout, const Shot& shot) {
  return std::any_of(shot.inputs.begin(), shot.inputs.end(),
                     [layout](const auto& sizes) { return sizes && can_lie(layout, *sizes); });
}

/// From every layout, the main shot and one of each other variant.
void add_layouts(std::vector<Trial>* list, const Trial& base) {
  Trial trial = base;
  trial.shots = some_shots(*base.recipe, false);
  if (trial.shots.front()->inputs.size() > 1) {
    trial.manner = Manner::kMixed;
    add_trial(list, "mixed", trial, false);
    trial.manner = Manner::kOnce;
  }
  trial.borders.assign(std::begin(kBorders), std::end(kBorders));
  trial.borders.push_back(Border::kNan);
  for (const Layout layout : kLayouts) {
    if (!can_any_lie(layout, *trial.shots.front())) continue;
    trial.layout = layout;
    add_trial(list, layout_name(layout), trial, layout == Layout::kGaps);
  }
}

/// What kernels offer beside computing: few dtypes stand for all, since it is not the values that
/// it is about.
void add_offers(std::vector<Trial>* list, const Trial& base) {
  if (base.dtypes.variables.empty()) return;
  const uint32_t dtype = base.dtypes.variables.front();
  if (dtype != BP_DTYPE_F32 && dtype != BP_DTYPE_F16 && dtype != BP_DTYPE_I64) return;
  Trial trial = base;
  trial.shots = some_shots(*base.recipe, true);
  trial.manner = Manner::kInPlace;
  add_trial(list, "in_place", trial, false);
  trial.manner = Manner::kRecorded;
  add_trial(list, "recorded", trial, false);
  if (dtype != BP_DTYPE_F32) return;
  trial.shots = all_shots(*base.recipe);
  for (const Shot& shot : base.recipe->many) trial.shots.push_back(&shot);
  trial.manner = Manner::kPacked;
  add_trial(list, "packed", trial, false);
}

/// Outputs in every layout, in one dtype of each size: kernels that move elements go by that.
void add_views(std::vector<Trial>* list, const Trial& base) {
  constexpr uint32_t kSizes[] = {BP_DTYPE_U8, BP_DTYPE_F16, BP_DTYPE_F32, BP_DTYPE_I64};
  const auto& dtypes = base.dtypes.variables;
  if (dtypes.empty() || std::ranges::find(kSizes, dtypes.front()) == std::end(kSizes)) return;
  Trial trial = base;
  trial.shots = all_shots(*base.recipe);
  trial.manner = Manner::kViews;
  trial.borders.assign(std::begin(kBorders), std::end(kBorders));
  trial.borders.push_back(Border::kNan);
  add_trial(list, "into_views", trial, false);
}

/// A plan that is used again; and in f32 what takes time.
void add_manners(std::vector<Trial>* list, const Trial& base) {
  const Recipe& recipe = *base.recipe;
  Trial trial = base;
  trial.shots = some_shots(recipe, true);
  trial.pass = Pass::kPrecision;
  trial.manner = Manner::kAgain;
  add_trial(list, "again", trial, false);
  if (base.dtypes.variables.empty() || base.dtypes.variables.front() != BP_DTYPE_F32) return;
  trial = base;
  trial.shots = all_shots(recipe);
  trial.manner = Manner::kOrdered;
  add_trial(list, "ordered", trial, false);
  trial = base;
  for (const Shot& shot : recipe.many) trial.shots.push_back(&shot);
  if (!trial.shots.empty()) add_trial(list, "many", trial, false);
  trial.manner = Manner::kThreads;
  trial.shots = {recipe.many.empty() ? &recipe.variants.front().shots.front()
                                     : &recipe.many.front()};
  add_trial(list, "threads", trial, false);
}

/// A first look tries one choice of dtypes: a device may compile a program for each.
bool stands_for_all(const OpSchema& schema, const DtypeChoice& dtypes) {
  const auto is_f32 = [](const DtypeChoice& choice) {
    return !choice.variables.empty() && choice.variables.front() == BP_DTYPE_F32;
  };
  const std::vector<DtypeChoice> choices = dtype_choices(schema);
  if (std::any_of(choices.begin(), choices.end(), is_f32)) return is_f32(dtypes);
  return dtypes.variables == choices.front().variables;
}

/// One operator in one choice of dtypes.
void add_dtypes(std::vector<Trial>* list, const Trial& base) {
  const Recipe& recipe = *base.recipe;
  Trial trial = base;
  const Variant& main_variant = recipe.variants.front();
  if (base.dtypes.is_further) {
    trial.shots = shots_of(main_variant);
    add_trial(list, main_variant.name, trial, false);
    return;
  }
  // Where an attribute names the result's dtype there are very many pairs: shapes and layouts are
  // tried for one of the rows.
  const bool is_pair = base.dtypes.named != BP_DTYPE_NONE && base.dtypes.named != BP_DTYPE_F32;
  for (const Variant& variant : recipe.variants) {
    const bool is_main = &variant == &main_variant;
    if (is_pair && !is_main) continue;
    trial.shots = shots_of(variant);
    add_trial(list, variant.name, trial, is_main);
  }
  const Shot& main = main_variant.shots.front();
  trial.shots = is_pair ? std::vector<const Shot*>{&main} : all_shots(recipe);
  trial.borders.assign(std::begin(kBorders), std::end(kBorders));
  trial.all_borders = true;
  add_trial(list, "borders", trial, false);
  if (!is_pair) {
    add_layouts(list, base);
    add_manners(list, base);
    add_offers(list, base);
    add_views(list, base);
  }
  trial.borders = base.borders;
  trial.pass = Pass::kPrecision;
  trial.shots = is_pair ? std::vector<const Shot*>{&main} : all_shots(recipe);
  if (base.dtypes.has_float()) {
    for (const Shot& shot : recipe.inexact) trial.shots.push_back(&shot);
  }
  if (!base.dtypes.variables.empty() && base.dtypes.variables.front() != BP_DTYPE_BOOL) {
    add_trial(list, base.dtypes.has_float() ? "precision" : "all_bits", trial, true);
  }
  const auto& fills = recipe.special_fills;
  const bool bad_indices =
      std::find(fills.begin(), fills.end(), FillKind::kBadIndex) != fills.end();
  if (recipe.specials.empty() || !(base.dtypes.has_float() || bad_indices)) return;
  trial.pass = Pass::kSpecial;
  trial.shots.clear();
  for (const Shot& shot : recipe.specials) trial.shots.push_back(&shot);
  add_trial(list, "special", trial, false);
}

}  // namespace

const Recipe* find_recipe(std::string_view op) {
  const auto found = std::find_if(recipes().begin(), recipes().end(),
                                  [op](const Recipe& recipe) { return recipe.op == op; });
  return found == recipes().end() ? nullptr : &*found;
}

std::vector<const Shot*> all_shots(const Recipe& recipe) {
  std::vector<const Shot*> shots;
  for (const Variant& variant : recipe.variants) {
    for (const Shot& shot : variant.shots) shots.push_back(&shot);
  }
  return shots;
}

std::vector<Trial> all_trials() {
  std::vector<Trial> trials;
  for (const OpSchema& schema : all_schemas()) {
    const Recipe* recipe = schema.constant ? nullptr : find_recipe(schema.name);
    if (recipe == nullptr) continue;
    for (DtypeChoice& dtypes : dtype_choices(schema)) {
      const bool is_taken =
          recipe->takes == nullptr || recipe->takes(dtypes.variables.front(), dtypes.named);
      if (!is_taken) continue;
      Trial base;
      base.schema = &schema;
      base.recipe = recipe;
      base.brief = stands_for_all(schema, dtypes);
      base.dtypes = std::move(dtypes);
      add_dtypes(&trials, base);
    }
  }
  return trials;
}

}  // namespace bp::conform
