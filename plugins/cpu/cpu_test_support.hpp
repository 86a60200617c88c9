// SPDX-License-Identifier: Apache-2.0
//
// The built plugin, driven through its tables as a core would (tests/raw_abi.hpp), with strided
// tensors whose elements are read and written as f64. It shares no code with the plugin, so that a
// mistake there cannot hide here.
#ifndef BACKPLANE_PLUGINS_CPU_CPU_TEST_SUPPORT_HPP
#define BACKPLANE_PLUGINS_CPU_CPU_TEST_SUPPORT_HPP

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/raw_abi.hpp"

namespace bp::cpu_test {

using Sizes = std::vector<int64_t>;
using Values = std::vector<double>;

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int64_t element_count(const Sizes& sizes);
uint64_t bytes_of(uint32_t dtype);

/// One element as f64. Exact for what f64 holds; encoding rounds to nearest even and is meant for
/// values in range.
double decode(uint32_t dtype, const void* element);
void encode(uint32_t dtype, double value, void* out_element);

/// A view of shared memory.
struct Tensor {
  uint32_t dtype = BP_DTYPE_NONE;  // an absent argument
  Sizes sizes;
  Sizes strides;
  int64_t offset = 0;  // elements
  std::shared_ptr<std::vector<std::byte>> storage = nullptr;

  double at(const Sizes& index) const;
  double at_flat(int64_t index) const;  // row-major
  Values values() const;                // row-major
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(storage->data()) + offset;
  }

  Tensor permuted(const std::vector<size_t>& order) const;
  Tensor flipped(size_t dimension) const;
  Tensor stepped(size_t dimension, int64_t step) const;
  /// Size 1 dimensions repeat with stride 0.
  Tensor expanded(const Sizes& to) const;
};

Tensor make_tensor(uint32_t dtype, const Sizes& sizes, const Values& values);
/// Filled with bytes that are NaN in every float type.
Tensor make_output(uint32_t dtype, const Sizes& sizes);
/// Reproducible values in [low, high); whole numbers for integer dtypes.
Tensor make_random(uint32_t dtype, const Sizes& sizes, uint32_t seed, double low = -2.0,
                   double high = 2.0);

/// In f32, [N, C, ...] that lies in memory as [N, ..., C].
Tensor channels_last(const Tensor& x);

/// The plugin's tables.
const bp_plugin& plugin();

struct Instance : tests::RawInstance {
  explicit Instance(const tests::OptionList& options = {}) : RawInstance(plugin(), options) {}
};

struct Device : tests::RawDevice {
  /// threads: the option's value; nullptr leaves it out.
  explicit Device(const char* threads = nullptr);
  const bp_kernel* kernel(const std::string& name) const;
};

/// What happened to one operator call.
struct Outcome {
  bp_status status = BP_INTERNAL;
  std::string kernel;                           // the one that ran
  std::map<std::string, std::string> refusals;  // reason by kernel
  bp_fault_word fault{};
  uint32_t plan_flags = 0;
  uint64_t workspace_bytes = 0;
  std::vector<int64_t> extents = std::vector<int64_t>(BP_MAX_RANK, -1);
  Tensor output;  // the call's, in the order that the plan chose
};

struct Call {
  std::string op;
  std::vector<Tensor> inputs;
  Tensor output;
  const void* attributes = nullptr;  // a bp_attrs struct
  std::string only_kernel = {};      // "": by priority, as the core chooses
  uint64_t constant_inputs = 0;      // bit i: input i is shown as constant, and packed if asked for
  bool any_order = false;            // the plan may choose the order of the output
};

/// Chooses, plans, makes a state, launches once and frees everything. The workspace has exactly the
/// size asked for and is checked for writes beyond it.
Outcome run(Device& device, const Call& call);

/// A planned kernel that can be launched many times; for tests of threads and memory.
class Planned {
 public:
  Planned(Device& device, const bp_kernel* kernel, const Call& call);
  ~Planned();
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;

  bp_status plan_status() const { return plan_status_; }
  const bp_plan_info& info() const { return info_; }
  bp_kernel_plan* plan() const { return plan_; }
  /// The call with its constants as the plan takes them, and its output as it lays it.
  Call packed(const Call& call) const;
  /// May be called from several threads, each with a state of its own.
  bp_kernel_state* make_state() const;
  void free_state(bp_kernel_state* state) const;
  bp_status launch(const Call& call, bp_kernel_state* state, std::byte* workspace,
                   Outcome* outcome) const;

 private:
  Device& device_;
  const bp_kernel* kernel_;
  bp_plan_info info_{};
  bp_kernel_plan* plan_ = nullptr;
  bp_status plan_status_ = BP_OK;
};

/// Calls body for every index of a tensor of these sizes, row-major.
void for_each_index(const Sizes& sizes, const std::function<void(const Sizes&)>& body);

/// Broadcast reading: `index` is of the output, aligned at the right.
double broadcast_at(const Tensor& tensor, const Sizes& index);

}  // namespace bp::cpu_test

#endif
