// SPDX-License-Identifier: Apache-2.0
//
// One row group of the table each: where the faulty lookup runs, and how its result gets here.
#include "tests/fault_marks/cells.hpp"

namespace bp::marks {
namespace {

using Outputs = Result<std::vector<ValueId>>;
using Values = World::Values;

Result<ValueId> gather(Graph& graph, const Values& in) {
  const ValueId inputs[] = {in.x, in.indices};
  return graph.op("gather", inputs);
}

Result<ValueId> unary(Graph& graph, std::string_view op, ValueId value) {
  const ValueId inputs[] = {value};
  return graph.op(op, inputs);
}

/// Outputs stay where they were made, which may be another device.
Result<Ref<Tensor>> move_here(World& world, const Ref<Tensor>& output) {
  return copy_to_device(output, world.device(), world.device().default_stream(), MemoryTag::kIo);
}

Result<Ref<Tensor>> first(World& world, const World::Build& build, const RunOptions& options = {}) {
  BP_TRY_ASSIGN(const std::vector<Ref<Tensor>> outputs, world.run(build, nullptr, options));
  return move_here(world, outputs[0]);
}

Outputs only_gather(Graph& graph, const Values& in) {
  BP_TRY_ASSIGN(const ValueId y, gather(graph, in));
  return std::vector<ValueId>{y};
}

Outputs gather_then_relu(Graph& graph, const Values& in) {
  BP_TRY_ASSIGN(const ValueId picked, gather(graph, in));
  BP_TRY_ASSIGN(const ValueId y, unary(graph, "relu", picked));
  return std::vector<ValueId>{y};
}

Outputs gather_beside_relu(Graph& graph, const Values& in) {
  BP_TRY_ASSIGN(const ValueId y, gather(graph, in));
  BP_TRY_ASSIGN(const ValueId innocent, unary(graph, "relu", in.healthy));
  return std::vector<ValueId>{y, innocent};
}

/// How many elements there are ends the first segment; the second one uses what the first looked
/// up.
Outputs gather_in_the_first_segment(Graph& graph, const Values& in) {
  BP_TRY_ASSIGN(const ValueId picked, gather(graph, in));
  BP_TRY_ASSIGN(const ValueId places, unary(graph, "non_zero", in.healthy));
  BP_TRY_ASSIGN(const ValueId ends_it, unary(graph, "identity", places));
  BP_TRY_ASSIGN(const ValueId y, unary(graph, "relu", picked));
  return std::vector<ValueId>{y, ends_it};
}

Result<Ref<Tensor>> eager(World& world) {
  return world.call("gather", {world.x(world.device()), world.indices(world.device())});
}

Result<Ref<Tensor>> eager_on_stream(World& world) {
  return world.call("gather", {world.x(world.device()), world.indices(world.device())},
                    &world.user_stream());
}

Result<Ref<Tensor>> eager_elsewhere(World& world) {
  BP_TRY_ASSIGN(Ref<Tensor> there,
                world.call("gather", {world.x(world.other()), world.indices(world.other())},
                           &world.other().default_stream()));
  return copy_to_device(there, world.device(), world.device().default_stream(), MemoryTag::kIo);
}

Result<Ref<Tensor>> eager_then_non_zero(World& world) {
  BP_TRY_ASSIGN(const Ref<Tensor> picked, eager(world));
  return world.call("non_zero", {picked});
}

Result<Ref<Tensor>> eager_then_decomposed(World& world) {
  BP_TRY_ASSIGN(const Ref<Tensor> picked, eager(world));
  return world.call("softmax", {picked});
}

Result<Ref<Tensor>> plan(World& world) { return first(world, only_gather); }

Result<Ref<Tensor>> plan_inside(World& world) { return first(world, gather_then_relu); }

Result<Ref<Tensor>> plan_beside_innocent(World& world) {
  BP_TRY_ASSIGN(const std::vector<Ref<Tensor>> outputs, world.run(gather_beside_relu, nullptr));
  if (!read(outputs[1]).ok()) return Status(BP_INTERNAL, "an output was accused that has no fault");
  return move_here(world, outputs[0]);
}

Result<Ref<Tensor>> plan_earlier_segment(World& world) {
  return first(world, gather_in_the_first_segment);
}

Result<Ref<Tensor>> plan_bound(World& world) {
  const Ref<Tensor> target = world.upload(world.device(), {0, 0, 0, 0});
  const Ref<Tensor> bound[] = {target};
  return first(world, only_gather, {.outputs = bound});
}

Result<Ref<Tensor>> plan_stoppable(World& world) {
  const std::atomic<bool> never{false};
  const RunControl control{.cancelled = &never};
  return first(world, only_gather, {.control = &control});
}

Result<Ref<Tensor>> view_of_gather(World& world) {
  BP_TRY_ASSIGN(const Ref<Tensor> picked, eager(world));
  return world.call("transpose", {picked});
}

Result<Ref<Tensor>> copy_of_gather(World& world) {
  BP_TRY_ASSIGN(const Ref<Tensor> picked, eager(world));
  const Ref<Tensor> target = world.upload(world.device(), {0, 0, 0, 0});
  BP_TRY(copy_into(picked, target, true, world.device().default_stream()));
  return target;
}

}  // namespace

const std::vector<Producer>& producers() {
  static const std::vector<Producer> kProducers = {
      {"eager", eager, ""},
      {"eager_on_stream", eager_on_stream, ""},
      {"eager_fallback", eager, ",gather"},
      {"eager_elsewhere", eager_elsewhere, ""},
      {"eager_then_non_zero", eager_then_non_zero, ""},
      {"eager_then_decomposed", eager_then_decomposed, ""},
      {"eager_view", view_of_gather, ""},
      {"eager_copy", copy_of_gather, ""},
      {"plan", plan, ""},
      {"plan_fallback", plan, ",gather"},
      {"plan_inside", plan_inside, ""},
      {"plan_beside_innocent", plan_beside_innocent, ""},
      {"plan_earlier_segment", plan_earlier_segment, ""},
      {"plan_bound", plan_bound, ""},
      {"plan_stoppable", plan_stoppable, ""}};
  return kProducers;
}

}  // namespace bp::marks
