// SPDX-License-Identifier: Apache-2.0
//
// Data faults: which launch gets which fault word, reading the words at waits, and keeping what was
// found until somebody who is concerned asks.
#include <algorithm>

#include "core/base/log.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

bp_mem Stream::fault_place(size_t word) const {
  return {fault_words_.handle, fault_words_.offset_bytes + word * sizeof(bp_fault_word)};
}

Status Stream::make_fault_words() {
  constexpr uint64_t kBytes = kFaultWords * sizeof(bp_fault_word);
  // Never freed: it goes back with the allocator, as the stream lives as long as its device.
  BP_TRY_ASSIGN(Block * block, device_.allocator().allocate(kBytes, MemoryTag::kWorkspace, pool_));
  bool is_used = false;
  const Status status = contain([&]() -> Status {
    std::lock_guard lock(mutex_);
    if (fault_words_.handle != 0) return {};  // another thread was faster
    BP_TRY(check_healthy());
    const bp_mem words{block->handle, block->offset_bytes};
    BP_TRY(device_.fill_zero(*this, words, kBytes));
    fault_words_ = words;
    has_fault_words_.store(true, std::memory_order_release);
    is_used = true;
    return {};
  });
  if (!is_used) device_.allocator().free(block);
  return status;
}

bp_mem Stream::fault_word(uint64_t seq) {
  const size_t word = (fault_first_ + fault_count_) % kFaultWords;
  fault_seqs_[word] = seq;
  ++fault_count_;
  return fault_place(word);
}

Status Stream::collect_faults(uint64_t issued) {
  std::lock_guard collecting(collect_mutex_);
  std::array<uint64_t, kFaultWords> seqs{};
  size_t first = 0;
  size_t count = 0;
  {
    std::lock_guard lock(mutex_);
    first = fault_first_;
    while (count < fault_count_ && fault_seqs_[(first + count) % kFaultWords] <= issued) {
      seqs[count] = fault_seqs_[(first + count) % kFaultWords];
      ++count;
    }
  }
  if (count == 0) return {};
  std::array<bp_fault_word, kFaultWords> words{};
  const size_t to_end = std::min(count, kFaultWords - first);
  BP_TRY(read_fault_words(first, {words.data(), to_end}));
  BP_TRY(read_fault_words(0, {words.data() + to_end, count - to_end}));
  for (size_t i = 0; i < count; ++i) {
    if (words[i].code == BP_FAULT_NONE) continue;
    add_trouble({seqs[i], seqs[i], TroubleKind::kFault, describe(words[i], seqs[i])});
    BP_TRY(clear_fault_word((first + i) % kFaultWords));
  }
  std::lock_guard lock(mutex_);
  fault_first_ = (first + count) % kFaultWords;
  fault_count_ -= count;
  return {};
}

Status Stream::read_fault_words(size_t first, std::span<bp_fault_word> out_words) {
  if (out_words.empty()) return {};
  bp_copy_args args{};
  args.struct_size = sizeof(args);
  args.kind = BP_COPY_DEVICE_TO_HOST;
  args.dst.handle = reinterpret_cast<uint64_t>(out_words.data());
  args.src = fault_place(first);
  args.bytes = out_words.size_bytes();
  const DeviceTable& table = device_.table();
  const bp_status code = table.mem_copy(args);
  return code == BP_OK ? Status()
                       : device_.failure(code, Slot::kMemCopy, nullptr, "of fault words");
}

Status Stream::clear_fault_word(size_t word) {
  const bp_fault_word zero{};
  bp_copy_args args{};
  args.struct_size = sizeof(args);
  args.kind = BP_COPY_HOST_TO_DEVICE;
  args.src.handle = reinterpret_cast<uint64_t>(&zero);
  args.dst = fault_place(word);
  args.bytes = sizeof(zero);
  const DeviceTable& table = device_.table();
  const bp_status code = table.mem_copy(args);
  return code == BP_OK ? Status()
                       : device_.failure(code, Slot::kMemCopy, nullptr, "to a fault word");
}

Status Stream::describe(const bp_fault_word& word, uint64_t seq) {
  const std::string who = device_.name() + ": " + culprit(op_seq(seq));
  if (word.code != BP_FAULT_INDEX) {
    return Status(BP_INVALID_ARGUMENT, who + ": fault " + std::to_string(word.code) +
                                           " in the data of input " + std::to_string(word.input));
  }
  return Status(BP_INVALID_ARGUMENT, who + ": index " + std::to_string(word.index) + " in input " +
                                         std::to_string(word.input) +
                                         " is out of range for extent " +
                                         std::to_string(word.extent) + "; it was clamped");
}

void Stream::add_trouble(Trouble trouble) {
  std::lock_guard lock(trouble_mutex_);
  if (troubles_.size() >= kMaxTroubles) merge_oldest_faults();
  troubles_.push_back(std::move(trouble));
  has_troubles_.store(true, std::memory_order_release);
}

// Their words are dropped, but not what they say: a reader whom they may concern is still told.
void Stream::merge_oldest_faults() {
  const auto is_fault = [](const Trouble& trouble) {
    return trouble.kind != TroubleKind::kLostWork;
  };
  const auto oldest = std::find_if(troubles_.begin(), troubles_.end(), is_fault);
  if (oldest == troubles_.end()) return;
  const auto next = std::find_if(oldest + 1, troubles_.end(), is_fault);
  if (next == troubles_.end()) return;
  if (oldest->kind == TroubleKind::kFault) {
    oldest->kind = TroubleKind::kMergedFaults;
    oldest->status = Status(
        BP_INVALID_ARGUMENT,
        "one of more than " + std::to_string(kMaxTroubles) +
            " data faults that no reader was told of, the first: " + oldest->status.message());
    log(BP_LOG_WARNING, oldest->status.message());
  }
  oldest->first_seq = std::min(oldest->first_seq, next->first_seq);
  oldest->last_seq = std::max(oldest->last_seq, next->last_seq);
  troubles_.erase(next);
}

void Stream::add_unseen_faults(const FaultMarks& marks) {
  std::lock_guard lock(unseen_mutex_);
  unseen_faults_.add(marks);
}

FaultMarks Stream::unseen_faults() {
  std::lock_guard lock(unseen_mutex_);
  return unseen_faults_;
}

Status Stream::check_lost(uint64_t seq) {
  if (!has_troubles_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(trouble_mutex_);
  for (const Trouble& trouble : troubles_) {
    if (trouble.kind == TroubleKind::kLostWork && trouble.first_seq <= seq &&
        seq <= trouble.last_seq) {
      return trouble.status;
    }
  }
  return {};
}

bool Stream::has_fault(uint64_t first_seq, uint64_t last_seq) {
  if (!has_troubles_.load(std::memory_order_acquire)) return false;
  std::lock_guard lock(trouble_mutex_);
  return std::any_of(troubles_.begin(), troubles_.end(), [&](const Trouble& trouble) {
    return trouble.is_fault_in(first_seq, last_seq);
  });
}

Status Stream::claim_fault(uint64_t first_seq, uint64_t last_seq) {
  if (!has_troubles_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(trouble_mutex_);
  const auto found = std::find_if(troubles_.begin(), troubles_.end(), [&](const Trouble& trouble) {
    return trouble.is_fault_in(first_seq, last_seq);
  });
  if (found == troubles_.end()) return {};
  Status status = found->status;
  // Only who asks about all of a merged fault's launches can end it.
  const bool is_told = found->kind == TroubleKind::kFault ||
                       (first_seq <= found->first_seq && found->last_seq <= last_seq);
  if (is_told) troubles_.erase(found);
  return status;
}

}  // namespace bp
