// SPDX-License-Identifier: Apache-2.0
#include "dtypes.hpp"

#include <array>
#include <string>

namespace bp::python {
namespace {

constexpr std::array kDtypes = {
    Dtype{BP_DTYPE_BOOL, "bool", "bool", 1, Kind::kBool, "?", true, 6},
    Dtype{BP_DTYPE_I8, "int8", "i8", 1, Kind::kInt, "b", true, 0},
    Dtype{BP_DTYPE_I16, "int16", "i16", 2, Kind::kInt, "h", true, 0},
    Dtype{BP_DTYPE_I32, "int32", "i32", 4, Kind::kInt, "i", true, 0},
    Dtype{BP_DTYPE_I64, "int64", "i64", 8, Kind::kInt, "q", true, 0},
    Dtype{BP_DTYPE_U8, "uint8", "u8", 1, Kind::kUint, "B", true, 1},
    Dtype{BP_DTYPE_U16, "uint16", "u16", 2, Kind::kUint, "H", true, 1},
    Dtype{BP_DTYPE_U32, "uint32", "u32", 4, Kind::kUint, "I", true, 1},
    Dtype{BP_DTYPE_U64, "uint64", "u64", 8, Kind::kUint, "Q", true, 1},
    Dtype{BP_DTYPE_F16, "float16", "f16", 2, Kind::kFloat, "e", true, 2},
    Dtype{BP_DTYPE_F32, "float32", "f32", 4, Kind::kFloat, "f", true, 2},
    Dtype{BP_DTYPE_F64, "float64", "f64", 8, Kind::kFloat, "d", true, 2},
    Dtype{BP_DTYPE_BF16, "bfloat16", "bf16", 2, Kind::kFloat, "H", false, 4},
    Dtype{BP_DTYPE_C64, "complex64", "c64", 8, Kind::kComplex, "Zf", true, 5},
    Dtype{BP_DTYPE_C128, "complex128", "c128", 16, Kind::kComplex, "Zd", true, 5},
    Dtype{BP_DTYPE_F8E4M3FN, "float8_e4m3fn", "f8e4m3fn", 1, Kind::kFloat, "B", false, 10},
    Dtype{BP_DTYPE_F8E4M3FNUZ, "float8_e4m3fnuz", "f8e4m3fnuz", 1, Kind::kFloat, "B", false, 11},
    Dtype{BP_DTYPE_F8E5M2, "float8_e5m2", "f8e5m2", 1, Kind::kFloat, "B", false, 12},
    Dtype{BP_DTYPE_F8E5M2FNUZ, "float8_e5m2fnuz", "f8e5m2fnuz", 1, Kind::kFloat, "B", false, 13},
    Dtype{BP_DTYPE_F8E8M0, "float8_e8m0fnu", "f8e8m0", 1, Kind::kFloat, "B", false, 14},
};

/// NumPy counts bytes in its short names, the library bits: "i8" is int64 there and int8 here.
bool is_ambiguous(const Dtype& row) { return row.code == BP_DTYPE_I8 || row.code == BP_DTYPE_U8; }

struct DtypeObject {
  const Dtype* row;
};

std::array<PyObject*, kDtypes.size()> g_objects{};  // for the life of the process

/// By the name that a str holds. NULL for text that UTF-8 has no form of, too.
const Dtype* find_by_str(nb::handle name) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &length);
  if (text == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  return find_dtype(std::string_view(text, static_cast<size_t>(length)));
}

/// The row that a Python object of another library names, or NULL. It asks for attributes only, so
/// that nothing is imported.
const Dtype* named_by(nb::handle object) {
  if (PyType_Check(object.ptr())) {  // numpy.float32
    const auto module = nb::cast<std::string>(nb::str(object.attr("__module__")));
    if (module != "numpy" && module != "ml_dtypes") return nullptr;
    auto name = nb::cast<std::string>(nb::str(object.attr("__name__")));
    if (name == "bool_") name = "bool";
    return find_dtype(std::string_view(name));
  }
  nb::object name = nb::getattr(object, "name", nb::none());
  if (!nb::isinstance<nb::str>(name)) return nullptr;
  if (nb::getattr(object, "isnative", nb::none()).ptr() == Py_False) return nullptr;
  return find_by_str(name);
}

const Dtype* builtin_dtype(nb::handle object) {
  const auto is = [&](auto& type) { return object.ptr() == reinterpret_cast<PyObject*>(&type); };
  if (is(PyBool_Type)) return find_dtype(BP_DTYPE_BOOL);
  if (is(PyLong_Type)) return find_dtype(BP_DTYPE_I64);
  if (is(PyFloat_Type)) return find_dtype(BP_DTYPE_F32);
  if (is(PyComplex_Type)) return find_dtype(BP_DTYPE_C64);
  return nullptr;
}

const Dtype* look_up(nb::handle object) {
  if (nb::isinstance<DtypeObject>(object)) return nb::cast<DtypeObject>(object).row;
  if (nb::isinstance<nb::str>(object)) return find_by_str(object);
  return named_by(object);
}

PyObject* dtype_compare(PyObject* self, PyObject* other, int operation) {
  return guarded([&]() -> PyObject* {
    if (operation != Py_EQ && operation != Py_NE) Py_RETURN_NOTIMPLEMENTED;
    const Dtype* row = nb::inst_ptr<DtypeObject>(self)->row;
    return PyBool_FromLong((look_up(other) == row) == (operation == Py_EQ));
  });
}

Py_hash_t dtype_hash(PyObject* self) {
  return static_cast<Py_hash_t>(nb::inst_ptr<DtypeObject>(self)->row->code) + 1000003;
}

const PyType_Slot kSlots[] = {
    {Py_tp_richcompare, reinterpret_cast<void*>(dtype_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(dtype_hash)},
    {0, nullptr},
};

}  // namespace

const Dtype* find_dtype(uint32_t code) {
  for (const Dtype& row : kDtypes) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

const Dtype* find_dtype(std::string_view name) {
  for (const Dtype& row : kDtypes) {
    if (name == row.name) return &row;
    if (name == row.short_name && !is_ambiguous(row)) return &row;
  }
  return nullptr;
}

const Dtype* find_dtype(Kind kind, uint32_t item_bytes) {
  for (const Dtype& row : kDtypes) {
    if (row.has_format && row.kind == kind && row.item_bytes == item_bytes) return &row;
  }
  return nullptr;
}

const Dtype& dtype_row(uint32_t code) {
  const Dtype* row = find_dtype(code);
  if (row == nullptr) {
    throw Error(BP_UNSUPPORTED, "dtype code " + std::to_string(code) + " has no Python object");
  }
  return *row;
}

const Dtype* find_dlpack_dtype(uint8_t code, uint8_t bits, uint16_t lanes) {
  if (lanes != 1) return nullptr;
  for (const Dtype& row : kDtypes) {
    if (row.dlpack_code == code && row.item_bytes * 8 == bits) return &row;
  }
  return nullptr;
}

/// What is wrong with an object that names no dtype.
static std::string refusal_of(nb::handle object) {
  std::string words = "no dtype is named by " + nb::cast<std::string>(nb::repr(object));
  if (!nb::isinstance<nb::str>(object)) return words;
  for (const Dtype& row : kDtypes) {
    if (PyUnicode_CompareWithASCIIString(object.ptr(), row.short_name) != 0) continue;
    words += ": it is " + std::string(row.name) + " to this library, and " +
             find_dtype(row.kind, 8)->name + " to NumPy; write the one or the other";
  }
  return words;
}

const Dtype* parse_dtype(nb::handle object, const char* function, const char* argument) {
  if (object.is_none()) return nullptr;
  const Dtype* row = builtin_dtype(object);
  if (row == nullptr) row = look_up(object);
  if (row == nullptr) {
    fail(PyExc_TypeError,
         std::string(function) + ": argument '" + argument + "': " + refusal_of(object));
  }
  return row;
}

nb::object dtype_object(const Dtype& dtype) {
  return nb::borrow(g_objects[static_cast<size_t>(&dtype - kDtypes.data())]);
}

/// function, argument: for words.
static nb::object dtype_of(nb::handle object, const char* function, const char* argument) {
  const Dtype* row = parse_dtype(object, function, argument);
  if (row == nullptr) {
    fail(PyExc_TypeError,
         std::string(function) + ": argument '" + argument + "': expected a dtype, found NoneType");
  }
  return dtype_object(*row);
}

void bind_dtypes(nb::module_& module) {
  nb::class_<DtypeObject>(module, "Dtype", nb::type_slots(kSlots), nb::is_final(),
                          "What the values of a tensor are. Equal to NumPy's dtype and name.")
      .def_prop_ro(
          "name", [](const DtypeObject& self) { return self.row->name; },
          "NumPy's and ml_dtypes' name, such as \"float32\".")
      .def_prop_ro(
          "itemsize", [](const DtypeObject& self) { return self.row->item_bytes; },
          "Bytes of one value.")
      .def("__repr__",
           [](const DtypeObject& self) { return "backplane." + std::string(self.row->name); })
      .def("__str__", [](const DtypeObject& self) { return self.row->name; })
      .def("__reduce__", [](const DtypeObject& self) {
        return nb::make_tuple(nb::module_::import_("backplane._pickle").attr("dtype"),
                              nb::make_tuple(self.row->name));
      });
  module.def(
      "dtype", [](nb::handle object) { return dtype_of(object, "dtype", "object"); },
      nb::arg("object").none(), nb::sig("def dtype(object: Dtype | str | type) -> Dtype"),
      "The Dtype that a name (\"float32\", \"f32\"), a NumPy dtype or a Python type stands for: "
      "float is float32, int int64, complex complex64.");
  module.def("_dtype_of", &dtype_of, nb::arg("object").none(), nb::arg("function"),
             nb::arg("argument"));
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    nb::object object = nb::cast(DtypeObject{&kDtypes[i]});
    module.attr(kDtypes[i].name) = object;
    g_objects[i] = object.release().ptr();
  }
}

}  // namespace bp::python
