// SPDX-License-Identifier: Apache-2.0
//
// See cpu_test_support.hpp.
#include "plugins/cpu/cpu_test_support.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

namespace bp::cpu_test {
namespace {

// The plugin, which shares this library, chooses its code at the first launch. Processors without
// AVX2 are rare, and loops for vectors of one lane have bounds that wider ones never reach.
class Lanes : public testing::Environment {
 public:
  void SetUp() override {
    const char* const lanes = std::getenv("BP_CPU_LANES");
    if (lanes == nullptr) return;
    ASSERT_STREQ(lanes, "scalar") << "BP_CPU_LANES";
    hwy::SetSupportedTargetsForTest(HWY_SCALAR);
  }
};
[[maybe_unused]] const auto* const kLanes = testing::AddGlobalTestEnvironment(new Lanes);

constexpr size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xa5};

// A float format with `fraction_bits`, exponents from `min_exponent`, as bits with a sign on top.
struct SmallFloat {
  int fraction_bits;
  int exponent_bits;
  int min_exponent;
};
constexpr SmallFloat kF16{10, 5, -14};
constexpr SmallFloat kBf16{7, 8, -126};

double decode_small(const SmallFloat& format, uint16_t bits) {
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const int exponent = (bits >> format.fraction_bits) & ((1 << format.exponent_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int whole = exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
  return sign *
         std::ldexp(whole, std::max(exponent - 1, 0) + format.min_exponent - format.fraction_bits);
}

uint16_t encode_small(const SmallFloat& format, double value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const int infinity = ((1 << format.exponent_bits) - 1) << format.fraction_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | (1 << (format.fraction_bits - 1)));
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return static_cast<uint16_t>(sign | infinity);
  const int exponent =
      magnitude == 0 ? format.min_exponent : std::max(std::ilogb(magnitude), format.min_exponent);
  const double units = std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent));
  // A fraction that rounds up to the next power carries into the exponent by itself.
  const int base = (exponent - format.min_exponent) << format.fraction_bits;
  const int bits = base + static_cast<int>(units);
  return static_cast<uint16_t>(sign | std::min(bits, infinity));
}

template <class T>
double decode_as(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return static_cast<double>(value);
}

template <class T>
void encode_as(double value, void* out_element) {
  const T element = static_cast<T>(value);
  std::memcpy(out_element, &element, sizeof(T));
}

using tests::text_of;

bp_tensor as_abi(const Tensor& tensor) {
  bp_tensor result{};
  result.dtype = tensor.dtype;
  if (tensor.dtype == BP_DTYPE_NONE) return result;
  result.handle = reinterpret_cast<uint64_t>(tensor.storage->data());
  result.offset_bytes = static_cast<uint64_t>(tensor.offset) * bytes_of(tensor.dtype);
  result.storage_bytes = tensor.storage->size();
  result.rank = static_cast<uint32_t>(tensor.sizes.size());
  result.sizes = tensor.sizes.data();
  result.strides = tensor.strides.data();
  return result;
}

bp_arg_info info_of(const Tensor& tensor) {
  bp_arg_info info{};
  info.struct_size = sizeof(info);
  info.dtype = tensor.dtype;
  info.rank = static_cast<uint32_t>(tensor.sizes.size());
  info.sizes = tensor.sizes.data();
  info.strides = tensor.strides.data();
  return info;
}

bool is_read_by_plan(const bp_kernel& kernel, size_t input) {
  if (kernel.arg_rule_count == 0) return false;
  const size_t last = kernel.arg_rule_count - 1;
  return (kernel.arg_rules[std::min(input, last)]->flags & BP_ARG_HOST_AT_PLAN_BIT) != 0;
}

// A query with what it points at.
struct Query {
  Query(const bp_kernel* kernel, const Call& call) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      args.push_back(info_of(call.inputs[i]));
      if ((call.constant_inputs >> i & 1) != 0) args.back().flags |= BP_INFO_CONSTANT_BIT;
      const bool is_given = call.inputs[i].dtype != BP_DTYPE_NONE;
      if (is_given && is_read_by_plan(*kernel, i))
        args.back().host_data = call.inputs[i].data<std::byte>();
    }
    args.push_back(info_of(call.output));
    if (call.any_order) args.back().flags |= BP_INFO_ANY_ORDER_BIT;
    query.struct_size = sizeof(query);
    query.kernel = kernel;
    query.op_version = 1;
    query.input_count = static_cast<uint32_t>(call.inputs.size());
    query.output_count = 1;
    query.arg_stride_bytes = sizeof(bp_arg_info);
    query.args = args.data();
    query.attributes = call.attributes;
    if (call.attributes != nullptr) {
      query.attributes_bytes = *static_cast<const uint32_t*>(call.attributes);
    }
  }
  std::vector<bp_arg_info> args;
  bp_kernel_query query{};
};

std::vector<const bp_kernel*> candidates(const Device& device, const Call& call) {
  std::vector<const bp_kernel*> found;
  for (const bp_kernel* kernel : device.kernels()) {
    if (text_of(kernel->op) != call.op) continue;
    if (!call.only_kernel.empty() && text_of(kernel->name) != call.only_kernel) continue;
    const uint64_t bit = BP_DTYPE_BIT(call.inputs[0].dtype);
    if ((kernel->dtype_masks[0] & bit) != 0) found.push_back(kernel);
  }
  std::stable_sort(found.begin(), found.end(), [](const bp_kernel* a, const bp_kernel* b) {
    return a->priority > b->priority;
  });
  return found;
}

bool is_supported(const Device& device, const bp_kernel* kernel, const Call& call,
                  Outcome* outcome) {
  if (kernel->supports == nullptr) return true;
  const Query query(kernel, call);
  bp_support support{};
  support.struct_size = sizeof(support);
  EXPECT_EQ(kernel->supports(device.get(), &query.query, &support), BP_OK);
  if (support.answer != BP_SUPPORT_NO) return true;
  outcome->status = BP_UNSUPPORTED;
  outcome->refusals[text_of(kernel->name)] = text_of(support.reason);
  return false;
}

}  // namespace

int64_t element_count(const Sizes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

uint64_t bytes_of(uint32_t dtype) {
  static const std::map<uint32_t, uint64_t> kBytes{
      {BP_DTYPE_BOOL, 1}, {BP_DTYPE_I8, 1},  {BP_DTYPE_I16, 2},   {BP_DTYPE_I32, 4},
      {BP_DTYPE_I64, 8},  {BP_DTYPE_U8, 1},  {BP_DTYPE_U16, 2},   {BP_DTYPE_U32, 4},
      {BP_DTYPE_U64, 8},  {BP_DTYPE_F16, 2}, {BP_DTYPE_BF16, 2},  {BP_DTYPE_F32, 4},
      {BP_DTYPE_F64, 8},  {BP_DTYPE_C64, 8}, {BP_DTYPE_C128, 16}, {BP_DTYPE_I4, 1}};
  return kBytes.at(dtype);
}

double decode(uint32_t dtype, const void* element) {
  uint16_t bits = 0;
  if (bytes_of(dtype) == 2) std::memcpy(&bits, element, 2);
  switch (dtype) {
    case BP_DTYPE_I8:
      return decode_as<int8_t>(element);
    case BP_DTYPE_I16:
      return decode_as<int16_t>(element);
    case BP_DTYPE_I32:
      return decode_as<int32_t>(element);
    case BP_DTYPE_I64:
      return decode_as<int64_t>(element);
    case BP_DTYPE_U16:
      return decode_as<uint16_t>(element);
    case BP_DTYPE_U32:
      return decode_as<uint32_t>(element);
    case BP_DTYPE_U64:
      return decode_as<uint64_t>(element);
    case BP_DTYPE_F16:
      return decode_small(kF16, bits);
    case BP_DTYPE_BF16:
      return decode_small(kBf16, bits);
    case BP_DTYPE_F32:
      return decode_as<float>(element);
    case BP_DTYPE_F64:
      return decode_as<double>(element);
    default:
      return decode_as<uint8_t>(element);
  }
}

void encode(uint32_t dtype, double value, void* out_element) {
  switch (dtype) {
    case BP_DTYPE_I8:
      return encode_as<int8_t>(value, out_element);
    case BP_DTYPE_I16:
      return encode_as<int16_t>(value, out_element);
    case BP_DTYPE_I32:
      return encode_as<int32_t>(value, out_element);
    case BP_DTYPE_I64:
      return encode_as<int64_t>(value, out_element);
    case BP_DTYPE_U16:
      return encode_as<uint16_t>(value, out_element);
    case BP_DTYPE_U32:
      return encode_as<uint32_t>(value, out_element);
    case BP_DTYPE_U64:
      return encode_as<uint64_t>(value, out_element);
    case BP_DTYPE_F16:
      return encode_as<uint16_t>(encode_small(kF16, value), out_element);
    case BP_DTYPE_BF16:
      return encode_as<uint16_t>(encode_small(kBf16, value), out_element);
    case BP_DTYPE_F32:
      return encode_as<float>(value, out_element);
    case BP_DTYPE_F64:
      return encode_as<double>(value, out_element);
    default:
      return encode_as<uint8_t>(value, out_element);
  }
}

double Tensor::at(const Sizes& index) const {
  int64_t element = offset;
  for (size_t d = 0; d < index.size(); ++d) element += index[d] * strides[d];
  return decode(dtype, storage->data() + static_cast<uint64_t>(element) * bytes_of(dtype));
}

double Tensor::at_flat(int64_t index) const {
  Sizes position(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    position[d] = index % sizes[d];
    index /= sizes[d];
  }
  return at(position);
}

Values Tensor::values() const {
  Values result;
  for (int64_t i = 0; i < element_count(sizes); ++i) result.push_back(at_flat(i));
  return result;
}

Tensor Tensor::permuted(const std::vector<size_t>& order) const {
  Tensor result = *this;
  for (size_t d = 0; d < order.size(); ++d) {
    result.sizes[d] = sizes[order[d]];
    result.strides[d] = strides[order[d]];
  }
  return result;
}

Tensor Tensor::flipped(size_t dimension) const {
  Tensor result = *this;
  result.offset += (sizes[dimension] - 1) * strides[dimension];
  result.strides[dimension] = -strides[dimension];
  return result;
}

Tensor Tensor::stepped(size_t dimension, int64_t step) const {
  Tensor result = *this;
  result.sizes[dimension] = (sizes[dimension] + step - 1) / step;
  result.strides[dimension] *= step;
  return result;
}

Tensor Tensor::expanded(const Sizes& to) const {
  Tensor result = *this;
  for (size_t d = 0; d < to.size(); ++d) {
    if (sizes[d] != to[d]) result.strides[d] = 0;
  }
  result.sizes = to;
  return result;
}

Tensor make_output(uint32_t dtype, const Sizes& sizes) {
  Tensor tensor{.dtype = dtype, .sizes = sizes, .strides = Sizes(sizes.size(), 1)};
  for (size_t d = sizes.size(); d-- > 1;) tensor.strides[d - 1] = tensor.strides[d] * sizes[d];
  const uint64_t bytes = static_cast<uint64_t>(element_count(sizes)) * bytes_of(dtype);
  tensor.storage = std::make_shared<std::vector<std::byte>>(bytes, std::byte{0xff});
  return tensor;
}

Tensor make_tensor(uint32_t dtype, const Sizes& sizes, const Values& values) {
  Tensor tensor = make_output(dtype, sizes);
  EXPECT_EQ(static_cast<size_t>(element_count(sizes)), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    encode(dtype, values[i], tensor.storage->data() + i * bytes_of(dtype));
  }
  return tensor;
}

Tensor make_random(uint32_t dtype, const Sizes& sizes, uint32_t seed, double low, double high) {
  std::mt19937 generator(seed);
  const bool is_float = dtype >= BP_DTYPE_F16;
  Values values;
  for (int64_t i = 0; i < element_count(sizes); ++i) {
    const double unit = static_cast<double>(generator()) / 0x1p32;
    const double value = low + (high - low) * unit;
    values.push_back(is_float ? value : std::floor(value));
  }
  return make_tensor(dtype, sizes, values);
}

Tensor channels_last(const Tensor& x) {
  Tensor last = x;
  const auto rank = static_cast<int64_t>(x.sizes.size());
  last.storage = make_output(x.dtype, x.sizes).storage;
  last.strides.assign(x.sizes.size(), 1);
  int64_t stride = x.sizes[1];
  for (int64_t d = rank - 1; d > 1; --d) {
    last.strides[static_cast<size_t>(d)] = stride;
    stride *= x.sizes[static_cast<size_t>(d)];
  }
  last.strides[0] = stride;
  for_each_index(x.sizes, [&](const Sizes& index) {
    int64_t element = 0;
    for (size_t d = 0; d < index.size(); ++d) element += index[d] * last.strides[d];
    encode(x.dtype, x.at(index),
           last.storage->data() + static_cast<size_t>(element) * bytes_of(x.dtype));
  });
  return last;
}

const bp_plugin& plugin() {
  static const bp_plugin kLoaded = tests::load_plugin(BP_CPU_PLUGIN);
  return kLoaded;
}

Device::Device(const char* threads)
    : RawDevice(plugin(), threads == nullptr ? tests::OptionList()
                                             : tests::OptionList{{"threads", threads}}) {}

const bp_kernel* Device::kernel(const std::string& name) const {
  for (const bp_kernel* kernel : kernels()) {
    if (text_of(kernel->name) == name) return kernel;
  }
  ADD_FAILURE() << "no kernel " << name;
  return nullptr;
}

Planned::Planned(Device& device, const bp_kernel* kernel, const Call& call)
    : device_(device), kernel_(kernel) {
  info_.struct_size = sizeof(info_);
  if (kernel->plan == nullptr) return;
  const Query query(kernel, call);
  plan_status_ = kernel->plan(device.get(), &query.query, &info_, &plan_);
}

Planned::~Planned() {
  if (plan_ != nullptr) kernel_->plan_free(device_.get(), plan_);
}

bp_kernel_state* Planned::make_state() const {
  bp_kernel_state* state = nullptr;
  if (kernel_->state_create != nullptr) {
    EXPECT_EQ(kernel_->state_create(device_.get(), kernel_, plan_, &state), BP_OK);
  }
  return state;
}

void Planned::free_state(bp_kernel_state* state) const {
  if (kernel_->state_destroy != nullptr) kernel_->state_destroy(device_.get(), state);
}

Call Planned::packed(const Call& call) const {
  Call result = call;
  if (info_.out_strides != nullptr) {
    EXPECT_TRUE(call.any_order) << "the plan chooses an order where it may not";
    std::copy_n(info_.out_strides, call.output.sizes.size(), result.output.strides.begin());
  }
  for (uint32_t i = 0; i < call.inputs.size(); ++i) {
    if ((info_.packed_inputs >> i & 1) == 0) continue;
    bp_prepack_info info{};
    info.struct_size = sizeof(info);
    EXPECT_EQ(kernel_->prepack_query(device_.get(), plan_, i, &info), BP_OK);
    Tensor& packed = result.inputs[i];
    // Alignment 64, as the plugin asks for.
    packed.storage = std::make_shared<std::vector<std::byte>>(info.bytes + 64, kGuard);
    const auto first = reinterpret_cast<uint64_t>(packed.storage->data());
    const uint64_t lead = (first + 63) / 64 * 64 - first;
    packed.offset = static_cast<int64_t>(lead / bytes_of(packed.dtype));
    const bp_tensor plain = as_abi(call.inputs[i]);
    bp_prepack_args args{};
    args.struct_size = sizeof(args);
    args.kernel = kernel_;
    args.plan = plan_;
    args.input = &plain;
    args.input_index = i;
    args.packed = {first, lead};
    args.packed_bytes = info.bytes;
    EXPECT_EQ(kernel_->prepack(device_.get(), &args), BP_OK);
  }
  return result;
}

bp_status Planned::launch(const Call& call, bp_kernel_state* state, std::byte* workspace,
                          Outcome* outcome) const {
  std::vector<bp_tensor> tensors;
  for (const Tensor& input : call.inputs) tensors.push_back(as_abi(input));
  tensors.push_back(as_abi(call.output));
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = device_.get();
  args.kernel = kernel_;
  args.plan = plan_;
  args.state = state;
  args.tensors = tensors.data();
  args.input_count = static_cast<uint32_t>(call.inputs.size());
  args.output_count = 1;
  args.attributes = call.attributes;
  args.workspace = {reinterpret_cast<uint64_t>(workspace), 0};
  args.op_seq = 77;
  if ((info_.flags & BP_PLAN_CAN_FAULT_BIT) != 0) {
    args.fault = {reinterpret_cast<uint64_t>(&outcome->fault), 0};
  }
  args.out_extents = {reinterpret_cast<uint64_t>(outcome->extents.data()), 0};
  return kernel_->launch(&args);
}

Outcome run(Device& device, const Call& call) {
  Outcome outcome;
  for (const bp_kernel* kernel : candidates(device, call)) {
    if (!is_supported(device, kernel, call, &outcome)) continue;
    const Planned planned(device, kernel, call);
    outcome.status = planned.plan_status();
    if (outcome.status == BP_UNSUPPORTED) {
      outcome.refusals[text_of(kernel->name)] = text_of(planned.info().reason);
      continue;
    }
    if (outcome.status != BP_OK) return outcome;
    outcome.kernel = text_of(kernel->name);
    outcome.plan_flags = planned.info().flags;
    outcome.workspace_bytes = planned.info().workspace_bytes;
    // Alignment 64, as the core gives it.
    std::vector<std::byte> memory(outcome.workspace_bytes + kGuardBytes + 64, kGuard);
    const uint64_t first = (reinterpret_cast<uint64_t>(memory.data()) + 63) / 64 * 64;
    std::byte* const workspace = reinterpret_cast<std::byte*>(first);
    bp_kernel_state* const state = planned.make_state();
    const Call packed = planned.packed(call);
    outcome.output = packed.output;
    outcome.status = planned.launch(packed, state, workspace, &outcome);
    planned.free_state(state);
    std::byte* const guard = workspace + outcome.workspace_bytes;
    EXPECT_TRUE(std::all_of(guard, guard + kGuardBytes, [](std::byte b) { return b == kGuard; }))
        << outcome.kernel << " wrote beyond its workspace";
    return outcome;
  }
  return outcome;
}

void for_each_index(const Sizes& sizes, const std::function<void(const Sizes&)>& body) {
  const int64_t count = element_count(sizes);
  Sizes index(sizes.size());
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat;
    for (size_t d = sizes.size(); d-- > 0;) {
      index[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    body(index);
  }
}

double broadcast_at(const Tensor& tensor, const Sizes& index) {
  const size_t missing = index.size() - tensor.sizes.size();
  Sizes own(index.begin() + static_cast<int64_t>(missing), index.end());
  for (size_t d = 0; d < own.size(); ++d) {
    if (tensor.sizes[d] == 1) own[d] = 0;
  }
  return tensor.at(own);
}

}  // namespace bp::cpu_test
