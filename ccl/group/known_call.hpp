// SPDX-License-Identifier: Apache-2.0
//
// The latest call of the short way (group_direct.cpp) and what serves it: most programs make one
// call over and over, and to check a call takes longer than a short message.
#ifndef BACKPLANE_CCL_GROUP_KNOWN_CALL_HPP
#define BACKPLANE_CCL_GROUP_KNOWN_CALL_HPP

#include <memory>

#include "ccl/bridge/combiner.hpp"
#include "ccl/group/call.hpp"
#include "ccl/group/host_run_pool.hpp"

namespace bp::ccl {

/// Of one group, whose device has the host's memory. One thread at a time.
class KnownCall {
 public:
  struct Served {
    std::shared_ptr<HostRunPool> runs;
    Combiner* combiner = nullptr;  // as combiner_of() gives it
  };

  /// `checked`: what check_call() made of the call. Keeps none of its memory. Answers `served`,
  /// which stays until the next call of this.
  const Served* remember(const Call& call, const CheckedCall& checked, Served served);
  /// Gives what check_call() would. nullptr: the call is another one, which has to be checked.
  /// Everything that a check looks at is compared; where in memory the tensors lie may differ.
  const Served* recall(const Call& call, const Device& device, CheckedCall* out) const;

 private:
  /// Of a contiguous tensor.
  struct Shape {
    bool is_given = false;
    uint32_t dtype = 0;
    Dims sizes;
    Dims strides;
    bool is_of(const Ref<Tensor>& tensor, const Device& device) const;
  };
  static bool can_remember(const Call& call, const CheckedCall& checked);

  bool is_set_ = false;
  CheckedCall checked_;  // without tensors
  Shape send_;
  Shape recv_;
  Served served_;
};

}  // namespace bp::ccl

#endif
