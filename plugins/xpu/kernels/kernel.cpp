// SPDX-License-Identifier: Apache-2.0
//
// Plans, states and launches, the same for every kernel.
#include "kernels/kernel.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <utility>

#include "device.hpp"
#include "stream.hpp"

namespace bp::xpu {
namespace {

/// The kernel object of one step.
struct Function {
  Owned<cl_kernel> kernel;
  size_t group_size = 1;
  bool compiled = false;  // by the first launch: drivers for processors wait with it until then
};

}  // namespace
}  // namespace bp::xpu

// The ABI's opaque state.
struct bp_kernel_state final {
  std::vector<bp::xpu::Function> functions;
};

namespace bp::xpu {
namespace {

/// The arguments of one step, set one behind the other.
class Arguments {
 public:
  Arguments(const Driver& driver, cl_kernel kernel) : driver_(driver), kernel_(kernel) {}

  void add(const void* value, size_t bytes) {
    check(driver_.clSetKernelArg(kernel_, index_++, bytes, value), "clSetKernelArg");
  }
  /// NULL is what a function sees of handle 0.
  void add_memory(bp_mem memory) {
    const cl_mem buffer = memory.handle != 0 ? buffer_of(memory.handle) : nullptr;
    const cl_ulong offset_bytes = memory.offset_bytes;
    add(&buffer, sizeof(cl_mem));
    add(&offset_bytes, sizeof(cl_ulong));
  }

 private:
  const Driver& driver_;
  cl_kernel kernel_;
  cl_uint index_ = 0;
};

/// Where a tensor begins; nowhere if it is absent or has no elements.
bp_mem memory_of(const bp_launch_args& args, uint64_t index, const char* function) {
  const bp_tensor& tensor = args.tensors[index];
  if (index < args.input_count && tensor.dtype == BP_DTYPE_NONE) return {};
  if (tensor.handle == 0) {
    if (sdk::element_count(tensor) == 0) return {};
    throw sdk::Failure{BP_INVALID_ARGUMENT, std::string(function) + ": tensor " +
                                                std::to_string(index) + " has no memory"};
  }
  // The application may have wrapped what is of another context, or no buffer at all; the driver
  // would follow it. The other handles are the core's own.
  args.device->memory().place({tensor.handle, 0}, tensor.storage_bytes, function);
  return {tensor.handle, tensor.offset_bytes};
}

bp_mem memory_of(const bp_launch_args& args, Buffer buffer, const char* function) {
  if (buffer.of == Buffer::Of::kNothing) return {};
  if (buffer.of == Buffer::Of::kTensor) return memory_of(args, buffer.place, function);
  if (buffer.of == Buffer::Of::kConstants) {
    return {reinterpret_cast<uint64_t>(args.plan->constants.get()), buffer.place};
  }
  if (args.workspace.handle == 0) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       std::string(function) + ": the launch has no workspace"};
  }
  return {args.workspace.handle, args.workspace.offset_bytes + buffer.place};
}

void set_arguments(const Driver& driver, const Step& step, cl_kernel kernel,
                   const bp_launch_args& args) {
  Arguments arguments(driver, kernel);
  if (step.takes_all_tensors()) {
    for (uint32_t i = 0; i < args.input_count + args.output_count; ++i) {
      arguments.add_memory(memory_of(args, i, step.function()));
    }
  }
  for (const Buffer buffer : step.own_buffers()) {
    arguments.add_memory(memory_of(args, buffer, step.function()));
  }
  arguments.add(step.geometry().data(), step.geometry().size());
  if (step.takes_fault()) {
    const cl_ulong op_seq = args.op_seq;
    arguments.add_memory(args.fault);
    arguments.add(&op_seq, sizeof(cl_ulong));
  }
  if (step.takes_extents()) {
    if (args.out_extents.handle == 0) {
      throw sdk::Failure{BP_INVALID_ARGUMENT,
                         std::string(step.function()) + ": the launch has no out_extents"};
    }
    arguments.add_memory(args.out_extents);
  }
}

/// Not more than the function can on this device; a power of two where steps count groups.
size_t group_size_of(const Step& step, size_t largest) {
  const size_t size = std::clamp<size_t>(largest, 1, step.group_size());
  return step.counts_groups() ? std::bit_floor(size) : size;
}

Function make_function(const Device& device, cl_program program, const Step& step) {
  const Driver& driver = device.driver();
  cl_int code = CL_SUCCESS;
  Function function;
  function.kernel = {driver, driver.clCreateKernel(program, step.function(), &code)};
  check(code, "clCreateKernel");
  size_t largest = 1;
  check(driver.clGetKernelWorkGroupInfo(function.kernel.get(), device.info().id,
                                        CL_KERNEL_WORK_GROUP_SIZE, sizeof(largest), &largest,
                                        nullptr),
        "clGetKernelWorkGroupInfo");
  // One size for all launches: drivers for processors compile a kernel again for each new one.
  function.group_size = group_size_of(step, largest);
  return function;
}

bp_status launch_step(const bp_launch_args& args, const Step& step, Function* function) {
  const sdk::ExitGate gate;
  if (!function->compiled) gate.require_open();
  const size_t group_size = function->group_size;
  const size_t group_count =
      step.counts_groups() ? step.count() : (step.count() + group_size - 1) / group_size;
  const size_t global_size = group_count * group_size;
  const Driver& driver = args.device->driver();
  const auto enqueue = [&](cl_command_queue queue, cl_event* out_event) {
    set_arguments(driver, step, function->kernel.get(), args);
    return driver.clEnqueueNDRangeKernel(queue, function->kernel.get(), 1, nullptr, &global_size,
                                         &group_size, 0, nullptr, out_event);
  };
  const bp_status status = submit(*args.device, args.stream, step.function(), args.op_seq, enqueue);
  function->compiled = true;
  return status;
}

bool has_unknown_dtype(const bp_kernel_query& query) {
  for (uint32_t i = 0; i < query.input_count + query.output_count; ++i) {
    const uint32_t dtype = sdk::arg_info(query, i).dtype;
    if (dtype != BP_DTYPE_NONE && sdk::dtype_bytes(dtype) == 0) return true;
  }
  return false;
}

bool computes_in_f64(const bp_kernel_query& query) {
  for (uint32_t i = 0; i < query.input_count + query.output_count; ++i) {
    if (sdk::arg_info(query, i).dtype == BP_DTYPE_F64) return true;
  }
  return false;
}

}  // namespace

bool can_tile(const Device& device) {
  constexpr uint64_t kBytes = uint64_t{2} * BP_XPU_TILE * BP_XPU_TILE_DEPTH * sizeof(double);
  return device.info().max_group_size >= BP_XPU_TILE_ITEMS &&
         device.info().local_memory_bytes >= 2 * kBytes;
}

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

uint64_t element_count(const bp_arg_info& info) {
  uint64_t count = 1;
  for (uint32_t d = 0; d < info.rank; ++d) {
    const auto size = static_cast<uint64_t>(info.sizes[d]);
    if (size != 0 && count > INT64_MAX / size) {
      throw sdk::Failure{BP_INVALID_ARGUMENT, "plan: a tensor of more than 2^63 elements"};
    }
    count *= size;
  }
  return count;
}

uint32_t axis_from_front(int64_t axis, uint32_t rank) {
  const int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) sdk::refuse("plan: axis ", axis, " of rank ", rank);
  return static_cast<uint32_t>(from_front);
}

void expect_inputs(const bp_kernel_query& query, uint32_t input_count, uint32_t output_count) {
  if (query.input_count == input_count && query.output_count == output_count) return;
  sdk::refuse("plan: ", query.input_count, " inputs and ", query.output_count,
              " outputs; expected ", input_count, " and ", output_count);
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

namespace {

/// A buffer of these bytes, which it takes over; none for none.
Owned<cl_mem> upload(const Device& device, std::vector<std::byte>* bytes) {
  if (bytes->empty()) return {};
  cl_int code = CL_SUCCESS;
  const cl_mem buffer =
      device.driver().clCreateBuffer(device.context(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                     bytes->size(), bytes->data(), &code);
  check(code, "clCreateBuffer");
  std::vector<std::byte>().swap(*bytes);
  return {device.driver(), buffer};
}

}  // namespace

std::unique_ptr<bp_kernel_plan> plan_with(MakePlan make, bp_device* device,
                                          const bp_kernel_query& query, bp_plan_info* out_info) {
  return programs_for(make(*device, query), device, out_info);
}

std::unique_ptr<bp_kernel_plan> programs_for(Plan made, bp_device* device, bp_plan_info* out_info) {
  auto plan = std::make_unique<bp_kernel_plan>(bp_kernel_plan{std::move(made), {}});
  std::vector<Step>& steps = plan->plan.steps;
  std::erase_if(steps, [](const Step& step) { return step.count() == 0; });
  for (const Step& step : steps) {
    if (step.takes_fault()) out_info->flags |= BP_PLAN_CAN_FAULT_BIT;
    plan->programs.push_back(device->programs().get(step.source()));
  }
  out_info->workspace_bytes = plan->plan.workspace_bytes;
  plan->constants = upload(*device, &plan->plan.constants);
  return plan;
}

namespace {

sdk::Support support_by_dtypes(bp_device* device, const bp_kernel_query& query) {
  return {.reason = why_not(*device, query)};
}

}  // namespace

const char* why_not(const Device& device, const bp_kernel_query& query) {
  if (has_unknown_dtype(query)) return "a dtype that the plugin does not know";
  if (!device.info().has_f64 && computes_in_f64(query)) return "the device does not compute in f64";
  return nullptr;
}

bp_status supports(bp_device* device, const bp_kernel_query* query, bp_support* out_support) {
  return sdk::support_slot<support_by_dtypes>(device, query, out_support);
}

bp_status state_create(bp_device* device, const bp_kernel*, const bp_kernel_plan* plan,
                       bp_kernel_state** out_state) {
  return sdk::slot("state_create", device, {plan, out_state}, [&] {
    const sdk::ExitGate gate;
    gate.require_open();
    auto state = std::make_unique<bp_kernel_state>();
    for (size_t i = 0; i < plan->programs.size(); ++i) {
      device->programs().keep(plan->plan.steps[i].source());
      state->functions.push_back(make_function(*device, plan->programs[i], plan->plan.steps[i]));
    }
    *out_state = state.release();
  });
}

void state_destroy(bp_device*, bp_kernel_state* state) { delete state; }

bp_status launch(const bp_launch_args& args) {
  if (args.plan == nullptr || args.state == nullptr) {
    sdk::refuse("launch: the plan or state is NULL");
  }
  const std::vector<Step>& steps = args.plan->plan.steps;
  if (steps.empty()) return args.stream != nullptr ? args.stream->check_healthy() : BP_OK;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bp_status status = launch_step(args, steps[i], &args.state->functions[i]);
    if (status != BP_OK) return status;
  }
  return BP_OK;
}

}  // namespace bp::xpu
