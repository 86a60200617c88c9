// SPDX-License-Identifier: Apache-2.0
//
// matmul and gemm in f32 with oneDNN, for matrices whose rows or columns are dense. A bias that
// runs along the columns is added inside the product; any other alpha, beta and c are one more pass
// over y.
#include <algorithm>

#include "activation.hpp"
#include "backplane/ops/linalg.h"
#include "kernel_support.hpp"
#include "matmul_shape.hpp"
#include "onednn.hpp"

namespace bp::cpu {
namespace {

// Below this many multiply-adds a library call, which allocates several times, costs more than the
// product itself.
constexpr double kSmallProduct = 2048;
// Of one row or one column that has gaps, oneDNN adds all terms one behind the other.
constexpr int64_t kMostTermsWithGaps = 4096;

bool has_gaps(const MatmulShape& shape) {
  return (std::min(shape.m, shape.n) == 1 && shape.a_col != 1) ||
         (shape.n == 1 && shape.b_row != 1);
}

struct ProductPlan : DnnlPlan {
  int64_t m = 0;
  int64_t n = 0;
  // What is left to do after the program.
  Epilogue epilogue;
  Activation activation;
};

struct Matrix {
  int64_t rows;
  int64_t cols;
  int64_t row_stride;
  int64_t col_stride;
};

// oneDNN's fast code takes row-major and column-major matrices. The stride of a dimension of size 1
// means nothing and gets the value that fits.
void make_dense(Matrix* matrix) {
  if (matrix->cols == 1) matrix->col_stride = 1;
  if (matrix->rows == 1 && matrix->col_stride == 1) matrix->row_stride = matrix->cols;
  if (matrix->rows == 1 && matrix->col_stride != 1) matrix->row_stride = 1;
  const bool by_rows = matrix->col_stride == 1 && matrix->row_stride >= matrix->cols;
  const bool by_columns = matrix->row_stride == 1 && matrix->col_stride >= matrix->rows;
  if (!by_rows && !by_columns) throw Refusal{"oneDNN takes matrices with dense rows or columns"};
  if (std::max(matrix->row_stride, matrix->col_stride) > kMostDnnlElements) {
    throw Refusal{"oneDNN does not take rows that lie as far apart"};
  }
}

// A matrix per batch; a batch dimension along which it repeats has size 1.
DnnlDesc describe(const Nest& batches, int operand, const Matrix& matrix) {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  for (int d = 0; d < batches.rank && batches.count > 1; ++d) {
    const int64_t stride = batches.strides[operand][d];
    if (stride < 0) throw Refusal{"oneDNN does not take negative strides"};
    sizes.push_back(stride == 0 ? 1 : batches.sizes[d]);
    strides.push_back(stride == 0 ? matrix.rows * matrix.cols : stride);
  }
  sizes.insert(sizes.end(), {matrix.rows, matrix.cols});
  strides.insert(strides.end(), {matrix.row_stride, matrix.col_stride});
  if (sizes.size() > DNNL_MAX_NDIMS) throw Refusal{"more batch dimensions than oneDNN has"};
  return make_f32_desc(sizes, strides);
}

// The output, contiguous, with all batches.
DnnlDesc describe_output(const MatmulShape& shape) {
  std::vector<int64_t> sizes;
  for (int d = 0; d < shape.batches.rank && shape.batches.count > 1; ++d) {
    sizes.push_back(shape.batches.sizes[d]);
  }
  sizes.insert(sizes.end(), {shape.m, shape.n});
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  return make_f32_desc(sizes, strides);
}

DnnlDesc describe_b(const MatmulShape& shape) {
  Matrix matrix{shape.k, shape.n, shape.b_row, shape.b_col};
  make_dense(&matrix);
  return describe(shape.batches, 1, matrix);
}

// Only one matrix for all batches: what is packed once is read by all.
bool is_one_matrix(const MatmulShape& shape) { return shape.batches.count == 1; }

// What the program does with the product.
struct ProductEpilogue {
  bool has_bias = false;    // input 2 is a row
  bool has_addend = false;  // input 2 lies as y
  std::optional<DnnlEltwise> activation = {};
};

// A row, which repeats in all dimensions but the last.
DnnlDesc describe_row(int64_t count, const_dnnl_memory_desc_t y) {
  int rank = 0;
  check_dnnl(dnnl_memory_desc_query(y, dnnl_query_ndims_s32, &rank), "memory_desc_query");
  std::vector<int64_t> sizes(static_cast<size_t>(rank), 1);
  std::vector<int64_t> strides(sizes.size(), count);
  sizes.back() = count;
  strides.back() = 1;
  return make_f32_desc(sizes, strides);
}

DnnlProgram build_program(dnnl_engine* engine, const MatmulShape& shape,
                          const ProductEpilogue& epilogue, int y_tensor,
                          const WeightsChoice& choice) {
  Matrix a_matrix{shape.m, shape.k, shape.a_row, shape.a_col};
  make_dense(&a_matrix);
  const DnnlDesc a = describe(shape.batches, 0, a_matrix);
  const int64_t b_sizes[] = {shape.k, shape.n};
  const DnnlDesc b = choice.is_constant ? make_f32_desc_of_any_layout(b_sizes) : describe_b(shape);
  const DnnlDesc y = describe_output(shape);
  const DnnlDesc bias = epilogue.has_bias ? describe_row(shape.n, y.get()) : nullptr;
  const DnnlAttr attr = make_dnnl_attr(
      {.addend = epilogue.has_addend ? y.get() : nullptr, .activation = epilogue.activation});
  dnnl_primitive_desc_t raw = nullptr;
  check_dnnl(dnnl_matmul_primitive_desc_create(&raw, engine, a.get(), choice.wanted(b.get()),
                                               bias.get(), y.get(), attr.get()),
             "matmul_primitive_desc_create");
  DnnlPrimitiveDesc descriptor(raw);
  DnnlProgram program;
  const auto b_desc = DnnlProgram::desc_of(raw, dnnl_query_weights_md);
  std::vector<DnnlProgram::Arg> args{
      {DNNL_ARG_SRC, DnnlProgram::desc_of(raw, dnnl_query_src_md), {.tensor = 0}},
      {DNNL_ARG_WEIGHTS, b_desc, choice.place(1)},
      {DNNL_ARG_DST, DnnlProgram::desc_of(raw, dnnl_query_dst_md), {.tensor = y_tensor}}};
  if (epilogue.has_bias) {
    args.push_back({DNNL_ARG_BIAS,
                    dnnl_primitive_desc_query_md(raw, dnnl_query_weights_md, 1),
                    {.tensor = 2}});
  }
  if (epilogue.has_addend) {
    args.push_back({kDnnlAddend, addend_desc_of(raw), {.tensor = 2}});
  }
  program.add_step(std::move(descriptor), std::move(args));
  return program;
}

std::unique_ptr<ProductPlan> make_product_plan(bp_device* device, const bp_kernel_query& query,
                                               const MatmulShape& shape, const Epilogue& epilogue,
                                               const Activation& activation, bp_plan_info* info) {
  if (shape.is_empty()) throw Refusal{"empty tensors need no library"};
  if (shape.multiply_add_count() < kSmallProduct) {
    throw Refusal{"too small to pay for a library call"};
  }
  if (shape.k > kMostTermsWithGaps && has_gaps(shape)) {
    throw Refusal{"oneDNN's sums of as many terms with gaps are far from exact"};
  }
  const bool is_plain = epilogue.has_c && epilogue.alpha == 1.0 && epilogue.beta == 1.0;
  ProductEpilogue inside{
      .has_bias = is_plain && epilogue.c_row == 0 && epilogue.c_col == 1,
      .has_addend = is_plain && shape.n > 1 && epilogue.c_row == shape.n && epilogue.c_col == 1};
  const int y_tensor = static_cast<int>(query.input_count);  // an absent c counts
  auto plan = std::make_unique<ProductPlan>();
  plan->m = shape.batches.count * shape.m;
  plan->n = shape.n;
  if (!inside.has_bias && !inside.has_addend) plan->epilogue = epilogue;
  if (plan->epilogue.is_nothing()) inside.activation = activation.post_op();
  if (!inside.activation) plan->activation = activation;
  std::optional<PlainWeights> weights;
  if (is_constant(arg_info(query, 1)) && is_one_matrix(shape)) {
    weights = PlainWeights{1, describe_b(shape)};
  }
  build_dnnl_programs(
      device, shape.multiply_add_count(),
      [&](const WeightsChoice& choice) {
        return build_program(device->engine.get(), shape, inside, y_tensor, choice);
      },
      std::move(weights), plan.get(), info);
  return plan;
}

std::unique_ptr<ProductPlan> make_matmul_plan(bp_device* device, const bp_kernel_query& query,
                                              bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_matmul_defaults());
  const MatmulShape shape = make_matmul_shape(query);
  return make_product_plan(device, query, shape, make_epilogue(query, shape),
                           Activation(*device, attrs), info);
}

std::unique_ptr<ProductPlan> make_gemm_plan(bp_device* device, const bp_kernel_query& query,
                                            bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_gemm_defaults());
  const MatmulShape shape = make_gemm_shape(query, attrs);
  return make_product_plan(device, query, shape, make_epilogue(query, attrs, shape),
                           Activation(*device, attrs), info);
}

void finish(const ProductPlan& plan, const bp_launch_args& args) {
  const Epilogue& e = plan.epilogue;
  const float alpha = static_cast<float>(e.alpha);
  const float beta = static_cast<float>(e.beta);
  float* const y = address_of<float>(output_of(args));
  const float* const c = e.has_c ? address_of<const float>(input_of(args, 2)) : nullptr;
  args.device->workers.for_ranges(plan.m, plan.n, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t i = begin; i < end; ++i) {
      float* const row = y + i * plan.n;
      for (int64_t j = 0; j < plan.n; ++j) {
        row[j] = alpha * row[j];
        if (c != nullptr) row[j] += beta * c[i * e.c_row + j * e.c_col];
      }
    }
  });
}

bp_status launch(const bp_launch_args& args) {
  const bp_status status = launch_dnnl(args);
  const auto& plan = *static_cast<const ProductPlan*>(args.plan);
  if (status != BP_OK) return status;
  if (!plan.epilogue.is_nothing()) finish(plan, args);
  return plan.activation.apply(args);
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel onednn_kernel(std::string_view name, std::string_view op, PlanSlot plan) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .arg_rules = sdk::kAnyStrides,
                        .flags = 0,
                        .priority = 10,
                        .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                        .version_max = 2,
                        .op_since = 2,
                        .plan = plan,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch_slot<launch>,
                        .state_create = create_dnnl_state,
                        .state_destroy = sdk::delete_state<bp_kernel_state>,
                        .prepack_query = query_packed_weights,
                        .prepack = pack_weights});
}

constexpr bp_kernel kKernels[] = {
    onednn_kernel("matmul_f32_onednn", "matmul", plan_slot<ProductPlan, make_matmul_plan>),
    onednn_kernel("gemm_f32_onednn", "gemm", plan_slot<ProductPlan, make_gemm_plan>)};

}  // namespace

BP_SDK_KERNELS(matmul_onednn, kKernels);

}  // namespace bp::cpu
