// SPDX-License-Identifier: Apache-2.0
//
// Data parallel training on one rank: gradients that the caller computes come to lie in few large
// buckets, and each bucket becomes the average of all ranks' while the caller computes on.
#ifndef BACKPLANE_CCL_DIST_DATA_PARALLEL_HPP
#define BACKPLANE_CCL_DIST_DATA_PARALLEL_HPP

#include <chrono>
#include <mutex>
#include <span>
#include <vector>

#include "ccl/dist/buckets.hpp"
#include "ccl/group/group.hpp"
#include "core/base/ref.hpp"
#include "core/runtime/tensor.hpp"

namespace bp::ccl {

struct DataParallelArgs {
  std::vector<Parameter> parameters{};  // in the order of the forward pass; the same on all ranks
  BucketLimits limits{};
  /// finish() takes gradients that were not given for zeros.
  bool allows_unused = false;
  bool is_deterministic = false;
  std::chrono::nanoseconds timeout{0};  // of each reduction; 0: the group's
};

/// Any thread. A step: ready() for each gradient, in any order, then finish(). Once the group has
/// failed, all of it answers that failure.
class DataParallel : public Counted<DataParallel> {
 public:
  /// All ranks call it alike; waits for them. Errors: INVALID_ARGUMENT for parameters that cannot
  /// be averaged, and for ranks that differ, naming them; the group's; OUT_OF_MEMORY.
  static Result<Ref<DataParallel>> create(Ref<ProcessGroup> group, DataParallelArgs args);

  /// The values of `root` into the tensors of every rank, which are the parameters or other
  /// tensors of their sizes. Waits.
  Status broadcast_parameters(std::span<const Ref<Tensor>> tensors, uint32_t root);

  /// Of parameter `index`: a view into its bucket. After finish(), the average.
  Result<Ref<Tensor>> gradient(size_t index) const;
  /// Adds to gradient `index`, which begins each step as zero. On `stream`.
  Status accumulate(size_t index, const Ref<Tensor>& values, Stream& stream);
  /// The gradient is as it is to be reduced, once `values` were added where they are given. Where
  /// it is the last of its bucket, and all earlier buckets have begun, the reduction begins: in
  /// this order on all ranks, in whatever order gradients come. Errors: INVALID_ARGUMENT for one
  /// that is ready already; the group's failure; those of the reduction's begin, which the next
  /// call tries again.
  Status ready(size_t index, const Ref<Tensor>& values, Stream& stream);
  /// Ends the step: later work on `stream` comes after all reductions; on an inline stream the host
  /// waits. Errors: INVALID_ARGUMENT naming the gradients that are not ready, and the step goes on;
  /// the group's failure.
  Status finish(Stream& stream);

  struct Info {
    size_t bucket_count = 0;
    size_t begun_count = 0;     // of these, in this step
    uint64_t bucket_bytes = 0;  // all together
  };
  Info info() const;
  size_t parameter_count() const { return gradients_.size(); }
  ProcessGroup& group() const { return *group_; }

 private:
  friend class Counted<DataParallel>;
  friend class Ref<DataParallel>;
  DataParallel(Ref<ProcessGroup> group, DataParallelArgs args)
      : group_(std::move(group)), args_(std::move(args)) {}
  ~DataParallel() = default;

  struct Gradient {
    Ref<Tensor> view;
    size_t bucket = 0;
    bool has_values = false;  // that were added in this step
    bool is_ready = false;
  };
  struct Bucket {
    Ref<Tensor> all;
    std::vector<size_t> gradients;
    size_t missing_count = 0;  // of them, those that are not ready
  };

  Status make_buckets();
  Status agree(bool is_ready);
  Status check_index(size_t index) const;
  Status check_values(size_t index, const Ref<Tensor>& values) const;
  Status check_not_ready(size_t index) const;
  Status add(size_t index, const Ref<Tensor>& values, Stream& stream);
  Status begin_full_buckets();
  Status check_unused() const;
  Status explain(const Status& status) const;
  Status end_step(Stream& stream);
  void begin_step();

  const Ref<ProcessGroup> group_;
  const DataParallelArgs args_;
  mutable std::mutex mutex_;
  std::vector<Gradient> gradients_;  // by parameter
  std::vector<Bucket> buckets_;
  std::vector<Ref<Work>> works_;  // of the buckets that have begun, the first ones
};

}  // namespace bp::ccl

#endif
