// SPDX-License-Identifier: Apache-2.0
//
// Reads the equation of einsum; its inference.
#include "ops/linalg/einsum.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "backplane/ops/linalg.h"
#include "core/base/quoted.hpp"

namespace bp::ops {
namespace {

using Labels = std::vector<EinsumLabel>;

constexpr EinsumLabel kEllipsis = '.';
/// The dimensions of an ellipsis are numbered from its end, where they are aligned.
constexpr EinsumLabel kLastOfEllipsis = 256;

struct Equation {
  std::vector<Labels> operands;
  Labels output;
};

Status equation_error(const std::string& words) { return attribute_error("equation", words); }

size_t times_in(const Labels& labels, EinsumLabel label) {
  return static_cast<size_t>(std::count(labels.begin(), labels.end(), label));
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string letter(EinsumLabel label) { return quoted(std::string(1, static_cast<char>(label))); }

Result<Labels> read_term(std::string_view term) {
  constexpr std::string_view kDots = "...";
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (is_letter(term[i])) {
      labels.push_back(term[i]);
    } else if (term.substr(i, kDots.size()) == kDots) {
      if (times_in(labels, kEllipsis) > 0) {
        return equation_error(expected_found("'...' once in a term", quoted(term)));
      }
      labels.push_back(kEllipsis);
      i += kDots.size() - 1;
    } else {
      return equation_error(
          expected_found("letters, '...' and spaces in a term", quoted(term.substr(i, 1))));
    }
  }
  return labels;
}

/// The ellipsis, then in alphabetical order each letter that stands once in all operands.
Labels implicit_output(const std::vector<Labels>& operands) {
  Labels all;
  for (const Labels& labels : operands) all.insert(all.end(), labels.begin(), labels.end());
  std::sort(all.begin(), all.end());
  Labels output;
  for (const EinsumLabel label : all) {
    const bool is_first_ellipsis = label == kEllipsis && output.empty();
    if (is_first_ellipsis || times_in(all, label) == 1) output.push_back(label);
  }
  return output;
}

Status check_output(const Equation& equation) {
  for (const EinsumLabel label : equation.output) {
    if (label == kEllipsis) continue;
    if (times_in(equation.output, label) > 1) {
      return equation_error(
          expected_found("each letter once in the output", letter(label) + " twice"));
    }
    const bool is_known_label =
        std::any_of(equation.operands.begin(), equation.operands.end(),
                    [&](const Labels& labels) { return times_in(labels, label) > 0; });
    if (!is_known_label) {
      return equation_error(expected_found("letters of operands in the output", letter(label)));
    }
  }
  return {};
}

Result<Equation> read_equation(std::string_view text, size_t input_count) {
  constexpr std::string_view kArrow = "->";
  Equation equation;
  const size_t arrow = text.find(kArrow);
  std::string_view rest = text.substr(0, arrow);
  for (bool is_last = false; !is_last;) {
    const size_t comma = rest.find(',');
    is_last = comma == std::string_view::npos;
    BP_TRY_ASSIGN(Labels labels, read_term(rest.substr(0, comma)));
    equation.operands.push_back(std::move(labels));
    if (!is_last) rest.remove_prefix(comma + 1);
  }
  if (equation.operands.size() != input_count) {
    return equation_error(
        expected_found("a term for each of " + std::to_string(input_count) + " inputs",
                       std::to_string(equation.operands.size()) + " in " + quoted(text)));
  }
  if (arrow == std::string_view::npos) {
    equation.output = implicit_output(equation.operands);
    return equation;
  }
  BP_TRY_ASSIGN(equation.output, read_term(text.substr(arrow + kArrow.size())));
  BP_TRY(check_output(equation));
  return equation;
}

/// With `count` dimensions in place of the ellipsis.
Labels written_out(const Labels& labels, size_t count) {
  Labels result;
  for (const EinsumLabel label : labels) {
    if (label != kEllipsis) {
      result.push_back(label);
      continue;
    }
    for (size_t i = count; i-- > 0;) result.push_back(kLastOfEllipsis + static_cast<int>(i));
  }
  return result;
}

std::string operand_name(size_t index, const TensorType& type) {
  return "number " + std::to_string(index + 1) + " of sizes " + to_string(type.sizes);
}

Result<Labels> labels_of_operand(const Labels& term, size_t index, const TensorType& type) {
  if (!type.has_rank) return written_out(term, 0);
  const size_t dots = times_in(term, kEllipsis);
  const size_t letters = term.size() - dots;
  const size_t rank = type.sizes.size();
  if (rank < letters || (rank > letters && dots == 0)) {
    return input_error(
        "x", operand_name(index, type) + ": " +
                 expected_found("rank " + std::to_string(letters) + (dots == 0 ? "" : " or more"),
                                static_cast<int64_t>(rank)));
  }
  return written_out(term, rank - letters);
}

/// Takes the sizes of one operand into those of all.
Status bind_sizes(size_t index, const TensorType& type, EinsumPlan* plan) {
  const Labels& labels = plan->operands[index];
  std::map<EinsumLabel, int64_t> own;
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t size = type.has_rank ? type.sizes[i] : kUnknownDim;
    const auto [place, is_new] = own.try_emplace(labels[i], size);
    if (is_new || unify(size, &place->second)) continue;
    return input_error("x", operand_name(index, type) + ": expected equal sizes for " +
                                letter(labels[i]) + ", found " + std::to_string(size) + " and " +
                                std::to_string(place->second));
  }
  for (const auto& [label, size] : own) {
    int64_t& all = plan->sizes.try_emplace(label, 1).first->second;
    const auto both = broadcast_size(all, size);
    if (!both) {
      const std::string name = label < kLastOfEllipsis ? letter(label) : "the ellipsis";
      return input_error("x", operand_name(index, type) + ": for " + name + " expected " +
                                  std::to_string(all) + ", as before, found " +
                                  std::to_string(size));
    }
    all = *both;
  }
  return {};
}

}  // namespace

Result<EinsumPlan> plan_einsum(std::string_view equation, std::span<const TensorType> inputs) {
  BP_TRY_ASSIGN(const Equation read, read_equation(equation, inputs.size()));
  EinsumPlan plan;
  size_t ellipsis_rank = 0;
  bool is_rank_known = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Labels& term = read.operands[i];
    BP_TRY_ASSIGN(Labels labels, labels_of_operand(term, i, inputs[i]));
    if (times_in(term, kEllipsis) > 0) {
      is_rank_known = is_rank_known && inputs[i].has_rank;
      ellipsis_rank = std::max(ellipsis_rank, labels.size() + 1 - term.size());
    }
    plan.operands.push_back(std::move(labels));
    BP_TRY(bind_sizes(i, inputs[i], &plan));
  }
  const bool has_dots = times_in(read.output, kEllipsis) > 0;
  if (ellipsis_rank > 0 && !has_dots) {
    return equation_error(expected_found("'...' in the output, as those of the inputs have " +
                                             std::to_string(ellipsis_rank) + " dimensions",
                                         "none"));
  }
  plan.output = written_out(read.output, ellipsis_rank);
  plan.has_rank = is_rank_known || !has_dots;
  if (plan.output.size() > BP_MAX_RANK) {
    return equation_error(
        expected_found("an output of rank " + std::to_string(BP_MAX_RANK) + " or less",
                       static_cast<int64_t>(plan.output.size())));
  }
  return plan;
}

Status infer_einsum(const InferContext& context, std::span<TensorType> out_types) {
  const auto equation = text(attrs<bp_attrs_einsum>(context.attributes).equation);
  BP_TRY_ASSIGN(const EinsumPlan plan, plan_einsum(equation, context.inputs));
  if (!plan.has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  for (const EinsumLabel label : plan.output) {
    out_types[0].sizes.push_back(plan.sizes.at(label));
  }
  return {};
}

}  // namespace bp::ops
