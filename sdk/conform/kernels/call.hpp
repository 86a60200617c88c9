// SPDX-License-Identifier: Apache-2.0
//
// One call of an operator with its values, what the oracle says that it gives, and whether a result
// is near enough.
#ifndef BACKPLANE_SDK_CONFORM_KERNELS_CALL_HPP
#define BACKPLANE_SDK_CONFORM_KERNELS_CALL_HPP

#include <string>
#include <vector>

#include "core/op/attributes.hpp"
#include "ops/oracle/oracle.hpp"
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {

enum class Pass { kExact, kPrecision, kSpecial };

/// The dtypes of a call: one per type variable, and one that an attribute names.
struct DtypeChoice {
  std::vector<uint32_t> variables;
  uint32_t named = BP_DTYPE_NONE;  // by the attribute of the first output, if one does
  // Neither in the first row of pairs nor in the first column: there are many, and one shot is
  // tried.
  bool is_further = false;

  std::string name() const;  // "f32", "f32_i64"
  bool has_float() const;
};
/// All that the schema admits.
std::vector<DtypeChoice> dtype_choices(const OpSchema& schema);
uint32_t dtype_of(const OpSchema& schema, const ArgSchema& argument, const DtypeChoice& dtypes);

struct Call {
  const OpSchema* schema = nullptr;
  const Recipe* recipe = nullptr;
  Pass pass = Pass::kExact;
  DtypeChoice dtypes;
  std::vector<OracleTensor> inputs;  // dtype NONE: absent
  int64_t extent = 0;                // of the dimension that indices point into
  Attributes attributes;
  std::vector<TensorType> output_types;  // where extents are told at run time: the upper bound

  std::string words() const;  // "add of [2, 3], [3] as f32"
};

/// Errors are the recipe's: a setting that the schema does not know, sizes that it does not take.
/// `values`: other ones for each number.
Result<Call> make_call(const OpSchema& schema, const Recipe& recipe, const Shot& shot,
                       const DtypeChoice& dtypes, Pass pass, uint32_t values = 0);

/// What a correct kernel answers.
class Expectation {
 public:
  static Result<Expectation> of(const Call& call);
  /// That output, which is exact but for one rounding, in place of what the oracle says.
  static Result<Expectation> golden(const Call& call, OracleTensor output);
  const std::vector<OracleTensor>& outputs() const { return rounded_; }
  /// What is wrong with output `index`; empty: nothing. `unwritten`: the byte that was there
  /// before.
  std::string judge(size_t index, const OracleTensor& found, std::byte unwritten) const;

 private:
  explicit Expectation(const Call& call) : call_(&call) {}
  Status measure();
  double input_size(size_t place) const;
  bool near(uint32_t dtype, size_t output, size_t place, double found) const;

  const Call* call_;
  std::vector<OracleTensor> rounded_;
  std::vector<std::vector<double>> exact_;      // outputs in f64 from exact inputs
  std::vector<std::vector<double>> magnitude_;  // kSums: with absolute values
  double terms_ = 0;
  double largest_ = 0;    // of the first input
  double roundings_ = 0;  // of the numbers in exact_, in units in their last place
};

}  // namespace bp::conform

#endif
