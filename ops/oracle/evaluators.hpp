// SPDX-License-Identifier: Apache-2.0
//
// Between oracle.cpp, which checks a call and makes its outputs, and the operators' loops. The
// loops run in one of three number types: double, int64_t, uint64_t. Private to ops/oracle.
#ifndef BACKPLANE_OPS_ORACLE_EVALUATORS_HPP
#define BACKPLANE_OPS_ORACLE_EVALUATORS_HPP

#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/dtype.hpp"
#include "ops/expr/rows.hpp"
#include "ops/infer/common.hpp"
#include "ops/oracle/oracle_tensor.hpp"

namespace bp::ops {

/// A checked call: attributes are complete, outputs are zeros of the inferred sizes.
struct OracleCall {
  std::span<const OracleTensor> inputs;
  const void* attributes;
  std::span<OracleTensor> outputs;

  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].dtype != BP_DTYPE_NONE; }
};
using OracleFn = void (*)(const OracleCall& call);

/// The inputs of a call as inference sees them, all of them known on the host.
class CallContext {
 public:
  CallContext(std::span<const OracleTensor> inputs, const void* attributes) {
    for (const OracleTensor& input : inputs) {
      types_.push_back({.dtype = input.dtype, .has_rank = true, .sizes = input.sizes});
      host_data_.push_back(input.bytes.data());
    }
    context_ = {.inputs = types_, .host_data = host_data_, .attributes = attributes};
  }
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  const InferContext& get() const { return context_; }

 private:
  std::vector<TensorType> types_;
  std::vector<const void*> host_data_;
  InferContext context_{};
};

struct OracleRow {
  uint32_t op;
  OracleFn evaluate;
};
/// What a row with a definition means, by interpretation of that.
void evaluate_expression(const OracleCall& call, const expr::Row& row);

/// The same for a reduction over these axes.
void evaluate_reduction(const OracleCall& call, const expr::ReductionRow& row, bp_i64_span axes);

/// One row per operator; generated from ops/defs, which names each function.
std::span<const OracleRow> all_evaluators();

// --- number types
// ---------------------------------------------------------------------------------

/// Calls fn(N{}) with the number type that a dtype is computed in.
template <class Fn>
void with_number(uint32_t dtype, Fn&& fn) {
  if (is_float_dtype(dtype)) {
    fn(double{});
  } else if (is_signed_dtype(dtype)) {
    fn(int64_t{});
  } else {
    fn(uint64_t{});
  }
}

template <class N>
std::vector<N> numbers(const OracleTensor& tensor) {
  std::vector<N> result(static_cast<size_t>(tensor.count()));
  for (size_t i = 0; i < result.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if constexpr (std::is_same_v<N, double>) {
      result[i] = load_float(tensor.dtype, tensor.bytes.data(), index);
    } else {
      result[i] = static_cast<N>(load_integer(tensor.dtype, tensor.bytes.data(), index));
    }
  }
  return result;
}

/// Rounds or wraps to the tensor's dtype.
template <class N>
void put(OracleTensor& tensor, int64_t index, N value) {
  if constexpr (std::is_same_v<N, double>) {
    store_float(tensor.dtype, tensor.bytes.data(), index, value);
  } else {
    store_integer(tensor.dtype, tensor.bytes.data(), index, static_cast<uint64_t>(value));
  }
}

// Integers wrap, which signed C++ arithmetic must not.
template <class N>
N plus(N a, N b) {
  if constexpr (std::is_same_v<N, double>) {
    return a + b;
  } else {
    return static_cast<N>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

template <class N>
N times(N a, N b) {
  if constexpr (std::is_same_v<N, double>) {
    return a * b;
  } else {
    return static_cast<N>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
}

/// The larger one; NaN if either is.
template <class N>
N larger(N a, N b) {
  if (a != a) return a;
  if (b != b) return b;
  return a < b ? b : a;
}

/// What the maximum over nothing is.
template <class N>
N lowest(uint32_t dtype) {
  if constexpr (std::is_same_v<N, double>) {
    return -std::numeric_limits<double>::infinity();
  } else if constexpr (std::is_same_v<N, int64_t>) {
    return std::numeric_limits<int64_t>::min() >> (64 - dtype_bits(dtype));
  } else {
    return 0;
  }
}

// --- indices
// --------------------------------------------------------------------------------------

/// Steps through all positions of sizes in row-major order, last dimension fastest.
class Positions {
 public:
  explicit Positions(const Dims& sizes) : sizes_(sizes) {
    at_.resize(sizes.size(), 0);
    for (int64_t size : sizes) done_ = done_ || size == 0;
  }
  bool done() const { return done_; }
  const Dims& at() const { return at_; }
  void next() {
    for (size_t i = at_.size(); i-- > 0;) {
      if (++at_[i] < sizes_[i]) return;
      at_[i] = 0;
    }
    done_ = true;
  }

 private:
  Dims sizes_;
  Dims at_;
  bool done_ = false;
};

/// The row-major index of a position; positions beyond the rank of `sizes` at the front are left
/// out, and dimensions of size 1 repeat, as broadcasting has it.
inline int64_t broadcast_index(const Dims& sizes, const Dims& at) {
  const size_t skipped = at.size() - sizes.size();
  int64_t index = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    index = index * sizes[i] + (sizes[i] == 1 ? 0 : at[skipped + i]);
  }
  return index;
}

/// Copies the bytes of one element; both tensors have one dtype.
inline void copy_element(const OracleTensor& from, int64_t from_index, OracleTensor* to,
                         int64_t to_index) {
  const auto bytes = static_cast<int64_t>(dtype_bits(from.dtype) / 8);
  std::memcpy(to->bytes.data() + to_index * bytes, from.bytes.data() + from_index * bytes,
              static_cast<size_t>(bytes));
}

}  // namespace bp::ops

#endif
