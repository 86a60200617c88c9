// SPDX-License-Identifier: Apache-2.0
#include "asarray.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "dlpack.hpp"
#include "gil.hpp"
#include "scalars.hpp"

namespace bp::python {
namespace {

/// Reads nested lists: first what they hold and their shape, then the numbers.
class NestedReader {
 public:
  explicit NestedReader(const char* function) : function_(function) {}

  nb::object read(nb::handle object, const Dtype* dtype, nb::handle device) {
    visit(object, 0);
    if (dtype == nullptr) {
      dtype = &default_dtype(numbers_.empty() ? Kind::kFloat : kind_);
    }
    std::vector<char> values(numbers_.size() * dtype->item_bytes + 16);  // encode writes 16 at most
    for (size_t i = 0; i < numbers_.size(); ++i) {
      encode_number(numbers_[i], *dtype, values.data() + i * dtype->item_bytes);
    }
    return tensor_from_values(*dtype, sizes_, values.data(), device);
  }

 private:
  [[noreturn]] void refuse(PyObject* type, const std::string& words) const {
    std::string place = "obj";
    for (const size_t index : path_) place += "[" + std::to_string(index) + "]";
    fail_at(type, place, words);
  }
  [[noreturn]] void fail_at(PyObject* type, const std::string& place,
                            const std::string& words) const {
    const std::string all = std::string(function_) + ": argument 'obj': " + words + " at " + place;
    if (type == nullptr) fail_invalid(all);
    fail(type, all);
  }

  void visit(nb::handle object, size_t depth) {
    if (is_plain_nested(object)) return visit_sequence(object, depth);
    Kind kind{};
    if (number_kind(object, kind)) return take(nb::borrow(object), kind, depth);
    nb::object to_list = nb::getattr(object, "tolist", nb::none());  // arrays and their scalars
    if (!to_list.is_none()) {
      const nb::object plain = call_python(to_list);
      if (is_plain_nested(plain) || number_kind(plain, kind)) return visit(plain, depth);
    }
    if (PyIndex_Check(object.ptr())) {
      return take(nb::steal(PyNumber_Index(object.ptr())), Kind::kInt, depth);
    }
    refuse(PyExc_TypeError, "expected numbers, found " + name_of_type(object));
  }

  void take(nb::object number, Kind kind, size_t depth) {
    if (!number.is_valid()) throw nb::python_error();
    if (!is_rank_known_) fix_rank(depth);
    if (depth != sizes_.size()) refuse(nullptr, "ragged: a number among lists");
    kind_ = numbers_.empty() ? kind : std::max(kind_, kind);
    numbers_.push_back(std::move(number));
  }

  void visit_sequence(nb::handle object, size_t depth) {
    const nb::object items = nb::steal(PySequence_Tuple(object.ptr()));
    if (!items.is_valid()) throw nb::python_error();
    const auto count = static_cast<int64_t>(nb::len(items));
    if (depth >= BP_MAX_RANK) refuse(nullptr, "more than 16 dimensions");
    if (!is_rank_known_ && depth == sizes_.size()) {
      sizes_.push_back(count);
      if (count == 0) fix_rank(depth + 1);
    } else if (depth >= sizes_.size()) {
      refuse(nullptr, "ragged: a list among numbers");
    } else if (sizes_[depth] != count) {
      refuse(nullptr, "ragged: " + std::to_string(count) + " elements, expected " +
                          std::to_string(sizes_[depth]));
    }
    path_.push_back(0);
    for (nb::handle item : nb::borrow<nb::tuple>(items)) {
      visit(item, depth + 1);
      ++path_.back();
    }
    path_.pop_back();
  }

  void fix_rank(size_t depth) {
    is_rank_known_ = true;
    sizes_.resize(depth);
  }

  const char* function_;
  std::vector<int64_t> sizes_;
  bool is_rank_known_ = false;
  std::vector<size_t> path_;
  std::vector<nb::object> numbers_;
  Kind kind_{};
};

bool is_plain_number(nb::handle object) {
  return PyBool_Check(object.ptr()) || PyLong_CheckExact(object.ptr()) ||
         PyFloat_CheckExact(object.ptr()) || PyComplex_CheckExact(object.ptr());
}

/// A tensor brought to what is asked for; a copy only where that is needed or asked for.
nb::object adapt(nb::object tensor, const AsarrayArgs& args, bool is_fresh) {
  nb::object adapted = args.device.is_valid() ? moved_to(tensor, args.device) : tensor;
  if (args.dtype != nullptr) adapted = cast_to(adapted, *args.dtype);
  const bool is_same = adapted.is(tensor);
  if (args.copy == Copy::kNever && !is_same) {
    fail_invalid(std::string(args.function) +
                 ": argument 'copy' is False, and another device or dtype needs a copy");
  }
  return args.copy == Copy::kAlways && is_same && !is_fresh ? copy_of(tensor_of(tensor)) : adapted;
}

nb::object device_or_default(const AsarrayArgs& args) {
  return args.device.is_valid() ? args.device : parse_device(nb::none(), args.function);
}

nb::object from_numbers(nb::handle object, const AsarrayArgs& args) {
  if (args.copy == Copy::kNever) {
    fail_invalid(std::string(args.function) +
                 ": argument 'copy' is False, and Python numbers need a copy");
  }
  return NestedReader(args.function).read(object, args.dtype, device_or_default(args));
}

}  // namespace

bool is_plain_nested(nb::handle object) {
  return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()) ||
         Py_TYPE(object.ptr()) == &PyRange_Type;
}

nb::object as_tensor(nb::handle object, const AsarrayArgs& args) {
  if (is_tensor(object.ptr())) return adapt(nb::borrow(object), args, false);
  if (is_plain_number(object) || is_plain_nested(object)) return from_numbers(object, args);
  HostMemory memory;
  if (memory_from_buffer(object, args.function, memory)) {
    return adapt(
        tensor_from_memory(std::move(memory), device_or_default(args), args.copy, args.function),
        args, true);
  }
  Kind kind{};
  if (number_kind(object, kind)) return from_numbers(object, args);
  if (nb::hasattr(object, "__dlpack__")) {
    return adapt(tensor_from_dlpack(object, device_or_default(args), args.copy), args, true);
  }
  if (nb::hasattr(object, "__array__")) {
    const nb::object array = call_python(object.attr("__array__"));
    if (memory_from_buffer(array, args.function, memory)) {
      return adapt(
          tensor_from_memory(std::move(memory), device_or_default(args), args.copy, args.function),
          args, true);
    }
  }
  if (PyIndex_Check(object.ptr())) return from_numbers(object, args);
  fail(PyExc_TypeError, std::string(args.function) +
                            ": argument 'obj': expected numbers, nested lists of them, a tensor, "
                            "or an array, found " +
                            name_of_type(object));
}

}  // namespace bp::python
