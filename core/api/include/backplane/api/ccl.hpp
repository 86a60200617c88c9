// SPDX-License-Identifier: Apache-2.0
//
// Collectives of the C++ API: ranks of a group, each with its own device, exchange tensors.
// Included by backplane.hpp; ccl.h says what each operation does, docs/collectives.md tells it from
// the beginning.
//
//   auto store = bp::ccl::Store::memory();                           // once, for all ranks
//   auto group = bp::ccl::Group::create(                             // on each rank's thread
//       device, {.store = store, .rank = rank, .rank_count = 2});
//   group.all_reduce(x);                                             // x is the sum of all ranks'
//   group.all_reduce(x, y, {.op = bp::ccl::Reduction::max});         // y is the maximum
//   auto work = group.async().all_reduce(x);                         // returns at once
//
// Operations of a group wait until they are over; those of group.async() return their work. A
// failure of the group is a GroupError, which tells the ranks that are its cause.
#ifndef BACKPLANE_API_CCL_HPP
#define BACKPLANE_API_CCL_HPP

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
  uint64_t sequence = 0;             // of the collective that was waited for, from 1; 0: none
  std::string operation{};           // what was waited for: "all_reduce sum f32 3"
  std::string words{};
  explicit operator bool() const { return code != BP_OK; }
};

/// What an operation throws where the group has failed; all else is a plain Error.
class GroupError : public Error {
 public:
  GroupError(const std::string& message, Failure failure)
      : Error(failure.code, message), failure_(std::move(failure)) {}
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
  bpa_ccl_error error{};
  error.struct_size = sizeof(error);
  const bool has_failed = get_error(handle, &error) == BP_OK && error.code == status;
  if (has_failed) throw ccl::GroupError(words, failure_of(handle, get_error));
  throw Error(status, words);
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
};

struct TcpStoreOptions;

/// Where ranks meet. Copies are the same store.
class Store {
 public:
  /// None.
  Store() = default;
  /// For ranks that are threads of this process.
  static Store memory() {
    bpa_ccl_store* handle = nullptr;
    detail::check(bpa_ccl_store_create_memory(&handle));
    return Store(handle);
  }
  /// For ranks that are processes; defined in ccl_job.hpp. `job`: another for each run.
  static Store file(const std::string& path, const std::string& job);
  static Store tcp(const TcpStoreOptions& options);
  bpa_ccl_store* handle() const { return handle_.get(); }

 private:
  friend class Job;
  explicit Store(bpa_ccl_store* handle) : handle_(handle, detail::CclDeleter()) {}

  std::shared_ptr<bpa_ccl_store> handle_;
};

struct GroupOptions {
  Store store{};
  std::string name = "default";  // good for one group of a store
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  std::chrono::nanoseconds timeout{0};  // for joining and each operation; 0: BACKPLANE_CCL_TIMEOUT
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
                     .recv = one.recv.handle()});
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

  template <class Function, class... Arguments>
  Answer call(Function* function, const OperationOptions& options, Arguments... arguments) const {
    bpa_ccl_options given{};
    given.struct_size = sizeof(given);
    if (options.deterministic) given.flags |= BPA_CCL_DETERMINISTIC_BIT;
    given.stream = options.stream.handle();
    given.timeout_ns = detail::timeout_ns(options.timeout);
    bpa_ccl_work* work = nullptr;
    constexpr bool kWaits = std::is_void_v<Answer>;
    const bpa_status status = function(handle(), arguments..., &given, kWaits ? nullptr : &work);
    detail::check(status, handle(), bpa_ccl_group_get_error);
    if constexpr (!kWaits) return Answer(work);
  }

  std::shared_ptr<bpa_ccl_group> handle_;
};

/// One rank of a group, for any threads. Copies are the same rank; the end of the last one waits
/// for operations in progress.
class Group : public Operations<void> {
 public:
  /// None.
  Group() = default;
  /// Waits until all ranks have joined.
  static Group create(Device device, const GroupOptions& options) {
    bpa_ccl_group_args args{};
    args.struct_size = sizeof(args);
    args.store = options.store.handle();
    args.name = options.name.c_str();
    args.rank = options.rank;
    args.rank_count = options.rank_count;
    args.timeout_ns = detail::timeout_ns(options.timeout);
    bpa_ccl_group* handle = nullptr;
    detail::check(bpa_ccl_group_create(device.handle(), &args, &handle));
    return adopt(handle);
  }

  /// Takes over a reference.
  static Group adopt(bpa_ccl_group* handle) {
    return Group(std::shared_ptr<bpa_ccl_group>(handle, detail::CclDeleter()));
  }

  /// The same operations, which return at once.
  Operations<Work> async() const { return Operations<Work>(handle_); }

  /// Ends the group on all ranks that can be reached: operations throw CANCELLED with these words.
  void abort(const std::string& words = {}) const {
    detail::check(bpa_ccl_group_abort(handle(), words.c_str()));
  }
  Failure failure() const { return detail::failure_of(handle(), bpa_ccl_group_get_error); }

  uint32_t rank() const { return info().rank; }
  uint32_t rank_count() const { return info().rank_count; }
  /// Counters as they are now.
  bpa_ccl_group_info info() const {
    bpa_ccl_group_info info{};
    info.struct_size = sizeof(info);
    detail::check(bpa_ccl_group_get_info(handle(), &info));
    return info;
  }
  /// What this rank has recorded, as JSON: what `backplane ccl trace` reads.
  std::string trace() const {
    std::string text;
    for (uint64_t bytes = 0;;) {
      detail::check(bpa_ccl_group_get_trace(handle(), nullptr, 0, &bytes));
      text.resize(bytes + 4096);  // for what comes until the next call
      if (bpa_ccl_group_get_trace(handle(), text.data(), text.size(), &bytes) != BP_OK) continue;
      text.resize(bytes - 1);
      return text;
    }
  }

 private:
  explicit Group(std::shared_ptr<bpa_ccl_group> handle) : Operations<void>(std::move(handle)) {}
};

}  // namespace ccl
}  // namespace api
}  // namespace bp

#endif
