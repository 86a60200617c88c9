// SPDX-License-Identifier: Apache-2.0
//
// Sessions of the C++ API: load, look, run, run later, run with a deadline. Included by
// backplane.hpp.
#ifndef BACKPLANE_API_SESSION_HPP
#define BACKPLANE_API_SESSION_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backplane/api/stream.hpp"
#include "backplane/api/tensor.hpp"

namespace bp {
inline namespace api {
namespace detail {

struct SessionDeleter {
  void operator()(bpa_session* session) const { bpa_session_release(session); }
};
struct CancelDeleter {
  void operator()(bpa_cancel* cancel) const { bpa_cancel_release(cancel); }
};

}  // namespace detail

using NamedTensors = std::map<std::string, Tensor>;

/// What a symbolic dimension may be, ends included.
struct DimRange {
  int64_t min = 0;
  int64_t max = INT64_MAX;  // INT64_MAX: no upper end
};

struct SessionOptions {
  std::string device{};                   // "npu:0"; or:
  std::vector<std::string> devices{};     // in order of preference, as bpa_session_args.devices
  std::map<std::string, int64_t> dims{};  // symbolic dimensions fixed for the session
  uint32_t max_contexts = 0;              // runs at once; 0: 8
  bool deterministic = false;             // bitwise equal reruns
  uint64_t memory_limit_bytes = 0;        // 0: no limit
  /// Symbolic dimensions that `dims` doesn't fix, as bpa_session_args.range_names.
  std::map<std::string, DimRange> dim_ranges{};
  bool read_weights = false;  // files are read, not mapped: BPA_SESSION_READ_WEIGHTS_BIT
};

/// Tells runs to stop. Copies are the same token.
class Cancel {
 public:
  /// No token.
  Cancel() = default;
  static Cancel create() {
    bpa_cancel* handle = nullptr;
    detail::check(bpa_cancel_create(&handle));
    Cancel cancel;
    cancel.handle_ = std::shared_ptr<bpa_cancel>(handle, detail::CancelDeleter());
    return cancel;
  }
  /// Every run with this token ends with CANCELLED, later ones too, until reset().
  void request() const { detail::check(bpa_cancel_request(handle_.get())); }
  /// For runs that begin after this there was no request; those that began before still end.
  void reset() const { detail::check(bpa_cancel_reset(handle_.get())); }
  bpa_cancel* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<bpa_cancel> handle_;
};

struct RunOptions {
  NamedTensors outputs{};               // written into, as bpa_run_args.bound_outputs
  std::chrono::nanoseconds timeout{0};  // 0: none
  Cancel cancel{};
  Stream stream{};  // the run takes its place in this stream's order
};

/// An input or output of a session.
struct Io {
  std::string name;
  uint32_t dtype = BP_DTYPE_NONE;
  bool has_rank = true;
  std::vector<int64_t> sizes;          // below 0: not known before the run
  std::vector<std::string> dim_names;  // "" or the name of the symbol
  bool has_default = false;            // an input that a run may leave out
  std::vector<int64_t> min_sizes;      // what sizes may be; where they are known: these
  std::vector<int64_t> max_sizes;      // INT64_MAX: anything
};

/// How a node of the model was placed, as bpa_node_info.
struct NodePlacement {
  std::string name;
  std::string op;       // the operator: "relu"
  Device device;        // whose kernels run it; without a handle: no kernel does
  std::string kernels;  // "matmul_tiled, add"
  std::string reason;   // why it is not native; "" if it is, or needs no kernel
  uint32_t placement = BPA_PLACEMENT_NATIVE;
};

/// A model made ready to run, from any number of threads at once.
class Session {
 public:
  static Session load(const Runtime& runtime, const std::string& path,
                      const SessionOptions& options) {
    const LoadArgs args(runtime, options);
    bpa_session* handle = nullptr;
    detail::check(bpa_session_load(runtime.handle(), path.c_str(), &args.args, &handle));
    return Session(handle);
  }
  /// From the bytes of an ONNX file, which are copied; or, with an owner, used where they lie as
  /// long as the owner is kept.
  static Session create(const Runtime& runtime, std::span<const std::byte> model,
                        const SessionOptions& options, std::shared_ptr<const void> owner = {}) {
    const LoadArgs args(runtime, options);
    using Owner = std::shared_ptr<const void>;
    auto kept = owner == nullptr ? nullptr : std::make_unique<Owner>(std::move(owner));
    const bpa_deleter deleter = [](void* user) { delete static_cast<Owner*>(user); };
    bpa_session* handle = nullptr;
    detail::check(bpa_session_create(runtime.handle(), model.data(), model.size(),
                                     kept == nullptr ? nullptr : deleter, kept.get(), &args.args,
                                     &handle));
    kept.release();
    return Session(handle);
  }

  bpa_session* handle() const { return handle_.get(); }
  std::vector<Io> inputs() const {
    return describe(bpa_session_input_count, bpa_session_get_input);
  }
  std::vector<Io> outputs() const {
    return describe(bpa_session_output_count, bpa_session_get_output);
  }
  /// Of those that a run must give.
  std::vector<std::string> input_names() const {
    std::vector<std::string> result;
    for (const Io& io : inputs()) {
      if (!io.has_default) result.push_back(io.name);
    }
    return result;
  }
  std::vector<std::string> output_names() const { return *output_names_; }

  /// Outputs by name. Inputs may be in host memory or on any device.
  NamedTensors run(const NamedTensors& inputs, const RunOptions& options = {}) const {
    const Args args(*this, inputs, options);
    std::vector<bpa_tensor*> handles(output_names_->size());
    detail::check(bpa_session_run_with(handle_.get(), &args.args, handles.data(), handles.size()));
    return name_outputs(*output_names_, handles.data());
  }

  /// Runs on a thread of the Runtime; the future has the outputs, or an Error.
  std::future<NamedTensors> run_async(const NamedTensors& inputs,
                                      const RunOptions& options = {}) const {
    auto promise = std::make_shared<std::promise<NamedTensors>>();
    run_async(inputs, options, [promise](std::exception_ptr error, NamedTensors outputs) {
      if (error) {
        promise->set_exception(error);
      } else {
        promise->set_value(std::move(outputs));
      }
    });
    return promise->get_future();
  }
  /// ... and calls `done` there, once, with an Error or the outputs. It must not throw.
  using RunDone = std::function<void(std::exception_ptr error, NamedTensors outputs)>;
  void run_async(const NamedTensors& inputs, const RunOptions& options, RunDone done) const {
    const Args args(*this, inputs, options);
    auto pending = std::make_unique<Pending>(Pending{output_names_, std::move(done)});
    detail::check(
        bpa_session_run_async(handle_.get(), &args.args, &Pending::finish, pending.get()));
    pending.release();
  }

  /// How the newest run's operators were placed, and the session's memory.
  bpa_placement_info placement() const {
    bpa_placement_info info{};
    info.struct_size = sizeof(info);
    detail::check(bpa_session_get_placement(handle_.get(), &info));
    return info;
  }
  uint64_t node_count() const {
    uint64_t count = 0;
    detail::check(bpa_session_node_count(handle_.get(), &count));
    return count;
  }
  NodePlacement node(uint64_t index) const {
    bpa_node_info info{};
    info.struct_size = sizeof(info);
    detail::check(bpa_session_get_node(handle_.get(), index, &info));
    return {info.name, info.op, Device(info.device), info.kernels, info.reason, info.placement};
  }
  /// All of them.
  std::vector<NodePlacement> nodes() const {
    std::vector<NodePlacement> all;
    while (all.size() < node_count()) all.push_back(node(all.size()));
    return all;
  }

 private:
  using OutputNames = std::shared_ptr<const std::vector<std::string>>;

  explicit Session(bpa_session* handle)
      : handle_(handle, detail::SessionDeleter()),
        output_names_(std::make_shared<const std::vector<std::string>>(names(outputs()))) {}

  static NamedTensors name_outputs(const std::vector<std::string>& names, bpa_tensor** handles) {
    NamedTensors outputs;
    for (size_t i = 0; i < names.size(); ++i) outputs.emplace(names[i], Tensor::adopt(handles[i]));
    return outputs;
  }

  /// What a session is made with: the C struct and the arrays that it points to.
  struct LoadArgs {
    LoadArgs(const Runtime& runtime, const SessionOptions& options) {
      for (const auto& [name, size] : options.dims) {
        names.push_back(name.c_str());
        sizes.push_back(size);
      }
      for (const auto& [name, range] : options.dim_ranges) {
        range_names.push_back(name.c_str());
        range_mins.push_back(range.min);
        range_maxes.push_back(range.max);
      }
      for (const std::string& name : options.devices) {
        devices.push_back(runtime.device(name).handle());
      }
      args.struct_size = sizeof(args);
      if (options.deterministic) args.flags |= BPA_SESSION_DETERMINISTIC_BIT;
      if (options.read_weights) args.flags |= BPA_SESSION_READ_WEIGHTS_BIT;
      if (!options.device.empty() || devices.empty()) {
        args.device = runtime.device(options.device).handle();
      }
      args.devices = devices.data();
      args.device_count = devices.size();
      args.dim_names = names.data();
      args.dim_sizes = sizes.data();
      args.dim_count = names.size();
      args.max_contexts = options.max_contexts;
      args.memory_limit_bytes = options.memory_limit_bytes;
      args.range_names = range_names.data();
      args.range_mins = range_mins.data();
      args.range_maxes = range_maxes.data();
      args.range_count = range_names.size();
    }
    std::vector<const char*> names;
    std::vector<int64_t> sizes;
    std::vector<const char*> range_names;
    std::vector<int64_t> range_mins;
    std::vector<int64_t> range_maxes;
    std::vector<bpa_device*> devices;
    bpa_session_args args{};
  };

  /// What a run is given, likewise.
  struct Args {
    Args(const Session& session, const NamedTensors& inputs, const RunOptions& options) {
      for (const auto& [name, tensor] : inputs) {
        names.push_back(name.c_str());
        tensors.push_back(tensor.handle());
      }
      args.struct_size = sizeof(args);
      args.input_names = names.data();
      args.inputs = tensors.data();
      args.input_count = tensors.size();
      if (options.timeout.count() < 0) {
        throw Error(BP_INVALID_ARGUMENT, "the timeout is negative");
      }
      args.timeout_ns = static_cast<uint64_t>(options.timeout.count());
      args.cancel = options.cancel.handle();
      args.stream = options.stream.handle();
      if (!options.outputs.empty()) bind(*session.output_names_, options.outputs);
    }
    void bind(const std::vector<std::string>& output_names, const NamedTensors& outputs) {
      for (const auto& [name, tensor] : outputs) {
        if (std::find(output_names.begin(), output_names.end(), name) == output_names.end()) {
          throw Error(BP_INVALID_ARGUMENT, "the model has no output '" + name + "' to bind");
        }
        if (tensor.handle() == nullptr) {
          throw Error(BP_INVALID_ARGUMENT, "an empty Tensor is bound to output '" + name + "'");
        }
      }
      for (const std::string& name : output_names) {
        const auto output = outputs.find(name);
        bound.push_back(output != outputs.end() ? output->second.handle() : nullptr);
      }
      args.bound_outputs = bound.data();
      args.bound_output_count = bound.size();
    }
    std::vector<const char*> names;
    std::vector<const bpa_tensor*> tensors;
    std::vector<bpa_tensor*> bound;
    bpa_run_args args{};
  };

  struct Pending {
    OutputNames output_names;
    RunDone done;

    static void finish(void* user, bpa_status status, const char* message, bpa_tensor** outputs,
                       uint64_t) {
      const std::unique_ptr<Pending> pending(static_cast<Pending*>(user));
      if (status != BP_OK) {
        pending->done(std::make_exception_ptr(Error(status, message, bpa_last_error_op())), {});
        return;
      }
      pending->done(nullptr, name_outputs(*pending->output_names, outputs));
    }
  };

  template <class Count, class Get>
  std::vector<Io> describe(Count get_count, Get get) const {
    uint64_t count = 0;
    detail::check(get_count(handle_.get(), &count));
    std::vector<Io> all;
    for (uint64_t i = 0; i < count; ++i) {
      bpa_io_info info{};
      info.struct_size = sizeof(info);
      detail::check(get(handle_.get(), i, &info));
      const auto each_dim = [&info](const int64_t* first) {
        return std::vector<int64_t>(first, first + info.rank);
      };
      all.push_back({info.name,
                     info.dtype,
                     info.has_rank != 0,
                     each_dim(info.sizes),
                     {info.dim_names, info.dim_names + info.rank},
                     info.has_default != 0,
                     each_dim(info.min_sizes),
                     each_dim(info.max_sizes)});
    }
    return all;
  }
  static std::vector<std::string> names(const std::vector<Io>& ios) {
    std::vector<std::string> result;
    for (const Io& io : ios) result.push_back(io.name);
    return result;
  }

  std::shared_ptr<bpa_session> handle_;
  OutputNames output_names_;
};

}  // namespace api
}  // namespace bp

#endif
