// SPDX-License-Identifier: Apache-2.0
//
// Parallel training of the C++ API: meshes of ranks, tensors that lie on them, and gradients that
// are averaged as they come. Included by backplane.hpp; ccl_dist.h says what each call does,
// docs/collectives.md tells it from the beginning.
//
//   auto mesh = bp::ccl::Mesh::create(device, {.store = store, .rank = rank, .rank_count = 6,
//                                              .axes = {{"data", 2}, {"model", 3}}});
//   using bp::ccl::Placement;
//   const std::vector<int64_t> sizes = {5, 4};
//   const std::vector<Placement> cut = {Placement::replicate(), Placement::shard(0)};
//   const std::vector<Placement> replicated(2);
//   auto whole = bp::ccl::redistribute(mesh, part, sizes, cut, replicated);
//   auto parallel = bp::ccl::DataParallel::create(mesh.group("data"), parameters);
//   parallel.ready(i, gradient);                       // for each, as they are computed
//   parallel.finish();                                 // parallel.gradient(i) is the average
#ifndef BACKPLANE_API_CCL_DIST_HPP
#define BACKPLANE_API_CCL_DIST_HPP

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backplane/api/ccl.hpp"

namespace bp {
inline namespace api {
namespace detail {

struct CclDistDeleter {
  void operator()(bpa_ccl_mesh* mesh) const { bpa_ccl_mesh_release(mesh); }
  void operator()(bpa_ccl_data_parallel* parallel) const {
    bpa_ccl_data_parallel_release(parallel);
  }
};

}  // namespace detail

namespace ccl {

/// How a tensor lies on one axis of a mesh. Left out: replicate().
class Placement {
 public:
  Placement() = default;
  static Placement replicate() { return {}; }
  /// Each rank has a chunk of the dimension.
  static Placement shard(uint32_t dim) { return Placement(BPA_CCL_SHARD(dim)); }
  /// The values are the reduction of those of all ranks, still to be made.
  static Placement partial(Reduction op = Reduction::sum) {
    return Placement(BPA_CCL_PARTIAL(static_cast<uint32_t>(op)));
  }
  uint32_t code() const { return code_; }
  friend bool operator==(Placement, Placement) = default;

 private:
  explicit Placement(uint32_t code) : code_(code) {}
  uint32_t code_ = BPA_CCL_REPLICATE;
};

}  // namespace ccl

namespace detail {

inline std::vector<uint32_t> codes_of(std::span<const ccl::Placement> placements) {
  std::vector<uint32_t> codes;
  for (const ccl::Placement placement : placements) codes.push_back(placement.code());
  return codes;
}

}  // namespace detail

namespace ccl {

struct Axis {
  std::string name;
  uint32_t size = 1;
};

struct MeshOptions {
  Store store{};
  std::string name = "mesh";  // good for one mesh of a store
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  std::vector<Axis> axes{};             // the product of their sizes is rank_count
  std::vector<uint32_t> ranks{};        // by place, the last axis fastest; empty: 0, 1, 2, ...
  std::chrono::nanoseconds timeout{0};  // for joining and each operation; 0: BACKPLANE_CCL_TIMEOUT
};

/// A part of a tensor.
struct Shard {
  std::vector<int64_t> sizes;
  std::vector<int64_t> offsets;  // of its beginning in the whole
};

/// One rank of a mesh, for any threads. Copies are the same rank.
class Mesh {
 public:
  /// None.
  Mesh() = default;
  /// Waits until all ranks have joined.
  static Mesh create(Device device, const MeshOptions& options) {
    std::vector<const char*> names;
    std::vector<uint32_t> sizes;
    for (const Axis& axis : options.axes) {
      names.push_back(axis.name.c_str());
      sizes.push_back(axis.size);
    }
    if (!options.ranks.empty() && options.ranks.size() != options.rank_count) {
      throw Error(BP_INVALID_ARGUMENT, "options.ranks has " + std::to_string(options.ranks.size()) +
                                           " ranks of " + std::to_string(options.rank_count));
    }
    bpa_ccl_mesh_args args{};
    args.struct_size = sizeof(args);
    args.store = options.store.handle();
    args.name = options.name.c_str();
    args.rank = options.rank;
    args.rank_count = options.rank_count;
    args.axis_count = static_cast<uint32_t>(options.axes.size());
    args.axis_names = names.data();
    args.axis_sizes = sizes.data();
    args.ranks = options.ranks.empty() ? nullptr : options.ranks.data();
    args.timeout_ns = detail::timeout_ns(options.timeout);
    bpa_ccl_mesh* handle = nullptr;
    detail::check(bpa_ccl_mesh_create(device.handle(), &args, &handle));
    Mesh mesh;
    mesh.handle_ = std::shared_ptr<bpa_ccl_mesh>(handle, detail::CclDistDeleter());
    for (const Axis& axis : options.axes) mesh.groups_.push_back(mesh.group(axis.name));
    return mesh;
  }

  bpa_ccl_mesh* handle() const { return handle_.get(); }

  /// Of this rank on the axis; its rank there is its place on the axis.
  Group group(const std::string& axis) const {
    bpa_ccl_group* group = nullptr;
    detail::check(bpa_ccl_mesh_get_group(handle(), axis.c_str(), &group));
    return Group::adopt(group);
  }

  /// Which part of a tensor of these sizes this rank has. placements: by axis.
  Shard shard(std::span<const int64_t> sizes, std::span<const Placement> placements) const {
    const std::vector<uint32_t> codes = detail::codes_of(placements);
    Shard shard{std::vector<int64_t>(sizes.size()), std::vector<int64_t>(sizes.size())};
    detail::check(bpa_ccl_mesh_get_shard(
        handle(), sizes.data(), static_cast<uint32_t>(sizes.size()), codes.data(),
        static_cast<uint32_t>(codes.size()), shard.sizes.data(), shard.offsets.data()));
    return shard;
  }
  Shard shard(std::initializer_list<int64_t> sizes,
              std::initializer_list<Placement> placements) const {
    return shard(std::span(sizes.begin(), sizes.size()),
                 std::span(placements.begin(), placements.size()));
  }

  /// Throws what a call answered: a GroupError if that is how the group of an axis has failed.
  void check(bpa_status status) const {
    if (status == BP_OK) return;
    const std::string words = bpa_last_error();
    const std::string op = bpa_last_error_op();
    for (const Group& group : groups_) {
      Failure failure = group.failure();
      if (failure.code == status) throw GroupError(words, std::move(failure), op);
    }
    throw Error(status, words, op);
  }

 private:
  std::shared_ptr<bpa_ccl_mesh> handle_;
  std::vector<Group> groups_;  // by axis
};

struct RedistributeOptions {
  bool deterministic = false;
  Stream stream{};                      // of copies on the device
  std::chrono::nanoseconds timeout{0};  // of each operation; 0: the mesh's
};

/// The same tensor as it lies otherwise: this rank's part. sizes: of the whole; from, to: by axis.
inline Tensor redistribute(const Mesh& mesh, const Tensor& tensor, std::span<const int64_t> sizes,
                           std::span<const Placement> from, std::span<const Placement> to,
                           const RedistributeOptions& options = {}) {
  if (from.size() != to.size()) {
    throw Error(BP_INVALID_ARGUMENT, "from has " + std::to_string(from.size()) +
                                         " placements, to " + std::to_string(to.size()));
  }
  const std::vector<uint32_t> from_codes = detail::codes_of(from);
  const std::vector<uint32_t> to_codes = detail::codes_of(to);
  bpa_ccl_redistribute_args args{};
  args.struct_size = sizeof(args);
  if (options.deterministic) args.flags |= BPA_CCL_DETERMINISTIC_BIT;
  args.tensor = tensor.handle();
  args.sizes = sizes.data();
  args.rank = static_cast<uint32_t>(sizes.size());
  args.placement_count = static_cast<uint32_t>(from_codes.size());
  args.from = from_codes.data();
  args.to = to_codes.data();
  args.stream = options.stream.handle();
  args.timeout_ns = detail::timeout_ns(options.timeout);
  bpa_tensor* moved = nullptr;
  mesh.check(bpa_ccl_redistribute(mesh.handle(), &args, &moved));
  return Tensor::adopt(moved);
}
inline Tensor redistribute(const Mesh& mesh, const Tensor& tensor,
                           std::initializer_list<int64_t> sizes,
                           std::initializer_list<Placement> from,
                           std::initializer_list<Placement> to,
                           const RedistributeOptions& options = {}) {
  return redistribute(mesh, tensor, std::span(sizes.begin(), sizes.size()),
                      std::span(from.begin(), from.size()), std::span(to.begin(), to.size()),
                      options);
}

struct DataParallelOptions {
  uint64_t bucket_bytes = 0;        // 0: 25 MiB
  uint64_t first_bucket_bytes = 0;  // 0: 1 MiB
  bool allow_unused = false;        // a gradient that is not ready at a step's end counts as zero
  bool deterministic = false;
  std::chrono::nanoseconds timeout{0};  // of each reduction; 0: the group's
};

/// Averages gradients over the ranks of a group while others are computed. For any threads. Copies
/// are the same.
class DataParallel {
 public:
  /// None.
  DataParallel() = default;
  /// parameters: in the order of the forward pass. Waits for all ranks.
  static DataParallel create(const Group& group, std::span<const Tensor> parameters,
                             const DataParallelOptions& options = {}) {
    const std::vector<bpa_tensor*> handles = handles_of(parameters);
    bpa_ccl_data_parallel_args args{};
    args.struct_size = sizeof(args);
    if (options.allow_unused) args.flags |= BPA_CCL_ALLOW_UNUSED_BIT;
    if (options.deterministic) args.flags |= BPA_CCL_DETERMINISTIC_BIT;
    args.parameters = handles.data();
    args.parameter_count = handles.size();
    args.bucket_bytes = options.bucket_bytes;
    args.first_bucket_bytes = options.first_bucket_bytes;
    args.timeout_ns = detail::timeout_ns(options.timeout);
    DataParallel parallel;
    parallel.group_ = group;
    bpa_ccl_data_parallel* handle = nullptr;
    parallel.check(bpa_ccl_data_parallel_create(group.handle(), &args, &handle));
    parallel.handle_ = std::shared_ptr<bpa_ccl_data_parallel>(handle, detail::CclDistDeleter());
    return parallel;
  }

  bpa_ccl_data_parallel* handle() const { return handle_.get(); }

  /// The values of `root` into the tensors of all ranks, one for each parameter.
  void broadcast_parameters(std::span<const Tensor> tensors, uint32_t root = 0) const {
    const std::vector<bpa_tensor*> handles = handles_of(tensors);
    check(
        bpa_ccl_data_parallel_broadcast_parameters(handle(), handles.data(), handles.size(), root));
  }
  /// A view into its bucket: the caller's to write until it is ready, the average after finish().
  Tensor gradient(uint64_t index) const {
    bpa_tensor* gradient = nullptr;
    check(bpa_ccl_data_parallel_get_gradient(handle(), index, &gradient));
    return Tensor::adopt(gradient);
  }
  /// Adds to the gradient, which counts as zero when a step begins.
  void accumulate(uint64_t index, const Tensor& gradient, const Stream& stream = {}) const {
    check(bpa_ccl_data_parallel_accumulate(handle(), index, gradient.handle(), stream.handle()));
  }
  /// The gradient is complete, once this one was added; an empty Tensor: as it is.
  void ready(uint64_t index, const Tensor& gradient = {}, const Stream& stream = {}) const {
    check(bpa_ccl_data_parallel_ready(handle(), index, gradient.handle(), stream.handle()));
  }
  /// Ends the step: later work on the stream comes after all reductions.
  void finish(const Stream& stream = {}) const {
    check(bpa_ccl_data_parallel_finish(handle(), stream.handle()));
  }
  bpa_ccl_data_parallel_info info() const {
    bpa_ccl_data_parallel_info info{};
    info.struct_size = sizeof(info);
    check(bpa_ccl_data_parallel_get_info(handle(), &info));
    return info;
  }
  const Group& group() const { return group_; }

 private:
  static std::vector<bpa_tensor*> handles_of(std::span<const Tensor> tensors) {
    std::vector<bpa_tensor*> handles;
    for (const Tensor& tensor : tensors) handles.push_back(tensor.handle());
    return handles;
  }
  void check(bpa_status status) const {
    detail::check(status, group_.handle(), bpa_ccl_group_get_error);
  }

  std::shared_ptr<bpa_ccl_data_parallel> handle_;
  Group group_;
};

}  // namespace ccl
}  // namespace api
}  // namespace bp

#endif
