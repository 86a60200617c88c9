// SPDX-License-Identifier: Apache-2.0
#include "asarray.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "dlpack.hpp"
#include "gil.hpp"
#include "operands.hpp"
#include "scalars.hpp"

namespace bp::python {
namespace {

bool is_plain_number(nb::handle object) {
  return PyBool_Check(object.ptr()) || PyLong_CheckExact(object.ptr()) ||
         PyFloat_CheckExact(object.ptr()) || PyComplex_CheckExact(object.ptr());
}

/// A class has the methods of its objects, and is no array.
bool has_method(nb::handle object, const char* name) {
  return !PyType_Check(object.ptr()) && nb::hasattr(object, name);
}

nb::object device_or_default(const AsarrayArgs& args) {
  return args.device.is_valid() ? args.device : parse_device(nb::none(), args.function);
}

/// Reads nested lists: first what they hold and their shape, then the numbers.
class NestedReader {
 public:
  explicit NestedReader(const AsarrayArgs& args) : args_(args), device_(args.device) {}

  nb::object read(nb::handle object) {
    visit(object, 0);
    const Dtype& dtype = args_.dtype == nullptr ? found_dtype() : *args_.dtype;
    const auto count = static_cast<size_t>(count_elements(sizes_));
    const auto values = host_bytes(count * dtype.item_bytes + 16);  // encode writes 16 at most
    write_values(dtype, values.get());
    if (!device_.is_valid()) device_ = device_or_default(args_);
    return tensor_from_values(dtype, sizes_, values.get(), device_);
  }

 private:
  /// The values of an array.
  struct Block {
    size_t numbers_before;  // of numbers_
    const Dtype* dtype;
    size_t count;
    std::unique_ptr<char[]> values;
  };

  std::string place() const {
    std::string place = " at obj";
    for (const size_t index : path_) place += "[" + std::to_string(index) + "]";
    return place;
  }
  [[noreturn]] void refuse(PyObject* type, const std::string& words,
                           const std::string& advice = "") const {
    const std::string all =
        std::string(args_.function) + ": argument 'obj': " + words + place() + advice;
    if (type == nullptr) fail_invalid(all);
    fail(type, all);
  }

  void visit(nb::handle object, size_t depth) {
    if (is_plain_nested(object)) return visit_sequence(object, depth);
    if (!is_plain_number(object)) return visit_other(object, depth);
    Kind kind{};
    number_kind(object, kind);
    take(nb::borrow(object), kind, depth);
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

  /// What as_tensor() takes by itself, and objects that list their numbers.
  void visit_other(nb::handle object, size_t depth) {
    if (is_tensor(object.ptr())) {
      note_device(tensor_of(object));
      return take_tensor(tensor_of(object), depth);
    }
    if (PyBytes_Check(object.ptr()) || PyByteArray_Check(object.ptr())) refuse_object(object);
    if (take_buffer(object, depth)) return;
    Kind kind{};
    if (number_kind(object, kind)) return take(nb::borrow(object), kind, depth);
    if (has_method(object, "__dlpack__")) {
      HostMemory memory;
      memory_from_dlpack(object, Copy::kIfNeeded, memory);
      return take_memory(memory, depth);
    }
    if (has_method(object, "__array__")) {
      if (take_buffer(call_python(object.attr("__array__")), depth)) return;
    }
    if (has_method(object, "tolist")) {
      const nb::object plain = call_python(object.attr("tolist"));
      if (is_plain_nested(plain) || number_kind(plain, kind)) return visit(plain, depth);
    }
    if (!PyIndex_Check(object.ptr())) refuse_object(object);
    take(nb::steal(PyNumber_Index(object.ptr())), Kind::kInt, depth);
  }
  [[noreturn]] void refuse_object(nb::handle object) const {
    refuse(PyExc_TypeError, "expected numbers, found " + name_of_type(object));
  }

  /// False for an object without a buffer.
  bool take_buffer(nb::handle object, size_t depth) {
    HostMemory memory;
    try {
      if (!memory_from_buffer(object, args_.function, memory)) return false;
    } catch (const Error& error) {
      throw Error(error.status(), words_of(error) + place(), error.op());
    } catch (const nb::python_error& error) {
      if (!error.type().is(PyExc_TypeError)) throw;
      fail(PyExc_TypeError, nb::cast<std::string>(nb::str(error.value())) + place());
    }
    take_memory(memory, depth);
    return true;
  }

  void take_memory(const HostMemory& memory, size_t depth) {
    take_sizes(memory.sizes, depth);
    take_values(*memory.dtype, memory.sizes, packed_values(memory));
  }

  void take_tensor(const TensorObject& tensor, size_t depth) {
    take_sizes(tensor.sizes(), depth);
    take_values(tensor.dtype(), tensor.sizes(), read_values(tensor));
  }

  /// Tensors are where the new one will be, unless the caller said where that is.
  void note_device(const TensorObject& tensor) {
    if (args_.device.is_valid() && args_.moves_tensors) return;
    if (!device_.is_valid()) device_ = nb::borrow(tensor.device_object());
    const auto& expected = nb::cast<const DeviceObject&>(device_);
    const DeviceObject& found = tensor.device();
    if (expected.device.handle() == found.device.handle()) return;
    const char* of_others = expected.runtime == found.runtime ? "" : " of another Runtime";
    refuse(nullptr,
           "expected tensors on " + expected.name + ", found one on " + found.name + of_others,
           args_.device.is_valid() ? "; move it with to_device()"
                                   : "; move it with to_device(), or pass 'device'");
  }

  /// An array stands for lists of lists.
  void take_sizes(std::span<const int64_t> sizes, size_t depth) {
    if (depth + sizes.size() > BP_MAX_RANK) refuse(nullptr, "more than 16 dimensions");
    if (!is_rank_known_) {
      fix_rank(depth);
      sizes_.insert(sizes_.end(), sizes.begin(), sizes.end());
    }
    const auto expected = std::span<const int64_t>(sizes_).subspan(depth);
    if (std::ranges::equal(sizes, expected)) return;
    refuse(nullptr, "ragged: an array of shape " + shape_text(sizes) + ", expected shape " +
                        shape_text(expected));
  }

  void take_values(const Dtype& dtype, std::span<const int64_t> sizes,
                   std::unique_ptr<char[]> values) {
    const auto count = static_cast<size_t>(count_elements(sizes));
    blocks_.push_back({numbers_.size(), &dtype, count, std::move(values)});
    if (std::ranges::find(dtypes_, &dtype) == dtypes_.end()) dtypes_.push_back(&dtype);
  }

  /// Numbers alone have the default of the highest kind; beside arrays they are weak.
  const Dtype& found_dtype() {
    if (!dtypes_.empty()) {
      const Dtype& dtype = promoted();
      return numbers_.empty() ? dtype : promote_weak(dtype, kind_);
    }
    if (args_.number_dtype != nullptr) return *args_.number_dtype;
    return default_dtype(numbers_.empty() ? Kind::kFloat : kind_);
  }

  /// From the widest dtype of the highest kind on: of int64 and uint64 neither holds the other, of
  /// float32 beside both that does not matter.
  const Dtype& promoted() {
    std::ranges::sort(dtypes_, [](const Dtype* a, const Dtype* b) {
      return a->kind != b->kind ? a->kind > b->kind : a->item_bytes > b->item_bytes;
    });
    const Dtype* found = dtypes_[0];
    for (const Dtype* dtype : dtypes_) found = &promote(*found, *dtype, args_.function);
    return *found;
  }

  void write_values(const Dtype& dtype, char* next) const {
    const std::string place = std::string(args_.function) + ": ";
    size_t number = 0;
    const auto write_numbers = [&](size_t stop) {
      for (; number < stop; ++number, next += dtype.item_bytes) {
        encode_number(numbers_[number], dtype, next, place.c_str());
      }
    };
    for (const Block& block : blocks_) {
      write_numbers(block.numbers_before);
      write_block(block, dtype, next, place.c_str());
      next += block.count * dtype.item_bytes;
    }
    write_numbers(numbers_.size());
  }

  static void write_block(const Block& block, const Dtype& dtype, char* next, const char* place) {
    if (block.dtype == &dtype) {
      std::memcpy(next, block.values.get(), block.count * dtype.item_bytes);
      return;
    }
    for (size_t i = 0; i < block.count; ++i) {
      const nb::object number =
          decode_number(*block.dtype, block.values.get() + i * block.dtype->item_bytes);
      encode_number(number, dtype, next + i * dtype.item_bytes, place);
    }
  }

  const AsarrayArgs& args_;
  nb::object device_;  // of the new tensor; empty: not known yet
  std::vector<int64_t> sizes_;
  bool is_rank_known_ = false;
  std::vector<size_t> path_;
  std::vector<nb::object> numbers_;
  Kind kind_{};  // the highest of theirs
  std::vector<Block> blocks_;
  std::vector<const Dtype*> dtypes_;  // of the blocks, each once
};

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

nb::object from_numbers(nb::handle object, const AsarrayArgs& args) {
  if (args.copy == Copy::kNever) {
    fail_invalid(std::string(args.function) +
                 ": argument 'copy' is False, and numbers and lists need a copy");
  }
  return NestedReader(args).read(object);
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
  if (has_method(object, "__dlpack__")) {
    return adapt(tensor_from_dlpack(object, device_or_default(args), args.copy), args, true);
  }
  if (has_method(object, "__array__")) {
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
