// SPDX-License-Identifier: Apache-2.0
//
// Devices of this build, native and emulated; absent ones are columns that are not run.
#include "tests/fault_marks/world.hpp"

#include <array>

#include "ops/register.hpp"
#include "tests/plugins.hpp"

namespace bp::marks {
namespace {

constexpr std::string_view kOtherDevice = "npu:1";

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> kTargets = [] {
    std::vector<Target> all;
    for (const std::string& id : tests::plugin_ids()) all.push_back({id, id + ":0", {}, ""});
    all.push_back({"npu_emulated", "npu:0", {{"npu.async", "false"}}, ""});
    all.push_back({"npu_serial", "npu:0", {{"npu.concurrent", "false"}}, ""});
    // What gathers in a plan is then a third device.
    all.push_back({"npu_xpu", "npu:0", {{"npu.kernels", "gather,non_zero"}}, "xpu:0"});
    return all;
  }();
  return kTargets;
}

Result<World> World::open(const Target& target, const std::string& host_ops) {
  RuntimeArgs args;
  args.register_ops = register_ops;
  args.install_directory = BP_PLUGIN_DIR;
  args.options = {{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_HOST_OPS", "sqrt" + host_ops}};
  args.plugin_options = {{"npu.devices", "2"}};
  for (const OptionSetting& option : target.plugin_options) args.plugin_options.push_back(option);
  World world;
  BP_TRY_ASSIGN(world.runtime_, Runtime::create(args));
  BP_TRY_ASSIGN(world.device_, world.runtime_->find_device(target.device));
  BP_TRY_ASSIGN(world.other_, world.runtime_->find_device(kOtherDevice));
  if (!target.fallback.empty()) {
    BP_TRY_ASSIGN(Device * fallback, world.runtime_->find_device(target.fallback));
    BP_TRY_ASSIGN(Device * host, world.runtime_->find_device("cpu:0"));
    world.fallbacks_ = {fallback, host};
  }
  BP_TRY_ASSIGN(world.user_stream_, world.device_->acquire_stream());
  return world;
}

Ref<Tensor> World::upload(Device& device, const std::vector<float>& values) {
  const Dims sizes{static_cast<int64_t>(values.size())};
  auto tensor =
      copy_from_host(device.default_stream(), BP_DTYPE_F32, sizes, values.data(), MemoryTag::kIo);
  return tensor.ok() ? *tensor : nullptr;
}

Ref<Tensor> World::indices(Device& device) {
  constexpr std::array<int64_t, 4> kIndices = {1, 99, 0, 2};
  auto tensor =
      copy_from_host(device.default_stream(), BP_DTYPE_I64, {4}, kIndices.data(), MemoryTag::kIo);
  return tensor.ok() ? *tensor : nullptr;
}

Result<Ref<Tensor>> World::call(std::string_view op, std::vector<Ref<Tensor>> inputs,
                                Stream* stream, const Attributes& attributes) {
  std::vector<Tensor*> pointers;
  for (const Ref<Tensor>& input : inputs) pointers.push_back(input.get());
  Ref<Tensor> output;
  const CallArgs args{.op = *runtime_->registry().find(op),
                      .inputs = pointers,
                      .attributes = attributes.data(),
                      .stream = stream,
                      .device = device_};
  BP_TRY(bp::call(*runtime_, args, {&output, 1}));
  return output;
}

Attributes World::to_i64() {
  Attributes attributes(runtime_->registry().schema(*runtime_->registry().find("cast")));
  [[maybe_unused]] const Status set = attributes.set_i64("to", BP_DTYPE_I64);
  return attributes;
}

Result<std::vector<Ref<Tensor>>> World::run(const Build& build, Ref<Tensor> first,
                                            const RunOptions& options) {
  Graph graph(runtime_->registry());
  Values values{};
  BP_TRY_ASSIGN(values.x, graph.add_input("x", {BP_DTYPE_F32, true, {4}}));
  BP_TRY_ASSIGN(values.indices, graph.add_input("indices", {BP_DTYPE_I64, true, {4}}));
  BP_TRY_ASSIGN(values.healthy, graph.add_input("healthy", {BP_DTYPE_F32, true, {4}}));
  BP_TRY_ASSIGN(const std::vector<ValueId> outputs, build(graph, values));
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs.size(); ++i) names.push_back("y" + std::to_string(i));
  BP_TRY(graph.set_outputs(outputs, names));
  SessionArgs args;
  args.device = device_;
  args.fallbacks = fallbacks_;
  BP_TRY_ASSIGN(const Ref<Session> session, Session::create(*runtime_, std::move(graph), args));
  const NamedTensor inputs[] = {
      {"x", first ? first : x(*device_)}, {"indices", indices(*device_)}, {"healthy", x(*device_)}};
  sessions_.push_back(session);
  return session->run(inputs, options);
}

Status read(const Ref<Tensor>& tensor) { return copy_to_host(tensor).status(); }

}  // namespace bp::marks
