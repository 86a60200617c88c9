// SPDX-License-Identifier: Apache-2.0
//
// Classifies 360 handwritten digits that the model has never seen, on every device there is, and
// checks that all devices see the same digits at every batch size. It uses the public API and
// nothing else.
//   digits [--device NAME]... FOLDER
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backplane/backplane.hpp"
#include "npz.hpp"

namespace {

constexpr int64_t kImageSize = 8;
constexpr int64_t kPixelCount = kImageSize * kImageSize;
constexpr int64_t kClassCount = 10;
constexpr double kAccuracyGoal = 0.97;
constexpr int kExitFailed = 1, kExitUsage = 2, kExitEnvironment = 3, kExitInput = 4,
              kExitDevice = 5;

struct Arguments {
  std::string folder;
  std::vector<std::string> devices{"cpu:0", "npu:0", "xpu:0"};
  bool chosen = false;  // then a device that is not here is an error
};

struct Digits {
  std::vector<float> images;
  std::vector<int64_t> labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

struct Predictions {
  std::vector<int64_t> digits;
  double image_ns = 0;  // median over the repeats, per image
};

struct DeviceResult {
  std::string device;
  Predictions one_by_one;
  Predictions all_at_once;
  bpa_placement_info placement{};
};

struct Outcome {
  std::vector<DeviceResult> results;
  std::vector<std::string> not_here;
};

Digits read_digits(const std::string& folder) {
  const NpzFile file(folder + "/heldout.npz");
  Digits digits{file.read<float>("image", "<f4"), file.read<int64_t>("label", "<i8")};
  if (digits.count() == 0 || digits.images.size() != digits.labels.size() * kPixelCount) {
    throw std::runtime_error(folder + "/heldout.npz: images and labels do not fit each other");
  }
  return digits;
}

/// The most probable class of each image.
void append_classes(const std::vector<float>& probabilities, std::vector<int64_t>* out_digits) {
  for (auto row = probabilities.begin(); row != probabilities.end(); row += kClassCount) {
    out_digits->push_back(std::max_element(row, row + kClassCount) - row);
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Time from pixels on the host to probabilities on the host.
double run_batch(const bp::Session& session, std::span<const float> pixels,
                 std::vector<float>* out_probabilities) {
  const auto count = static_cast<int64_t>(pixels.size()) / kPixelCount;
  const std::array<int64_t, 4> sizes{count, 1, kImageSize, kImageSize};
  const auto begin = std::chrono::steady_clock::now();
  const auto image = bp::Tensor::from_host<float>(bp::Device(), pixels, sizes);
  *out_probabilities = session.run({{"image", image}}).at("probabilities").to_vector<float>();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

Predictions classify(const bp::Session& session, const Digits& digits, int64_t batch,
                     int repeat_count) {
  Predictions predictions;
  std::vector<double> times_ns;
  const auto batch_pixels = static_cast<size_t>(batch * kPixelCount);
  std::vector<float> probabilities;
  // The first run of a shape makes its plan.
  run_batch(session, std::span(digits.images).first(batch_pixels), &probabilities);
  for (int repeat = 0; repeat < repeat_count; ++repeat) {
    predictions.digits.clear();
    for (size_t at = 0; at < digits.images.size(); at += batch_pixels) {
      const auto pixels = std::span(digits.images).subspan(at, batch_pixels);
      times_ns.push_back(run_batch(session, pixels, &probabilities) / static_cast<double>(batch));
      append_classes(probabilities, &predictions.digits);
    }
  }
  predictions.image_ns = median(times_ns);
  return predictions;
}

DeviceResult run_device(const bp::Runtime& runtime, const std::string& device,
                        const std::string& folder, const Digits& digits) {
  const auto session = bp::Session::load(runtime, folder + "/digits.onnx", {.device = device});
  DeviceResult result;
  result.device = device;
  result.one_by_one = classify(session, digits, 1, 1);
  result.all_at_once = classify(session, digits, digits.count(), 5);
  result.placement = session.placement();
  return result;
}

size_t count_right(const Predictions& predictions, const Digits& digits) {
  size_t right = 0;
  for (size_t i = 0; i < digits.labels.size(); ++i) {
    right += predictions.digits[i] == digits.labels[i] ? 1 : 0;
  }
  return right;
}

size_t count_same(const Predictions& a, const Predictions& b) {
  size_t same = 0;
  for (size_t i = 0; i < a.digits.size(); ++i) same += a.digits[i] == b.digits[i] ? 1 : 0;
  return same;
}

// --- What is printed

bool terminal_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return std::strstr(value, "UTF-8") != nullptr || std::strstr(value, "utf8") != nullptr;
  }
  return false;
}

/// One row of pixels, two characters each, since characters are twice as high as wide.
std::string draw_row(const float* pixels, bool utf8) {
  static constexpr std::array<const char*, 5> kShades{"  ", "░░", "▒▒", "▓▓", "██"};
  static constexpr std::array<const char*, 5> kPlain{"  ", "..", "::", "%%", "@@"};
  std::string row;
  for (int64_t x = 0; x < kImageSize; ++x) {
    const auto shade = static_cast<size_t>(std::clamp(pixels[x] * 4.99f, 0.0f, 4.0f));
    row += utf8 ? kShades[shade] : kPlain[shade];
  }
  return row;
}

/// The first images of different digits that were read right, and one that was not, if there is
/// any.
std::vector<size_t> choose_images(const Predictions& predictions, const Digits& digits) {
  constexpr size_t kShown = 4;
  std::vector<size_t> shown;
  std::optional<size_t> wrong;
  std::array<bool, kClassCount> seen{};
  for (size_t i = 0; i < digits.labels.size(); ++i) {
    const bool is_right = predictions.digits[i] == digits.labels[i];
    if (!is_right && !wrong) wrong = i;
    const auto label = static_cast<size_t>(std::clamp<int64_t>(digits.labels[i], 0, 9));
    if (!is_right || seen[label] || shown.size() == kShown) continue;
    seen[label] = true;
    shown.push_back(i);
  }
  if (wrong && !shown.empty()) shown.back() = *wrong;
  return shown;
}

void draw_images(const DeviceResult& result, const Digits& digits) {
  const bool utf8 = terminal_is_utf8();
  const std::vector<size_t> shown = choose_images(result.all_at_once, digits);
  for (int64_t y = 0; y < kImageSize; ++y) {
    std::string line;
    for (const size_t image : shown) {
      const auto offset = static_cast<int64_t>(image) * kPixelCount + y * kImageSize;
      line += "  " + draw_row(digits.images.data() + offset, utf8) + " ";
    }
    std::printf("%s\n", line.c_str());
  }
  std::string captions;
  for (const size_t image : shown) {
    const int64_t seen = result.all_at_once.digits[image], label = digits.labels[image];
    std::string caption = "  reads " + std::to_string(seen) +
                          (seen == label ? ", right" : ", is " + std::to_string(label));
    caption.resize(2 * kImageSize + 3, ' ');
    captions += caption;
  }
  std::printf("%s\n\n", captions.c_str());
}

std::string time_text(double nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f us", nanoseconds / 1e3);
  return text;
}

void print_row(const DeviceResult& result, const Predictions& first, const Digits& digits) {
  const size_t total = digits.labels.size();
  const size_t right = count_right(result.all_at_once, digits);
  const size_t same = count_same(result.all_at_once, first);
  const std::string agreement = std::to_string(same) + "/" + std::to_string(total);
  const bpa_placement_info& placement = result.placement;
  std::printf("  %-6s %6.2f %%  %8s %9s %9s  %6llu %10llu %8llu %4llu\n", result.device.c_str(),
              100.0 * static_cast<double>(right) / static_cast<double>(total), agreement.c_str(),
              time_text(result.one_by_one.image_ns).c_str(),
              time_text(result.all_at_once.image_ns).c_str(),
              static_cast<unsigned long long>(placement.native_count),
              static_cast<unsigned long long>(placement.decomposed_count),
              static_cast<unsigned long long>(placement.fallback_count),
              static_cast<unsigned long long>(placement.view_count));
}

void print_table(const Outcome& outcome, const Digits& digits) {
  const std::string batch = "batch " + std::to_string(digits.count());
  std::printf("                              time per image  how the model's operators run\n");
  std::printf("  device accuracy    agrees %9s %9s  native decomposed fallback view\n", "batch 1",
              batch.c_str());
  for (const DeviceResult& result : outcome.results) {
    print_row(result, outcome.results.front().all_at_once, digits);
  }
  for (const std::string& device : outcome.not_here) {
    std::printf("  %-6s not on this machine; `backplane doctor` tells why\n", device.c_str());
  }
}

/// Says what is not as it must be; the exit code.
int judge(const Outcome& outcome, const Digits& digits) {
  int exit_code = 0;
  const DeviceResult& first = outcome.results.front();
  for (const DeviceResult& result : outcome.results) {
    for (const Predictions* predictions : {&result.one_by_one, &result.all_at_once}) {
      const bool one = predictions == &result.one_by_one;
      const size_t right = count_right(*predictions, digits);
      if (static_cast<double>(right) < kAccuracyGoal * static_cast<double>(digits.count())) {
        std::printf("WRONG: %s reads only %zu of %zu digits right%s; %.0f %% are expected\n",
                    result.device.c_str(), right, digits.labels.size(),
                    one ? " one by one" : " at once", 100 * kAccuracyGoal);
        exit_code = kExitFailed;
      }
      const size_t same = count_same(*predictions, first.all_at_once);
      if (same != digits.labels.size()) {
        std::printf("WRONG: %s%s reads %zu digits in another way than %s\n", result.device.c_str(),
                    one ? ", one by one," : "", digits.labels.size() - same, first.device.c_str());
        exit_code = kExitFailed;
      }
    }
  }
  if (exit_code == 0) {
    std::printf("Every device reads the same digits, one by one and all at once.\n");
  }
  return exit_code;
}

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--device" && i + 1 < argc) {
      if (!arguments.chosen) arguments.devices.clear();
      arguments.chosen = true;
      arguments.devices.emplace_back(argv[++i]);
    } else if (argument.starts_with("-") || !arguments.folder.empty()) {
      return std::nullopt;
    } else {
      arguments.folder = argument;
    }
  }
  if (arguments.folder.empty()) return std::nullopt;
  return arguments;
}

bp::Runtime open_runtime() {
  bp::RuntimeOptions options;
  // The table counts the fallbacks; a warning for each would come on top.
  if (std::getenv("BACKPLANE_FALLBACK") == nullptr) {
    options.options["BACKPLANE_FALLBACK"] = "allow";
  }
  return bp::Runtime::create(options);
}

bool has_device(const bp::Runtime& runtime, const std::string& name) {
  for (const bp::Device& device : runtime.devices()) {
    if (device.name() == name) return true;
  }
  return false;
}

int run(const Arguments& arguments) {
  const bp::Runtime runtime = open_runtime();
  const Digits digits = read_digits(arguments.folder);
  std::printf("%lld handwritten digits that the model has never seen\n\n",
              static_cast<long long>(digits.count()));
  Outcome outcome;
  for (const std::string& device : arguments.devices) {
    if (!arguments.chosen && !has_device(runtime, device)) {
      outcome.not_here.push_back(device);
      continue;
    }
    outcome.results.push_back(run_device(runtime, device, arguments.folder, digits));
  }
  if (outcome.results.empty()) {
    std::fprintf(stderr, "digits: none of these devices is here; `backplane doctor` tells why\n");
    return kExitEnvironment;
  }
  draw_images(outcome.results.front(), digits);
  print_table(outcome, digits);
  std::printf("\n");
  return judge(outcome, digits);
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    std::fputs(
        "usage: digits [--device NAME]... FOLDER\n"
        "FOLDER holds digits.onnx and heldout.npz.\n",
        stderr);
    return kExitUsage;
  }
  try {
    return run(*arguments);
  } catch (const bp::Error& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return kExitDevice;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return kExitInput;
  }
}
