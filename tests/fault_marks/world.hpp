// SPDX-License-Identifier: Apache-2.0
//
// What the cells of the table are made of: one Runtime with a device under test and a second
// device, calls and runs on them, and the faulty lookup itself.
#ifndef BACKPLANE_TESTS_FAULT_MARKS_WORLD_HPP
#define BACKPLANE_TESTS_FAULT_MARKS_WORLD_HPP

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "core/dispatch/call.hpp"
#include "core/execute/session.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::marks {

/// A column of the table: a device and how it is set up.
struct Target {
  friend void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }
  std::string name;
  std::string device;
  std::vector<OptionSetting> plugin_options;
  std::string fallback;  // where sessions send what the device has no kernel for; "": the host
};
const std::vector<Target>& targets();

class World {
 public:
  /// `host_ops`: operators that are sent to the host device, besides sqrt. Errors: UNAVAILABLE
  /// where this machine has no such device.
  static Result<World> open(const Target& target, const std::string& host_ops);

  Runtime& runtime() { return *runtime_; }
  Device& device() { return *device_; }
  /// A queued one, not the device under test.
  Device& other() { return *other_; }
  /// A stream of the device that is nobody else's, the same at each call.
  Stream& user_stream() { return *user_stream_; }

  Ref<Tensor> upload(Device& device, const std::vector<float>& values);
  /// {1, 2, 2, 1}
  Ref<Tensor> x(Device& device) { return upload(device, {1, 2, 2, 1}); }
  /// {1, 99, 0, 2}: one of them is out of range for x.
  Ref<Tensor> indices(Device& device);

  Result<Ref<Tensor>> call(std::string_view op, std::vector<Ref<Tensor>> inputs,
                           Stream* stream = nullptr, const Attributes& attributes = {});
  /// Casts to i64.
  Attributes to_i64();

  struct Values {
    ValueId x;        // f32 [4]
    ValueId indices;  // i64 [4]
    ValueId healthy;  // f32 [4]
  };
  using Build = std::function<Result<std::vector<ValueId>>(Graph&, const Values&)>;
  /// Runs the graph that `build` makes out of x, indices and another x. `first` is what x is bound
  /// to, made anew if it is nullptr.
  Result<std::vector<Ref<Tensor>>> run(const Build& build, Ref<Tensor> first,
                                       const RunOptions& options = {});
  /// Sessions live until then, so that their work may go on while it is used.
  void end_sessions() { sessions_.clear(); }

 private:
  Ref<Runtime> runtime_;
  Device* device_ = nullptr;
  Device* other_ = nullptr;
  Stream* user_stream_ = nullptr;
  std::vector<Device*> fallbacks_;
  std::vector<Ref<Session>> sessions_;
};

/// OK, or the first failure of a read of all values.
Status read(const Ref<Tensor>& tensor);

}  // namespace bp::marks

#endif
