// SPDX-License-Identifier: Apache-2.0
//
// Plans, states and launches, the same for every kernel.
#include "kernels/kernel.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "device.hpp"
#include "stream.hpp"

// The ABI's opaque state.
struct bp_kernel_state final {
  bp::xpu::Owned<cl_kernel> kernel;
  size_t group_size = 1;
  bool compiled = false;  // by the first launch: drivers for processors wait with it until then
};

namespace bp::xpu {
namespace {

void set_argument(const Driver& driver, cl_kernel kernel, cl_uint* index, const void* value,
                  size_t bytes) {
  check(driver.clSetKernelArg(kernel, (*index)++, bytes, value), "clSetKernelArg");
}

/// NULL is what a kernel sees of handle 0.
void set_memory(const Driver& driver, cl_kernel kernel, cl_uint* index, bp_mem memory) {
  const cl_mem buffer = memory.handle != 0 ? buffer_of(memory.handle) : nullptr;
  const cl_ulong offset_bytes = memory.offset_bytes;
  set_argument(driver, kernel, index, &buffer, sizeof(cl_mem));
  set_argument(driver, kernel, index, &offset_bytes, sizeof(cl_ulong));
}

void set_arguments(const Driver& driver, const bp_launch_args& args) {
  const cl_kernel kernel = args.state->kernel.get();
  const Plan& plan = args.plan->plan;
  const uint32_t tensor_count = args.input_count + args.output_count;
  cl_uint index = 0;
  for (uint32_t i = 0; i < tensor_count; ++i) {
    const bp_tensor& tensor = args.tensors[i];
    if (tensor.handle == 0) {
      throw sdk::Failure{BP_INVALID_ARGUMENT, std::string(plan.function()) + ": tensor " +
                                                  std::to_string(i) + " has no memory"};
    }
    // The application may have wrapped what is of another context, or no buffer at all; the driver
    // would follow it. The other handles are the core's own.
    args.device->memory().place({tensor.handle, 0}, tensor.storage_bytes, plan.function());
    set_memory(driver, kernel, &index, {tensor.handle, tensor.offset_bytes});
  }
  set_argument(driver, kernel, &index, plan.geometry(), plan.geometry_bytes());
  if (plan.can_fault()) {
    const cl_ulong op_seq = args.op_seq;
    set_memory(driver, kernel, &index, args.fault);
    set_argument(driver, kernel, &index, &op_seq, sizeof(cl_ulong));
  }
  if (plan.has_extents()) {
    if (args.out_extents.handle == 0) {
      throw sdk::Failure{BP_INVALID_ARGUMENT,
                         std::string(plan.function()) + ": the launch has no out_extents"};
    }
    set_memory(driver, kernel, &index, args.out_extents);
  }
}

}  // namespace

const bp_arg_info& argument(const bp_kernel_query& query, uint32_t index) {
  const bp_arg_info& info = sdk::arg_info(query, index);
  const bool known = info.rank <= BP_MAX_RANK &&
                     (info.rank == 0 || (info.sizes != nullptr && info.strides != nullptr &&
                                         std::all_of(info.sizes, info.sizes + info.rank,
                                                     [](int64_t size) { return size >= 0; })));
  if (!known) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "plan: argument " + std::to_string(index) +
                                                " has no known sizes and strides of rank 0 to 16"};
  }
  return info;
}

void expect_inputs(const bp_kernel_query& query, uint32_t input_count) {
  if (query.input_count == input_count && query.output_count == 1) return;
  throw sdk::Failure{BP_INVALID_ARGUMENT, "plan: " + std::to_string(query.input_count) +
                                              " inputs and " + std::to_string(query.output_count) +
                                              " outputs; expected " + std::to_string(input_count) +
                                              " and 1"};
}

void broadcast_strides(const bp_arg_info& input, const int64_t* sizes, uint32_t rank,
                       int64_t* out_strides) {
  if (input.rank > rank) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "plan: an input of rank " + std::to_string(input.rank) +
                                                " does not broadcast to rank " +
                                                std::to_string(rank)};
  }
  const uint32_t missing = rank - input.rank;
  std::fill(out_strides, out_strides + missing, 0);
  for (uint32_t d = 0; d < input.rank; ++d) {
    const int64_t size = input.sizes[d];
    if (size != sizes[missing + d] && size != 1) {
      throw sdk::Failure{BP_INVALID_ARGUMENT, "plan: an input's size " + std::to_string(size) +
                                                  " does not broadcast to " +
                                                  std::to_string(sizes[missing + d])};
    }
    out_strides[missing + d] = size == 1 ? 0 : input.strides[d];
  }
}

std::unique_ptr<bp_kernel_plan> plan_with(Plan (*make)(const bp_kernel_query&), bp_device* device,
                                          const bp_kernel_query& query, bp_plan_info* out_info) {
  const Plan plan = make(query);
  if (plan.can_fault()) out_info->flags |= BP_PLAN_CAN_FAULT_BIT;
  return std::make_unique<bp_kernel_plan>(
      bp_kernel_plan{plan, device->programs().get(plan.program())});
}

bp_status state_create(bp_device* device, const bp_kernel*, const bp_kernel_plan* plan,
                       bp_kernel_state** out_state) {
  return sdk::slot("state_create", device, {plan, out_state}, [&] {
    const sdk::ExitGate gate;
    gate.require_open();
    const Driver& driver = device->driver();
    cl_int code = CL_SUCCESS;
    Owned<cl_kernel> kernel(driver,
                            driver.clCreateKernel(plan->program, plan->plan.function(), &code));
    check(code, "clCreateKernel");
    size_t largest = 1;
    check(
        driver.clGetKernelWorkGroupInfo(kernel.get(), device->info().id, CL_KERNEL_WORK_GROUP_SIZE,
                                        sizeof(largest), &largest, nullptr),
        "clGetKernelWorkGroupInfo");
    // One size for all launches: drivers for processors compile a kernel again for each new one.
    const size_t group_size = std::clamp<size_t>(largest, 1, plan->plan.group_size());
    *out_state = new bp_kernel_state{std::move(kernel), group_size};
  });
}

void state_destroy(bp_device*, bp_kernel_state* state) { delete state; }

bp_status launch(const bp_launch_args& args) {
  bp_device& device = *args.device;
  if (args.plan == nullptr || args.state == nullptr) {
    sdk::refuse("launch: the plan or state is NULL");
  }
  const Plan& plan = args.plan->plan;
  if (plan.item_count() == 0) {
    return args.stream != nullptr ? args.stream->check_healthy() : BP_OK;
  }
  const sdk::ExitGate gate;
  if (!args.state->compiled) gate.require_open();
  const size_t group_size = args.state->group_size;
  const size_t global_size = (plan.item_count() + group_size - 1) / group_size * group_size;
  const auto enqueue = [&](cl_command_queue queue, cl_event* out_event) {
    set_arguments(device.driver(), args);
    return device.driver().clEnqueueNDRangeKernel(queue, args.state->kernel.get(), 1, nullptr,
                                                  &global_size, &group_size, 0, nullptr, out_event);
  };
  const bp_status status = submit(device, args.stream, plan.function(), args.op_seq, enqueue);
  args.state->compiled = true;
  return status;
}

}  // namespace bp::xpu
