// SPDX-License-Identifier: Apache-2.0
#include "core/execute/packed_weights.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/hash.hpp"
#include "core/base/timed_lock.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {
namespace {

bool are_equal(const HostTensor& a, const HostTensor& b) {
  return a.bytes == b.bytes && (a.bytes == 0 || std::memcmp(a.data, b.data, a.bytes) == 0);
}

/// The caller's own tensor over shared memory.
Ref<Tensor> share(const std::shared_ptr<const Ref<Tensor>>& memory,
                  std::shared_ptr<const void> owner) {
  using Kept = std::pair<std::shared_ptr<const void>, std::shared_ptr<const Ref<Tensor>>>;
  const Tensor& tensor = **memory;
  const Storage& storage = tensor.storage();
  const uint64_t offset_bytes = storage.offset_bytes() + tensor.offset_bytes();
  auto own =
      Storage::wrap(storage.device(), storage.handle(), storage.offset_bytes() + storage.bytes(),
                    std::make_shared<const Kept>(std::move(owner), memory));
  return Ref<Tensor>::make(std::move(own), tensor.dtype(), tensor.sizes(), tensor.strides(),
                           offset_bytes);
}

}  // namespace

PackedWeights& PackedWeights::of(Device& device) {
  return static_cast<PackedWeights&>(device.extension(
      DevicePart::kPackedWeights, [] { return std::make_unique<PackedWeights>(); }));
}

Result<Ref<Tensor>> PackedWeights::get(const std::string& form,
                                       const std::shared_ptr<const HostTensor>& values,
                                       Stream& stream, std::shared_ptr<const void> owner,
                                       const Pack& pack) {
  const uint64_t hash = content_hash({static_cast<const std::byte*>(values->data), values->bytes});
  TimedLock lock(mutex_, std::defer_lock);
  if (!lock_within(lock, stream.device().wait_timeout())) {
    return stream.timed_out("another thread that packs a weight was not done");
  }
  if (const auto found = find(form, hash, values)) {
    values->release_pages();
    return share(found, std::move(owner));
  }
  BP_TRY_ASSIGN(Ref<Tensor> packed, pack());
  const auto memory = std::make_shared<const Ref<Tensor>>(std::move(packed));
  drop_ended();
  entries_[form].push_back({.hash = hash, .sources = {values}, .memory = memory});
  return share(memory, std::move(owner));
}

std::shared_ptr<const Ref<Tensor>> PackedWeights::find(
    const std::string& form, uint64_t hash, const std::shared_ptr<const HostTensor>& values) {
  const auto of_form = entries_.find(form);
  if (of_form == entries_.end()) return nullptr;
  for (Entry& entry : of_form->second) {
    auto memory = entry.memory.lock();
    if (memory == nullptr || entry.hash != hash) continue;
    std::erase_if(entry.sources, [](const auto& source) { return source.expired(); });
    const bool is_same = std::ranges::any_of(entry.sources, [&](const auto& weak) {
      const auto source = weak.lock();
      if (source == nullptr || !are_equal(*source, *values)) return false;
      source->release_pages();
      return true;
    });
    if (!is_same) continue;
    entry.sources.emplace_back(values);  // for whoever comes when the others have ended
    return memory;
  }
  return nullptr;
}

void PackedWeights::drop_ended() {
  for (auto& [form, entries] : entries_) {
    std::erase_if(entries, [](const Entry& entry) { return entry.memory.expired(); });
  }
  std::erase_if(entries_, [](const auto& of_form) { return of_form.second.empty(); });
}

}  // namespace bp
