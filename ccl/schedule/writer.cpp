// SPDX-License-Identifier: Apache-2.0
//
// See writer.hpp.
#include "ccl/schedule/writer.hpp"

#include <utility>

namespace bp::ccl {
namespace {

bool continues(const Part& before, const Part& part) {
  return before.buffer == part.buffer && before.first + before.count == part.first;
}

}  // namespace

void Writer::copy(const Part& to, const Part& from) {
  assert(to.count == from.count);
  if (to.count == 0) return;
  if (!locals_.empty() && locals_.back().kind == StepKind::kCopy) {
    Step& before = locals_.back();
    if (continues(before.to, to) && continues(before.from, from)) {
      before.to.count += to.count;
      before.from.count += from.count;
      return;
    }
  }
  locals_.push_back({StepKind::kCopy, round_, 0, false, from, to});
}

void Writer::end_rounds(uint32_t count) {
  messages_.insert(messages_.end(), locals_.begin(), locals_.end());
  locals_.clear();
  round_ += count;
}

Schedule Writer::finish() {
  end_round();
  Schedule schedule;
  schedule.scratch_count = scratch_count_ + landing_count_;
  schedule.steps = std::move(messages_);
  return schedule;
}

void receive_sum(Writer* writer, uint32_t peer, const Values& values, const Block& elements,
                 First first) {
  const Part sum = values.sum_part(elements);
  if (values.is_same) {
    const Part landing = writer->landing(elements.count);
    writer->recv(peer, landing);
    writer->reduce(sum, landing, first == First::kReceived);
  } else {
    writer->recv(peer, sum);
    writer->reduce(sum, values.own_part(elements), first == First::kOwn);
  }
}

}  // namespace bp::ccl
