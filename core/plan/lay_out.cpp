// SPDX-License-Identifier: Apache-2.0
//
// Which values of a segment share memory: those that do not live at one time, and an output with
// the input that its kernel may overwrite.
#include <algorithm>

#include "core/plan/planner.hpp"

namespace bp {
namespace {

/// The arena of one device.
class ArenaLayout {
 public:
  ArenaLayout(Segment* segment, PlanDevice where)
      : segment_(*segment),
        where_(where),
        lives_(segment->values.size()),
        item_of_(segment->values.size(), kNoItem) {}

  Status run();

 private:
  static constexpr size_t kNoItem = SIZE_MAX;

  /// The steps from the first that touches a value to the last.
  struct Life {
    bool is_used = false;
    uint32_t first = 0;
    uint32_t last = 0;
  };

  PlanValueId base_of(PlanValueId id) const {
    return segment_.values[id].kind == PlanValueKind::kView ? segment_.values[id].base : id;
  }
  /// The value has memory of its own here.
  bool is_here(PlanValueId id) const {
    const PlanValue& planned = segment_.values[id];
    return planned.kind == PlanValueKind::kArena && planned.device == where_;
  }
  void touch(PlanValueId id, uint32_t at);
  PlanValueId overwritten_by(uint32_t at) const;
  bool may_overwrite(const Step& step, PlanValueId input, uint64_t inputs) const;
  void add_outputs(uint32_t at);

  Segment& segment_;
  PlanDevice where_;
  std::vector<Life> lives_;
  std::vector<size_t> item_of_;  // by value
  std::vector<ArenaItem> items_;
};

void ArenaLayout::touch(PlanValueId id, uint32_t at) {
  if (id == kNoPlanValue) return;
  const PlanValueId base = base_of(id);
  if (!is_here(base)) return;
  Life& life = lives_[base];
  if (!life.is_used) life = {.is_used = true, .first = at, .last = at};
  life.last = at;
}

/// Whether all that the step reads of the input's memory is the input, where it may be overwritten.
bool ArenaLayout::may_overwrite(const Step& step, PlanValueId input, uint64_t inputs) const {
  for (size_t i = 0; i < step.input_count; ++i) {
    const PlanValueId arg = step.args[i];
    if (arg == kNoPlanValue || base_of(arg) != input) continue;
    if (arg != input || i >= 64 || (inputs >> i & 1) == 0) return false;
  }
  return true;
}

/// The input whose memory output 0 of a step takes; kNoPlanValue: none.
PlanValueId ArenaLayout::overwritten_by(uint32_t at) const {
  const Step& step = segment_.steps[at];
  const uint64_t inputs = step.kernel == nullptr ? 0 : step.kernel->in_place_inputs();
  if (inputs == 0 || step.device != where_ || step.extents != kNoPlanValue) return kNoPlanValue;
  const PlanValueId output = step.args[step.input_count];
  if (output == kNoPlanValue || !is_here(output)) return kNoPlanValue;
  const PlanValue& form = segment_.values[output];
  for (size_t i = 0; i < std::min<size_t>(step.input_count, 64); ++i) {
    const PlanValueId input = step.args[i];
    if ((inputs >> i & 1) == 0 || input == kNoPlanValue || !is_here(input)) continue;
    const PlanValue& old = segment_.values[input];
    const bool same =
        old.dtype == form.dtype && old.sizes == form.sizes && old.strides == form.strides;
    const Life& life = lives_[input];
    const bool ends_here = life.first < at && life.last == at && lives_[output].first == at;
    if (same && ends_here && may_overwrite(step, input, inputs)) return input;
  }
  return kNoPlanValue;
}

/// Items for the values that begin with a step.
void ArenaLayout::add_outputs(uint32_t at) {
  const Step& step = segment_.steps[at];
  const PlanValueId over = overwritten_by(at);
  if (over != kNoPlanValue) {
    const PlanValueId output = step.args[step.input_count];
    item_of_[output] = item_of_[over];
    items_[item_of_[over]].last_step = lives_[output].last;
  }
  std::vector<PlanValueId> touched = step.args;
  touched.push_back(step.extents);
  for (const PlanValueId arg : touched) {
    if (arg == kNoPlanValue) continue;
    const PlanValueId base = base_of(arg);
    if (!is_here(base) || item_of_[base] != kNoItem) continue;
    item_of_[base] = items_.size();
    items_.push_back({.bytes = segment_.values[base].bytes,
                      .first_step = lives_[base].first,
                      .last_step = lives_[base].last,
                      .offset = 0});
  }
}

Status ArenaLayout::run() {
  std::vector<std::pair<size_t, Step*>> workspaces;
  for (uint32_t at = 0; at < segment_.steps.size(); ++at) {
    const Step& step = segment_.steps[at];
    for (const PlanValueId arg : step.args) touch(arg, at);
    touch(step.extents, at);
  }
  for (uint32_t at = 0; at < segment_.steps.size(); ++at) {
    Step& step = segment_.steps[at];
    add_outputs(at);
    if (step.kernel == nullptr || step.device != where_) continue;
    if (step.kernel->workspace_bytes() == 0) continue;
    workspaces.emplace_back(items_.size(), &step);
    items_.push_back(
        {.bytes = step.kernel->workspace_bytes(), .first_step = at, .last_step = at, .offset = 0});
  }
  BP_TRY_ASSIGN(segment_.arena_bytes[where_], assign_arena(&items_));
  segment_.live_bytes_peak[where_] = live_bytes_peak(items_);
  for (PlanValueId id = 0; id < segment_.values.size(); ++id) {
    if (item_of_[id] == kNoItem) continue;
    segment_.values[id].arena_offset = items_[item_of_[id]].offset;
  }
  for (const auto& [item, step] : workspaces) step->workspace_offset = items_[item].offset;
  return {};
}

}  // namespace

Status lay_out_arenas(Segment* segment) {
  segment->live_bytes_peak.assign(segment->arena_bytes.size(), 0);
  for (PlanDevice where = 0; where < segment->arena_bytes.size(); ++where) {
    BP_TRY(ArenaLayout(segment, where).run());
  }
  return {};
}

}  // namespace bp
