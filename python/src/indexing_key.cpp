// SPDX-License-Identifier: Apache-2.0
#include "indexing_key.hpp"

#include <string>

#include "asarray.hpp"
#include "operands.hpp"
#include "scalars.hpp"
#include "values.hpp"

namespace bp::python {
namespace {

enum class PartKind : uint8_t { kEllipsis, kNewAxis, kSlice, kInteger, kBool, kIntegers, kMask };

struct Part {
  PartKind kind;
  nb::object object;  // of kIntegers and kMask a tensor, of kBool and kInteger a number
};

constexpr const char* kExpected =
    "index: expected integers, slices, '...', None, bools, and arrays of integers or bools, found ";

[[noreturn]] void refuse(const std::string& found) { fail(PyExc_IndexError, kExpected + found); }

Part part_of_tensor(nb::object object) {
  const TensorObject& tensor = tensor_of(object);
  const bool is_scalar = tensor.sizes().empty();
  switch (tensor.dtype().kind) {
    case Kind::kBool:
      return {is_scalar ? PartKind::kBool : PartKind::kMask,
              is_scalar ? item_of(tensor) : std::move(object)};
    case Kind::kInt:
    case Kind::kUint:
      return {is_scalar ? PartKind::kInteger : PartKind::kIntegers,
              is_scalar ? item_of(tensor) : std::move(object)};
    default:
      refuse(std::string("a tensor of ") + tensor.dtype().name);
  }
}

/// An empty list has no dtype that says what it holds.
nb::object empty_integers(const TensorObject& empty, nb::handle device) {
  bpa_tensor* made = nullptr;
  check(bpa_tensor_create(empty.device().device.handle(), BP_DTYPE_I64, empty.info().sizes,
                          empty.info().rank, &made));
  return make_tensor(made, device);
}

/// Lists, and arrays of other libraries.
Part part_of_array(nb::handle object, const TensorObject& like) {
  AsarrayArgs args;
  args.function = "index";
  args.device = nb::borrow(like.device_object());
  args.moves_tensors = false;
  nb::object made = as_tensor(object, args);
  const TensorObject& tensor = tensor_of(made);
  if (is_plain_nested(object) && tensor.element_count() == 0) {
    made = empty_integers(tensor, like.device_object());
  }
  return part_of_tensor(std::move(made));
}

Part classify(nb::handle object, const TensorObject& like) {
  if (PyLong_CheckExact(object.ptr())) return {PartKind::kInteger, nb::borrow(object)};
  if (PySlice_Check(object.ptr())) return {PartKind::kSlice, nb::borrow(object)};
  if (object.is_none()) return {PartKind::kNewAxis, nb::borrow(object)};
  if (object.ptr() == Py_Ellipsis) return {PartKind::kEllipsis, nb::borrow(object)};
  if (is_tensor(object.ptr())) {
    const DeviceObject& device = tensor_of(object).device();
    const bool has_axes = !tensor_of(object).sizes().empty();
    if (has_axes && device.device.handle() != like.device().device.handle()) {
      fail_invalid("index: the tensor is on " + like.device().name + ", the index is on " +
                   device.name + "; move it with to_device()");
    }
    return part_of_tensor(nb::borrow(object));
  }
  if (is_plain_nested(object)) return part_of_array(object, like);
  nb::object number;
  Kind kind{};
  if (take_number(object.ptr(), number, kind)) {
    if (kind == Kind::kBool) return {PartKind::kBool, std::move(number)};
    if (kind != Kind::kInt) refuse(name_of_type(object));
    return {PartKind::kInteger, std::move(number)};
  }
  if (nb::hasattr(object, "shape")) return part_of_array(object, like);
  if (!PyIndex_Check(object.ptr())) refuse(name_of_type(object));
  return {PartKind::kInteger, nb::borrow(object)};
}

/// Works out the view, part by part of the key.
class Selector {
 public:
  explicit Selector(const TensorObject& tensor) : tensor_(tensor) {}

  Selection select(nb::handle key) {
    std::vector<Part> parts;
    if (nb::isinstance<nb::tuple>(key)) {
      for (nb::handle part : nb::borrow<nb::tuple>(key)) parts.push_back(classify(part, tensor_));
    } else {
      parts.push_back(classify(key, tensor_));
    }
    const size_t skipped = count_skipped(parts);
    bool is_expanded = false;
    for (const Part& part : parts) {
      note_neighbours(part.kind);
      if (part.kind == PartKind::kEllipsis) {
        keep_axes(skipped);
        is_expanded = true;
      } else {
        select_one(part);
      }
    }
    if (!is_expanded) keep_axes(skipped);
    return std::move(selection_);
  }

 private:
  /// The axes that the key does not name, where an Ellipsis stands or at the end.
  size_t count_skipped(const std::vector<Part>& parts) const {
    size_t named = 0;
    size_t ellipses = 0;
    for (const Part& part : parts) {
      if (part.kind == PartKind::kEllipsis) {
        ++ellipses;
      } else if (part.kind == PartKind::kMask) {
        named += tensor_of(part.object).sizes().size();
      } else if (part.kind != PartKind::kNewAxis && part.kind != PartKind::kBool) {
        ++named;
      }
    }
    if (ellipses > 1) fail(PyExc_IndexError, "index: more than one '...'");
    const size_t rank = tensor_.sizes().size();
    if (named > rank) {
      fail(PyExc_IndexError, "index: " + std::to_string(named) + " indices for a tensor of " +
                                 std::to_string(rank) + " dimensions");
    }
    return rank - named;
  }

  /// Follows whether the indices by values stand side by side.
  void note_neighbours(PartKind kind) {
    if (kind < PartKind::kInteger) {
      if (run_ == Run::kGoing) run_ = Run::kEnded;
      return;
    }
    if (run_ == Run::kNone) {
      selection_.place = kept_count_;
      run_ = Run::kGoing;
    } else if (run_ == Run::kEnded) {
      selection_.place = 0;
    }
  }

  void keep_axes(size_t count) {
    for (size_t i = 0; i < count; ++i) keep_axis();
    kept_count_ += count;
  }

  void keep_axis() {
    keep(tensor_.sizes()[axis_], tensor_.strides()[axis_]);
    ++axis_;
  }

  void keep(int64_t size, int64_t stride) {
    selection_.sizes.push_back(size);
    selection_.strides.push_back(stride);
  }

  void select_one(const Part& part) {
    switch (part.kind) {
      case PartKind::kInteger:
        return select_integer(part.object);
      case PartKind::kSlice:
        ++kept_count_;
        return select_slice(part.object);
      case PartKind::kBool:
        return choose({.tensor = {}, .truth = part.object.ptr() == Py_True});
      case PartKind::kIntegers:
        return choose({.tensor = part.object, .dim_count = 1});
      case PartKind::kMask:
        check_mask(tensor_of(part.object));
        return choose({.tensor = part.object,
                       .is_mask = true,
                       .dim_count = tensor_of(part.object).sizes().size()});
      default:
        ++kept_count_;
        return keep(1, 0);
    }
  }

  void choose(Chosen chosen) {
    chosen.first_dim = selection_.sizes.size();
    chosen.axis = axis_;
    for (size_t i = 0; i < chosen.dim_count; ++i) keep_axis();
    selection_.chosen.push_back(std::move(chosen));
  }

  /// A size of 0 chooses nothing, whatever the axis has: NumPy's rule, and the standard's.
  void check_mask(const TensorObject& mask) const {
    for (size_t i = 0; i < mask.sizes().size(); ++i) {
      const int64_t expected = tensor_.sizes()[axis_ + i];
      if (mask.sizes()[i] == expected || mask.sizes()[i] == 0) continue;
      fail(PyExc_IndexError, "index: the mask has the shape " + shape_text(mask.sizes()) +
                                 ", and axis " + std::to_string(axis_ + i) + " has the size " +
                                 std::to_string(expected));
    }
  }

  void select_integer(nb::handle part) {
    const Py_ssize_t index = PyNumber_AsSsize_t(part.ptr(), PyExc_IndexError);
    if (index == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    const int64_t size = tensor_.sizes()[axis_];
    if (index < -size || index >= size) fail_out_of_range(std::to_string(index), axis_, size);
    selection_.offset += (index < 0 ? index + size : index) * tensor_.strides()[axis_];
    ++axis_;
  }

  void select_slice(nb::handle part) {
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    Py_ssize_t step = 0;
    if (PySlice_Unpack(part.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
    const auto size = static_cast<Py_ssize_t>(tensor_.sizes()[axis_]);
    const Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
    const int64_t stride = tensor_.strides()[axis_];
    if (count > 0) selection_.offset += start * stride;
    keep(count, count > 1 ? step * stride : stride);
    ++axis_;
  }

  enum class Run : uint8_t { kNone, kGoing, kEnded };

  const TensorObject& tensor_;
  Selection selection_;
  size_t axis_ = 0;
  size_t kept_count_ = 0;  // dimensions so far that no index by values takes the place of
  Run run_ = Run::kNone;
};

}  // namespace

Selection select(const TensorObject& tensor, nb::handle key) {
  return Selector(tensor).select(key);
}

void fail_out_of_range(const std::string& index, size_t axis, int64_t size) {
  fail(PyExc_IndexError, "index " + index + " is out of range for axis " + std::to_string(axis) +
                             " of size " + std::to_string(size));
}

}  // namespace bp::python
