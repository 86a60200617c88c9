// SPDX-License-Identifier: Apache-2.0
//
// Writes ONNX files for tests, byte by byte: so that broken ones can be made as easily as whole
// ones, and no test depends on another ONNX implementation.
#ifndef BACKPLANE_OPS_ONNX_ONNX_BYTES_TEST_HPP
#define BACKPLANE_OPS_ONNX_ONNX_BYTES_TEST_HPP

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/graph/graph.hpp"
#include "ops/onnx/import.hpp"
#include "ops/register.hpp"

namespace bp::testing_onnx {

/// A message being written.
class Message {
 public:
  Message& varint(uint32_t field, uint64_t value) {
    return raw_varint(field << 3).raw_varint(value);
  }
  Message& text(uint32_t field, std::string_view value) {
    raw_varint(field << 3 | 2).raw_varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(uint32_t field, const Message& value) { return text(field, value.bytes_); }
  Message& f32(uint32_t field, float value) {
    raw_varint(field << 3 | 5);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Message& raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  Message& append(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// TensorProto.DataType
inline constexpr int kFloatType = 1;
inline constexpr int kUint8Type = 2;
inline constexpr int kInt32Type = 6;
inline constexpr int kInt64Type = 7;
inline constexpr int kStringType = 8;
inline constexpr int kBoolType = 9;
inline constexpr int kDoubleType = 11;

/// A TensorProto without values.
inline Message tensor_header(std::string_view name, const std::vector<int64_t>& dims, int type) {
  Message tensor;
  for (int64_t dim : dims) tensor.varint(1, static_cast<uint64_t>(dim));
  tensor.varint(2, static_cast<uint64_t>(type)).text(8, name);
  return tensor;
}
inline Message tensor(std::string_view name, const std::vector<int64_t>& dims, int type,
                      std::string_view raw) {
  return tensor_header(name, dims, type).text(9, raw);
}
inline Message floats(std::string_view name, const std::vector<int64_t>& dims,
                      const std::vector<float>& values) {
  return tensor(name, dims, kFloatType, bytes_of(values));
}
inline Message int64s(std::string_view name, const std::vector<int64_t>& values) {
  return tensor(name, {static_cast<int64_t>(values.size())}, kInt64Type, bytes_of(values));
}

/// A size, or the name of one; "" is a dimension of which nothing is said.
using Dim = std::variant<int64_t, std::string>;

inline Message value_info(std::string_view name, const std::vector<Dim>& dims,
                          int type = kFloatType) {
  Message shape;
  for (const Dim& dim : dims) {
    Message dimension;
    if (const auto* size = std::get_if<int64_t>(&dim)) {
      dimension.varint(1, static_cast<uint64_t>(*size));
    } else if (!std::get<std::string>(dim).empty()) {
      dimension.text(2, std::get<std::string>(dim));
    }
    shape.message(1, dimension);
  }
  const Message tensor_type = Message().varint(1, static_cast<uint64_t>(type)).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, tensor_type));
}

inline Message attr(std::string_view name, int64_t value) {
  return Message().text(1, name).varint(3, static_cast<uint64_t>(value)).varint(20, 2);
}
inline Message attr(std::string_view name, float value) {
  return Message().text(1, name).f32(2, value).varint(20, 1);
}
inline Message attr(std::string_view name, std::string_view value) {
  return Message().text(1, name).text(4, value).varint(20, 3);
}
inline Message attr(std::string_view name, const char* value) {
  return attr(name, std::string_view(value));
}
inline Message attr(std::string_view name, const std::vector<int64_t>& values) {
  Message attribute;
  attribute.text(1, name);
  for (int64_t value : values) attribute.varint(8, static_cast<uint64_t>(value));
  return attribute.varint(20, 7);
}
inline Message attr(std::string_view name, const std::vector<float>& values) {
  return Message().text(1, name).text(7, bytes_of(values)).varint(20, 6);
}
inline Message attr(std::string_view name, const Message& tensor_value) {
  return Message().text(1, name).message(5, tensor_value).varint(20, 4);
}

inline Message node(std::string_view op, std::string_view name,
                    const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                    const std::vector<Message>& attributes = {}) {
  Message result;
  for (const std::string& input : inputs) result.text(1, input);
  for (const std::string& output : outputs) result.text(2, output);
  result.text(3, name).text(4, op);
  for (const Message& attribute : attributes) result.message(5, attribute);
  return result;
}

/// A model whose parts a test changes before it is written.
struct Model {
  std::vector<Message> nodes = {};
  std::vector<Message> initializers = {};
  std::vector<Message> inputs = {value_info("x", {"N", int64_t{3}})};
  std::vector<Message> outputs = {Message().text(1, "y")};
  int64_t ir_version = 8;
  int64_t opset = 17;
  Message more_graph = {};
  Message more_model = {};

  std::string bytes() const {
    Message graph;
    for (const Message& part : nodes) graph.message(1, part);
    graph.text(2, "g");
    for (const Message& part : initializers) graph.message(5, part);
    for (const Message& part : inputs) graph.message(11, part);
    for (const Message& part : outputs) graph.message(12, part);
    graph.append(more_graph.bytes());
    Message model;
    model.varint(1, static_cast<uint64_t>(ir_version)).text(2, "tests").message(7, graph);
    if (opset > 0) model.message(8, Message().varint(2, static_cast<uint64_t>(opset)));
    model.append(more_model.bytes());
    return model.bytes();
  }
};

/// A model of one node from x [N, 3] to y.
inline Model one_node(const Message& the_node) { return {.nodes = {the_node}}; }

inline const OpRegistry& registry() {
  static const OpRegistry* made = [] {
    auto* ops = new OpRegistry;
    if (!register_ops(ops).ok()) std::abort();
    return ops;
  }();
  return *made;
}

/// The bytes live in memory of exactly their size, so that a read beyond them is caught.
inline Result<Graph> import_bytes(std::string_view bytes) {
  std::shared_ptr<std::byte[]> memory(new std::byte[bytes.size()]);
  if (!bytes.empty()) std::memcpy(memory.get(), bytes.data(), bytes.size());
  return import_onnx(std::span(memory.get(), bytes.size()), memory, "m.onnx", registry());
}
inline Result<Graph> import_model(const Model& model) { return import_bytes(model.bytes()); }

/// The error of a model that must not be read.
inline Status refused(const Model& model) {
  const auto graph = import_model(model);
  return graph.ok() ? Status(BP_INTERNAL, "the model was read") : graph.status();
}

/// Names of our operators in the graph, in order.
inline std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& each : graph.nodes()) {
    names.emplace_back(graph.registry().schema(each.op).name);
  }
  return names;
}

template <class T>
std::vector<T> values_of(const HostTensor& tensor) {
  std::vector<T> values(tensor.bytes / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data, tensor.bytes);
  return values;
}

inline std::string output_type(const Graph& graph, size_t index = 0) {
  return graph.to_string(graph.value(graph.outputs()[index]).type);
}
/// ... or the error of a model that was not read.
inline std::string type_of(const Result<Graph>& graph) {
  return graph.ok() ? output_type(*graph) : graph.status().to_string();
}

}  // namespace bp::testing_onnx

#endif
