// SPDX-License-Identifier: Apache-2.0
//
// A device's answer becomes the core's: copied, masked, and refused where a group could not be made
// by it. Rows may be of any newer size, so they are read by their stride.
#include "core/device/collective_caps.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "core/base/dtype.hpp"
#include "core/plugin/foreign.hpp"
#include "core/plugin/loader.hpp"

namespace bp {
namespace {

struct KindRow {
  std::string_view required_name;  // empty: of kinds that a device may lack
  bool reduces;
};

constexpr std::array<KindRow, BP_COLLECTIVE_ALL_TO_ALL + 1> kKinds = {{
    {"all_reduce", true},
    {"all_gather", false},
    {"reduce_scatter", true},
    {"broadcast", false},
    {"send", false},
    {"recv", false},
    {"", true},
    {"", false},
    {"", false},
    {"", false},
}};

constexpr uint64_t kMostDomainBytes = 4096;
constexpr uint32_t kMostRows = 1024;
constexpr uint64_t kKnownReductions = (BP_REDUCTION_BIT(BP_REDUCTION_AVG) << 1) - 1;

Status check_sizes(std::string_view owner, const bp_collective_caps& caps) {
  if (caps.domain == nullptr || caps.domain_bytes == 0 || caps.domain_bytes > kMostDomainBytes) {
    return fail(BP_INTERNAL, "{}: collective_caps: expected a domain of 1 to {} bytes, found {}",
                owner, kMostDomainBytes, caps.domain == nullptr ? 0 : caps.domain_bytes);
  }
  if (caps.uid_bytes == 0 || caps.uid_bytes > BP_UID_BYTES_MAX) {
    return fail(BP_INTERNAL, "{}: collective_caps: expected uid_bytes from 1 to {}, found {}",
                owner, BP_UID_BYTES_MAX, caps.uid_bytes);
  }
  const uint32_t stride = caps.row_stride_bytes;
  if (caps.rows == nullptr || !is_aligned(caps.rows) || caps.row_count == 0 ||
      caps.row_count > kMostRows || stride < kRequiredBytes<bp_collective_row> ||
      stride % alignof(bp_collective_row) != 0 || stride > 65536) {
    return fail(BP_INTERNAL,
                "{}: collective_caps: expected 1 to {} rows, found {} with a stride of {} bytes at "
                "{}",
                owner, kMostRows, caps.row_count, stride, fmt::ptr(caps.rows));
  }
  return {};
}

/// False: the row has nothing that this core knows.
bool add_row(const bp_collective_row& theirs, std::vector<CollectiveRow>* out) {
  if (theirs.kind >= kKinds.size()) return false;
  CollectiveRow row;
  row.kind = theirs.kind;
  row.dtypes = theirs.dtypes & kKnownDtypes;
  row.reductions = kKinds[theirs.kind].reduces ? theirs.reductions & kKnownReductions : 0;
  row.is_deterministic = (theirs.flags & BP_ROW_DETERMINISTIC_BIT) != 0;
  if (row.dtypes == 0 || (kKinds[theirs.kind].reduces && row.reductions == 0)) return false;
  out->push_back(row);
  return true;
}

Status read_rows(std::string_view owner, const bp_collective_caps& caps, CollectiveCaps* out) {
  uint64_t known_kinds = 0;
  const auto* at = reinterpret_cast<const std::byte*>(caps.rows);
  for (uint32_t i = 0; i < caps.row_count; ++i, at += caps.row_stride_bytes) {
    const auto* const theirs = reinterpret_cast<const bp_collective_row*>(at);
    bp_collective_row row{};
    const std::string what = fmt::format("{}: collective_caps: row {}", owner, i);
    BP_TRY(copy_versioned(what, theirs, kRequiredBytes<bp_collective_row>, &row));
    if (theirs->struct_size > caps.row_stride_bytes) {
      return fail(BP_INTERNAL, "{}: struct_size {} is above the stride of {} bytes", what,
                  theirs->struct_size, caps.row_stride_bytes);
    }
    if (add_row(row, &out->rows)) known_kinds |= uint64_t{1} << row.kind;
  }
  std::vector<std::string_view> missing;
  for (uint32_t kind = 0; kind < kKinds.size(); ++kind) {
    const bool is_there = (known_kinds >> kind & 1) != 0;
    const std::string_view name = kKinds[kind].required_name;
    if (!name.empty() && !is_there) missing.push_back(name);
  }
  if (missing.empty()) return {};
  return fail(BP_INTERNAL, "{}: collective_caps: no row has the required kinds {}", owner,
              fmt::join(missing, ", "));
}

}  // namespace

bool CollectiveCaps::has(uint32_t kind, uint32_t dtype, uint32_t reduction,
                         bool deterministic) const {
  if (dtype >= 64 || reduction >= 64) return false;
  return std::any_of(rows.begin(), rows.end(), [&](const CollectiveRow& row) {
    const bool reduces = collective_reduces(kind);
    return row.kind == kind && (row.dtypes & BP_DTYPE_BIT(dtype)) != 0 &&
           (!reduces || (row.reductions & BP_REDUCTION_BIT(reduction)) != 0) &&
           (!reduces || !deterministic || row.is_deterministic);
  });
}

bool collective_reduces(uint32_t kind) { return kind < kKinds.size() && kKinds[kind].reduces; }

Result<CollectiveCaps> check_collective_caps(std::string_view owner,
                                             const bp_collective_caps& caps) {
  BP_TRY(check_sizes(owner, caps));
  CollectiveCaps own;
  own.flags = caps.flags & (BP_CAPS_SHARED_DEVICE_BIT | BP_CAPS_CONCURRENT_BIT |
                            BP_CAPS_CAPTURE_BIT | BP_CAPS_NAN_BIT);
  own.domain.assign(static_cast<const char*>(caps.domain), caps.domain_bytes);
  own.uid_bytes = caps.uid_bytes;
  own.uid_count_max = std::max(caps.uid_count_max, uint32_t{1});
  own.rank_count_max = caps.rank_count_max;
  BP_TRY(read_rows(owner, caps, &own));
  return own;
}

Result<std::optional<CollectiveCaps>> ask_collective_caps(const LoadedPlugin& plugin,
                                                          const DeviceTable& device) {
  using Answer = std::optional<CollectiveCaps>;
  const bool is_usable = device.collective.collective_caps != nullptr &&
                         (device.props.flags & BP_DEVICE_CONCURRENT_BIT) != 0 &&
                         device.has_native(BP_FEATURE_ASYNC_BIT);
  if (!is_usable) return Answer();
  bp_collective_caps caps{};
  caps.struct_size = sizeof(caps);
  const bp_status code = device.collective_caps(&caps);
  if (code == BP_UNSUPPORTED) return Answer();
  if (code != BP_OK) {
    return plugin.host().to_status(code, device.gate->call_name(Slot::kCollectiveCaps));
  }
  BP_TRY_ASSIGN(CollectiveCaps own, check_collective_caps(device.gate->name(), caps));
  return Answer(std::move(own));
}

}  // namespace bp
