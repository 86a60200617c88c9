// SPDX-License-Identifier: Apache-2.0
//
// Copies go through odd offsets and sizes with a border around them, since a device that rounds to
// words damages the neighbours. Operators get values that every summation order rounds nearly
// alike.
#include "core/cli/device_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "core/cli/text.hpp"
#include "core/dispatch/call.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/op/attributes.hpp"
#include "ops/oracle/oracle.hpp"
#include "sdk/conform/case.hpp"
#include "sdk/conform/context.hpp"
#include "sdk/conform/runner.hpp"

namespace bp::cli {
namespace {

constexpr double kRelativeTolerance = 1e-4;
constexpr double kAbsoluteTolerance = 1e-5;
constexpr uint64_t kBorderBytes = 64;
constexpr std::array<uint64_t, 6> kCopyBytes = {1, 7, 64, 4095, 65537, 1048579};
constexpr std::array<uint64_t, 4> kCopyOffsets = {0, 1, 3, 13};

Status copy_there_and_back(Device& device, uint64_t bytes, uint64_t offset) {
  const uint64_t total = kBorderBytes + offset + bytes + kBorderBytes;
  Stream& stream = device.default_stream();
  BP_TRY_ASSIGN(auto storage, Storage::allocate(device, total, MemoryTag::kIo, stream));
  std::vector<unsigned char> expected(total, 0xA5);
  const bp_mem all{storage->handle(), storage->offset_bytes()};
  BP_TRY(device.copy_in(stream, all, expected.data(), total));
  const uint64_t begin = kBorderBytes + offset;
  for (uint64_t i = 0; i < bytes; ++i) {
    expected[begin + i] = static_cast<unsigned char>(i * 31 + bytes);
  }
  const bp_mem part{all.handle, all.offset_bytes + begin};
  BP_TRY(device.copy_in(stream, part, expected.data() + begin, bytes));
  std::vector<unsigned char> found(total, 0);
  BP_TRY(device.copy_out(stream, found.data(), all, total));
  std::vector<unsigned char> found_part(bytes, 0);
  BP_TRY(device.copy_out(stream, found_part.data(), part, bytes));
  std::copy(found_part.begin(), found_part.end(),
            found.begin() + static_cast<std::ptrdiff_t>(begin));
  const auto [wrong, right] = std::mismatch(found.begin(), found.end(), expected.begin());
  if (wrong == found.end()) return {};
  return Status(
      BP_INTERNAL,
      fmt::format("{} bytes at offset {}: byte {} is {}, expected {}", bytes, offset,
                  wrong - found.begin() - static_cast<std::ptrdiff_t>(begin), *wrong, *right));
}

CheckResult check_copies(Device& device) {
  CheckResult result;
  result.name = "copies";
  for (const uint64_t bytes : kCopyBytes) {
    for (const uint64_t offset : kCopyOffsets) {
      const Status status = copy_there_and_back(device, bytes, offset);
      if (status.ok()) continue;
      result.words = status.to_string();
      return result;
    }
  }
  result.state = CheckState::kOk;
  result.words =
      fmt::format("host to {} and back, {} sizes from {} to {} bytes at {} offsets", device.name(),
                  kCopyBytes.size(), kCopyBytes.front(), kCopyBytes.back(), kCopyOffsets.size());
  return result;
}

/// Multiples of 1/16 in [-1, 1], another sequence for each seed.
OracleTensor pattern(const Dims& sizes, uint32_t seed) {
  std::vector<double> values(static_cast<size_t>(element_count(sizes)));
  uint32_t state = seed;
  for (double& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<double>(state >> 27) / 16 - 1;
  }
  return OracleTensor::from_f64(BP_DTYPE_F32, sizes, values);
}

Result<RouteKind> route_of(Device& device, OpId op, const std::vector<OracleTensor>& inputs,
                           const void* attributes) {
  std::vector<ArgType> types;
  for (const OracleTensor& input : inputs) {
    types.push_back({.dtype = input.dtype,
                     .sizes = input.sizes,
                     .strides = contiguous_strides(input.sizes),
                     .offset_bytes = 0,
                     .host_data = nullptr});
  }
  BP_TRY_ASSIGN(auto route, Dispatcher::of(device).resolve(op, types, attributes));
  return route->kind;
}

Result<OracleTensor> run_on(Runtime& runtime, Device& device, OpId op,
                            const std::vector<OracleTensor>& inputs, const void* attributes) {
  std::vector<Ref<Tensor>> tensors;
  std::vector<Tensor*> pointers;
  for (const OracleTensor& input : inputs) {
    BP_TRY_ASSIGN(auto tensor, copy_from_host(device.default_stream(), input.dtype, input.sizes,
                                              input.bytes.data(), MemoryTag::kIo));
    tensors.push_back(std::move(tensor));
    pointers.push_back(tensors.back().get());
  }
  Ref<Tensor> output;
  const CallArgs args{
      .op = op, .inputs = pointers, .attributes = attributes, .stream = nullptr, .device = &device};
  BP_TRY(call(runtime, args, {&output, 1}));
  BP_TRY_ASSIGN(const HostTensor host, copy_to_host(output));
  return oracle_tensor(host);
}

Status check_values(const OracleTensor& found, const OracleTensor& expected) {
  if (!(found.sizes == expected.sizes)) {
    return Status(BP_INTERNAL, "the result is " + to_string(found.sizes) + ", expected " +
                                   to_string(expected.sizes));
  }
  const std::vector<double> a = found.to_f64();
  const std::vector<double> b = expected.to_f64();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) <= kAbsoluteTolerance + kRelativeTolerance * std::abs(b[i])) continue;
    return Status(BP_INTERNAL,
                  fmt::format("wrong result: element {} is {}, expected {}", i, a[i], b[i]));
  }
  return {};
}

struct OperatorCase {
  std::string op;
  std::vector<OracleTensor> inputs;
  Attributes attributes;
  std::string words;
};

Status check_against_oracle(Runtime& runtime, Device& device, const OperatorCase& check,
                            CheckResult* out_result) {
  const auto op = runtime.registry().find(check.op);
  if (!op) return Status(BP_UNSUPPORTED, "there is no operator " + check.op);
  const void* attributes = check.attributes.data();
  BP_TRY_ASSIGN(const RouteKind kind, route_of(device, *op, check.inputs, attributes));
  out_result->placement = route_name(kind);
  BP_TRY_ASSIGN(const OracleTensor found, run_on(runtime, device, *op, check.inputs, attributes));
  std::vector<OracleTensor> expected;
  BP_TRY(evaluate(runtime.registry().schema(*op), check.inputs, attributes, &expected));
  return check_values(found, expected.front());
}

CheckResult check_operator(Runtime& runtime, Device& device, const Result<OperatorCase>& check,
                           std::string name) {
  CheckResult result;
  result.name = std::move(name);
  const Status status =
      check.ok() ? check_against_oracle(runtime, device, *check, &result) : check.status();
  result.state = status.ok()                       ? CheckState::kOk
                 : status.code() == BP_UNSUPPORTED ? CheckState::kUnsupported
                                                   : CheckState::kFailed;
  // How it would have run: the dispatcher knows a fallback also where BACKPLANE_FALLBACK denies it.
  if (result.state == CheckState::kUnsupported) result.placement.clear();
  result.words = status.ok() ? check->words : status.to_string();
  return result;
}

Result<OperatorCase> matmul_case(const OpRegistry& registry) {
  const auto op = registry.find("matmul");
  if (!op) return Status(BP_UNSUPPORTED, "there is no operator matmul");
  return OperatorCase{"matmul",
                      {pattern({17, 33}, 1), pattern({33, 9}, 2)},
                      Attributes(registry.schema(*op)),
                      "[17, 33] x [33, 9], f32, as the oracle"};
}

Result<OperatorCase> conv_case(const OpRegistry& registry) {
  const auto op = registry.find("conv");
  if (!op) return Status(BP_UNSUPPORTED, "there is no operator conv");
  Attributes attributes(registry.schema(*op));
  BP_TRY(attributes.set_i64s("pads", std::array<int64_t, 4>{1, 1, 1, 1}));
  BP_TRY(attributes.set_i64s("strides", std::array<int64_t, 2>{1, 2}));
  return OperatorCase{"conv",
                      {pattern({2, 3, 9, 8}, 3), pattern({4, 3, 3, 3}, 4), pattern({4}, 5)},
                      std::move(attributes),
                      "[2, 3, 9, 8] * [4, 3, 3, 3] + bias, f32, as the oracle"};
}

/// One line for doctor's table: of each case, which may have failed in many ways, the beginning.
std::string join_first(const std::vector<std::string>& failures) {
  constexpr size_t kShown = 3;
  constexpr size_t kBytesOfEach = 240;
  std::string text;
  for (size_t i = 0; i < std::min(failures.size(), kShown); ++i) {
    text += (i == 0 ? "" : "; ") + shortened(failures[i], kBytesOfEach);
  }
  return failures.size() > kShown ? text + "; ..." : text;
}

/// "7 kernels", or "5 of 7 kernels" where cases ran no other: none of them says anything of those.
std::string tried_words(size_t tried, size_t known) {
  const std::string all = count_text(known, "kernel");
  return tried < known ? fmt::format("{} of {}", tried, all) : all;
}

/// The kit's brief cases of level 3, in this process, in one dtype of each operator: what is wrong
/// with a kernel shows here, also where no operator above happened to use it.
CheckResult check_kernels(Device& device, const BeginCheck& begin) {
  constexpr std::chrono::seconds kPatience(5);
  constexpr size_t kEnough = 8;  // failures: each may be a wait that ran out
  conform::CaseList list;
  conform::add_kernel_cases(&list);
  const KernelList& kernels = Dispatcher::of(device).kernels();
  size_t passed = 0;
  std::set<std::string> launched;
  std::vector<std::string> failures;
  for (const conform::Case& tested : list.cases()) {
    if (!tested.brief || failures.size() >= kEnough) continue;
    begin(tested.id);
    conform::Context context(device.table(), kernels, conform::Injection(), kPatience);
    const conform::Outcome outcome = conform::run_case(context, tested);
    launched.insert(context.launched().begin(), context.launched().end());
    if (outcome.verdict == conform::Verdict::kUnsupported) continue;
    if (outcome.verdict == conform::Verdict::kPass) {
      ++passed;
    } else {
      failures.push_back(fmt::format("{}: {}", tested.id, outcome.words));
    }
  }
  const auto is_known = [&](const KernelRecord& record) {
    return device.runtime().registry().find(record.op).has_value();
  };
  const auto known =
      static_cast<size_t>(std::count_if(kernels.kernels.begin(), kernels.kernels.end(), is_known));
  CheckResult result;
  result.name = "kernels";
  if (known > 0 && launched.empty() && failures.empty()) {
    result.state = CheckState::kUnsupported;
    result.words =
        fmt::format("none of {} took a call that was tried; bp-conform --level 3 tells why",
                    count_text(known, "kernel"));
    return result;
  }
  result.state = failures.empty() ? CheckState::kOk : CheckState::kFailed;
  result.words =
      failures.empty()
          ? fmt::format(
                "{} in {} cases, as the oracle{}", tried_words(launched.size(), known), passed,
                known == kernels.kernels.size() ? "" : "; the rest is for unknown operators")
          : fmt::format("{}{} failed, {} passed: {}", failures.size() < kEnough ? "" : "at least ",
                        count_text(failures.size(), "case"), passed, join_first(failures));
  return result;
}

}  // namespace

std::string_view check_state_name(CheckState state) {
  if (state == CheckState::kOk) return "ok";
  return state == CheckState::kUnsupported ? "unsupported" : "FAILED";
}

std::vector<CheckResult> check_device(Runtime& runtime, Device& device, const BeginCheck& begin) {
  std::vector<CheckResult> results;
  const auto check = [&](const char* name, auto make) {
    begin(name);
    const Result<CheckResult> made = contain([&]() -> Result<CheckResult> { return make(); });
    if (made.ok()) {
      results.push_back(*made);
    } else {
      CheckResult failed;
      failed.name = name;
      failed.state = CheckState::kFailed;
      failed.words = made.status().to_string();
      results.push_back(std::move(failed));
    }
    // What one check broke is not the next one's fault.
    Stream& stream = device.default_stream();
    if (!stream.is_healthy()) static_cast<void>(stream.reset());
  };
  check("copies", [&] { return check_copies(device); });
  const OpRegistry& registry = runtime.registry();
  check("matmul", [&] { return check_operator(runtime, device, matmul_case(registry), "matmul"); });
  check("conv", [&] { return check_operator(runtime, device, conv_case(registry), "conv"); });
  check("kernels", [&] { return check_kernels(device, begin); });
  const LoadedPlugin& plugin = device.plugin();
  for (CheckResult& result : results) {
    if (result.state != CheckState::kFailed) continue;
    result.next_action = fmt::format(
        "Report this to the makers of plugin {} {} ({}), or take it "
        "out of the plugin folder.",
        plugin.id(), plugin.manifest().version, plugin.path());
  }
  return results;
}

}  // namespace bp::cli
