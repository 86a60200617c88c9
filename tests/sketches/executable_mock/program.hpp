// SPDX-License-Identifier: Apache-2.0
//
// What the mock compiles an image to: nodes with their operator resolved and their attributes read,
// and values whose sizes are numbers or symbols. It has loops of its own; no kernel table is used.
#ifndef BACKPLANE_TESTS_SKETCHES_EXECUTABLE_MOCK_PROGRAM_HPP
#define BACKPLANE_TESTS_SKETCHES_EXECUTABLE_MOCK_PROGRAM_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/types.h"
#include "tests/sketches/executable_mock/image.hpp"

namespace bp::sketch {

using Sizes = std::vector<int64_t>;

struct Attribute {
  int64_t i64 = 0;
  double f64 = 0;
  Sizes i64s;
};

struct Symbol {
  std::string name;
  int64_t min;
  int64_t max;
};

struct ProgramValue {
  uint32_t dtype = BP_DTYPE_NONE;
  Sizes sizes;              // -2 - s: symbol s
  uint64_t constant_index;  // 0: none
};

/// An argument of a node in a run.
struct Array {
  Sizes sizes;
  std::byte* data = nullptr;

  float* f32() const { return reinterpret_cast<float*>(data); }
  int64_t* i64() const { return reinterpret_cast<int64_t*>(data); }
  int64_t count() const;
};

/// A bad index that a node met.
struct DataFault {
  uint32_t input = 0;
  int64_t index = 0;
  int64_t extent = 0;
  bool found = false;
};

struct ProgramNode;
/// args: inputs (data nullptr where absent), then outputs.
using Compute = void (*)(const ProgramNode& node, std::span<const Array> args, DataFault* fault);

struct ProgramNode {
  std::string name;
  std::string op;
  Compute compute = nullptr;
  bool can_fault = false;
  std::map<uint32_t, Attribute> attributes;  // by id; what is not there is at its default
  std::vector<uint32_t> values;              // inputs, then outputs; BP_IMAGE_NO_VALUE: absent
  uint32_t input_count = 0;

  int64_t i64(uint32_t id, int64_t fallback) const;
  double f64(uint32_t id, double fallback) const;
  Sizes i64s(uint32_t id, Sizes fallback) const;
};

struct Program {
  std::vector<Symbol> symbols;
  std::vector<ProgramValue> values;
  std::vector<ProgramNode> nodes;
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;

  bool can_fault() const;
  /// Sizes with symbols replaced. Throws for a symbol outside its range.
  Sizes sizes_of(uint32_t value, std::span<const int64_t> symbols) const;
  void check_symbols(std::span<const int64_t> symbols) const;
};

/// Everything of an image but its weights. A node that cannot be computed has no `compute`, and
/// the first reason is in *out_reason.
Program read_program(const Image& image, const char** out_reason);

/// The function for a node of this operator; *out_reason is set where there is none.
Compute find_compute(const Program& program, const ProgramNode& node, const char** out_reason);

}  // namespace bp::sketch

#endif
