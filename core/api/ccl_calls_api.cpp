// SPDX-License-Identifier: Apache-2.0
//
// The operations of groups in the C API: every function is one Call, and every Call one enqueue.
#include <cstddef>
#include <span>
#include <vector>

#include "core/api/ccl_handles.hpp"

namespace bp {
namespace {

constexpr uint64_t kMostCalls = 1024;

static_assert(BPA_CCL_ALL_REDUCE == static_cast<uint32_t>(ccl::Kind::kAllReduce) &&
              BPA_CCL_ALL_GATHER == static_cast<uint32_t>(ccl::Kind::kAllGather) &&
              BPA_CCL_REDUCE_SCATTER == static_cast<uint32_t>(ccl::Kind::kReduceScatter) &&
              BPA_CCL_BROADCAST == static_cast<uint32_t>(ccl::Kind::kBroadcast) &&
              BPA_CCL_SEND == static_cast<uint32_t>(ccl::Kind::kSend) &&
              BPA_CCL_RECV == static_cast<uint32_t>(ccl::Kind::kRecv) &&
              BPA_CCL_REDUCE == static_cast<uint32_t>(ccl::Kind::kReduce) &&
              BPA_CCL_GATHER == static_cast<uint32_t>(ccl::Kind::kGather) &&
              BPA_CCL_SCATTER == static_cast<uint32_t>(ccl::Kind::kScatter) &&
              BPA_CCL_ALL_TO_ALL == static_cast<uint32_t>(ccl::Kind::kAllToAll) &&
              BPA_CCL_BARRIER == static_cast<uint32_t>(ccl::Kind::kBarrier));
static_assert(BPA_CCL_SUM == static_cast<uint32_t>(ccl::Reduction::kSum) &&
              BPA_CCL_PROD == static_cast<uint32_t>(ccl::Reduction::kProd) &&
              BPA_CCL_MIN == static_cast<uint32_t>(ccl::Reduction::kMin) &&
              BPA_CCL_MAX == static_cast<uint32_t>(ccl::Reduction::kMax) &&
              BPA_CCL_AVG == static_cast<uint32_t>(ccl::Reduction::kAvg));

struct GroupTensor {
  const bpa_tensor* handle = nullptr;
  const char* name = "";
  bool may_be_missing = false;  // the group's check knows whether this rank needs it
};

/// Elements of each rank's block.
struct GroupCounts {
  const uint64_t* counts = nullptr;
  const char* name = "counts";
  bool may_be_missing = true;  // blocks of one size
};

/// An operation as a caller gives it, with the names of its arguments.
struct GroupCall {
  uint32_t kind;
  GroupTensor send = {.handle = nullptr, .name = "send", .may_be_missing = true};
  GroupTensor recv = {.handle = nullptr, .name = "recv", .may_be_missing = true};
  uint32_t reduction = 0;
  uint32_t root = 0;
  const char* root_name = "root";
  GroupCounts counts = {};
  GroupCounts send_counts = {.counts = nullptr, .name = "send_counts", .may_be_missing = true};
  std::string_view place = {};  // "calls[1].", before each name
};

std::string name_in(std::string_view place, const char* name) { return std::string(place) + name; }

Status read_counts(const GroupCounts& given, std::string_view place, uint32_t rank_count,
                   std::vector<uint64_t>* out) {
  BP_TRY(check_pointer(given.counts, name_in(place, given.name)));
  out->assign(given.counts, given.counts + rank_count);
  return {};
}

Status read_group_tensor(const GroupTensor& given, std::string_view place, Ref<Tensor>* out) {
  if (given.handle == nullptr && given.may_be_missing) return {};
  Result<Tensor*> tensor = place.empty() ? object_of(given.handle, given.name)
                                         : object_of(given.handle, name_in(place, given.name));
  if (!tensor.ok()) return tensor.status();
  *out = Ref<Tensor>(*tensor);
  return {};
}

bool are_given(const GroupCounts& counts) {
  return counts.counts != nullptr || !counts.may_be_missing;
}

/// But for whether it is deterministic.
Status read_call(const GroupCall& given, ccl::RankPlace place, ccl::Call* out) {
  if (given.kind >= ccl::kKindCount) [[unlikely]] {
    return bad_argument(name_in(given.place, "kind"), "is " + std::to_string(given.kind) +
                                                          ", expected one of BPA_CCL_ALL_REDUCE to "
                                                          "BPA_CCL_BARRIER");
  }
  ccl::Call& call = *out;
  call.kind = static_cast<ccl::Kind>(given.kind);
  const ccl::KindInfo& kind = ccl::kind_info(call.kind);
  if (given.reduction >= (kind.reduces ? ccl::kReductionCount : 1)) [[unlikely]] {
    return bad_argument(name_in(given.place, "reduction"),
                        "is " + std::to_string(given.reduction) + ", expected " +
                            (kind.reduces ? "one of BPA_CCL_SUM to BPA_CCL_AVG"
                                          : "0 for " + std::string(kind.name)));
  }
  call.reduction = static_cast<ccl::Reduction>(given.reduction);
  if ((kind.has_root || kind.is_of_two) && given.root >= place.rank_count) [[unlikely]] {
    return bad_argument(name_in(given.place, given.root_name),
                        "is " + std::to_string(given.root) + ", the group has " +
                            std::to_string(place.rank_count) + " ranks");
  }
  call.root = given.root;
  BP_TRY(read_group_tensor(given.send, given.place, &call.send));
  BP_TRY(read_group_tensor(given.recv, given.place, &call.recv));
  if (are_given(given.counts)) {
    BP_TRY(read_counts(given.counts, given.place, place.rank_count, &call.counts));
  }
  if (are_given(given.send_counts)) {
    BP_TRY(read_counts(given.send_counts, given.place, place.rank_count, &call.send_counts));
  }
  return {};
}

struct GroupOptions {
  ccl::EnqueueArgs args;
  bool is_deterministic = false;
};

Status read_options(const bpa_ccl_options* options, const ccl::ProcessGroup& group,
                    GroupOptions* out) {
  GroupOptions& read = *out;
  BP_TRY_ASSIGN(const bpa_ccl_options given,
                read_struct(options, "options", BPA_CCL_DETERMINISTIC_BIT));
  read.is_deterministic = (given.flags & BPA_CCL_DETERMINISTIC_BIT) != 0;
  if (given.stream != nullptr) {
    BP_TRY_ASSIGN(ApiStream * stream, object_of(given.stream, "options.stream"));
    if (&stream->stream.device() != &group.device()) {
      return bad_argument("options.stream", "is of " + stream->stream.device().name() +
                                                ", and the group is on " + group.device().name());
    }
    read.args.stream = &stream->stream;
  }
  BP_TRY(check_timeout(given.timeout_ns, group.runtime(), "options.timeout_ns"));
  read.args.timeout = timeout_of(given.timeout_ns, std::chrono::nanoseconds(0));
  return {};
}

/// The handle of work that is still to begin: it is there first, so that whatever has begun is
/// answered.
class WorkToBegin {
 public:
  WorkToBegin() = default;
  WorkToBegin(const WorkToBegin&) = delete;
  WorkToBegin& operator=(const WorkToBegin&) = delete;
  ~WorkToBegin() { release(handle_, "bpa_ccl_batch"); }

  Status make(Runtime& runtime) {
    auto object = Ref<ApiWork>::make(runtime);
    BP_TRY(make_api_handle(object.get(), &handle_));
    object_ = object.detach();
    return {};
  }
  bpa_ccl_work* begin(Ref<ccl::Work> work) {
    *object_->held = std::move(work);
    return std::exchange(handle_, nullptr);
  }

 private:
  bpa_ccl_work* handle_ = nullptr;
  ApiWork* object_ = nullptr;
};

Status enqueue_all(ccl::ProcessGroup& group, std::span<const ccl::Call> calls,
                   ccl::EnqueueArgs args, bpa_ccl_work** out_work) {
  args.waits = out_work == nullptr;
  if (args.waits) return group.enqueue(calls, args).status();
  WorkToBegin work;
  BP_TRY(work.make(group.runtime()));
  BP_TRY_ASSIGN(Ref<ccl::Work> begun, group.enqueue(calls, args));
  *out_work = work.begin(std::move(begun));
  return {};
}

/// What the function of one operation does.
bpa_status call_one(bpa_ccl_group* group, const GroupCall& given, const bpa_ccl_options* options,
                    bpa_ccl_work** out_work) {
  return guarded(out_work, 1, [&]() -> Status {
    BP_TRY_ASSIGN(ApiGroup * found, object_of(group, "group"));
    GroupOptions read;
    if (options != nullptr) BP_TRY(read_options(options, found->group(), &read));
    ccl::Call call;
    BP_TRY(read_call(given, found->group().place(), &call));
    call.is_deterministic = read.is_deterministic;
    return enqueue_all(found->group(), {&call, 1}, read.args, out_work);
  });
}

Status check_stride(uint64_t stride_bytes) {
  constexpr uint64_t kMostBytes = 65536;
  const bool fits = stride_bytes >= offsetof(bpa_ccl_call, kind) && stride_bytes % 8 == 0 &&
                    stride_bytes <= kMostBytes;
  if (fits) return {};
  return bad_argument("stride_bytes",
                      "is " + std::to_string(stride_bytes) + ", expected sizeof(bpa_ccl_call)");
}

Result<ccl::Call> read_call_of_batch(const bpa_ccl_call* at, uint64_t stride_bytes,
                                     const std::string& name, bool is_deterministic,
                                     ccl::RankPlace place) {
  if (at->struct_size > stride_bytes) {
    return bad_argument(name, "has struct_size " + std::to_string(at->struct_size) +
                                  ", more than stride_bytes, " + std::to_string(stride_bytes));
  }
  BP_TRY_ASSIGN(const bpa_ccl_call given, read_struct(at, name, BPA_CCL_DETERMINISTIC_BIT));
  if (given.reserved != 0) {
    return Status(BP_UNSUPPORTED, "argument " + name + ".reserved is " +
                                      std::to_string(given.reserved) + ", expected 0");
  }
  GroupCall call{.kind = given.kind};
  call.send.handle = given.send;
  call.recv.handle = given.recv;
  call.reduction = given.reduction;
  call.root = given.root;
  call.counts.counts = given.counts;
  call.send_counts.counts = given.send_counts;
  const std::string names = name + ".";
  call.place = names;
  ccl::Call read;
  BP_TRY(read_call(call, place, &read));
  read.is_deterministic = is_deterministic || (given.flags & BPA_CCL_DETERMINISTIC_BIT) != 0;
  return read;
}

}  // namespace
}  // namespace bp

using bp::call_one;

bpa_status bpa_ccl_all_reduce(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                              uint32_t reduction, const bpa_ccl_options* options,
                              bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_ALL_REDUCE,
                   .send = {send, "send"},
                   .recv = {recv, "recv"},
                   .reduction = reduction},
                  options, out_work);
}

bpa_status bpa_ccl_all_gather(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                              const bpa_ccl_options* options, bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_ALL_GATHER, .send = {send, "send"}, .recv = {recv, "recv"}},
                  options, out_work);
}

bpa_status bpa_ccl_reduce_scatter(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                                  uint32_t reduction, const bpa_ccl_options* options,
                                  bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_REDUCE_SCATTER,
                   .send = {send, "send"},
                   .recv = {recv, "recv"},
                   .reduction = reduction},
                  options, out_work);
}

bpa_status bpa_ccl_broadcast(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                             uint32_t root, const bpa_ccl_options* options,
                             bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_BROADCAST,
                   .send = {send, "send", true},
                   .recv = {recv, "recv"},
                   .root = root},
                  options, out_work);
}

bpa_status bpa_ccl_reduce(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                          uint32_t reduction, uint32_t root, const bpa_ccl_options* options,
                          bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_REDUCE,
                   .send = {send, "send"},
                   .recv = {recv, "recv", true},
                   .reduction = reduction,
                   .root = root},
                  options, out_work);
}

bpa_status bpa_ccl_gather(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                          uint32_t root, const bpa_ccl_options* options, bpa_ccl_work** out_work) {
  return call_one(
      group,
      {.kind = BPA_CCL_GATHER, .send = {send, "send"}, .recv = {recv, "recv", true}, .root = root},
      options, out_work);
}

bpa_status bpa_ccl_scatter(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                           uint32_t root, const bpa_ccl_options* options, bpa_ccl_work** out_work) {
  return call_one(
      group,
      {.kind = BPA_CCL_SCATTER, .send = {send, "send", true}, .recv = {recv, "recv"}, .root = root},
      options, out_work);
}

bpa_status bpa_ccl_all_to_all(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                              const bpa_ccl_options* options, bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_ALL_TO_ALL, .send = {send, "send"}, .recv = {recv, "recv"}},
                  options, out_work);
}

bpa_status bpa_ccl_all_gather_v(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                                const uint64_t* counts, const bpa_ccl_options* options,
                                bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_ALL_GATHER,
                   .send = {send, "send"},
                   .recv = {recv, "recv"},
                   .counts = {counts, "counts", false}},
                  options, out_work);
}

bpa_status bpa_ccl_reduce_scatter_v(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                                    const uint64_t* counts, uint32_t reduction,
                                    const bpa_ccl_options* options, bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_REDUCE_SCATTER,
                   .send = {send, "send"},
                   .recv = {recv, "recv"},
                   .reduction = reduction,
                   .counts = {counts, "counts", false}},
                  options, out_work);
}

bpa_status bpa_ccl_gather_v(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                            const uint64_t* counts, uint32_t root, const bpa_ccl_options* options,
                            bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_GATHER,
                   .send = {send, "send"},
                   .recv = {recv, "recv", true},
                   .root = root,
                   .counts = {counts, "counts", false}},
                  options, out_work);
}

bpa_status bpa_ccl_scatter_v(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                             const uint64_t* counts, uint32_t root, const bpa_ccl_options* options,
                             bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_SCATTER,
                   .send = {send, "send", true},
                   .recv = {recv, "recv"},
                   .root = root,
                   .counts = {counts, "counts", false}},
                  options, out_work);
}

bpa_status bpa_ccl_all_to_all_v(bpa_ccl_group* group, const bpa_tensor* send,
                                const uint64_t* send_counts, bpa_tensor* recv,
                                const uint64_t* recv_counts, const bpa_ccl_options* options,
                                bpa_ccl_work** out_work) {
  return call_one(group,
                  {.kind = BPA_CCL_ALL_TO_ALL,
                   .send = {send, "send"},
                   .recv = {recv, "recv"},
                   .counts = {recv_counts, "recv_counts", false},
                   .send_counts = {send_counts, "send_counts", false}},
                  options, out_work);
}

bpa_status bpa_ccl_send(bpa_ccl_group* group, const bpa_tensor* tensor, uint32_t peer,
                        const bpa_ccl_options* options, bpa_ccl_work** out_work) {
  return call_one(
      group, {.kind = BPA_CCL_SEND, .send = {tensor, "tensor"}, .root = peer, .root_name = "peer"},
      options, out_work);
}

bpa_status bpa_ccl_recv(bpa_ccl_group* group, bpa_tensor* tensor, uint32_t peer,
                        const bpa_ccl_options* options, bpa_ccl_work** out_work) {
  return call_one(
      group, {.kind = BPA_CCL_RECV, .recv = {tensor, "tensor"}, .root = peer, .root_name = "peer"},
      options, out_work);
}

bpa_status bpa_ccl_barrier(bpa_ccl_group* group, const bpa_ccl_options* options,
                           bpa_ccl_work** out_work) {
  return call_one(group, {.kind = BPA_CCL_BARRIER}, options, out_work);
}

bpa_status bpa_ccl_batch(bpa_ccl_group* group, const bpa_ccl_call* calls, uint64_t call_count,
                         uint64_t stride_bytes, const bpa_ccl_options* options,
                         bpa_ccl_work** out_work) {
  return bp::guarded(out_work, 1, [&]() -> bp::Status {
    BP_TRY_ASSIGN(bp::ApiGroup * found, bp::object_of(group, "group"));
    if (call_count == 0 || call_count > bp::kMostCalls) {
      return bp::bad_argument(
          "call_count",
          "is " + std::to_string(call_count) + ", expected 1 to " + std::to_string(bp::kMostCalls));
    }
    BP_TRY(bp::check_pointer(calls, "calls"));
    BP_TRY(bp::check_stride(stride_bytes));
    bp::GroupOptions read;
    BP_TRY(bp::read_options(options, found->group(), &read));
    std::vector<bp::ccl::Call> all;
    for (uint64_t i = 0; i < call_count; ++i) {
      const auto* const at = reinterpret_cast<const bpa_ccl_call*>(
          reinterpret_cast<const char*>(calls) + i * stride_bytes);
      const std::string name = "calls[" + std::to_string(i) + "]";
      BP_TRY_ASSIGN(bp::ccl::Call call,
                    bp::read_call_of_batch(at, stride_bytes, name, read.is_deterministic,
                                           found->group().place()));
      all.push_back(std::move(call));
    }
    return bp::enqueue_all(found->group(), all, read.args, out_work);
  });
}
