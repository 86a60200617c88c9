// SPDX-License-Identifier: Apache-2.0
//
// From image rows to a program.
#include "tests/sketches/executable_mock/program.hpp"

namespace bp::sketch {
namespace {

constexpr uint64_t kMostRows = 1 << 20;

Attribute read_attribute(const Image& image, const bp_image_attribute& row) {
  Attribute attribute{.i64 = row.i64, .f64 = row.f64, .i64s = {}};
  if (row.kind == BP_IMAGE_ATTRIBUTE_I64S) {
    if (row.count > BP_MAX_RANK * 2) sdk::refuse("an attribute of ", row.count, " integers");
    for (uint64_t i = 0; i < row.count; ++i) attribute.i64s.push_back(image.integer(row.first + i));
  }
  return attribute;
}

ProgramValue read_value(const Image& image, uint64_t index, uint64_t symbol_count) {
  const auto row = image.row<bp_image_value>(BP_IMAGE_VALUES, index);
  if (row.rank > BP_MAX_RANK) sdk::refuse("a value of rank ", row.rank);
  ProgramValue value{.dtype = row.dtype, .sizes = {}, .constant_index = row.constant_index};
  for (uint32_t d = 0; d < row.rank; ++d) {
    const int64_t size = image.integer(row.sizes_first + d);
    if (size < -1 && static_cast<uint64_t>(-2 - size) >= symbol_count) {
      sdk::refuse("a value has symbol ", -2 - size, "; there are ", symbol_count);
    }
    value.sizes.push_back(size);
  }
  return value;
}

ProgramNode read_node(const Image& image, uint64_t index, uint64_t value_count) {
  const auto row = image.row<bp_image_node>(BP_IMAGE_NODES, index);
  ProgramNode node;
  node.name = image.text(row.name_offset, row.name_bytes);
  node.op = image.text(row.op_offset, row.op_bytes);
  node.input_count = row.input_count;
  const uint64_t count = uint64_t{row.input_count} + row.output_count;
  if (count > kMostRows || row.attribute_count > kMostRows) sdk::refuse("a node with ", count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t id = image.value_id(BP_IMAGE_VALUE_IDS, row.values_first + i);
    const bool is_absent_input = id == BP_IMAGE_NO_VALUE && i < row.input_count;
    if (id >= value_count && !is_absent_input) sdk::refuse("a node with value ", id);
    node.values.push_back(id);
  }
  for (uint64_t i = 0; i < row.attribute_count; ++i) {
    const auto attribute =
        image.row<bp_image_attribute>(BP_IMAGE_ATTRIBUTES, row.attributes_first + i);
    node.attributes[attribute.id] = read_attribute(image, attribute);
  }
  return node;
}

/// Who reads a value must find it made before; the mock trusts no order that it has not seen.
void check_order(const Program& program) {
  std::vector<bool> made(program.values.size());
  for (size_t i = 0; i < made.size(); ++i) made[i] = program.values[i].constant_index != 0;
  for (const uint32_t id : program.inputs) made[id] = true;
  for (const ProgramNode& node : program.nodes) {
    for (size_t i = 0; i < node.values.size(); ++i) {
      const uint32_t id = node.values[i];
      if (id == BP_IMAGE_NO_VALUE) continue;
      const bool is_output = i >= node.input_count;
      if (made[id] == is_output) sdk::refuse("node '", node.name, "': value ", id, " out of order");
      made[id] = true;
    }
  }
  for (const uint32_t id : program.outputs) {
    if (!made[id]) sdk::refuse("output value ", id, " is never made");
  }
}

std::vector<uint32_t> read_ids(const Image& image, uint32_t kind, uint64_t value_count) {
  std::vector<uint32_t> ids;
  for (uint64_t i = 0; i < image.count(kind); ++i) {
    ids.push_back(image.value_id(kind, i));
    if (ids.back() >= value_count) sdk::refuse("an input or output with value ", ids.back());
  }
  return ids;
}

}  // namespace

int64_t Array::count() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

int64_t ProgramNode::i64(uint32_t id, int64_t fallback) const {
  const auto found = attributes.find(id);
  return found == attributes.end() ? fallback : found->second.i64;
}

double ProgramNode::f64(uint32_t id, double fallback) const {
  const auto found = attributes.find(id);
  return found == attributes.end() ? fallback : found->second.f64;
}

Sizes ProgramNode::i64s(uint32_t id, Sizes fallback) const {
  const auto found = attributes.find(id);
  return found == attributes.end() || found->second.i64s.empty() ? fallback : found->second.i64s;
}

bool Program::can_fault() const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const ProgramNode& node) { return node.can_fault; });
}

void Program::check_symbols(std::span<const int64_t> values_of_symbols) const {
  if (values_of_symbols.size() != symbols.size()) {
    sdk::refuse(values_of_symbols.size(), " symbols; expected ", symbols.size());
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    const int64_t value = values_of_symbols[i];
    if (value < symbols[i].min || value > symbols[i].max) {
      sdk::refuse("symbol ", symbols[i].name, " is ", value, "; expected ", symbols[i].min, " to ",
                  symbols[i].max);
    }
  }
}

Sizes Program::sizes_of(uint32_t value, std::span<const int64_t> values_of_symbols) const {
  Sizes sizes = values[value].sizes;
  for (int64_t& size : sizes) {
    if (size < 0) size = values_of_symbols[static_cast<size_t>(-2 - size)];
  }
  return sizes;
}

Program read_program(const Image& image, const char** out_reason) {
  for (const uint32_t kind : {BP_IMAGE_VALUES, BP_IMAGE_NODES, BP_IMAGE_SYMBOLS}) {
    if (image.count(kind) > kMostRows) sdk::refuse("an image of ", image.count(kind), " rows");
  }
  Program program;
  const uint64_t symbol_count = image.count(BP_IMAGE_SYMBOLS);
  const uint64_t value_count = image.count(BP_IMAGE_VALUES);
  for (uint64_t i = 0; i < symbol_count; ++i) {
    const auto row = image.row<bp_image_symbol>(BP_IMAGE_SYMBOLS, i);
    const std::string_view name = image.text(row.name_offset, row.name_bytes);
    program.symbols.push_back({std::string(name), std::max<int64_t>(row.min, 0), row.max});
  }
  for (uint64_t i = 0; i < value_count; ++i) {
    program.values.push_back(read_value(image, i, symbol_count));
  }
  for (uint64_t i = 0; i < image.count(BP_IMAGE_NODES); ++i) {
    program.nodes.push_back(read_node(image, i, value_count));
  }
  program.inputs = read_ids(image, BP_IMAGE_INPUTS, value_count);
  program.outputs = read_ids(image, BP_IMAGE_OUTPUTS, value_count);
  check_order(program);
  *out_reason = nullptr;
  for (ProgramNode& node : program.nodes) {
    const char* reason = nullptr;
    node.compute = find_compute(program, node, &reason);
    node.can_fault = node.op == "gather";
    if (*out_reason == nullptr) *out_reason = reason;
  }
  return program;
}

}  // namespace bp::sketch
