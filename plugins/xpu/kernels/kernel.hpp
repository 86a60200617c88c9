// SPDX-License-Identifier: Apache-2.0
//
// What the kernels have in common. A kernel is one descriptor and one function that turns a query
// into a Plan; launching is the same for all: buffers with their offsets, then the geometry.
// clSetKernelArg is the one OpenCL call that is not safe from several threads, so each state has
// kernel objects of its own, and a launch takes no lock that another stream could hold.
#ifndef BACKPLANE_PLUGINS_XPU_KERNELS_KERNEL_HPP
#define BACKPLANE_PLUGINS_XPU_KERNELS_KERNEL_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "backplane/device_api.h"
#include "backplane/sdk/sdk.hpp"
#include "kernels/geometry.h"
#include "kernels/program.hpp"

namespace bp::xpu {

/// Which kernel function, over how many work items, with which numbers. Immutable.
class Plan {
 public:
  static constexpr size_t kMaxGeometryBytes = 512;

  /// `group_size`: work items per group, at most; `function` is static text.
  template <class Geometry>
  Plan(ProgramId program, const char* function, uint32_t group_size, const Geometry& geometry)
      : program_(program),
        function_(function),
        group_size_(group_size),
        item_count_(geometry.item_count),
        geometry_bytes_(sizeof(Geometry)) {
    static_assert(sizeof(Geometry) <= kMaxGeometryBytes && std::is_trivially_copyable_v<Geometry>);
    std::memcpy(geometry_.data(), &geometry, sizeof(Geometry));
  }

  /// Launches take a fault word behind the geometry, and their number.
  Plan with_fault() const {
    Plan plan = *this;
    plan.can_fault_ = true;
    return plan;
  }
  /// ... the place for the output's real sizes.
  Plan with_extents() const {
    Plan plan = *this;
    plan.has_extents_ = true;
    return plan;
  }

  ProgramId program() const { return program_; }
  bool can_fault() const { return can_fault_; }
  bool has_extents() const { return has_extents_; }
  const char* function() const { return function_; }
  uint32_t group_size() const { return group_size_; }
  uint64_t item_count() const { return item_count_; }
  const void* geometry() const { return geometry_.data(); }
  size_t geometry_bytes() const { return geometry_bytes_; }

 private:
  ProgramId program_;
  const char* function_;
  uint32_t group_size_;
  uint64_t item_count_;
  size_t geometry_bytes_;
  bool can_fault_ = false;
  bool has_extents_ = false;
  std::array<std::byte, kMaxGeometryBytes> geometry_{};
};

}  // namespace bp::xpu

/// The ABI's opaque plan.
struct bp_kernel_plan final {
  bp::xpu::Plan plan;
  cl_program program;
};

namespace bp::xpu {

/// Argument `index` of a query, inputs first. Throws sdk::Failure if its sizes or strides are not
/// known, which the core's query for these kernels must have.
const bp_arg_info& argument(const bp_kernel_query& query, uint32_t index);

/// The strides of `input` seen as a tensor of `rank` dimensions of `sizes`: dimensions are aligned
/// at the right, repeated ones get stride 0. Throws sdk::Failure if the shapes do not broadcast.
void broadcast_strides(const bp_arg_info& input, const int64_t* sizes, uint32_t rank,
                       int64_t* out_strides);

/// Throws sdk::Failure unless the query has `input_count` inputs and one output.
void expect_inputs(const bp_kernel_query& query, uint32_t input_count);

bp_status launch(const bp_launch_args& args);
bp_status state_create(bp_device* device, const bp_kernel* kernel, const bp_kernel_plan* plan,
                       bp_kernel_state** out_state);
void state_destroy(bp_device* device, bp_kernel_state* state);

std::unique_ptr<bp_kernel_plan> plan_with(Plan (*make)(const bp_kernel_query&), bp_device* device,
                                          const bp_kernel_query& query, bp_plan_info* out_info);
/// For sdk::plan_slot, around a kernel's own function.
template <Plan (*make)(const bp_kernel_query&)>
std::unique_ptr<bp_kernel_plan> make_plan(bp_device* device, const bp_kernel_query& query,
                                          bp_plan_info* out_info) {
  return plan_with(make, device, query, out_info);
}

/// For kernels that move elements, or look only at their bits.
inline constexpr uint64_t kUpTo8Bytes =
    sdk::dtypes({BP_DTYPE_BOOL, BP_DTYPE_I8, BP_DTYPE_I16, BP_DTYPE_I32, BP_DTYPE_I64, BP_DTYPE_U8,
                 BP_DTYPE_U16, BP_DTYPE_U32, BP_DTYPE_U64, BP_DTYPE_F16, BP_DTYPE_BF16,
                 BP_DTYPE_F32, BP_DTYPE_F64, BP_DTYPE_C64, BP_DTYPE_F8E4M3FN, BP_DTYPE_F8E5M2,
                 BP_DTYPE_F8E4M3FNUZ, BP_DTYPE_F8E5M2FNUZ});

/// A descriptor of version 1 of `op`, with a set of dtypes for each of its type variables. Every
/// kernel here takes any strides, so the core never has to make a tensor contiguous for one.
template <Plan (*make)(const bp_kernel_query&)>
constexpr bp_kernel describe(std::string_view name, std::string_view op,
                             std::span<const uint64_t> dtypes) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = dtypes,
                        .arg_rules = sdk::kAnyStrides,
                        .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                        .plan = sdk::plan_slot<bp_kernel_plan, make_plan<make>>,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = sdk::launch_slot<launch>,
                        .state_create = state_create,
                        .state_destroy = state_destroy});
}

}  // namespace bp::xpu

#endif
