// SPDX-License-Identifier: Apache-2.0
//
// Level 0: argument structs that a plugin may meet from another version of the core: values of
// enums and flags that it doesn't know, indices out of range, and structs that end where a page
// does.
#include "sdk/conform/abi.hpp"

namespace bp::conform {
namespace {

constexpr uint32_t kUnknownFlag = 1u << 30;
constexpr uint32_t kUnknownKinds[] = {3, 99, UINT32_MAX};

/// A block of device memory, raw.
class RawMemory {
 public:
  RawMemory(AbiContext& context, uint64_t bytes) : context_(context) {
    const bp_alloc_args args{sizeof(bp_alloc_args), 0, bytes, 0, 0, 0};
    context_.require_ok("mem_alloc",
                        context_.memory().mem_alloc(context_.device(), &args, &handle_));
  }
  ~RawMemory() {
    context_.expect_ok("mem_free", context_.memory().mem_free(context_.device(), handle_));
  }
  RawMemory(const RawMemory&) = delete;
  RawMemory& operator=(const RawMemory&) = delete;
  bp_mem mem() const { return {handle_, 0}; }

 private:
  AbiContext& context_;
  uint64_t handle_ = 0;
};

bp_mem host(void* address) { return {reinterpret_cast<uint64_t>(address), 0}; }

void unknown_copy_kind(AbiContext& context, uint32_t kind) {
  const RawMemory memory(context, 64);
  Bytes bytes(64);
  const bp_copy_args args{sizeof(args), 0, kind, 0, memory.mem(), host(bytes.data()), 64};
  context.expect_status(words("mem_copy of kind ", kind),
                        context.memory().mem_copy(context.device(), &args), BP_UNSUPPORTED);
}

void unknown_usage(AbiContext& context) {
  const bp_alloc_args args{sizeof(args), 0, 64, 0, 77, 0};
  uint64_t handle = 0;
  context.require_ok("mem_alloc for an unknown usage",
                     context.memory().mem_alloc(context.device(), &args, &handle));
  context.expect_ok("mem_free", context.memory().mem_free(context.device(), handle));
}

void unknown_access(AbiContext& context) {
  const RawMemory memory(context, 64);
  const bp_map_args args{sizeof(args), 0, memory.mem(), 64, BP_MAP_READ_BIT | kUnknownFlag, 0};
  void* ptr = nullptr;
  context.expect_status("mem_map with an unknown access bit",
                        context.memory().mem_map(context.device(), &args, &ptr), BP_UNSUPPORTED);
}

// Flags that the plugin doesn't know ask for something that it can't do.

void unknown_flag_in_config(AbiContext& context) {
  bp_config config = OptionArguments(context, OptionScope::kInstance).config();
  config.flags = kUnknownFlag;
  bp_instance* instance = nullptr;
  config.option_count = 0;
  context.expect_status(
      "init",
      context.root().init(context.host().api(), context.host().context(), &config, &instance),
      BP_UNSUPPORTED);
  context.expect(instance == nullptr, "no instance after a failure");
}

void unknown_flag_in_open(AbiContext& context) {
  const bp_open_args args{sizeof(args), kUnknownFlag, 0, 0, nullptr, nullptr};
  bp_device* device = nullptr;
  context.expect_status("device_open",
                        context.device_api().device_open(context.instance(), &args, &device),
                        BP_UNSUPPORTED);
  context.expect(device == nullptr, "no device after a failure");
}

void unknown_flag_in_alloc(AbiContext& context) {
  const bp_alloc_args args{sizeof(args), kUnknownFlag, 64, 0, 0, 0};
  uint64_t handle = 0;
  context.expect_status("mem_alloc", context.memory().mem_alloc(context.device(), &args, &handle),
                        BP_UNSUPPORTED);
  context.expect_equal("the handle after a failure", handle, 0U);
}

void unknown_flag_in_copy(AbiContext& context) {
  const RawMemory memory(context, 64);
  Bytes bytes(64);
  const bp_copy_args args{
      sizeof(args), kUnknownFlag, BP_COPY_HOST_TO_DEVICE, 0, memory.mem(), host(bytes.data()), 64};
  context.expect_status("mem_copy", context.memory().mem_copy(context.device(), &args),
                        BP_UNSUPPORTED);
}

void unknown_flag_in_fill(AbiContext& context) {
  const RawMemory memory(context, 64);
  const bp_fill_args args{sizeof(args), kUnknownFlag, memory.mem(), 64, 0, 1, 0, nullptr};
  context.expect_status("mem_fill", context.memory().mem_fill(context.device(), &args),
                        BP_UNSUPPORTED);
}

void unknown_flag_in_host_alloc(AbiContext& context) {
  const bp_host_alloc_args args{sizeof(args), kUnknownFlag, 64};
  void* ptr = nullptr;
  context.expect_status("host_alloc", context.memory().host_alloc(context.device(), &args, &ptr),
                        BP_UNSUPPORTED);
}

void unknown_flag_in_map(AbiContext& context) {
  const RawMemory memory(context, 64);
  const bp_map_args args{sizeof(args), kUnknownFlag, memory.mem(), 64, BP_MAP_READ_BIT, 0};
  void* ptr = nullptr;
  context.expect_status("mem_map", context.memory().mem_map(context.device(), &args, &ptr),
                        BP_UNSUPPORTED);
}

void unknown_flag_in_stream(AbiContext& context) {
  const bp_stream_args args{sizeof(args), kUnknownFlag};
  bp_stream* stream = nullptr;
  context.expect_status("stream_create",
                        context.stream().stream_create(context.device(), &args, &stream),
                        BP_UNSUPPORTED);
  context.expect(stream == nullptr, "no stream after a failure");
}

void unknown_flag_in_wrap(AbiContext& context) {
  const bp_stream_args plain{sizeof(plain), 0};
  bp_stream* stream = nullptr;
  context.require_ok("stream_create",
                     context.stream().stream_create(context.device(), &plain, &stream));
  bp_native_stream native{};
  native.struct_size = sizeof(native);
  context.expect_ok("stream_native_handle", context.stream().stream_native_handle(stream, &native));
  const bp_stream_wrap_args args{sizeof(args), kUnknownFlag, native.handle, native.kind};
  bp_stream* wrapped = nullptr;
  context.expect_status("stream_wrap",
                        context.stream().stream_wrap(context.device(), &args, &wrapped),
                        BP_UNSUPPORTED);
  context.expect(wrapped == nullptr, "no stream after a failure");
  context.expect_ok("stream_destroy", context.stream().stream_destroy(stream));
}

void unknown_flag_in_event(AbiContext& context) {
  const bp_event_args args{sizeof(args), kUnknownFlag};
  bp_event* event = nullptr;
  context.expect_status("event_create",
                        context.stream().event_create(context.device(), &args, &event),
                        BP_UNSUPPORTED);
  context.expect(event == nullptr, "no event after a failure");
}

// ... in the structs of collectives. What is refused has no effect on the group.

void unknown_flag_in_comm_args(AbiContext& context) {
  const RawGroup group(context);
  Bytes id(group.id_bytes());
  bp_uid_space space{sizeof(space), 0, id.data(), id.size()};
  context.require_ok("uid_create", context.collective().uid_create(context.device(), &space));
  const bp_comm_args args{sizeof(args), kUnknownFlag, id.data(), id.size(), 1, 0, 1, 0, 0, {}};
  bp_comm* comm = nullptr;
  context.expect_status("comm_init", context.collective().comm_init(context.device(), &args, &comm),
                        BP_UNSUPPORTED);
  context.expect(comm == nullptr, "no communicator after a failure");
}

void unknown_flag_in_abort_args(AbiContext& context) {
  const RawGroup group(context);
  bp_comm* const comm = group.comm();
  const bp_comm_abort_args args{sizeof(args), kUnknownFlag, &comm, 1};
  context.expect_status("comm_abort", context.collective().comm_abort(context.device(), &args),
                        BP_UNSUPPORTED);
  context.expect_equal("the state of the group", group.poll().state, BP_COMM_READY);
}

/// In which struct of a collective the flag is.
enum class In { kOperation, kBatch, kArgs };

template <In which>
void unknown_flag_in_collective(AbiContext& context) {
  const RawGroup group(context);
  const auto flag_in = [](In here) { return which == here ? kUnknownFlag : 0; };
  bp_collective_op op{};
  op.struct_size = sizeof(op);
  op.flags = flag_in(In::kOperation);
  op.kind = BP_COLLECTIVE_ALL_REDUCE;
  op.dtype = BP_DTYPE_F32;
  const bp_collective_batch batch{
      sizeof(batch), flag_in(In::kBatch), group.comm(), group.stream(), &op, 1, sizeof(op), 1, 1};
  const bp_collective_args args{sizeof(args), flag_in(In::kArgs), &batch, 1, sizeof(batch)};
  context.expect_status("collective_enqueue",
                        context.collective().collective_enqueue(context.device(), &args),
                        BP_UNSUPPORTED);
  context.expect_equal("the last sequence of the group", group.poll().enqueued_sequence, 0U);
}

// Structs that end at an inaccessible page: nothing behind struct_size may be read.

template <class Args>
class Guarded {
 public:
  explicit Guarded(const Args& args) : memory_(sizeof(Args)) {
    std::memcpy(memory_.data(), &args, sizeof(Args));
  }
  const Args* get() const { return reinterpret_cast<const Args*>(memory_.data()); }

 private:
  const GuardedMemory memory_;
};

void reads_config_only(AbiContext& context) {
  const OptionArguments options(context, OptionScope::kInstance);
  const Guarded<bp_config> config(options.config());
  bp_instance* instance = nullptr;
  RecordingHost& host_table = context.host();
  context.require_ok(
      "init", context.root().init(host_table.api(), host_table.context(), config.get(), &instance));
  context.expect_ok("shutdown", context.root().shutdown(instance));
}

void reads_open_args_only(AbiContext& context) {
  const OptionArguments options(context, OptionScope::kDevice);
  const Guarded<bp_open_args> args(options.open_args(context.target().device_index));
  bp_device* device = nullptr;
  context.require_ok("device_open",
                     context.device_api().device_open(context.instance(), args.get(), &device));
  context.expect_ok("device_close", context.device_api().device_close(device));
}

void reads_memory_args_only(AbiContext& context) {
  const Guarded<bp_alloc_args> alloc({sizeof(bp_alloc_args), 0, 64, 0, 0, 0});
  uint64_t handle = 0;
  context.require_ok("mem_alloc",
                     context.memory().mem_alloc(context.device(), alloc.get(), &handle));
  Bytes bytes = Bytes(64, std::byte{7});
  const Guarded<bp_copy_args> copy(
      {sizeof(bp_copy_args), 0, BP_COPY_HOST_TO_DEVICE, 0, {handle, 0}, host(bytes.data()), 64});
  context.expect_ok("mem_copy", context.memory().mem_copy(context.device(), copy.get()));
  context.expect_ok("mem_free", context.memory().mem_free(context.device(), handle));
}

void reads_fill_args_only(AbiContext& context) {
  const RawMemory memory(context, 64);
  const Guarded<bp_fill_args> fill({sizeof(bp_fill_args), 0, memory.mem(), 64, 3, 1, 0, nullptr});
  context.expect_ok("mem_fill", context.memory().mem_fill(context.device(), fill.get()));
}

void reads_host_alloc_args_only(AbiContext& context) {
  const Guarded<bp_host_alloc_args> args({sizeof(bp_host_alloc_args), 0, 64});
  void* ptr = nullptr;
  context.require_ok("host_alloc", context.memory().host_alloc(context.device(), args.get(), &ptr));
  context.expect_ok("host_free", context.memory().host_free(context.device(), ptr));
}

void reads_map_args_only(AbiContext& context) {
  const RawMemory memory(context, 64);
  const Guarded<bp_map_args> map({sizeof(bp_map_args), 0, memory.mem(), 64, BP_MAP_READ_BIT, 0});
  void* ptr = nullptr;
  context.require_ok("mem_map", context.memory().mem_map(context.device(), map.get(), &ptr));
  context.expect_ok("mem_unmap", context.memory().mem_unmap(context.device(), ptr));
}

void reads_stream_args_only(AbiContext& context) {
  const Guarded<bp_stream_args> args({sizeof(bp_stream_args), 0});
  const Guarded<bp_event_args> event_args({sizeof(bp_event_args), 0});
  bp_stream* stream = nullptr;
  bp_event* event = nullptr;
  const bp_stream_api& api = context.stream();
  context.require_ok("stream_create", api.stream_create(context.device(), args.get(), &stream));
  context.require_ok("event_create", api.event_create(context.device(), event_args.get(), &event));
  context.expect_ok("event_destroy", api.event_destroy(event));
  context.expect_ok("stream_destroy", api.stream_destroy(stream));
}

void index_out_of_range(AbiContext& context, uint32_t beyond) {
  uint32_t count = 0;
  context.require_ok("device_count", context.device_api().device_count(context.instance(), &count));
  const uint32_t index = beyond == UINT32_MAX ? beyond : count + beyond;
  const bp_open_args args{sizeof(args), 0, index, 0, nullptr, nullptr};
  bp_device* device = nullptr;
  context.expect_status(words("device_open of index ", index, " of ", count),
                        context.device_api().device_open(context.instance(), &args, &device),
                        BP_INVALID_ARGUMENT);
  context.expect(device == nullptr, "no device after a failure");
}

}  // namespace

void add_argument_cases(CaseList* list) {
  for (const uint32_t kind : kUnknownKinds) {
    list->add({.id = words("L0.unknown.copy_kind.", kind),
               .proves = "An unknown kind of copy is BP_UNSUPPORTED.",
               .abi = [=](AbiContext& context) { unknown_copy_kind(context, kind); }});
  }
  for (const uint32_t beyond : {0u, 1u, 1000u, UINT32_MAX}) {
    list->add({.id = words("L0.index.device.", beyond),
               .proves = "BP_INVALID_ARGUMENT for an index out of range.",
               .abi = [=](AbiContext& context) { index_out_of_range(context, beyond); }});
  }
  struct Plain {
    const char* id;
    void (*run)(AbiContext&);
    uint64_t band = 0;
    uint32_t needs = 0;
  };
  const auto add = [list](std::string_view proves, std::initializer_list<Plain> cases) {
    for (const Plain& plain : cases) {
      list->add({.id = std::string("L0.") + plain.id,
                 .proves = proves,
                 .bands = plain.band,
                 .needs = plain.needs,
                 .abi = plain.run});
    }
  };
  add("usage is a hint: unknown values are treated as 0.", {{"unknown.usage", unknown_usage}});
  add("A flag that the receiver doesn't know is BP_UNSUPPORTED.",
      {{"unknown.map_access", unknown_access, BP_FEATURE_MAP_BIT},
       {"unknown.flag.bp_config", unknown_flag_in_config},
       {"unknown.flag.bp_open_args", unknown_flag_in_open},
       {"unknown.flag.bp_alloc_args", unknown_flag_in_alloc},
       {"unknown.flag.bp_copy_args", unknown_flag_in_copy},
       {"unknown.flag.bp_fill_args", unknown_flag_in_fill, BP_FEATURE_FILL_BIT},
       {"unknown.flag.bp_host_alloc_args", unknown_flag_in_host_alloc, BP_FEATURE_PINNED_BIT},
       {"unknown.flag.bp_map_args", unknown_flag_in_map, BP_FEATURE_MAP_BIT},
       {"unknown.flag.bp_stream_args", unknown_flag_in_stream, BP_FEATURE_ASYNC_BIT},
       {"unknown.flag.bp_stream_wrap_args", unknown_flag_in_wrap,
        BP_FEATURE_ASYNC_BIT | BP_FEATURE_NATIVE_BIT},
       {"unknown.flag.bp_event_args", unknown_flag_in_event, BP_FEATURE_ASYNC_BIT},
       {"unknown.flag.bp_comm_args", unknown_flag_in_comm_args, 0, kNeedCollectives},
       {"unknown.flag.bp_comm_abort_args", unknown_flag_in_abort_args, 0, kNeedCollectives},
       {"unknown.flag.bp_collective_op", unknown_flag_in_collective<In::kOperation>, 0,
        kNeedCollectives},
       {"unknown.flag.bp_collective_batch", unknown_flag_in_collective<In::kBatch>, 0,
        kNeedCollectives},
       {"unknown.flag.bp_collective_args", unknown_flag_in_collective<In::kArgs>, 0,
        kNeedCollectives}});
  add("Nothing behind struct_size is read.",
      {{"reads_only.bp_config", reads_config_only},
       {"reads_only.bp_open_args", reads_open_args_only},
       {"reads_only.bp_alloc_and_copy_args", reads_memory_args_only},
       {"reads_only.bp_fill_args", reads_fill_args_only, BP_FEATURE_FILL_BIT},
       {"reads_only.bp_host_alloc_args", reads_host_alloc_args_only, BP_FEATURE_PINNED_BIT},
       {"reads_only.bp_map_args", reads_map_args_only, BP_FEATURE_MAP_BIT},
       {"reads_only.bp_stream_and_event_args", reads_stream_args_only, BP_FEATURE_ASYNC_BIT}});
}

}  // namespace bp::conform
