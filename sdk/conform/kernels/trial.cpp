// SPDX-License-Identifier: Apache-2.0
//
// Arguments into memory, a launch, and the oracle's word on what came out.
#include "sdk/conform/kernels/trial.hpp"

#include <algorithm>
#include <barrier>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "sdk/conform/kernels/planned.hpp"

namespace bp::conform {
namespace {

using Layouts = std::vector<Layout>;

/// "gaps"; "dense and gaps" where inputs differ.
std::string layout_words(const Layouts& layouts) {
  std::string text;
  const bool same = std::equal(layouts.begin() + 1, layouts.end(), layouts.begin());
  for (const Layout layout : layouts) {
    text += (text.empty() ? "" : " and ") + std::string(layout_name(layout));
    if (same) break;
  }
  return text;
}

/// A call on one kernel.
class Attempt {
 public:
  /// `asked`: the layout of each input, if its rule takes that.
  Attempt(Context& context, const KernelRecord& record, const Call& call, const Layouts& asked,
          Border border)
      : context_(context), record_(record), call_(call), asked_(asked), border_(border) {
    choose_layouts();
  }

  /// Whether any input lies as it was asked for.
  bool lies_so() const { return lies_so_; }
  const std::vector<Dims>& strides() const { return strides_; }
  /// Empty: the kernel ran.
  std::string run(const Expectation& expectation, bool any_order);
  /// Its two halves: memory, and a launch with what comes out of it.
  void place(const Planned& planned);
  void launch(Planned* planned, const Expectation& expectation);
  /// After launch(): the bytes of all outputs.
  const Bytes& found() const { return found_; }
  bool repeats() const;
  /// The call with the values that stride 0 shows.
  Call repeated_call() const;

 private:
  void choose_layouts();
  bool is_input_on_host(size_t i) const { return wants_on_host(arg_rule(record_, i)); }
  bp_tensor host_tensor(size_t i);
  std::string words_of(std::string_view argument, size_t index) const;
  void check_inputs();
  void check_outputs(const Planned& planned, const Expectation& expectation);
  void check_fault(const Planned& planned);

  Context& context_;
  const KernelRecord& record_;
  const Call& call_;
  const Layouts asked_;
  const Border border_;
  bool lies_so_ = false;
  std::vector<Layout> layouts_;
  std::vector<Dims> strides_;
  std::deque<std::optional<Operand>> inputs_;
  std::deque<std::optional<HostBlock>> host_inputs_;
  std::deque<Operand> outputs_;
  std::vector<bp_tensor> tensors_;
  Bytes found_;
};

void Attempt::choose_layouts() {
  bool asked = false;
  for (size_t i = 0; i < call_.inputs.size(); ++i) {
    const OracleTensor& input = call_.inputs[i];
    const Layout layout = asked_[i];
    const bool so = input.dtype != BP_DTYPE_NONE && !is_input_on_host(i) &&
                    can_lie(layout, input.sizes) &&
                    takes(arg_rule(record_, i).strides, layout, input.sizes);
    asked = asked || layout != Layout::kDense;
    lies_so_ = lies_so_ || (so && layout != Layout::kDense);
    layouts_.push_back(so ? layout : Layout::kDense);
    strides_.push_back(strides_in(layouts_.back(), input.sizes));
  }
  lies_so_ = lies_so_ || !asked;
}

bool Attempt::repeats() const {
  return std::find(layouts_.begin(), layouts_.end(), Layout::kRepeated) != layouts_.end();
}

Call Attempt::repeated_call() const {
  Call call = call_;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (layouts_[i] == Layout::kRepeated) repeat_first(&call.inputs[i]);
  }
  return call;
}

bp_tensor Attempt::host_tensor(size_t i) {
  const OracleTensor& input = call_.inputs[i];
  const HostBlock& block = host_inputs_[i].emplace(context_, input.bytes, border_);
  return {.handle = reinterpret_cast<uint64_t>(block.data()),
          .offset_bytes = 0,
          .storage_bytes = input.bytes.size(),
          .dtype = input.dtype,
          .rank = static_cast<uint32_t>(input.sizes.size()),
          .sizes = input.sizes.data(),
          .strides = strides_[i].data(),
          .layout = 0,
          .flags = BP_TENSOR_HOST_BIT,
          .reserved = 0};
}

void Attempt::place(const Planned& planned) {
  for (size_t i = 0; i < call_.inputs.size(); ++i) {
    const OracleTensor& input = call_.inputs[i];
    std::optional<Operand>& operand = inputs_.emplace_back();
    host_inputs_.emplace_back();
    if (input.dtype == BP_DTYPE_NONE) {
      tensors_.push_back({});
    } else if (is_input_on_host(i)) {
      tensors_.push_back(host_tensor(i));
    } else {
      operand.emplace(context_, input, layouts_[i], arg_rule(record_, i).alignment_bytes, border_,
                      i);
      tensors_.push_back(operand->tensor());
    }
  }
  for (size_t i = 0; i < call_.output_types.size(); ++i) {
    const Operand& output = outputs_.emplace_back(context_, call_.output_types[i],
                                                  planned.out_strides(i), border_, tensors_.size());
    tensors_.push_back(output.tensor());
  }
}

std::string Attempt::run(const Expectation& expectation, bool any_order) {
  Planned planned(context_, record_, call_, strides_, any_order);
  if (!planned.refusal().empty()) return planned.refusal();
  place(planned);
  launch(&planned, expectation);
  return {};
}

void Attempt::launch(Planned* planned, const Expectation& expectation) {
  planned->run(tensors_, border_);
  check_outputs(*planned, expectation);
  check_inputs();
  check_fault(*planned);
}

std::string Attempt::words_of(std::string_view argument, size_t index) const {
  std::string where = layout_words(asked_);
  if (border_ != Border::kNan) where += words(", ", border_name(border_));
  return words(record_.name, ", ", call_.words(), ", ", where, ": ", argument, " ", index);
}

void Attempt::check_inputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (host_inputs_[i]) host_inputs_[i]->expect_unchanged(words_of("host input", i));
    if (!inputs_[i]) continue;
    inputs_[i]->expect_untouched(words_of("input", i));
    inputs_[i]->expect_unchanged(words_of("input", i) + " afterwards");
  }
}

void Attempt::check_outputs(const Planned& planned, const Expectation& expectation) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::string what = words_of("output", i);
    outputs_[i].expect_untouched(what);
    const Dims real = planned.real_sizes(i, call_.output_types[i].sizes);
    const OracleTensor found = outputs_[i].take(what, real);
    found_.insert(found_.end(), found.bytes.begin(), found.bytes.end());
    const std::string wrong = expectation.judge(i, found, Operand::kUnwritten);
    if (wrong.empty()) {
      context_.expect(true, what);
    } else {
      context_.fail(words(what, ": ", wrong));
    }
  }
}

/// Bad indices are told, good ones are not.
void Attempt::check_fault(const Planned& planned) {
  const auto& fills = call_.recipe->special_fills;
  const auto bad = std::find(fills.begin(), fills.end(), FillKind::kBadIndex);
  const std::optional<bp_fault_word> fault = planned.fault();
  if (call_.pass != Pass::kSpecial || bad == fills.end()) {
    if (fault) context_.expect_equal("the fault word's code", fault->code, BP_FAULT_NONE);
    return;
  }
  const auto input = static_cast<size_t>(bad - fills.begin());
  context_.require(fault.has_value(), words(record_.name, ": a plan that can fault"));
  context_.expect_equal("the fault word's code", fault->code, BP_FAULT_INDEX);
  context_.expect_equal("the fault word's input", fault->input, input);
  context_.expect_equal("the fault word's op_seq", fault->op_seq, Planned::kOpSeq);
  context_.expect_equal("the fault word's extent", fault->extent, call_.extent);
  const std::vector<int64_t> given = call_.inputs[input].to_i64();
  const bool is_bad = fault->index >= call_.extent || fault->index < -call_.extent;
  context_.expect(is_bad && std::find(given.begin(), given.end(), fault->index) != given.end(),
                  words("the fault word's index: expected one of those given that is out of range, "
                        "found ",
                        fault->index));
}

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

/// A shot as a kernel is tried with it: where its inputs lie, and what lies round them.
struct Setup {
  Layouts layouts;
  std::vector<Border> borders;
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

void run_setup(Context& context, const KernelRecord& record, const Call& call,
               const Expectation& expectation, const Setup& setup, bool any_order, Tally* tally) {
  if (any_order && !chooses_order(record, call)) {
    tally->refuse(words(record.name, " leaves its outputs contiguous"));
    return;
  }
  const Attempt asked(context, record, call, setup.layouts, Border::kNan);
  if (!asked.lies_so()) {
    tally->refuse(words(record.name, " takes no inputs that lie so"));
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
    Attempt attempt(context, record, repeated ? *repeated : call, setup.layouts, border);
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

void run_shot(Context& context, const Trial& trial, const Shot& shot, Tally* tally) {
  const std::optional<Call> call = call_of(context, trial, shot);
  std::optional<Call> other;
  std::optional<Expectation> expectation;
  const bool twice = trial.manner == Manner::kAgain || trial.manner == Manner::kThreads;
  if (twice) other = call_of(context, trial, shot, 1);
  if (!call || (twice && !other)) return;
  for (const KernelRecord& record : context.kernels().kernels) {
    if (!admits(record, *trial.schema, trial.dtypes)) continue;
    if (!expectation) expectation = expectation_of(context, *call);
    if (!expectation) return;
    if (trial.manner == Manner::kAgain) {
      run_again(context, record, *call, *expectation, *other, tally);
    } else if (trial.manner == Manner::kThreads) {
      run_threads(context, record, *call, *expectation, *other, tally);
    } else {
      for (const Setup& setup : setups_of(trial, shot)) {
        run_setup(context, record, *call, *expectation, setup, trial.manner == Manner::kOrdered,
                  tally);
      }
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
