// SPDX-License-Identifier: Apache-2.0
//
// Sessions of the C API: loading and introspection. Runs are in run_api.cpp.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/api/deleter.hpp"
#include "core/api/handles.hpp"
#include "ops/onnx/import.hpp"

namespace bp {
namespace {

Result<Device*> session_device(const bpa_device* handle, const std::string& name,
                               const Runtime& runtime) {
  BP_TRY_ASSIGN(const DeviceUse device, object_of(handle, name));
  if (&device->runtime() == &runtime) return device.get();
  return bad_argument(name, "is a device of another runtime");
}

Status read_devices(const bpa_session_args& given, const Runtime& runtime, SessionArgs* out_args) {
  BP_TRY(check_array(given.devices, given.device_count, "args.devices"));
  if (given.device_count == 0) {
    BP_TRY_ASSIGN(out_args->device, session_device(given.device, "args.device", runtime));
    return {};
  }
  if (given.device != nullptr) return bad_argument("args.device", "is set, and args.devices too");
  for (uint64_t i = 0; i < given.device_count; ++i) {
    const std::string name = "args.devices[" + std::to_string(i) + "]";
    BP_TRY_ASSIGN(Device * device, session_device(given.devices[i], name, runtime));
    if (std::find(given.devices, given.devices + i, given.devices[i]) != given.devices + i) {
      return bad_argument(name, "is listed before");
    }
    if (i == 0) {
      out_args->device = device;
    } else {
      out_args->fallbacks.push_back(device);
    }
  }
  return {};
}

Status read_dims(const bpa_session_args& given, SessionArgs* out_args) {
  BP_TRY(check_array(given.dim_names, given.dim_count, "args.dim_names"));
  BP_TRY(check_array(given.dim_sizes, given.dim_count, "args.dim_sizes"));
  for (uint64_t i = 0; i < given.dim_count; ++i) {
    const std::string index = "[" + std::to_string(i) + "]";
    BP_TRY(check_text(given.dim_names[i], "args.dim_names" + index));
    if (given.dim_sizes[i] < 0) {
      return bad_argument("args.dim_sizes" + index,
                          "is " + std::to_string(given.dim_sizes[i]) + ", expected at least 0");
    }
    if (!out_args->dims.emplace(given.dim_names[i], given.dim_sizes[i]).second) {
      return bad_argument("args.dim_names" + index,
                          "is '" + std::string(given.dim_names[i]) + "', which is listed before");
    }
  }
  return {};
}

Status read_dim_ranges(const bpa_session_args& given, SessionArgs* out_args) {
  BP_TRY(check_array(given.range_names, given.range_count, "args.range_names"));
  BP_TRY(check_array(given.range_mins, given.range_count, "args.range_mins"));
  BP_TRY(check_array(given.range_maxes, given.range_count, "args.range_maxes"));
  for (uint64_t i = 0; i < given.range_count; ++i) {
    const std::string index = "[" + std::to_string(i) + "]";
    BP_TRY(check_text(given.range_names[i], "args.range_names" + index));
    const std::string name = given.range_names[i];
    const DimRange range{given.range_mins[i], given.range_maxes[i]};
    if (range.min < 0) {
      return bad_argument("args.range_mins" + index, "is " + std::to_string(range.min) + " for '" +
                                                         name + "', expected at least 0");
    }
    if (range.max < range.min) {
      return bad_argument("args.range_maxes" + index, "is " + std::to_string(range.max) + " for '" +
                                                          name + "', expected at least its min " +
                                                          std::to_string(range.min));
    }
    if (out_args->dims.contains(name)) {
      return bad_argument("args.range_names" + index,
                          "is '" + name + "', which args.dim_names fixes");
    }
    if (!out_args->dim_ranges.emplace(name, range).second) {
      return bad_argument("args.range_names" + index, "is '" + name + "', which is listed before");
    }
  }
  return {};
}

Result<SessionArgs> session_args(const bpa_session_args& given, const Runtime& runtime) {
  SessionArgs args;
  BP_TRY(read_devices(given, runtime, &args));
  if (given.reserved != 0) {
    return Status(BP_UNSUPPORTED,
                  "argument args.reserved is " + std::to_string(given.reserved) + ", expected 0");
  }
  if (given.max_contexts != 0) args.max_contexts = given.max_contexts;
  args.deterministic = (given.flags & BPA_SESSION_DETERMINISTIC_BIT) != 0;
  args.memory_limit_bytes = given.memory_limit_bytes;
  BP_TRY(read_dims(given, &args));
  BP_TRY(read_dim_ranges(given, &args));
  return args;
}

std::vector<std::vector<const char*>> dim_names(std::span<const SessionIo> ios) {
  std::vector<std::vector<const char*>> all;
  for (const SessionIo& io : ios) {
    auto& names = all.emplace_back();
    for (const std::string& name : io.dim_names) names.push_back(name.c_str());
  }
  return all;
}

Status write_io(std::span<const SessionIo> ios, const std::vector<std::vector<const char*>>& names,
                uint64_t index, bpa_io_info* out_info) {
  if (index >= ios.size()) {
    return bad_argument("index", "is " + std::to_string(index) + ", expected less than " +
                                     std::to_string(ios.size()));
  }
  const SessionIo& io = ios[index];
  bpa_io_info info{};
  info.name = io.name.c_str();
  info.dtype = io.dtype;
  info.rank = static_cast<uint32_t>(io.sizes.size());
  info.sizes = io.sizes.data();
  info.dim_names = names[index].data();
  info.has_rank = io.has_rank ? 1 : 0;
  info.has_default = io.has_default ? 1 : 0;
  info.min_sizes = io.min_sizes.data();
  info.max_sizes = io.max_sizes.data();
  return write_struct(out_info, info, "out_info");
}

uint32_t placement_of(RouteKind kind) {
  switch (kind) {
    case RouteKind::kNative:
      return BPA_PLACEMENT_NATIVE;
    case RouteKind::kDecomposed:
      return BPA_PLACEMENT_DECOMPOSED;
    case RouteKind::kFallback:
      return BPA_PLACEMENT_FALLBACK;
    case RouteKind::kView:
      return BPA_PLACEMENT_VIEW;
    case RouteKind::kKnown:
      break;
  }
  return BPA_PLACEMENT_KNOWN;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Status write_node(Session& session, uint64_t index, bpa_node_info* out_info) {
  const std::optional<PlacementRow> row = session.placement(index);
  if (!row) {
    return bad_argument("index", "is " + std::to_string(index) + ", expected less than " +
                                     std::to_string(session.placement_count()));
  }
  // First, so that nothing is kept for a struct that is refused.
  BP_TRY(write_struct(out_info, bpa_node_info{}, "out_info"));
  bpa_node_info info{};
  info.name = session.keep_text(row->node);
  info.op = session.keep_text(row->op);
  info.device = to_handle(row->device);
  info.kernels = session.keep_text(joined(row->kernels));
  info.reason = session.keep_text(row->reason);
  info.placement = placement_of(row->kind);
  return write_struct(out_info, info, "out_info");
}

constexpr const char* kModelInMemory = "model in memory";

constexpr uint32_t kSessionBits = BPA_SESSION_DETERMINISTIC_BIT | BPA_SESSION_READ_WEIGHTS_BIT;

/// `read`: gives the graph, or an error that names the model.
Status make_session(Runtime& owner, const std::string& name,
                    const std::function<Result<Graph>(const FileAccess&)>& read,
                    const bpa_session_args* args, bpa_session** out_session) {
  BP_TRY(check_pointer(args, "args"));
  BP_TRY_ASSIGN(const bpa_session_args given, read_struct(args, "args", kSessionBits));
  BP_TRY(owner.check_open());
  BP_TRY_ASSIGN(SessionArgs session_args, bp::session_args(given, owner));
  session_args.budget = std::make_shared<MemoryBudget>(session_args.memory_limit_bytes);
  const bool reads = (given.flags & BPA_SESSION_READ_WEIGHTS_BIT) != 0;
  BP_TRY_ASSIGN(Graph graph, read(reads ? read_within(session_args.budget) : FileAccess()));
  auto session = Session::create(owner, std::move(graph), session_args);
  if (!session.ok()) return session.status().with_prefix(name);
  auto object = Ref<ApiSession>::make();
  object->session = std::move(*session);
  object->input_dim_names = dim_names(object->session->inputs());
  object->output_dim_names = dim_names(object->session->outputs());
  BP_TRY(make_api_handle(object.get(), out_session));
  object.detach();
  return {};
}

/// `lent`: keeps the bytes where they are not to be copied.
Result<Graph> read_model(const void* data, uint64_t bytes, bool copied,
                         const std::shared_ptr<Deleter>& lent, const Runtime& owner) {
  const std::span model(static_cast<const std::byte*>(data), bytes);
  if (!copied) return import_onnx(model, lent, kModelInMemory, owner.registry());
  const auto copy = std::make_shared<const std::vector<std::byte>>(model.begin(), model.end());
  return import_onnx(*copy, copy, kModelInMemory, owner.registry());
}

}  // namespace
}  // namespace bp

using bp::ApiSession;
using bp::bad_argument;
using bp::check_pointer;
using bp::guarded;
using bp::object_of;
using bp::Status;

bpa_status bpa_session_load(bpa_runtime* runtime, const char* path, const bpa_session_args* args,
                            bpa_session** out_session) {
  return guarded(out_session, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_session, "out_session"));
    BP_TRY_ASSIGN(bp::Runtime * owner, object_of(runtime, "runtime"));
    BP_TRY(bp::check_text(path, "path"));
    const auto read = [&](const bp::FileAccess& access) {
      return bp::load_onnx(path, owner->registry(), access);
    };
    return bp::make_session(*owner, path, read, args, out_session);
  });
}

bpa_status bpa_session_create(bpa_runtime* runtime, const void* data, uint64_t bytes,
                              bpa_deleter deleter, void* user, const bpa_session_args* args,
                              bpa_session** out_session) {
  return guarded(out_session, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_session, "out_session"));
    BP_TRY_ASSIGN(bp::Runtime * owner, object_of(runtime, "runtime"));
    BP_TRY(check_pointer(data, "data"));
    if (bytes == 0 || bytes > bp::kMaxOnnxBytes) {
      return bad_argument("bytes", "is " + std::to_string(bytes) + ", expected 1 to " +
                                       std::to_string(bp::kMaxOnnxBytes));
    }
    const auto lent = std::make_shared<bp::Deleter>();
    const auto read = [&](const bp::FileAccess&) {
      return bp::read_model(data, bytes, deleter == nullptr, lent, *owner);
    };
    BP_TRY(bp::make_session(*owner, bp::kModelInMemory, read, args, out_session));
    lent->arm(deleter, user);  // last: on an error the memory stays the caller's
    return {};
  });
}

void bpa_session_release(bpa_session* session) { bp::release(session, "bpa_session_release"); }

bpa_status bpa_session_input_count(bpa_session* session, uint64_t* out_count) {
  return guarded(out_count, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    BP_TRY(check_pointer(out_count, "out_count"));
    *out_count = found->session->inputs().size();
    return {};
  });
}

bpa_status bpa_session_output_count(bpa_session* session, uint64_t* out_count) {
  return guarded(out_count, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    BP_TRY(check_pointer(out_count, "out_count"));
    *out_count = found->session->outputs().size();
    return {};
  });
}

bpa_status bpa_session_get_input(bpa_session* session, uint64_t index, bpa_io_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    return bp::write_io(found->session->inputs(), found->input_dim_names, index, out_info);
  });
}

bpa_status bpa_session_get_output(bpa_session* session, uint64_t index, bpa_io_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    return bp::write_io(found->session->outputs(), found->output_dim_names, index, out_info);
  });
}

bpa_status bpa_session_get_placement(bpa_session* session, bpa_placement_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    const bp::PlacementCounts counts = found->session->placement_counts();
    bpa_placement_info info{};
    info.native_count = counts.native;
    info.decomposed_count = counts.decomposed;
    info.fallback_count = counts.fallback;
    info.view_count = counts.view;
    info.known_count = counts.known;
    const bp::MemoryPlan memory = found->session->memory_plan();
    info.arena_bytes = memory.arena_bytes;
    info.live_bytes_peak = memory.live_bytes_peak;
    info.memory_used_bytes = found->session->memory_used_bytes();
    return bp::write_struct(out_info, info, "out_info");
  });
}

bpa_status bpa_session_node_count(bpa_session* session, uint64_t* out_count) {
  return guarded(out_count, 1, [&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    BP_TRY(check_pointer(out_count, "out_count"));
    *out_count = found->session->placement_count();
    return {};
  });
}

bpa_status bpa_session_get_node(bpa_session* session, uint64_t index, bpa_node_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(const ApiSession* found, object_of(session, "session"));
    return bp::write_node(*found->session, index, out_info);
  });
}
