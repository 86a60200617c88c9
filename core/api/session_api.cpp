// SPDX-License-Identifier: Apache-2.0
//
// Sessions of the C API.
#include <memory>

#include "core/api/handles.hpp"
#include "ops/onnx/import.hpp"

namespace bp {
namespace {

Result<SessionArgs> session_args(const bpa_session_args& given) {
  BP_TRY(check_pointer(given.device, "args.device"));
  SessionArgs args;
  args.device = from_handle(given.device);
  if (given.max_contexts != 0) args.max_contexts = given.max_contexts;
  if (given.dim_count > 0) {
    BP_TRY(check_pointer(given.dim_names, "args.dim_names"));
    BP_TRY(check_pointer(given.dim_sizes, "args.dim_sizes"));
  }
  for (uint64_t i = 0; i < given.dim_count; ++i) {
    BP_TRY(check_pointer(given.dim_names[i], "args.dim_names[" + std::to_string(i) + "]"));
    args.dims[given.dim_names[i]] = given.dim_sizes[i];
  }
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
    return Status(BP_INVALID_ARGUMENT, "argument index is " + std::to_string(index) +
                                           ", expected less than " + std::to_string(ios.size()));
  }
  const SessionIo& io = ios[index];
  bpa_io_info info{};
  info.name = io.name.c_str();
  info.dtype = io.dtype;
  info.rank = static_cast<uint32_t>(io.sizes.size());
  info.sizes = io.sizes.data();
  info.dim_names = names[index].data();
  return write_struct(out_info, info, "out_info");
}

Result<std::vector<NamedTensor>> named_inputs(const char* const* names,
                                              const bpa_tensor* const* tensors, uint64_t count) {
  if (count > 0) {
    BP_TRY(check_pointer(names, "input_names"));
    BP_TRY(check_pointer(tensors, "inputs"));
  }
  std::vector<NamedTensor> inputs;
  for (uint64_t i = 0; i < count; ++i) {
    BP_TRY(check_pointer(names[i], "input_names[" + std::to_string(i) + "]"));
    BP_TRY(check_pointer(tensors[i], "inputs[" + std::to_string(i) + "]"));
    inputs.emplace_back(names[i], Ref<Tensor>(from_handle(const_cast<bpa_tensor*>(tensors[i]))));
  }
  return inputs;
}

}  // namespace
}  // namespace bp

using bp::check_pointer;
using bp::guarded;
using bp::Status;

bpa_status bpa_session_load(bpa_runtime* runtime, const char* path, const bpa_session_args* args,
                            bpa_session** out_session) {
  return guarded(out_session, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_session, "out_session"));
    BP_TRY(check_pointer(runtime, "runtime"));
    BP_TRY(check_pointer(path, "path"));
    BP_TRY(check_pointer(args, "args"));
    BP_TRY(bp::from_handle(runtime)->check_open());
    BP_TRY_ASSIGN(const bpa_session_args given, bp::read_struct(args, "args"));
    BP_TRY_ASSIGN(const bp::SessionArgs session_args, bp::session_args(given));
    bp::Runtime& owner = *bp::from_handle(runtime);
    BP_TRY_ASSIGN(bp::Graph graph, bp::load_onnx(path, owner.registry()));
    auto session = bp::Session::create(owner, std::move(graph), session_args);
    if (!session.ok()) return session.status().with_prefix(path);
    auto handle = std::make_unique<bpa_session>();
    handle->session = std::move(*session);
    handle->input_dim_names = bp::dim_names(handle->session->inputs());
    handle->output_dim_names = bp::dim_names(handle->session->outputs());
    *out_session = handle.release();
    return {};
  });
}

void bpa_session_release(bpa_session* session) { delete session; }

bpa_status bpa_session_input_count(bpa_session* session, uint64_t* out_count) {
  return guarded(out_count, 1, [&]() -> Status {
    BP_TRY(check_pointer(session, "session"));
    BP_TRY(check_pointer(out_count, "out_count"));
    *out_count = session->session->inputs().size();
    return {};
  });
}

bpa_status bpa_session_output_count(bpa_session* session, uint64_t* out_count) {
  return guarded(out_count, 1, [&]() -> Status {
    BP_TRY(check_pointer(session, "session"));
    BP_TRY(check_pointer(out_count, "out_count"));
    *out_count = session->session->outputs().size();
    return {};
  });
}

bpa_status bpa_session_get_input(bpa_session* session, uint64_t index, bpa_io_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY(check_pointer(session, "session"));
    return bp::write_io(session->session->inputs(), session->input_dim_names, index, out_info);
  });
}

bpa_status bpa_session_get_output(bpa_session* session, uint64_t index, bpa_io_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY(check_pointer(session, "session"));
    return bp::write_io(session->session->outputs(), session->output_dim_names, index, out_info);
  });
}

bpa_status bpa_session_run(bpa_session* session, const char* const* input_names,
                           const bpa_tensor* const* inputs, uint64_t input_count,
                           bpa_tensor** out_outputs, uint64_t output_count) {
  return guarded(out_outputs, output_count, [&]() -> Status {
    BP_TRY(check_pointer(session, "session"));
    BP_TRY(check_pointer(out_outputs, "out_outputs"));
    const size_t expected = session->session->outputs().size();
    if (output_count != expected) {
      return Status(BP_INVALID_ARGUMENT, "argument output_count is " +
                                             std::to_string(output_count) + ", expected " +
                                             std::to_string(expected));
    }
    BP_TRY_ASSIGN(const std::vector<bp::NamedTensor> named,
                  bp::named_inputs(input_names, inputs, input_count));
    BP_TRY_ASSIGN(std::vector<bp::Ref<bp::Tensor>> outputs, session->session->run(named));
    for (size_t i = 0; i < outputs.size(); ++i) {
      out_outputs[i] = bp::to_handle(std::move(outputs[i]));
    }
    return {};
  });
}

bpa_status bpa_session_get_placement(bpa_session* session, bpa_placement_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY(check_pointer(session, "session"));
    const bp::PlacementCounts counts = session->session->placement_counts();
    bpa_placement_info info{};
    info.native_count = counts.native;
    info.decomposed_count = counts.decomposed;
    info.fallback_count = counts.fallback;
    info.view_count = counts.view;
    return bp::write_struct(out_info, info, "out_info");
  });
}
