// SPDX-License-Identifier: Apache-2.0
#include "sdk/conform/kernels/attempt.hpp"

#include <algorithm>

#include "core/base/dtype.hpp"

namespace bp::conform {
namespace {

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

}  // namespace

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

void Attempt::choose_output_layouts() {
  for (size_t i = 0; i < call_.output_types.size(); ++i) {
    const TensorType& output = call_.output_types[i];
    const Layout asked = asked_outputs_.empty() ? Layout::kDense : asked_outputs_[i];
    const bool so = dtype_bits(output.dtype) >= 8 && can_lie(asked, output.sizes);
    output_layouts_.push_back(so ? asked : Layout::kDense);
    writes_so_ = writes_so_ || output_layouts_.back() != Layout::kDense;
    if (asked_outputs_.empty()) continue;
    output_strides_.push_back(strides_in(output_layouts_.back(), output.sizes));
  }
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
    const Operand& output =
        outputs_.emplace_back(context_, call_.output_types[i], planned.out_strides(i),
                              output_layouts_[i], border_, tensors_.size());
    tensors_.push_back(output.tensor());
  }
}

std::string Attempt::run(const Expectation& expectation, bool any_order) {
  Planned planned(context_, record_, call_, strides_,
                  {.any_order = any_order, .out_strides = output_strides_});
  if (!planned.refusal().empty()) return planned.refusal();
  place(planned);
  launch(&planned, expectation);
  return {};
}

void Attempt::launch(Planned* planned, const Expectation& expectation) {
  planned->run(tensors_, border_);
  check(*planned, expectation);
}

void Attempt::check(const Planned& planned, const Expectation& expectation) {
  found_.clear();
  check_outputs(planned, expectation);
  check_inputs();
  check_fault(planned);
}

void Attempt::put_output_in(size_t input) {
  overwritten_ = input;
  tensors_[call_.inputs.size()] = tensors_[input];
}

void Attempt::give_packed(size_t input, bp_mem packed, uint64_t bytes) {
  bp_tensor& tensor = tensors_[input];
  tensor.handle = packed.handle;
  tensor.offset_bytes = packed.offset_bytes;
  tensor.storage_bytes = packed.offset_bytes + bytes;
}

void Attempt::launch_on(const Call& other, Planned* planned, const Expectation& expectation) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i]) continue;
    inputs_[i]->refill(Operand::content_of(other.inputs[i], layouts_[i],
                                           arg_rule(record_, i).alignment_bytes, border_, i));
  }
  for (Operand& output : outputs_) output.refill_unwritten();
  planned->launch(tensors_);
  check(*planned, expectation);
}

std::string Attempt::words_of(std::string_view argument, size_t index) const {
  std::string where = layout_words(asked_);
  if (writes_so_) where += " into " + layout_words(asked_outputs_);
  if (border_ != Border::kNan) where += words(", ", border_name(border_));
  return words(record_.name, ", ", call_.words(), ", ", where, ": ", argument, " ", index);
}

void Attempt::check_inputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (host_inputs_[i]) host_inputs_[i]->expect_unchanged(words_of("host input", i));
    if (!inputs_[i]) continue;
    inputs_[i]->expect_untouched(words_of("input", i));
    if (overwritten_ == i) continue;
    inputs_[i]->expect_unchanged(words_of("input", i) + " afterwards");
  }
}

void Attempt::check_outputs(const Planned& planned, const Expectation& expectation) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const bool in_place = i == 0 && overwritten_;
    const Operand& output = in_place ? *inputs_[*overwritten_] : outputs_[i];
    const std::string where = in_place ? words(", in the memory of input ", *overwritten_) : "";
    const std::string what = words_of("output", i) + where;
    output.expect_untouched(what);
    const Dims real = planned.real_sizes(i, call_.output_types[i].sizes);
    const OracleTensor found = output.take(what, real);
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

}  // namespace bp::conform
