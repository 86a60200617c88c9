// SPDX-License-Identifier: Apache-2.0
//
// A model on cpu:0 through the C API, timed in turns with peers (turns.hpp):
//   timed_session MODEL INPUTS THREADS
// INPUTS is a text file with a line for each input: its name, a file of its bytes beside it, its
// sizes. Outputs are bound where their sizes are known, as the peers' are.
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "backplane/backplane.hpp"
#include "tests/perf/turns.hpp"

namespace perf {
namespace {

struct Input {
  std::string name;
  std::string file;
  std::vector<int64_t> sizes;
};

std::vector<Input> read_list(const std::string& path) {
  std::ifstream text(path);
  if (!text) throw std::runtime_error("cannot read " + path);
  std::vector<Input> inputs;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    Input input;
    words >> input.name >> input.file;
    input.file = path.substr(0, path.rfind('/') + 1) + input.file;
    for (int64_t size = 0; words >> size;) input.sizes.push_back(size);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

bp::Tensor read_tensor(bp::Device device, uint32_t dtype, const Input& input) {
  std::ifstream file(input.file, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  bpa_tensor* handle = nullptr;
  bp::detail::check(bpa_tensor_from_host(device.handle(), dtype, input.sizes.data(),
                                         static_cast<uint32_t>(input.sizes.size()), bytes.data(),
                                         bytes.size(), &handle));
  return bp::Tensor::adopt(handle);
}

struct Model {
  bp::Session session;
  std::vector<std::string> names;
  std::vector<bp::Tensor> inputs;
  std::vector<bp::Tensor> bound;  // empty ones where the run is to allocate

  Model(const bp::Session& made, bp::Device device, const std::vector<Input>& given)
      : session(made) {
    for (const bp::Io& io : session.inputs()) {
      for (const Input& input : given) {
        if (input.name != io.name) continue;
        names.push_back(input.name);
        inputs.push_back(read_tensor(device, io.dtype, input));
      }
    }
    for (const bp::Io& io : session.outputs()) {
      bool known = true;
      for (const int64_t size : io.sizes) known = known && size >= 0;
      bound.push_back(known ? bp::Tensor::create(device, io.dtype, io.sizes) : bp::Tensor());
    }
  }

  void run() const {
    std::vector<const char*> name_pointers;
    std::vector<const bpa_tensor*> input_handles;
    std::vector<bpa_tensor*> bound_handles;
    for (const std::string& name : names) name_pointers.push_back(name.c_str());
    for (const bp::Tensor& input : inputs) input_handles.push_back(input.handle());
    for (const bp::Tensor& output : bound) bound_handles.push_back(output.handle());
    bpa_run_args args{};
    args.struct_size = sizeof(args);
    args.input_names = name_pointers.data();
    args.inputs = input_handles.data();
    args.input_count = input_handles.size();
    args.bound_outputs = bound_handles.data();
    args.bound_output_count = bound_handles.size();
    std::vector<bpa_tensor*> outputs(bound.size());
    bp::detail::check(
        bpa_session_run_with(session.handle(), &args, outputs.data(), outputs.size()));
    for (bpa_tensor* output : outputs) bpa_tensor_release(output);
  }
};

void serve(const std::string& path, const std::string& inputs, const char* threads) {
  bp::RuntimeOptions options;
  options.options = {{"cpu.threads", threads}};
  const bp::Runtime runtime = bp::Runtime::create(options);
  const auto begin = std::chrono::steady_clock::now();
  const bp::Session session = bp::Session::load(runtime, path, {.device = "cpu:0"});
  const uint64_t create_ns = nanoseconds_since(begin);
  const Model model(session, runtime.device("cpu:0"), read_list(inputs));
  const auto first = std::chrono::steady_clock::now();
  model.run();
  const uint64_t first_ns = nanoseconds_since(first);
  serve_turns(
      "\"create_ns\": " + std::to_string(create_ns) + ", \"first_ns\": " + std::to_string(first_ns),
      [&] { model.run(); });
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: timed_session MODEL INPUTS THREADS\n");
    return 2;
  }
  try {
    perf::serve(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
}
