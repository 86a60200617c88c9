// SPDX-License-Identifier: Apache-2.0
//
// The chosen dimensions come first: the view, its axes in that order, is `front`, and a row of
// `indices` is a position along them. gather_nd and scatter_nd do the rest on the device.
//
// What is read on the host: the number of elements that a mask chooses, which shapes the result,
// and the values of integers, since an index that is out of range is an IndexError here and now.
#include "indexing_values.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "backplane/ops.hpp"
#include "streams.hpp"

namespace bp::python {
namespace {

using Sizes = std::vector<int64_t>;

int64_t product(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

bp::Tensor tensor_from(const TensorObject& tensor) {
  bpa_tensor_retain(tensor.handle());
  return bp::Tensor::adopt(tensor.handle());
}

nb::object python_tensor(const bp::Tensor& tensor, nb::handle device) {
  bpa_tensor_retain(tensor.handle());
  return make_tensor(tensor.handle(), device);
}

/// Throws IndexError for the first value that no element of the axis has.
template <class T>
void check_range_of(std::span<const char> bytes, size_t axis, int64_t size) {
  const auto* values = reinterpret_cast<const T*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    const T value = values[i];
    if (std::cmp_less(value, size) && std::cmp_greater_equal(value, -size)) continue;
    fail_out_of_range(std::to_string(value), axis, size);
  }
}

void check_range(const TensorObject& indices, size_t axis, int64_t size) {
  const std::unique_ptr<char[]> bytes = read_values(indices);
  const std::span<const char> values(bytes.get(), indices.info().bytes);
  switch (indices.info().dtype) {
    case BP_DTYPE_I8:
      return check_range_of<int8_t>(values, axis, size);
    case BP_DTYPE_I16:
      return check_range_of<int16_t>(values, axis, size);
    case BP_DTYPE_I32:
      return check_range_of<int32_t>(values, axis, size);
    case BP_DTYPE_I64:
      return check_range_of<int64_t>(values, axis, size);
    case BP_DTYPE_U8:
      return check_range_of<uint8_t>(values, axis, size);
    case BP_DTYPE_U16:
      return check_range_of<uint16_t>(values, axis, size);
    case BP_DTYPE_U32:
      return check_range_of<uint32_t>(values, axis, size);
    default:
      return check_range_of<uint64_t>(values, axis, size);
  }
}

/// A view that repeats sizes of 1, and has further dimensions in front.
bp::Tensor repeated(const bp::Tensor& tensor, const Sizes& sizes) {
  const bpa_tensor_info info = tensor.info();
  Sizes strides(sizes.size(), 0);
  for (size_t i = 0; i < info.rank; ++i) {
    if (info.sizes[i] != 1) strides[sizes.size() - info.rank + i] = info.strides[i];
  }
  return tensor.view(sizes, strides);
}

/// NumPy's rule; false where it does not hold.
bool broadcast_into(Sizes& all, std::span<const int64_t> sizes) {
  if (sizes.size() > all.size()) all.insert(all.begin(), sizes.size() - all.size(), 1);
  int64_t* last = all.data() + all.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (last[i] == 1) last[i] = sizes[i];
    if (sizes[i] != 1 && sizes[i] != last[i]) return false;
  }
  return true;
}

/// The one that this thread's work on the device goes to; none is the default one.
Stream current_stream(const DeviceObject& device) {
  CurrentStream* current = t_current_stream;
  while (current != nullptr && current->device != device.device.handle()) current = current->outer;
  return current == nullptr ? Stream() : nb::inst_ptr<StreamObject>(current->object)->stream;
}

/// The dtype whose kernels move the values: of those that have none, one of the same bytes, or of
/// their parts.
uint32_t carrier_of(const Dtype& dtype) {
  if (dtype.code == BP_DTYPE_C64) return BP_DTYPE_I64;
  if (dtype.code == BP_DTYPE_C128) return BP_DTYPE_F64;
  const bool is_byte_float = dtype.kind == Kind::kFloat && dtype.item_bytes == 1;
  return is_byte_float ? uint32_t{BP_DTYPE_U8} : dtype.code;
}

/// A tensor and what is chosen of it, as the kernels see both.
struct Carried {
  Carried(const TensorObject& tensor, Selection chosen)
      : base(tensor_from(tensor)), selection(std::move(chosen)), dtype(tensor.dtype().code) {
    const uint32_t carrier = carrier_of(tensor.dtype());
    if (carrier == dtype) return;
    parts = tensor.dtype().item_bytes / dtype_row(carrier).item_bytes;
    if (parts > 1 && tensor.sizes().size() == BP_MAX_RANK) {
      fail_invalid(std::string("index: by masks and arrays ") + tensor.dtype().name +
                   " tensors have one dimension less than others, found " +
                   std::to_string(BP_MAX_RANK));
    }
    base = base.view_as(carrier);
    if (parts == 1) return;
    selection.offset *= parts;
    for (int64_t& stride : selection.strides) stride *= parts;
    selection.sizes.push_back(parts);
    selection.strides.push_back(1);
  }
  bp::Tensor as_carrier(const bp::Tensor& values) const {
    return base.dtype() == dtype ? values : values.view_as(base.dtype());
  }
  bp::Tensor as_given(const bp::Tensor& values) const {
    return base.dtype() == dtype ? values : values.view_as(dtype);
  }

  bp::Tensor base;
  Selection selection;
  uint32_t dtype;
  int64_t parts = 1;  // of an element, along a further, last dimension
};

class Chooser {
 public:
  Chooser(const Carried& carried, const DeviceObject& device)
      : base_(carried.base), selection_(carried.selection), device_(device) {
    const Selection& selection = selection_;
    stream_ = current_stream(device);
    std::vector<bool> is_chosen(selection.sizes.size(), false);
    for (const Chosen& chosen : selection.chosen) {
      for (size_t i = 0; i < chosen.dim_count; ++i) order_.push_back(chosen.first_dim + i);
      has_mask_ = has_mask_ || chosen.is_mask;
      if (chosen.tensor.is_valid()) {
        is_large_ = is_large_ || tensor_of(chosen.tensor).is_large();
      }
    }
    for (const size_t dim : order_) is_chosen[dim] = true;
    depth_ = order_.size();
    for (size_t i = 0; i < is_chosen.size(); ++i) {
      if (is_chosen[i]) continue;
      order_.push_back(i);
      rest_.push_back(selection.sizes[i]);
    }
    const uint64_t item_bytes = dtype_row(base_.dtype()).item_bytes;
    const auto bytes = static_cast<uint64_t>(product(selection.sizes)) * item_bytes;
    is_large_ = is_large_ || bytes >= kLargeBytes;
  }

  void check_ranges() const {
    for (const Chosen& chosen : selection_.chosen) {
      if (!chosen.tensor.is_valid() || chosen.is_mask) continue;
      check_range(tensor_of(chosen.tensor), chosen.axis, selection_.sizes[chosen.first_dim]);
    }
  }

  /// Whether the calls below take long enough to let go of the GIL.
  bool is_long() const {
    const bool is_at_once = device_.is_inline && stream_.handle() == nullptr;
    return is_at_once ? is_large_ : has_mask_;
  }

  /// False where the indices do not fit each other. Without Python from here on.
  bool prepare() {
    std::vector<bp::Tensor> parts;
    for (const Chosen& chosen : selection_.chosen) {
      if (!chosen.tensor.is_valid()) {
        const int64_t count = chosen.truth ? 1 : 0;
        if (!broadcast_into(shape_, {&count, 1})) return false;
        continue;
      }
      const bp::Tensor given = tensor_from(tensor_of(chosen.tensor));
      if (chosen.is_mask) {
        append_mask(bp::non_zero(given, stream_), parts);
      } else {
        parts.push_back(given);
      }
    }
    for (const bp::Tensor& part : parts) {
      const bpa_tensor_info info = part.info();
      if (!broadcast_into(shape_, {info.sizes, info.rank})) return false;
    }
    if (depth_ > 0 && !indices_) indices_ = joined(parts);
    return true;
  }

  bp::Tensor take() const {
    const bp::Tensor front = front_view();
    if (depth_ == 0) return in_place_order(copied(repeated(front, front_shape())));
    return in_place_order(depth_ == 1 && !is_rows_ ? bp::gather(front, indices_, {}, stream_)
                                                   : bp::gather_nd(front, indices_, {}, stream_));
  }

  /// The sizes of what is chosen.
  Sizes result_shape() const {
    Sizes sizes = rest_;
    sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(selection_.place), shape_.begin(),
                 shape_.end());
    return sizes;
  }

  /// `source` has the sizes of result_shape().
  void put(const bp::Tensor& source) const {
    if (product(result_shape()) == 0) return;
    const bp::Tensor front = front_view();
    const bp::Tensor updates = indices_first(source);
    if (depth_ == 0) return assign(front, with_rank_at_most(updates, rest_.size()));
    bp::Tensor rows = indices_;
    if (!is_rows_) {
      const bpa_tensor_info info = rows.info();
      rows = viewed_with(rows, {info.sizes, info.sizes + info.rank},
                         {info.strides, info.strides + info.rank});
    }
    assign(front, bp::scatter_nd(front, rows, updates, {}, stream_));
  }

  /// Where one value is for all that a single mask chooses: nothing needs to be counted. A mask of
  /// no elements has not the sizes that this takes.
  bool is_one_mask() const {
    return selection_.chosen.size() == 1 && has_mask_ &&
           product(tensor_of(selection_.chosen[0].tensor).sizes()) > 0;
  }
  /// `source` has the rank of the result, and the size 1 along the mask.
  void put_where(const bp::Tensor& source) const {
    const Chosen& chosen = selection_.chosen[0];
    const bp::Tensor whole = view();
    const size_t behind = selection_.sizes.size() - chosen.first_dim - chosen.dim_count;
    const bpa_tensor_info mask = tensor_of(chosen.tensor).info();
    Sizes sizes(mask.sizes, mask.sizes + mask.rank);
    Sizes strides(mask.strides, mask.strides + mask.rank);
    sizes.resize(sizes.size() + behind, 1);
    strides.resize(sizes.size(), 0);
    const bp::Tensor condition = tensor_from(tensor_of(chosen.tensor)).view(sizes, strides);

    const bpa_tensor_info info = source.info();
    sizes.assign(info.sizes, info.sizes + info.rank);
    strides.assign(info.strides, info.strides + info.rank);
    const auto place = static_cast<ptrdiff_t>(selection_.place);
    sizes.erase(sizes.begin() + place);
    strides.erase(strides.begin() + place);
    const auto first = static_cast<ptrdiff_t>(chosen.first_dim);
    sizes.insert(sizes.begin() + first, chosen.dim_count, 1);
    strides.insert(strides.begin() + first, chosen.dim_count, 0);
    assign(whole, bp::where(condition, source.view(sizes, strides), whole, stream_));
  }
  size_t place() const { return selection_.place; }
  size_t result_rank_of_one_mask() const { return rest_.size() + 1; }
  const Sizes& rest() const { return rest_; }

 private:
  /// Rows of positions [depth, count], as non_zero answers them.
  void append_mask(const bp::Tensor& found, std::vector<bp::Tensor>& parts) {
    const bpa_tensor_info info = found.info();
    const Sizes strides(info.strides, info.strides + info.rank);
    const int64_t depth = info.sizes[0];
    const int64_t count = info.sizes[1];
    if (selection_.chosen.size() == 1) {
      shape_ = {count};
      is_rows_ = true;
      indices_ = found.view({count, depth}, {strides[1], strides[0]});
      return;
    }
    for (int64_t i = 0; i < depth; ++i) {
      parts.push_back(found.view({count}, {strides[1]}, count == 0 ? 0 : i * strides[0]));
    }
  }

  /// Of several arrays the rows that they make together.
  bp::Tensor joined(std::vector<bp::Tensor>& parts) {
    const auto is_narrow = [](const bp::Tensor& part) { return part.dtype() == BP_DTYPE_I32; };
    const bool all_narrow = std::all_of(parts.begin(), parts.end(), is_narrow);
    for (bp::Tensor& part : parts) {
      if (!all_narrow && part.dtype() != BP_DTYPE_I64) part = bp::cast(part, BP_DTYPE_I64, stream_);
      part = repeated(part, shape_);
    }
    if (parts.size() == 1) return parts[0];
    is_rows_ = true;
    for (bp::Tensor& part : parts) {
      const bpa_tensor_info info = part.info();
      part = viewed_with(part, shape_, {info.strides, info.strides + info.rank});
    }
    return bp::concat(parts, static_cast<int64_t>(shape_.size()), stream_);
  }

  /// A view with a further dimension of size 1 at the end.
  static bp::Tensor viewed_with(const bp::Tensor& tensor, Sizes sizes, Sizes strides) {
    sizes.push_back(1);
    strides.push_back(1);
    return tensor.view(sizes, strides);
  }

  void assign(const bp::Tensor& target, const bp::Tensor& source) const {
    check(bpa_tensor_assign(stream_.handle(), target.handle(), source.handle()));
  }

  bp::Tensor copied(const bp::Tensor& tensor) const {
    const bp::Tensor made = bp::Tensor::create(device_.device, tensor.dtype(), tensor.sizes());
    assign(made, tensor);
    return made;
  }

  int64_t offset() const { return product(selection_.sizes) == 0 ? 0 : selection_.offset; }

  /// What the slices leave, in the tensor's order of axes.
  bp::Tensor view() const { return base_.view(selection_.sizes, selection_.strides, offset()); }

  bp::Tensor front_view() const {
    Sizes sizes;
    Sizes strides;
    for (const size_t dim : order_) {
      sizes.push_back(selection_.sizes[dim]);
      strides.push_back(selection_.strides[dim]);
    }
    return base_.view(sizes, strides, offset());
  }

  Sizes front_shape() const {
    Sizes sizes = shape_;
    sizes.insert(sizes.end(), rest_.begin(), rest_.end());
    return sizes;
  }

  /// Moves `count` dimensions from `from` to `to`.
  static bp::Tensor with_moved(const bp::Tensor& tensor, size_t from, size_t count, size_t to) {
    const bpa_tensor_info info = tensor.info();
    Sizes sizes(info.sizes, info.sizes + info.rank);
    Sizes strides(info.strides, info.strides + info.rank);
    for (Sizes* numbers : {&sizes, &strides}) {
      const auto begin = numbers->begin() + static_cast<ptrdiff_t>(std::min(from, to));
      const auto end = numbers->begin() + static_cast<ptrdiff_t>(std::max(from, to) + count);
      const auto middle =
          from < to ? begin + static_cast<ptrdiff_t>(count) : end - static_cast<ptrdiff_t>(count);
      std::rotate(begin, middle, end);
    }
    return tensor.view(sizes, strides);
  }

  bp::Tensor in_place_order(const bp::Tensor& made) const {
    if (selection_.place == 0) return made;
    return with_moved(made, 0, shape_.size(), selection_.place);
  }
  bp::Tensor indices_first(const bp::Tensor& source) const {
    if (selection_.place == 0) return source;
    return with_moved(source, selection_.place, shape_.size(), 0);
  }

  const bp::Tensor& base_;
  const Selection& selection_;
  const DeviceObject& device_;
  Stream stream_;
  std::vector<size_t> order_;  // dimensions of the view: the chosen ones, then the rest
  size_t depth_ = 0;           // how many are chosen
  Sizes rest_;                 // sizes of the others
  bool has_mask_ = false;
  bool is_large_ = false;
  Sizes shape_;         // of the indices together
  bp::Tensor indices_;  // of that shape; of rows with a last dimension more
  bool is_rows_ = false;
};

[[noreturn]] void fail_shapes(const Selection& selection) {
  std::string shapes;
  for (const Chosen& chosen : selection.chosen) {
    const bool is_array = chosen.tensor.is_valid();
    shapes += (shapes.empty() ? "" : ", ") +
              (is_array ? shape_text(tensor_of(chosen.tensor).sizes()) : std::string("a bool"));
  }
  fail(PyExc_IndexError, "index: arrays of these shapes do not fit each other: " + shapes);
}

[[noreturn]] void fail_source(std::span<const int64_t> found, std::span<const int64_t> expected) {
  fail_invalid("assignment: values of the shape " + shape_text(found) +
               " cannot be repeated to the chosen shape " + shape_text(expected));
}

/// False where the sizes do not fit.
bool can_repeat(const bp::Tensor& source, const Sizes& sizes) {
  const bpa_tensor_info info = source.info();
  if (info.rank > sizes.size()) return false;
  for (size_t i = 0; i < info.rank; ++i) {
    const int64_t wanted = sizes[sizes.size() - info.rank + i];
    if (info.sizes[i] != 1 && info.sizes[i] != wanted) return false;
  }
  return true;
}

}  // namespace

bp::Tensor with_rank_at_most(const bp::Tensor& source, size_t rank) {
  const bpa_tensor_info info = source.info();
  size_t first = 0;
  while (info.rank - first > rank && info.sizes[first] == 1) ++first;
  if (first == 0) return source;
  return source.view(std::span(info.sizes + first, info.rank - first),
                     std::span(info.strides + first, info.rank - first));
}

nb::object take_values(const TensorObject& tensor, const Selection& selection) {
  tensor.device().check_open();
  const Carried carried(tensor, selection);
  Chooser chooser(carried, tensor.device());
  chooser.check_ranges();
  bp::Tensor made;
  bool fits = false;
  {
    const Work work(tensor.device(), chooser.is_long());
    fits = chooser.prepare();
    if (fits) made = chooser.take();
  }
  if (!fits) fail_shapes(selection);
  return python_tensor(carried.as_given(made), tensor.device_object());
}

void put_values(const TensorObject& tensor, const Selection& selection, const bp::Tensor& values) {
  const Carried carried(tensor, selection);
  const bp::Tensor source = carried.as_carrier(values);
  Chooser chooser(carried, tensor.device());
  chooser.check_ranges();
  if (chooser.is_one_mask()) {
    Sizes sizes = chooser.rest();
    sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(chooser.place()), 1);
    const bp::Tensor fitted = with_rank_at_most(source, sizes.size());
    if (can_repeat(fitted, sizes)) {
      const Work work(tensor.device(), chooser.is_long());
      return chooser.put_where(repeated(fitted, sizes));
    }
  }
  bool fits = false;
  bool is_repeated = false;
  {
    const Work work(tensor.device(), chooser.is_long());
    fits = chooser.prepare();
    if (fits) {
      const Sizes sizes = chooser.result_shape();
      const bp::Tensor fitted = with_rank_at_most(source, sizes.size());
      is_repeated = can_repeat(fitted, sizes);
      if (is_repeated) chooser.put(repeated(fitted, sizes));
    }
  }
  if (!fits) fail_shapes(selection);
  if (is_repeated) return;
  Sizes expected = chooser.result_shape();
  if (carried.parts > 1) expected.pop_back();
  fail_source(values.sizes(), expected);
}

}  // namespace bp::python
