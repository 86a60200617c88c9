// SPDX-License-Identifier: Apache-2.0
//
// Test program: runs cases on one device through the public API, as an application would.
//
//   case_runner DEVICE PLUGIN_DIR [NAME=VALUE]...   options of the Runtime
//
// The folders of cases (model.onnx, values: values_file.hpp) come one per line on standard input.
// Of each it prints, as soon as it is known, one line of fields with tabs between: the folder, a
// verdict, operators placed natively, decomposed, on another device and as views, launches of the
// runs on the device and on all others, the widest error in tolerances ("inf": not one of floats),
// and words. The verdicts: PASS, WRONG (values), REFUSED (UNSUPPORTED), ERROR (any other error),
// ABSENT (the device is not on this machine). A folder that is answered by nothing ended the
// process.
#include <algorithm>
#include <exception>
#include <iostream>
#include <limits>
#include <string>
#include <utility>

#include "backplane/backplane.hpp"
#include "tests/onnx/values_file.hpp"

namespace bp::tests {
namespace {

struct Answer {
  std::string verdict;
  std::string words;
  bpa_placement_info placement{};
  uint64_t launches_here = 0;
  uint64_t launches_elsewhere = 0;
  double widest = 0;
};

class CaseRunner {
 public:
  CaseRunner(const std::string& device, const RuntimeOptions& options)
      : runtime_(Runtime::create(options)), device_(runtime_.device(device)), name_(device) {}

  Answer run(const std::string& folder) const {
    Answer answer;
    auto before = launches();
    try {
      const CaseValues values = read_values(folder + "/values");
      const Session session =
          Session::load(runtime_, folder + "/model.onnx", {.device = name_, .dims = values.dims});
      before = launches();  // what only constants go into was computed once, while loading
      for (const CaseSet& set : values.sets) {
        run_set(session, set, values.tolerance, &answer);
        answer.placement = session.placement();
      }
      answer.verdict = answer.words.empty() ? "PASS" : "WRONG";
    } catch (const Error& error) {
      answer.verdict = error.status() == BP_UNSUPPORTED ? "REFUSED" : "ERROR";
      answer.words = error.what();
    } catch (const std::exception& error) {
      answer.verdict = "ERROR";
      answer.words = error.what();
    }
    const auto after = launches();
    answer.launches_here = after.first - before.first;
    answer.launches_elsewhere = after.second - before.second;
    return answer;
  }

 private:
  /// Launches so far on the device, and on all others.
  std::pair<uint64_t, uint64_t> launches() const {
    std::pair<uint64_t, uint64_t> counts{};
    for (const Device& device : runtime_.devices()) {
      const uint64_t count = device.info().launch_count;
      (device.handle() == device_.handle() ? counts.first : counts.second) += count;
    }
    return counts;
  }

  /// Looks at all outputs, also after one that differs: the widest error is that of them all.
  static void run_set(const Session& session, const CaseSet& set, const Tolerance& tolerance,
                      Answer* answer) {
    NamedTensors inputs;
    for (const CaseTensor& input : set.inputs) {
      bpa_tensor* handle = nullptr;
      detail::check(bpa_tensor_from_host(nullptr, input.dtype, input.sizes.data(),
                                         static_cast<uint32_t>(input.sizes.size()),
                                         input.bytes.data(), input.bytes.size(), &handle));
      inputs.emplace(input.name, Tensor::adopt(handle));
    }
    const NamedTensors outputs = session.run(inputs);
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    if (set.outputs.empty()) add({"the case expects no output", kInfinite}, answer);
    for (const CaseTensor& expected : set.outputs) {
      const auto found = outputs.find(expected.name);
      Difference differs{"it is not there", kInfinite};
      if (found != outputs.end()) {
        differs = difference(expected, to_case(found->second), tolerance);
      }
      if (!differs.words.empty()) {
        differs.words = "output '" + expected.name + "': " + differs.words;
      }
      add(differs, answer);
    }
  }

  /// The words are those of the first one that differs.
  static void add(const Difference& differs, Answer* answer) {
    if (answer->words.empty()) answer->words = differs.words;
    answer->widest = std::max(answer->widest, differs.widest);
  }

  static CaseTensor to_case(const Tensor& tensor) {
    CaseTensor result{.name = "", .dtype = tensor.dtype(), .sizes = tensor.sizes(), .bytes = {}};
    result.bytes.resize(tensor.info().bytes);
    detail::check(bpa_tensor_to_host(tensor.handle(), result.bytes.data(), result.bytes.size()));
    return result;
  }

  Runtime runtime_;
  Device device_;
  std::string name_;
};

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

int run_cases(const std::string& device, const RuntimeOptions& options) {
  const CaseRunner runner(device, options);
  for (std::string folder; std::getline(std::cin, folder);) {
    const Answer answer = runner.run(folder);
    const bpa_placement_info& placed = answer.placement;
    std::cout << folder << '\t' << answer.verdict << '\t' << placed.native_count << '\t'
              << placed.decomposed_count << '\t' << placed.fallback_count << '\t'
              << placed.view_count << '\t' << answer.launches_here << '\t'
              << answer.launches_elsewhere << '\t' << answer.widest << '\t'
              << one_line(answer.words) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace bp::tests

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: case_runner DEVICE PLUGIN_DIR [NAME=VALUE]...\n";
    return 2;
  }
  bp::RuntimeOptions options;
  options.install_dir = argv[2];
  for (int i = 3; i < argc; ++i) {
    const std::string option = argv[i];
    const size_t equals = option.find('=');
    if (equals == std::string::npos) {
      std::cerr << "expected NAME=VALUE, found " << option << '\n';
      return 2;
    }
    options.options[option.substr(0, equals)] = option.substr(equals + 1);
  }
  try {
    bp::set_log_level(1);
    return bp::tests::run_cases(argv[1], options);
  } catch (const bp::Error& error) {
    std::cout << "\tABSENT\t" << error.what() << std::endl;
    return error.status() == BP_UNAVAILABLE ? 77 : 1;
  }
}
