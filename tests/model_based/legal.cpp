// SPDX-License-Identifier: Apache-2.0
//
// Which arguments are in order: objects that are there, ranges inside their memory, numbers on
// which all devices agree. What may not overlap with unfinished work is the model's own business.
#include <cmath>

#include "tests/model_based/model.hpp"

namespace bp::model {
namespace {

/// Devices may differ on NaN, minus zero and numbers near the ends of the range; the core's rules
/// for them are no business of this model.
bool is_tame(float value) {
  const float size = std::fabs(value);
  return (value == 0 && !std::signbit(value)) || (size >= 0x1p-60f && size <= 0x1p60f);
}

bool takes_stream(const Step& step) {
  switch (step.op) {
    case Op::kStreamDestroy:
    case Op::kStreamSync:
    case Op::kStreamQuery:
    case Op::kEventRecord:
    case Op::kEventWait:
    case Op::kHostCall:
      return true;
    default:
      return step.stream != kNone;
  }
}

bool takes_event(Op op) {
  return op == Op::kEventDestroy || op == Op::kEventRecord || op == Op::kEventWait ||
         op == Op::kEventSync || op == Op::kEventQuery || op == Op::kEventElapsed;
}

}  // namespace

bool Model::is_range(const Place& place, uint64_t bytes) const {
  if (place.memory < 0 || place.memory >= kMemorySlots) return false;
  const MemoryState& found = memory(place.memory);
  return found.alive && found.map_access == 0 && place.offset + bytes <= found.bytes.size();
}

bool Model::is_operand(const Place& place, uint32_t bytes) const {
  if (!is_range(place, bytes) || is_host_memory(place.memory)) return false;
  if (place.offset % traits_.launch_alignment != 0 || bytes % 4 != 0) return false;
  const MemoryState& found = memory(place.memory);
  for (uint32_t at = place.offset; at < place.offset + bytes; at += 4) {
    if (found.all_known(at, 4) && !is_tame(found.float_at(at))) return false;
  }
  return true;
}

bool Model::objects_are_there(const Step& step) const {
  if (takes_stream(step) && (step.stream < 0 || step.stream >= kStreamSlots)) return false;
  if (takes_event(step.op) && (step.event < 0 || step.event >= kEventSlots)) return false;
  if (takes_stream(step) && step.op != Op::kStreamCreate && !stream(step.stream).alive) {
    return false;
  }
  return !takes_event(step.op) || event(step.event).alive;
}

bool Model::is_well_formed(const Step& step) const {
  if (!objects_are_there(step)) return false;
  const bool dst_in = is_range(step.dst, step.bytes);
  const bool dst_host = is_host_memory(step.dst.memory);
  switch (step.op) {
    case Op::kStreamCreate:
      return !stream(step.stream).alive;
    case Op::kEventCreate:
      return !event(step.event).alive;
    case Op::kEventElapsed: {
      if (step.event2 < 0 || !event(step.event2).alive) return false;
      const EventState& start = event(step.event);
      const EventState& end = event(step.event2);
      return start.timing && end.timing && start.recorded && end.recorded;
    }
    case Op::kAlloc:
      return step.dst.memory >= 0 && !memory(step.dst.memory).alive && step.bytes > 0;
    case Op::kFree:
      return is_range(step.dst, 0);
    case Op::kWriteHost:
      return dst_in && dst_host;
    case Op::kCopy:
      return dst_in && is_range(step.src, step.bytes) &&
             !(dst_host && is_host_memory(step.src.memory)) &&
             (step.dst.memory != step.src.memory ||
              step.dst.offset + step.bytes <= step.src.offset ||
              step.src.offset + step.bytes <= step.dst.offset);
    case Op::kFill:
      return dst_in && !dst_host && step.pattern_bytes > 0 && step.bytes % step.pattern_bytes == 0;
    case Op::kHostCall:
      return (step.dst.memory == kNone || (dst_in && dst_host)) &&
             (step.src.memory == kNone ||
              (is_range(step.src, step.bytes) && is_host_memory(step.src.memory)));
    case Op::kAdd:
    case Op::kRelu: {
      const bool two = step.op == Op::kAdd;
      if (two ? !traits_.has_add : !traits_.has_relu) return false;
      const auto apart = [&](const Place& input) {
        return !overlap({step.dst.memory, step.dst.offset, step.dst.offset + step.bytes, true},
                        {input.memory, input.offset, input.offset + step.bytes, false});
      };
      return dst_in && is_operand(step.src, step.bytes) && apart(step.src) &&
             step.dst.offset % traits_.launch_alignment == 0 && !dst_host &&
             (!two || (is_operand(step.src2, step.bytes) && apart(step.src2)));
    }
    case Op::kMap:
      return dst_in && !dst_host && step.bytes > 0 && (step.flags & 3) != 0;
    case Op::kUnmap: {
      if (step.dst.memory < 0 || memory(step.dst.memory).map_access == 0) return false;
      const MemoryState& found = memory(step.dst.memory);
      if ((found.map_access & kMapWrite) == 0) return step.bytes == 0;
      return step.dst.offset >= found.mapped.offset &&
             step.dst.offset + step.bytes <= found.mapped.offset + found.mapped_bytes;
    }
    default:
      return true;
  }
}

}  // namespace bp::model
