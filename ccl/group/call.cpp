// SPDX-License-Identifier: Apache-2.0
//
// See call.hpp.
#include "ccl/group/call.hpp"

#include <algorithm>
#include <string>

#include "core/base/dtype.hpp"
#include "core/runtime/device.hpp"

namespace bp::ccl {
namespace {

Status refuse(const Call& call, const std::string& what) {
  return Status(BP_INVALID_ARGUMENT, std::string(kind_info(call.kind).name) + ": " + what);
}

bool takes(Extent extent, bool is_root) {
  if (extent == Extent::kCountAtRoot || extent == Extent::kBlocksAtRoot) return is_root;
  return extent != Extent::kNone;
}

bool has_blocks(Extent extent) {
  return extent == Extent::kBlocks || extent == Extent::kBlocksAtRoot;
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
    return refuse(call, std::string(name) + " is " + tensor.describe() + ", expected a tensor on " +
                            device.name());
  }
  if (dtype_bits(tensor.dtype()) % 8 != 0) {
    return refuse(call, std::string(name) + " is " + tensor.describe() +
                            ", whose elements are no whole bytes");
  }
  return {};
}

/// The count of the operation, from whichever tensor is there.
Status find_count(const Call& call, RankPlace place, CheckedCall* out) {
  const KindInfo& kind = kind_info(call.kind);
  const auto count_of = [&](const Ref<Tensor>& tensor, Extent extent) -> Result<uint64_t> {
    const auto elements = static_cast<uint64_t>(tensor->element_count());
    if (!has_blocks(extent)) return elements;
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
  if (out->send && out->recv) {
    if (send_count != recv_count) {
      return refuse(call, "send is " + out->send->describe() + " and recv is " +
                              out->recv->describe() + ", which do not fit in a group of " +
                              std::to_string(place.rank_count));
    }
    if (out->send->dtype() != out->recv->dtype()) {
      return refuse(call, "send is " + out->send->describe() + " and recv is " +
                              out->recv->describe() + ", of two dtypes");
    }
  }
  out->operation.count = out->send ? send_count : recv_count;
  if (out->send) out->operation.dtype = out->send->dtype();
  if (out->recv) out->operation.dtype = out->recv->dtype();
  return {};
}

/// The bytes between the first and the last element.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

Range range_of(const Tensor& tensor) {
  const uint64_t element = dtype_bits(tensor.dtype()) / 8;
  auto begin = static_cast<int64_t>(tensor.offset_bytes() / element);
  int64_t end = begin + 1;
  for (size_t i = 0; i < tensor.sizes().size(); ++i) {
    const int64_t reach = (tensor.sizes()[i] - 1) * tensor.strides()[i];
    (reach < 0 ? begin : end) += reach;
  }
  return {static_cast<uint64_t>(begin) * element, static_cast<uint64_t>(end) * element};
}

/// Where the two may be one memory, and whether they are.
Status check_overlap(const Call& call, RankPlace place, CheckedCall* out) {
  if (!out->send || !out->recv || out->operation.count == 0) return {};
  if (&out->send->storage() != &out->recv->storage()) return {};
  const Range send = range_of(*out->send);
  const Range recv = range_of(*out->recv);
  if (send.end <= recv.begin || recv.end <= send.begin) return {};
  const uint64_t block = out->operation.count * (dtype_bits(out->operation.dtype) / 8);
  const KindInfo& kind = kind_info(call.kind);
  const bool send_is_larger = has_blocks(kind.send);
  const bool recv_is_larger = has_blocks(kind.recv);
  const uint64_t send_own = send.begin + (send_is_larger ? place.rank * block : 0);
  const uint64_t recv_own = recv.begin + (recv_is_larger ? place.rank * block : 0);
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

Result<CheckedCall> check_call(const Call& call, RankPlace place, const Device& device) {
  CheckedCall checked;
  checked.operation.kind = call.kind;
  checked.operation.reduction = kind_info(call.kind).reduces ? call.reduction : Reduction::kSum;
  checked.operation.root = call.root;
  checked.operation.is_deterministic = call.is_deterministic;
  BP_TRY(choose_tensors(call, place, &checked));
  if (checked.send) BP_TRY(check_tensor(call, "send", *checked.send, device));
  if (checked.recv) BP_TRY(check_tensor(call, "recv", *checked.recv, device));
  BP_TRY(find_count(call, place, &checked));
  BP_TRY(check_operation(checked.operation, place));
  BP_TRY(check_overlap(call, place, &checked));
  if (checked.recv && !checked.recv->contiguous()) {
    return refuse(call, "recv is " + checked.recv->describe() +
                            " with strides, expected a "
                            "contiguous tensor");
  }
  const uint64_t element =
      checked.operation.dtype == BP_DTYPE_NONE ? 0 : dtype_bits(checked.operation.dtype) / 8;
  if (checked.send) checked.send_bytes = send_count(checked.operation, place) * element;
  if (checked.recv) checked.recv_bytes = recv_count(checked.operation, place) * element;
  return checked;
}

}  // namespace bp::ccl
