// SPDX-License-Identifier: Apache-2.0
//
// einsum as a chain of products of two operands, left to right. What two operands share and later
// ones or the output need is a batch; what nothing needs any more is summed by the matrix product.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backplane/ops/linalg.h"
#include "ops/decompose/builder.hpp"
#include "ops/linalg/einsum.hpp"

namespace bp::ops {
namespace {

using Labels = std::vector<EinsumLabel>;

struct Operand {
  ValueId value = kNoValue;
  Labels labels;
  std::map<EinsumLabel, int64_t> sizes;
};

bool contains(const Labels& labels, EinsumLabel label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

template <class Wanted>
Labels those(const Labels& labels, Wanted wanted) {
  Labels result;
  std::copy_if(labels.begin(), labels.end(), std::back_inserter(result), wanted);
  return result;
}

Labels joined(std::initializer_list<Labels> parts) {
  Labels result;
  for (const Labels& part : parts) result.insert(result.end(), part.begin(), part.end());
  return result;
}

/// The labels of two operands by what a product does with them.
struct Roles {
  Labels batch;
  Labels rows;     // of the first alone
  Labels columns;  // of the second alone
  Labels summed;
};

Roles roles_of(const Labels& a, const Labels& b, const Labels& kept) {
  Roles roles;
  for (const EinsumLabel label : a) {
    Labels& role = !contains(b, label)     ? roles.rows
                   : contains(kept, label) ? roles.batch
                                           : roles.summed;
    role.push_back(label);
  }
  roles.columns = those(b, [&](EinsumLabel label) { return !contains(a, label); });
  return roles;
}

class Contraction {
 public:
  explicit Contraction(Builder& builder) : builder_(builder) {}

  /// An input whose labels may stand twice; `all` are the sizes that they have in the end.
  Operand operand(ValueId value, Labels labels, const Dims& sizes,
                  const std::map<EinsumLabel, int64_t>& all) {
    Dims left = sizes;
    for (size_t i = 0; i < labels.size();) {
      const auto again =
          std::find(labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, labels.end(), labels[i]);
      if (again == labels.end()) {
        ++i;
      } else {
        value = diagonal(value, i, static_cast<size_t>(again - labels.begin()), &labels, &left);
      }
    }
    Operand made{.value = value, .labels = std::move(labels), .sizes = {}};
    for (size_t i = 0; i < left.size(); ++i) made.sizes[made.labels[i]] = left[i];
    drop(&made, those(made.labels, [&](EinsumLabel label) {
      return made.sizes[label] == 1 && all.at(label) != 1;
    }));
    return made;
  }

  /// Sums what is not kept.
  void sum(Operand* x, const Labels& kept) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < x->labels.size(); ++i) {
      if (!contains(kept, x->labels[i])) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) return;
    Attributes over = builder_.attributes("reduce_sum");
    builder_.check(over.set_i64s("axes", axes));
    builder_.check(over.set_i64("keepdims", 0));
    x->value = builder_.op("reduce_sum", {x->value}, std::move(over));
    x->labels = those(x->labels, [&](EinsumLabel label) { return contains(kept, label); });
  }

  void arrange(Operand* x, const Labels& order) {
    std::vector<int64_t> perm;
    for (const EinsumLabel label : order) {
      const auto at = std::find(x->labels.begin(), x->labels.end(), label);
      perm.push_back(at - x->labels.begin());
    }
    x->value = transposed(x->value, perm);
    x->labels = order;
  }

  Operand product(Operand a, Operand b, const Labels& kept) {
    sum(&a, joined({kept, b.labels}));
    sum(&b, joined({kept, a.labels}));
    const Roles roles = roles_of(a.labels, b.labels, kept);
    if (!roles.summed.empty()) arrange(&a, joined({roles.batch, roles.rows, roles.summed}));
    Operand y{
        .value = kNoValue,
        .labels = joined(
            {those(a.labels, [&](EinsumLabel label) { return !contains(roles.summed, label); }),
             roles.columns}),
        .sizes = a.sizes};
    for (const auto& [label, size] : b.sizes) {
      int64_t& both = y.sizes.try_emplace(label, size).first->second;
      if (is_known(size)) both = size;
    }
    if (y.labels.size() > BP_MAX_RANK) {
      builder_.check({BP_UNSUPPORTED, "a product of two operands would have rank " +
                                          std::to_string(y.labels.size()) + ", above " +
                                          std::to_string(BP_MAX_RANK)});
      return y;
    }
    y.value = roles.summed.empty() ? elementwise(a, &b, roles) : matrices(a, &b, roles, y);
    return y;
  }

 private:
  ValueId transposed(ValueId value, const std::vector<int64_t>& perm) {
    if (std::is_sorted(perm.begin(), perm.end())) return value;
    Attributes order = builder_.attributes("transpose");
    builder_.check(order.set_i64s("perm", perm));
    return builder_.op("transpose", {value}, std::move(order));
  }

  /// Every n + 1st element of the n * n of two dimensions becomes one dimension, the last.
  ValueId diagonal(ValueId value, size_t first, size_t second, Labels* labels, Dims* sizes) {
    const EinsumLabel label = (*labels)[first];
    int64_t size = (*sizes)[first];
    unify((*sizes)[second], &size);
    if (!is_known(size)) {
      builder_.check({BP_UNSUPPORTED, "the size of a diagonal is not known"});
      size = 1;
    }
    std::vector<int64_t> perm;
    Labels rest;
    Dims merged;
    for (size_t i = 0; i < labels->size(); ++i) {
      if (i == first || i == second) continue;
      perm.push_back(static_cast<int64_t>(i));
      rest.push_back((*labels)[i]);
      merged.push_back((*sizes)[i]);
    }
    perm.push_back(static_cast<int64_t>(first));
    perm.push_back(static_cast<int64_t>(second));
    const auto axis = static_cast<int64_t>(merged.size());
    merged.push_back(product_of({size, size}));
    const ValueId flat = reshaped(transposed(value, perm), merged, rest.size());
    *labels = joined({rest, {label}});
    *sizes = merged;
    (*sizes)[merged.size() - 1] = size;
    return builder_.op(
        "slice",
        {flat, builder_.list(std::array{int64_t{0}}), builder_.list(std::array{merged.back()}),
         builder_.list(std::array{axis}), builder_.list(std::array{size + 1})});
  }

  /// Takes dimensions of size 1 away.
  void drop(Operand* x, const Labels& ones) {
    if (ones.empty()) return;
    std::vector<int64_t> axes;
    for (size_t i = 0; i < x->labels.size(); ++i) {
      if (contains(ones, x->labels[i])) axes.push_back(static_cast<int64_t>(i));
    }
    x->value = builder_.op("squeeze", {x->value, builder_.list(axes)});
    x->labels = those(x->labels, [&](EinsumLabel label) { return !contains(ones, label); });
    for (const EinsumLabel label : ones) x->sizes.erase(label);
  }

  /// The dimensions of a, then those that b alone has.
  ValueId elementwise(const Operand& a, Operand* b, const Roles& roles) {
    arrange(b, joined({roles.batch, roles.columns}));
    std::vector<int64_t> behind_a;
    for (size_t i = 0; i < roles.columns.size(); ++i) {
      behind_a.push_back(static_cast<int64_t>(a.labels.size() + i));
    }
    // Broadcasting adds what is in front of the first that both have.
    std::vector<int64_t> inside_b;
    size_t lead = 0;
    while (lead < a.labels.size() && !contains(b->labels, a.labels[lead])) ++lead;
    for (size_t i = lead; i < a.labels.size(); ++i) {
      if (!contains(b->labels, a.labels[i])) inside_b.push_back(static_cast<int64_t>(i - lead));
    }
    return builder_.op("mul", {with_ones(a.value, behind_a), with_ones(b->value, inside_b)});
  }

  ValueId with_ones(ValueId value, const std::vector<int64_t>& axes) {
    return axes.empty() ? value : builder_.op("unsqueeze", {value, builder_.list(axes)});
  }

  ValueId matrices(const Operand& a, Operand* b, const Roles& roles, const Operand& y) {
    arrange(b, joined({roles.batch, roles.summed, roles.columns}));
    const ValueId left = merged(a, roles.batch, roles.rows, roles.summed);
    const ValueId right = merged(*b, roles.batch, roles.summed, roles.columns);
    const ValueId product = builder_.op("matmul", {left, right});
    if (roles.rows.size() == 1 && roles.columns.size() == 1) return product;
    return reshaped(product, sizes_of(y, y.labels), roles.batch.size());
  }

  /// [batch..., rows, columns]
  ValueId merged(const Operand& x, const Labels& batch, const Labels& rows, const Labels& columns) {
    if (rows.size() == 1 && columns.size() == 1) return x.value;
    if (batch.size() + 2 > BP_MAX_RANK) {
      builder_.check({BP_UNSUPPORTED, "a matrix product would have rank " +
                                          std::to_string(batch.size() + 2) + ", above " +
                                          std::to_string(BP_MAX_RANK)});
      return kNoValue;
    }
    Dims sizes = sizes_of(x, batch);
    sizes.push_back(product_of(sizes_of(x, rows)));
    sizes.push_back(product_of(sizes_of(x, columns)));
    return reshaped(x.value, sizes, batch.size());
  }

  static Dims sizes_of(const Operand& x, const Labels& labels) {
    Dims sizes;
    for (const EinsumLabel label : labels) sizes.push_back(x.sizes.at(label));
    return sizes;
  }

  int64_t product_of(const Dims& sizes) {
    const auto product = size_product(sizes);
    if (!product) builder_.check({BP_UNSUPPORTED, "sizes with too many elements to count"});
    return product.value_or(0);
  }

  /// The first `copied` sizes are those of the value, known or not; of the others one may be
  /// unknown.
  ValueId reshaped(ValueId value, const Dims& sizes, size_t copied) {
    std::vector<int64_t> shape(sizes.begin(), sizes.end());
    const bool is_literal = all_known(sizes);
    if (!is_literal) {
      size_t unknown_count = 0;
      bool has_zero = false;
      for (size_t i = 0; i < shape.size(); ++i) {
        has_zero = has_zero || (i >= copied && shape[i] == 0);
        unknown_count += i >= copied && !is_known(shape[i]) ? 1 : 0;
        shape[i] = i < copied ? 0 : is_known(shape[i]) ? shape[i] : -1;
      }
      if (unknown_count > 1 || has_zero) {
        builder_.check({BP_UNSUPPORTED, "too many sizes are not known: " + to_string(sizes)});
        return kNoValue;
      }
    }
    Attributes attributes = builder_.attributes("reshape");
    builder_.check(attributes.set_i64("allow_zero", is_literal ? 1 : 0));
    return builder_.op("reshape", {value, builder_.list(shape)}, std::move(attributes));
  }

  Builder& builder_;
};

/// Whether one sum or product is all there is, so that a half type is rounded once as it is.
bool rounds_once(const EinsumPlan& plan) {
  if (plan.operands.size() == 1) return true;
  if (plan.operands.size() > 2) return false;
  const Labels& a = plan.operands[0];
  const Labels& b = plan.operands[1];
  const Labels all = joined({a, b});
  return std::all_of(all.begin(), all.end(), [&](EinsumLabel label) {
    return contains(plan.output, label) || (contains(a, label) && contains(b, label));
  });
}

/// The output, and the operands from `next` on.
Labels needed_after(const EinsumPlan& plan, size_t next) {
  Labels kept = plan.output;
  for (size_t i = next; i < plan.operands.size(); ++i) kept = joined({kept, plan.operands[i]});
  return kept;
}

}  // namespace

Status decompose_einsum(const InferContext& context, GraphBuilder* graph) {
  for (const TensorType& input : context.inputs) {
    if (!input.has_rank) return {BP_UNSUPPORTED, "ranks of inputs are not known"};
  }
  const auto equation = text(attrs<bp_attrs_einsum>(context.attributes).equation);
  BP_TRY_ASSIGN(const EinsumPlan plan, plan_einsum(equation, context.inputs));
  const uint32_t dtype = context.inputs[0].dtype;
  const uint32_t work = rounds_once(plan) ? dtype : working_dtype(dtype);
  Builder builder(context, {"x"}, graph);
  Contraction contraction(builder);
  const auto operand = [&](size_t i) {
    return contraction.operand(builder.cast(builder.input(i), work), plan.operands[i],
                               context.inputs[i].sizes, plan.sizes);
  };
  Operand y = operand(0);
  for (size_t i = 1; i < plan.operands.size(); ++i) {
    y = contraction.product(std::move(y), operand(i), needed_after(plan, i + 1));
  }
  contraction.sum(&y, plan.output);
  contraction.arrange(&y, plan.output);
  const ValueId result = builder.cast(y.value, dtype);
  return builder.finish(result == builder.input(0) ? builder.op("identity", {result}) : result);
}

}  // namespace bp::ops
