// SPDX-License-Identifier: Apache-2.0
//
// See data_parallel.hpp. Nothing here waits for a reduction but finish() on an inline stream: the
// group's own stream takes buckets in turn, and their tensors carry its marks.
#include "ccl/dist/data_parallel.hpp"

#include <algorithm>
#include <array>

#include "ccl/dist/zeros.hpp"
#include "core/base/dtype.hpp"
#include "core/base/hash.hpp"
#include "core/dispatch/call.hpp"

namespace bp::ccl {
namespace {

Status refuse_parallel(const std::string& what) {
  return Status(BP_INVALID_ARGUMENT, "data parallel: " + what);
}

/// The parameter count of a rank that has failed.
constexpr uint64_t kFailed = UINT64_MAX;

/// What ranks compare.
struct Fingerprint {
  uint64_t parameter_count = 0;
  uint64_t hash = 0;
};

Fingerprint fingerprint_of(const DataParallelArgs& args) {
  uint64_t hash = mix(args.limits.bytes, args.limits.first_bytes);
  hash = mix(hash, args.is_deterministic ? 1 : 0);
  for (const Parameter& parameter : args.parameters) {
    hash = mix(mix(hash, parameter.dtype), parameter.sizes.size());
    for (const int64_t size : parameter.sizes) hash = mix(hash, static_cast<uint64_t>(size));
  }
  return {args.parameters.size(), hash};
}

/// "gradients 3, 4, 7 and 12 more".
std::string list(const std::vector<size_t>& indexes) {
  constexpr size_t kMost = 16;
  std::string text = indexes.size() == 1 ? "gradient " : "gradients ";
  for (size_t i = 0; i < std::min(indexes.size(), kMost); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(indexes[i]);
  }
  if (indexes.size() > kMost) text += " and " + std::to_string(indexes.size() - kMost) + " more";
  return text;
}

/// A gradient of the parameter can be averaged.
Status check_parameter(size_t index, const Parameter& parameter, RankPlace place) {
  const Operation operation{
      .kind = Kind::kAllReduce, .dtype = parameter.dtype, .reduction = Reduction::kAvg, .count = 1};
  return check_operation(operation, place).with_prefix("parameter " + std::to_string(index));
}

}  // namespace

Result<Ref<DataParallel>> DataParallel::create(Ref<ProcessGroup> group, DataParallelArgs args) {
  auto made = Ref<DataParallel>::make(std::move(group), std::move(args));
  const Status own = contain([&] { return made->make_buckets(); });
  // A rank that cannot go on says so: the others wait for it.
  const Status agreed = made->agree(own.ok());
  BP_TRY(own.with_prefix("data parallel"));
  BP_TRY(agreed);
  return made;
}

Status DataParallel::make_buckets() {
  if (args_.parameters.empty()) return Status(BP_INVALID_ARGUMENT, "expected a parameter");
  for (size_t i = 0; i < args_.parameters.size(); ++i) {
    BP_TRY(check_parameter(i, args_.parameters[i], group_->place()));
  }
  BP_TRY_ASSIGN(const auto layouts, plan_buckets(args_.parameters, args_.limits));
  Device& device = group_->device();
  gradients_.resize(args_.parameters.size());
  for (const BucketLayout& layout : layouts) {
    const auto element_bytes = static_cast<int64_t>(dtype_bits(layout.dtype) / 8);
    const int64_t count = static_cast<int64_t>(layout.bytes) / element_bytes;
    Bucket bucket;
    BP_TRY_ASSIGN(bucket.all, Tensor::allocate(device, layout.dtype, {count}, MemoryTag::kComm,
                                               device.default_stream()));
    // What lies between gradients goes to other ranks, too.
    BP_TRY(write_zeros(*bucket.all, device.default_stream()));
    for (const BucketLayout::Entry& entry : layout.entries) {
      const Dims& sizes = args_.parameters[entry.parameter].sizes;
      Gradient& gradient = gradients_[entry.parameter];
      gradient.view = bucket.all->view(sizes, contiguous_strides(sizes),
                                       static_cast<int64_t>(entry.offset_bytes) / element_bytes);
      gradient.bucket = buckets_.size();
      bucket.gradients.push_back(entry.parameter);
    }
    buckets_.push_back(std::move(bucket));
  }
  begin_step();
  return {};
}

/// Ranks that reduced other buckets would fail later, and with fewer words.
Status DataParallel::agree(bool is_ready) {
  constexpr size_t kBytes = sizeof(Fingerprint);
  const uint32_t rank_count = group_->place().rank_count;
  Device& device = group_->device();
  Fingerprint own = fingerprint_of(args_);
  if (!is_ready) own.parameter_count = kFailed;
  BP_TRY_ASSIGN(const Ref<Tensor> send, copy_from_host(device.default_stream(), BP_DTYPE_U8,
                                                       {int64_t{kBytes}}, &own, MemoryTag::kComm));
  BP_TRY_ASSIGN(const Ref<Tensor> recv,
                Tensor::create(device, BP_DTYPE_U8, {static_cast<int64_t>(rank_count * kBytes)}));
  const Call call{.kind = Kind::kAllGather, .send = send, .recv = recv};
  BP_TRY(group_->enqueue(call, {.timeout = args_.timeout, .waits = true}));
  std::vector<Fingerprint> all(rank_count);
  BP_TRY(copy_to_host(recv, all.data(), rank_count * kBytes));
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    const std::string who = "data parallel: rank " + std::to_string(rank);
    if (all[rank].parameter_count == kFailed) {
      return Status(BP_UNAVAILABLE, who + " could not make its buckets");
    }
    if (all[rank].parameter_count != all[0].parameter_count) {
      return Status(BP_INVALID_ARGUMENT, who + " has " + std::to_string(all[rank].parameter_count) +
                                             " parameters, rank 0 has " +
                                             std::to_string(all[0].parameter_count));
    }
    if (all[rank].hash != all[0].hash) {
      return Status(BP_INVALID_ARGUMENT,
                    who + " and rank 0 have parameters of other sizes or dtypes, or other options");
    }
  }
  return {};
}

Status DataParallel::broadcast_parameters(std::span<const Ref<Tensor>> tensors, uint32_t root) {
  if (tensors.size() != args_.parameters.size()) {
    return refuse_parallel("expected a tensor for each of " +
                           std::to_string(args_.parameters.size()) + " parameters, found " +
                           std::to_string(tensors.size()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    BP_TRY(check_values(i, tensors[i]));
    // Its own broadcast would tell, after others have had their new values.
    const bool can_receive = tensors[i]->contiguous() && !tensors[i]->is_read_only();
    if (can_receive || group_->place().rank == root) continue;
    return refuse_parallel("tensor " + std::to_string(i) + " is " + tensors[i]->describe() +
                           ", expected a contiguous one that is not read-only");
  }
  std::vector<Ref<Work>> works;
  Status status;
  for (const Ref<Tensor>& tensor : tensors) {
    const Call call{.kind = Kind::kBroadcast, .root = root, .recv = tensor};
    auto work = group_->enqueue(call, {.timeout = args_.timeout});
    status = work.status();
    if (!status.ok()) break;
    works.push_back(*std::move(work));
  }
  const auto deadline =
      Clock::now() + patience(group_->runtime(), group_->runtime().wait_timeout());
  for (const Ref<Work>& work : works) {
    const Status ended = work->wait(deadline);
    if (status.ok()) status = ended;
  }
  return status;
}

Status DataParallel::check_index(size_t index) const {
  if (index < gradients_.size()) return {};
  return refuse_parallel("there is no gradient " + std::to_string(index) + ", but 0 to " +
                         std::to_string(gradients_.size() - 1));
}

/// Of a gradient or parameter.
Status DataParallel::check_values(size_t index, const Ref<Tensor>& values) const {
  const Parameter& expected = args_.parameters[index];
  const bool fits = values->device() == &group_->device() && values->dtype() == expected.dtype &&
                    values->sizes() == expected.sizes;
  if (fits) return {};
  return refuse_parallel("tensor " + std::to_string(index) + " is " + values->describe() +
                         ", expected " + gradients_[index].view->describe());
}

Result<Ref<Tensor>> DataParallel::gradient(size_t index) const {
  BP_TRY(check_index(index));
  return gradients_[index].view;
}

/// Streams that waited for the group's work have failed with it, and say so in other words.
Status DataParallel::explain(const Status& status) const {
  if (status.ok()) return status;
  const Status why = group_->failure().to_status();
  return why.ok() ? status : why;
}

Status DataParallel::accumulate(size_t index, const Ref<Tensor>& values, Stream& stream) {
  BP_TRY(check_index(index));
  BP_TRY(check_values(index, values));
  const std::lock_guard lock(mutex_);
  BP_TRY(group_->failure().to_status());
  return explain(add(index, values, stream));
}

Status DataParallel::ready(size_t index, const Ref<Tensor>& values, Stream& stream) {
  BP_TRY(check_index(index));
  if (values) BP_TRY(check_values(index, values));
  const std::lock_guard lock(mutex_);
  BP_TRY(group_->failure().to_status());
  if (values) {
    BP_TRY(explain(add(index, values, stream)));
  } else {
    BP_TRY(check_not_ready(index));
  }
  gradients_[index].is_ready = true;
  --buckets_[gradients_[index].bucket].missing_count;
  return explain(begin_full_buckets());
}

Status DataParallel::check_not_ready(size_t index) const {
  if (!gradients_[index].is_ready) return {};
  return refuse_parallel("gradient " + std::to_string(index) +
                         " is ready already in this step, which ends with finish");
}

Status DataParallel::add(size_t index, const Ref<Tensor>& values, Stream& stream) {
  BP_TRY(check_not_ready(index));
  Gradient& gradient = gradients_[index];
  if (gradient.view->element_count() == 0) return {};
  Ref<Tensor> sum = values;
  if (&values->storage() == &gradient.view->storage()) {
    // Perhaps the gradient itself, or a view of it that is turned.
    BP_TRY_ASSIGN(sum, Tensor::create(group_->device(), values->dtype(), values->sizes()));
    BP_TRY(copy_into(values, sum, true, stream));
  }
  if (gradient.has_values) {
    Runtime& runtime = group_->runtime();
    const auto op = runtime.registry().find("add");
    if (!op) return Status(BP_UNSUPPORTED, "data parallel: there is no operator add");
    const Ref<Tensor> added = std::move(sum);
    const std::array<Tensor*, 2> inputs = {gradient.view.get(), added.get()};
    BP_TRY(call(runtime, {.op = *op, .inputs = inputs, .stream = &stream}, {&sum, 1}));
  }
  BP_TRY(copy_into(sum, gradient.view, true, stream));
  gradient.has_values = true;
  return {};
}

/// The first ones that have all their gradients.
Status DataParallel::begin_full_buckets() {
  while (works_.size() < buckets_.size()) {
    const Bucket& bucket = buckets_[works_.size()];
    if (bucket.missing_count > 0) return {};
    const Call call{.kind = Kind::kAllReduce,
                    .reduction = Reduction::kAvg,
                    .is_deterministic = args_.is_deterministic,
                    .send = bucket.all,
                    .recv = bucket.all};
    works_.reserve(buckets_.size());  // what has begun has its place
    BP_TRY_ASSIGN(Ref<Work> work, group_->enqueue(call, {.timeout = args_.timeout}));
    works_.push_back(std::move(work));
  }
  return {};
}

/// Of the gradients that are not ready.
Status DataParallel::check_unused() const {
  std::vector<size_t> unused;
  std::vector<size_t> accumulated;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_[i].is_ready) continue;
    (gradients_[i].has_values ? accumulated : unused).push_back(i);
  }
  if (!accumulated.empty()) {
    return refuse_parallel(list(accumulated) + ": accumulated, and not ready at the step's end");
  }
  if (unused.empty() || args_.allows_unused) return {};
  return refuse_parallel(list(unused) +
                         ": not ready at the step's end, and unused parameters are not "
                         "allowed");
}

Status DataParallel::finish(Stream& stream) {
  if (&stream.device() != &group_->device()) {
    return refuse_parallel("the stream is of " + stream.device().name() + ", and the group on " +
                           group_->device().name());
  }
  const std::lock_guard lock(mutex_);
  BP_TRY(group_->failure().to_status());
  BP_TRY(check_unused());
  BP_TRY(explain(end_step(stream)));
  begin_step();
  return group_->failure().to_status();
}

Status DataParallel::end_step(Stream& stream) {
  for (Gradient& gradient : gradients_) {
    if (gradient.is_ready) continue;
    BP_TRY(write_zeros(*gradient.view, stream));
    gradient.is_ready = true;
    --buckets_[gradient.bucket].missing_count;
  }
  BP_TRY(begin_full_buckets());
  for (const Ref<Work>& work : works_) BP_TRY(work->order_before(stream));
  return {};
}

void DataParallel::begin_step() {
  for (Bucket& bucket : buckets_) bucket.missing_count = bucket.gradients.size();
  for (Gradient& gradient : gradients_) gradient.has_values = gradient.is_ready = false;
  works_.clear();
}

DataParallel::Info DataParallel::info() const {
  const std::lock_guard lock(mutex_);
  Info info{.bucket_count = buckets_.size(), .begun_count = works_.size()};
  for (const Bucket& bucket : buckets_) {
    info.bucket_bytes += dtype_storage_bytes(bucket.all->dtype(), bucket.all->element_count());
  }
  return info;
}

}  // namespace bp::ccl
