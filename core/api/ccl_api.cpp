// SPDX-License-Identifier: Apache-2.0
//
// Stores, groups and work of the C API. Operations are in ccl_calls_api.cpp.
#include <chrono>
#include <cstring>

#include "core/api/ccl_handles.hpp"

namespace bp {
namespace {

constexpr const char* kDefaultName = "default";
constexpr size_t kMostNameBytes = 256;
constexpr uint32_t kMostRanks = 65536;

Result<ccl::GroupArgs> read_group_args(const bpa_ccl_group_args& given, Device& device) {
  ccl::GroupArgs args;
  BP_TRY_ASSIGN(const ApiStore* const store, object_of(given.store, "args.store"));
  args.store = store->store;
  if (given.name != nullptr) BP_TRY(check_text(given.name, "args.name"));
  args.name = given.name != nullptr ? given.name : kDefaultName;
  if (args.name.empty() || args.name.size() > kMostNameBytes) {
    return bad_argument("args.name", "has " + std::to_string(args.name.size()) +
                                         " bytes, expected 1 to " + std::to_string(kMostNameBytes));
  }
  if (given.rank_count == 0 || given.rank_count > kMostRanks) {
    return bad_argument("args.rank_count", "is " + std::to_string(given.rank_count) +
                                               ", expected 1 to " + std::to_string(kMostRanks));
  }
  if (given.rank >= given.rank_count) {
    return bad_argument("args.rank", "is " + std::to_string(given.rank) +
                                         ", expected less than args.rank_count, " +
                                         std::to_string(given.rank_count));
  }
  args.place = {given.rank, given.rank_count};
  args.device = &device;
  BP_TRY(check_timeout(given.timeout_ns, device.runtime(), "args.timeout_ns"));
  args.timeout = timeout_of(given.timeout_ns, std::chrono::nanoseconds(0));
  return args;
}

/// What `make` makes, as a handle, where it makes one.
template <class Make>
Status hand_out(const Runtime& runtime, const std::string& name, Make make,
                bpa_ccl_group** out_group) {
  Result<Ref<ccl::ProcessGroup>> made = make();
  if (!made.ok() && runtime.closed()) {
    return {BP_CANCELLED, "group " + name + ": the Runtime was closed while ranks joined"};
  }
  BP_TRY(made.status());
  if (!*made) return {};
  auto group = Ref<ApiGroup>::make(*std::move(made));
  BP_TRY(make_api_handle(group.get(), out_group));
  group.detach();
  return {};
}

Status rebuild(ccl::ProcessGroup& group, const bpa_ccl_rebuild_args& given,
               bpa_ccl_group** out_group) {
  BP_TRY(check_pointer(given.members, "args.members"));
  if (given.member_count > kMostRanks) {
    return bad_argument("args.member_count", "is " + std::to_string(given.member_count) +
                                                 ", expected 1 to " + std::to_string(kMostRanks));
  }
  BP_TRY(check_timeout(given.timeout_ns, group.runtime(), "args.timeout_ns"));
  BP_TRY(check_open(group.device()));
  const auto make = [&] {
    return group.rebuild({.epoch = given.epoch,
                          .members = {given.members, given.member_count},
                          .timeout = timeout_of(given.timeout_ns, std::chrono::nanoseconds(0))});
  };
  return hand_out(group.runtime(), group.name(), make, out_group);
}

Status split(ccl::ProcessGroup& group, const bpa_ccl_split_args& given, bpa_ccl_group** out_group) {
  BP_TRY(check_timeout(given.timeout_ns, group.runtime(), "args.timeout_ns"));
  BP_TRY(check_open(group.device()));
  const auto make = [&] {
    return group.split({.color = given.color,
                        .key = given.key,
                        .timeout = timeout_of(given.timeout_ns, std::chrono::nanoseconds(0))});
  };
  return hand_out(group.runtime(), group.name(), make, out_group);
}

Status write_error(KeptFailure* kept, ccl::Failure found, bpa_ccl_error* out_error) {
  bpa_ccl_error error{};
  error.operation = "";
  error.words = "";
  if (const ccl::Failure* const failure = kept->keep(std::move(found)); failure != nullptr) {
    error.code = failure->code;
    error.is_retryable = failure->is_retryable() ? 1 : 0;
    error.sequence = failure->sequence;
    error.culprits = failure->culprits.empty() ? nullptr : failure->culprits.data();
    error.culprit_count = failure->culprits.size();
    error.operation = failure->operation.c_str();
    error.words = failure->words.c_str();
  }
  return write_struct(out_error, error, "out_error");
}

bpa_ccl_group_info group_info(const ccl::ProcessGroup& group) {
  const ccl::GroupCounters& counters = group.counters();
  bpa_ccl_group_info info{};
  info.rank = group.place().rank;
  info.rank_count = group.place().rank_count;
  info.is_native = group.is_native() ? 1 : 0;
  info.why_not_native = group.why_not_native().c_str();
  info.timeout_ns = static_cast<uint64_t>(group.timeout().count());
  info.native_operations = counters.native_operations.load();
  info.host_operations = counters.host_operations.load();
  info.staged_operations = counters.staged_operations.load();
  info.staged_bytes = counters.staged_bytes.load();
  info.contiguous_copies = counters.contiguous_copies.load();
  info.epoch = group.epoch();
  info.job_ranks = group.job_ranks().data();
  info.ring_bytes = counters.ring_bytes.load();
  return info;
}

}  // namespace

HeldGroup::~HeldGroup() {
  [[maybe_unused]] const Status finished = contain([this] { group->finish(); });
}

std::chrono::nanoseconds timeout_of(uint64_t timeout_ns, std::chrono::nanoseconds otherwise) {
  if (timeout_ns == 0) return otherwise;
  return std::chrono::nanoseconds(std::min<uint64_t>(timeout_ns, INT64_MAX));
}

Status check_timeout(uint64_t timeout_ns, const Runtime& runtime, std::string_view name) {
  const auto longest = static_cast<uint64_t>(runtime.wait_timeout().count());
  if (timeout_ns <= longest) return {};
  return bad_argument(name, "is " + std::to_string(timeout_ns) + ", expected at most " +
                                std::to_string(longest) + " (BACKPLANE_TIMEOUT)");
}

}  // namespace bp

using bp::ApiGroup;
using bp::ApiStore;
using bp::ApiWork;
using bp::check_pointer;
using bp::guarded;
using bp::object_of;
using bp::Ref;
using bp::Status;

bpa_status bpa_ccl_store_create_memory(bpa_ccl_store** out_store) {
  return guarded(out_store, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_store, "out_store"));
    auto store = Ref<ApiStore>::make(bp::ccl::make_memory_store());
    BP_TRY(bp::make_api_handle(store.get(), out_store));
    store.detach();
    return {};
  });
}

void bpa_ccl_store_release(bpa_ccl_store* store) { bp::release(store, "bpa_ccl_store_release"); }

bpa_status bpa_ccl_group_create(bpa_device* device, const bpa_ccl_group_args* args,
                                bpa_ccl_group** out_group) {
  return guarded(out_group, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_group, "out_group"));
    BP_TRY_ASSIGN(const bp::DeviceUse target, object_of(device, "device"));
    BP_TRY(check_pointer(args, "args"));
    BP_TRY_ASSIGN(const bpa_ccl_group_args given, bp::read_struct(args, "args"));
    BP_TRY_ASSIGN(const bp::ccl::GroupArgs group_args, bp::read_group_args(given, *target));
    BP_TRY(bp::check_open(*target));
    return bp::hand_out(
        target->runtime(), group_args.name,
        [&] { return bp::ccl::ProcessGroup::create(group_args); }, out_group);
  });
}

bpa_status bpa_ccl_group_rebuild(bpa_ccl_group* group, const bpa_ccl_rebuild_args* args,
                                 bpa_ccl_group** out_group) {
  return guarded(out_group, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_group, "out_group"));
    BP_TRY_ASSIGN(ApiGroup * found, object_of(group, "group"));
    BP_TRY(check_pointer(args, "args"));
    BP_TRY_ASSIGN(const bpa_ccl_rebuild_args given, bp::read_struct(args, "args"));
    return bp::rebuild(found->group(), given, out_group);
  });
}

bpa_status bpa_ccl_group_split(bpa_ccl_group* group, const bpa_ccl_split_args* args,
                               bpa_ccl_group** out_group) {
  return guarded(out_group, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_group, "out_group"));
    BP_TRY_ASSIGN(ApiGroup * found, object_of(group, "group"));
    BP_TRY(check_pointer(args, "args"));
    BP_TRY_ASSIGN(const bpa_ccl_split_args given, bp::read_struct(args, "args"));
    return bp::split(found->group(), given, out_group);
  });
}

void bpa_ccl_group_release(bpa_ccl_group* group) { bp::release(group, "bpa_ccl_group_release"); }

bpa_status bpa_ccl_group_abort(bpa_ccl_group* group, const char* words) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiGroup * found, object_of(group, "group"));
    if (words != nullptr) BP_TRY(bp::check_text(words, "words"));
    found->group().abort(words != nullptr ? words : "");
    return {};
  });
}

bpa_status bpa_ccl_group_get_info(bpa_ccl_group* group, bpa_ccl_group_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiGroup * found, object_of(group, "group"));
    return bp::write_struct(out_info, bp::group_info(found->group()), "out_info");
  });
}

bpa_status bpa_ccl_group_get_trace(bpa_ccl_group* group, char* out_text, uint64_t bytes,
                                   uint64_t* out_bytes) {
  return guarded(out_bytes, 1, [&]() -> Status {
    BP_TRY_ASSIGN(ApiGroup * found, object_of(group, "group"));
    BP_TRY(check_pointer(out_bytes, "out_bytes"));
    if (bytes > 0) BP_TRY(check_pointer(out_text, "out_text"));
    const std::string text = found->group().trace();
    const uint64_t needed = text.size() + 1;
    if (out_text != nullptr) {
      if (bytes < needed) {
        return bp::bad_argument(
            "bytes", "is " + std::to_string(bytes) + ", the text has " + std::to_string(needed));
      }
      std::memcpy(out_text, text.c_str(), needed);
    }
    *out_bytes = needed;
    return {};
  });
}

bpa_status bpa_ccl_group_get_error(bpa_ccl_group* group, bpa_ccl_error* out_error) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiGroup * found, object_of(group, "group"));
    return bp::write_error(&found->failure, found->group().failure(), out_error);
  });
}

bpa_status bpa_ccl_work_test(bpa_ccl_work* work, uint32_t* out_done) {
  return guarded(out_done, 1, [&]() -> Status {
    BP_TRY_ASSIGN(ApiWork * found, object_of(work, "work"));
    BP_TRY(check_pointer(out_done, "out_done"));
    BP_TRY(found->runtime->check_open());
    *out_done = found->work().test() ? 1 : 0;
    return {};
  });
}

bpa_status bpa_ccl_work_wait(bpa_ccl_work* work, uint64_t timeout_ns) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiWork * found, object_of(work, "work"));
    BP_TRY(found->runtime->check_open());
    const auto longest = found->runtime->wait_timeout();
    auto timeout = std::min(bp::timeout_of(timeout_ns, longest), longest);
    if (timeout == longest) timeout += bp::ccl::kVerdictComesWithin;
    return found->work().wait(bp::ccl::Clock::now() + timeout);
  });
}

bpa_status bpa_ccl_work_order_before(bpa_ccl_work* work, bpa_stream* stream) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiWork * found, object_of(work, "work"));
    BP_TRY_ASSIGN(bp::ApiStream * later, object_of(stream, "stream"));
    if (later->runtime.get() != found->runtime.get()) {
      return bp::bad_argument("stream",
                              "is of " + later->stream.device().name() + " of another runtime");
    }
    BP_TRY(bp::check_open(later->stream.device()));
    return found->work().order_before(later->stream);
  });
}

bpa_status bpa_ccl_work_get_error(bpa_ccl_work* work, bpa_ccl_error* out_error) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiWork * found, object_of(work, "work"));
    return bp::write_error(&found->failure, found->work().failure(), out_error);
  });
}

void bpa_ccl_work_release(bpa_ccl_work* work) { bp::release(work, "bpa_ccl_work_release"); }
