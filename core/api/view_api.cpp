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
  if (!checked_element_count(view.sizes)) {
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
  if (bits < 8) {
    const int64_t per_byte = 8 / bits;
    const int64_t end = view.offset + element_count(view.sizes);
    const bool is_whole = end % per_byte == 0 || end == base.element_count();
    if (!is_contiguous(view.sizes, view.strides) || view.offset % per_byte != 0 || !is_whole) {
      return bad_argument("strides",
                          "of a dtype below one byte must be contiguous, of whole bytes");
    }
  }
  return base.view(view.sizes, view.strides, view.offset);
}

/// The same bytes, where an element becomes `parts` of them along a further axis.
Result<ViewRequest> divided(const Tensor& base, int64_t parts) {
  ViewRequest view{base.sizes(), {}, 0};
  if (view.sizes.size() == BP_MAX_RANK) {
    return bad_argument("tensor", "is " + base.describe() + ": no dimension is left for the parts");
  }
  view.sizes.push_back(parts);
  if (!checked_element_count(view.sizes)) {
    return bad_argument("tensor", "is " + base.describe() + ": too many parts together");
  }
  view.strides = contiguous_strides(view.sizes);
  for (size_t i = 0; i < base.sizes().size() && base.element_count() > 0; ++i) {
    if (view.sizes[i] > 1) view.strides[i] = base.strides()[i] * parts;
  }
  return view;
}

/// The same bytes, where `parts` elements of the last axis become one.
Result<ViewRequest> joined(const Tensor& base, int64_t parts) {
  ViewRequest view{base.sizes(), {}, 0};
  const auto refuse = [&](const char* expected) {
    return bad_argument("tensor", "is " + base.describe() + " with strides " +
                                      numbers_text(base.strides()) + ", expected " + expected +
                                      std::to_string(parts));
  };
  const bool is_empty = base.element_count() == 0;
  if (view.sizes.empty() || view.sizes.back() != parts ||
      (!is_empty && base.strides().back() != 1)) {
    return refuse("a contiguous last axis of the parts of an element, ");
  }
  view.sizes.resize(view.sizes.size() - 1);
  view.strides = contiguous_strides(view.sizes);
  for (size_t i = 0; i < view.sizes.size() && !is_empty; ++i) {
    if (view.sizes[i] <= 1) continue;
    if (base.strides()[i] % parts != 0) return refuse("the others to be multiples of ");
    view.strides[i] = base.strides()[i] / parts;
  }
  return view;
}

Result<Ref<Tensor>> make_view_as(const Tensor& base, uint32_t dtype) {
  if (!is_dtype(dtype)) {
    return bad_argument("dtype", "is " + std::to_string(dtype) + ", which is none");
  }
  if (dtype == base.dtype()) return base.view(base.sizes(), base.strides(), 0);
  const uint32_t from = dtype_bits(base.dtype());
  const uint32_t to = dtype_bits(dtype);
  const bool is_bool = dtype == BP_DTYPE_BOOL || base.dtype() == BP_DTYPE_BOOL;
  if (is_bool || std::min(from, to) < 8 || std::max(from, to) % std::min(from, to) != 0) {
    return bad_argument("dtype", "is " + std::string(dtype_name(dtype)) +
                                     ", which cannot show the bytes of " + base.describe());
  }
  ViewRequest view{base.sizes(), base.strides(), 0};
  if (to < from) {
    BP_TRY_ASSIGN(view, divided(base, from / to));
  } else if (to > from) {
    BP_TRY_ASSIGN(view, joined(base, to / from));
  }
  const bool is_aligned = base.abi().offset_bytes % (to / 8) == 0;
  if (is_aligned) return base.view_as(dtype, view.sizes, view.strides, 0);
  return bad_argument("tensor", "is " + base.describe() + ", whose memory is not aligned to " +
                                    std::to_string(to / 8) + " bytes");
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

bpa_status bpa_tensor_view_as(bpa_tensor* tensor, uint32_t dtype, bpa_tensor** out_view) {
  return guarded(out_view, 1, [&]() -> Status {
    BP_TRY(bp::check_pointer(out_view, "out_view"));
    BP_TRY_ASSIGN(const bp::Tensor* base, object_of(tensor, "tensor"));
    BP_TRY(bp::check_open(*base));
    BP_TRY_ASSIGN(bp::Ref<bp::Tensor> view, bp::make_view_as(*base, dtype));
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
