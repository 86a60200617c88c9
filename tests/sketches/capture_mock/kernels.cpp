// SPDX-License-Identifier: Apache-2.0
//
// A recorded launch keeps what a launch has to copy anyway (law 13), and points to what the core
// keeps alive: plan, state, attributes.
#include "tests/sketches/capture_mock/kernels.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/sketches/capture_mock/recorder.hpp"

namespace bp::sketch {
namespace {

struct RecordingKernel {
  bp_kernel descriptor;  // first: the core hands back its address
  const bp_kernel* original;
};

const RecordingKernel& recording(const bp_kernel* descriptor) {
  return *reinterpret_cast<const RecordingKernel*>(descriptor);
}

class RecordedLaunch {
 public:
  explicit RecordedLaunch(const bp_launch_args& args) : args_(args) {
    const size_t count = size_t{args.input_count} + args.output_count;
    tensors_.assign(args.tensors, args.tensors + count);
    dims_.resize(count * 2);
    for (size_t i = 0; i < count; ++i) {
      bp_tensor& tensor = tensors_[i];
      if ((tensor.flags & BP_TENSOR_HOST_BIT) != 0) {
        sdk::fail(BP_UNSUPPORTED, "launch: the mock captures no host arguments");
      }
      std::copy_n(tensor.sizes, tensor.rank, dims_[2 * i].begin());
      std::copy_n(tensor.strides, tensor.rank, dims_[2 * i + 1].begin());
      tensor.sizes = dims_[2 * i].data();
      tensor.strides = dims_[2 * i + 1].data();
    }
    args_.tensors = tensors_.data();
    args_.kernel = recording(args.kernel).original;
    args_.stream = nullptr;  // it plays on the thread of the stream that the capture is launched on
  }
  RecordedLaunch(const RecordedLaunch&) = delete;
  RecordedLaunch& operator=(const RecordedLaunch&) = delete;

  bp_status play(const Play& play, uint64_t launch_index) const {
    bp_launch_args args = args_;
    args.op_seq = play.op_seq + launch_index;
    if (args.fault.handle != 0) args.fault = play.fault;
    return args.kernel->launch(&args);
  }

 private:
  bp_launch_args args_;
  std::vector<bp_tensor> tensors_;
  std::vector<std::array<int64_t, BP_MAX_RANK>> dims_;
};

bp_status record_or_launch(const bp_launch_args* args) {
  if (args == nullptr || !BP_SDK_HAS(args, out_extents)) return BP_INVALID_ARGUMENT;
  const bp_launch_args wanted = sdk::read_args(args);
  return sdk::slot("launch", wanted.device, {wanted.kernel, wanted.tensors}, [&]() -> bp_status {
    const auto capture = Recorder::instance().of(wanted.stream);
    if (capture == nullptr) {
      bp_launch_args original = wanted;
      original.kernel = recording(wanted.kernel).original;
      return original.kernel->launch(&original);
    }
    const auto launch = std::make_shared<const RecordedLaunch>(wanted);
    CaptureNode node;
    node.what = "launch " + std::string(sdk::view(wanted.kernel->name));
    node.is_launch = true;
    node.play = [launch](const Play& play, uint64_t index) { return launch->play(play, index); };
    capture->add(wanted.stream, std::move(node));
    return BP_OK;
  });
}

/// Every device of the mock has the same kernels, so one list serves them.
const std::vector<const bp_kernel*>& recording_kernels() {
  static const auto kernels = [] {
    const std::vector<const bp_kernel*> originals = sdk::all_kernels();
    auto list =
        std::make_unique<std::pair<std::vector<RecordingKernel>, std::vector<const bp_kernel*>>>();
    for (const bp_kernel* original : originals) {
      // Left to the host device: what runs elsewhere waits, and waits cannot be captured.
      if (sdk::view(original->op) == "reduce_l1") continue;
      list->first.push_back({*original, original});
      list->first.back().descriptor.launch = record_or_launch;
    }
    for (const RecordingKernel& kernel : list->first) list->second.push_back(&kernel.descriptor);
    return list;
  }();
  return kernels->second;
}

bp_status kernel_list(bp_device* device, bp_kernel_list* out_list) {
  return sdk::slot("kernel_list", device, {out_list}, [&] {
    const std::vector<const bp_kernel*>& kernels = recording_kernels();
    const bp_kernel_list list = {.struct_size = sizeof(bp_kernel_list),
                                 .flags = 0,
                                 .kernels = kernels.data(),
                                 .kernel_count = kernels.size()};
    sdk::write_out(out_list, list);
  });
}

}  // namespace

constinit const bp_kernel_api kRecordingKernels = {
    .struct_size = sizeof(bp_kernel_api), .flags = 0, .kernel_list = kernel_list};

}  // namespace bp::sketch
