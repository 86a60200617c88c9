// SPDX-License-Identifier: Apache-2.0
//
// See host_run.hpp.
#include "ccl/group/host_run.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/dtype.hpp"

namespace bp::ccl {
namespace {

/// An element of barrier, which has no dtype, is a byte.
uint64_t element_bytes(uint32_t dtype) {
  return dtype == BP_DTYPE_NONE ? 1 : dtype_bits(dtype) / 8;
}

bool is_message(const Step& step) {
  return step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
}

/// Of the round that has the most.
size_t most_messages(const Schedule& schedule) {
  const std::vector<Step>& steps = schedule.steps;
  size_t most = 0;
  size_t count = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i > 0 && steps[i].round != steps[i - 1].round) count = 0;
    if (is_message(steps[i])) most = std::max(most, ++count);
  }
  return most;
}

/// The most that any of the schedules has of something.
template <class Amount>
auto most_of(const HostRunArgs& args, Amount amount) {
  auto most = amount(*args.part.schedule);
  for (const auto& schedule : args.later_schedules) most = std::max(most, amount(*schedule));
  return most;
}

}  // namespace

HostRun::HostRun(const HostRunArgs& args)
    : args_(args),
      element_bytes_(element_bytes(args.operation.dtype)),
      is_of_two_(kind_info(args.operation.kind).is_of_two),
      header_(header_of(args.operation, args.group, args.sequence)),
      part_(args.part),
      scratch_(new std::byte[scratch_bytes()]),
      flights_(new InFlight[most_of(args, most_messages)]),
      sent_counts_(args.place.rank_count),
      received_counts_(args.place.rank_count) {}

Result<std::unique_ptr<HostRun>> HostRun::make(const HostRunArgs& args) {
  return contain([&]() -> Result<std::unique_ptr<HostRun>> {
    return std::unique_ptr<HostRun>(new HostRun(args));
  });
}

uint64_t HostRun::scratch_bytes() const {
  return most_of(args_, [](const Schedule& schedule) { return schedule.scratch_count; }) *
         element_bytes_;
}

void HostRun::begin(uint64_t sequence, HostBuffers buffers, Combiner* combiner) {
  args_.sequence = sequence;
  header_.sequence = sequence;
  args_.combiner = combiner;
  part_ = args_.part;
  part_.buffers = buffers;
  next_step_ = 0;
  is_done_ = false;
  std::fill(sent_counts_.begin(), sent_counts_.end(), 0);
  std::fill(received_counts_.begin(), received_counts_.end(), 0);
}

std::byte* HostRun::place_of(const Part& part) const {
  std::byte* base = nullptr;
  switch (part.buffer) {
    case Buffer::kSend:
      // A schedule writes there in place only, where the caller gave both as one.
      base = const_cast<std::byte*>(part_.buffers.send);
      break;
    case Buffer::kRecv:
      base = part_.buffers.recv;
      break;
    case Buffer::kScratch:
      base = scratch_.get();
      break;
  }
  return base + part.first * element_bytes_;
}

/// What a message between this rank and `peer` tells of. Of blocks that other ranks do not know the
/// two compare the one that goes between them.
Header HostRun::header_with(uint32_t peer, bool sends) const {
  Header header = header_;
  if (header.blocks == kOwnBlocks) {
    header.count = (sends ? args_.blocks->send : args_.blocks->all).count(peer);
  }
  return header;
}

Status HostRun::blame(uint32_t rank, bp_status code, const std::string& words) {
  culprit_ = rank;
  return Status(code, words);
}

void HostRun::begin_round(Wire& wire) {
  const std::vector<Step>& steps = part_.schedule->steps;
  round_begin_ = next_step_;
  const uint32_t round = steps[round_begin_].round;
  while (next_step_ < steps.size() && steps[next_step_].round == round) ++next_step_;
  is_in_round_ = true;
  for (size_t i = round_begin_; i < next_step_; ++i) {
    const Step& step = steps[i];
    if (!is_message(step)) continue;
    InFlight& flight = flights_[flight_count_++];
    flight.step = &step;
    flight.has_begun = false;
    flight.transfer.status.store(BP_PENDING, std::memory_order_relaxed);
    if (step.kind != StepKind::kSend) continue;
    Header header = header_with(step.peer, true);
    header.step = step_of(sent_counts_[step.peer]++, args_.track);
    header.bytes = bytes_of(step.from);
    flight.has_begun = true;
    wire.send(step.peer, header, place_of(step.from), &flight.transfer);
  }
}

Status HostRun::check_arrival(const Arrival& arrival, const Step& step, uint32_t message,
                              Wire& wire) {
  Header ours = header_with(step.peer, false);
  ours.step = step_of(message, args_.track);
  ours.bytes = bytes_of(step.to);
  if (std::memcmp(&ours, &arrival.header, sizeof(ours)) == 0) return {};
  return tell_difference(arrival, ours, step.peer, wire);
}

/// ok(): there is none that matters, as between the two ends of a pair.
Status HostRun::tell_difference(const Arrival& arrival, const Header& ours, uint32_t peer,
                                Wire& wire) {
  const Header& theirs = arrival.header;
  const auto tell = [&](const Header& header) {
    std::string words = describe(operation_of(header));
    if (header.blocks == kOwnBlocks) {
      words += " with " + std::to_string(header.count) + " elements from " + wire.rank_name(peer) +
               " to " + wire.rank_name(args_.place.rank);
    }
    return words + " as number " + std::to_string(header.sequence);
  };
  if (theirs.sequence != ours.sequence || !agree(operation_of(ours), operation_of(theirs))) {
    return blame(peer, BP_INVALID_ARGUMENT,
                 "the ranks disagree: " + wire.rank_name(args_.place.rank) + " has called " +
                     tell(ours) + ", " + wire.rank_name(peer) + " has called " + tell(theirs));
  }
  if (theirs.step != ours.step || theirs.bytes != ours.bytes) {
    return blame(peer, BP_INTERNAL,
                 wire.rank_name(peer) + " runs " + describe(args_.operation) +
                     " by another schedule: expected message " +
                     std::to_string(ours.step / kTracks) + " of " + std::to_string(ours.bytes) +
                     " bytes, found message " + std::to_string(theirs.step / kTracks) + " of " +
                     std::to_string(theirs.bytes));
  }
  return {};
}

Status HostRun::begin_receives(Wire& wire) {
  // Messages of one rank are taken in the schedule's order, for nothing comes meanwhile: where an
  // earlier recv finds none, a later one does neither.
  for (InFlight& flight : in_flight()) {
    if (flight.has_begun) continue;
    const Step& step = *flight.step;
    const Wire::Queue queue = queue_of(step.peer);
    const Arrival* const arrival = wire.front(queue);
    if (arrival == nullptr) continue;
    BP_TRY(check_arrival(*arrival, step, received_counts_[step.peer], wire));
    ++received_counts_[step.peer];
    flight.has_begun = true;
    wire.receive_front(queue, place_of(step.to), &flight.transfer);
  }
  return {};
}

Result<bool> HostRun::messages_are_over(Wire& wire) {
  BP_TRY(begin_receives(wire));
  bool are_over = true;
  for (const InFlight& flight : in_flight()) {
    const bp_status status = flight.transfer.status.load(std::memory_order_acquire);
    if (!flight.has_begun || status == BP_PENDING) {
      are_over = false;
    } else if (status != BP_OK) {
      const std::string name = wire.rank_name(flight.step->peer);
      return blame(flight.step->peer, status, name + " has left the group, or cannot be reached");
    }
  }
  return are_over;
}

Status HostRun::run_local(const Step& step) {
  if (step.kind == StepKind::kCopy) {
    std::memmove(place_of(step.to), place_of(step.from), bytes_of(step.to));
    return {};
  }
  return args_.combiner->combine(place_of(step.to), place_of(step.from), step.to.count,
                                 step.is_from_first);
}

Status HostRun::end_round() {
  for (size_t i = round_begin_; i < next_step_; ++i) {
    const Step& step = part_.schedule->steps[i];
    if (!is_message(step)) BP_TRY(run_local(step));
  }
  flight_count_ = 0;
  is_in_round_ = false;
  return {};
}

Status HostRun::finish() {
  if (args_.combiner == nullptr) return {};
  return args_.combiner->finish(part_.buffers.recv, part_.recv_count, args_.place.rank_count);
}

void HostRun::begin_part(const RunPart& part) {
  part_ = part;
  next_step_ = 0;
}

Result<bool> HostRun::advance(Wire& wire) {
  for (;;) {
    if (!is_in_round_) {
      if (next_step_ == part_.schedule->steps.size()) {
        BP_TRY(finish());
        is_done_ = true;
        return true;
      }
      begin_round(wire);
    }
    BP_TRY_ASSIGN(const bool are_over, messages_are_over(wire));
    if (!are_over) return false;
    BP_TRY(end_round());
  }
}

void HostRun::cancel(Wire& wire) {
  for (InFlight& flight : in_flight()) {
    if (flight.has_begun && !flight.transfer.is_over()) wire.cancel(&flight.transfer);
  }
  flight_count_ = 0;
}

std::vector<Wire::Queue> HostRun::waits_for() const {
  std::vector<Wire::Queue> queues;
  for (const InFlight& flight : in_flight()) {
    if (!flight.transfer.is_over()) queues.push_back(queue_of(flight.step->peer));
  }
  return queues;
}

}  // namespace bp::ccl
