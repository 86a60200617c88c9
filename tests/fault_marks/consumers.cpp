// SPDX-License-Identifier: Apache-2.0
//
// One row of each group: every way from a tensor to the host.
#include "tests/fault_marks/cells.hpp"

namespace bp::marks {
namespace {

using Values = World::Values;

Result<ValueId> node(Graph& graph, std::string_view op, std::vector<ValueId> inputs) {
  return graph.op(op, inputs);
}

/// Runs operators of one input, one after the other.
template <class... Names>
Result<std::vector<Ref<Tensor>>> run_chain(World& world, const Ref<Tensor>& x,
                                           const RunOptions& options, Names... names) {
  const auto build = [&](Graph& graph, const Values& in) -> Result<std::vector<ValueId>> {
    ValueId value = in.x;
    for (const char* name : {names...}) {
      BP_TRY_ASSIGN(value, node(graph, name, {value}));
    }
    return std::vector<ValueId>{value};
  };
  return world.run(build, x, options);
}

Result<Ref<Tensor>> first(Result<std::vector<Ref<Tensor>>> outputs) {
  BP_TRY(outputs);
  return (*outputs)[0];
}

Result<Ref<Tensor>> to_host(World&, const Ref<Tensor>& x) { return x; }

Result<Ref<Tensor>> kernel(World& world, const Ref<Tensor>& x) { return world.call("relu", {x}); }

Result<Ref<Tensor>> two_kernels(World& world, const Ref<Tensor>& x) {
  BP_TRY_ASSIGN(const Ref<Tensor> y, kernel(world, x));
  return world.call("add", {world.x(world.device()), y});
}

Result<Ref<Tensor>> many_kernels(World& world, const Ref<Tensor>& x) {
  const Ref<Tensor> other = world.x(world.device());  // an upload waits, so there is only this one
  Ref<Tensor> y = x;
  for (int i = 0; i < 100; ++i) {
    BP_TRY_ASSIGN(y, world.call("add", {y, other}));
  }
  return y;
}

Result<Ref<Tensor>> on_stream(World& world, const Ref<Tensor>& x) {
  return world.call("relu", {x}, &world.user_stream());
}

Result<Ref<Tensor>> there_and_back(World& world, const Ref<Tensor>& x) {
  BP_TRY_ASSIGN(const Ref<Tensor> y, on_stream(world, x));
  return world.call("relu", {y});
}

Result<Ref<Tensor>> view(World& world, const Ref<Tensor>& x) {
  return world.call("transpose", {x});
}

Result<Ref<Tensor>> strided_view(World&, const Ref<Tensor>& x) { return x->view({2}, {2}, 1); }

Result<Ref<Tensor>> kernel_of_view(World& world, const Ref<Tensor>& x) {
  return world.call("softmax", {x->view({2}, {2}, 1)});
}

Result<Ref<Tensor>> decomposed(World& world, const Ref<Tensor>& x) {
  return world.call("softmax", {x});
}

Result<Ref<Tensor>> fallback(World& world, const Ref<Tensor>& x) { return world.call("sqrt", {x}); }

Result<Ref<Tensor>> host_argument(World& world, const Ref<Tensor>& x) {
  BP_TRY_ASSIGN(const Ref<Tensor> sizes, world.call("cast", {x}, nullptr, world.to_i64()));
  return world.call("reshape", {world.x(world.device()), sizes});
}

Result<Ref<Tensor>> real_sizes(World& world, const Ref<Tensor>& x) {
  BP_TRY(world.call("non_zero", {x}));  // how many there are is known by now, and may be used
  return Ref<Tensor>();
}

Result<Ref<Tensor>> copy_here(World& world, const Ref<Tensor>& x) {
  const Ref<Tensor> target = world.upload(world.device(), {0, 0, 0, 0});
  BP_TRY(copy_into(x, target, true, world.device().default_stream()));
  return target;
}

Result<Ref<Tensor>> copy_there(World& world, const Ref<Tensor>& x) {
  return copy_to_device(x, world.other(), world.other().default_stream(), MemoryTag::kIo);
}

Result<Ref<Tensor>> kernel_there(World& world, const Ref<Tensor>& x) {
  BP_TRY_ASSIGN(const Ref<Tensor> there, copy_there(world, x));
  return world.call("relu", {there}, &world.other().default_stream());
}

Result<Ref<Tensor>> device_sync(World& world, const Ref<Tensor>&) {
  BP_TRY(world.device().sync());
  return Ref<Tensor>();
}

Result<Ref<Tensor>> session(World& world, const Ref<Tensor>& x) {
  return first(run_chain(world, x, {}, "relu"));
}

Result<Ref<Tensor>> session_view(World& world, const Ref<Tensor>& x) {
  return first(run_chain(world, x, {}, "transpose"));
}

Result<Ref<Tensor>> session_fallback(World& world, const Ref<Tensor>& x) {
  return first(run_chain(world, x, {}, "sqrt"));
}

Result<Ref<Tensor>> session_fallback_late(World& world, const Ref<Tensor>& x) {
  return first(run_chain(world, x, {}, "relu", "sqrt"));
}

Result<Ref<Tensor>> session_fallback_between(World& world, const Ref<Tensor>& x) {
  return first(run_chain(world, x, {}, "relu", "sqrt", "relu"));
}

Result<Ref<Tensor>> session_decomposed(World& world, const Ref<Tensor>& x) {
  return first(run_chain(world, x, {}, "softmax"));
}

Result<Ref<Tensor>> session_real_sizes(World& world, const Ref<Tensor>& x) {
  BP_TRY(run_chain(world, x, {}, "non_zero"));
  return Ref<Tensor>();
}

Result<Ref<Tensor>> session_segments(World& world, const Ref<Tensor>& x) {
  return first(run_chain(world, x, {}, "relu", "non_zero", "identity"));
}

Result<Ref<Tensor>> session_host_argument(World& world, const Ref<Tensor>& x) {
  const auto build = [&](Graph& graph, const Values& in) -> Result<std::vector<ValueId>> {
    const ValueId only[] = {in.x};
    BP_TRY_ASSIGN(const ValueId sizes, graph.op("cast", only, world.to_i64()));
    BP_TRY_ASSIGN(const ValueId y, node(graph, "reshape", {in.healthy, sizes}));
    return std::vector<ValueId>{y};
  };
  return first(world.run(build, x));
}

Result<Ref<Tensor>> session_beside_innocent(World& world, const Ref<Tensor>& x) {
  const auto build = [](Graph& graph, const Values& in) -> Result<std::vector<ValueId>> {
    BP_TRY_ASSIGN(const ValueId y, node(graph, "relu", {in.x}));
    BP_TRY_ASSIGN(const ValueId innocent, node(graph, "relu", {in.healthy}));
    return std::vector<ValueId>{y, innocent};
  };
  BP_TRY_ASSIGN(const std::vector<Ref<Tensor>> outputs, world.run(build, x));
  if (!read(outputs[1]).ok()) return Status(BP_INTERNAL, "an output was accused that has no fault");
  return outputs[0];
}

Result<Ref<Tensor>> session_bound(World& world, const Ref<Tensor>& x) {
  const Ref<Tensor> bound[] = {world.upload(world.device(), {0, 0, 0, 0})};
  return first(run_chain(world, x, {.outputs = bound}, "relu"));
}

Result<Ref<Tensor>> session_bound_there(World& world, const Ref<Tensor>& x) {
  const Ref<Tensor> bound[] = {world.upload(world.other(), {0, 0, 0, 0})};
  return first(run_chain(world, x, {.outputs = bound}, "relu"));
}

/// The application reads its own memory, so the run has to say it.
template <class... Names>
Result<Ref<Tensor>> run_into_host(World& world, const Ref<Tensor>& x, Names... names) {
  void* data = nullptr;
  BP_TRY_ASSIGN(HostTensor host, HostTensor::allocate(BP_DTYPE_F32, {4}, &data));
  const Ref<Tensor> bound[] = {Tensor::wrap_host(std::move(host))};
  BP_TRY(run_chain(world, x, {.outputs = bound}, names...));
  return Ref<Tensor>();
}

Result<Ref<Tensor>> session_bound_host(World& world, const Ref<Tensor>& x) {
  return run_into_host(world, x, "relu");
}

Result<Ref<Tensor>> session_bound_host_fallback(World& world, const Ref<Tensor>& x) {
  return run_into_host(world, x, "relu", "sqrt");
}

template <class... Names>
Result<Ref<Tensor>> run_stoppable(World& world, const Ref<Tensor>& x, Names... names) {
  const std::atomic<bool> never{false};
  const RunControl control{.cancelled = &never};
  BP_TRY(run_chain(world, x, {.control = &control}, names...));
  return Ref<Tensor>();
}

Result<Ref<Tensor>> future(World& world, const Ref<Tensor>& x) {
  return run_stoppable(world, x, "relu");
}

Result<Ref<Tensor>> future_fallback(World& world, const Ref<Tensor>& x) {
  return run_stoppable(world, x, "relu", "sqrt");
}

Result<Ref<Tensor>> second_session(World& world, const Ref<Tensor>& x) {
  BP_TRY_ASSIGN(const Ref<Tensor> y, session(world, x));
  return session(world, y);
}

}  // namespace

const std::vector<Consumer>& consumers() {
  static const std::vector<Consumer> kConsumers = {
      {"to_host", to_host},
      {"kernel", kernel},
      {"two_kernels", two_kernels},
      {"many_kernels", many_kernels},
      {"on_stream", on_stream},
      {"there_and_back", there_and_back},
      {"view", view},
      {"strided_view", strided_view},
      {"kernel_of_view", kernel_of_view},
      {"decomposed", decomposed},
      {"fallback", fallback},
      {"host_argument", host_argument},
      {"real_sizes", real_sizes},
      {"copy_here", copy_here},
      {"copy_there", copy_there},
      {"kernel_there", kernel_there},
      {"device_sync", device_sync},
      {"session", session},
      {"session_view", session_view},
      {"session_fallback", session_fallback},
      {"session_fallback_late", session_fallback_late},
      {"session_fallback_between", session_fallback_between},
      {"session_decomposed", session_decomposed},
      {"session_real_sizes", session_real_sizes},
      {"session_segments", session_segments},
      {"session_host_argument", session_host_argument},
      {"session_beside_innocent", session_beside_innocent},
      {"session_bound", session_bound},
      {"session_bound_there", session_bound_there},
      {"session_bound_host", session_bound_host},
      {"session_bound_host_fallback", session_bound_host_fallback},
      {"future", future},
      {"future_fallback", future_fallback},
      {"second_session", second_session}};
  return kConsumers;
}

}  // namespace bp::marks
