// SPDX-License-Identifier: Apache-2.0
//
// Rows are collected by section and laid behind each other at the end.
#include "tests/sketches/image_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace bp {
namespace {

class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph) {}

  Result<GraphImage> write() {
    for (const Value& value : graph_.values()) add_value(value);
    add_symbols();
    for (const Node& node : graph_.nodes()) BP_TRY(add_node(node));
    for (const ValueId id : graph_.inputs()) add(BP_IMAGE_INPUTS, id);
    for (const ValueId id : graph_.outputs()) add(BP_IMAGE_OUTPUTS, id);
    image_.node_count = sections_[BP_IMAGE_NODES].count;
    image_.symbol_count = sections_[BP_IMAGE_SYMBOLS].count;
    lay_out();
    return std::move(image_);
  }

 private:
  struct Section {
    std::vector<std::byte> bytes;
    uint32_t stride = 0;
    uint64_t count = 0;
  };

  template <class Row>
  void add(uint32_t kind, const Row& row) {
    Section& section = sections_[kind];
    const auto* const first = reinterpret_cast<const std::byte*>(&row);
    section.bytes.insert(section.bytes.end(), first, first + sizeof(row));
    section.stride = sizeof(row);
    ++section.count;
  }
  uint64_t rows(uint32_t kind) const { return sections_[kind].count; }

  /// Where the text begins.
  uint64_t add_text(std::string_view text) {
    const uint64_t first = rows(BP_IMAGE_TEXT);
    for (const char letter : text) add(BP_IMAGE_TEXT, letter);
    return first;
  }

  void add_value(const Value& value) {
    bp_image_value row{};
    row.struct_size = sizeof(row);
    row.dtype = value.type.dtype;
    row.rank = static_cast<uint32_t>(value.type.sizes.size());
    row.sizes_first = rows(BP_IMAGE_INTEGERS);
    for (const int64_t size : value.type.sizes) {
      add(BP_IMAGE_INTEGERS, size);
      if (size < kUnknownDim) symbols_ = std::max(symbols_, -1 - size);
    }
    if (value.constant) {
      image_.constants.push_back({value.constant->data, value.constant->bytes});
      image_.owners.push_back(value.constant);
      row.constant_index = image_.constants.size();
    }
    add(BP_IMAGE_VALUES, row);
  }

  void add_symbols() {
    for (int64_t i = 0; i < symbols_; ++i) {
      const std::string_view name = graph_.symbol_name(symbol_dim(i));
      bp_image_symbol row{};
      row.struct_size = sizeof(row);
      row.name_offset = add_text(name);
      row.name_bytes = name.size();
      row.min = 0;
      row.max = INT64_MAX;
      add(BP_IMAGE_SYMBOLS, row);
    }
  }

  Status add_node(const Node& node) {
    const OpSchema& schema = graph_.registry().schema(node.op);
    if (!node.regions.empty()) return Status(BP_UNSUPPORTED, "an image has no regions yet");
    bp_image_node row{};
    row.struct_size = sizeof(row);
    row.op_offset = add_text(schema.name);
    row.op_bytes = static_cast<uint32_t>(schema.name.size());
    row.name_offset = add_text(node.name);
    row.name_bytes = static_cast<uint32_t>(node.name.size());
    row.op_version = schema.version;
    row.attributes_first = rows(BP_IMAGE_ATTRIBUTES);
    for (const AttrField& field : schema.attrs) BP_TRY(add_attribute(node, field));
    row.attribute_count = static_cast<uint32_t>(rows(BP_IMAGE_ATTRIBUTES) - row.attributes_first);
    row.values_first = rows(BP_IMAGE_VALUE_IDS);
    // Absent optional inputs at the end say nothing.
    size_t inputs = node.inputs.size();
    while (inputs > 0 && node.inputs[inputs - 1] == kNoValue) --inputs;
    row.input_count = static_cast<uint32_t>(inputs);
    row.output_count = static_cast<uint32_t>(node.outputs.size());
    for (size_t i = 0; i < inputs; ++i) add(BP_IMAGE_VALUE_IDS, node.inputs[i]);
    for (const ValueId id : node.outputs) add(BP_IMAGE_VALUE_IDS, id);
    add(BP_IMAGE_NODES, row);
    return {};
  }

  template <class T>
  static T member(const Node& node, const AttrField& field) {
    T value{};
    const auto* const base = static_cast<const std::byte*>(node.attributes.data());
    std::memcpy(&value, base + field.offset_bytes, sizeof(value));
    return value;
  }

  Status add_attribute(const Node& node, const AttrField& field) {
    if (node.attributes.data() == nullptr) return {};
    bp_image_attribute row{};
    row.struct_size = sizeof(row);
    row.id = field.id;
    bool is_default = false;
    switch (field.type) {
      case AttrType::kF64:
        row.kind = BP_IMAGE_ATTRIBUTE_F64;
        row.f64 = member<double>(node, field);
        is_default = row.f64 == field.default_f64;
        break;
      case AttrType::kI64s: {
        const auto list = member<bp_i64_span>(node, field);
        row.kind = BP_IMAGE_ATTRIBUTE_I64S;
        row.first = rows(BP_IMAGE_INTEGERS);
        row.count = list.count;
        for (uint64_t i = 0; i < list.count; ++i) add(BP_IMAGE_INTEGERS, list.ptr[i]);
        is_default =
            !field.required && std::equal(list.ptr, list.ptr + list.count,
                                          field.default_i64s.begin(), field.default_i64s.end());
        break;
      }
      case AttrType::kStr: {
        const auto text = member<bp_str>(node, field);
        if (std::string_view(text.ptr, text.len) == field.default_str) return {};
        [[fallthrough]];  // an image of this sketch holds numbers
      }
      case AttrType::kTensor:
        return Status(BP_UNSUPPORTED, "attribute " + std::string(field.name) + " of an image");
      default:
        row.kind = BP_IMAGE_ATTRIBUTE_I64;
        row.i64 = member<int64_t>(node, field);
        is_default = row.i64 == field.default_i64;
    }
    if (!is_default) add(BP_IMAGE_ATTRIBUTES, row);
    return {};
  }

  void lay_out() {
    bp_image head{};
    head.struct_size = sizeof(head);
    head.sections_offset = sizeof(head);
    head.section_stride_bytes = sizeof(bp_image_section);
    std::vector<bp_image_section> table;
    const auto has_rows = [](const Section& section) { return section.count > 0; };
    const auto used = std::count_if(sections_.begin(), sections_.end(), has_rows);
    uint64_t at = sizeof(head) + static_cast<uint64_t>(used) * sizeof(bp_image_section);
    for (uint32_t kind = 0; kind < sections_.size(); ++kind) {
      const Section& section = sections_[kind];
      if (section.count == 0) continue;
      table.push_back({sizeof(bp_image_section), 0, kind, section.stride, at, section.count});
      at += (section.bytes.size() + 7) / 8 * 8;
    }
    head.section_count = static_cast<uint32_t>(table.size());
    head.image_bytes = at;
    image_.words.assign(at / 8, 0);
    auto* const out = reinterpret_cast<std::byte*>(image_.words.data());
    std::memcpy(out, &head, sizeof(head));
    std::memcpy(out + sizeof(head), table.data(), table.size() * sizeof(table[0]));
    for (const bp_image_section& row : table) {
      const Section& section = sections_[row.kind];
      std::memcpy(out + row.offset, section.bytes.data(), section.bytes.size());
    }
  }

  const Graph& graph_;
  GraphImage image_;
  std::array<Section, BP_IMAGE_OUTPUTS + 1> sections_;
  int64_t symbols_ = 0;
};

}  // namespace

Result<GraphImage> write_image(const Graph& graph) { return Writer(graph).write(); }

}  // namespace bp
