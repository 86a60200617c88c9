// SPDX-License-Identifier: Apache-2.0
//
// Arguments into memory, a launch, and the oracle's word on what came out.
#include "sdk/conform/kernels/trial.hpp"

#include <deque>
#include <optional>
#include <string>

#include "sdk/conform/kernels/planned.hpp"

namespace bp::conform {
namespace {

/// A call on one kernel.
class Attempt {
 public:
  Attempt(Context& context, const KernelRecord& record, const Call& call, Layout layout,
          Border border)
      : context_(context), record_(record), call_(call), layout_(layout), border_(border) {
    choose_layouts();
  }

  /// Whether any input lies as it was asked for.
  bool lies_so() const { return layout_ == Layout::kDense || lies_so_; }
  /// Empty: the kernel ran.
  std::string run(const Expectation& expectation);
  bool repeats() const { return layout_ == Layout::kRepeated; }
  /// The call with the values that stride 0 shows.
  Call repeated_call() const;

 private:
  void choose_layouts();
  bool is_input_on_host(size_t i) const { return wants_on_host(arg_rule(record_, i)); }
  void place_inputs();
  bp_tensor host_tensor(size_t i) const;
  std::string words_of(std::string_view argument, size_t index) const;
  void check_inputs();
  void check_outputs(const Planned& planned, const Expectation& expectation);
  void check_fault(const Planned& planned);

  Context& context_;
  const KernelRecord& record_;
  const Call& call_;
  const Layout layout_;
  const Border border_;
  bool lies_so_ = false;
  std::vector<Layout> layouts_;
  std::vector<Dims> strides_;
  std::deque<std::optional<Operand>> inputs_;
  std::deque<Operand> outputs_;
  std::vector<bp_tensor> tensors_;
};

void Attempt::choose_layouts() {
  for (size_t i = 0; i < call_.inputs.size(); ++i) {
    const OracleTensor& input = call_.inputs[i];
    const bool so = input.dtype != BP_DTYPE_NONE && !is_input_on_host(i) &&
                    can_lie(layout_, input.sizes) &&
                    takes(arg_rule(record_, i).strides, layout_, input.sizes);
    lies_so_ = lies_so_ || so;
    layouts_.push_back(so ? layout_ : Layout::kDense);
    strides_.push_back(strides_in(layouts_.back(), input.sizes));
  }
}

Call Attempt::repeated_call() const {
  Call call = call_;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (layouts_[i] == Layout::kRepeated) repeat_first(&call.inputs[i]);
  }
  return call;
}

bp_tensor Attempt::host_tensor(size_t i) const {
  const OracleTensor& input = call_.inputs[i];
  return {.handle = reinterpret_cast<uint64_t>(input.bytes.data()),
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

void Attempt::place_inputs() {
  for (size_t i = 0; i < call_.inputs.size(); ++i) {
    const OracleTensor& input = call_.inputs[i];
    std::optional<Operand>& operand = inputs_.emplace_back();
    if (input.dtype == BP_DTYPE_NONE) {
      tensors_.push_back({});
    } else if (is_input_on_host(i)) {
      tensors_.push_back(host_tensor(i));
    } else {
      operand.emplace(context_, input, layouts_[i], arg_rule(record_, i).alignment_bytes, border_);
      tensors_.push_back(operand->tensor());
    }
  }
  for (const TensorType& type : call_.output_types) {
    tensors_.push_back(outputs_.emplace_back(context_, type.dtype, type.sizes, border_).tensor());
  }
}

std::string Attempt::run(const Expectation& expectation) {
  Planned planned(context_, record_, call_, strides_);
  if (!planned.refusal().empty()) return planned.refusal();
  place_inputs();
  planned.run(tensors_, border_);
  check_outputs(planned, expectation);
  check_inputs();
  check_fault(planned);
  return {};
}

std::string Attempt::words_of(std::string_view argument, size_t index) const {
  std::string where(layout_name(layout_));
  if (border_ != Border::kNan) where += words(", ", border_name(border_));
  return words(record_.name, ", ", call_.words(), ", ", where, ": ", argument, " ", index);
}

void Attempt::check_inputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
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
  const bool bad =
      call_.pass == Pass::kSpecial && !fills.empty() && fills.back() == FillKind::kBadIndex;
  const std::optional<bp_fault_word> fault = planned.fault();
  if (!bad) {
    if (fault) context_.expect_equal("the fault word's code", fault->code, BP_FAULT_NONE);
    return;
  }
  context_.require(fault.has_value(), words(record_.name, ": a plan that can fault"));
  context_.expect_equal("the fault word's code", fault->code, BP_FAULT_INDEX);
  context_.expect_equal("the fault word's input", fault->input, call_.inputs.size() - 1);
  context_.expect_equal("the fault word's op_seq", fault->op_seq, Planned::kOpSeq);
  context_.expect(fault->index >= fault->extent || fault->index < -fault->extent,
                  words("an index out of range in the fault word, found ", fault->index, " of ",
                        fault->extent));
}

/// What became of one call on all kernels.
struct Tally {
  size_t ran = 0;
  std::string refusals;

  void refuse(const std::string& why) {
    if (refusals.find(why) == std::string::npos) refusals += (refusals.empty() ? "" : "; ") + why;
  }
};

void run_shot(Context& context, const Trial& trial, const Shot& shot, Tally* tally) {
  const auto call = make_call(*trial.schema, *trial.recipe, shot, trial.dtypes, trial.pass);
  if (!call.ok()) {
    context.fail(words("the kit's recipe: ", call.status().to_string()));
    return;
  }
  std::optional<Expectation> expectation;
  for (const KernelRecord& record : context.kernels().kernels) {
    if (!admits(record, *trial.schema, trial.dtypes)) continue;
    const Attempt asked(context, record, *call, trial.layout, Border::kNan);
    if (!asked.lies_so()) {
      tally->refuse(words(record.name, " takes no inputs that lie so"));
      continue;
    }
    std::optional<Call> repeated;
    if (asked.repeats()) repeated = asked.repeated_call();
    const Call& used = repeated ? *repeated : *call;
    if (!expectation || asked.repeats()) {
      auto expected = Expectation::of(used);
      if (!expected.ok()) {
        context.fail(words("the oracle: ", expected.status().to_string()));
        return;
      }
      expectation.emplace(std::move(expected).value());
    }
    for (const Border border : trial.borders) {
      if (!can_have(context, border)) continue;
      Attempt attempt(context, record, used, trial.layout, border);
      const std::string refusal = attempt.run(*expectation);
      if (refusal.empty()) {
        ++tally->ran;
      } else {
        tally->refuse(refusal);
      }
    }
  }
}

}  // namespace

void run_trial(Context& context, const Trial& trial) {
  Tally tally;
  for (const Shot* shot : trial.shots) run_shot(context, trial, *shot, &tally);
  if (tally.ran > 0 || context.check_count() > 0) return;
  if (!tally.refusals.empty()) throw NotApplicable{tally.refusals};
  throw NotApplicable{words("no kernel for ", trial.schema->name, " of ", trial.dtypes.name())};
}

}  // namespace bp::conform
