// SPDX-License-Identifier: Apache-2.0
//
// Kernels that write into views, right until device_fault names what is wrong with them. Part of
// fake_wrong_kernels.hpp.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_WRONG_VIEWS_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_WRONG_VIEWS_HPP

namespace {

/// The output as a wrong mul sees it. Where that forgets strides it begins at the lowest element,
/// so that what it writes stays in the memory that it was given.
bp_tensor seen_output(const bp_launch_args& args, int64_t* strides) {
  bp_tensor out = args.tensors[2];
  const bool forgets = is_wrong(args, "mul_writes_dense");
  if (forgets || is_wrong(args, "mul_ignores_signs")) {
    for (uint32_t i = 0; i < out.rank; ++i) {
      const int64_t back = out.strides[i] < 0 ? (out.sizes[i] - 1) * -out.strides[i] : 0;
      out.offset_bytes -= static_cast<uint64_t>(back) * sizeof(float);
      strides[i] = std::abs(out.strides[i]);
    }
    out.strides = strides;
    if (forgets) make_dense(&out, strides);
  }
  if (is_wrong(args, "mul_rounds_down")) out.offset_bytes -= out.offset_bytes % 64;
  return out;
}

/// As where rows are stored whole, with the gap that lies behind each, the last one too.
void write_gaps_of_rows(const bp_tensor& out) {
  if (out.rank < 2 || out.strides[out.rank - 1] != 1 || out.sizes[out.rank - 2] < 2) return;
  const int64_t size = out.sizes[out.rank - 1];
  const int64_t gap = out.strides[out.rank - 2] - size;
  for (int64_t last = size - 1; last < bp::sdk::element_count(out); last += size) {
    for (int64_t i = 1; i <= gap; ++i) (&element(out, out, last))[i] = 0;
  }
}

void wrong_mul(const bp_launch_args& args) {
  int64_t strides[BP_MAX_RANK];
  const bp_tensor& given = args.tensors[2];
  if (!std::equal(given.strides, given.strides + given.rank, args.plan->strides[1])) {
    throw Failure{BP_INTERNAL, "the output lies otherwise than its plan was shown"};
  }
  const int64_t count = bp::sdk::element_count(given);
  if (count == 0) return;
  const bp_tensor out = seen_output(args, strides);
  for (int64_t i = 0; i < count; ++i) {
    float& y = element(out, out, i);
    y = element(args.tensors[0], out, i) * element(args.tensors[1], out, i);
    if (is_wrong(args, "mul_adds_one")) y += 1;
  }
  if (is_wrong(args, "mul_writes_whole_rows")) write_gaps_of_rows(out);
}

bp_status plan_mul(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                   bp_kernel_plan** out_plan) {
  if (!device || !query || !out_info || !out_plan) return BP_INVALID_ARGUMENT;
  auto plan = std::make_unique<bp_kernel_plan>();
  const bp_arg_info& out = query->args[2];
  std::copy_n(out.strides, out.rank, plan->strides[1]);
  bp_plan_info info{};
  if (device->fault == "mul_plans_dense") {
    int64_t step = 1;
    for (uint32_t i = out.rank; i-- > 0; step *= out.sizes[i]) plan->strides[0][i] = step;
    info.out_strides = plan->strides[0];
  }
  bp::sdk::write_out(out_info, info);
  *out_plan = plan.release();
  return BP_OK;
}

/// Each output by its own strides; where it looks at the first one alone, that speaks for all.
void wrong_split(const bp_launch_args& args) {
  bp_tensor x = args.tensors[0];
  int64_t axis = bp::sdk::read_attributes(args.attributes, bp_attrs_split_defaults()).axis;
  if (axis < 0) axis += x.rank;
  const bool looks_at_one = is_wrong(args, "split_looks_at_one") && is_dense(args.tensors[1]);
  int64_t strides[BP_MAX_RANK];
  for (uint32_t part = 0; part < args.output_count; ++part) {
    bp_tensor out = args.tensors[1 + part];
    if (looks_at_one) make_dense(&out, strides);
    for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
      element(out, out, i) = element(x, out, i);
    }
    x.offset_bytes += static_cast<uint64_t>(out.sizes[axis] * x.strides[axis]) * sizeof(float);
  }
}

bp_status launch_wrong_mul(const bp_launch_args* args) { return start(args, wrong_mul); }
bp_status launch_wrong_split(const bp_launch_args* args) { return start(args, wrong_split); }

constexpr bp_kernel make_wrong_mul() {
  bp_kernel kernel = make_kernel("mul_told", "mul", launch_wrong_mul);
  kernel.flags |= BP_KERNEL_STRIDED_OUTPUTS_BIT;
  kernel.depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT;
  kernel.plan = plan_mul;
  kernel.plan_free = end_plan;
  return kernel;
}

constexpr bp_kernel make_wrong_split() {
  bp_kernel kernel = make_kernel("split_told", "split", launch_wrong_split);
  kernel.flags |= BP_KERNEL_STRIDED_OUTPUTS_BIT;
  return kernel;
}

constexpr bp_kernel kWrongMul = make_wrong_mul();
constexpr bp_kernel kWrongSplit = make_wrong_split();

}  // namespace

#endif
