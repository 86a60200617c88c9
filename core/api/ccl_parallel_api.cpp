// SPDX-License-Identifier: Apache-2.0
//
// Data parallel in the C API.
#include <string>
#include <vector>

#include "core/api/ccl_dist_handles.hpp"

namespace bp {
namespace {

constexpr uint64_t kMostParameters = uint64_t{1} << 20;
constexpr uint64_t kParallelFlags = BPA_CCL_DETERMINISTIC_BIT | BPA_CCL_ALLOW_UNUSED_BIT;

/// `name`: "args.parameters".
Result<std::vector<Ref<Tensor>>> read_tensors(const bpa_tensor* const* tensors, uint64_t count,
                                              const std::string& name) {
  BP_TRY(check_array(tensors, count, name));
  std::vector<Ref<Tensor>> read;
  for (uint64_t i = 0; i < count; ++i) {
    BP_TRY_ASSIGN(Tensor * tensor, object_of(tensors[i], name + "[" + std::to_string(i) + "]"));
    read.emplace_back(tensor);
  }
  return read;
}

Result<ccl::DataParallelArgs> read_parallel_args(const bpa_ccl_data_parallel_args& given,
                                                 const ccl::ProcessGroup& group) {
  ccl::DataParallelArgs args;
  if (given.parameter_count == 0 || given.parameter_count > kMostParameters) {
    return bad_argument("args.parameter_count", "is " + std::to_string(given.parameter_count) +
                                                    ", expected 1 to " +
                                                    std::to_string(kMostParameters));
  }
  BP_TRY_ASSIGN(const auto parameters,
                read_tensors(given.parameters, given.parameter_count, "args.parameters"));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = *parameters[i];
    if (parameter.device() != &group.device()) {
      return bad_argument(
          "args.parameters[" + std::to_string(i) + "]",
          "is " + parameter.describe() + ", and the group is on " + group.device().name());
    }
    args.parameters.push_back({parameter.dtype(), parameter.sizes()});
  }
  if (given.bucket_bytes != 0) args.limits.bytes = given.bucket_bytes;
  if (given.first_bucket_bytes != 0) args.limits.first_bytes = given.first_bucket_bytes;
  args.allows_unused = (given.flags & BPA_CCL_ALLOW_UNUSED_BIT) != 0;
  args.is_deterministic = (given.flags & BPA_CCL_DETERMINISTIC_BIT) != 0;
  BP_TRY(check_timeout(given.timeout_ns, group.runtime(), "args.timeout_ns"));
  args.timeout = timeout_of(given.timeout_ns, std::chrono::nanoseconds(0));
  return args;
}

Result<ApiDataParallel*> find_parallel(const bpa_ccl_data_parallel* handle) {
  return object_of(handle, "parallel");
}

/// NULL: the default one.
Result<Stream*> read_stream(const bpa_stream* handle, const ApiDataParallel& parallel) {
  if (handle == nullptr) return &parallel.device().default_stream();
  BP_TRY_ASSIGN(ApiStream * stream, object_of(handle, "stream"));
  if (&stream->stream.device() == &parallel.device()) return &stream->stream;
  return bad_argument("stream", "is of " + stream->stream.device().name() +
                                    ", and the group is on " + parallel.device().name());
}

Status check_gradient_index(const ApiDataParallel& parallel, uint64_t index) {
  const size_t count = parallel.parallel().parameter_count();
  if (index < count) return {};
  return bad_argument("index", "is " + std::to_string(index) + ", and there are " +
                                   std::to_string(count) + " gradients");
}

/// What accumulate and ready have in common. `gradient`: may be NULL.
template <class Function>
Status give_gradient(const bpa_ccl_data_parallel* handle, uint64_t index,
                     const bpa_tensor* gradient, const bpa_stream* stream, Function function) {
  BP_TRY_ASSIGN(ApiDataParallel * found, find_parallel(handle));
  BP_TRY(check_gradient_index(*found, index));
  Ref<Tensor> values;
  if (gradient != nullptr) {
    BP_TRY_ASSIGN(Tensor * tensor, object_of(gradient, "gradient"));
    values = Ref<Tensor>(tensor);
  }
  BP_TRY_ASSIGN(Stream * queue, read_stream(stream, *found));
  BP_TRY(check_open(found->device()));
  return (found->parallel().*function)(index, values, *queue);
}

}  // namespace

ApiDataParallel::ApiDataParallel(std::shared_ptr<const HeldGroup> group,
                                 Ref<ccl::DataParallel> made)
    : runtime(&made->group().runtime()),
      held(
          std::make_shared<HeldDataParallel>(HeldDataParallel{std::move(group), std::move(made)})) {
}

}  // namespace bp

using bp::ApiDataParallel;
using bp::ApiGroup;
using bp::check_pointer;
using bp::find_parallel;
using bp::guarded;
using bp::object_of;
using bp::Ref;
using bp::Status;

bpa_status bpa_ccl_data_parallel_create(bpa_ccl_group* group,
                                        const bpa_ccl_data_parallel_args* args,
                                        bpa_ccl_data_parallel** out_parallel) {
  return guarded(out_parallel, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_parallel, "out_parallel"));
    BP_TRY_ASSIGN(ApiGroup * found, object_of(group, "group"));
    BP_TRY(check_pointer(args, "args"));
    BP_TRY_ASSIGN(const bpa_ccl_data_parallel_args given,
                  bp::read_struct(args, "args", bp::kParallelFlags));
    BP_TRY_ASSIGN(auto read, bp::read_parallel_args(given, found->group()));
    BP_TRY(bp::check_open(found->group().device()));
    BP_TRY_ASSIGN(auto made, bp::ccl::DataParallel::create(found->held->group, std::move(read)));
    auto parallel = Ref<ApiDataParallel>::make(found->held, std::move(made));
    BP_TRY(bp::make_api_handle(parallel.get(), out_parallel));
    parallel.detach();
    return {};
  });
}

void bpa_ccl_data_parallel_release(bpa_ccl_data_parallel* parallel) {
  bp::release(parallel, "bpa_ccl_data_parallel_release");
}

bpa_status bpa_ccl_data_parallel_broadcast_parameters(bpa_ccl_data_parallel* parallel,
                                                      bpa_tensor* const* tensors,
                                                      uint64_t tensor_count, uint32_t root) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiDataParallel * found, find_parallel(parallel));
    const size_t expected = found->parallel().parameter_count();
    if (tensor_count != expected) {
      return bp::bad_argument("tensor_count", "is " + std::to_string(tensor_count) +
                                                  ", and there are " + std::to_string(expected) +
                                                  " parameters");
    }
    BP_TRY_ASSIGN(const auto read, bp::read_tensors(tensors, tensor_count, "tensors"));
    const uint32_t rank_count = found->parallel().group().place().rank_count;
    if (root >= rank_count) {
      return bp::bad_argument("root", "is " + std::to_string(root) + ", the group has " +
                                          std::to_string(rank_count) + " ranks");
    }
    BP_TRY(bp::check_open(found->device()));
    return found->parallel().broadcast_parameters(read, root);
  });
}

bpa_status bpa_ccl_data_parallel_get_gradient(bpa_ccl_data_parallel* parallel, uint64_t index,
                                              bpa_tensor** out_gradient) {
  return guarded(out_gradient, 1, [&]() -> Status {
    BP_TRY_ASSIGN(ApiDataParallel * found, find_parallel(parallel));
    BP_TRY(bp::check_gradient_index(*found, index));
    BP_TRY(check_pointer(out_gradient, "out_gradient"));
    BP_TRY_ASSIGN(Ref<bp::Tensor> view, found->parallel().gradient(index));
    return bp::give_tensor(std::move(view), out_gradient);
  });
}

bpa_status bpa_ccl_data_parallel_accumulate(bpa_ccl_data_parallel* parallel, uint64_t index,
                                            const bpa_tensor* gradient, bpa_stream* stream) {
  return guarded([&]() -> Status {
    BP_TRY(check_pointer(gradient, "gradient"));
    return bp::give_gradient(parallel, index, gradient, stream, &bp::ccl::DataParallel::accumulate);
  });
}

bpa_status bpa_ccl_data_parallel_ready(bpa_ccl_data_parallel* parallel, uint64_t index,
                                       const bpa_tensor* gradient, bpa_stream* stream) {
  return guarded([&]() -> Status {
    return bp::give_gradient(parallel, index, gradient, stream, &bp::ccl::DataParallel::ready);
  });
}

bpa_status bpa_ccl_data_parallel_finish(bpa_ccl_data_parallel* parallel, bpa_stream* stream) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiDataParallel * found, find_parallel(parallel));
    BP_TRY_ASSIGN(bp::Stream * queue, bp::read_stream(stream, *found));
    BP_TRY(bp::check_open(found->device()));
    return found->parallel().finish(*queue);
  });
}

bpa_status bpa_ccl_data_parallel_get_info(bpa_ccl_data_parallel* parallel,
                                          bpa_ccl_data_parallel_info* out_info) {
  return guarded([&]() -> Status {
    BP_TRY_ASSIGN(ApiDataParallel * found, find_parallel(parallel));
    const auto known = found->parallel().info();
    bpa_ccl_data_parallel_info info{};
    info.parameter_count = found->parallel().parameter_count();
    info.bucket_count = known.bucket_count;
    info.begun_count = known.begun_count;
    info.bucket_bytes = known.bucket_bytes;
    return bp::write_struct(out_info, info, "out_info");
  });
}
