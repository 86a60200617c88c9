// SPDX-License-Identifier: Apache-2.0
//
// Operations of a group in the C++ API: what each takes, the work in progress, and how they fail.
// Included by ccl.hpp, which has the groups.
#ifndef BACKPLANE_API_CCL_WORK_HPP
#define BACKPLANE_API_CCL_WORK_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backplane/api/tensor.hpp"

namespace bp {
inline namespace api {
namespace detail {

struct CclDeleter {
  void operator()(bpa_ccl_store* store) const { bpa_ccl_store_release(store); }
  void operator()(bpa_ccl_group* group) const { bpa_ccl_group_release(group); }
  void operator()(bpa_ccl_work* work) const { bpa_ccl_work_release(work); }
};

inline uint64_t timeout_ns(std::chrono::nanoseconds timeout) {
  if (timeout.count() < 0) throw Error(BP_INVALID_ARGUMENT, "a timeout is negative");
  return static_cast<uint64_t>(timeout.count());
}

}  // namespace detail

namespace ccl {

/// How values of ranks become one.
enum class Reduction : uint32_t {
  sum = BPA_CCL_SUM,
  prod = BPA_CCL_PROD,
  min = BPA_CCL_MIN,
  max = BPA_CCL_MAX,
  avg = BPA_CCL_AVG,
};

enum class Kind : uint32_t {
  all_reduce = BPA_CCL_ALL_REDUCE,
  all_gather = BPA_CCL_ALL_GATHER,
  reduce_scatter = BPA_CCL_REDUCE_SCATTER,
  broadcast = BPA_CCL_BROADCAST,
  send = BPA_CCL_SEND,
  recv = BPA_CCL_RECV,
  reduce = BPA_CCL_REDUCE,
  gather = BPA_CCL_GATHER,
  scatter = BPA_CCL_SCATTER,
  all_to_all = BPA_CCL_ALL_TO_ALL,
  barrier = BPA_CCL_BARRIER,
};

/// Why a group ended, or an operation; false where it has not.
struct Failure {
  bpa_status code = BP_OK;
  std::vector<uint32_t> culprits{};  // the ranks that are the cause, as far as they are known
  bool retryable = false;            // another group of the same ranks may work
  uint64_t sequence = 0;             // of what was waited for, from 1; 0: nothing
  std::string operation{};           // what was waited for: "all_reduce sum f32 3"
  std::string words{};
  explicit operator bool() const { return code != BP_OK; }
};

/// What an operation throws where the group has failed; all else is a plain Error.
class GroupError : public Error {
 public:
  GroupError(const std::string& message, Failure failure, std::string op = {})
      : Error(failure.code, message, std::move(op)), failure_(std::move(failure)) {}
  const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
};

}  // namespace ccl

namespace detail {

template <class Handle>
ccl::Failure failure_of(Handle* handle, bpa_status (*get_error)(Handle*, bpa_ccl_error*)) {
  bpa_ccl_error error{};
  error.struct_size = sizeof(error);
  check(get_error(handle, &error));
  return {.code = error.code,
          .culprits = {error.culprits, error.culprits + error.culprit_count},
          .retryable = error.is_retryable != 0,
          .sequence = error.sequence,
          .operation = error.operation,
          .words = error.words};
}

/// Throws what a call answered: a GroupError if that is how the group or work has failed.
template <class Handle>
void check(bpa_status status, Handle* handle, bpa_status (*get_error)(Handle*, bpa_ccl_error*)) {
  if (status == BP_OK) return;
  const std::string words = bpa_last_error();  // asking on may make another one
  const std::string op = bpa_last_error_op();
  bpa_ccl_error error{};
  error.struct_size = sizeof(error);
  const bool has_failed = get_error(handle, &error) == BP_OK && error.code == status;
  if (has_failed) throw ccl::GroupError(words, failure_of(handle, get_error), op);
  throw Error(status, words, op);
}

}  // namespace detail

namespace ccl {

struct OperationOptions {
  Reduction op = Reduction::sum;
  bool deterministic = false;           // reruns give the same bits
  Stream stream{};                      // the operation takes its place in this stream's order
  std::chrono::nanoseconds timeout{0};  // 0: the group's
};

/// One operation of a batch.
struct Call {
  Kind kind = Kind::all_reduce;
  Reduction op = Reduction::sum;
  uint32_t root = 0;  // or the other rank of a send or recv
  Tensor send{};
  Tensor recv{};
  bool deterministic = false;
  /// Where blocks differ in size: as the _v operation of the kind takes them; of all_to_all,
  /// recv_counts. Empty: they do not.
  std::vector<uint64_t> counts{};
  std::vector<uint64_t> send_counts{};  // of all_to_all, beside counts
};

/// Operations in progress. Copies are the same work. It may be dropped at any time.
class Work {
 public:
  /// None.
  Work() = default;
  bpa_ccl_work* handle() const { return handle_.get(); }

  /// Over, well or not. Never waits.
  bool done() const {
    uint32_t done = 0;
    detail::check(bpa_ccl_work_test(handle(), &done));
    return done != 0;
  }
  /// Until it is over; throws why it failed.
  void wait() const { check(bpa_ccl_work_wait(handle(), 0)); }
  /// False: it goes on.
  bool wait_for(std::chrono::nanoseconds timeout) const {
    const auto least = std::max(timeout, std::chrono::nanoseconds(1));  // 0 would be without end
    const bpa_status status = bpa_ccl_work_wait(handle(), detail::timeout_ns(least));
    if (status == BP_TIMEOUT && !failure()) return false;
    check(status);
    return true;
  }
  /// What is enqueued on the stream from now on comes after the work.
  void order_before(const Stream& stream) const {
    check(bpa_ccl_work_order_before(handle(), stream.handle()));
  }
  Failure failure() const { return detail::failure_of(handle(), bpa_ccl_work_get_error); }

 private:
  template <class Answer>
  friend class Operations;
  explicit Work(bpa_ccl_work* handle) : handle_(handle, detail::CclDeleter()) {}
  void check(bpa_status status) const { detail::check(status, handle(), bpa_ccl_work_get_error); }

  std::shared_ptr<bpa_ccl_work> handle_;
};

/// The operations of a group. Answer: void, and each waits until it is over; or Work, and none
/// does. An operation on one tensor is in place. ccl.h says which elements each takes.
template <class Answer>
class Operations {
 public:
  /// None: every call throws INVALID_ARGUMENT.
  Operations() = default;
  bpa_ccl_group* handle() const { return handle_.get(); }

  Answer all_reduce(const Tensor& tensor, const OperationOptions& options = {}) const {
    return all_reduce(tensor, tensor, options);
  }
  Answer all_reduce(const Tensor& send, const Tensor& recv,
                    const OperationOptions& options = {}) const {
    return call(bpa_ccl_all_reduce, options, send.handle(), recv.handle(), code(options.op));
  }
  /// recv has a block of each rank.
  Answer all_gather(const Tensor& send, const Tensor& recv,
                    const OperationOptions& options = {}) const {
    return call(bpa_ccl_all_gather, options, send.handle(), recv.handle());
  }
  /// send has a block for each rank.
  Answer reduce_scatter(const Tensor& send, const Tensor& recv,
                        const OperationOptions& options = {}) const {
    return call(bpa_ccl_reduce_scatter, options, send.handle(), recv.handle(), code(options.op));
  }
  /// The tensor of `root`, into that of every rank.
  Answer broadcast(const Tensor& tensor, uint32_t root,
                   const OperationOptions& options = {}) const {
    return broadcast(Tensor(), tensor, root, options);
  }
  /// send: at root only, elsewhere an empty Tensor.
  Answer broadcast(const Tensor& send, const Tensor& recv, uint32_t root,
                   const OperationOptions& options = {}) const {
    return call(bpa_ccl_broadcast, options, send.handle(), recv.handle(), root);
  }
  /// At root it holds the result; elsewhere it stays as it is.
  Answer reduce(const Tensor& tensor, uint32_t root, const OperationOptions& options = {}) const {
    return reduce(tensor, tensor, root, options);
  }
  /// recv: at root only, elsewhere an empty Tensor.
  Answer reduce(const Tensor& send, const Tensor& recv, uint32_t root,
                const OperationOptions& options = {}) const {
    return call(bpa_ccl_reduce, options, send.handle(), recv.handle(), code(options.op), root);
  }
  /// recv has a block of each rank: at root only, elsewhere an empty Tensor.
  Answer gather(const Tensor& send, const Tensor& recv, uint32_t root,
                const OperationOptions& options = {}) const {
    return call(bpa_ccl_gather, options, send.handle(), recv.handle(), root);
  }
  /// send has a block for each rank: at root only, elsewhere an empty Tensor.
  Answer scatter(const Tensor& send, const Tensor& recv, uint32_t root,
                 const OperationOptions& options = {}) const {
    return call(bpa_ccl_scatter, options, send.handle(), recv.handle(), root);
  }
  /// Both have a block for each rank, and lie apart.
  Answer all_to_all(const Tensor& send, const Tensor& recv,
                    const OperationOptions& options = {}) const {
    return call(bpa_ccl_all_to_all, options, send.handle(), recv.handle());
  }
  /// The same where blocks differ in size: counts has the elements of each rank's block, alike on
  /// all ranks.
  Answer all_gather_v(const Tensor& send, const Tensor& recv, std::span<const uint64_t> counts,
                      const OperationOptions& options = {}) const {
    return call(bpa_ccl_all_gather_v, options, send.handle(), recv.handle(),
                checked(counts, "counts"));
  }
  Answer reduce_scatter_v(const Tensor& send, const Tensor& recv, std::span<const uint64_t> counts,
                          const OperationOptions& options = {}) const {
    return call(bpa_ccl_reduce_scatter_v, options, send.handle(), recv.handle(),
                checked(counts, "counts"), code(options.op));
  }
  Answer gather_v(const Tensor& send, const Tensor& recv, std::span<const uint64_t> counts,
                  uint32_t root, const OperationOptions& options = {}) const {
    return call(bpa_ccl_gather_v, options, send.handle(), recv.handle(), checked(counts, "counts"),
                root);
  }
  Answer scatter_v(const Tensor& send, const Tensor& recv, std::span<const uint64_t> counts,
                   uint32_t root, const OperationOptions& options = {}) const {
    return call(bpa_ccl_scatter_v, options, send.handle(), recv.handle(), checked(counts, "counts"),
                root);
  }
  /// The counts are this rank's own: what it receives from another one is what that sends it.
  Answer all_to_all_v(const Tensor& send, std::span<const uint64_t> send_counts, const Tensor& recv,
                      std::span<const uint64_t> recv_counts,
                      const OperationOptions& options = {}) const {
    return call(bpa_ccl_all_to_all_v, options, send.handle(), checked(send_counts, "send_counts"),
                recv.handle(), checked(recv_counts, "recv_counts"));
  }
  Answer send(const Tensor& tensor, uint32_t peer, const OperationOptions& options = {}) const {
    return call(bpa_ccl_send, options, tensor.handle(), peer);
  }
  Answer recv(const Tensor& tensor, uint32_t peer, const OperationOptions& options = {}) const {
    return call(bpa_ccl_recv, options, tensor.handle(), peer);
  }
  Answer barrier(const OperationOptions& options = {}) const {
    return call(bpa_ccl_barrier, options);
  }

  /// None of them waits for another, but for the collectives among them, in their order.
  Answer batch(std::span<const Call> calls, const OperationOptions& options = {}) const {
    std::vector<bpa_ccl_call> all;
    for (const Call& one : calls) {
      all.push_back({.struct_size = sizeof(bpa_ccl_call),
                     .flags = one.deterministic ? BPA_CCL_DETERMINISTIC_BIT : 0,
                     .kind = static_cast<uint32_t>(one.kind),
                     .reduction = code(one.op),
                     .root = one.root,
                     .reserved = 0,
                     .send = one.send.handle(),
                     .recv = one.recv.handle(),
                     .counts = given(one.counts, "counts"),
                     .send_counts = given(one.send_counts, "send_counts")});
    }
    return call(bpa_ccl_batch, options, all.data(), uint64_t{all.size()}, sizeof(bpa_ccl_call));
  }
  Answer batch(std::initializer_list<Call> calls, const OperationOptions& options = {}) const {
    return batch(std::span<const Call>(calls.begin(), calls.size()), options);
  }

 protected:
  friend class Group;
  explicit Operations(std::shared_ptr<bpa_ccl_group> handle) : handle_(std::move(handle)) {}

 private:
  static uint32_t code(Reduction op) { return static_cast<uint32_t>(op); }

  /// The C API takes as many as the group has ranks.
  const uint64_t* checked(std::span<const uint64_t> counts, const char* name) const {
    bpa_ccl_group_info info{};
    info.struct_size = sizeof(info);
    detail::check(bpa_ccl_group_get_info(handle(), &info));
    if (counts.size() == info.rank_count) return counts.data();
    throw Error(BP_INVALID_ARGUMENT,
                std::string(name) + ": expected " + std::to_string(info.rank_count) +
                    ", one for each rank, found " + std::to_string(counts.size()));
  }
  const uint64_t* given(const std::vector<uint64_t>& counts, const char* name) const {
    return counts.empty() ? nullptr : checked(counts, name);
  }

  template <class Function, class... Arguments>
  Answer call(Function* function, const OperationOptions& options, Arguments... arguments) const {
    bpa_ccl_options given{};
    given.struct_size = sizeof(given);
    if (options.deterministic) given.flags |= BPA_CCL_DETERMINISTIC_BIT;
    given.stream = options.stream.handle();
    given.timeout_ns = detail::timeout_ns(options.timeout);
    // Most calls have none, which takes less to read.
    const bool has_some = given.flags != 0 || given.stream != nullptr || given.timeout_ns != 0;
    bpa_ccl_work* work = nullptr;
    constexpr bool kWaits = std::is_void_v<Answer>;
    const bpa_status status =
        function(handle(), arguments..., has_some ? &given : nullptr, kWaits ? nullptr : &work);
    detail::check(status, handle(), bpa_ccl_group_get_error);
    if constexpr (!kWaits) return Answer(work);
  }

  std::shared_ptr<bpa_ccl_group> handle_;
};

}  // namespace ccl
}  // namespace api
}  // namespace bp

#endif
