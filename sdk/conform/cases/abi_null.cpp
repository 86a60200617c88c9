// SPDX-License-Identifier: Apache-2.0
//
// Level 0: each slot with NULL for each pointer that must not be NULL. The answer is
// BP_INVALID_ARGUMENT, nothing crashes, and the device works as before.
#include <optional>

#include "sdk/conform/abi.hpp"
#include "sdk/conform/step.hpp"

namespace bp::conform {
namespace {

constexpr uint64_t kAsync = BP_FEATURE_ASYNC_BIT;
constexpr uint64_t kTiming = BP_FEATURE_TIMING_BIT;
constexpr uint64_t kFill = BP_FEATURE_FILL_BIT;
constexpr uint64_t kPinned = BP_FEATURE_PINNED_BIT;
constexpr uint64_t kMap = BP_FEATURE_MAP_BIT;
constexpr uint64_t kNative = BP_FEATURE_NATIVE_BIT;

/// Arguments that are right, for all parameters but the one under test.
struct Arguments {
  const bp_alloc_args alloc{sizeof(bp_alloc_args), 0, 64, 0, 0, 0};
  const bp_copy_args copy{sizeof(bp_copy_args), 0, BP_COPY_HOST_TO_DEVICE, 0, {}, {}, 0};
  const bp_fill_args fill{sizeof(bp_fill_args), 0, {}, 0, 0, 1, 0, nullptr};
  const bp_host_alloc_args host{sizeof(bp_host_alloc_args), 0, 64};
  const bp_map_args map{sizeof(bp_map_args), 0, {}, 1, BP_MAP_READ_BIT, 0};
  const bp_stream_args stream{sizeof(bp_stream_args), 0};
  const bp_event_args event{sizeof(bp_event_args), 0};
  const bp_stream_wrap_args wrap{sizeof(bp_stream_wrap_args), 0, 0, {}};
  const bp_open_args open{sizeof(bp_open_args), 0, 0, 0, nullptr, nullptr};
  const bp_config config{sizeof(bp_config), 0, BP_ABI_CURRENT, 0, nullptr, nullptr};
  // An operation without elements, which takes part.
  const bp_collective_op op{sizeof(bp_collective_op),
                            0,
                            BP_COLLECTIVE_ALL_REDUCE,
                            BP_DTYPE_F32,
                            BP_REDUCTION_SUM,
                            0,
                            0,
                            {},
                            {}};
};
constexpr Arguments kArgs;

/// What the slots fill; a failed call leaves the pointers NULL.
struct Outputs {
  bp_instance* instance = nullptr;
  bp_device* device = nullptr;
  bp_stream* stream = nullptr;
  bp_event* event = nullptr;
  void* ptr = nullptr;
  uint64_t number = 0;
  uint32_t count = 0;
  bp_device_props props{};
  bp_kernel_list list{};
  bp_native_stream native{sizeof(bp_native_stream), 0, 0, {}};
  bp_comm* comm = nullptr;
  bp_collective_caps caps{};
  bp_comm_state state{};

  bool untouched() const {
    return instance == nullptr && device == nullptr && stream == nullptr && event == nullptr &&
           ptr == nullptr && number == 0 && native.handle == 0 && comm == nullptr;
  }
};

/// The objects that calls are made on.
struct Objects {
  AbiContext& context;
  bp_instance* instance;
  bp_device* device;
  bp_stream* stream = nullptr;  // where the plugin has the band
  bp_event* event = nullptr;
  const RawGroup* group = nullptr;  // where the device has collectives
};

struct NullCall {
  const char* name;  // slot and parameter
  uint64_t band;
  bp_status (*call)(Objects& o, Outputs& out);
};

constexpr NullCall kRootAndDevice[] = {
    {"init.host", 0,
     [](Objects& o, Outputs& out) {
       return o.context.root().init(nullptr, nullptr, &kArgs.config, &out.instance);
     }},
    {"init.config", 0,
     [](Objects& o, Outputs& out) {
       RecordingHost& host = o.context.host();
       return o.context.root().init(host.api(), host.context(), nullptr, &out.instance);
     }},
    {"init.out_instance", 0,
     [](Objects& o, Outputs&) {
       RecordingHost& host = o.context.host();
       return o.context.root().init(host.api(), host.context(), &kArgs.config, nullptr);
     }},
    {"shutdown.instance", 0,
     [](Objects& o, Outputs&) { return o.context.root().shutdown(nullptr); }},
    {"device_count.instance", 0,
     [](Objects& o, Outputs& out) {
       return o.context.device_api().device_count(nullptr, &out.count);
     }},
    {"device_count.out_count", 0,
     [](Objects& o, Outputs&) { return o.context.device_api().device_count(o.instance, nullptr); }},
    {"device_open.instance", 0,
     [](Objects& o, Outputs& out) {
       return o.context.device_api().device_open(nullptr, &kArgs.open, &out.device);
     }},
    {"device_open.args", 0,
     [](Objects& o, Outputs& out) {
       return o.context.device_api().device_open(o.instance, nullptr, &out.device);
     }},
    {"device_open.out_device", 0,
     [](Objects& o, Outputs&) {
       return o.context.device_api().device_open(o.instance, &kArgs.open, nullptr);
     }},
    {"device_close.device", 0,
     [](Objects& o, Outputs&) { return o.context.device_api().device_close(nullptr); }},
    {"device_props.device", 0,
     [](Objects& o, Outputs& out) {
       out.props.struct_size = sizeof(out.props);
       return o.context.device_api().device_props(nullptr, &out.props);
     }},
    {"device_props.out_props", 0,
     [](Objects& o, Outputs&) { return o.context.device_api().device_props(o.device, nullptr); }},
    {"kernel_list.device", 0,
     [](Objects& o, Outputs& out) {
       out.list.struct_size = sizeof(out.list);
       return o.context.kernel().kernel_list(nullptr, &out.list);
     }},
    {"kernel_list.out_list", 0,
     [](Objects& o, Outputs&) { return o.context.kernel().kernel_list(o.device, nullptr); }},
};

constexpr NullCall kMemory[] = {
    {"mem_alloc.device", 0,
     [](Objects& o, Outputs& out) {
       return o.context.memory().mem_alloc(nullptr, &kArgs.alloc, &out.number);
     }},
    {"mem_alloc.args", 0,
     [](Objects& o, Outputs& out) {
       return o.context.memory().mem_alloc(o.device, nullptr, &out.number);
     }},
    {"mem_alloc.out_handle", 0,
     [](Objects& o, Outputs&) {
       return o.context.memory().mem_alloc(o.device, &kArgs.alloc, nullptr);
     }},
    {"mem_free.device", 0,
     [](Objects& o, Outputs&) { return o.context.memory().mem_free(nullptr, 1); }},
    {"mem_free.handle", 0,
     [](Objects& o, Outputs&) { return o.context.memory().mem_free(o.device, 0); }},
    {"mem_copy.device", 0,
     [](Objects& o, Outputs&) { return o.context.memory().mem_copy(nullptr, &kArgs.copy); }},
    {"mem_copy.args", 0,
     [](Objects& o, Outputs&) { return o.context.memory().mem_copy(o.device, nullptr); }},
    {"mem_fill.device", kFill,
     [](Objects& o, Outputs&) { return o.context.memory().mem_fill(nullptr, &kArgs.fill); }},
    {"mem_fill.args", kFill,
     [](Objects& o, Outputs&) { return o.context.memory().mem_fill(o.device, nullptr); }},
    {"host_alloc.device", kPinned,
     [](Objects& o, Outputs& out) {
       return o.context.memory().host_alloc(nullptr, &kArgs.host, &out.ptr);
     }},
    {"host_alloc.args", kPinned,
     [](Objects& o, Outputs& out) {
       return o.context.memory().host_alloc(o.device, nullptr, &out.ptr);
     }},
    {"host_alloc.out_ptr", kPinned,
     [](Objects& o, Outputs&) {
       return o.context.memory().host_alloc(o.device, &kArgs.host, nullptr);
     }},
    {"host_free.device", kPinned,
     [](Objects& o, Outputs& out) { return o.context.memory().host_free(nullptr, &out); }},
    {"host_free.ptr", kPinned,
     [](Objects& o, Outputs&) { return o.context.memory().host_free(o.device, nullptr); }},
    {"mem_map.device", kMap,
     [](Objects& o, Outputs& out) {
       return o.context.memory().mem_map(nullptr, &kArgs.map, &out.ptr);
     }},
    {"mem_map.args", kMap,
     [](Objects& o, Outputs& out) {
       return o.context.memory().mem_map(o.device, nullptr, &out.ptr);
     }},
    {"mem_map.out_ptr", kMap,
     [](Objects& o, Outputs&) {
       return o.context.memory().mem_map(o.device, &kArgs.map, nullptr);
     }},
    {"mem_unmap.device", kMap,
     [](Objects& o, Outputs& out) { return o.context.memory().mem_unmap(nullptr, &out); }},
    {"mem_unmap.ptr", kMap,
     [](Objects& o, Outputs&) { return o.context.memory().mem_unmap(o.device, nullptr); }},
};

constexpr NullCall kStreamsAndEvents[] = {
    {"stream_create.device", kAsync,
     [](Objects& o, Outputs& out) {
       return o.context.stream().stream_create(nullptr, &kArgs.stream, &out.stream);
     }},
    {"stream_create.args", kAsync,
     [](Objects& o, Outputs& out) {
       return o.context.stream().stream_create(o.device, nullptr, &out.stream);
     }},
    {"stream_create.out_stream", kAsync,
     [](Objects& o, Outputs&) {
       return o.context.stream().stream_create(o.device, &kArgs.stream, nullptr);
     }},
    {"stream_destroy.stream", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().stream_destroy(nullptr); }},
    {"stream_sync.stream", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().stream_sync(nullptr, 0); }},
    {"stream_query.stream", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().stream_query(nullptr); }},
    {"event_create.device", kAsync,
     [](Objects& o, Outputs& out) {
       return o.context.stream().event_create(nullptr, &kArgs.event, &out.event);
     }},
    {"event_create.args", kAsync,
     [](Objects& o, Outputs& out) {
       return o.context.stream().event_create(o.device, nullptr, &out.event);
     }},
    {"event_create.out_event", kAsync,
     [](Objects& o, Outputs&) {
       return o.context.stream().event_create(o.device, &kArgs.event, nullptr);
     }},
    {"event_destroy.event", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().event_destroy(nullptr); }},
    {"event_record.event", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().event_record(nullptr, o.stream); }},
    {"event_record.stream", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().event_record(o.event, nullptr); }},
    {"event_wait.event", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().event_wait(nullptr, o.stream); }},
    {"event_wait.stream", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().event_wait(o.event, nullptr); }},
    {"event_sync.event", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().event_sync(nullptr, 0); }},
    {"event_query.event", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().event_query(nullptr); }},
    {"mem_copy_async.stream", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().mem_copy_async(nullptr, &kArgs.copy); }},
    {"mem_copy_async.args", kAsync,
     [](Objects& o, Outputs&) { return o.context.stream().mem_copy_async(o.stream, nullptr); }},
    {"stream_host_call.stream", kAsync,
     [](Objects& o, Outputs&) {
       return o.context.stream().stream_host_call(
           nullptr, [](void*, bp_status) {}, nullptr);
     }},
    {"stream_host_call.fn", kAsync,
     [](Objects& o, Outputs&) {
       return o.context.stream().stream_host_call(o.stream, nullptr, nullptr);
     }},
    {"event_elapsed.start", kAsync | kTiming,
     [](Objects& o, Outputs& out) {
       return o.context.stream().event_elapsed(nullptr, o.event, &out.number);
     }},
    {"event_elapsed.end", kAsync | kTiming,
     [](Objects& o, Outputs& out) {
       return o.context.stream().event_elapsed(o.event, nullptr, &out.number);
     }},
    {"event_elapsed.out_elapsed_ns", kAsync | kTiming,
     [](Objects& o, Outputs&) {
       return o.context.stream().event_elapsed(o.event, o.event, nullptr);
     }},
    {"stream_native_handle.stream", kAsync | kNative,
     [](Objects& o, Outputs& out) {
       return o.context.stream().stream_native_handle(nullptr, &out.native);
     }},
    {"stream_native_handle.out_native", kAsync | kNative,
     [](Objects& o, Outputs&) {
       return o.context.stream().stream_native_handle(o.stream, nullptr);
     }},
    {"stream_wrap.device", kAsync | kNative,
     [](Objects& o, Outputs& out) {
       return o.context.stream().stream_wrap(nullptr, &kArgs.wrap, &out.stream);
     }},
    {"stream_wrap.args", kAsync | kNative,
     [](Objects& o, Outputs& out) {
       return o.context.stream().stream_wrap(o.device, nullptr, &out.stream);
     }},
    {"stream_wrap.out_stream", kAsync | kNative,
     [](Objects& o, Outputs&) {
       return o.context.stream().stream_wrap(o.device, &kArgs.wrap, nullptr);
     }},
};

bp_status create_id(const Objects& o, bp_device* device, void* data) {
  bp_uid_space space{sizeof(space), 0, data, o.group->id_bytes()};
  return o.context.collective().uid_create(device, &space);
}

/// comm_init of a rank that is alone.
bp_status join_alone(Objects& o, bp_device* device, bool has_id, bp_comm** out_comm) {
  Bytes id(o.group->id_bytes());
  o.context.require_ok("uid_create", create_id(o, o.device, id.data()));
  const void* const uids = has_id ? id.data() : nullptr;
  const bp_comm_args args{sizeof(args), 0, uids, id.size(), 1, 0, 1, 0, 0, {}};
  return o.context.collective().comm_init(device, &args, out_comm);
}

bp_status abort_comms(const Objects& o, bp_device* device, bp_comm* const* comms) {
  const bp_comm_abort_args args{sizeof(args), 0, comms, 1};
  return o.context.collective().comm_abort(device, &args);
}

bp_collective_batch one_batch(const Objects& o) {
  return {sizeof(bp_collective_batch), 0,         o.group->comm(),
          o.group->stream(),           &kArgs.op, 1,
          sizeof(bp_collective_op),    1,         1};
}

bp_status enqueue(const Objects& o, bp_device* device, const bp_collective_batch* batch) {
  const bp_collective_args args{sizeof(args), 0, batch, 1, sizeof(bp_collective_batch)};
  return o.context.collective().collective_enqueue(device, &args);
}

constexpr NullCall kCollectives[] = {
    {"collective_caps.device", 0,
     [](Objects& o, Outputs& out) {
       out.caps.struct_size = sizeof(out.caps);
       return o.context.collective().collective_caps(nullptr, &out.caps);
     }},
    {"collective_caps.out_caps", 0,
     [](Objects& o, Outputs&) {
       return o.context.collective().collective_caps(o.device, nullptr);
     }},
    {"uid_create.device", 0,
     [](Objects& o, Outputs&) {
       Bytes id(o.group->id_bytes());
       const bp_status status = create_id(o, nullptr, id.data());
       o.context.expect(id == Bytes(id.size()), "room for an id that is left alone");
       return status;
     }},
    {"uid_create.out_uid", 0,
     [](Objects& o, Outputs&) { return o.context.collective().uid_create(o.device, nullptr); }},
    {"uid_create.data", 0, [](Objects& o, Outputs&) { return create_id(o, o.device, nullptr); }},
    {"comm_init.device", 0,
     [](Objects& o, Outputs& out) { return join_alone(o, nullptr, true, &out.comm); }},
    {"comm_init.args", 0,
     [](Objects& o, Outputs& out) {
       return o.context.collective().comm_init(o.device, nullptr, &out.comm);
     }},
    {"comm_init.uids", 0,
     [](Objects& o, Outputs& out) { return join_alone(o, o.device, false, &out.comm); }},
    {"comm_init.out_comm", 0,
     [](Objects& o, Outputs&) { return join_alone(o, o.device, true, nullptr); }},
    {"comm_poll.comm", 0,
     [](Objects& o, Outputs& out) {
       out.state.struct_size = sizeof(out.state);
       return o.context.collective().comm_poll(nullptr, &out.state);
     }},
    {"comm_poll.out_state", 0,
     [](Objects& o, Outputs&) {
       return o.context.collective().comm_poll(o.group->comm(), nullptr);
     }},
    {"comm_abort.device", 0,
     [](Objects& o, Outputs&) {
       bp_comm* const comm = o.group->comm();
       return abort_comms(o, nullptr, &comm);
     }},
    {"comm_abort.args", 0,
     [](Objects& o, Outputs&) { return o.context.collective().comm_abort(o.device, nullptr); }},
    {"comm_abort.comms", 0, [](Objects& o, Outputs&) { return abort_comms(o, o.device, nullptr); }},
    {"comm_abort.comm", 0,
     [](Objects& o, Outputs&) {
       bp_comm* const comms[] = {o.group->comm(), nullptr};
       const bp_comm_abort_args args{sizeof(args), 0, comms, 2};
       return o.context.collective().comm_abort(o.device, &args);
     }},
    {"comm_destroy.comm", 0,
     [](Objects& o, Outputs&) { return o.context.collective().comm_destroy(nullptr); }},
    {"collective_enqueue.device", 0,
     [](Objects& o, Outputs&) {
       const bp_collective_batch batch = one_batch(o);
       return enqueue(o, nullptr, &batch);
     }},
    {"collective_enqueue.args", 0,
     [](Objects& o, Outputs&) {
       return o.context.collective().collective_enqueue(o.device, nullptr);
     }},
    {"collective_enqueue.batches", 0,
     [](Objects& o, Outputs&) { return enqueue(o, o.device, nullptr); }},
    {"collective_enqueue.comm", 0,
     [](Objects& o, Outputs&) {
       bp_collective_batch batch = one_batch(o);
       batch.comm = nullptr;
       return enqueue(o, o.device, &batch);
     }},
    {"collective_enqueue.stream", 0,
     [](Objects& o, Outputs&) {
       bp_collective_batch batch = one_batch(o);
       batch.stream = nullptr;
       return enqueue(o, o.device, &batch);
     }},
    {"collective_enqueue.operations", 0,
     [](Objects& o, Outputs&) {
       bp_collective_batch batch = one_batch(o);
       batch.operations = nullptr;
       return enqueue(o, o.device, &batch);
     }},
};

/// A failed call has left the group as it was.
void expect_untouched(AbiContext& context, const RawGroup& group) {
  const bp_comm_state state = group.poll();
  context.expect_equal("the state of the group", state.state, BP_COMM_READY);
  context.expect_equal("the last sequence of the group", state.enqueued_sequence, 0U);
}

void run_null_call(AbiContext& context, const NullCall& call, bool has_group) {
  Objects objects{context, context.instance(), context.device()};
  std::optional<RawGroup> group;
  if (has_group) objects.group = &group.emplace(context);
  if ((call.band & kAsync) != 0) {
    context.require_ok("stream_create", context.stream().stream_create(
                                            objects.device, &kArgs.stream, &objects.stream));
    context.require_ok("event_create",
                       context.stream().event_create(objects.device, &kArgs.event, &objects.event));
  }
  Outputs outputs;
  const std::string what = words(call.name, " NULL");
  note_step(words(what, ", expected INVALID_ARGUMENT"));
  context.expect_status(what, call.call(objects, outputs), BP_INVALID_ARGUMENT);
  note_step({});
  context.expect(outputs.untouched(), "outputs that are left alone");
  if (group) expect_untouched(context, *group);
  expect_working(context, objects.device, "afterwards");
  if (objects.event != nullptr) {
    context.expect_ok("event_destroy", context.stream().event_destroy(objects.event));
    context.expect_ok("stream_destroy", context.stream().stream_destroy(objects.stream));
  }
}

/// One function of every kernel, called with NULL; those that a kernel lacks are passed over.
template <class Call>
void for_each_kernel(AbiContext& context, Call call) {
  bp_device* device = context.device();
  bp_kernel_list list{};
  list.struct_size = sizeof(list);
  context.require_ok("kernel_list", context.kernel().kernel_list(device, &list));
  for (uint64_t i = 0; i < list.kernel_count; ++i) {
    const bp_kernel kernel = copy_struct(list.kernels[i]);
    const std::string name(kernel.name.ptr, static_cast<size_t>(kernel.name.len));
    note_step(words("kernel ", name, ", a pointer NULL, expected INVALID_ARGUMENT"));
    call(list.kernels[i], kernel, name);
  }
  expect_working(context, device, "afterwards");
}

void null_launch(AbiContext& context) {
  for_each_kernel(context, [&](const bp_kernel*, const bp_kernel& kernel, const std::string& name) {
    context.expect_status(name + ": launch(NULL)", kernel.launch(nullptr), BP_INVALID_ARGUMENT);
  });
}

void null_launch_device(AbiContext& context) {
  for_each_kernel(context,
                  [&](const bp_kernel* original, const bp_kernel& kernel, const std::string& name) {
                    bp_launch_args args{};
                    args.struct_size = sizeof(args);
                    args.kernel = original;
                    context.expect_status(name + ": launch without a device", kernel.launch(&args),
                                          BP_INVALID_ARGUMENT);
                  });
}

void null_launch_tensors(AbiContext& context) {
  for_each_kernel(context,
                  [&](const bp_kernel* original, const bp_kernel& kernel, const std::string& name) {
                    bp_launch_args args{};
                    args.struct_size = sizeof(args);
                    args.device = context.device();
                    args.kernel = original;
                    args.input_count = 1;
                    args.output_count = 1;
                    context.expect_status(name + ": launch without tensors", kernel.launch(&args),
                                          BP_INVALID_ARGUMENT);
                  });
}

void null_supports(AbiContext& context) {
  for_each_kernel(context, [&](const bp_kernel*, const bp_kernel& kernel, const std::string& name) {
    bp_support support{};
    support.struct_size = sizeof(support);
    if (kernel.supports == nullptr) return;
    context.expect_status(name + ": supports without a query",
                          kernel.supports(context.device(), nullptr, &support),
                          BP_INVALID_ARGUMENT);
    bp_kernel_query query{};
    query.struct_size = sizeof(query);
    context.expect_status(name + ": supports without an answer",
                          kernel.supports(context.device(), &query, nullptr), BP_INVALID_ARGUMENT);
  });
}

void null_plan(AbiContext& context) {
  for_each_kernel(
      context, [&](const bp_kernel* original, const bp_kernel& kernel, const std::string& name) {
        if (kernel.plan == nullptr) return;
        bp_plan_info info{};
        info.struct_size = sizeof(info);
        bp_kernel_query query{};
        query.struct_size = sizeof(query);
        query.kernel = original;
        bp_kernel_plan* plan = nullptr;
        context.expect_status(name + ": plan without a device",
                              kernel.plan(nullptr, &query, &info, &plan), BP_INVALID_ARGUMENT);
        context.expect_status(name + ": plan without a query",
                              kernel.plan(context.device(), nullptr, &info, &plan),
                              BP_INVALID_ARGUMENT);
        context.expect_status(name + ": plan without out_info",
                              kernel.plan(context.device(), &query, nullptr, &plan),
                              BP_INVALID_ARGUMENT);
        context.expect_status(name + ": plan without out_plan",
                              kernel.plan(context.device(), &query, &info, nullptr),
                              BP_INVALID_ARGUMENT);
        context.expect(plan == nullptr, "no plan after a failure");
      });
}

void null_plan_free(AbiContext& context) {
  for_each_kernel(context, [&](const bp_kernel*, const bp_kernel& kernel, const std::string&) {
    if (kernel.plan_free != nullptr) kernel.plan_free(context.device(), nullptr);
    if (kernel.state_destroy != nullptr) kernel.state_destroy(context.device(), nullptr);
  });
}

void null_state_create(AbiContext& context) {
  for_each_kernel(
      context, [&](const bp_kernel* original, const bp_kernel& kernel, const std::string& name) {
        if (kernel.state_create == nullptr) return;
        bp_kernel_state* state = nullptr;
        context.expect_status(name + ": state_create without a device",
                              kernel.state_create(nullptr, original, nullptr, &state),
                              BP_INVALID_ARGUMENT);
        context.expect_status(name + ": state_create without out_state",
                              kernel.state_create(context.device(), original, nullptr, nullptr),
                              BP_INVALID_ARGUMENT);
      });
}

}  // namespace

void add_null_cases(CaseList* list) {
  constexpr std::string_view kProves = "A pointer that must not be NULL is BP_INVALID_ARGUMENT.";
  const auto add_calls = [=](std::span<const NullCall> calls, uint32_t needs) {
    const bool has_group = (needs & kNeedCollectives) != 0;
    for (const NullCall& call : calls) {
      list->add({.id = std::string("L0.null.") + call.name,
                 .proves = kProves,
                 .bands = call.band,
                 .needs = needs,
                 .abi = [=](AbiContext& context) { run_null_call(context, call, has_group); }});
    }
  };
  add_calls(kRootAndDevice, 0);
  add_calls(kMemory, 0);
  add_calls(kStreamsAndEvents, 0);
  add_calls(kCollectives, kNeedCollectives);
  const auto add = [=](const char* name, void (*run)(AbiContext&)) {
    list->add({.id = std::string("L0.null.") + name, .proves = kProves, .abi = run});
  };
  add("kernel.launch", null_launch);
  add("kernel.launch_device", null_launch_device);
  add("kernel.launch_tensors", null_launch_tensors);
  add("kernel.supports", null_supports);
  add("kernel.plan", null_plan);
  add("kernel.plan_free", null_plan_free);
  add("kernel.state_create", null_state_create);
}

}  // namespace bp::conform
