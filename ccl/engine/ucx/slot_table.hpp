// SPDX-License-Identifier: Apache-2.0
//
// Values by tokens, of which none is ever good twice. Memory of values that were removed is used
// again.
#ifndef BACKPLANE_CCL_ENGINE_UCX_SLOT_TABLE_HPP
#define BACKPLANE_CCL_ENGINE_UCX_SLOT_TABLE_HPP

#include <cstdint>
#include <vector>

namespace bp_ucx {

template <class Value>
class SlotTable {
 public:
  /// Memory for one more value.
  void reserve_one() {
    if (!free_.empty()) return;
    free_.reserve(slots_.size() + 1);  // for when all are removed
    slots_.emplace_back();
    free_.push_back(slots_.size() - 1);
  }
  uint64_t add(const Value& value) {
    reserve_one();
    const size_t place = free_.back();
    free_.pop_back();
    Slot& slot = slots_[place];
    slot.value = value;
    slot.token = ++last_use_ << kPlaceBits | place;
    return slot.token;
  }
  /// nullptr: the token is not good. Else the value stays there until another one is added.
  Value* find(uint64_t token) {
    const uint64_t place = place_of(token);
    return place < slots_.size() && slots_[place].token == token ? &slots_[place].value : nullptr;
  }
  /// Of a token that is good.
  void remove(uint64_t token) {
    const uint64_t place = place_of(token);
    slots_[place].token = 0;
    free_.push_back(place);
  }
  template <class Visit>
  void for_each(Visit visit) {
    for (Slot& slot : slots_) {
      if (slot.token != 0) visit(slot.value);
    }
  }

 private:
  static constexpr int kPlaceBits = 24;
  static uint64_t place_of(uint64_t token) { return token & ((uint64_t{1} << kPlaceBits) - 1); }
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
