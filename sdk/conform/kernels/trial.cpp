// SPDX-License-Identifier: Apache-2.0
//
// What is tried with a call, on every kernel that takes it.
#include "sdk/conform/kernels/trial.hpp"

#include <algorithm>
#include <barrier>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "sdk/conform/kernels/attempt.hpp"

namespace bp::conform {
namespace {

/// What became of one call on all kernels.
struct Tally {
  size_t ran = 0;
  std::string refusals;

  void note(const std::string& refusal) {
    if (refusal.empty()) {
      ++ran;
    } else {
      refuse(refusal);
    }
  }
  void refuse(const std::string& why) {
    if (refusals.find(why) == std::string::npos) refusals += (refusals.empty() ? "" : "; ") + why;
  }
};

/// Nothing where the recipe is wrong, which is told.
std::optional<Call> call_of(Context& context, const Trial& trial, const Shot& shot,
                            uint32_t values = 0) {
  auto call = make_call(*trial.schema, *trial.recipe, shot, trial.dtypes, trial.pass, values);
  if (call.ok()) return std::move(call).value();
  context.fail(words("the kit's recipe: ", call.status().to_string()));
  return std::nullopt;
}

/// Nothing where the oracle fails, which is told. `call` must outlive it.
std::optional<Expectation> expectation_of(Context& context, const Call& call) {
  auto expected = Expectation::of(call);
  if (expected.ok()) return std::move(expected).value();
  context.fail(words("the oracle: ", expected.status().to_string()));
  return std::nullopt;
}

/// A shot as a kernel is tried with it: where its inputs lie, what lies round them, and where its
/// outputs lie.
struct Setup {
  Layouts layouts;
  std::vector<Border> borders;
  Layouts outputs = {};  // none: as the plan has them
};

/// All inputs in one layout, and then, since one kernel may look at one input alone, each by
/// itself.
std::vector<Setup> setups_of(const Trial& trial, const Shot& shot) {
  constexpr Layout kTurns[] = {Layout::kDense,   Layout::kGaps, Layout::kTransposed,
                               Layout::kOffset,  Layout::kRows, Layout::kReversed,
                               Layout::kRepeated};
  const size_t count = shot.inputs.size();
  const bool is_first = &shot == trial.shots.front();
  std::vector<Setup> setups;
  if (trial.manner == Manner::kOrdered) {
    for (const Layout layout : {Layout::kDense, Layout::kTransposed, Layout::kChannelsLast}) {
      setups.push_back({Layouts(count, layout), trial.borders});
    }
    for (size_t i = 0; i < count && count > 1; ++i) {
      setups.push_back({Layouts(count, Layout::kDense), trial.borders});
      setups.back().layouts[i] = Layout::kChannelsLast;
    }
    return setups;
  }
  if (trial.manner == Manner::kMixed) {
    for (size_t turn = 0; turn < std::size(kTurns); ++turn) {
      Setup& setup = setups.emplace_back(Setup{{}, trial.borders});
      for (size_t i = 0; i < count; ++i) {
        setup.layouts.push_back(kTurns[(turn + i) % std::size(kTurns)]);
      }
    }
    return setups;
  }
  const bool all = is_first || trial.all_borders;
  setups.push_back(
      {Layouts(count, trial.layout), all ? trial.borders : std::vector<Border>{Border::kNan}});
  if (count < 2 || trial.layout == Layout::kDense || !is_first) return setups;
  for (size_t i = 0; i < count; ++i) {
    Setup& setup = setups.emplace_back(Setup{Layouts(count, Layout::kDense), {Border::kNan}});
    setup.layouts[i] = trial.layout;
  }
  return setups;
}

/// Outputs in all layouts in which no two elements share memory, and then, since one kernel may
/// look at one output alone, each by itself. From dense inputs, and from such as lie in the same
/// way; what is assigned to a view is often a value that is repeated.
std::vector<Setup> view_setups(const Trial& trial, const Shot& shot, const Call& call) {
  constexpr Layout kViews[] = {Layout::kOffset,     Layout::kRows,         Layout::kGaps,
                               Layout::kTransposed, Layout::kChannelsLast, Layout::kReversed};
  const size_t input_count = call.inputs.size();
  const size_t output_count = call.output_types.size();
  const bool is_first = &shot == trial.shots.front();
  const std::vector<Border> nan{Border::kNan};
  const std::vector<Border>& borders = is_first ? trial.borders : nan;
  std::vector<Setup> setups;
  for (const Layout layout : kViews) {
    for (const Layout from : {Layout::kDense, layout}) {
      setups.push_back({Layouts(input_count, from), borders, Layouts(output_count, layout)});
    }
    for (size_t i = 0; i < output_count && output_count > 1; ++i) {
      setups.push_back(
          {Layouts(input_count, Layout::kDense), nan, Layouts(output_count, Layout::kDense)});
      setups.back().outputs[i] = layout;
    }
  }
  if (!is_first) return setups;
  for (const auto& [from, to] : {std::pair(Layout::kRepeated, Layout::kGaps),
                                 std::pair(Layout::kTransposed, Layout::kReversed)}) {
    setups.push_back({Layouts(input_count, from), nan, Layouts(output_count, to)});
  }
  return setups;
}

void run_setup(Context& context, const KernelRecord& record, const Call& call,
               const Expectation& expectation, const Setup& setup, bool any_order, Tally* tally) {
  if (any_order && !chooses_order(record, call)) {
    tally->refuse(words(record.name, " leaves its outputs contiguous"));
    return;
  }
  const Attempt asked(context, record, call, setup.layouts, Border::kNan, setup.outputs);
  if (!asked.lies_so()) {
    tally->refuse(words(record.name, " takes no inputs that lie so"));
    return;
  }
  if (!setup.outputs.empty() && !asked.writes_so()) {
    tally->refuse(words("no output of ", call.words(), " can lie so"));
    return;
  }
  std::optional<Call> repeated;
  std::optional<Expectation> repeated_expectation;
  if (asked.repeats()) {
    repeated = asked.repeated_call();
    repeated_expectation = expectation_of(context, *repeated);
    if (!repeated_expectation) return;
  }
  for (const Border border : setup.borders) {
    if (!can_have(context, border)) continue;
    Attempt attempt(context, record, repeated ? *repeated : call, setup.layouts, border,
                    setup.outputs);
    tally->note(attempt.run(repeated ? *repeated_expectation : expectation, any_order));
  }
}

/// Memory, values and what a plan notes of them must not outlive a launch.
void run_again(Context& context, const KernelRecord& record, const Call& call,
               const Expectation& expectation, Call other, Tally* tally) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const bool is_planned = (arg_rule(record, i).flags & BP_ARG_HOST_AT_PLAN_BIT) != 0;
    if (is_planned) other.inputs[i] = call.inputs[i];
  }
  const std::optional<Expectation> other_expectation = expectation_of(context, other);
  if (!other_expectation) return;
  const Layouts dense(call.inputs.size(), Layout::kDense);
  Attempt first(context, record, call, dense, Border::kNan);
  Attempt second(context, record, other, dense, Border::kNan);
  Attempt third(context, record, call, dense, Border::kNan);
  Attempt fourth(context, record, call, dense, Border::kNan);
  Planned planned(context, record, call, first.strides());
  tally->note(planned.refusal());
  if (!planned.refusal().empty()) return;
  for (Attempt* attempt : {&first, &second, &third, &fourth}) attempt->place(planned);
  first.launch(&planned, expectation);
  second.launch(&planned, *other_expectation);
  third.launch(&planned, expectation);
  fourth.launch(&planned, expectation);  // both neighbours: turns of two are frequent
  if ((record.kernel.flags & BP_KERNEL_DETERMINISTIC_BIT) == 0) return;
  context.expect(third.found() == first.found() && fourth.found() == first.found(),
                 words(record.name, ", ", call.words(),
                       ": the same bits from the same values, as DETERMINISTIC says"));
}

/// Output 0 in the memory of each input that may be overwritten: the same bits as beside it.
void run_in_place(Context& context, const KernelRecord& record, const Call& call,
                  const Expectation& expectation, Tally* tally) {
  const Layouts dense(call.inputs.size(), Layout::kDense);
  const TensorType& output = call.output_types.front();
  Bytes beside;
  for (size_t i = 0; i < std::min<size_t>(call.inputs.size(), 64); ++i) {
    const bool may = (record.kernel.in_place_inputs >> i & 1) != 0;
    const OracleTensor& input = call.inputs[i];
    if (!may || input.dtype != output.dtype || input.sizes != output.sizes) continue;
    for (const std::optional<size_t> over : {std::optional<size_t>(), std::optional(i)}) {
      if (!over && !beside.empty()) continue;
      Attempt attempt(context, record, call, dense, Border::kNan);
      Planned planned(context, record, call, attempt.strides());
      tally->note(planned.refusal());
      if (!planned.refusal().empty()) return;
      attempt.place(planned);
      if (over) attempt.put_output_in(*over);
      attempt.launch(&planned, expectation);
      if (!over) beside = attempt.found();
      context.expect(attempt.found() == beside, words(record.name, ", ", call.words(),
                                                      ": the same bits in the memory of input ", i,
                                                      " as in memory of its own"));
    }
  }
  if (beside.empty()) {
    tally->refuse(words(record.name, " takes no memory of an input of ", call.words()));
  }
}

/// Recorded work reads memory when it runs, not when it was enqueued: what a plan, a state or the
/// work itself keeps of the first values shows with others in the same memory.
void run_recorded(Context& context, const KernelRecord& record, const Call& call,
                  const Expectation& expectation, Call other, Tally* tally) {
  if ((record.kernel.flags & BP_KERNEL_CAPTURABLE_BIT) == 0) {
    tally->refuse(words(record.name, " does not let its launches be recorded"));
    return;
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (wants_on_host(arg_rule(record, i))) other.inputs[i] = call.inputs[i];
  }
  const std::optional<Expectation> other_expectation = expectation_of(context, other);
  if (!other_expectation) return;
  Attempt attempt(context, record, call, Layouts(call.inputs.size(), Layout::kDense), Border::kNan);
  Planned planned(context, record, call, attempt.strides());
  tally->note(planned.refusal());
  if (!planned.refusal().empty()) return;
  attempt.place(planned);
  attempt.launch(&planned, expectation);
  attempt.launch_on(other, &planned, *other_expectation);
  attempt.launch_on(call, &planned, expectation);
}

/// The inputs that a launch takes packed, packed; from memory of `packed`, as many as there are.
void pack_inputs(Context& context, const KernelRecord& record, const Call& call,
                 const std::set<size_t>& constants, Planned* planned, Attempt* attempt,
                 std::deque<Extra>* packed) {
  for (uint32_t i = 0; i < 64; ++i) {
    if ((planned->packed_inputs() >> i & 1) == 0) continue;
    const std::string what = words(record.name, ", ", call.words(), ": packed input ", i);
    context.require(constants.contains(i), words(what, ": one that was shown as a constant"));
    const bp_prepack_info form = planned->packed_form(i);
    const std::string layout(form.layout.ptr, form.layout.len);
    const bp_prepack_info again = planned->packed_form(i);
    context.expect(again.bytes == form.bytes && again.alignment_bytes == form.alignment_bytes &&
                       std::string_view(again.layout.ptr, again.layout.len) == layout,
                   words(what, ": the same form when it is asked for again"));
    const uint64_t alignment = form.alignment_bytes == 0 ? kBorderBytes : form.alignment_bytes;
    // A launch reads nothing that prepack left as it was.
    Extra& memory = packed->emplace_back(
        context, what, Bytes(form.bytes, border_fill(Border::kNan)), alignment, Border::kNan);
    planned->pack(i, attempt->tensor(i), memory.at(), form.bytes);
    memory.check();
    attempt->give_packed(i, memory.at(), form.bytes);
  }
}

/// Each input by itself, and all at once, as constants that a plan may want packed.
void run_packed(Context& context, const KernelRecord& record, const Call& call,
                const Expectation& expectation, Tally* tally) {
  if (record.kernel.prepack == nullptr) {
    tally->refuse(words(record.name, " packs nothing"));
    return;
  }
  std::vector<std::set<size_t>> choices(1);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].dtype == BP_DTYPE_NONE || wants_on_host(arg_rule(record, i))) continue;
    choices.front().insert(i);
    choices.push_back({i});
  }
  for (const std::set<size_t>& constants : choices) {
    std::deque<Extra> packed;
    Attempt attempt(context, record, call, Layouts(call.inputs.size(), Layout::kDense),
                    Border::kNan);
    Planned planned(context, record, call, attempt.strides(), {.constants = constants});
    if (!planned.refusal().empty()) {
      tally->refuse(planned.refusal());
      continue;
    }
    if (planned.packed_inputs() == 0) {
      tally->refuse(words(record.name, " takes ", call.words(), " as it is"));
      continue;
    }
    tally->note("");
    attempt.place(planned);
    pack_inputs(context, record, call, constants, &planned, &attempt, &packed);
    std::vector<Bytes> before;
    for (const Extra& memory : packed) before.push_back(memory.read());
    attempt.launch(&planned, expectation);
    for (size_t i = 0; i < packed.size(); ++i) {
      context.expect(packed[i].read() == before[i],
                     words(record.name, ", ", call.words(), ": packed memory is as it was"));
    }
  }
}

/// Two threads with a plan and values each, which begin each launch together.
void run_threads(Context& context, const KernelRecord& record, const Call& call,
                 const Expectation& expectation, const Call& other, Tally* tally) {
  constexpr int kRounds = 4;
  const std::optional<Expectation> other_expectation = expectation_of(context, other);
  if (!other_expectation) return;
  const Layouts dense(call.inputs.size(), Layout::kDense);
  const std::vector<Dims> strides = Attempt(context, record, call, dense, Border::kNan).strides();
  Planned planned(context, record, call, strides);
  Planned other_planned(context, record, other, strides);
  for (const Planned* each : {&planned, &other_planned}) tally->note(each->refusal());
  if (!planned.refusal().empty() || !other_planned.refusal().empty()) return;
  std::barrier together(2);
  const auto run = [&](const Call& used, Planned* plan, const Expectation& expected) {
    try {
      for (int round = 0; round < kRounds; ++round) {
        Attempt attempt(context, record, used, dense, Border::kNan);
        attempt.place(*plan);
        together.arrive_and_wait();
        attempt.launch(plan, expected);
      }
    } catch (const Stop&) {  // noted already
    }
    together.arrive_and_drop();
  };
  std::thread beside([&] { run(other, &other_planned, *other_expectation); });
  run(call, &planned, expectation);
  beside.join();
}

void run_setups(Context& context, const KernelRecord& record, const Call& call,
                const Expectation& expectation, const std::vector<Setup>& setups, bool any_order,
                Tally* tally) {
  for (const Setup& setup : setups) {
    run_setup(context, record, call, expectation, setup, any_order, tally);
  }
}

void run_shot(Context& context, const Trial& trial, const Shot& shot, Tally* tally) {
  const std::optional<Call> call = call_of(context, trial, shot);
  std::optional<Call> other;
  std::optional<Expectation> expectation;
  const bool twice = trial.manner == Manner::kAgain || trial.manner == Manner::kThreads ||
                     trial.manner == Manner::kRecorded;
  if (twice) other = call_of(context, trial, shot, 1);
  if (!call || (twice && !other)) return;
  for (const KernelRecord& record : context.kernels().kernels) {
    if (!admits(record, *trial.schema, trial.dtypes)) continue;
    if (trial.manner == Manner::kViews && !writes_into_views(record)) {
      tally->refuse(words(record.name, " writes contiguous outputs only"));
      continue;
    }
    if (!expectation) expectation = expectation_of(context, *call);
    if (!expectation) return;
    switch (trial.manner) {
      case Manner::kAgain:
        run_again(context, record, *call, *expectation, *other, tally);
        break;
      case Manner::kThreads:
        run_threads(context, record, *call, *expectation, *other, tally);
        break;
      case Manner::kRecorded:
        run_recorded(context, record, *call, *expectation, *other, tally);
        break;
      case Manner::kInPlace:
        run_in_place(context, record, *call, *expectation, tally);
        break;
      case Manner::kPacked:
        run_packed(context, record, *call, *expectation, tally);
        break;
      case Manner::kViews:
        run_setups(context, record, *call, *expectation, view_setups(trial, shot, *call), false,
                   tally);
        break;
      case Manner::kOnce:
      case Manner::kMixed:
      case Manner::kOrdered:
        run_setups(context, record, *call, *expectation, setups_of(trial, shot),
                   trial.manner == Manner::kOrdered, tally);
        break;
    }
  }
}

void throw_if_none(const Context& context, const Tally& tally, const OpSchema& schema,
                   const DtypeChoice& dtypes) {
  if (tally.ran > 0 || context.check_count() > 0) return;
  if (!tally.refusals.empty()) throw NotApplicable{tally.refusals};
  throw NotApplicable{words("no kernel for ", schema.name, " of ", dtypes.name())};
}

}  // namespace

void run_golden(Context& context, const OpSchema& schema, const GoldenLine& line) {
  auto golden = golden_call(schema, *find_recipe(line.op), line);
  if (!golden.ok()) return void(context.fail(golden.status().to_string()));
  const Call& call = golden->call;
  const auto expectation = Expectation::golden(call, std::move(golden->output));
  if (!expectation.ok()) return void(context.fail(expectation.status().to_string()));
  const Setup dense{Layouts(call.inputs.size(), Layout::kDense), {Border::kNan}};
  Tally tally;
  for (const KernelRecord& record : context.kernels().kernels) {
    if (!admits(record, schema, call.dtypes)) continue;
    run_setup(context, record, call, *expectation, dense, false, &tally);
  }
  throw_if_none(context, tally, schema, call.dtypes);
}

void run_trial(Context& context, const Trial& trial) {
  const bool concurrent = (context.table().props.flags & BP_DEVICE_CONCURRENT_BIT) != 0;
  if (trial.manner == Manner::kThreads && !concurrent) {
    throw NotApplicable{"the device takes one call at a time"};
  }
  Tally tally;
  for (const Shot* shot : trial.shots) run_shot(context, trial, *shot, &tally);
  throw_if_none(context, tally, *trial.schema, trial.dtypes);
}

}  // namespace bp::conform
