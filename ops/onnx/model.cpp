// SPDX-License-Identifier: Apache-2.0
//
// One table for each message: what each field number fills. Fields that cannot change what
// inference computes (documentation, producer, placement, training) stand there as skipped.
#include "ops/onnx/model.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <type_traits>

#include "ops/onnx/wire.hpp"

namespace bp::onnx {
namespace {

using OnField = std::function<Status(const WireReader&, const WireField&)>;

struct Member {
  uint32_t number;
  OnField read;
};

/// Fills members; `skipped` numbers are legal and left alone, any other is an error. `out_fields`
/// gets bit n for a field n that was there.
Status walk(WireReader reader, std::string_view message, const std::vector<Member>& members,
            std::initializer_list<uint32_t> skipped = {}, uint32_t* out_fields = nullptr) {
  reader.set_message(message);
  WireField field;
  while (true) {
    BP_TRY_ASSIGN(const bool more, reader.next(&field));
    if (!more) return {};
    const auto member = std::find_if(members.begin(), members.end(), [&](const Member& candidate) {
      return candidate.number == field.number;
    });
    if (member != members.end()) {
      BP_TRY(member->read(reader, field));
    } else if (std::find(skipped.begin(), skipped.end(), field.number) == skipped.end()) {
      return reader.error("field " + std::to_string(field.number) + " is not in ONNX IR version " +
                          std::to_string(kNewestIrVersion) + ", the newest that is known here");
    }
    if (out_fields != nullptr) *out_fields |= uint32_t{1} << field.number;
  }
}

OnField text(std::string_view* out) {
  return [out](const WireReader& reader, const WireField& field) -> Status {
    BP_TRY_ASSIGN(*out, reader.text(field));
    return {};
  };
}

OnField texts(std::vector<std::string_view>* out) {
  return [out](const WireReader& reader, const WireField& field) {
    return text(&out->emplace_back())(reader, field);
  };
}

template <class T>
constexpr WireType kWireTypeOf = std::is_same_v<T, float> ? WireType::kFixed32 : WireType::kVarint;

template <class T>
OnField number(T* out) {
  return [out](const WireReader& reader, const WireField& field) -> Status {
    BP_TRY(reader.expect(field, kWireTypeOf<T>));
    if constexpr (std::is_same_v<T, float>) {
      *out = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    } else {
      *out = static_cast<T>(field.value);
      if (static_cast<uint64_t>(*out) != field.value) return reader.error("number out of range");
    }
    return {};
  };
}

template <class T>
OnField numbers(std::vector<T>* out) {
  return [out](const WireReader& reader, const WireField& field) {
    return reader.elements(field, kWireTypeOf<T>, [&](uint64_t bits) {
      const WireField element = {field.number, kWireTypeOf<T>, bits, {}};
      return number(&out->emplace_back())(reader, element);
    });
  };
}

OnField raw(std::optional<std::span<const std::byte>>* out) {
  return [out](const WireReader& reader, const WireField& field) {
    *out = field.bytes;
    return reader.expect(field, WireType::kBytes);
  };
}

template <class T>
using Parse = Status (*)(const WireReader&, T*);

template <class T>
OnField messages(Parse<T> parse, std::vector<T>* out) {
  return [=](const WireReader& reader, const WireField& field) -> Status {
    BP_TRY_ASSIGN(const WireReader content, reader.nested(field));
    return parse(content, &out->emplace_back());
  };
}

/// The same for messages that mean nothing without one text. Without it two bytes of a file would
/// take hundreds in memory, as often as they stand there.
template <class T>
OnField messages_with(std::string_view what, std::string_view text_name, std::string_view T::*text,
                      Parse<T> parse, std::vector<T>* out) {
  return
      [=, read = messages(parse, out)](const WireReader& reader, const WireField& field) -> Status {
        BP_TRY(read(reader, field));
        if (!(out->back().*text).empty()) return {};
        return reader.error(std::string(what) + " " + std::to_string(out->size() - 1) + " has no " +
                            std::string(text_name));
      };
}

template <class T>
OnField message(Parse<T> parse, T* out, bool* out_present) {
  return [=](const WireReader& reader, const WireField& field) -> Status {
    *out_present = true;
    BP_TRY_ASSIGN(const WireReader content, reader.nested(field));
    return parse(content, out);
  };
}

Status string_entry(const WireReader& reader, StringEntryProto* out) {
  return walk(reader, "StringStringEntryProto", {{1, text(&out->key)}, {2, text(&out->value)}});
}

Status tensor(const WireReader& reader, TensorProto* out) {
  out->body = reader.rest();
  return walk(reader, "TensorProto",
              {{1, numbers(&out->dims)},
               {2, number(&out->data_type)},
               {8, text(&out->name)},
               {9, raw(&out->raw_data)},
               {kExternalData, messages_with("external_data", "key", &StringEntryProto::key,
                                             string_entry, &out->external_data)},
               {14, number(&out->data_location)}},
              // Where values may be, for tensor_values(); doc_string, metadata_props.
              {kFloatData, kInt32Data, kStringData, kInt64Data, kDoubleData, kUint64Data, 12, 16},
              &out->fields);
}

/// Graphs, types, sparse tensors and lists of tensors (6, 10, 11, 14, 15, 22, 23) are left alone:
/// no operator that is known here takes one, so `type` is enough to refuse them.
Status attribute(const WireReader& reader, AttributeProto* out) {
  return walk(reader, "AttributeProto",
              {{1, text(&out->name)},
               {2, number(&out->f)},
               {3, number(&out->i)},
               {4, text(&out->s)},
               {5, message(tensor, &out->t, &out->has_t)},
               {7, numbers(&out->floats)},
               {8, numbers(&out->ints)},
               {20, number(&out->type)},
               {21, text(&out->ref_attr_name)}},
              {6, 9, 10, 11, 13, 14, 15, 22, 23});
}

/// No operator has nearly as many, and they can be compared in little time.
OnField attributes(std::vector<AttributeProto>* out) {
  constexpr size_t kMaxCount = 256;
  return [=, read = messages_with("attribute", "name", &AttributeProto::name, attribute, out)](
             const WireReader& reader, const WireField& field) -> Status {
    BP_TRY(read(reader, field));
    if (out->size() <= kMaxCount) return {};
    return reader.error("more than " + std::to_string(kMaxCount) + " attributes");
  };
}

Status node(const WireReader& reader, NodeProto* out) {
  return walk(reader, "NodeProto",
              {{1, texts(&out->inputs)},
               {2, texts(&out->outputs)},
               {3, text(&out->name)},
               {4, text(&out->op_type)},
               {5, attributes(&out->attributes)},
               {7, text(&out->domain)},
               {8, text(&out->overload)}},
              {6, 9, 10});  // doc_string, metadata_props, placement
}

Status dimension(const WireReader& reader, DimProto* out) {
  return walk(reader, "Dimension", {{1, number(&out->value)}, {2, text(&out->param)}}, {3},
              &out->fields);
}

Status shape(const WireReader& reader, ValueInfoProto* out) {
  return walk(reader, "TensorShapeProto", {{1, messages(dimension, &out->dims)}});
}

Status tensor_type(const WireReader& reader, ValueInfoProto* out) {
  return walk(reader, "TypeProto.Tensor",
              {{1, number(&out->elem_type)}, {2, message(shape, out, &out->has_shape)}});
}

/// Other kinds of type (4, 5, 7, 8, 9) leave is_tensor false; 6 is the denotation.
Status type(const WireReader& reader, ValueInfoProto* out) {
  return walk(reader, "TypeProto", {{1, message(tensor_type, out, &out->is_tensor)}},
              {4, 5, 6, 7, 8, 9});
}

Status value_info(const WireReader& reader, ValueInfoProto* out) {
  return walk(reader, "ValueInfoProto",
              {{1, text(&out->name)}, {2, message(type, out, &out->has_type)}},
              {3, 4});  // doc_string, metadata_props
}

Status graph(const WireReader& reader, GraphProto* out) {
  return walk(
      reader, "GraphProto",
      {{1, messages_with("node", "op_type", &NodeProto::op_type, node, &out->nodes)},
       {5, messages_with("initializer", "name", &TensorProto::name, tensor, &out->initializers)},
       {11, messages_with("input", "name", &ValueInfoProto::name, value_info, &out->inputs)},
       {12, messages_with("output", "name", &ValueInfoProto::name, value_info, &out->outputs)}},
      // name, doc_string, value_info, quantization_annotation, metadata_props
      {2, 10, 13, 14, kSparseInitializer, 16}, &out->fields);
}

Status opset(const WireReader& reader, OpsetImport* out) {
  return walk(reader, "OperatorSetIdProto", {{1, text(&out->domain)}, {2, number(&out->version)}});
}

Status function(const WireReader& reader, FunctionProto* out) {
  return walk(reader, "FunctionProto",
              {{1, text(&out->name)},
               {4, texts(&out->inputs)},
               {5, texts(&out->outputs)},
               {6, texts(&out->attribute_names)},
               {7, messages_with("node", "op_type", &NodeProto::op_type, node, &out->nodes)},
               {9, messages(opset, &out->opset_imports)},
               {10, text(&out->domain)},
               {11, attributes(&out->default_attributes)},
               {13, text(&out->overload)}},
              // since_version and status of older versions; doc_string, value_info, metadata_props
              {2, 3, 8, 12, 14});
}

Status model(const WireReader& reader, ModelProto* out) {
  return walk(
      reader, "ModelProto",
      {{1, number(&out->ir_version)},
       {7, message(graph, &out->graph, &out->has_graph)},
       {8, messages(opset, &out->opset_imports)},
       {25, messages_with("function", "name", &FunctionProto::name, function, &out->functions)}},
      // producer, documentation, training, configuration
      {2, 3, 4, 5, 6, 14, 20, 26});
}

/// No model does: its first field is a small number.
bool begins_as_text(std::span<const std::byte> file) {
  constexpr size_t kLooked = 8;
  const auto first = file.first(std::min(file.size(), kLooked));
  return !first.empty() && std::all_of(first.begin(), first.end(), [](std::byte byte) {
    const auto letter = std::to_integer<unsigned char>(byte);
    return (letter >= ' ' && letter <= '~') || letter == '\n' || letter == '\r' || letter == '\t';
  });
}

}  // namespace

Result<ModelProto> parse_model(std::span<const std::byte> file) {
  ModelProto parsed;
  const Status status = model(WireReader(file), &parsed);
  if (status.ok()) return parsed;
  if (!begins_as_text(file)) return status;
  return Status(status.code(),
                status.message() +
                    ". The file begins as text, like a web page or what Git LFS keeps in a file's "
                    "place; expected a model in ONNX's binary format");
}

Result<TensorProto> parse_tensor(std::span<const std::byte> file) {
  TensorProto parsed;
  BP_TRY(tensor(WireReader(file), &parsed));
  return parsed;
}

}  // namespace bp::onnx
