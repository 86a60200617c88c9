// SPDX-License-Identifier: Apache-2.0
//
// Data faults: which launch gets which fault word, reading the words at waits, and keeping what was
// found until somebody who is concerned asks.
#include <algorithm>
#include <utility>

#include "core/base/log.hpp"
#include "core/runtime/copy_args.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

bp_mem Stream::fault_place(size_t word) const {
  return {fault_words_.handle, fault_words_.offset_bytes + word * sizeof(bp_fault_word)};
}

Status Stream::make_fault_words() {
  constexpr uint64_t kBytes = kFaultWords * sizeof(bp_fault_word);
  // Never freed: it goes back with the allocator, as the stream lives as long as its device. So all
  // streams' lie in one pool, if it has room: in each stream's own they would keep a segment each.
  Allocator& allocator = device_.allocator();
  auto made_block = allocator.allocate(kBytes, MemoryTag::kWorkspace, allocator.pool(&device_));
  if (!made_block.ok()) made_block = allocator.allocate(kBytes, MemoryTag::kWorkspace, pool_);
  BP_TRY_ASSIGN(Block * block, std::move(made_block));
  void* copies = nullptr;
  if (!is_inline() && !is_wrapped()) {
    // Without it the words are read one wait later.
    const Status made = contain([&] { return device_.allocate_host_memory(kBytes, &copies); });
    device_.warn_of_detour(made, Slot::kHostAlloc);
  }
  bool is_used = false;
  const Status status = contain([&]() -> Status {
    TimedLock lock;
    BP_TRY(hold(lock));
    if (fault_words_.handle != 0) return {};  // another thread was faster
    BP_TRY(check_healthy());
    const bp_mem words{block->handle, block->offset_bytes};
    BP_TRY(device_.fill_zero(*this, words, kBytes));
    fault_words_ = words;
    fault_copies_ = static_cast<bp_fault_word*>(copies);
    has_fault_words_.store(true, std::memory_order_release);
    is_used = true;
    return {};
  });
  if (is_used) return status;
  allocator.free(block);
  device_.free_host_memory(copies);
  return status;
}

void Stream::release_host_memory() {
  device_.free_host_memory(std::exchange(fault_copies_, nullptr));
}

bp_mem Stream::fault_word(uint64_t seq) {
  const size_t word = (fault_first_ + fault_count_) % kFaultWords;
  fault_seqs_[word] = seq;
  ++fault_count_;
  return fault_place(word);
}

/// Under mutex_, before a wait: of the words that have no copy in the queue yet.
bp_status Stream::copy_fault_words() {
  if (fault_copies_ == nullptr || fault_copy_count_ == fault_count_ || !first_failure_.ok()) {
    return BP_OK;
  }
  const size_t first = (fault_first_ + fault_copy_count_) % kFaultWords;
  const size_t count = fault_count_ - fault_copy_count_;
  const size_t to_end = std::min(count, kFaultWords - first);
  const bp_status code = copy_fault_words(first, to_end);
  return code == BP_OK && to_end < count ? copy_fault_words(0, count - to_end) : code;
}

bp_status Stream::copy_fault_words(size_t first, size_t count) {
  const uint64_t seq = next_seq();
  const bp_status code = device_.table().mem_copy_async(
      handle(), copy_args(BP_COPY_DEVICE_TO_HOST, host_end(fault_copies_ + first),
                          fault_place(first), count * sizeof(bp_fault_word)));
  if (code != BP_OK) return code;
  std::fill_n(fault_copy_seqs_.begin() + static_cast<ptrdiff_t>(first), count, seq);
  fault_copy_count_ += count;
  return BP_OK;
}

Status Stream::collect_faults(uint64_t issued) {
  TimedLock collecting(collect_mutex_, std::defer_lock);
  if (!lock_within(collecting, device_.wait_timeout())) {
    return timed_out("another thread's wait has not ended");
  }
  TimedLock lock;
  BP_TRY(hold(lock));
  std::array<uint64_t, kFaultWords> seqs{};
  std::array<bp_fault_word, kFaultWords> words{};
  size_t first = 0;
  size_t count = 0;
  size_t copied = 0;  // the first of them, which need not be read
  first = fault_first_;
  while (count < fault_count_ && fault_seqs_[(first + count) % kFaultWords] <= issued) {
    const size_t word = (first + count) % kFaultWords;
    seqs[count] = fault_seqs_[word];
    if (count < fault_copy_count_ && fault_copy_seqs_[word] <= issued) {
      words[count] = fault_copies_[word];
      copied = count + 1;
    }
    ++count;
  }
  lock.unlock();
  if (count == 0) return {};
  const size_t next = (first + copied) % kFaultWords;
  const size_t to_end = std::min(count - copied, kFaultWords - next);
  BP_TRY(read_fault_words(next, {words.data() + copied, to_end}));
  BP_TRY(read_fault_words(0, {words.data() + copied + to_end, count - copied - to_end}));
  for (size_t i = 0; i < count; ++i) {
    if (words[i].code == BP_FAULT_NONE) continue;
    // Cleared first: a word that could not be is read again at the next wait, and told then.
    BP_TRY(clear_fault_word((first + i) % kFaultWords));
    add_trouble({seqs[i], seqs[i], TroubleKind::kFault, describe(words[i], seqs[i])});
  }
  BP_TRY(hold(lock));
  fault_first_ = (first + count) % kFaultWords;
  fault_count_ -= count;
  fault_copy_count_ -= std::min(count, fault_copy_count_);
  return {};
}

bool Stream::try_note_done(uint64_t seq) {
  if (known_done(seq)) return true;
  const TimedLock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !first_failure_.ok()) return false;
  if (fault_count_ > 0 && fault_seqs_[fault_first_] <= seq) return false;
  uint64_t done = done_seq_.load(std::memory_order_relaxed);
  while (done < seq && !done_seq_.compare_exchange_weak(done, seq)) {
  }
  return true;
}

Status Stream::read_fault_words(size_t first, std::span<bp_fault_word> out_words) {
  if (out_words.empty()) return {};
  return device_.copy_now(copy_args(BP_COPY_DEVICE_TO_HOST, host_end(out_words.data()),
                                    fault_place(first), out_words.size_bytes()),
                          "of fault words");
}

Status Stream::clear_fault_word(size_t word) {
  const bp_fault_word zero{};
  BP_TRY(device_.copy_now(
      copy_args(BP_COPY_HOST_TO_DEVICE, fault_place(word), host_end(&zero), sizeof(zero)),
      "to a fault word"));
  TimedLock lock;
  BP_TRY(hold(lock));
  if (fault_copies_ != nullptr) fault_copies_[word] = zero;
  return {};
}

Status Stream::describe(const bp_fault_word& word, uint64_t seq) {
  const bool is_fault =
      word.extent >= 0 && (word.index >= word.extent || word.index < -word.extent);
  if (word.code != BP_FAULT_INDEX || !has_input(seq, word.input) || !is_fault) {
    return describe_unknown(word, seq);
  }
  const Culprit who = culprit(op_seq(seq));
  return Status(BP_INVALID_ARGUMENT,
                device_.name() + ": " + who.words + ": index " + std::to_string(word.index) +
                    " in input " + std::to_string(word.input) + " is out of range for extent " +
                    std::to_string(word.extent) + "; it was clamped")
      .with_op(who.op);
}

bool Stream::has_input(uint64_t seq, uint32_t input) {
  const auto recent = find_recent(op_seq(seq));
  if (!recent) return true;  // as far as is known
  const auto& inputs = device_.runtime().registry().schema(recent->op).inputs;
  return input < inputs.size() || (!inputs.empty() && inputs.back().variadic);
}

Status Stream::describe_unknown(const bp_fault_word& word, uint64_t seq) {
  const auto recent = find_recent(op_seq(seq));
  const bp_kernel* kernel = recent ? recent->kernel : nullptr;
  std::string what = "index " + std::to_string(word.index) + " of extent " +
                     std::to_string(word.extent) + ", which is no fault";
  if (word.code != BP_FAULT_INDEX) {
    what = "code " + std::to_string(word.code) + ", which is new to this core";
  } else if (!has_input(seq, word.input)) {
    what = "input " + std::to_string(word.input) + ", which it does not have";
  }
  const Culprit who = culprit(op_seq(seq));
  return Status(BP_INTERNAL, device_.table().gate->call_name(Slot::kLaunch, kernel) + " (" +
                                 who.words + ") wrote fault " + what + ": a defect of the plugin")
      .with_op(who.op);
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
        oldest->status.code(),
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
