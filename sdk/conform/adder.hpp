// SPDX-License-Identifier: Apache-2.0
//
// The one kernel that level 1 launches, since every plugin here has it and it tells from where its
// inputs came: y = a + b of f32 vectors. Planned and launched as core/dispatch does.
#ifndef BACKPLANE_SDK_CONFORM_ADDER_HPP
#define BACKPLANE_SDK_CONFORM_ADDER_HPP

#include <vector>

#include "core/device/kernel_list.hpp"
#include "sdk/conform/context.hpp"

namespace bp::conform {

using Floats = std::vector<float>;

Bytes to_bytes(const Floats& values);
/// The device's kernel for add of f32; nullptr if it has none.
const KernelRecord* find_adder(const KernelList& kernels);

/// A planned add of `count` elements with a state of its own, which one stream at a time may use.
class Adder {
 public:
  Adder(Context& context, int64_t count);
  ~Adder();
  Adder(const Adder&) = delete;
  Adder& operator=(const Adder&) = delete;

  /// stream NULL: runs now. Element offsets into the three memories.
  bp_status launch(bp_stream* stream, const Memory& a, const Memory& b, const Memory& y,
                   uint64_t op_seq = 1, uint64_t offset_elements = 0);
  /// The same with tensors of the caller, who may break them: inputs a and b, output y.
  bp_status launch(bp_stream* stream, const bp_tensor* tensors, uint64_t op_seq);
  bp_tensor tensor(const Memory& memory, uint64_t offset_elements = 0) const;
  uint64_t bytes() const { return static_cast<uint64_t>(count_) * sizeof(float); }

 private:
  void make_plan();

  Context& context_;
  const KernelRecord& kernel_;
  const int64_t count_;
  const int64_t stride_ = 1;
  bp_plan_info info_{};
  bp_kernel_plan* plan_ = nullptr;
  bp_kernel_state* state_ = nullptr;
  uint64_t workspace_ = 0;
};

}  // namespace bp::conform

#endif
