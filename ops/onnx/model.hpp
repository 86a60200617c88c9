// SPDX-License-Identifier: Apache-2.0
//
// The ONNX messages that inference needs, as plain structs whose texts and bytes are views into the
// file. Field numbers follow onnx.proto of IR version 14. A field that IR does not have is an error
// and not skipped: it may change the meaning.
#ifndef BACKPLANE_OPS_ONNX_MODEL_HPP
#define BACKPLANE_OPS_ONNX_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

namespace bp::onnx {

inline constexpr int64_t kNewestIrVersion = 14;
inline constexpr uint32_t kSparseInitializer = 15;  // field number of GraphProto
// ... of TensorProto: where its values may be.
inline constexpr uint32_t kFloatData = 4;
inline constexpr uint32_t kInt32Data = 5;
inline constexpr uint32_t kStringData = 6;
inline constexpr uint32_t kInt64Data = 7;
inline constexpr uint32_t kDoubleData = 10;
inline constexpr uint32_t kUint64Data = 11;
inline constexpr uint32_t kExternalData = 13;

struct StringEntryProto {
  std::string_view key;  // never empty
  std::string_view value;
};

// TensorProto.DataLocation
inline constexpr int32_t kDefaultLocation = 0;
inline constexpr int32_t kExternalLocation = 1;

struct TensorProto {
  std::string_view name;
  std::vector<int64_t> dims;
  int32_t data_type = 0;
  std::optional<std::span<const std::byte>> raw_data;
  std::vector<StringEntryProto> external_data;
  int32_t data_location = 0;        // k...Location
  uint32_t fields = 0;              // bit n: field n is there
  std::span<const std::byte> body;  // the whole message

  bool has(uint32_t field) const { return (fields >> field & 1) != 0; }
};

struct AttributeProto {
  std::string_view name;  // never empty
  std::string_view ref_attr_name;
  int32_t type = 0;  // AttributeProto.AttributeType
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  bool has_t = false;
  TensorProto t;
  std::vector<float> floats;
  std::vector<int64_t> ints;
};

struct NodeProto {
  std::string_view name;
  std::string_view op_type;  // never empty
  std::string_view domain;
  std::string_view overload;             // of the function that it calls
  std::vector<std::string_view> inputs;  // "": absent
  std::vector<std::string_view> outputs;
  std::vector<AttributeProto> attributes;
  int64_t opset = 0;  // of the default domain, where the node stands; by inline_functions()
};

struct DimProto {
  int64_t value = 0;
  std::string_view param;
  uint32_t fields = 0;  // bit 1: has a value, bit 2: has a name; neither: nothing is known

  /// Some exporters write -1 for a size that is free.
  bool has_size() const { return (fields >> 1 & 1) != 0 && value != -1; }
};

struct ValueInfoProto {
  std::string_view name;  // never empty
  bool has_type = false;
  bool is_tensor = false;  // false: a sequence, map, optional or sparse tensor
  bool has_shape = false;  // false: even the rank is not known
  int32_t elem_type = 0;
  std::vector<DimProto> dims;
};

struct GraphProto {
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;  // with names
  std::vector<ValueInfoProto> inputs;
  std::vector<ValueInfoProto> outputs;
  uint32_t fields = 0;
};

struct OpsetImport {
  std::string_view domain;
  int64_t version = 0;
};

/// An operator that the model defines itself.
struct FunctionProto {
  std::string_view name;  // never empty
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> attribute_names;  // without a default
  std::vector<AttributeProto> default_attributes;
  std::vector<NodeProto> nodes;
  std::vector<OpsetImport> opset_imports;
};

struct ModelProto {
  int64_t ir_version = 0;
  std::vector<OpsetImport> opset_imports;
  std::vector<FunctionProto> functions;
  bool has_graph = false;
  GraphProto graph;
};

/// The views stay valid as long as `file`. Errors: INVALID_ARGUMENT with position and message.
Result<ModelProto> parse_model(std::span<const std::byte> file);
/// A file that is one TensorProto.
Result<TensorProto> parse_tensor(std::span<const std::byte> file);

}  // namespace bp::onnx

#endif
