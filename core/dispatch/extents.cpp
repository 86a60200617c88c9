// SPDX-License-Identifier: Apache-2.0
//
// What a kernel says of its outputs is foreign, and checked against their bounds.
#include "core/dispatch/extents.hpp"

#include <fmt/format.h>

#include <span>

#include "core/transfer/staging.hpp"

namespace bp {

Status Extents::read(Stream& stream, bp_mem place, size_t count, Storage& made, uint64_t* out_seq) {
  sizes_.assign(count * BP_MAX_RANK, 0);
  BP_TRY(copy_out(stream, sizes_.data(), place, sizes_.size() * sizeof(int64_t), out_seq));
  return made.report_faults();
}

Result<Ref<Tensor>> Extents::narrow(const Tensor& bound, size_t row, const Dims& sure) const {
  const Dims& most = bound.sizes();
  const Dims real(std::span<const int64_t>(sizes_).subspan(row * BP_MAX_RANK, most.size()));
  size_t below = 0;
  for (size_t d = 0; d < most.size(); ++d) {
    // As numbers: a negative one is no symbol.
    const auto refuse = [&](const std::string& expected) {
      return Status(BP_INTERNAL, fmt::format("the kernel reported sizes [{}], expected {}",
                                             fmt::join(real, ", "), expected));
    };
    if (real[d] < 0 || real[d] > most[d]) {
      return refuse(fmt::format("from 0 to the bound [{}]", fmt::join(most, ", ")));
    }
    if (real[d] == most[d]) continue;
    if (d < sure.size() && is_known(sure[d])) {
      return refuse(fmt::format("{} in dimension {}, which no values change", most[d], d));
    }
    if (++below > 1) {
      return refuse(
          fmt::format("one dimension at most below the bound [{}]", fmt::join(most, ", ")));
    }
  }
  return bound.view(real, bound.strides(), 0);
}

}  // namespace bp
