// SPDX-License-Identifier: Apache-2.0
//
// Values by tokens, of which none is ever good twice. Memory of values that were taken out is used
// again.
#ifndef BACKPLANE_CCL_ENGINE_UCX_SLOT_TABLE_HPP
#define BACKPLANE_CCL_ENGINE_UCX_SLOT_TABLE_HPP

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace bp_ucx {

template <class Value>
class SlotTable {
 public:
  /// Memory for one more value.
  void reserve_one() {
    if (!free_.empty()) return;
    free_.reserve(slots_.size() + 1);  // for when all are taken out
    slots_.emplace_back();
    free_.push_back(slots_.size() - 1);
  }
  uint64_t add(Value value) {
    reserve_one();
    const size_t place = free_.back();
    free_.pop_back();
    Slot& slot = slots_[place];
    slot.value = std::move(value);
    slot.token = ++last_use_ << kPlaceBits | place;
    return slot.token;
  }
  /// nullopt: the token is not good.
  std::optional<Value> take(uint64_t token) {
    const uint64_t place = token & ((uint64_t{1} << kPlaceBits) - 1);
    if (place >= slots_.size() || slots_[place].token != token) return std::nullopt;
    slots_[place].token = 0;
    free_.push_back(place);
    return std::move(slots_[place].value);
  }
  template <class Visit>
  void for_each(Visit visit) {
    for (Slot& slot : slots_) {
      if (slot.token != 0) visit(slot.value);
    }
  }

 private:
  static constexpr int kPlaceBits = 24;
  struct Slot {
    Value value{};
    uint64_t token = 0;  // 0: free
  };
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  uint64_t last_use_ = 0;
};

}  // namespace bp_ucx

#endif
