// SPDX-License-Identifier: Apache-2.0
//
// What the core knows of operators: the types OpSchema and OpRegistry. The rows come from ops/,
// which registers them by one explicit call; no operator's name stands in the core.
#ifndef BACKPLANE_CORE_OP_SCHEMA_HPP
#define BACKPLANE_CORE_OP_SCHEMA_HPP

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/dims.hpp"
#include "core/base/status.hpp"

namespace bp {

class GraphBuilder;  // graph_builder.hpp; decompositions use one

/// Interned operator: its index in the registry. Stable within a Runtime only.
using OpId = uint32_t;

enum class AttrType : uint32_t { kI64, kF64, kBool, kDtype, kStr, kI64s, kTensor };

/// One member of a bp_attrs_<op> struct. Every type takes a multiple of 8 bytes: i64, bool and
/// dtype are int64_t, f64 is double, str is bp_str, i64s is bp_i64_span, tensor is
/// const bp_tensor* (contiguous host memory).
struct AttrField {
  std::string_view name;
  uint32_t id;
  uint32_t since;
  AttrType type;
  uint32_t offset_bytes;
  bool required;
  int64_t default_i64 = 0;  // kI64, kBool, kDtype
  double default_f64 = 0;
  std::string_view default_str = {};
  std::span<const int64_t> default_i64s = {};
};

enum class HostNeed : uint32_t { kNone, kInfer };

struct ArgSchema {
  std::string_view name;
  uint32_t id;
  uint32_t since;
  int32_t type_var;      // index into OpSchema::type_vars; -1: fixed or from an attribute
  uint32_t fixed_dtype;  // if type_var < 0 and type_attr < 0
  int32_t type_attr;     // index into OpSchema::attrs whose value gives the dtype; -1: none
  bool optional;
  bool variadic;
  HostNeed host;
  int32_t count_attr = -1;  // of a variadic output: index of the i64 attribute that counts them
};

/// The most outputs that an attribute may ask for.
inline constexpr int64_t kMaxOutputs = 65535;

struct TypeVar {
  std::string_view name;
  uint64_t dtype_mask;
};

/// An argument or result as inference sees it. Sizes may be unknown or symbols (dims.hpp).
struct TensorType {
  uint32_t dtype = BP_DTYPE_NONE;  // NONE: absent optional argument
  bool has_rank = true;            // false: even the rank is not known, and sizes is empty
  Dims sizes;
};

struct InferContext {
  std::span<const TensorType> inputs;
  /// Contiguous values of host arguments, where known; else nullptr. Same indices as inputs.
  std::span<const void* const> host_data;
  const void* attributes;  // bp_attrs_<op>; nullptr: none
};

/// Fills the outputs (as many as output_count() says). Pure. Errors: INVALID_ARGUMENT naming the
/// input or attribute, what was expected and what was found; dtypes against the type variables are
/// checked by the caller before, and output dtypes are already filled in.
using InferFn = Status (*)(const InferContext& context, std::span<TensorType> out_types);

/// The strides of y over x's memory; `out_offset` in elements.
struct ViewResult {
  bool possible = false;
  Dims strides;
  int64_t offset = 0;
};
/// Whether output `out` (already inferred, sizes known) can alias input 0, whose sizes are known,
/// and whose strides are these. Not possible where a host value that the view needs is not there.
using ViewFn = ViewResult (*)(const InferContext& call, const Dims& x_strides,
                              const Dims& out_sizes);

/// Builds the operator from simpler ones. `graph` is empty; its outputs are to be set, and its
/// inputs made like the types in `context`: one for each input that is there, in order, and none
/// for absent ones. UNSUPPORTED where it does not apply to these types.
using DecomposeFn = Status (*)(const InferContext& context, GraphBuilder* graph);

/// The call that does the work of an operator and of the reader of its output; nullopt: there is
/// none. Pure. See absorb.hpp.
struct AbsorbContext;
struct Absorbed;
using AbsorbFn = std::optional<Absorbed> (*)(const AbsorbContext& context);

/// One operator. All texts and spans are static data of the registering library.
struct OpSchema {
  std::string_view name;
  uint32_t id;       // from the source, fixed for ever
  uint32_t version;  // the newest
  std::span<const TypeVar> type_vars;
  std::span<const ArgSchema> inputs;
  std::span<const ArgSchema> outputs;
  std::span<const AttrField> attrs;
  uint32_t attrs_bytes;  // sizeof(bp_attrs_<op>); 0: no attributes
  bool primitive;  // devices are expected to have it; decompositions end in these and in views
  bool extents;    // output sizes from inference are upper bounds
  bool constant;   // its value is its attribute: folded always, never dispatched
  bool of_types;   // its value follows from its inputs' types: it decomposes into constants
  InferFn infer;
  ViewFn view;            // nullptr: never a view
  DecomposeFn decompose;  // nullptr: never; a primitive may have one
  AbsorbFn absorb;        // nullptr: never

  /// How many of a call's inputs are left without the absent ones at its end that came after the
  /// first version: a kernel of that one need not know that there are more.
  template <class Input>
  size_t told_input_count(std::span<const Input> given, Input absent) const {
    size_t count = given.size();
    while (count > 0 && count <= inputs.size() && given[count - 1] == absent &&
           inputs[count - 1].since > 1) {
      --count;
    }
    return count;
  }

  /// The argument that input `index` of a call is: the last one repeats if it is variadic.
  const ArgSchema& input(size_t index) const {
    return inputs[index < inputs.size() ? index : inputs.size() - 1];
  }
  /// The same of outputs.
  const ArgSchema& output(size_t index) const {
    return outputs[index < outputs.size() ? index : outputs.size() - 1];
  }
  /// An attribute says how many outputs a call has; else there are as many as `outputs`.
  bool counts_outputs() const { return !outputs.empty() && outputs.back().variadic; }
};

class OpRegistry {
 public:
  /// Ids are handed out from 1 on, so that one is found by a look into an array.
  static constexpr uint32_t kMaxSourceId = 65535;

  /// Errors: INVALID_ARGUMENT for a name or id already there, or an id above kMaxSourceId.
  Status add(const OpSchema& schema);
  const OpSchema& schema(OpId op) const { return schemas_[op]; }
  /// nullopt: no such operator.
  std::optional<OpId> find(std::string_view name) const;
  std::optional<OpId> find_by_source_id(uint32_t id) const {
    const OpId op = id < by_source_id_.size() ? by_source_id_[id] : kNoOp;
    return op != kNoOp ? std::optional(op) : std::nullopt;
  }
  /// The operator whose kernel makes strided tensors contiguous: the primitive that is a view.
  std::optional<OpId> copy_op() const;
  size_t size() const { return schemas_.size(); }
  std::vector<std::string> names() const;

 private:
  std::vector<OpSchema> schemas_;
  std::unordered_map<std::string_view, OpId> by_name_;
  static constexpr OpId kNoOp = ~OpId{0};
  std::vector<OpId> by_source_id_;  // kNoOp: none
};

/// How many outputs a call with these attributes (nullptr: the defaults) has. Errors:
/// INVALID_ARGUMENT for attributes that are wrong, where the number depends on them.
Result<size_t> output_count(const OpSchema& schema, const void* attributes);

/// Checks dtypes against type variables, fills output dtypes, then runs the schema's inference.
/// `out_types` is resized to the outputs. Errors name the operator and the argument.
Status infer_types(const OpSchema& schema, const InferContext& context,
                   std::vector<TensorType>* out_types);

/// infer_types() of an operator with `extents`: of its outputs only what no values and no sizes of
/// its inputs change, -1 (or no rank) for the rest.
Status infer_sure_types(const OpSchema& schema, const InferContext& context,
                        std::vector<TensorType>* out_types);

/// INVALID_ARGUMENT for sizes beyond which something later would overflow: byte counts, strides,
/// windows. The limit is on their checked_product().
Status check_sizes(const TensorType& type);

}  // namespace bp

#endif
