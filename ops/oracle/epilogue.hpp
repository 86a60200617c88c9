// SPDX-License-Identifier: Apache-2.0
//
// Epilogues in the oracle: the addend and the activation on exact sums.
#ifndef BACKPLANE_OPS_ORACLE_EPILOGUE_HPP
#define BACKPLANE_OPS_ORACLE_EPILOGUE_HPP

#include <string_view>
#include <vector>

#include "ops/infer/epilogue.hpp"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {

/// The activation of each value, as its operator is defined for f64.
std::vector<double> activate(const Activation& activation, const std::vector<double>& values);

/// Rounds the operator's own values, with the addend if there is one, to y; then the activation of
/// y. `addend`: nullptr: none.
template <class N>
void put_with_epilogue(OracleTensor& y, std::vector<N> values, const OracleTensor* addend,
                       const Activation& activation) {
  if (addend != nullptr) {
    const auto more = numbers<N>(*addend);
    size_t index = 0;
    for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
      const auto from = static_cast<size_t>(broadcast_index(addend->sizes, at.at()));
      values[index] = plus(values[index], more[from]);
    }
  }
  const auto put_all = [&](const auto& rounded) {
    for (size_t i = 0; i < rounded.size(); ++i) put<N>(y, static_cast<int64_t>(i), rounded[i]);
  };
  put_all(values);
  if constexpr (std::is_same_v<N, double>) {
    if (!activation.name.empty()) put_all(activate(activation, numbers<double>(y)));
  }
}

}  // namespace bp::ops

#endif
