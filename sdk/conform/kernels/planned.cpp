// SPDX-License-Identifier: Apache-2.0
//
// Queries show no more than a kernel depends on, as the core's do.
#include "sdk/conform/kernels/planned.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/device/size_ranges.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "sdk/conform/step.hpp"

namespace bp::conform {
namespace {

constexpr uint64_t kWorkspaceAlignment = 256;
constexpr uint64_t kMostLayoutBytes = 4096;

std::string text_of(bp_str text) {
  return text.ptr == nullptr ? "" : std::string(text.ptr, text.len);
}

Dims out_strides_of(const TensorType& output, size_t index, const Shown& shown) {
  return shown.out_strides.empty() ? contiguous_strides(output.sizes) : shown.out_strides[index];
}

/// A bp_kernel_query with the arrays that it points to.
class Query {
 public:
  Query(const KernelRecord& record, const Call& call, const std::vector<Dims>& strides,
        uint32_t depends_on, const Shown& shown);
  const bp_kernel_query* get() const { return &query_; }

 private:
  void show(const Dims& sizes, const Dims& strides, uint32_t depends_on, bp_arg_info* info);
  void show_output(const TensorType& output, size_t index, uint32_t depends_on, const Shown& shown,
                   bp_arg_info* info);

  bp_kernel_query query_{};
  std::vector<bp_arg_info> args_;
  std::vector<Dims> dims_;  // reserved, since args_ points into it
};

void Query::show(const Dims& sizes, const Dims& strides, uint32_t depends_on, bp_arg_info* info) {
  Dims shown;
  shown.resize(sizes.size(), -1);
  info->rank = static_cast<uint32_t>(sizes.size());
  info->sizes = dims_.emplace_back((depends_on & BP_DEPENDS_SIZES_BIT) != 0 ? sizes : shown).data();
  const Dims& kept = dims_.emplace_back(strides);
  info->strides = (depends_on & BP_DEPENDS_STRIDES_BIT) != 0 ? kept.data() : nullptr;
}

void Query::show_output(const TensorType& output, size_t index, uint32_t depends_on,
                        const Shown& shown, bp_arg_info* info) {
  info->dtype = output.dtype;
  show(output.sizes, out_strides_of(output, index, shown), depends_on, info);
  if (shown.any_order && element_count(output.sizes) > 0) info->flags |= BP_INFO_ANY_ORDER_BIT;
}

Query::Query(const KernelRecord& record, const Call& call, const std::vector<Dims>& strides,
             uint32_t depends_on, const Shown& shown) {
  const size_t input_count = call.inputs.size();
  args_.resize(input_count + call.output_types.size());
  dims_.reserve(2 * args_.size());
  for (size_t i = 0; i < args_.size(); ++i) {
    bp_arg_info& info = args_[i];
    info.struct_size = sizeof(info);
    if (i >= input_count) {
      show_output(call.output_types[i - input_count], i - input_count, depends_on, shown, &info);
      continue;
    }
    info.dtype = call.inputs[i].dtype;
    if (info.dtype == BP_DTYPE_NONE) continue;
    show(call.inputs[i].sizes, strides[i], depends_on, &info);
    if (shown.constants.contains(i)) info.flags |= BP_INFO_CONSTANT_BIT;
    const bool on_host = (depends_on & BP_DEPENDS_HOST_DATA_BIT) != 0 &&
                         (arg_rule(record, i).flags & BP_ARG_HOST_AT_PLAN_BIT) != 0;
    if (on_host) info.host_data = call.inputs[i].bytes.data();
  }
  query_.struct_size = sizeof(query_);
  query_.kernel = record.original;
  query_.op_version = std::min(call.schema->version, record.kernel.version_max);
  query_.input_count = static_cast<uint32_t>(input_count);
  query_.output_count = static_cast<uint32_t>(call.output_types.size());
  query_.arg_stride_bytes = sizeof(bp_arg_info);
  query_.args = args_.data();
  query_.attributes = call.attributes.data();
  query_.attributes_bytes = call.schema->attrs_bytes;
}

}  // namespace

bool chooses_order(const KernelRecord& record, const Call& call) {
  return (record.kernel.flags & BP_KERNEL_CHOOSES_ORDER_BIT) != 0 &&
         (record.kernel.depends_on & BP_DEPENDS_SIZES_BIT) != 0 && !call.schema->extents;
}

bp_arg_rule arg_rule(const KernelRecord& record, size_t index) {
  if (record.arg_rules.empty()) return {};
  return record.arg_rules[std::min(index, record.arg_rules.size() - 1)];
}

bool admits(const KernelRecord& record, const OpSchema& schema, const DtypeChoice& dtypes) {
  if (record.op != schema.name || record.dtype_masks.size() != schema.type_vars.size())
    return false;
  // Kernels of older versions are tried too, with what they know.
  if (schema.version < record.kernel.version_min) return false;
  for (size_t i = 0; i < dtypes.variables.size(); ++i) {
    if ((record.dtype_masks[i] & BP_DTYPE_BIT(dtypes.variables[i])) == 0) return false;
  }
  return true;
}

Planned::Planned(Context& context, const KernelRecord& record, const Call& call,
                 const std::vector<Dims>& strides, const Shown& shown)
    : context_(context), record_(record), call_(call) {
  if (!knows_the_call() || !ask_supports(strides) || !ask_plan(strides, shown)) return;
  take_out_strides(shown);
  const DeviceTable& table = context.table();
  if (record.kernel.state_create != nullptr) {
    note_step(words_of("state_create of"));
    const bp_status made = table.state_create(record.kernel, record.original, plan_, &state_);
    context.expect_ok(words_of("state_create of"), made);
    if (made != BP_OK) refusal_ = "its state could not be made";
  }
}

std::string Planned::words_of(std::string_view what) const {
  return words(what, ' ', record_.name, ", ", call_.words());
}

bool Planned::knows_the_call() {
  std::vector<uint32_t> dtypes;
  for (const OracleTensor& input : call_.inputs) dtypes.push_back(input.dtype);
  const uint32_t since = needed_since(*call_.schema, dtypes, call_.attributes);
  if (record_.kernel.op_since >= since && record_.kernel.version_max >= since) return true;
  refusal_ = words(record_.name, ": does not know version ", since);
  return false;
}

bool Planned::ask_supports(const std::vector<Dims>& strides) {
  if (record_.kernel.supports == nullptr) return true;
  note_step(words_of("supports of"));
  support_.struct_size = sizeof(support_);
  const bp_status answered = context_.table().supports(
      record_.kernel, *Query(record_, call_, strides, 0, {}).get(), &support_);
  if (context_.expect_ok(words_of("supports of"), answered) &&
      (support_.answer == BP_SUPPORT_YES || support_.answer == BP_SUPPORT_DEPENDS)) {
    return true;
  }
  refusal_ = words(record_.name, ": ", text_of(support_.reason));
  return false;
}

std::string Planned::outside_its_ranges() const {
  std::vector<const Dims*> sizes;
  for (const OracleTensor& input : call_.inputs) {
    sizes.push_back(input.dtype == BP_DTYPE_NONE ? nullptr : &input.sizes);
  }
  for (const TensorType& output : call_.output_types) sizes.push_back(&output.sizes);
  const auto ranges = read_size_ranges(support_, sizes);
  context_.require(ranges.ok(),
                   words(words_of("ranges of"), " that fit it: ", ranges.status().message()));
  return outside_words(*ranges, sizes, call_.inputs.size());
}

bool Planned::ask_plan(const std::vector<Dims>& strides, const Shown& shown) {
  const std::string outside = outside_its_ranges();
  info_.struct_size = sizeof(info_);
  if (record_.kernel.plan == nullptr) {
    context_.expect(outside.empty(), words(words_of("launches of"), ": a plan, which refuses what ",
                                           "supports excludes: it ", outside));
    return true;
  }
  const Query query(record_, call_, strides, record_.kernel.depends_on, shown);
  note_step(words_of("plan of"));
  const bp_status planned = context_.table().plan(record_.kernel, *query.get(), &info_, &plan_);
  refusal_ = words(record_.name, ": ", outside.empty() ? text_of(info_.reason) : outside);
  if (!outside.empty()) {
    context_.expect_equal(words(words_of("plan of"), ", of which supports says that it ", outside),
                          status_name(planned), status_name(BP_UNSUPPORTED));
    return false;
  }
  if (planned == BP_OK && info_.workspace_alignment_bytes <= kWorkspaceAlignment) {
    refusal_.clear();
    return true;
  }
  const bool promises = support_.ranges != nullptr && support_.answer == BP_SUPPORT_YES;
  if (planned != BP_OK && (planned != BP_UNSUPPORTED || promises)) {
    context_.expect_ok(words_of("plan of"), planned);
  }
  return false;
}

void Planned::take_out_strides(const Shown& shown) {
  const int64_t* given = info_.out_strides;
  for (size_t i = 0; i < call_.output_types.size(); ++i) {
    const Dims& sizes = call_.output_types[i].sizes;
    Dims& strides = out_strides_.emplace_back(out_strides_of(call_.output_types[i], i, shown));
    if (given == nullptr) continue;
    const std::span<const int64_t> chosen(given, sizes.size());
    given += sizes.size();
    const int64_t count = element_count(sizes);
    const auto is_sane = [&](int64_t stride) { return stride >= 1 && stride <= count; };
    const bool fits = shown.any_order && count > 0
                          ? is_dense(sizes, chosen) && std::ranges::all_of(chosen, is_sane)
                          : std::ranges::equal(chosen, strides);
    const std::string wanted = !shown.out_strides.empty()
                                   ? " by strides " + numbers_text(strides) + ", as it was shown"
                               : shown.any_order ? " without gaps"
                                                 : " without gaps and row-major";
    context_.require(
        fits, words(words_of("out_strides of"), ": output ", i, " of sizes ", to_string(sizes),
                    wanted, ", found strides ", numbers_text(chosen)));
    strides = Dims(chosen);
  }
}

Planned::~Planned() {
  const DeviceTable& table = context_.table();
  if (state_ != nullptr) table.state_destroy(record_.kernel, state_);
  if (plan_ != nullptr) table.plan_free(record_.kernel, plan_);
}

bp_launch_args Planned::launch_args(const std::vector<bp_tensor>& tensors) const {
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = context_.table().device;
  args.kernel = record_.original;
  args.plan = plan_;
  args.state = state_;
  args.tensors = tensors.data();
  args.input_count = static_cast<uint32_t>(call_.inputs.size());
  args.output_count = static_cast<uint32_t>(call_.output_types.size());
  args.attributes = call_.attributes.data();
  args.op_seq = kOpSeq;
  if (workspace_) args.workspace = workspace_->at();
  if (fault_) args.fault = fault_->at();
  if (extents_) args.out_extents = extents_->at();
  return args;
}

/// Before host memory is filled for what the plugin asks for.
void Planned::require_room(std::string_view what, uint64_t bytes) const {
  const uint64_t most = context_.table().props.memory_bytes;
  context_.require(
      most == 0 || bytes <= most,
      words(what, ": no more than the memory of the device, ", most, " bytes, found ", bytes));
}

// What was there before a launch is nothing that a kernel may count on, so the workspace is no
// zeros.
void Planned::make_extras(size_t output_count, Border border) {
  if (info_.workspace_bytes > 0) {
    require_room(words_of("workspace_bytes of"), info_.workspace_bytes);
    const uint64_t alignment = std::max<uint64_t>(info_.workspace_alignment_bytes, 1);
    const Bytes content(info_.workspace_bytes, border_fill(border));
    workspace_.emplace(context_,
                       words(record_.name, ": the workspace of ", info_.workspace_bytes, " bytes"),
                       content, alignment, border);
  }
  if ((info_.flags & BP_PLAN_CAN_FAULT_BIT) != 0) {
    fault_.emplace(context_, words(record_.name, ": the fault word"), Bytes(sizeof(bp_fault_word)),
                   alignof(bp_fault_word), border);
  }
  if (call_.schema->extents) {
    extents_.emplace(context_, words(record_.name, ": the extents"),
                     Bytes(output_count * BP_MAX_RANK * sizeof(int64_t)), alignof(int64_t), border);
  }
}

void Planned::run(const std::vector<bp_tensor>& tensors, Border border) {
  make_extras(call_.output_types.size(), border);
  launch(tensors);
}

void Planned::launch(const std::vector<bp_tensor>& tensors) {
  const DeviceTable& table = context_.table();
  std::optional<Stream> stream;
  if (table.props.execution != BP_EXECUTION_INLINE) stream.emplace(context_);
  bp_launch_args args = launch_args(tensors);
  args.stream = stream ? stream->get() : nullptr;
  note_step(words_of("launch of"));
  const bp_status launched = call_launch(table, args.stream, args, nullptr);
  context_.require_ok(words_of("launch of"), launched);
  context_.note_launch(record_.name);
  if (stream) context_.require_ok(words_of("the work of"), stream->sync());
  for (const std::optional<Extra>* extra : {&workspace_, &fault_, &extents_}) {
    if (*extra) (*extra)->check();
  }
}

bp_prepack_info Planned::packed_form(uint32_t input) const {
  bp_prepack_info info{};
  info.struct_size = sizeof(info);
  const std::string what = words(words_of("prepack_query of"), ", input ", input);
  note_step(what);
  context_.require_ok(what, context_.table().prepack_query(record_.kernel, plan_, input, &info));
  const bool is_sane = info.bytes > 0 && std::popcount(info.alignment_bytes) <= 1 &&
                       info.alignment_bytes <= kWorkspaceAlignment && info.layout.ptr != nullptr &&
                       info.layout.len > 0 && info.layout.len <= kMostLayoutBytes;
  context_.require(is_sane, words(what, ": at least 1 byte, aligned to a power of two up to 256, ",
                                  "and a layout of 1 to 4096 bytes; found ", info.bytes, ", ",
                                  info.alignment_bytes, " and ", info.layout.len));
  require_room(what, info.bytes);
  return info;
}

void Planned::pack(uint32_t input, const bp_tensor& constant, bp_mem packed, uint64_t bytes) {
  bp_prepack_args args{};
  args.struct_size = sizeof(args);
  args.kernel = record_.original;
  args.plan = plan_;
  args.input = &constant;
  args.input_index = input;
  args.packed = packed;
  args.packed_bytes = bytes;
  const std::string what = words(words_of("prepack of"), ", input ", input);
  note_step(what);
  context_.require_ok(what, context_.table().prepack(record_.kernel, args));
}

std::optional<bp_fault_word> Planned::fault() const {
  if (!fault_) return std::nullopt;
  bp_fault_word word{};
  const Bytes bytes = fault_->read();
  std::memcpy(&word, bytes.data(), sizeof(word));
  return word;
}

Dims Planned::real_sizes(size_t index, const Dims& bound) const {
  if (!extents_) return bound;
  const Bytes bytes = extents_->read();
  Dims real = bound;
  for (size_t i = 0; i < bound.size(); ++i) {
    std::memcpy(&real[i], bytes.data() + (index * BP_MAX_RANK + i) * sizeof(int64_t),
                sizeof(int64_t));
    context_.require(real[i] >= 0 && real[i] <= bound[i],
                     words("a size from 0 to ", bound[i], " in dimension ", i, " of output ", index,
                           ", found ", real[i]));
  }
  return real;
}

}  // namespace bp::conform
