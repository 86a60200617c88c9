// SPDX-License-Identifier: Apache-2.0
//
// See batch.hpp.
#include "ccl/group/batch.hpp"

#include <algorithm>

namespace bp::ccl {

void Batch::let_begin(bp_status stream_status) {
  stream_status_.store(stream_status, std::memory_order_relaxed);
  may_begin_.store(true, std::memory_order_release);
}

void Batch::hold_stream(bp_status stream_status) {
  let_begin(stream_status);
  work_->messenger().kick();
  // Who drives the messenger keeps the deadline.
  std::unique_lock lock(gate_mutex_);
  gate_.wait(lock, [this] { return is_open_; });
}

void Batch::end_well() noexcept {
  has_ended_ = true;
  work_->end_well();
}

void Batch::end(const Failure& failure) noexcept {
  has_ended_ = true;
  // Whoever reads the results has to learn of the failure before the stream goes on.
  const Mark mark = work_->mark();
  if (mark.stream != nullptr) {
    [[maybe_unused]] const Status failed =
        contain([&] { mark.stream->fail(mark.seq, failure.to_stream_status()); });
  }
  work_->end(failure);
}

bool Batch::release_stream() noexcept {
  if (work_->mark().stream == nullptr) {  // nothing was held
    is_open_ = true;
    return true;
  }
  if (!std::all_of(items_.begin(), items_.end(),
                   [](HostItem& item) { return item.is_at_rest(); })) {
    return false;
  }
  {
    const std::lock_guard lock(gate_mutex_);
    is_open_ = true;
  }
  gate_.notify_all();
  return true;
}

}  // namespace bp::ccl
