// SPDX-License-Identifier: Apache-2.0
//
// A model file as a session on cpu:0, with inputs of ones.
#ifndef BACKPLANE_TESTS_PERF_MODEL_HPP
#define BACKPLANE_TESTS_PERF_MODEL_HPP

#include "core/execute/session.hpp"
#include "ops/onnx/import.hpp"
#include "tests/perf/support.hpp"

namespace bp {

struct Model {
  Fixture fixture;
  Ref<Session> session;
  std::vector<NamedTensor> inputs;

  explicit Model(const std::string& path, const std::vector<OptionSetting>& options = {})
      : fixture("cpu:0", options) {
    SessionArgs args;
    args.device = fixture.device;
    Graph graph = must(load_onnx(path, fixture.runtime->registry()));
    session = must(Session::create(*fixture.runtime, std::move(graph), args));
    for (const SessionIo& io : session->inputs()) {
      Dims sizes = io.sizes;
      for (int64_t& size : sizes) size = is_known(size) ? size : 1;
      inputs.emplace_back(io.name, fixture.ones(sizes));
    }
  }
};

}  // namespace bp

#endif
