// SPDX-License-Identifier: Apache-2.0
//
// Texts become trees, wrong ones are told where they are wrong, and what is emitted is fixed.
#include "ops/expr/expr.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/expr/emit.hpp"
#include "ops/expr/emit_c.hpp"

namespace bp::expr {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Type kF32{Class::kFloat, 32};
constexpr Type kI8{Class::kSigned, 8};
constexpr Type kBool{Class::kBool, 8};

std::vector<Name> names(Type type) {
  return {{"x", type}, {"y", type}, {"flag", kBool}, {"T", type, true}};
}

/// Parsed and written again.
std::string rewritten(std::string_view text) {
  Expr expr;
  const std::string error = parse(text, &expr);
  return error.empty() ? emit_formula(expr) : error;
}

/// ... also checked and simplified.
std::string simplified(std::string_view text, Type type = kF32) {
  Expr expr;
  std::string error = parse(text, &expr);
  if (error.empty()) error = check(&expr, names(type), {});
  if (!error.empty()) return error;
  simplify(&expr);
  return emit_formula(expr);
}

std::string checked(std::string_view text, Type type, Type result = {}) {
  Expr expr;
  const std::string error = parse(text, &expr);
  return error.empty() ? check(&expr, names(type), result) : error;
}

TEST(Parse, Precedence_IsThatOfC) {
  EXPECT_EQ(rewritten("a+b*c"), "a + b * c");
  EXPECT_EQ(rewritten("(a+b)*c"), "(a + b) * c");
  EXPECT_EQ(rewritten("a-(b-c)-d"), "a - (b - c) - d");
  EXPECT_EQ(rewritten("a - b - c"), "a - b - c");
  EXPECT_EQ(rewritten("-a*b"), "-a * b");
  EXPECT_EQ(rewritten("-(a*b)"), "-(a * b)");
  EXPECT_EQ(rewritten("a<<1<b&&c||!d"), "a << 1 < b && c || !d");
  EXPECT_EQ(rewritten("a&b==c"), "a & b == c");
  EXPECT_EQ(rewritten("(a&b)==c"), "(a & b) == c");
  EXPECT_EQ(rewritten("a|b^c&~d"), "a | b ^ c & ~d");
  EXPECT_EQ(rewritten("select(a<=b,max(a,b),cast_T(1e-3))"),
            "select(a <= b, max(a, b), cast_T(1e-3))");
  EXPECT_EQ(rewritten("((x))"), "x");
  EXPECT_EQ(rewritten("--x"), "--x");
}

TEST(Parse, Mistakes_AreTold) {
  EXPECT_EQ(rewritten(""), "expected a number, a name or '(', found the end (at 0)");
  EXPECT_EQ(rewritten("a +"), "expected a number, a name or '(', found the end (at 3)");
  EXPECT_EQ(rewritten("(a"), "expected ')', found the end (at 2)");
  EXPECT_EQ(rewritten("a b"), "expected an operator or the end, found 'b' (at 2)");
  EXPECT_EQ(rewritten("a ? b"), "expected an operator or the end, found '?' (at 2)");
  EXPECT_EQ(rewritten("sinus(a)"), "expected a function, not 'sinus', found 'a' (at 6)");
  EXPECT_EQ(rewritten("max(a)"), "'max' has 2 arguments: expected ',', found ')' (at 5)");
  EXPECT_EQ(rewritten("abs(a, b)"), "'abs' has 1 arguments: expected ')', found ',' (at 5)");
  EXPECT_EQ(rewritten("1e"), "expected digits, found the end (at 2)");
  EXPECT_THAT(rewritten(std::string(5000, ' ')), HasSubstr("at most 4096 bytes"));
  EXPECT_THAT(rewritten(std::string(100, '(')), HasSubstr("64 levels"));
  EXPECT_THAT(rewritten(std::string(100, '-')), HasSubstr("64 levels"));
}

TEST(Check, Types_GoTogether) {
  EXPECT_EQ(checked("x + 1", kF32, kF32), "");
  EXPECT_EQ(checked("select(x < 0 && flag, -x, pi)", kF32, kF32), "");
  EXPECT_EQ(checked("x << bits - 1", kI8, kI8), "");
  EXPECT_EQ(checked("1 / 2", kF32, kF32), "");
  EXPECT_EQ(checked("cast_T(sqrt(cast_f64(x)))", kI8, kI8), "");
  EXPECT_EQ(checked("x == flag", kI8), "'==' of i8 and bool");
  EXPECT_EQ(checked("exp(x)", kI8), "'exp' does not take i8");
  EXPECT_EQ(checked("x & y", kF32), "'&' does not take f32");
  EXPECT_EQ(checked("flag + flag", kF32), "'+' does not take bool");
  EXPECT_EQ(checked("!x", kF32), "'!' does not take f32");
  EXPECT_EQ(checked("x + 0.5", kI8), "0.5 as a constant of type i8");
  EXPECT_EQ(checked("max(x, -inf)", kI8), "inf as a constant of type i8");
  EXPECT_EQ(checked("x * bits", kF32), "bits as a constant of type f32");
  EXPECT_EQ(checked("select(x, x, x)", kF32), "'select' chooses by f32, expected bool");
  EXPECT_EQ(checked("x + z", kF32), "'z' is no input and no numeric attribute");
  EXPECT_EQ(checked("x < y", kF32, kF32), "it gives bool, expected f32");
  EXPECT_EQ(checked("1 < 2", kF32), "'<' of constants alone");
  EXPECT_EQ(checked("1 + 2", kF32), "constants alone have no type");
  EXPECT_EQ(checked("cast_i9(x)", kF32), "cast_i9: no such type");
  EXPECT_EQ(checked("cast_f64(1)", kF32), "a cast of a constant");
}

TEST(Simplify, Values_StayTheSame) {
  EXPECT_EQ(simplified("1 * x + y / 1"), "x + y");
  EXPECT_EQ(simplified("x - 0"), "x");
  EXPECT_EQ(simplified("x + 0"), "x + 0") << "-0 + 0 is 0";
  EXPECT_EQ(simplified("x * 0"), "x * 0") << "NaN * 0 is NaN";
  EXPECT_EQ(simplified("--x"), "x");
  EXPECT_EQ(simplified("x + nextafter(1, 2)"), "x + nextafter(1, 2)") << "of which width?";
  EXPECT_EQ(simplified("select(!!flag, x, x)"), "x");
  EXPECT_EQ(simplified("select(true, x, y)"), "x");
  EXPECT_EQ(simplified("select(false, x, y)"), "y");
  EXPECT_EQ(simplified("x * (1 / 4)"), "x * 0.25");
  EXPECT_EQ(simplified("1 / 0 + x"), "1 / 0 + x") << "only what is finite is computed";
  EXPECT_EQ(simplified("x + 1 / 2", kI8), "x + 1 / 2") << "an integer's width may be open";
}

TEST(Simplify, EqualParts_AreOneNode) {
  Expr expr;
  ASSERT_EQ(parse("exp(x) * (exp(x) + 2) / (exp(x) * (exp(x) + 2) + 2)", &expr), "");
  ASSERT_EQ(check(&expr, names(kF32), kF32), "");
  EXPECT_EQ(expr.nodes.size(), 17u);
  simplify(&expr);
  EXPECT_EQ(expr.nodes.size(), 7u);
  EXPECT_EQ(cost(expr), 16 + 1 + 1 + 1 + 4);
  EXPECT_THAT(free_names(expr), ElementsAre("x"));
}

TEST(EmitVector, Body_IsAStatementForEachNode) {
  Expr expr;
  ASSERT_EQ(parse("select(x < 0, 0.5 * x, exp(-y)) + pi", &expr), "");
  ASSERT_EQ(check(&expr, names(kF32), kF32), "");
  simplify(&expr);
  EXPECT_EQ(emit_vector_body(expr, ""),
            "const auto step2 = vlt(x, vset<V>(0.0));\n"
            "const auto step4 = vmul(vset<V>(0.5), x);\n"
            "const auto step6 = vneg(y);\n"
            "const auto step7 = vexp(step6);\n"
            "const auto step8 = vselect(step2, step4, step7);\n"
            "return vadd(step8, vpi<V>());\n");
}

TEST(EmitVector, Row_SaysWhatTheSkeletonNeeds) {
  std::string text;
  ASSERT_EQ(emit_vector_row(*find_row("where"), &text), "");
  EXPECT_THAT(text, HasSubstr("struct WhereFloat {\n  template <class V, class M>\n  static auto "
                              "apply([[maybe_unused]] const M& condition, "));
  EXPECT_THAT(text, HasSubstr("kInputIsBool{true, false, false};"));
  EXPECT_THAT(text, HasSubstr("  using Bool = WhereBool;\n"));
  ASSERT_EQ(emit_vector_row(*find_row("elu"), &text), "");
  EXPECT_THAT(text, HasSubstr("kConstants{{{ConstantKind::kF64, 8, 1}}};"));
  EXPECT_THAT(text, HasSubstr("  using Signed = void;\n"));
}

TEST(EmitC, Function_CallsTheWordsOfItsTypes) {
  Expr expr;
  ASSERT_EQ(parse("select(x < 0, 0.1 * x, exp(-y)) + pi", &expr), "");
  ASSERT_EQ(check(&expr, names(kF32), kF32), "");
  simplify(&expr);
  const CParameter parameters[] = {{"x", kF32}, {"y", kF32}, {"flag", kBool}};
  EXPECT_EQ(emit_c_function(expr, "f", parameters),
            "BP_WORD float f(float x, float y, bool flag) {\n"
            "  (void)flag;\n"
            "  const bool step2 = bp_lt_f32(x, 0.0f);\n"
            "  const float step4 = bp_mul_f32(0.100000001f, x);\n"
            "  const float step6 = bp_neg_f32(y);\n"
            "  const float step7 = bp_exp_f32(step6);\n"
            "  const float step8 = bp_select_f32(step2, step4, step7);\n"
            "  return bp_add_f32(step8, 3.14159274f);\n"
            "}\n");
  Words words;
  words.add(expr);
  EXPECT_EQ(words.text(), "BP_BOOL_WORDS(bool, bool)\nBP_FLOAT_WORDS(f32, float)\n");
}

TEST(EmitC, Constants_AreOfTheirType) {
  Expr expr;
  ASSERT_EQ(parse("max(x, lowest) + min(highest, 12 - bits)", &expr), "");
  ASSERT_EQ(check(&expr, names(kI8), kI8), "");
  const CParameter parameters[] = {{"x", kI8}};
  const std::string text = emit_c_function(expr, "f", parameters);
  EXPECT_THAT(text, HasSubstr("bp_max_i8(x, (int8_t)0x80)"));
  EXPECT_THAT(text, HasSubstr("bp_sub_i8((int8_t)0xc, (int8_t)8)"));
  EXPECT_THAT(text, HasSubstr("bp_min_i8((int8_t)0x7f, step"));
}

TEST(EmitC, Cast_NamesItsEnds) {
  Expr expr;
  ASSERT_EQ(parse("cast_T(sqrt(cast_f64(x)))", &expr), "");
  ASSERT_EQ(check(&expr, names(kI8), kI8), "");
  Words words;
  words.add(expr);
  EXPECT_EQ(words.text(),
            "BP_CAST_SATURATED_WORD(f64, double, i8, int8_t, (int8_t)0x80, (int8_t)0x7f, 128.0f)\n"
            "BP_CAST_WORD(i8, int8_t, f64, double)\n"
            "BP_FLOAT_WORDS(f64, double)\n"
            "BP_SIGNED_WORDS(i8, int8_t, uint32_t)\n");
}

TEST(EmitC, Source_JoinsMemoryAndFunction) {
  std::string text;
  ASSERT_EQ(emit_opencl_source(*find_row("elu"), "f16", &text), "");
  EXPECT_THAT(text, HasSubstr("#define BP_INPUT_COUNT 1\n#define BP_ITEM(i, i0, i1, i2) \\\n"
                              "  BP_PUT(f16, i, bp_apply(BP_AT(f16, 0, i0), "
                              "BP_CONSTANT_f32(layout.constants[0])))\n"));
  EXPECT_THAT(text, Not(HasSubstr("double"))) << "a device may have none";
  ASSERT_EQ(emit_opencl_source(*find_row("where"), "i64", &text), "");
  EXPECT_THAT(text, HasSubstr("BP_MEMORY_WORDS(i64, int64_t)\n"));
  EXPECT_THAT(text, HasSubstr("bp_apply(BP_AT(bool, 0, i0), BP_AT(i64, 1, i1), "));
  ASSERT_EQ(emit_opencl_source(*find_reduction("reduce_mean"), "i32", &text), "");
  EXPECT_THAT(text, HasSubstr("#define BP_ACCUMULATOR double\n"));
  EXPECT_THAT(text, HasSubstr("BP_PUT(i32, i, bp_finish(a, (double)(count)))"));
}

TEST(EmitC, Literal_IsReadBackAsItWas) {
  EXPECT_EQ(emit_literal("kText", "a \"b\" \\\nc\n"),
            "static const char kText[] =\n    \"a \\\"b\\\" \\\\\\n\"\n    \"c\\n\";\n");
}

TEST(Rows, EveryForm_CompilesForEveryType) {
  EXPECT_GE(all_rows().size(), 70u);
  for (const Row& row : all_rows()) {
    for (const std::string_view dtype : row.dtypes) {
      for (const FormKind kind : {FormKind::kDefinition, FormKind::kKernel}) {
        Expr expr;
        EXPECT_EQ(compile(row, kind, *type_named(dtype), &expr), "");
        // What is written can be read, and says the same.
        EXPECT_EQ(rewritten(emit_formula(expr)), emit_formula(expr)) << row.op;
      }
    }
  }
}

TEST(Reductions, EveryForm_CompilesForEveryType) {
  EXPECT_GE(all_reductions().size(), 9u);
  for (const ReductionRow& row : all_reductions()) {
    for (const std::string_view dtype : row.dtypes) {
      ReductionTrees trees;
      EXPECT_EQ(compile(row, *type_named(dtype), &trees), "");
      EXPECT_EQ(trees.finish.nodes.back().type, *type_named(dtype)) << row.op;
    }
  }
}

/// What a form maps to is what the accumulator is.
TEST(Reductions, Accumulator_FollowsTheMap) {
  ReductionTrees trees;
  ASSERT_EQ(compile(*find_reduction("reduce_mean"), kBool, &trees),
            "operator 'reduce_mean', there is none for bool");
  ASSERT_EQ(compile(*find_reduction("reduce_mean"), {Class::kSigned, 32}, &trees), "");
  EXPECT_EQ(type_name(trees.accumulator), "f64");
  ASSERT_EQ(compile(*find_reduction("reduce_sum"), kI8, &trees), "");
  EXPECT_EQ(trees.accumulator, kI8);
  std::string text;
  ASSERT_EQ(emit_vector_reduction(*find_reduction("reduce_mean"), &text), "");
  EXPECT_THAT(text, HasSubstr("    return vcast<double>(x);\n"));
  EXPECT_THAT(text, HasSubstr("    const auto step2 = vdiv(a, count);\n"
                              "    return vcast<T>(step2);\n"));
}

TEST(Reductions, WrongForm_IsNamed) {
  const ReductionForm forms[] = {{Class::kFloat, "x", "0", "a + c", "a"}};
  ReductionRow row = *find_reduction("reduce_sum");
  row.forms = forms;
  ReductionTrees trees;
  EXPECT_EQ(compile(row, kF32, &trees),
            "operator 'reduce_sum', combine: 'c' is no input and no numeric attribute");
}

TEST(Rows, WrongForm_IsNamed) {
  const Form forms[] = {{Class::kFloat, "exp(y)"}};
  Row row = *find_row("exp");
  row.definition = forms;
  Expr expr;
  EXPECT_EQ(compile(row, FormKind::kDefinition, kF32, &expr),
            "operator 'exp', definition for float: 'y' is no input and no numeric attribute");
  EXPECT_EQ(compile(row, FormKind::kDefinition, kI8, &expr),
            "operator 'exp', definition for signed: there is none");
}

}  // namespace
}  // namespace bp::expr
