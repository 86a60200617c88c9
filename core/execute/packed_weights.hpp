// SPDX-License-Identifier: Apache-2.0
//
// Packed weights of a device, for all sessions: who wants the same form of the same values gets the
// memory that is there. It ends with its last user.
#ifndef BACKPLANE_CORE_EXECUTE_PACKED_WEIGHTS_HPP
#define BACKPLANE_CORE_EXECUTE_PACKED_WEIGHTS_HPP

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/status.hpp"
#include "core/op/host_tensor.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

class PackedWeights : public DeviceExtension {
 public:
  static PackedWeights& of(Device& device);

  /// Makes the memory and fills it.
  using Pack = std::function<Result<Ref<Tensor>>()>;
  /// The packed form `form` of these values: what another session has, as long as the values from
  /// which that was made are still there to be compared, or what `pack` makes. The tensor is the
  /// caller's own, over memory that is shared; it keeps `owner` too. Any thread; one packs at a
  /// time. Errors: those of `pack`; TIMEOUT at the Runtime's deadline, while another one packs.
  Result<Ref<Tensor>> get(const std::string& form, const std::shared_ptr<const HostTensor>& values,
                          Stream& stream, std::shared_ptr<const void> owner, const Pack& pack);

 private:
  struct Entry {
    uint64_t hash = 0;  // of the values when they were packed: a file may have changed since
    std::vector<std::weak_ptr<const HostTensor>> sources;
    std::weak_ptr<const Ref<Tensor>> memory;
  };

  std::shared_ptr<const Ref<Tensor>> find(const std::string& form, uint64_t hash,
                                          const std::shared_ptr<const HostTensor>& values);
  void drop_ended();

  std::timed_mutex mutex_;
  std::unordered_map<std::string, std::vector<Entry>> entries_;  // by form
};

}  // namespace bp

#endif
