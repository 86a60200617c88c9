// SPDX-License-Identifier: Apache-2.0
//
// See redistribute.hpp. A step looks at a tensor as [before, rows, after] round the dimension that
// it changes. Blocks of collectives are equal and contiguous, so rows come first in what is sent,
// and are padded with zeros to the longest chunk: by chunk_of() only the end of the whole is
// padding, so what arrives is the rows of the whole and a tail that is left out.
#include "ccl/dist/redistribute.hpp"

#include <algorithm>

#include "ccl/dist/zeros.hpp"
#include "core/base/dtype.hpp"
#include "core/dispatch/call.hpp"

namespace bp::ccl {
namespace {

/// A tensor's sizes round a dimension.
struct Rows {
  int64_t before = 1;
  int64_t rows = 1;
  int64_t after = 1;
};

Rows rows_of(const Dims& sizes, uint32_t dim) {
  Rows found;
  for (size_t i = 0; i < sizes.size(); ++i) {
    (i < dim ? found.before : i == dim ? found.rows : found.after) *= sizes[i];
  }
  return found;
}

/// One step on this rank.
class Mover {
 public:
  Mover(const Mesh& mesh, const RedistributeArgs& args)
      : mesh_(mesh),
        args_(args),
        stream_(args.stream != nullptr ? *args.stream : mesh.device().default_stream()),
        dtype_(args.tensor->dtype()) {}

  /// `before`: of the whole, how it lies before the step.
  Result<Ref<Tensor>> run(const PlacementStep& step, std::span<const Placement> before,
                          const Ref<Tensor>& tensor);

 private:
  Result<Ref<Tensor>> contiguous(const Ref<Tensor>& tensor);
  Result<Ref<Tensor>> make(const Dims& sizes) const {
    return Tensor::create(mesh_.device(), dtype_, sizes);
  }
  Result<Ref<Tensor>> copy(const Ref<Tensor>& source);
  Result<Ref<Tensor>> rows_first(const Ref<Tensor>& tensor, uint32_t dim, int64_t row_count);
  Result<Ref<Tensor>> take_rows(const Ref<Tensor>& rows, const Dims& sizes, uint32_t dim);
  Status communicate(Kind kind, Reduction reduction, const Ref<Tensor>& send,
                     const Ref<Tensor>& recv);
  Result<Ref<Tensor>> gather(const Ref<Tensor>& tensor, uint32_t dim);
  Result<Ref<Tensor>> slice(const Ref<Tensor>& tensor, uint32_t dim);
  Result<Ref<Tensor>> reduce(const Ref<Tensor>& tensor, Reduction reduction);
  Result<Ref<Tensor>> reduce_scatter(const Ref<Tensor>& tensor, Reduction reduction, uint32_t dim);
  Result<Ref<Tensor>> exchange(const Ref<Tensor>& tensor, uint32_t from, uint32_t to);
  Result<Ref<Tensor>> join_blocks(const Ref<Tensor>& recv, const Dims& block, uint32_t from,
                                  uint32_t to, int64_t kept);

  const Mesh& mesh_;
  const RedistributeArgs& args_;
  Stream& stream_;
  const uint32_t dtype_;
  size_t axis_ = 0;     // of the step
  uint32_t count_ = 1;  // of its ranks
  uint32_t index_ = 0;  // of this one
  int64_t whole_ = 0;   // rows of the dimension that is split, over the ranks of the axis
};

/// Into memory of its own.
Result<Ref<Tensor>> Mover::copy(const Ref<Tensor>& source) {
  BP_TRY_ASSIGN(Ref<Tensor> target, make(source->sizes()));
  if (target->element_count() > 0) BP_TRY(copy_into(source, target, true, stream_));
  return target;
}

Result<Ref<Tensor>> Mover::contiguous(const Ref<Tensor>& tensor) {
  if (tensor->contiguous()) return tensor;
  return copy(tensor);
}

/// The tensor, which is contiguous, as [row_count, before, after]: rows beyond its own are zeros.
Result<Ref<Tensor>> Mover::rows_first(const Ref<Tensor>& tensor, uint32_t dim, int64_t row_count) {
  const Rows at = rows_of(tensor->sizes(), dim);
  const Ref<Tensor> own =
      tensor->view({at.rows, at.before, at.after}, {at.after, at.rows * at.after, 1}, 0);
  if (at.rows == row_count) return contiguous(own);
  BP_TRY_ASSIGN(Ref<Tensor> padded, make({row_count, at.before, at.after}));
  const Dims strides = padded->strides();
  if (own->element_count() > 0) {
    BP_TRY(copy_into(own, padded->view(own->sizes(), strides, 0), true, stream_));
  }
  const Ref<Tensor> tail =
      padded->view({row_count - at.rows, at.before, at.after}, strides, at.rows * strides[0]);
  BP_TRY(write_zeros(*tail, stream_));
  return padded;
}

/// The other way: of [rows, before, after], a tensor of these sizes, with the rows that it has.
Result<Ref<Tensor>> Mover::take_rows(const Ref<Tensor>& rows, const Dims& sizes, uint32_t dim) {
  const Rows at = rows_of(sizes, dim);
  BP_TRY_ASSIGN(const Ref<Tensor> taken,
                contiguous(rows->view({at.before, at.rows, at.after},
                                      {at.after, at.before * at.after, 1}, 0)));
  return taken->view(sizes, contiguous_strides(sizes), 0);
}

Status Mover::communicate(Kind kind, Reduction reduction, const Ref<Tensor>& send,
                          const Ref<Tensor>& recv) {
  const Call call{.kind = kind,
                  .reduction = reduction,
                  .is_deterministic = args_.is_deterministic,
                  .send = send,
                  .recv = recv};
  return mesh_.group(axis_)
      .enqueue(call, {.stream = args_.stream, .timeout = args_.timeout, .waits = true})
      .status();
}

/// shard -> replicate
Result<Ref<Tensor>> Mover::gather(const Ref<Tensor>& tensor, uint32_t dim) {
  Dims sizes = tensor->sizes();
  sizes[dim] = whole_;
  if (element_count(sizes) == 0) return make(sizes);
  const int64_t most = chunk_of(whole_, count_, 0).size;
  BP_TRY_ASSIGN(const Ref<Tensor> send, rows_first(tensor, dim, most));
  BP_TRY_ASSIGN(const Ref<Tensor> recv, make({most * count_, send->sizes()[1], send->sizes()[2]}));
  BP_TRY(communicate(Kind::kAllGather, {}, send, recv));
  return take_rows(recv, sizes, dim);
}

/// replicate -> shard
Result<Ref<Tensor>> Mover::slice(const Ref<Tensor>& tensor, uint32_t dim) {
  Dims sizes = tensor->sizes();
  const Chunk chunk = chunk_of(sizes[dim], count_, index_);
  sizes[dim] = chunk.size;
  return copy(tensor->view(sizes, tensor->strides(), chunk.offset * tensor->strides()[dim]));
}

/// partial -> replicate
Result<Ref<Tensor>> Mover::reduce(const Ref<Tensor>& tensor, Reduction reduction) {
  BP_TRY_ASSIGN(Ref<Tensor> recv, make(tensor->sizes()));
  if (recv->element_count() > 0) BP_TRY(communicate(Kind::kAllReduce, reduction, tensor, recv));
  return recv;
}

/// partial -> shard
Result<Ref<Tensor>> Mover::reduce_scatter(const Ref<Tensor>& tensor, Reduction reduction,
                                          uint32_t dim) {
  Dims sizes = tensor->sizes();
  const int64_t most = chunk_of(sizes[dim], count_, 0).size;
  sizes[dim] = chunk_of(sizes[dim], count_, index_).size;
  if (tensor->element_count() == 0) return make(sizes);
  BP_TRY_ASSIGN(const Ref<Tensor> send, rows_first(tensor, dim, most * count_));
  BP_TRY_ASSIGN(const Ref<Tensor> recv, make({most, send->sizes()[1], send->sizes()[2]}));
  BP_TRY(communicate(Kind::kReduceScatter, reduction, send, recv));
  return take_rows(recv, sizes, dim);
}

/// shard -> shard of another dimension. Each rank sends its rows of `from`, cut along `to`.
Result<Ref<Tensor>> Mover::exchange(const Ref<Tensor>& tensor, uint32_t from, uint32_t to) {
  Dims sizes = tensor->sizes();
  const int64_t most_from = chunk_of(whole_, count_, 0).size;
  const int64_t most_to = chunk_of(sizes[to], count_, 0).size;
  Dims padded = sizes;
  padded[from] = most_from;
  sizes[from] = whole_;
  const bool is_empty = element_count(sizes) == 0;  // on all ranks, or on none
  sizes[to] = chunk_of(sizes[to], count_, index_).size;
  if (is_empty) return make(sizes);
  BP_TRY_ASSIGN(Ref<Tensor> rows, rows_first(tensor, from, most_from));
  BP_TRY_ASSIGN(rows, take_rows(rows, padded, from));
  BP_TRY_ASSIGN(const Ref<Tensor> send, rows_first(rows, to, most_to * count_));
  BP_TRY_ASSIGN(const Ref<Tensor> recv, make(send->sizes()));
  BP_TRY(communicate(Kind::kAllToAll, {}, send, recv));
  BP_TRY_ASSIGN(const Ref<Tensor> joined, join_blocks(recv, padded, from, to, sizes[to]));
  padded[from] = most_from * count_;
  padded[to] = sizes[to];
  return contiguous(joined->view(sizes, contiguous_strides(padded), 0));
}

/// What exchange() has received, [ranks, chunk of `to`, the rest], with the blocks of the ranks one
/// behind the other along `from`, and of the chunk the `kept` rows that are no padding.
/// `block`: the sizes of a rank's tensor, whose `to` is whole.
Result<Ref<Tensor>> Mover::join_blocks(const Ref<Tensor>& recv, const Dims& block, uint32_t from,
                                       uint32_t to, int64_t kept) {
  const Rows low = rows_of(block, std::min(from, to));
  const Rows high = rows_of(block, std::max(from, to));
  const int64_t before = low.before;
  const int64_t between = high.before / (low.before * low.rows);
  const int64_t after = high.after;
  const int64_t from_rows = block[from];
  const int64_t to_rows = recv->sizes()[0] / count_;
  const int64_t all_else = before * between * from_rows * after;  // but the rows of `to`
  const int64_t rank_stride = to_rows * all_else;
  if (from < to) {
    return contiguous(recv->view(
        {before, count_, from_rows, between, kept, after},
        {from_rows * between * after, rank_stride, between * after, after, all_else, 1}, 0));
  }
  return contiguous(recv->view(
      {before, kept, between, count_, from_rows, after},
      {between * from_rows * after, all_else, from_rows * after, rank_stride, after, 1}, 0));
}

Result<Ref<Tensor>> Mover::run(const PlacementStep& step, std::span<const Placement> before,
                               const Ref<Tensor>& tensor) {
  axis_ = step.axis;
  count_ = mesh_.layout().axes()[axis_].size;
  index_ = mesh_.coordinates()[axis_];
  if (count_ == 1) return tensor;
  BP_TRY_ASSIGN(const Ref<Tensor> from, contiguous(tensor));
  const bool is_sharded = step.from.kind == PlacementKind::kShard;
  if (is_sharded) {
    // Of the dimension, what the earlier axes leave to this one.
    whole_ = shard_of(args_.sizes, before.first(axis_), mesh_.layout().axes(), mesh_.coordinates())
                 .sizes[step.from.dim];
  }
  const bool shards = step.to.kind == PlacementKind::kShard;
  switch (step.from.kind) {
    case PlacementKind::kShard:
      return shards ? exchange(from, step.from.dim, step.to.dim) : gather(from, step.from.dim);
    case PlacementKind::kPartial:
      return shards ? reduce_scatter(from, step.from.reduction, step.to.dim)
                    : reduce(from, step.from.reduction);
    case PlacementKind::kReplicate:
      break;
  }
  return slice(from, step.to.dim);
}

Status check_redistribute_args(const Mesh& mesh, const RedistributeArgs& args) {
  const auto axes = mesh.layout().axes();
  const auto refuse = [](const std::string& what) {
    return Status(BP_INVALID_ARGUMENT, "redistribute: " + what);
  };
  if (!args.tensor) return refuse("tensor is missing");
  if (!checked_element_count(args.sizes)) {
    return refuse("sizes " + numbers_text(args.sizes) + " are negative or too large together");
  }
  BP_TRY(check_placements("from", args.from, axes, args.sizes).with_prefix("redistribute"));
  BP_TRY(check_placements("to", args.to, axes, args.sizes).with_prefix("redistribute"));
  if (args.tensor->device() != &mesh.device()) {
    return refuse("tensor is " + args.tensor->describe() + ", expected one on " +
                  mesh.device().name());
  }
  if (dtype_bits(args.tensor->dtype()) % 8 != 0) {
    return refuse("tensor is " + args.tensor->describe() + ", whose elements are no whole bytes");
  }
  const Shard own = shard_of(args.sizes, args.from, axes, mesh.coordinates());
  if (args.tensor->sizes() == own.sizes) return {};
  return refuse("tensor is " + args.tensor->describe() + ", expected " + to_string(own.sizes) +
                ": the part of rank " + std::to_string(mesh.rank()) + " of " +
                to_string(args.sizes) + " as " + describe(args.from));
}

}  // namespace

Result<Ref<Tensor>> redistribute(const Mesh& mesh, const RedistributeArgs& args) {
  BP_TRY(mesh.device().check_open());
  BP_TRY(mesh.device().runtime().check_open());
  BP_TRY(check_redistribute_args(mesh, args));
  BP_TRY_ASSIGN(const auto steps, steps_between(args.from, args.to, mesh.layout().axes()));
  Ref<Tensor> tensor = args.tensor;
  Placements now = args.from;
  Mover mover(mesh, args);
  for (const PlacementStep& step : steps) {
    auto moved = mover.run(step, now, tensor);
    if (!moved.ok()) {
      // Streams that waited for the group's work have failed with it, and say so in other words.
      const Status why = mesh.group(step.axis).failure().to_status();
      return why.ok() ? moved.status() : why;
    }
    tensor = *std::move(moved);
    now[step.axis] = step.to;
  }
  return tensor;
}

}  // namespace bp::ccl
