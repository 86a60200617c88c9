// SPDX-License-Identifier: Apache-2.0
//
// Views of the C API, and writing into them. What a view may touch is checked here, once.
#include "core/api/handles.hpp"
#include "core/base/dtype.hpp"
#include "core/dispatch/assign.hpp"
#include "core/dispatch/call.hpp"

namespace bp {
namespace {

struct ViewRequest {
  Dims sizes;
  Dims strides;
  int64_t offset = 0;
};

Result<ViewRequest> read_view(const int64_t* sizes, const int64_t* strides, uint32_t rank,
                              int64_t offset) {
  if (rank > BP_MAX_RANK) {
    return bad_argument(
        "rank", "is " + std::to_string(rank) + ", expected at most " + std::to_string(BP_MAX_RANK));
  }
  if (rank > 0) BP_TRY(check_pointer(sizes, "sizes"));
  ViewRequest view{Dims(std::span(sizes, rank)), {}, offset};
  const bool is_negative = std::ranges::any_of(view.sizes, [](int64_t size) { return size < 0; });
  if (is_negative || !checked_element_count(view.sizes)) {
    return bad_argument("sizes",
                        "are " + numbers_text(view.sizes) + ": negative or too large together");
  }
  view.strides = contiguous_strides(view.sizes);
  if (strides == nullptr || element_count(view.sizes) == 0) return view;
  // Where no step is ever taken the given stride means nothing, and may be any number.
  for (size_t i = 0; i < rank; ++i) {
    if (view.sizes[i] > 1) view.strides[i] = strides[i];
  }
  return view;
}

/// By 128-bit integers: foreign strides overflow anything smaller.
Status check_inside(const Tensor& base, const ViewRequest& view) {
  __extension__ using Wide = __int128;
  const ElementRange all = element_range(base.sizes(), base.strides());
  const bool is_empty = element_count(view.sizes) == 0;
  Wide first = view.offset;
  Wide last = view.offset;
  for (size_t i = 0; i < view.sizes.size() && !is_empty; ++i) {
    const Wide reach = Wide{view.sizes[i] - 1} * view.strides[i];
    (reach < 0 ? first : last) += reach;
  }
  const Wide end = Wide{all.lowest} + all.count;
  if (first >= all.lowest && (is_empty ? last <= end : last < end)) return {};
  return bad_argument("sizes",
                      numbers_text(view.sizes) + " with strides " + numbers_text(view.strides) +
                          " from element " + std::to_string(view.offset) + " leave the elements " +
                          std::to_string(all.lowest) + " to " +
                          std::to_string(all.lowest + all.count - 1) + " of " + base.describe());
}

Result<Ref<Tensor>> make_view(const Tensor& base, const ViewRequest& view) {
  BP_TRY(check_inside(base, view));
  const uint32_t bits = dtype_bits(base.dtype());
  const bool is_plain = is_contiguous(view.sizes, view.strides) && view.offset * bits % 8 == 0;
  if (bits < 8 && !is_plain) {
    return bad_argument("strides",
                        "of a dtype below one byte must be contiguous, from a whole byte on");
  }
  return base.view(view.sizes, view.strides, view.offset);
}

Status check_and_assign(Stream* given, Tensor* target, Tensor* source) {
  if (target->device() == nullptr) {
    return Status(BP_UNSUPPORTED, "argument target is " + target->describe() +
                                      ": write its memory yourself, or move it to a device first");
  }
  BP_TRY(check_open(*target));
  BP_TRY(check_open(*source));
  Device& device = *target->device();
  Stream& stream = given != nullptr ? *given : device.default_stream();
  if (&stream.device() != &device) {
    return bad_argument("stream", "is of " + stream.device().name() + ", expected " +
                                      device.name() + ", where target is");
  }
  if (source->device() != nullptr && &source->device()->runtime() != &device.runtime()) {
    return bad_argument("source", "is on a device of another runtime");
  }
  return assign(Ref<Tensor>(source), Ref<Tensor>(target), stream);
}

}  // namespace
}  // namespace bp

using bp::guarded;
using bp::object_of;
using bp::Status;

bpa_status bpa_tensor_view(bpa_tensor* tensor, const int64_t* sizes, const int64_t* strides,
                           uint32_t rank, int64_t offset, uint32_t flags, bpa_tensor** out_view) {
  return guarded(out_view, 1, [&]() -> Status {
    BP_TRY(bp::check_pointer(out_view, "out_view"));
    BP_TRY_ASSIGN(const bp::Tensor* base, object_of(tensor, "tensor"));
    BP_TRY(bp::check_open(*base));
    BP_TRY(bp::check_flags(flags, BPA_TENSOR_READ_ONLY_BIT, "flags"));
    BP_TRY_ASSIGN(const bp::ViewRequest request, bp::read_view(sizes, strides, rank, offset));
    BP_TRY_ASSIGN(bp::Ref<bp::Tensor> view, bp::make_view(*base, request));
    if ((flags & BPA_TENSOR_READ_ONLY_BIT) != 0) view->forbid_writes();
    return bp::give_tensor(std::move(view), out_view);
  });
}

bpa_status bpa_tensor_assign(bpa_stream* stream, bpa_tensor* target, const bpa_tensor* source) {
  return guarded([&]() -> Status {
    bp::Stream* queue = nullptr;
    if (stream != nullptr) {
      BP_TRY_ASSIGN(bp::ApiStream * found, object_of(stream, "stream"));
      queue = &found->stream;
    }
    BP_TRY_ASSIGN(bp::Tensor * into, object_of(target, "target"));
    BP_TRY_ASSIGN(bp::Tensor * from, object_of(source, "source"));
    return bp::check_and_assign(queue, into, from);
  });
}
