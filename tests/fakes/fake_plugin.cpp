// SPDX-License-Identifier: Apache-2.0
//
// The fake plugin: required functions only, kernels relu and add, plain host memory, synchronous
// and not concurrent. Built many times: macros (CMakeLists.txt) put one defect each into its
// tables, the options of its manifest put faults into its behaviour. It watches the core too: two
// calls at a time into one device, an unknown handle or a range outside its memory are errors.
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backplane/sdk/sdk.hpp"
#include "backplane/sdk/test_inject.hpp"
#include "fake_queue.hpp"

#if defined(FAKE_HOSTILE)
#include "fake_hostile.hpp"
#else
#define FAKE_SLOT(function) function
#define FAKE_KERNEL(kernel) kernel
#endif

#ifndef FAKE_FAULT
#define FAKE_FAULT "none"
#endif

using bp::sdk::Failure;

struct bp_instance {
  bp::sdk::Host host;
  std::string fault;
  std::string signal_file;
  uint32_t device_count = 1;
  std::atomic<int> open_devices{0};
  bp::sdk::TestInject inject;
};

struct bp_device {
  bp_instance* instance = nullptr;
  std::string fault;
  uint64_t memory_bytes = 0;
  bool is_inline = false;
  bp_status pack_status = BP_INTERNAL;
  bool has_host_memory = true;
  std::map<uint64_t, uint64_t> allocations;  // handle, bytes
  uint64_t used_bytes = 0;
  std::vector<bp_stream*> streams;  // with FAKE_QUEUES
  // With FAKE_HOSTILE: pinned memory, with its owner, and mappings.
  std::multimap<void*, std::shared_ptr<void>> lent;
  std::mutex mutex;
  std::atomic<bool> in_call{false};
  std::atomic<bool> lost{false};
  std::atomic<int> refusals_left{1};  // of the faults that pass
};

namespace {

/// The one fault with which the device says BP_DEVICE_CONCURRENT_BIT.
constexpr std::string_view kSharesScratch = "add_shares_scratch";

/// Otherwise the core owes it one call at a time.
class OneCall {
 public:
  explicit OneCall(bp_device* device) : device_(device), lock_(device->mutex, std::defer_lock) {
    if (device->fault == kSharesScratch) lock_.lock();
    if (device_->in_call.exchange(true)) throw Failure{BP_INTERNAL, "two calls at a time"};
  }
  ~OneCall() { device_->in_call = false; }
  OneCall(const OneCall&) = delete;
  OneCall& operator=(const OneCall&) = delete;

 private:
  bp_device* device_;
  std::unique_lock<std::mutex> lock_;
};

template <class Body>
bp_status device_call(bp_device* device, Body&& body) {
  return bp::sdk::guard(device->instance->host, [&]() -> bp_status {
    const OneCall one_call(device);
    body();
    return BP_OK;
  });
}

/// A device_call that the driver may fail.
template <class Body>
bp_status driver_call(bp_device* device, Body&& body) {
  return device_call(device, [&] {
    device->instance->inject.driver_call(device->lost);
    body();
  });
}

// --- root ---

/// At most a minute, so that no test machine is left with a thread for ever.
void hang(const std::string& signal_file) {
  for (int i = 0; i < 6000 && !std::ifstream(signal_file).good(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// As of a driver that waits at the end of the process until it was closed.
std::atomic<bp_instance*> awaited_at_exit{nullptr};

void wait_at_exit() {
  for (int i = 0; i < 6000; ++i) {
    const bp_instance* const instance = awaited_at_exit;
    if (instance == nullptr || instance->open_devices == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// For FAKE_SINGLE_INSTANCE, as of a driver that a process may open once.
[[maybe_unused]] std::atomic<bool> instance_lives{false};

bp_status root_init(const bp_host_api* api, void* host_ctx, const bp_config* config,
                    bp_instance** out_instance) {
  if (!api || !config || !out_instance) return BP_INVALID_ARGUMENT;
  if (bp::sdk::read_args(config).flags != 0) return BP_UNSUPPORTED;
  auto instance = std::make_unique<bp_instance>();
  instance->host = bp::sdk::Host(api, host_ctx);
  instance->fault = bp::sdk::option(config, "fault").value_or(FAKE_FAULT);
  instance->signal_file = bp::sdk::option(config, "signal_file").value_or("");
  instance->device_count = static_cast<uint32_t>(bp::sdk::option_i64(config, "devices", 1));
  instance->inject.arm(*config);
  const std::string& fault = instance->fault;
  instance->host.log(BP_LOG_INFO, "init with fault " + fault);
  if (fault == "init_unavailable") {
    return instance->host.fail(BP_UNAVAILABLE, "no fake accelerator is plugged in");
  }
  if (fault == "init_throws") throw std::runtime_error("thrown by init");
  if (fault == "init_hangs") hang(instance->signal_file);
  if (fault == "init_gives_nothing") return BP_OK;
  if (fault == "init_unknown_status") return 4711;
#if defined(FAKE_SINGLE_INSTANCE)
  if (instance_lives.exchange(true)) {
    return instance->host.fail(BP_BUSY, "one instance lives already");
  }
#endif
  if (fault == "exit_waits") {
    awaited_at_exit = instance.get();
    std::atexit(wait_at_exit);
  }
  *out_instance = instance.release();
  return BP_OK;
}

bp_status root_shutdown(bp_instance* instance) {
  if (instance == nullptr) return BP_INVALID_ARGUMENT;
  const std::unique_ptr<bp_instance> owner(instance);
  instance_lives = false;
  awaited_at_exit = nullptr;
  if (owner->fault == "shutdown_hangs") hang(owner->signal_file);
  if (!owner->signal_file.empty()) std::ofstream(owner->signal_file + ".down") << "down\n";
  if (owner->open_devices == 0) return BP_OK;
  return owner->host.fail(BP_BUSY, "shutdown with open devices");
}

// --- device ---

bp_status device_count(bp_instance* instance, uint32_t* out_count) {
  if (!instance || !out_count) return BP_INVALID_ARGUMENT;
  if (instance->fault == "count_unavailable") {
    return instance->host.fail(BP_UNAVAILABLE, "the bus answers nothing");
  }
  *out_count = instance->fault == "count_huge" ? 4000000000u : instance->device_count;
  return BP_OK;
}

bp_status device_open(bp_instance* instance, const bp_open_args* their_args,
                      bp_device** out_device) {
  if (!instance || !their_args || !out_device) return BP_INVALID_ARGUMENT;
  return bp::sdk::guard(instance->host, [&]() -> bp_status {
    const bp_open_args own_args = bp::sdk::read_args(their_args, 0);
    const bp_open_args* const args = &own_args;
    if (args->index >= instance->device_count) {
      throw Failure{BP_INVALID_ARGUMENT, "no device " + std::to_string(args->index)};
    }
    auto device = std::make_unique<bp_device>();
    device->instance = instance;
    device->fault = bp::sdk::option(args, "device_fault").value_or("none");
    device->memory_bytes = static_cast<uint64_t>(bp::sdk::option_i64(args, "memory", 64 << 20));
    device->pack_status =
        static_cast<bp_status>(bp::sdk::option_i64(args, "pack_status", BP_INTERNAL));
    device->is_inline = bp::sdk::option_bool(args, "inline", false);
    device->has_host_memory = bp::sdk::option_bool(args, "host_memory", true);
    instance->inject.driver_call(device->lost);
    if (device->fault == "open_fails") throw Failure{BP_UNAVAILABLE, "somebody else holds it"};
    if (device->fault == "open_gives_nothing") return BP_OK;
    ++instance->open_devices;
    *out_device = device.release();
    return BP_OK;
  });
}

bp_status device_close(bp_device* device) {
  if (device == nullptr) return BP_INVALID_ARGUMENT;
  const std::unique_ptr<bp_device> owner(device);
  --owner->instance->open_devices;
  if (owner->allocations.empty()) return BP_OK;
  const size_t count = owner->allocations.size();
  for (const auto& [handle, bytes] : owner->allocations) {
    std::free(reinterpret_cast<void*>(handle));
  }
  return owner->instance->host.fail(BP_BUSY, std::to_string(count) + " allocations were not freed");
}

bp_status device_props(bp_device* device, bp_device_props* out_props) {
  if (!device || !out_props) return BP_INVALID_ARGUMENT;
  if (device->fault == "props_fail") {
    return device->instance->host.fail(BP_DEVICE_LOST, "it fell off the bus");
  }
  bp_device_props props{};
  props.flags = BP_DEVICE_ADDRESS_BIT | 0x80000000u;  // a bit of a later version
  if (device->has_host_memory) props.flags |= BP_DEVICE_HOST_MEMORY_BIT;
  if (device->fault == kSharesScratch) props.flags |= BP_DEVICE_CONCURRENT_BIT;
  props.features = uint64_t{1} << 63;  // a band of a later version
#if defined(FAKE_QUEUES)
  props.features |= BP_FEATURE_ASYNC_BIT | BP_FEATURE_NATIVE_BIT;
#endif
  props.execution = device->is_inline ? BP_EXECUTION_INLINE : BP_EXECUTION_QUEUED;
  props.compute_unit_count = 1;
  props.memory_bytes = device->memory_bytes;
  props.alignment_bytes = 64;
  props.name = bp::sdk::str("fake accelerator");
  props.vendor = bp::sdk::str("nobody");
  props.driver = bp::sdk::str("fake 1.0");
  props.dlpack_device_type = 12;  // kDLExtDev
  props.dlpack_device_id = 7;     // the plugin's own number is 0: the two may differ
#if defined(FAKE_HOSTILE)
  hostile::change(&props, device->instance->host);
#endif
  if (device->fault == "props_band") props.features |= BP_FEATURE_ASYNC_BIT;
  if (device->fault == "props_execution") props.execution = 7;
  if (device->fault == "props_alignment") props.alignment_bytes = 48;
  if (device->fault == "props_host_memory") props.flags = BP_DEVICE_HOST_MEMORY_BIT;
  if (device->fault == "props_dlpack") props.dlpack_device_id = -1;
  if (device->fault == "props_name") props.name = bp::sdk::str("caf\xe9");
  bp::sdk::write_out(out_props, props);
  return BP_OK;
}

// --- memory ---

bp_status mem_alloc(bp_device* device, const bp_alloc_args* their_args, uint64_t* out_handle) {
  if (!device || !their_args || !out_handle) return BP_INVALID_ARGUMENT;
  return driver_call(device, [&] {
    const bp_alloc_args own_args = bp::sdk::read_args(their_args, 0);
    const bp_alloc_args* const args = &own_args;
    if (args->bytes == 0 || std::popcount(args->alignment_bytes) > 1) {
      throw Failure{BP_INVALID_ARGUMENT, "mem_alloc of 0 bytes, or aligned to no power of two"};
    }
    if (args->bytes > device->memory_bytes - device->used_bytes) {
      throw Failure{BP_OUT_OF_MEMORY, "the fake's memory is full"};
    }
    const uint64_t alignment = std::max<uint64_t>(args->alignment_bytes, 64);
    const uint64_t rounded = (args->bytes + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, rounded);
    if (memory == nullptr) throw Failure{BP_OUT_OF_MEMORY, "the host's memory is full"};
    std::unique_ptr<void, void (*)(void*)> owner(memory, std::free);
    device->allocations[reinterpret_cast<uint64_t>(memory)] = args->bytes;
    *out_handle = reinterpret_cast<uint64_t>(owner.release());
    device->used_bytes += args->bytes;
  });
}

bp_status mem_free(bp_device* device, uint64_t handle) {
  if (device == nullptr) return BP_INVALID_ARGUMENT;
  return device_call(device, [&] {
    const auto at = device->allocations.find(handle);
    if (at == device->allocations.end()) {
      throw Failure{BP_INVALID_ARGUMENT, "mem_free of an unknown handle"};
    }
    device->used_bytes -= at->second;
    device->allocations.erase(at);
    std::free(reinterpret_cast<void*>(handle));
  });
}

char* device_end(bp_device* device, bp_mem mem, uint64_t bytes) {
  const auto at = device->allocations.find(mem.handle);
  if (at == device->allocations.end() || mem.offset_bytes > at->second ||
      bytes > at->second - mem.offset_bytes) {
    throw Failure{BP_INVALID_ARGUMENT, "mem_copy outside the device's memory"};
  }
  return reinterpret_cast<char*>(mem.handle) + mem.offset_bytes;
}

void copy_now(bp_device* device, const bp_copy_args& args) {
  const auto host_end = [](bp_mem mem) {
    if (mem.handle == 0) throw Failure{BP_INVALID_ARGUMENT, "mem_copy of the host address NULL"};
    return reinterpret_cast<char*>(mem.handle) + mem.offset_bytes;
  };
  if (args.kind > BP_COPY_DEVICE_TO_DEVICE) throw Failure{BP_UNSUPPORTED, "unknown copy kind"};
  if (args.bytes == 0) return;
  const bool to_host = args.kind == BP_COPY_DEVICE_TO_HOST;
  const bool from_host = args.kind == BP_COPY_HOST_TO_DEVICE;
  char* dst = to_host ? host_end(args.dst) : device_end(device, args.dst, args.bytes);
  const char* src = from_host ? host_end(args.src) : device_end(device, args.src, args.bytes);
  if (dst < src + args.bytes && src < dst + args.bytes) {
    throw Failure{BP_INVALID_ARGUMENT, "mem_copy of ranges that overlap"};
  }
  std::memcpy(dst, src, args.bytes);
}

bp_status mem_copy(bp_device* device, const bp_copy_args* their_args) {
  if (!device || !their_args) return BP_INVALID_ARGUMENT;
  return driver_call(device, [&] { copy_now(device, bp::sdk::read_args(their_args, 0)); });
}

}  // namespace

#if defined(FAKE_QUEUES)
#include "fake_streams.hpp"
#endif
#if defined(FAKE_HOSTILE)
#include "fake_bands.hpp"
#include "fake_collectives.hpp"
#endif

namespace {

// --- kernels ---

/// The element at a row-major position of `out`, seen through the strides of `tensor`, which may
/// have fewer dimensions or sizes of 1 (broadcasting).
float& element(const bp_tensor& tensor, const bp_tensor& out, int64_t position) {
  int64_t offset = 0;
  for (uint32_t back = 1; back <= out.rank; ++back) {
    const bool is_outermost = back == out.rank;
    const int64_t size = out.sizes[out.rank - back];
    if (back <= tensor.rank && tensor.sizes[tensor.rank - back] != 1) {
      const int64_t index = is_outermost ? position : position % size;
      offset += index * tensor.strides[tensor.rank - back];
    }
    if (!is_outermost) position /= size;
  }
  char* const base = reinterpret_cast<char*>(tensor.handle) + tensor.offset_bytes;
  return reinterpret_cast<float*>(base)[offset];
}

bool is_whole(const bp_launch_args* args) {
  return args && BP_SDK_HAS(args, out_extents) && args->device && args->tensors;
}

/// On a stream later, else now.
bp_status start(const bp_launch_args* args, void (*compute)(const bp_launch_args&)) {
  if (!is_whole(args)) return BP_INVALID_ARGUMENT;
  return driver_call(args->device, [&] {
#if defined(FAKE_QUEUES)
    if (args->stream != nullptr) return enqueue_launch(*args, compute);
#endif
    compute(*args);
  });
}

void compute_relu(const bp_launch_args& args) {
  if (args.device->fault == "relu_is_new") throw Failure{4711, "the unit sulks"};
  if (args.device->fault == "relu_fails") throw Failure{BP_INTERNAL, "the unit overheated"};
  if (args.device->fault == "relu_loses") throw Failure{BP_DEVICE_LOST, "it fell off the bus"};
  if (args.device->fault == "relu_hangs") {
    const std::string& signal_file = args.device->instance->signal_file;
    std::ofstream(signal_file + ".in").put('\n');  // so that a test knows
    hang(signal_file);
  }
  const bp_tensor& out = args.tensors[1];
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    const float x = element(args.tensors[0], out, i);
    element(out, out, i) = x < 0 ? 0 : x;  // NaN stays
  }
}

void compute_add(const bp_launch_args& args) {
  const bp_tensor& out = args.tensors[2];
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    element(out, out, i) = element(args.tensors[0], out, i) + element(args.tensors[1], out, i);
  }
}

bool is_dense(const bp_tensor& tensor) {
  if (bp::sdk::element_count(tensor) == 0) return true;
  int64_t stride = 1;
  for (uint32_t i = tensor.rank; i-- > 0; stride *= tensor.sizes[i]) {
    if (tensor.sizes[i] != 1 && tensor.strides[i] != stride) return false;
  }
  return true;
}

/// Takes dense inputs only, so that somebody has to make them so.
void compute_sub(const bp_launch_args& args) {
  const bp_tensor& out = args.tensors[2];
  for (int i = 0; i < 2; ++i) {
    if (!is_dense(args.tensors[i])) {
      throw Failure{BP_INVALID_ARGUMENT, "sub_dense: input " + std::to_string(i) + " is not dense"};
    }
  }
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    element(out, out, i) = element(args.tensors[0], out, i) - element(args.tensors[1], out, i);
  }
}

bp_status launch_relu(const bp_launch_args* args) { return start(args, compute_relu); }
bp_status launch_add(const bp_launch_args* args) { return start(args, compute_add); }
bp_status launch_sub(const bp_launch_args* args) { return start(args, compute_sub); }

constexpr uint64_t kFloatOnly[] = {BP_DTYPE_BIT(BP_DTYPE_F32)};
constexpr bp_arg_rule kAnyStrides = {sizeof(bp_arg_rule), 0, BP_STRIDES_ANY, 0};
constexpr bp_arg_rule kDense = {sizeof(bp_arg_rule), 0, BP_STRIDES_CONTIGUOUS, 0};
constexpr const bp_arg_rule* kRules[] = {&kAnyStrides};
constexpr const bp_arg_rule* kDenseRules[] = {&kDense};

constexpr bp_kernel make_kernel(std::string_view name, std::string_view op,
                                bp_status (*launch)(const bp_launch_args*),
                                const bp_arg_rule* const* rules = kRules) {
  bp_kernel kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.flags = BP_KERNEL_DETERMINISTIC_BIT;
  kernel.name = bp::sdk::str(name);
  kernel.op = bp::sdk::str(op);
  kernel.version_min = 1;
  kernel.version_max = 1;
  kernel.op_since = 1;
  kernel.dtype_masks = kFloatOnly;
  kernel.dtype_mask_count = 1;
  kernel.arg_rule_count = 1;
  kernel.arg_rules = rules;
  kernel.launch = launch;
  return kernel;
}

[[maybe_unused]] constexpr bp_kernel kRelu =
    FAKE_KERNEL(make_kernel("relu_plain", "relu", FAKE_SLOT(launch_relu)));
[[maybe_unused]] constexpr bp_kernel kAdd = make_kernel("add_plain", "add", launch_add);
[[maybe_unused]] constexpr bp_kernel kSub =
    make_kernel("sub_dense", "sub", launch_sub, kDenseRules);
}  // namespace

#if defined(FAKE_ODD_KERNELS)
#include "fake_odd_kernels.hpp"
#elif defined(FAKE_WRONG_KERNELS)
#include "fake_wrong_kernels.hpp"
#endif

namespace {

#if defined(FAKE_ODD_KERNELS)
constexpr const bp_kernel* kKernels[] = {
    &kRelu,   &kAdd,  &kLooseSub, &kIdentity, &kExp,       &kNonZero,    &kPickyRelu,  &kPickySqrt,
    &kHugest, &kHuge, &kLarge,    &kLaterSub, &kAlternate, &kOrderedNeg, &kCrookedCeil};
#elif defined(FAKE_WRONG_KERNELS)
constexpr const bp_kernel* kKernels[] = {
    &kWrongRelu, &kWrongAdd,    &kWrongMul,          &kWrongMatmul,    &kWrongExp,  &kWrongSum,
    &kWrongMax,  &kWrongGather, &kWrongGatherOfHost, &kWrongBatchNorm, &kWrongSplit};
#elif defined(FAKE_SOUND)
constexpr const bp_kernel* kKernels[] = {&kRelu, &kAdd, &kSub};
#else
constexpr bp_kernel kBroken = make_kernel("broken", "add", nullptr);
constexpr const bp_kernel* kKernels[] = {&kRelu, &kBroken, &kAdd, &kSub};
#endif

bp_status kernel_list(bp_device* device, bp_kernel_list* out_list) {
  if (!device || !out_list) return BP_INVALID_ARGUMENT;
  if (device->fault == "list_fails") {
    return device->instance->host.fail(BP_INTERNAL, "the kernels are lost");
  }
  if (device->fault == "list_no_memory" && device->refusals_left-- > 0) {
    return device->instance->host.fail(BP_OUT_OF_MEMORY, "no memory for a list");
  }
  bp_kernel_list list{};
  list.kernels = device->fault == "list_null" ? nullptr : kKernels;
  list.kernel_count = std::size(kKernels);
#if defined(FAKE_ODD_KERNELS)
  if (device->fault == "list_misfits") list = kMisfitList;
  if (device->fault == "list_unwilling") list = kUnwillingList;
#endif
  bp::sdk::write_out(out_list, list);
  return BP_OK;
}

// --- tables ---

template <class Table>
struct Grown {  // as a later version would have it
  Table table;
  void (*appended[3])();
};

constexpr uint32_t memory_table_bytes() {
#if defined(FAKE_TABLE_BYTES)
  return FAKE_TABLE_BYTES;
#elif defined(FAKE_SHORT_TABLES)
  return offsetof(bp_memory_api, mem_fill);
#elif defined(FAKE_FUTURE)
  return sizeof(Grown<bp_memory_api>);
#else
  return sizeof(bp_memory_api);
#endif
}

constexpr bp_memory_api make_memory() {
  bp_memory_api memory{};
  memory.struct_size = memory_table_bytes();
  memory.mem_alloc = FAKE_SLOT(mem_alloc);
  memory.mem_free = FAKE_SLOT(mem_free);
  memory.mem_copy = FAKE_SLOT(mem_copy);
#if defined(FAKE_MISSING_SLOT)
  memory.mem_free = nullptr;
#elif defined(FAKE_HALF_BAND)
  memory.flags = BP_FEATURE_MAP_BIT;
  memory.mem_map = [](bp_device*, const bp_map_args*, void**) -> bp_status { return BP_OK; };
#elif defined(FAKE_EMPTY_BAND)
  memory.flags = BP_FEATURE_PINNED_BIT;
#elif defined(FAKE_SILENT_BAND)
  memory.mem_fill = [](bp_device*, const bp_fill_args*) -> bp_status { return BP_OK; };
#elif defined(FAKE_HOSTILE)
  give_bands(&memory);
#elif defined(FAKE_FUTURE)
  memory.flags = 0x40000000u;
#endif
  return memory;
}

constexpr bp_root_api kRoot = {sizeof(bp_root_api), 0, FAKE_SLOT(root_init),
                               FAKE_SLOT(root_shutdown)};
constexpr bp_device_api kDevice = {sizeof(bp_device_api),   0,
                                   FAKE_SLOT(device_count), FAKE_SLOT(device_open),
                                   FAKE_SLOT(device_close), FAKE_SLOT(device_props)};
constexpr bp_kernel_api kKernel = {sizeof(bp_kernel_api), 0, FAKE_SLOT(kernel_list)};
// Room for the largest size that is claimed and still read.
constexpr Grown<bp_memory_api> kMemory = {make_memory(), {}};

[[maybe_unused]] constexpr int kExtensionTable = 42;
#if defined(FAKE_TEST_INJECT)
constexpr const bp_extension& kExtension = bp::sdk::TestInjectSlots<bp_instance>::kExtension;
#elif defined(FAKE_BAD_EXTENSION)
constexpr bp_extension kExtension = {sizeof(bp_extension), 0, bp::sdk::str("nodot"), 1, 0,
                                     &kExtensionTable};
#else
constexpr bp_extension kExtension = {sizeof(bp_extension), 0, bp::sdk::str("fake.extra"), 3, 0,
                                     &kExtensionTable};
#endif
[[maybe_unused]] constexpr const bp_extension* kExtensions[] = {&kExtension};

[[maybe_unused]] int32_t fill_plugin(bp_plugin* out_plugin) {
  bp_plugin plugin{};
  plugin.root = &kRoot;
  plugin.device = &kDevice;
  plugin.memory = &kMemory.table;
  plugin.kernel = &kKernel;
#if defined(FAKE_QUEUES)
  plugin.stream = &kStream;
#endif
#if defined(FAKE_HOSTILE)
  plugin.collective = &kCollective;
#endif
#if defined(FAKE_NO_KERNELS)
  plugin.kernel = nullptr;
#elif defined(FAKE_SINGLE_INSTANCE)
  plugin.flags = BP_PLUGIN_SINGLE_INSTANCE_BIT;
#endif
#if defined(FAKE_FUTURE) || defined(FAKE_BAD_EXTENSION) || defined(FAKE_TEST_INJECT)
  plugin.flags = 0x10000000u;
  plugin.extensions = kExtensions;
  plugin.extension_count = 1;
#endif
  bp::sdk::write_out(out_plugin, plugin);
  return BP_OK;
}

}  // namespace

#if !defined(FAKE_NO_ENTRY)
extern "C" BP_EXPORT int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
#if defined(FAKE_HOSTILE)
  hostile::act(hostile::action_at("bp_plugin_entry"));
#endif
#if defined(FAKE_THROWING_ENTRY)
  throw std::runtime_error("thrown by entry");
#elif defined(FAKE_REFUSING_ENTRY)
  return BP_INCOMPATIBLE;
#endif
  if (out_plugin == nullptr) return BP_INVALID_ARGUMENT;
  if (core_abi < BP_ABI_VERSION(0, 2)) return BP_INCOMPATIBLE;
  return fill_plugin(out_plugin);
}
#endif
