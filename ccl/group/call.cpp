// SPDX-License-Identifier: Apache-2.0
//
// See call.hpp.
#include "ccl/group/call.hpp"

#include <algorithm>
#include <string>

#include "core/base/dtype.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/memory_range.hpp"

namespace bp::ccl {
namespace {

Status refuse(const Call& call, const std::string& what) {
  const char* const form = call.counts.empty() && call.send_counts.empty() ? ": " : "_v: ";
  return Status(BP_INVALID_ARGUMENT, std::string(kind_info(call.kind).name) + form + what);
}

bool takes(Extent extent, bool is_root) {
  if (extent == Extent::kCountAtRoot || extent == Extent::kBlocksAtRoot) return is_root;
  return extent != Extent::kNone;
}

/// The tensors that this rank uses, by what its kind says.
Status choose_tensors(const Call& call, RankPlace place, CheckedCall* out) {
  const KindInfo& kind = kind_info(call.kind);
  const bool is_root = place.rank == call.root;
  const Ref<Tensor>& send = call.kind == Kind::kBroadcast && !call.send ? call.recv : call.send;
  const bool sends = takes(kind.send, is_root);
  const bool receives = takes(kind.recv, is_root);
  if (sends && !send) return refuse(call, "send is missing");
  if (receives && !call.recv) return refuse(call, "recv is missing");
  // Where a kind needs one of them at the root only, giving the same one everywhere is no mistake.
  if (!sends && call.send && call.send.get() != call.recv.get()) {
    return refuse(call, "expected no send on rank " + std::to_string(place.rank) + ", found " +
                            call.send->describe());
  }
  if (!receives && call.recv && call.recv.get() != call.send.get()) {
    return refuse(call, "expected no recv on rank " + std::to_string(place.rank) + ", found " +
                            call.recv->describe());
  }
  if (sends) out->send = send;
  if (receives) out->recv = call.recv;
  return {};
}

Status check_tensor(const Call& call, const char* name, const Tensor& tensor,
                    const Device& device) {
  if (tensor.device() != &device) {
    const bool is_other = tensor.device() != nullptr && tensor.device()->name() == device.name();
    return refuse(call, std::string(name) + " is " + tensor.describe() +
                            (is_other ? " of another Runtime" : "") + ", expected a tensor on " +
                            device.name());
  }
  if (dtype_bits(tensor.dtype()) % 8 != 0) {
    return refuse(call, std::string(name) + " is " + tensor.describe() +
                            ", whose elements are no whole bytes");
  }
  return {};
}

Status check_dtypes(const Call& call, CheckedCall* out) {
  if (out->send && out->recv && out->send->dtype() != out->recv->dtype()) {
    return refuse(call, "send is " + out->send->describe() + " and recv is " +
                            out->recv->describe() + ", of two dtypes");
  }
  if (out->send) out->operation.dtype = out->send->dtype();
  if (out->recv) out->operation.dtype = out->recv->dtype();
  return {};
}

/// The count of the operation, from whichever tensor is there.
Status find_count(const Call& call, RankPlace place, CheckedCall* out) {
  const KindInfo& kind = kind_info(call.kind);
  const auto count_of = [&](const Ref<Tensor>& tensor, Extent extent) -> Result<uint64_t> {
    const auto elements = static_cast<uint64_t>(tensor->element_count());
    if (!is_of_blocks(extent)) return elements;
    if (elements % place.rank_count == 0) return elements / place.rank_count;
    return refuse(call, "expected a block for each of " + std::to_string(place.rank_count) +
                            " ranks, found " + tensor->describe());
  };
  uint64_t send_count = 0;
  uint64_t recv_count = 0;
  if (out->send) {
    BP_TRY_ASSIGN(send_count, count_of(out->send, kind.send));
  }
  if (out->recv) {
    BP_TRY_ASSIGN(recv_count, count_of(out->recv, kind.recv));
  }
  if (out->send && out->recv && send_count != recv_count) {
    return refuse(call, "send is " + out->send->describe() + " and recv is " +
                            out->recv->describe() + ", which do not fit in a group of " +
                            std::to_string(place.rank_count));
  }
  out->operation.count = out->send ? send_count : recv_count;
  return {};
}

Status check_counts(const Call& call, RankPlace place) {
  const bool is_all_to_all = call.kind == Kind::kAllToAll;
  if (!has_blocks(call.kind)) return refuse(call, "expected no counts, this kind has no blocks");
  if (!is_all_to_all && !call.send_counts.empty()) {
    return refuse(call, "expected no send_counts, which all_to_all alone has");
  }
  const auto check = [&](const char* name, const std::vector<uint64_t>& counts) -> Status {
    if (counts.size() == place.rank_count) return {};
    return refuse(call, "expected " + std::to_string(place.rank_count) + " " + name +
                            ", one for each rank, found " + std::to_string(counts.size()));
  };
  BP_TRY(check("counts", call.counts));
  if (!is_all_to_all) return {};
  BP_TRY(check("send_counts", call.send_counts));
  if (call.send_counts[place.rank] == call.counts[place.rank]) return {};
  return refuse(call, "rank " + std::to_string(place.rank) + " sends itself " +
                          std::to_string(call.send_counts[place.rank]) +
                          " elements, and receives " + std::to_string(call.counts[place.rank]));
}

/// Not 0, nor kOwnBlocks.
uint64_t digest_of(const std::vector<uint64_t>& counts) {
  uint64_t digest = 0;
  for (const uint64_t count : counts) {
    digest = (digest ^ count) * 0x9e3779b97f4a7c15;
    digest ^= digest >> 32;
  }
  return digest | 2;
}

/// What is said of sizes holds for the tensors that are there.
Status fit_blocks(const Call& call, RankPlace place, const Blocks& blocks, CheckedCall* out) {
  const KindInfo& kind = kind_info(call.kind);
  const auto check = [&](const char* name, const Ref<Tensor>& tensor, Extent extent,
                         const BlockLayout& layout) -> Status {
    const uint64_t expected = is_of_blocks(extent) ? layout.end() : layout.count(place.rank);
    if (!tensor || static_cast<uint64_t>(tensor->element_count()) == expected) return {};
    return refuse(call, std::string(name) + " is " + tensor->describe() + ", expected " +
                            std::to_string(expected) + " elements by the counts");
  };
  const bool is_all_to_all = call.kind == Kind::kAllToAll;
  BP_TRY(check("send", out->send, kind.send, is_all_to_all ? blocks.send : blocks.all));
  return check("recv", out->recv, kind.recv, blocks.all);
}

/// Of blocks that differ in size. Where all have one size after all, and all ranks know it, it is
/// the operation as it always is.
Status find_blocks(const Call& call, RankPlace place, CheckedCall* out) {
  BP_TRY(check_counts(call, place));
  const auto lay_out = [&](const std::vector<uint64_t>& counts) -> Result<BlockLayout> {
    auto layout = BlockLayout::packed(counts);
    if (!layout.ok()) return refuse(call, layout.status().message());
    return layout;
  };
  auto blocks = std::make_shared<Blocks>();
  BP_TRY_ASSIGN(blocks->all, lay_out(call.counts));
  if (call.kind == Kind::kAllToAll) {
    BP_TRY_ASSIGN(blocks->send, lay_out(call.send_counts));
  }
  BP_TRY(fit_blocks(call, place, *blocks, out));
  if (call.kind == Kind::kAllToAll) {
    out->operation.blocks = kOwnBlocks;
  } else if (std::count(call.counts.begin(), call.counts.end(), call.counts[0]) ==
             static_cast<std::ptrdiff_t>(call.counts.size())) {
    out->operation.count = call.counts[0];
    return {};
  } else {
    out->operation.count = blocks->all.end();
    out->operation.blocks = digest_of(call.counts);
  }
  out->blocks = std::move(blocks);
  return {};
}

/// Where the two may be one memory, and whether they are.
Status check_overlap(const Call& call, RankPlace place, CheckedCall* out) {
  if (!out->send || !out->recv || !may_overlap(*out->send, *out->recv)) return {};
  const MemoryRange send = memory_range(*out->send);
  const MemoryRange recv = memory_range(*out->recv);
  const uint64_t own =
      out->blocks ? out->blocks->all.first(place.rank) : place.rank * out->operation.count;
  const uint64_t own_bytes = own * (dtype_bits(out->operation.dtype) / 8);
  const KindInfo& kind = kind_info(call.kind);
  const bool send_is_larger = is_of_blocks(kind.send);
  const bool recv_is_larger = is_of_blocks(kind.recv);
  const uint64_t send_own = send.begin + (send_is_larger ? own_bytes : 0);
  const uint64_t recv_own = recv.begin + (recv_is_larger ? own_bytes : 0);
  const bool fits = send_own == recv_own && !(send_is_larger && recv_is_larger) &&
                    out->send->contiguous() && out->recv->contiguous();
  if (!fits) {
    const bool is_never = send_is_larger && recv_is_larger;
    const char* const or_else = send_is_larger || recv_is_larger
                                    ? ", or the smaller one as this rank's block of the larger one"
                                    : ", or the same memory";
    return refuse(call,
                  std::string("send and recv overlap: expected apart") + (is_never ? "" : or_else));
  }
  out->is_in_place = true;
  return {};
}

}  // namespace

Status check_call(const Call& call, RankPlace place, const Device& device, CheckedCall* out) {
  CheckedCall& checked = *out;
  checked.operation.kind = call.kind;
  checked.operation.reduction = kind_info(call.kind).reduces ? call.reduction : Reduction::kSum;
  checked.operation.root = call.root;
  checked.operation.is_deterministic = call.is_deterministic;
  BP_TRY(choose_tensors(call, place, &checked));
  if (checked.send) BP_TRY(check_tensor(call, "send", *checked.send, device));
  if (checked.recv) BP_TRY(check_tensor(call, "recv", *checked.recv, device));
  // The root of a broadcast reads what it sends where that lies.
  const bool is_written = call.kind != Kind::kBroadcast || place.rank != call.root ||
                          checked.send.get() != checked.recv.get();
  if (checked.recv && checked.recv->is_read_only() && is_written) {
    return refuse(call, "recv is read-only: " + checked.recv->describe());
  }
  BP_TRY(check_dtypes(call, &checked));
  const bool has_counts = !call.counts.empty() || !call.send_counts.empty();
  BP_TRY(has_counts ? find_blocks(call, place, &checked) : find_count(call, place, &checked));
  BP_TRY(check_operation(checked.operation, place));
  BP_TRY(check_overlap(call, place, &checked));
  if (checked.recv && !checked.recv->contiguous()) {
    return refuse(call, "recv is " + checked.recv->describe() +
                            " with strides, expected a "
                            "contiguous tensor");
  }
  const auto bytes_of = [](const Ref<Tensor>& tensor) -> uint64_t {
    return static_cast<uint64_t>(tensor->element_count()) * (dtype_bits(tensor->dtype()) / 8);
  };
  if (checked.send) checked.send_bytes = bytes_of(checked.send);
  if (checked.recv) checked.recv_bytes = bytes_of(checked.recv);
  return {};
}

}  // namespace bp::ccl
