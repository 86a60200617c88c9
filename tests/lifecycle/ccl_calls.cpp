// SPDX-License-Identifier: Apache-2.0
//
// The rows of api/ccl.h, on a group of one rank. Operations are asynchronous unless they say
// otherwise, so that their errors are those of the call; one that began is waited for.
#include <vector>

#include "tests/lifecycle/api_calls.hpp"

namespace bp::life {
namespace {

using Objects = ApiObjects;

bpa_status store_create_memory(const Objects&) {
  bpa_ccl_store* store = kUntouched<bpa_ccl_store>;
  const bpa_status status = check_out(bpa_ccl_store_create_memory(&store), &store);
  bpa_ccl_store_release(store);
  return status;
}

bpa_status store_release(const Objects&) {
  bpa_ccl_store_release(nullptr);
  return BP_OK;
}

bpa_status group_create(const Objects& objects) {
  bpa_ccl_store* store = nullptr;
  bpa_ccl_store_create_memory(&store);
  bpa_ccl_group_args args{};
  args.struct_size = sizeof(args);
  args.store = store;
  args.rank_count = 1;
  bpa_ccl_group* group = kUntouched<bpa_ccl_group>;
  const bpa_status status = check_out(bpa_ccl_group_create(objects.device, &args, &group), &group);
  bpa_ccl_group_release(group);
  bpa_ccl_store_release(store);
  return status;
}

bpa_status group_rebuild(const Objects& objects) {
  static uint64_t epoch = 0;
  const uint32_t members[] = {0};
  bpa_ccl_rebuild_args args{};
  args.struct_size = sizeof(args);
  args.epoch = ++epoch;
  args.members = members;
  args.member_count = 1;
  bpa_ccl_group* group = kUntouched<bpa_ccl_group>;
  const bpa_status status = check_out(bpa_ccl_group_rebuild(objects.group, &args, &group), &group);
  bpa_ccl_group_release(group);
  return status;
}

bpa_status group_split(const Objects& objects) {
  bpa_ccl_split_args args{};
  args.struct_size = sizeof(args);
  bpa_ccl_group* group = kUntouched<bpa_ccl_group>;
  const bpa_status status = check_out(bpa_ccl_group_split(objects.group, &args, &group), &group);
  bpa_ccl_group_release(group);
  return status;
}

bpa_status group_release(const Objects&) {
  bpa_ccl_group_release(nullptr);
  return BP_OK;
}

bpa_status group_abort(const Objects& objects) {
  return bpa_ccl_group_abort(objects.doomed_group, "as the row wants it");
}

bpa_status group_get_info(const Objects& objects) {
  bpa_ccl_group_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_ccl_group_get_info(objects.group, &info);
  LIFE_CHECK(info.rank_count == (status == BP_OK ? 1u : 0u));
  return status;
}

bpa_status group_get_trace(const Objects& objects) {
  static std::vector<char> text(size_t{1} << 22);
  uint64_t bytes = 4711;
  const bpa_status status =
      bpa_ccl_group_get_trace(objects.group, text.data(), text.size(), &bytes);
  LIFE_CHECK(status == BP_OK ? bytes > 100 : bytes == 0);
  return status;
}

bpa_status group_get_error(const Objects& objects) {
  bpa_ccl_error error{};
  error.struct_size = sizeof(error);
  const bpa_status status = bpa_ccl_group_get_error(objects.group, &error);
  LIFE_CHECK((error.words != nullptr) == (status == BP_OK));
  return status;
}

/// What the call answered, or if that is OK, how the work ended.
bpa_status finish(bpa_status status, bpa_ccl_work* work) {
  check_out(status, &work);
  if (status == BP_OK) status = bpa_ccl_work_wait(work, 0);
  bpa_ccl_work_release(work);
  return status;
}

template <class Call>
bpa_status finish(Call call) {
  bpa_ccl_work* work = kUntouched<bpa_ccl_work>;
  const bpa_status status = call(&work);
  return finish(status, work);
}

bpa_status all_reduce(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_all_reduce(o.group, o.ccl_tensor, o.ccl_tensor, BPA_CCL_SUM, nullptr, work);
  });
}
bpa_status all_reduce_waits(const Objects& o) {
  return bpa_ccl_all_reduce(o.group, o.ccl_tensor, o.ccl_tensor, BPA_CCL_SUM, nullptr, nullptr);
}
bpa_status all_gather(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_all_gather(o.group, o.ccl_tensor, o.ccl_tensor, nullptr, work);
  });
}
bpa_status reduce_scatter(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_reduce_scatter(o.group, o.ccl_tensor, o.ccl_tensor, BPA_CCL_MAX, nullptr, work);
  });
}
bpa_status broadcast(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_broadcast(o.group, nullptr, o.ccl_tensor, 0, nullptr, work);
  });
}
bpa_status reduce(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_reduce(o.group, o.ccl_tensor, o.ccl_tensor, BPA_CCL_MIN, 0, nullptr, work);
  });
}
bpa_status gather(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_gather(o.group, o.ccl_tensor, o.ccl_tensor, 0, nullptr, work);
  });
}
bpa_status scatter(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_scatter(o.group, o.ccl_tensor, o.ccl_tensor, 0, nullptr, work);
  });
}
bpa_status all_to_all(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_all_to_all(o.group, o.ccl_tensor, o.other_ccl_tensor, nullptr, work);
  });
}
/// As many as the rank's tensors have.
constexpr uint64_t kCounts[] = {4};

bpa_status all_gather_v(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_all_gather_v(o.group, o.ccl_tensor, o.ccl_tensor, kCounts, nullptr, work);
  });
}
bpa_status reduce_scatter_v(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_reduce_scatter_v(o.group, o.ccl_tensor, o.ccl_tensor, kCounts, BPA_CCL_MAX,
                                    nullptr, work);
  });
}
bpa_status gather_v(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_gather_v(o.group, o.ccl_tensor, o.ccl_tensor, kCounts, 0, nullptr, work);
  });
}
bpa_status scatter_v(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_scatter_v(o.group, o.ccl_tensor, o.ccl_tensor, kCounts, 0, nullptr, work);
  });
}
bpa_status all_to_all_v(const Objects& o) {
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_all_to_all_v(o.group, o.ccl_tensor, kCounts, o.other_ccl_tensor, kCounts,
                                nullptr, work);
  });
}
bpa_status barrier(const Objects& o) {
  return finish([&](bpa_ccl_work** work) { return bpa_ccl_barrier(o.group, nullptr, work); });
}

/// The rank sends to itself: the other end is on another stream, and begins first.
template <class First, class Second>
bpa_status exchange(const Objects& o, First first, Second second) {
  bpa_ccl_work* begun = nullptr;
  bpa_status status = first(&begun);
  if (status == BP_OK) {
    bpa_ccl_options options{};
    options.struct_size = sizeof(options);
    status = bpa_stream_create(o.device, &options.stream);
    bpa_ccl_work* work = nullptr;
    if (status == BP_OK) status = second(&options, &work);
    if (status == BP_OK) status = bpa_ccl_work_wait(work, 0);
    bpa_ccl_work_release(work);
    bpa_stream_release(options.stream);
  }
  bpa_ccl_work_release(begun);
  return status;
}

bpa_status send(const Objects& o) {
  return exchange(
      o,
      [&](bpa_ccl_work** work) {
        return bpa_ccl_recv(o.group, o.other_ccl_tensor, 0, nullptr, work);
      },
      [&](const bpa_ccl_options* options, bpa_ccl_work** work) {
        return bpa_ccl_send(o.group, o.ccl_tensor, 0, options, work);
      });
}
bpa_status recv(const Objects& o) {
  return exchange(
      o, [&](bpa_ccl_work** work) { return bpa_ccl_send(o.group, o.ccl_tensor, 0, nullptr, work); },
      [&](const bpa_ccl_options* options, bpa_ccl_work** work) {
        return bpa_ccl_recv(o.group, o.other_ccl_tensor, 0, options, work);
      });
}

bpa_status batch(const Objects& o) {
  bpa_ccl_call calls[2] = {};
  for (bpa_ccl_call& call : calls) call.struct_size = sizeof(call);
  calls[0].kind = BPA_CCL_SEND;
  calls[0].send = o.ccl_tensor;
  calls[1].kind = BPA_CCL_RECV;
  calls[1].recv = o.other_ccl_tensor;
  return finish([&](bpa_ccl_work** work) {
    return bpa_ccl_batch(o.group, calls, 2, sizeof(bpa_ccl_call), nullptr, work);
  });
}

bpa_status work_test(const Objects& o) {
  uint32_t done = 4711;
  const bpa_status status = bpa_ccl_work_test(o.work, &done);
  LIFE_CHECK(done == (status == BP_OK ? 1u : 0u));
  return status;
}
bpa_status work_wait(const Objects& o) { return bpa_ccl_work_wait(o.work, 0); }
bpa_status work_order_before(const Objects& o) {
  return bpa_ccl_work_order_before(o.work, o.stream);
}
bpa_status work_get_error(const Objects& o) {
  bpa_ccl_error error{};
  error.struct_size = sizeof(error);
  const bpa_status status = bpa_ccl_work_get_error(o.work, &error);
  LIFE_CHECK(error.code == BP_OK && (error.words != nullptr) == (status == BP_OK));
  return status;
}
bpa_status work_release(const Objects&) {
  bpa_ccl_work_release(nullptr);
  return BP_OK;
}

// Columns: closed, poisoned (the default stream, which operations here do not use), lost.
constexpr ApiCall kCalls[] = {
    {"bpa_ccl_store_create_memory", "", true, BP_OK, BP_OK, BP_OK, store_create_memory},
    {"bpa_ccl_store_release", "", false, BP_OK, BP_OK, BP_OK, store_release},
    {"bpa_ccl_group_create", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, group_create},
    {"bpa_ccl_group_rebuild", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, group_rebuild},
    {"bpa_ccl_group_split", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, group_split},
    {"bpa_ccl_group_release", "", false, BP_OK, BP_OK, BP_OK, group_release},
    {"bpa_ccl_group_abort", "", true, BP_OK, BP_OK, BP_OK, group_abort},
    {"bpa_ccl_group_get_info", "", true, BP_OK, BP_OK, BP_OK, group_get_info},
    {"bpa_ccl_group_get_trace", "", true, BP_OK, BP_OK, BP_OK, group_get_trace},
    {"bpa_ccl_group_get_error", "", true, BP_OK, BP_OK, BP_OK, group_get_error},
    {"bpa_ccl_all_reduce", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, all_reduce},
    {"bpa_ccl_all_reduce", "that waits", true, BP_GONE, BP_OK, BP_DEVICE_LOST, all_reduce_waits},
    {"bpa_ccl_all_gather", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, all_gather},
    {"bpa_ccl_reduce_scatter", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, reduce_scatter},
    {"bpa_ccl_broadcast", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, broadcast},
    {"bpa_ccl_reduce", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, reduce},
    {"bpa_ccl_gather", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, gather},
    {"bpa_ccl_scatter", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, scatter},
    {"bpa_ccl_all_to_all", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, all_to_all},
    {"bpa_ccl_all_gather_v", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, all_gather_v},
    {"bpa_ccl_reduce_scatter_v", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, reduce_scatter_v},
    {"bpa_ccl_gather_v", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, gather_v},
    {"bpa_ccl_scatter_v", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, scatter_v},
    {"bpa_ccl_all_to_all_v", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, all_to_all_v},
    {"bpa_ccl_send", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, send},
    {"bpa_ccl_recv", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, recv},
    {"bpa_ccl_barrier", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, barrier},
    {"bpa_ccl_batch", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, batch},
    {"bpa_ccl_work_test", "", true, BP_GONE, BP_OK, BP_OK, work_test},
    {"bpa_ccl_work_wait", "", true, BP_GONE, BP_OK, BP_OK, work_wait},
    {"bpa_ccl_work_order_before", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, work_order_before},
    {"bpa_ccl_work_get_error", "", true, BP_OK, BP_OK, BP_OK, work_get_error},
    {"bpa_ccl_work_release", "", false, BP_OK, BP_OK, BP_OK, work_release},
};

}  // namespace

std::span<const ApiCall> ccl_calls() { return kCalls; }

}  // namespace bp::life
