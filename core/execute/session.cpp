// SPDX-License-Identifier: Apache-2.0
//
// A session's life: clean the graph, find or make the segments' plans.
#include "core/execute/session.hpp"

#include <algorithm>
#include <functional>

#include "core/base/dtype.hpp"
#include "core/dispatch/call.hpp"
#include "core/execute/default_inputs.hpp"
#include "core/execute/packed_weights.hpp"
#include "core/execute/run_context.hpp"
#include "core/passes/passes.hpp"
#include "core/plan/planner.hpp"

namespace bp {

Session::Session(Runtime& runtime, Graph graph, const SessionArgs& args,
                 std::shared_ptr<MemoryBudget> budget)
    : runtime_(&runtime),
      graph_(std::move(graph)),
      device_(args.device),
      fallback_chosen_(!args.fallbacks.empty()),
      deterministic_(args.deterministic),
      budget_(std::move(budget)),
      max_contexts_(std::max(args.max_contexts, 1u)) {}

Session::~Session() = default;

Result<Ref<Session>> Session::create(Runtime& runtime, Graph graph, const SessionArgs& args) {
  if (args.device == nullptr) return Status(BP_INVALID_ARGUMENT, "a session needs a device");
  auto budget = args.budget;
  if (budget == nullptr) budget = std::make_shared<MemoryBudget>(args.memory_limit_bytes);
  return create_within(runtime, std::move(graph), args, std::move(budget));
}

Result<Ref<Session>> Session::create_within(Runtime& runtime, Graph graph, const SessionArgs& args,
                                            std::shared_ptr<MemoryBudget> budget) {
  BP_TRY(args.device->check_open());
  auto session =
      Ref<Session>::adopt(new Session(runtime, std::move(graph), args, std::move(budget)));
  BP_TRY(session->choose_devices(args));
  BP_TRY(session->prepare(args));
  BP_TRY(session->plan_ahead());
  return session;
}

Status Session::choose_devices(const SessionArgs& args) {
  devices_ = {device_};
  // Behind the chosen one: a value that is on both is fetched from the host.
  if (Device* host = runtime_->host_device(); host != nullptr) {
    if (host != device_) devices_.push_back(host);
    host_ = static_cast<PlanDevice>(devices_.size() - 1);
  }
  for (Device* device : args.fallbacks) {
    BP_TRY(device->check_open());
    const bool twice =
        device == device_ || std::count(args.fallbacks.begin(), args.fallbacks.end(), device) > 1;
    if (twice) return Status(BP_INVALID_ARGUMENT, device->name() + " is listed twice");
    if (&device->runtime() != &*runtime_) {
      return Status(BP_INVALID_ARGUMENT, device->name() + " is of another Runtime");
    }
    const auto listed = std::find(devices_.begin(), devices_.end(), device);
    fallbacks_.push_back(static_cast<PlanDevice>(listed - devices_.begin()));
    if (listed == devices_.end()) devices_.push_back(device);
  }
  if (!fallback_chosen_ && host_ != kNoPlanDevice) fallbacks_.push_back(host_);
  return {};
}

Status Session::prepare(const SessionArgs& args) {
  if (!graph_.default_inputs().empty()) {
    default_inputs_ = std::make_unique<DefaultInputs>(graph_, args);
    BP_TRY_ASSIGN(graph_, graph_.with_default_inputs({}));
  }
  BP_TRY(set_dims(args));
  BP_TRY(fold_and_clean());
  BP_TRY(check_dim_ranges());
  for (const Value& value : graph_.values()) {
    if (value.constant != nullptr) own_constants_.emplace(value.constant.get(), value.constant);
  }
  describe_io();
  last_use_.assign(graph_.values().size(), 0);
  for (NodeId id = 0; id < graph_.nodes().size(); ++id) {
    for (const ValueId value : graph_.node(id).inputs) {
      if (value != kNoValue) last_use_[value] = id + 1;
    }
  }
  for (const ValueId value : graph_.outputs()) last_use_[value] = kNoNode;
  return {};
}

Status Session::fold_and_clean() {
  PassOptions options;
  if (runtime_->host_device() != nullptr) {
    options.fold = std::bind_front(&Session::fold, this);
  }
  options.has_kernel = [this](OpId op, std::span<const TensorType> inputs,
                              std::span<const TensorType> outputs, const Attributes& attributes) {
    return Dispatcher::of(*device_).has_kernel(
        op, inputs, outputs, attributes, {.deterministic = deterministic_},
        [this](int64_t size) { return range_of(graph_, size); });
  };
  return run_passes(&graph_, options);
}

Result<std::vector<HostTensor>> Session::fold(const Node& node,
                                              std::span<const HostTensor* const> values) {
  std::vector<Ref<Tensor>> inputs;
  std::vector<Tensor*> pointers;
  for (const HostTensor* value : values) {
    inputs.emplace_back();
    if (value != nullptr) {
      BP_TRY_ASSIGN(HostTensor aligned, value->aligned());
      inputs.back() = Tensor::wrap_host(std::move(aligned));
    }
    pointers.push_back(inputs.back().get());
  }
  std::vector<Ref<Tensor>> outputs(node.outputs.size());
  const CallArgs args{.op = node.op,
                      .inputs = pointers,
                      .attributes = node.attributes.data(),
                      .stream = nullptr,
                      .device = runtime_->host_device(),
                      .deterministic = deterministic_};
  BP_TRY(call(*runtime_, args, outputs));
  return copy_to_host(outputs);
}

Result<std::shared_ptr<const Segment>> Session::segment_for(const PlanPoint& point,
                                                            const RunContext& context) {
  if (auto known = plans_.find(point)) return known;
  PlanRequest request{.graph = graph_,
                      .first = point.first,
                      .devices = devices_,
                      .host = host_,
                      .fallbacks = fallbacks_,
                      .fallback_chosen = fallback_chosen_,
                      .deterministic = deterministic_,
                      .live_ins = {},
                      .host_values = point.host_values,
                      .constant =
                          [this, &context](const auto& constant, Device& device) {
                            return constant_on(constant, context.stream_of(device));
                          },
                      .packed =
                          [this, &context](const PackRequest& packed) {
                            return packed_on(packed, context.stream_of(packed.kernel.device()));
                          },
                      .fold = {}};
  if (runtime_->host_device() != nullptr) {
    request.fold = std::bind_front(&Session::fold, this);
  }
  for (ValueId id = 0; id < point.values.size(); ++id) {
    if (!point.values[id]) continue;
    const Tensor& tensor = *point.values[id];
    request.live_ins[id] = {.dtype = tensor.dtype(),
                            .sizes = tensor.sizes(),
                            .strides = tensor.strides(),
                            .offset_bytes = tensor.offset_bytes() % 256,
                            .host_data = nullptr};
  }
  BP_TRY_ASSIGN(std::shared_ptr<const Segment> segment, plan_segment(request));
  BP_TRY(wait_for_constants(*segment));
  plans_.insert(point, segment);
  return segment;
}

/// One wait for all that planning has queued: runs on other streams ask constants for no order.
Status Session::wait_for_constants(const Segment& segment) {
  for (const PlanValue& value : segment.values) {
    if (value.constant == nullptr) continue;
    const Status status = value.constant->storage().wait_on_host(false);
    if (status.ok()) continue;
    TimedLock lock(constants_mutex_, std::defer_lock);
    if (lock_within(lock, runtime_->wait_timeout())) {
      constants_.clear();  // the next plan brings them anew
      packed_.clear();
    }
    return status;
  }
  return {};
}

Status Session::plan_ahead() {
  std::vector<Ref<Tensor>> values(graph_.values().size());
  for (const ValueId id : graph_.inputs()) {
    const TensorType& type = graph_.value(id).type;
    if (!type.has_rank || !all_known(type.sizes)) return {};
    // Planning looks at types only, and at the memory of no input.
    values[id] = Tensor::wrap_host(
        {.dtype = type.dtype, .sizes = type.sizes, .data = nullptr, .bytes = 0, .owner = nullptr});
  }
  BP_TRY_ASSIGN(std::unique_ptr<RunContext> context, make_context());
  auto segment = contain([&] { return segment_for({0, values, {}}, *context); });
  BP_TRY(segment);
  // The context goes: a session that is not running keeps no stream that could fail.
  const std::lock_guard lock(newest_run_mutex_);
  newest_run_ = {*segment};
  return {};
}

Result<Ref<Tensor>> Session::constant_on(const std::shared_ptr<const HostTensor>& constant,
                                         Stream& stream) {
  Device& device = stream.device();
  const bool own = own_constants_.contains(constant.get());
  TimedLock lock(constants_mutex_, std::defer_lock);
  if (!lock_within(lock, runtime_->wait_timeout())) {
    return stream.timed_out("another thread that brings a weight to a device was not done");
  }
  const auto key = std::make_pair(constant.get(), &device);
  if (const auto found = constants_.find(key); found != constants_.end()) return found->second;
  Ref<Tensor> tensor = share_constant(device, constant);
  // Also where it is used as it lies, in a mapped file: there it takes room all the same. What was
  // read counts since then.
  auto charge = std::make_shared<MemoryCharge>(budget_);
  if (!tensor || !keeps_read_bytes(constant->owner)) {
    BP_TRY(charge->add(constant->bytes, "weights on " + device.name()));
  }
  if (tensor) {
    using Kept = std::pair<std::shared_ptr<MemoryCharge>, std::shared_ptr<const HostTensor>>;
    tensor->storage().keep(std::make_shared<const Kept>(std::move(charge), constant));
  } else {
    BP_TRY_ASSIGN(tensor, copy_from_host(stream, constant->dtype, constant->sizes, constant->data,
                                         MemoryTag::kWeights));
    tensor->storage().keep(std::move(charge));
    constant->release_pages();
  }
  tensor->forbid_writes();  // an output may be a view of it
  if (own) constants_.emplace(key, tensor);
  return tensor;
}

namespace {

/// Equal for bytes that are packed equally, where the constants are equal.
std::string packed_form(const PackRequest& request) {
  std::string key = std::to_string(request.dtype) + "+" + std::to_string(request.offset_bytes) +
                    "=" + std::to_string(request.input.bytes);
  for (const int64_t size : request.sizes) key += "," + std::to_string(size);
  for (const int64_t stride : request.strides) key += ";" + std::to_string(stride);
  return key + ":" + request.input.layout;
}

/// Packs values that lie where the host reads them, and are wanted in this form alone.
Status pack_from_host(const PackRequest& request, bp_tensor input, bp_mem packed) {
  HostTensor values = *request.source;
  const auto address = reinterpret_cast<uint64_t>(values.data);
  if (address % request.input.alignment_bytes != 0) {
    // No kernel is shown an address that it did not ask for.
    void* copy = nullptr;
    BP_TRY_ASSIGN(values, HostTensor::allocate(values.dtype, values.sizes, &copy));
    std::memcpy(copy, request.source->data, request.source->bytes);
  }
  input.handle = reinterpret_cast<uint64_t>(values.data);
  input.offset_bytes = static_cast<uint64_t>(request.offset_bytes);
  input.storage_bytes = values.bytes;
  BP_TRY(request.kernel.pack(request.input, input, packed));
  request.source->release_pages();
  return {};
}

/// Packs values that lie on the device.
Status pack_on_device(const PackRequest& request, bp_tensor input, bp_mem packed) {
  const Tensor& constant = *request.constant;
  BP_TRY(constant.storage().wait_on_host(false));
  const Storage& storage = constant.storage();
  input.handle = storage.handle();
  input.offset_bytes = storage.offset_bytes() + constant.offset_bytes() +
                       static_cast<uint64_t>(request.offset_bytes);
  input.storage_bytes = storage.offset_bytes() + storage.bytes();
  return request.kernel.pack(request.input, input, packed);
}

/// The input by itself on the device, contiguous and on a boundary. Errors: UNSUPPORTED where
/// nothing copies it; OUT_OF_MEMORY.
Result<Ref<Tensor>> contiguous_input(const PackRequest& request, Stream& stream) {
  Ref<Tensor> constant = request.constant;
  if (constant == nullptr) {
    const HostTensor& values = *request.source;
    BP_TRY_ASSIGN(constant, copy_from_host(stream, values.dtype, values.sizes, values.data,
                                           MemoryTag::kWeights));
  }
  const auto element_bits = static_cast<int64_t>(dtype_bits(request.dtype));
  const Ref<Tensor> view = constant->view_as(request.dtype, request.sizes, request.strides,
                                             request.offset_bytes * 8 / element_bits);
  return make_contiguous(view, stream);
}

/// Packs values that do not lie as the kernel takes them.
Status pack_anywhere(const PackRequest& request, bp_tensor input, bp_mem packed, Stream& stream) {
  BP_TRY_ASSIGN(const Ref<Tensor> dense, contiguous_input(request, stream));
  input.strides = dense->strides().data();
  BP_TRY(pack_on_device({.kernel = request.kernel,
                         .input = request.input,
                         .source = nullptr,
                         .constant = dense,
                         .dtype = request.dtype,
                         .sizes = dense->sizes(),
                         .strides = dense->strides()},
                        input, packed));
  if (request.source != nullptr) request.source->release_pages();
  return {};
}

/// Memory with the packed values. Errors: OUT_OF_MEMORY; those of the kernel.
Result<Ref<Tensor>> pack(const PackRequest& request, Stream& stream) {
  auto made =
      Tensor::allocate(request.kernel.device(), BP_DTYPE_U8,
                       {static_cast<int64_t>(request.input.bytes)}, MemoryTag::kWeights, stream);
  if (!made.ok()) {
    return made.status().with_prefix(request.kernel.title() + " wants input " +
                                     std::to_string(request.input.index) + " packed");
  }
  const Ref<Tensor> packed = std::move(*made);
  // The memory may be what queued work has not done with: the kernel packs now, and not in the
  // stream's order.
  if (!stream.is_inline()) BP_TRY(stream.sync());
  bp_tensor input{};
  input.dtype = request.dtype;
  input.rank = static_cast<uint32_t>(request.sizes.size());
  input.sizes = request.sizes.data();
  input.strides = request.strides.data();
  const Storage& memory = packed->storage();
  const bp_mem place{memory.handle(), memory.offset_bytes() + packed->offset_bytes()};
  if (request.kernel.contiguous_inputs().contains(request.input.index)) {
    BP_TRY(pack_anywhere(request, input, place, stream));
  } else if (request.source != nullptr) {
    BP_TRY(pack_from_host(request, input, place));
  } else {
    BP_TRY(pack_on_device(request, input, place));
  }
  return packed;
}

}  // namespace

std::shared_ptr<const HostTensor> Session::values_of(const PackRequest& request) const {
  const HostTensor* values = request.source.get();
  if (values == nullptr) {
    const auto brought = std::ranges::find(constants_, request.constant,
                                           [](const auto& entry) { return entry.second; });
    if (brought != constants_.end()) values = brought->first.first;
  }
  const auto own = own_constants_.find(values);
  return own == own_constants_.end() ? nullptr : own->second;
}

Result<Ref<Tensor>> Session::packed_on(const PackRequest& request, Stream& stream) {
  TimedLock lock(constants_mutex_, std::defer_lock);
  if (!lock_within(lock, runtime_->wait_timeout())) {
    return stream.timed_out("another thread that packs a weight was not done");
  }
  const std::shared_ptr<const HostTensor> values = values_of(request);
  const std::string form = packed_form(request);
  Device& device = request.kernel.device();
  const PackedKey key{values.get(), &device, form};
  if (const auto found = packed_.find(key); values && found != packed_.end()) return found->second;
  // Forms that only plans had which are gone: a kernel may choose another form for each shape.
  std::erase_if(packed_, [](const auto& entry) { return entry.second->has_one_owner(); });
  auto charge = std::make_shared<MemoryCharge>(budget_);
  BP_TRY(charge->add(request.input.bytes, "packed weights on " + device.name()));
  if (values == nullptr) {
    BP_TRY_ASSIGN(Ref<Tensor> packed, pack(request, stream));
    packed->storage().keep(std::move(charge));
    return packed;
  }
  BP_TRY_ASSIGN(const Ref<Tensor> packed,
                PackedWeights::of(device).get(form, values, stream, std::move(charge),
                                              [&] { return pack(request, stream); }));
  packed_.emplace(key, packed);
  return packed;
}

PlacementCounts Session::placement_counts() const {
  PlacementCounts counts;
  for (const PlacementRow& row : placements()) {
    switch (row.kind) {
      case RouteKind::kNative:
        ++counts.native;
        break;
      case RouteKind::kDecomposed:
        ++counts.decomposed;
        break;
      case RouteKind::kFallback:
        ++counts.fallback;
        break;
      case RouteKind::kView:
        ++counts.view;
        break;
      case RouteKind::kKnown:
        ++counts.known;
        break;
    }
  }
  return counts;
}

/// The plans as they are now: what reads them holds no lock that a run needs.
Session::NewestRun Session::newest_run() const {
  const std::lock_guard lock(newest_run_mutex_);
  return {newest_session_, newest_run_};
}

MemoryPlan Session::memory_plan() const {
  const NewestRun run = newest_run();
  if (run.session) return run.session->memory_plan();
  MemoryPlan plan;
  for (const auto& segment : run.segments) {
    for (const uint64_t bytes : segment->arena_bytes) plan.arena_bytes += bytes;
    for (const uint64_t bytes : segment->live_bytes_peak) plan.live_bytes_peak += bytes;
  }
  return plan;
}

std::vector<PlacementRow> Session::placements() const {
  const NewestRun run = newest_run();
  if (run.session) return run.session->placements();
  std::vector<PlacementRow> rows;
  for (const auto& segment : run.segments) {
    for (const NodeRoute& route : segment->routes) rows.push_back(row_of(*segment, route));
  }
  return rows;
}

uint64_t Session::placement_count() const {
  const NewestRun run = newest_run();
  if (run.session) return run.session->placement_count();
  uint64_t count = 0;
  for (const auto& segment : run.segments) count += segment->routes.size();
  return count;
}

std::optional<PlacementRow> Session::placement(uint64_t index) const {
  const NewestRun run = newest_run();
  if (run.session) return run.session->placement(index);
  for (const auto& segment : run.segments) {
    if (index < segment->routes.size()) return row_of(*segment, segment->routes[index]);
    index -= segment->routes.size();
  }
  return std::nullopt;
}

PlacementRow Session::row_of(const Segment& segment, const NodeRoute& route) const {
  const Node& node = graph_.node(route.node);
  PlacementRow row{node.name, std::string(graph_.registry().schema(node.op).name), route.kind,
                   route.kernels, route.reason};
  if (row.kernels.empty()) return row;
  // Steps are in the order of their nodes. Beside a node's kernels there may be some that copy its
  // inputs or outputs; operators tell them apart, since kernels' names are gone after a close.
  const auto copy = graph_.registry().copy_op();
  auto step = std::ranges::lower_bound(segment.steps, route.node, {}, &Step::node);
  for (; step != segment.steps.end() && step->node == route.node; ++step) {
    if (step->kind != StepKind::kLaunch) continue;
    const bool is_copy = copy && step->kernel->op() == *copy;
    if (!is_copy || row.device == nullptr) row.device = devices_[step->device];
  }
  return row;
}

const char* Session::keep_text(std::string_view text) {
  const std::lock_guard lock(texts_mutex_);
  auto found = texts_.find(text);
  if (found == texts_.end()) found = texts_.emplace(text).first;
  return found->c_str();
}

}  // namespace bp
