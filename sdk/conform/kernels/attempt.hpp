// SPDX-License-Identifier: Apache-2.0
//
// One call on one kernel: its arguments in device memory, a launch, and the oracle's word on what
// came out.
#ifndef BACKPLANE_SDK_CONFORM_KERNELS_ATTEMPT_HPP
#define BACKPLANE_SDK_CONFORM_KERNELS_ATTEMPT_HPP

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/conform/kernels/call.hpp"
#include "sdk/conform/kernels/operand.hpp"
#include "sdk/conform/kernels/planned.hpp"

namespace bp::conform {

using Layouts = std::vector<Layout>;

/// A call on one kernel.
class Attempt {
 public:
  /// `asked`: the layout of each input, if its rule takes that. `outputs`: of each output, if its
  /// sizes and its dtype can have that; empty: as the plan has them.
  Attempt(Context& context, const KernelRecord& record, const Call& call, const Layouts& asked,
          Border border, const Layouts& outputs = {})
      : context_(context),
        record_(record),
        call_(call),
        asked_(asked),
        asked_outputs_(outputs),
        border_(border) {
    choose_layouts();
    choose_output_layouts();
  }

  /// Whether any input lies as it was asked for.
  bool lies_so() const { return lies_so_; }
  /// Whether any output does.
  bool writes_so() const { return writes_so_; }
  const std::vector<Dims>& strides() const { return strides_; }
  /// Empty: the kernel ran.
  std::string run(const Expectation& expectation, bool any_order);
  /// Its two halves: memory, and a launch with what comes out of it.
  void place(const Planned& planned);
  void launch(Planned* planned, const Expectation& expectation);
  /// Between the two: output 0 is to be in the memory of an input, which has its form.
  void put_output_in(size_t input);
  /// Between the two: an input is given as it was packed into that memory.
  void give_packed(size_t input, bp_mem packed, uint64_t bytes);
  /// After launch(): the same launch on other values of the same sizes, which are brought into the
  /// memory that is there. Host arguments stay.
  void launch_on(const Call& other, Planned* planned, const Expectation& expectation);
  /// After place(): as a launch gets it.
  const bp_tensor& tensor(size_t argument) const { return tensors_[argument]; }
  /// After launch(): the bytes of all outputs.
  const Bytes& found() const { return found_; }
  bool repeats() const;
  /// The call with the values that stride 0 shows.
  Call repeated_call() const;

 private:
  void choose_layouts();
  void choose_output_layouts();
  bool is_input_on_host(size_t i) const { return wants_on_host(arg_rule(record_, i)); }
  bp_tensor host_tensor(size_t i);
  std::string words_of(std::string_view argument, size_t index) const;
  void check(const Planned& planned, const Expectation& expectation);
  void check_inputs();
  void check_outputs(const Planned& planned, const Expectation& expectation);
  void check_fault(const Planned& planned);

  Context& context_;
  const KernelRecord& record_;
  const Call& call_;
  const Layouts asked_;
  const Layouts asked_outputs_;
  const Border border_;
  bool lies_so_ = false;
  std::vector<Layout> layouts_;
  std::vector<Dims> strides_;
  bool writes_so_ = false;
  std::vector<Layout> output_layouts_;
  std::vector<Dims> output_strides_;  // none: as the plan has them
  std::deque<std::optional<Operand>> inputs_;
  std::deque<std::optional<HostBlock>> host_inputs_;
  std::deque<Operand> outputs_;
  std::vector<bp_tensor> tensors_;
  std::optional<size_t> overwritten_;  // the input that output 0 is in
  Bytes found_;
};

}  // namespace bp::conform

#endif
