// SPDX-License-Identifier: Apache-2.0
//
// The bridge to oneDNN: objects, programs and their execution. See onednn.hpp.
#include "onednn.hpp"

#include <array>
#include <atomic>
#include <utility>

#include "backplane/sdk/exit_gate.hpp"

namespace bp::cpu {
namespace {

constexpr uint64_t kPlaceAlignment = 64;

// A multiply-add in oneDNN costs a fraction of the unit that regions are counted in.
constexpr double kMultiplyAddsPerUnit = 32;

uint64_t round_up(uint64_t bytes) {
  return (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
}

/// Parts of oneDNN count elements of a dimension, and bytes from row to row, in 32 bits: 2^40
/// columns were none, and divided by.
void check_sizes(std::span<const int64_t> sizes) {
  for (const int64_t size : sizes) {
    if (size > kMostDnnlElements) throw Refusal{"oneDNN does not take as long a dimension"};
  }
}

void append(std::span<const int64_t> values, std::string* text) {
  for (const int64_t value : values) *text += "," + std::to_string(value);
}

/// A layout as oneDNN stores it: strides of blocks, which have an order within.
struct Blocks {
  explicit Blocks(const_dnnl_memory_desc_t desc);
  bool is_plain() const { return is_strided && block_sizes.empty(); }

  bool is_strided = false;         // else none of the rest is known
  std::span<const int64_t> sizes;  // padded to whole blocks
  std::span<const int64_t> strides;
  std::span<const int64_t> block_sizes;
  std::span<const int64_t> block_dims;
};

Blocks::Blocks(const_dnnl_memory_desc_t desc) {
  dnnl_format_kind_t kind = dnnl_format_kind_undef;
  check_dnnl(dnnl_memory_desc_query(desc, dnnl_query_format_kind, &kind), "memory_desc_query");
  if (kind != dnnl_blocked) return;
  int rank = 0;
  int block_count = 0;
  const dnnl_dims_t* places[4] = {};
  const std::pair<dnnl_query_t, void*> queries[] = {
      {dnnl_query_ndims_s32, &rank},       {dnnl_query_padded_dims, &places[0]},
      {dnnl_query_strides, &places[1]},    {dnnl_query_inner_nblks_s32, &block_count},
      {dnnl_query_inner_blks, &places[2]}, {dnnl_query_inner_idxs, &places[3]}};
  for (const auto& [query, answer] : queries) {
    check_dnnl(dnnl_memory_desc_query(desc, query, answer), "memory_desc_query");
  }
  const auto count = static_cast<size_t>(rank);
  const auto blocks = static_cast<size_t>(block_count);
  is_strided = true;
  sizes = {*places[0], count};
  strides = {*places[1], count};
  block_sizes = {*places[2], blocks};
  block_dims = {*places[3], blocks};
}

/// Everything that tells the bytes of a blocked layout; empty for one that is not blocked.
std::string layout_text(const_dnnl_memory_desc_t desc) {
  const Blocks blocks(desc);
  if (!blocks.is_strided) return {};
  std::string text = dnnl_version_text();
  append(blocks.sizes, &text);
  text += " by";
  append(blocks.strides, &text);
  text += " in";
  append(blocks.block_sizes, &text);
  text += " of";
  append(blocks.block_dims, &text);
  return text;
}

/// Where the weights of the code for one thread begin, if it does not read those of all threads'.
uint64_t second_part(const_dnnl_memory_desc_t first) {
  return round_up(dnnl_memory_desc_get_size(first));
}

void append_layout(const_dnnl_memory_desc_t layout, const char* before, std::string* name) {
  const std::string text = layout_text(layout);
  if (text.empty()) throw Refusal{"oneDNN's layout of the weights has no name"};
  *name += before + text;
}

void add_part(const_dnnl_memory_desc_t layout, uint64_t offset_bytes, PackedWeights* packed) {
  append_layout(layout, packed->parts.empty() ? " to " : "; ", &packed->layout);
  dnnl_memory_desc_t copy = nullptr;
  check_dnnl(dnnl_memory_desc_clone(&copy, layout), "memory_desc_clone");
  packed->parts.push_back({DnnlDesc(copy), offset_bytes});
  packed->bytes = offset_bytes + dnnl_memory_desc_get_size(layout);
}

/// What the programs of the plan read their weights in. The name begins with how the plain weights
/// lie: a convolution and a transposed one read one constant with its dimensions in another order.
void note_packed_weights(PlainWeights weights, DnnlPlan* plan) {
  const auto input = static_cast<int>(weights.input);
  const DnnlProgram::Arg& serial = plan->serial.arg_of(input);
  const DnnlProgram::Arg& first = plan->parallel ? plan->parallel->arg_of(input) : serial;
  const bool is_one = serial.place.offset_bytes == first.place.offset_bytes;
  if (is_one && dnnl_memory_desc_equal(first.desc, weights.plain.get()) != 0) return;
  PackedWeights packed;
  packed.input = weights.input;
  append_layout(weights.plain.get(), "from ", &packed.layout);
  add_part(first.desc, first.place.offset_bytes, &packed);
  if (!is_one) add_part(serial.desc, serial.place.offset_bytes, &packed);
  packed.plain = std::move(weights.plain);
  plan->packed = std::move(packed);
}

}  // namespace

void DnnlEngineDelete::operator()(dnnl_engine* engine) const { dnnl_engine_destroy(engine); }

void check_dnnl(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  if (status == dnnl_unimplemented || status == dnnl_invalid_arguments) {
    throw Refusal{"oneDNN does not take these shapes"};
  }
  const bp_status ours = status == dnnl_out_of_memory ? BP_OUT_OF_MEMORY : BP_INTERNAL;
  throw sdk::Failure{ours, std::string("oneDNN failed in ") + call, status};
}

DnnlEngine make_dnnl_engine() {
  dnnl_engine_t engine = nullptr;
  const dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0);
  if (status != dnnl_success) {
    throw sdk::Failure{BP_UNAVAILABLE, "oneDNN has no engine for this processor", status};
  }
  return DnnlEngine(engine);
}

std::string dnnl_version_text() {
  const dnnl_version_t* const version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

DnnlDesc make_f32_desc(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  check_sizes(sizes);
  dnnl_memory_desc_t desc = nullptr;
  check_dnnl(dnnl_memory_desc_create_with_strides(&desc, static_cast<int>(sizes.size()),
                                                  sizes.data(), dnnl_f32, strides.data()),
             "memory_desc_create_with_strides");
  return DnnlDesc(desc);
}

DnnlDesc make_f32_desc_of_any_layout(std::span<const int64_t> sizes) {
  check_sizes(sizes);
  dnnl_memory_desc_t desc = nullptr;
  check_dnnl(dnnl_memory_desc_create_with_tag(&desc, static_cast<int>(sizes.size()), sizes.data(),
                                              dnnl_f32, dnnl_format_tag_any),
             "memory_desc_create_with_tag");
  return DnnlDesc(desc);
}

bool lie_alike(const_dnnl_memory_desc_t a, const_dnnl_memory_desc_t b) {
  if (dnnl_memory_desc_equal(a, b) != 0) return true;
  const Blocks one(a);
  const Blocks other(b);
  if (!one.is_plain() || !other.is_plain()) return false;
  for (size_t d = 0; d < one.sizes.size(); ++d) {
    const bool is_same =
        one.sizes[d] == other.sizes[d] && (one.sizes[d] == 1 || one.strides[d] == other.strides[d]);
    if (!is_same) return false;
  }
  return one.sizes.size() == other.sizes.size();
}

std::string implementation_of(const dnnl_primitive_desc* descriptor) {
  const char* name = nullptr;
  check_dnnl(dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &name),
             "primitive_desc_query");
  return name != nullptr ? name : "";
}

DnnlAttr make_dnnl_attr(const DnnlPostOps& post_ops) {
  dnnl_primitive_attr_t raw = nullptr;
  check_dnnl(dnnl_primitive_attr_create(&raw), "primitive_attr_create");
  DnnlAttr attr(raw);
  check_dnnl(dnnl_primitive_attr_set_scratchpad_mode(raw, dnnl_scratchpad_mode_user),
             "primitive_attr_set_scratchpad_mode");
  check_dnnl(dnnl_primitive_attr_set_fpmath_mode(raw, dnnl_fpmath_mode_strict),
             "primitive_attr_set_fpmath_mode");
  if (post_ops.addend == nullptr && !post_ops.activation) return attr;
  dnnl_post_ops_t ops = nullptr;
  check_dnnl(dnnl_post_ops_create(&ops), "post_ops_create");
  const std::unique_ptr<dnnl_post_ops, DnnlDelete<dnnl_post_ops_destroy>> owner(ops);
  if (post_ops.addend != nullptr) {
    check_dnnl(dnnl_post_ops_append_binary(ops, dnnl_binary_add, post_ops.addend),
               "post_ops_append_binary");
  }
  if (const auto& activation = post_ops.activation) {
    check_dnnl(dnnl_post_ops_append_eltwise(ops, activation->algorithm, activation->alpha,
                                            activation->beta),
               "post_ops_append_eltwise");
  }
  check_dnnl(dnnl_primitive_attr_set_post_ops(raw, ops), "primitive_attr_set_post_ops");
  return attr;
}

const_dnnl_memory_desc_t addend_desc_of(const dnnl_primitive_desc* descriptor) {
  return dnnl_primitive_desc_query_md(descriptor, dnnl_query_exec_arg_md, kDnnlAddend);
}

const_dnnl_memory_desc_t DnnlProgram::desc_of(const dnnl_primitive_desc* descriptor,
                                              dnnl_query_t which) {
  return dnnl_primitive_desc_query_md(descriptor, which, 0);
}

DnnlPlace DnnlProgram::reserve(const_dnnl_memory_desc_t desc) {
  const DnnlPlace place{.tensor = -1, .offset_bytes = workspace_bytes_};
  workspace_bytes_ += round_up(dnnl_memory_desc_get_size(desc));
  return place;
}

void DnnlProgram::add_step(DnnlPrimitiveDesc descriptor, std::vector<Arg> args) {
  const std::string implementation = implementation_of(descriptor.get());
  if (implementation.starts_with("ref")) {  // right, but slower than our own loops
    throw Refusal{"oneDNN has only its reference code for these shapes and strides"};
  }
  const const_dnnl_memory_desc_t scratchpad = desc_of(descriptor.get(), dnnl_query_scratchpad_md);
  if (scratchpad != nullptr && dnnl_memory_desc_get_size(scratchpad) != 0) {
    args.push_back({DNNL_ARG_SCRATCHPAD, scratchpad, reserve(scratchpad)});
  }
  dnnl_primitive_t primitive = nullptr;
  check_dnnl(dnnl_primitive_create(&primitive, descriptor.get()), "primitive_create");
  sdk::ExitGate::watch(implementation);
  steps_.push_back({std::move(descriptor), DnnlPrimitive(primitive), std::move(args)});
}

void DnnlProgram::add_reorder(dnnl_engine* engine, const_dnnl_memory_desc_t from_desc,
                              DnnlPlace from, const_dnnl_memory_desc_t to_desc, DnnlPlace to) {
  const DnnlAttr attr = make_dnnl_attr();
  dnnl_primitive_desc_t raw = nullptr;
  check_dnnl(
      dnnl_reorder_primitive_desc_create(&raw, from_desc, engine, to_desc, engine, attr.get()),
      "reorder_primitive_desc_create");
  DnnlPrimitiveDesc descriptor(raw);
  const const_dnnl_memory_desc_t from_kept = desc_of(raw, dnnl_query_src_md);
  const const_dnnl_memory_desc_t to_kept = desc_of(raw, dnnl_query_dst_md);
  add_step(std::move(descriptor), {{DNNL_ARG_FROM, from_kept, from}, {DNNL_ARG_TO, to_kept, to}});
}

const DnnlProgram::Arg& DnnlProgram::arg_of(int tensor) const {
  for (const Step& step : steps_) {
    for (const Arg& arg : step.args) {
      if (arg.place.tensor == tensor) return arg;
    }
  }
  throw sdk::Failure{BP_INTERNAL, "no step reads tensor " + std::to_string(tensor)};
}

namespace {

/// The products of oneDNN make their code, a static, where they first run with such sizes. What
/// sizes choose is not known here: hence each program's first run, up to a number that bounds the
/// list of exit handlers.
void watch_first_run() {
  constexpr int kMostRuns = 4096;
  static std::atomic<int> count{0};
  if (count.load() >= kMostRuns) return;
  sdk::ExitGate::watch("run " + std::to_string(count.fetch_add(1)));
}

}  // namespace

DnnlRun::DnnlRun(dnnl_engine* engine, const DnnlProgram& program) {
  for (const DnnlProgram::Step& step : program.steps()) {
    std::vector<dnnl_exec_arg_t> args;
    for (const DnnlProgram::Arg& arg : step.args) {
      dnnl_memory_t memory = nullptr;
      check_dnnl(dnnl_memory_create(&memory, arg.desc, engine, DNNL_MEMORY_NONE), "memory_create");
      bindings_.push_back({DnnlMemory(memory), arg.place});
      args.push_back({arg.id, memory});
    }
    steps_.push_back({step.primitive.get(), std::move(args)});
  }
}

dnnl_status_t DnnlRun::execute(dnnl_stream* stream, void* const* addresses, std::byte* workspace) {
  for (const Binding& binding : bindings_) {
    const DnnlPlace& place = binding.place;
    auto* const base =
        place.tensor >= 0 ? static_cast<std::byte*>(addresses[place.tensor]) : workspace;
    const dnnl_status_t status =
        dnnl_memory_set_data_handle(binding.memory.get(), base + place.offset_bytes);
    if (status != dnnl_success) return status;
  }
  for (const Step& step : steps_) {
    const dnnl_status_t status = dnnl_primitive_execute(
        step.primitive, stream, static_cast<int>(step.args.size()), step.args.data());
    if (status != dnnl_success) return status;
  }
  if (!has_run_) watch_first_run();
  has_run_ = true;
  return dnnl_stream_wait(stream);
}

DnnlState::DnnlState(bp_device* device, const DnnlPlan& plan)
    : serial(device->engine.get(), plan.serial) {
  dnnl_stream_t raw = nullptr;
  check_dnnl(dnnl_stream_create(&raw, device->engine.get(), dnnl_stream_default_flags),
             "stream_create");
  stream.reset(raw);
  if (plan.parallel) parallel.emplace(device->engine.get(), *plan.parallel);
}

namespace {

using BuildProgram = std::function<DnnlProgram(const WeightsChoice&)>;

DnnlProgram build_for(int thread_count, const BuildProgram& build, const WeightsChoice& choice) {
  const ThreadCountSetting setting(thread_count);
  return build(choice);
}

/// After the program for all threads. The code for one thread need not take the layout that theirs
/// likes best: it gets its own then, behind theirs in the packed input. To reorder in each launch
/// took two hundred times as long as a convolution.
DnnlProgram build_serial_beside(const DnnlProgram& parallel, const BuildProgram& build,
                                std::optional<uint32_t> weights_input) {
  if (!weights_input) return build_for(1, build, {});
  const const_dnnl_memory_desc_t layout = parallel.arg_of(static_cast<int>(*weights_input)).desc;
  try {
    return build_for(1, build, {.is_constant = true, .packed = layout});
  } catch (const Refusal&) {
    return build_for(1, build, {.is_constant = true, .offset_bytes = second_part(layout)});
  }
}

}  // namespace

void build_dnnl_programs(bp_device* device, double multiply_add_count,
                         const std::function<DnnlProgram(const WeightsChoice&)>& build,
                         std::optional<PlainWeights> weights, DnnlPlan* plan, bp_plan_info* info) {
  const int thread_count = device->workers.thread_count();
  const double units = multiply_add_count / kMultiplyAddsPerUnit;
  const WeightsChoice free{.is_constant = weights.has_value()};
  // Inside a region oneDNN would split the work for one thread only, and more may come at launch.
  if (thread_count > 1 && units > static_cast<double>(kRegionCost) && !is_inside_region()) {
    plan->parallel = build_for(thread_count, build, free);
    plan->serial = build_serial_beside(*plan->parallel, build,
                                       weights ? std::optional(weights->input) : std::nullopt);
  } else {
    plan->serial = build_for(1, build, free);
  }
  if (weights) {
    note_packed_weights(*std::move(weights), plan);
    info->packed_inputs = plan->packed ? uint64_t{1} << plan->packed->input : 0;
  }
  info->workspace_bytes =
      std::max(plan->serial.workspace_bytes(),
               plan->parallel ? plan->parallel->workspace_bytes() : uint64_t{0});
  info->workspace_alignment_bytes = info->workspace_bytes == 0 ? 0 : kPlaceAlignment;
}

bp_status query_packed_weights(bp_device* device, const bp_kernel_plan* plan, uint32_t input_index,
                               bp_prepack_info* out_info) {
  return sdk::slot("prepack_query", device, {plan, out_info}, [&] {
    const auto& packed = static_cast<const DnnlPlan*>(plan)->packed;
    if (!packed || packed->input != input_index) {
      sdk::refuse("prepack_query: the plan takes no such input packed");
    }
    bp_prepack_info info{};
    info.bytes = packed->bytes;
    info.alignment_bytes = kPlaceAlignment;
    info.layout = sdk::str(packed->layout);
    sdk::write_out(out_info, info);
  });
}

bp_status pack_weights(bp_device* device, const bp_prepack_args* args) {
  return sdk::slot("prepack", device, {args}, [&] {
    if (!BP_SDK_HAS(args, packed_bytes)) sdk::refuse("prepack: the arguments are cut short");
    const sdk::ExitGate gate;
    if (!gate.open()) throw sdk::Failure{BP_UNAVAILABLE, "the process is ending"};
    const auto& packed = static_cast<const DnnlPlan*>(args->plan)->packed;
    if (!packed || packed->input != args->input_index) {
      sdk::refuse("prepack: the plan takes no such input packed");
    }
    const RegionLease lease(device->workers, true);
    const ThreadCountSetting setting(lease.granted() ? device->workers.thread_count() : 1);
    try {
      DnnlProgram program;
      for (const PackedWeights::Part& part : packed->parts) {
        program.add_reorder(device->engine.get(), packed->plain.get(), {.tensor = 0},
                            part.layout.get(), {.tensor = 1, .offset_bytes = part.offset_bytes});
      }
      std::vector<std::byte> workspace(program.workspace_bytes() + kPlaceAlignment);
      DnnlRun run(device->engine.get(), program);
      dnnl_stream_t raw = nullptr;
      check_dnnl(dnnl_stream_create(&raw, device->engine.get(), dnnl_stream_default_flags),
                 "stream_create");
      const DnnlStream stream(raw);
      void* const addresses[] = {address_of(*args->input), address_of(args->packed)};
      const auto at = reinterpret_cast<uintptr_t>(workspace.data());
      check_dnnl(run.execute(raw, addresses, workspace.data() + round_up(at) - at), "reorder");
    } catch (const Refusal& refusal) {
      throw sdk::Failure{BP_INTERNAL, refusal.reason};
    }
  });
}

bp_status create_dnnl_state(bp_device* device, const bp_kernel*, const bp_kernel_plan* plan,
                            bp_kernel_state** out_state) {
  return sdk::slot("state_create", device, {plan, out_state}, [&] {
    try {
      *out_state = new DnnlState(device, *static_cast<const DnnlPlan*>(plan));
    } catch (const Refusal& refusal) {
      throw sdk::Failure{BP_INTERNAL, refusal.reason};
    }
  });
}

namespace {

dnnl_status_t execute(Workers& workers, DnnlState* state, void* const* addresses,
                      std::byte* workspace) {
  const bool has_choice = state->parallel.has_value();
  const bool wants_all = has_choice && state->threads.next() == ThreadUse::kAll;
  const RegionLease lease(workers, wants_all);
  const ThreadCountSetting setting(lease.granted() ? workers.thread_count() : 1);
  const int64_t begin_ns = has_choice ? now_ns() : 0;
  DnnlRun& run = lease.granted() ? *state->parallel : state->serial;
  const dnnl_status_t status = run.execute(state->stream.get(), addresses, workspace);
  if (has_choice) {
    const int64_t end_ns = now_ns();
    const int64_t one_ns = state->threads.one_ns();
    if (lease.granted() && one_ns > 0) {
      workers.pause().note(end_ns, one_ns, end_ns - begin_ns - one_ns);
    }
    state->threads.launched(lease.granted() == wants_all ? end_ns - begin_ns : -1);
  }
  return status;
}

}  // namespace

bp_status launch_dnnl(const bp_launch_args& args) {
  const sdk::ExitGate gate;
  if (!gate.open()) {
    args.device->host().report(BP_UNAVAILABLE, "the process is ending", 0, args.op_seq);
    return BP_UNAVAILABLE;
  }
  auto& state = *static_cast<DnnlState*>(args.state);
  std::array<void*, 8> addresses{};
  const uint32_t tensor_count = args.input_count + args.output_count;
  for (uint32_t i = 0; i < tensor_count && i < addresses.size(); ++i) {
    addresses[i] = address_of(args.tensors[i]);
  }
  const dnnl_status_t status =
      execute(args.device->workers, &state, addresses.data(), address_of(args.workspace));
  if (status == dnnl_success) return BP_OK;
  const std::string message = "oneDNN status " + std::to_string(status) + " from a launch of " +
                              std::string(sdk::view(args.kernel->name));
  args.device->host().report(BP_INTERNAL, message, status, args.op_seq);
  return BP_INTERNAL;
}

}  // namespace bp::cpu
