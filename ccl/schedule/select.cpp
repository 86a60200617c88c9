// SPDX-License-Identifier: Apache-2.0
//
// See select.hpp.
#include "ccl/schedule/select.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/base/checked.hpp"
#include "core/base/dtype.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

Status refuse(std::string_view expected, std::string_view found) {
  return {BP_INVALID_ARGUMENT,
          "algorithm rules: expected " + std::string(expected) + ", found " + quoted(found)};
}

/// Takes what stands before `separator`, or all, and the separator.
std::string_view take_until(std::string_view* text, char separator) {
  const size_t end = std::min(text->find(separator), text->size());
  const std::string_view piece = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return piece;
}

/// "8K"; nullopt: it is no size.
std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(last - end));
  if (unit.empty()) return number;
  const size_t power = std::string_view("KMG").find(unit);
  if (unit.size() != 1 || power == std::string_view::npos) return std::nullopt;
  return checked_mul(number, uint64_t{1} << (10 * (power + 1)));
}

Result<Kind> parse_kind(std::string_view name) {
  std::string names;
  for (uint32_t i = 0; i < kKindCount; ++i) {
    const auto kind = static_cast<Kind>(i);
    if (kind_info(kind).name == name) return kind;
    names += (i == 0 ? "" : ", ") + std::string(kind_info(kind).name);
  }
  return refuse("one of " + names, name);
}

/// "8K-1M", or "1M-".
Status parse_range(std::string_view text, AlgorithmRule* rule) {
  std::string_view end_text = text;
  const std::string_view first_text = take_until(&end_text, '-');
  const std::optional<uint64_t> first = parse_size(first_text);
  const bool has_dash = first_text.size() < text.size();
  if (!has_dash || !first) return refuse("sizes as 0-8K or 1M-", text);
  rule->least_bytes = *first;
  if (end_text.empty()) return {};
  const std::optional<uint64_t> end = parse_size(end_text);
  if (!end) return refuse("sizes as 0-8K or 1M-", text);
  if (*end <= *first) return refuse("a range whose end is above its begin", text);
  rule->most_bytes = *end - 1;
  return {};
}

/// "8K-1M=ring", or "ring".
Result<AlgorithmRule> parse_rule(Kind kind, std::string_view text) {
  AlgorithmRule rule;
  std::string_view name = text;
  if (text.find('=') != std::string_view::npos) {
    BP_TRY(parse_range(take_until(&name, '='), &rule));
  }
  BP_TRY_ASSIGN(rule.algorithm, find_algorithm(kind, name));
  return rule;
}

uint64_t larger_buffer_bytes(const ChooseArgs& args, uint64_t element_bytes) {
  // At the root, where the kind has one.
  const RankPlace place{args.operation.root, args.rank_count};
  const uint64_t elements =
      std::max(send_count(args.operation, place), recv_count(args.operation, place));
  return checked_mul(elements, element_bytes).value_or(UINT64_MAX);
}

}  // namespace

Result<AlgorithmRules> AlgorithmRules::parse(std::string_view text) {
  AlgorithmRules rules;
  while (!text.empty()) {
    std::string_view of_kind = take_until(&text, ',');
    const std::string_view whole = of_kind;
    const std::string_view kind_text = take_until(&of_kind, ':');
    if (of_kind.empty()) return refuse("KIND:ALGORITHM or KIND:FIRST-END=ALGORITHM", whole);
    BP_TRY_ASSIGN(const Kind kind, parse_kind(kind_text));
    while (!of_kind.empty()) {
      const std::string_view rule_text = take_until(&of_kind, ';');
      BP_TRY_ASSIGN(const AlgorithmRule rule, parse_rule(kind, rule_text));
      for (const AlgorithmRule& other : rules.rules_) {
        if (other.algorithm->kind == kind && other.least_bytes <= rule.most_bytes &&
            rule.least_bytes <= other.most_bytes) {
          return refuse("sizes that no other rule of " + std::string(kind_text) + " is for",
                        rule_text);
        }
      }
      rules.rules_.push_back(rule);
    }
  }
  return rules;
}

const Algorithm* AlgorithmRules::find(Kind kind, uint64_t bytes) const {
  for (const AlgorithmRule& rule : rules_) {
    if (rule.algorithm->kind == kind && rule.least_bytes <= bytes && bytes <= rule.most_bytes) {
      return rule.algorithm;
    }
  }
  return nullptr;
}

Choice choose(const ChooseArgs& args, const CostModel& model, const AlgorithmRules& rules) {
  const Operation& operation = args.operation;
  const uint64_t element_bytes = std::max<uint64_t>(1, dtype_bits(operation.dtype) / 8);
  const Needs needs{args.rank_count, operation.is_deterministic, args.has_blocks,
                    !args.hosts.empty()};
  const CostArgs cost_args{operation.kind, operation.count, args.rank_count, operation.root,
                           host_shape(args.hosts)};
  const auto estimate = [&](const Algorithm& algorithm) {
    return estimated_ns(cost_of(algorithm, cost_args), element_bytes, model);
  };
  Choice choice;
  const Algorithm* const wish =
      rules.find(operation.kind, larger_buffer_bytes(args, element_bytes));
  if (wish != nullptr && serves(*wish, needs)) return {wish, nullptr, estimate(*wish)};
  choice.unfit_wish = wish;
  for (const Algorithm& algorithm : algorithms_of(operation.kind)) {
    if (!serves(algorithm, needs)) continue;
    const double ns = estimate(algorithm);
    if (choice.algorithm == nullptr || ns < choice.estimated_ns) {
      choice.algorithm = &algorithm;
      choice.estimated_ns = ns;
    }
  }
  return choice;
}

}  // namespace bp::ccl
