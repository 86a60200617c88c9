// SPDX-License-Identifier: Apache-2.0
//
// What the kernels have in common. A kernel is one descriptor and one function that turns a query
// into a Plan; launching is the same for all: the steps of the plan one behind the other, each with
// its buffers and their offsets, then its geometry. clSetKernelArg is the one OpenCL call that is
// not safe from several threads, so each state has kernel objects of its own, and a launch takes no
// lock that another stream could hold.
#ifndef BACKPLANE_PLUGINS_XPU_KERNELS_KERNEL_HPP
#define BACKPLANE_PLUGINS_XPU_KERNELS_KERNEL_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backplane/device_api.h"
#include "backplane/sdk/sdk.hpp"
#include "kernels/geometry.h"
#include "kernels/program.hpp"

namespace bp::xpu {

/// Work items per group where nothing asks for another number: enough for a processor to vectorise
/// and a GPU to hide latency; small tensors lose nothing.
inline constexpr uint32_t kGroupSize = 256;

/// Whether the device has groups and local memory for tiles of products.
bool can_tile(const Device& device);

/// A buffer that a step's function takes: a tensor of the launch, a place in its workspace, or the
/// plan's constants.
struct Buffer {
  enum class Of { kNothing, kTensor, kWorkspace, kConstants };
  Of of = Of::kNothing;
  uint64_t place = 0;  // the tensor's number, inputs first; or bytes into the others

  static Buffer tensor(uint32_t index) { return {Of::kTensor, index}; }
  static Buffer workspace(uint64_t offset_bytes) { return {Of::kWorkspace, offset_bytes}; }
  static Buffer constants() { return {Of::kConstants, 0}; }
  static Buffer none() { return {}; }  // NULL, as for an optional input that is absent
};

/// One function of a program, over how many work items, with which buffers and numbers. Its
/// arguments are, in this order: for each buffer a `__global uchar*` and a `ulong` of bytes to add
/// (NULL for an optional input that is absent), the geometry by value, then what add_fault and
/// add_extents name.
class Step {
 public:
  static constexpr size_t kMaxGeometryBytes = 1024;  // what every OpenCL device takes as arguments

  /// `function` is static text. `geometry` has the same layout on both sides (geometry.h).
  template <class Geometry>
  Step(ProgramSource source, const char* function, const Geometry& geometry)
      : source_(std::move(source)), function_(function), geometry_(sizeof(Geometry)) {
    static_assert(sizeof(Geometry) <= kMaxGeometryBytes - 256 &&
                  std::is_trivially_copyable_v<Geometry>);
    std::memcpy(geometry_.data(), &geometry, sizeof(Geometry));
  }

  /// At least `count` work items, rounded up to whole groups of at most `group_size`.
  Step& items(uint64_t count, uint32_t group_size = kGroupSize) {
    return work(count, group_size, false);
  }
  /// `count` groups of `group_size`, a power of two, or of less where the device cannot: functions
  /// work with any power of two up to it.
  Step& groups(uint64_t count, uint32_t group_size) { return work(count, group_size, true); }

  /// Default: all tensors of the launch.
  Step& buffers(std::vector<Buffer> buffers) {
    buffers_ = std::move(buffers);
    all_tensors_ = false;
    return *this;
  }
  /// Behind the geometry: a buffer and offset of the fault word (NULL where nobody asks), and the
  /// launch's number, a ulong.
  Step& add_fault() {
    takes_fault_ = true;
    return *this;
  }
  /// Behind it: a buffer and offset of the output's real sizes.
  Step& add_extents() {
    takes_extents_ = true;
    return *this;
  }

  const ProgramSource& source() const { return source_; }
  const char* function() const { return function_; }
  const std::vector<std::byte>& geometry() const { return geometry_; }
  uint64_t count() const { return count_; }
  bool counts_groups() const { return counts_groups_; }
  uint32_t group_size() const { return group_size_; }
  bool takes_all_tensors() const { return all_tensors_; }
  const std::vector<Buffer>& own_buffers() const { return buffers_; }
  bool takes_fault() const { return takes_fault_; }
  bool takes_extents() const { return takes_extents_; }

 private:
  Step& work(uint64_t count, uint32_t group_size, bool counts_groups) {
    count_ = count;
    group_size_ = group_size;
    counts_groups_ = counts_groups;
    return *this;
  }

  ProgramSource source_;
  const char* function_;
  std::vector<std::byte> geometry_;
  uint64_t count_ = 0;
  uint32_t group_size_ = 1;
  bool counts_groups_ = false;
  bool all_tensors_ = true;
  std::vector<Buffer> buffers_;
  bool takes_fault_ = false;
  bool takes_extents_ = false;
};

/// The steps of a launch, in their order; those without work are left out. Immutable once made.
struct Plan {
  std::vector<Step> steps;
  uint64_t workspace_bytes = 0;
  std::vector<std::byte> constants = {};  // tables that follow from shapes and host arguments
};

}  // namespace bp::xpu

/// The ABI's opaque plan.
struct bp_kernel_plan final {
  bp::xpu::Plan plan;
  std::vector<cl_program> programs;       // of each step
  bp::xpu::Owned<cl_mem> constants = {};  // on the device
};

namespace bp::xpu {

/// Argument `index` of a query, inputs first. Throws sdk::Failure if its sizes or strides are not
/// known, which the core's query for these kernels must have.
const bp_arg_info& argument(const bp_kernel_query& query, uint32_t index);

/// The product of its sizes. Throws sdk::Failure where it does not fit 63 bits.
uint64_t element_count(const bp_arg_info& info);

/// The strides of `input` seen as a tensor of `rank` dimensions of `sizes`: dimensions are aligned
/// at the right, repeated ones get stride 0. Throws sdk::Failure if the shapes do not broadcast.
void broadcast_strides(const bp_arg_info& input, const int64_t* sizes, uint32_t rank,
                       int64_t* out_strides);

/// `axis` of a tensor of `rank` dimensions, counted from the front. Throws sdk::Failure if it is
/// out of range.
uint32_t axis_from_front(int64_t axis, uint32_t rank);

/// Throws sdk::Failure unless the query has `input_count` inputs and `output_count` outputs.
void expect_inputs(const bp_kernel_query& query, uint32_t input_count, uint32_t output_count = 1);

bp_status launch(const bp_launch_args& args);
/// nullptr, or why a device does not compute in the query's dtypes.
const char* why_not(const Device& device, const bp_kernel_query& query);
bp_status supports(bp_device* device, const bp_kernel_query* query, bp_support* out_support);
bp_status state_create(bp_device* device, const bp_kernel* kernel, const bp_kernel_plan* plan,
                       bp_kernel_state** out_state);
void state_destroy(bp_device* device, bp_kernel_state* state);

/// Of a kernel's own file: what the device is to do for a query. Throws sdk::Failure, or
/// sdk::Refusal for what another kernel may do.
using MakePlan = Plan (*)(const Device& device, const bp_kernel_query& query);

/// With the program of each step, which this builds where it must.
std::unique_ptr<bp_kernel_plan> programs_for(Plan plan, bp_device* device, bp_plan_info* out_info);
std::unique_ptr<bp_kernel_plan> plan_with(MakePlan make, bp_device* device,
                                          const bp_kernel_query& query, bp_plan_info* out_info);
/// For sdk::plan_slot, around a kernel's own function.
template <MakePlan make>
std::unique_ptr<bp_kernel_plan> make_plan(bp_device* device, const bp_kernel_query& query,
                                          bp_plan_info* out_info) {
  return plan_with(make, device, query, out_info);
}

/// What differs from kernel to kernel beside the plan.
struct Traits {
  bool computes = true;  // in the tensors' dtypes: f64 asks for a device that has it
  uint32_t op_since = 1;
  /// Default: every input with any strides, so the core never has to make a tensor contiguous.
  std::span<const bp_arg_rule* const> arg_rules = sdk::kAnyStrides;
  uint32_t flags = 0;                                      // beside BP_KERNEL_DETERMINISTIC_BIT
  decltype(bp_kernel::supports) supports = xpu::supports;  // of kernels that compute
};

inline constexpr bp_arg_rule kContiguousRule{.struct_size = sizeof(bp_arg_rule),
                                             .flags = 0,
                                             .strides = BP_STRIDES_CONTIGUOUS,
                                             .alignment_bytes = 0};
/// An input that plans read (bp_arg_info.host_data) and launches do not.
inline constexpr bp_arg_rule kHostRule{.struct_size = sizeof(bp_arg_rule),
                                       .flags = BP_ARG_HOST_AT_PLAN_BIT,
                                       .strides = BP_STRIDES_CONTIGUOUS,
                                       .alignment_bytes = 0};
/// The first input with any strides, the others contiguous, or on the host.
inline constexpr const bp_arg_rule* kThenContiguous[] = {&sdk::kAnyStridesRule, &kContiguousRule};
inline constexpr const bp_arg_rule* kThenHost[] = {&sdk::kAnyStridesRule, &kHostRule};

/// A descriptor of version 1 of `op`, with a set of dtypes for each of its type variables.
template <MakePlan make>
constexpr bp_kernel describe(std::string_view name, std::string_view op,
                             std::span<const uint64_t> dtypes, const Traits& traits = {}) {
  uint32_t depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT;
  for (const bp_arg_rule* const rule : traits.arg_rules) {
    if ((rule->flags & BP_ARG_HOST_AT_PLAN_BIT) != 0) depends_on |= BP_DEPENDS_HOST_DATA_BIT;
  }
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = dtypes,
                        .arg_rules = traits.arg_rules,
                        .flags = BP_KERNEL_DETERMINISTIC_BIT | traits.flags,
                        .depends_on = depends_on,
                        .op_since = traits.op_since,
                        .supports = traits.computes ? traits.supports : nullptr,
                        .plan = sdk::plan_slot<bp_kernel_plan, make_plan<make>>,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = sdk::launch_slot<launch>,
                        .state_create = state_create,
                        .state_destroy = state_destroy});
}

}  // namespace bp::xpu

#endif
