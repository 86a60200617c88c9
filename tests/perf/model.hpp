// SPDX-License-Identifier: Apache-2.0
//
// A model file as a session of the public API, with inputs of ones on its device.
#ifndef BACKPLANE_TESTS_PERF_MODEL_HPP
#define BACKPLANE_TESTS_PERF_MODEL_HPP

#include "backplane/device.h"
#include "tests/perf/public_fixture.hpp"

namespace perf {

struct Model {
  Fixture fixture;
  bp::Session session;
  std::vector<std::string> names;
  std::vector<bp::Tensor> tensors;
  uint64_t output_count;
  bool queued;  // a run returns before its work is done

  explicit Model(const std::string& path, const std::string& device = "cpu:0")
      : fixture(device),
        session(bp::Session::load(fixture.runtime, path, {.device = device})),
        output_count(session.outputs().size()),
        queued(fixture.device.info().execution != BP_EXECUTION_INLINE) {
    for (const bp::Io& io : session.inputs()) {
      std::vector<int64_t> sizes = io.sizes;
      for (int64_t& size : sizes) size = size < 0 ? 1 : size;
      names.push_back(io.name);
      tensors.push_back(fixture.ones(sizes));
    }
  }
};

/// What one run needs, made before: a thread has its own.
class Run {
 public:
  explicit Run(const Model& model) : model_(model), outputs_(model.output_count) {
    for (const std::string& name : model.names) names_.push_back(name.c_str());
    for (const bp::Tensor& tensor : model.tensors) inputs_.push_back(tensor.handle());
  }
  /// Runs to the end of the work, and releases the outputs.
  void once() {
    bp::detail::check(bpa_session_run(model_.session.handle(), names_.data(), inputs_.data(),
                                      inputs_.size(), outputs_.data(), outputs_.size()));
    if (model_.queued) bp::detail::check(bpa_device_sync(model_.fixture.device.handle()));
    for (bpa_tensor* output : outputs_) bpa_tensor_release(output);
  }

 private:
  const Model& model_;
  std::vector<const char*> names_;
  std::vector<const bpa_tensor*> inputs_;
  std::vector<bpa_tensor*> outputs_;
};

}  // namespace perf

#endif
