// SPDX-License-Identifier: Apache-2.0
//
// Comparing needs no key of its own: a point is held against an entry value by value.
#include "core/execute/plan_cache.hpp"

#include <cstring>
#include <iterator>

#include "core/base/hash.hpp"

namespace bp {
namespace {

uint64_t hash_bytes(uint64_t hash, const HostTensor& tensor) {
  const auto* bytes = static_cast<const unsigned char*>(tensor.data);
  for (uint64_t i = 0; i < tensor.bytes; ++i) hash = mix(hash, bytes[i]);
  return hash;
}

uint64_t hash_of(const PlanPoint& point) {
  uint64_t hash = point.first;
  for (ValueId id = 0; id < point.values.size(); ++id) {
    if (!point.values[id]) continue;
    const Tensor& tensor = *point.values[id];
    hash = mix(mix(hash, id), uint64_t{tensor.dtype()} << 8 | tensor.offset_bytes() % 256);
    for (size_t d = 0; d < tensor.sizes().size(); ++d) {
      hash = mix(mix(hash, static_cast<uint64_t>(tensor.sizes()[d])),
                 static_cast<uint64_t>(tensor.strides()[d]));
    }
  }
  uint64_t values = 0;  // they come in any order
  for (const auto& [id, tensor] : point.host_values) values += hash_bytes(mix(id, 0), tensor);
  return mix(hash, values);
}

bool same_values(const HostValues& a, const HostValues& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [id, tensor] : a) {
    const auto found = b.find(id);
    if (found == b.end()) return false;
    const HostTensor& other = found->second;
    const bool same =
        tensor.dtype == other.dtype && tensor.sizes == other.sizes && tensor.bytes == other.bytes &&
        (tensor.bytes == 0 || std::memcmp(tensor.data, other.data, tensor.bytes) == 0);
    if (!same) return false;
  }
  return true;
}

}  // namespace

bool PlanCache::answers(const Entry& entry, const PlanPoint& point) {
  if (entry.first != point.first) return false;
  auto expected = entry.types.begin();
  for (ValueId id = 0; id < point.values.size(); ++id) {
    if (!point.values[id]) continue;
    const Tensor& tensor = *point.values[id];
    const bool same = expected != entry.types.end() && expected->first == id &&
                      expected->second.dtype == tensor.dtype() &&
                      expected->second.sizes == tensor.sizes() &&
                      expected->second.strides == tensor.strides() &&
                      expected->second.offset_bytes == tensor.offset_bytes() % 256;
    if (!same) return false;
    ++expected;
  }
  return expected == entry.types.end() && same_values(entry.host_values, point.host_values);
}

PlanCache::Entries::iterator PlanCache::find_entry(uint64_t hash, const PlanPoint& point) {
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto found = begin; found != end; ++found) {
    if (answers(*found->second, point)) return found->second;
  }
  return entries_.end();
}

std::shared_ptr<const Segment> PlanCache::find(const PlanPoint& point) {
  const std::lock_guard lock(mutex_);
  if (!entries_.empty() && answers(entries_.front(), point)) return entries_.front().segment;
  const auto found = find_entry(hash_of(point), point);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->segment;
}

void PlanCache::drop(Entries::iterator entry, Entries* out_dropped) {
  const auto [begin, end] = by_hash_.equal_range(entry->hash);
  for (auto found = begin; found != end; ++found) {
    if (found->second != entry) continue;
    by_hash_.erase(found);
    break;
  }
  out_dropped->splice(out_dropped->end(), entries_, entry);
}

void PlanCache::insert(const PlanPoint& point, std::shared_ptr<const Segment> segment) {
  Entries made(1);
  Entry& entry = made.front();
  entry.hash = hash_of(point);
  entry.first = point.first;
  for (ValueId id = 0; id < point.values.size(); ++id) {
    if (!point.values[id]) continue;
    const Tensor& tensor = *point.values[id];
    entry.types.emplace_back(id, ArgType{.dtype = tensor.dtype(),
                                         .sizes = tensor.sizes(),
                                         .strides = tensor.strides(),
                                         .offset_bytes = tensor.offset_bytes() % 256,
                                         .host_data = nullptr});
  }
  entry.host_values = point.host_values;
  entry.segment = std::move(segment);
  Entries dropped;  // ended after the lock: that may call plugins
  const std::lock_guard lock(mutex_);
  const auto found = find_entry(entry.hash, point);
  if (found != entries_.end()) drop(found, &dropped);
  by_hash_.emplace(entry.hash, made.begin());
  entries_.splice(entries_.begin(), made);
  if (entries_.size() > capacity_) drop(std::prev(entries_.end()), &dropped);
}

void PlanCache::clear() {
  Entries dropped;  // ended after the lock: that may call plugins
  const std::lock_guard lock(mutex_);
  by_hash_.clear();
  dropped.swap(entries_);
}

size_t PlanCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace bp
