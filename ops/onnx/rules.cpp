// SPDX-License-Identifier: Apache-2.0
//
// The operators that are read, one row for each range of operator sets with the same attributes
// and inputs. Checked against the schema history of ONNX 1.23 (operator sets 7 to 28).
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/base/options.hpp"
#include "ops/onnx/node_import.hpp"

namespace bp::onnx {
namespace {

constexpr AttributeRule kConv[] = {
    {"auto_pad", kString, Use::kRead},
    {"dilations", kInts, Use::kField, "dilations"},
    {"group", kInt, Use::kField, "group"},
    {"kernel_shape", kInts, Use::kRead},  // w has it too; compared
    {"pads", kInts, Use::kField, "pads"},
    {"strides", kInts, Use::kField, "strides"},
};
constexpr AttributeRule kBatchNorm7[] = {
    {"epsilon", kFloat, Use::kField, "epsilon"},
    {"momentum", kFloat, Use::kIgnored},  // of training
    {"spatial", kInt, Use::kMustBe, {}, 1},
};
constexpr AttributeRule kBatchNorm9[] = {
    {"epsilon", kFloat, Use::kField, "epsilon"},
    {"momentum", kFloat, Use::kIgnored},
};
constexpr AttributeRule kBatchNorm14[] = {
    {"epsilon", kFloat, Use::kField, "epsilon"},
    {"momentum", kFloat, Use::kIgnored},
    {"training_mode", kInt, Use::kMustBe, {}, 0},
};
constexpr AttributeRule kMaxPool7[] = {
    {"auto_pad", kString, Use::kRead},
    {"kernel_shape", kInts, Use::kField, "kernel_shape"},
    {"pads", kInts, Use::kField, "pads"},
    {"strides", kInts, Use::kField, "strides"},
};
constexpr AttributeRule kMaxPool8[] = {
    {"auto_pad", kString, Use::kRead},
    {"kernel_shape", kInts, Use::kField, "kernel_shape"},
    {"pads", kInts, Use::kField, "pads"},
    {"storage_order", kInt, Use::kIgnored},  // of the output of indices, which is refused
    {"strides", kInts, Use::kField, "strides"},
};
constexpr AttributeRule kMaxPool10[] = {
    {"auto_pad", kString, Use::kRead},
    {"ceil_mode", kInt, Use::kFlag, "ceil_mode"},
    {"dilations", kInts, Use::kField, "dilations"},
    {"kernel_shape", kInts, Use::kField, "kernel_shape"},
    {"pads", kInts, Use::kField, "pads"},
    {"storage_order", kInt, Use::kIgnored},
    {"strides", kInts, Use::kField, "strides"},
};
constexpr AttributeRule kGemm[] = {
    {"alpha", kFloat, Use::kField, "alpha"},
    {"beta", kFloat, Use::kField, "beta"},
    {"transA", kInt, Use::kFlag, "trans_a"},
    {"transB", kInt, Use::kFlag, "trans_b"},
};
constexpr AttributeRule kAxisRead[] = {{"axis", kInt, Use::kRead}};
constexpr AttributeRule kAxis[] = {{"axis", kInt, Use::kField, "axis"}};
constexpr AttributeRule kReduceByAttribute[] = {
    {"axes", kInts, Use::kField, "axes"},
    {"keepdims", kInt, Use::kFlag, "keepdims"},
};
constexpr AttributeRule kReduceByInput[] = {
    {"keepdims", kInt, Use::kFlag, "keepdims"},
    {"noop_with_empty_axes", kInt, Use::kRead},
};
constexpr AttributeRule kReshape14[] = {{"allowzero", kInt, Use::kFlag, "allow_zero"}};
constexpr AttributeRule kTranspose[] = {{"perm", kInts, Use::kField, "perm"}};
constexpr AttributeRule kCast7[] = {{"to", kInt, Use::kRead}};
constexpr AttributeRule kCast19[] = {
    {"saturate", kInt, Use::kRead},
    {"to", kInt, Use::kRead},
};
constexpr AttributeRule kCast24[] = {
    {"round_mode", kString, Use::kIgnored},  // of float8e8m0, which is no dtype of ours
    {"saturate", kInt, Use::kRead},
    {"to", kInt, Use::kRead},
};
constexpr AttributeRule kConstant7[] = {{"value", kTensor, Use::kRead}};
constexpr AttributeRule kConstant11[] = {
    {"sparse_value", kSparseTensor, Use::kRefused},
    {"value", kTensor, Use::kRead},
};
constexpr AttributeRule kConstant12[] = {
    {"sparse_value", kSparseTensor, Use::kRefused},
    {"value", kTensor, Use::kRead},
    {"value_float", kFloat, Use::kRead},
    {"value_floats", kFloats, Use::kRead},
    {"value_int", kInt, Use::kRead},
    {"value_ints", kInts, Use::kRead},
    {"value_string", kString, Use::kRefused},
    {"value_strings", kStrings, Use::kRefused},
};
constexpr AttributeRule kDropout7[] = {{"ratio", kFloat, Use::kIgnored}};  // of training
constexpr AttributeRule kDropout12[] = {{"seed", kInt, Use::kIgnored}};

constexpr std::span<const AttributeRule> kNone = {};

constexpr std::array kRules = {
    OpRule{"Add", 7, kAnyLater, 2, 2, "add", kNone},
    OpRule{"BatchNormalization", 7, 8, 5, 5, "batch_norm", kBatchNorm7},
    OpRule{"BatchNormalization", 9, 13, 5, 5, "batch_norm", kBatchNorm9},
    OpRule{"BatchNormalization", 14, kAnyLater, 5, 5, "batch_norm", kBatchNorm14},
    OpRule{"Cast", 7, 18, 1, 1, "cast", kCast7, convert_cast},
    OpRule{"Cast", 19, 23, 1, 1, "cast", kCast19, convert_cast},
    OpRule{"Cast", 24, kAnyLater, 1, 1, "cast", kCast24, convert_cast},
    OpRule{"Constant", 7, 10, 0, 0, "", kConstant7, convert_constant},
    OpRule{"Constant", 11, 11, 0, 0, "", kConstant11, convert_constant},
    OpRule{"Constant", 12, kAnyLater, 0, 0, "", kConstant12, convert_constant},
    OpRule{"Conv", 7, kAnyLater, 2, 3, "conv", kConv, convert_conv},
    OpRule{"Div", 7, kAnyLater, 2, 2, "div", kNone},
    OpRule{"Dropout", 7, 11, 1, 1, "identity", kDropout7},
    OpRule{"Dropout", 12, kAnyLater, 1, 3, "identity", kDropout12, convert_dropout},
    OpRule{"Exp", 7, kAnyLater, 1, 1, "exp", kNone},
    OpRule{"Flatten", 7, kAnyLater, 1, 1, "flatten", kAxis},
    OpRule{"Gather", 7, kAnyLater, 2, 2, "gather", kAxis},
    OpRule{"Gemm", 7, 10, 3, 3, "gemm", kGemm},
    OpRule{"Gemm", 11, kAnyLater, 2, 3, "gemm", kGemm},
    OpRule{"Identity", 7, kAnyLater, 1, 1, "identity", kNone},
    OpRule{"MatMul", 7, kAnyLater, 2, 2, "matmul", kNone},
    OpRule{"Max", 7, kAnyLater, 1, SIZE_MAX, "max", kNone, convert_max},
    OpRule{"MaxPool", 7, 7, 1, 1, "max_pool", kMaxPool7, convert_max_pool},
    OpRule{"MaxPool", 8, 9, 1, 1, "max_pool", kMaxPool8, convert_max_pool},
    OpRule{"MaxPool", 10, kAnyLater, 1, 1, "max_pool", kMaxPool10, convert_max_pool},
    OpRule{"Mul", 7, kAnyLater, 2, 2, "mul", kNone},
    OpRule{"NonZero", 9, kAnyLater, 1, 1, "non_zero", kNone},
    OpRule{"Reciprocal", 7, kAnyLater, 1, 1, "reciprocal", kNone},
    OpRule{"ReduceMax", 7, 17, 1, 1, "reduce_max", kReduceByAttribute},
    OpRule{"ReduceMax", 18, kAnyLater, 1, 2, "reduce_max", kReduceByInput, convert_reduction},
    OpRule{"ReduceSum", 7, 12, 1, 1, "reduce_sum", kReduceByAttribute},
    OpRule{"ReduceSum", 13, kAnyLater, 1, 2, "reduce_sum", kReduceByInput, convert_reduction},
    OpRule{"Relu", 7, kAnyLater, 1, 1, "relu", kNone},
    OpRule{"Reshape", 7, 13, 2, 2, "reshape", kNone},
    OpRule{"Reshape", 14, kAnyLater, 2, 2, "reshape", kReshape14},
    OpRule{"Softmax", 7, 12, 1, 1, "softmax", kAxisRead, convert_softmax_of_matrix},
    OpRule{"Softmax", 13, kAnyLater, 1, 1, "softmax", kAxis},
    OpRule{"Sqrt", 7, kAnyLater, 1, 1, "sqrt", kNone},
    OpRule{"Sub", 7, kAnyLater, 2, 2, "sub", kNone},
    OpRule{"Transpose", 7, kAnyLater, 1, 1, "transpose", kTranspose},
};

}  // namespace

Result<const OpRule*> find_rule(std::string_view op_type, int64_t opset) {
  std::vector<std::string> names;
  for (const OpRule& rule : kRules) {
    if (rule.onnx == op_type && opset >= rule.since && opset <= rule.until) return &rule;
    if (names.empty() || names.back() != rule.onnx) names.emplace_back(rule.onnx);
  }
  const auto first = std::find_if(kRules.begin(), kRules.end(),
                                  [&](const OpRule& rule) { return rule.onnx == op_type; });
  if (first != kRules.end()) {
    return Status(BP_UNSUPPORTED,
                  "the operator exists since opset " + std::to_string(first->since));
  }
  std::string words = "the operator is not known";
  if (const auto near = nearest_match(op_type, names)) {
    return Status(BP_UNSUPPORTED, words + "; nearest is '" + *near + "'");
  }
  words += "; known are:";
  for (const std::string& name : names) words += " " + name;
  return Status(BP_UNSUPPORTED, words);
}

}  // namespace bp::onnx
