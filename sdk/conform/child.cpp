// SPDX-License-Identifier: Apache-2.0
//
// Runs cases in this process. What a case leaves behind is looked for after each: threads and files
// at once, plugin objects when the device closes.
#include "sdk/conform/child.hpp"

#include <algorithm>
#include <charconv>
#include <exception>

#include "core/device/collective_caps.hpp"
#include "sdk/conform/abi.hpp"
#include "sdk/conform/adder.hpp"
#include "sdk/conform/context.hpp"
#include "sdk/conform/device.hpp"
#include "sdk/conform/platform.hpp"
#include "sdk/conform/step.hpp"

namespace bp::conform {
namespace {

constexpr std::string_view kKindNames[] = {"begin", "end", "closed", "probe"};

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

Outcome outcome_of(const Checks& checks) {
  if (checks.check_count() == 0) return {Verdict::kFail, "the case checked nothing"};
  const std::vector<std::string> failures = checks.failures();
  if (failures.empty()) return {Verdict::kPass, {}};
  return {Verdict::kFail, joined(failures)};
}

/// Runs a case's body; an exception is a failure like any other. `calls_slots`: with nothing
/// between, so that what they throw comes here.
template <class Body>
void run_guarded(Checks& checks, bool calls_slots, Body&& body) {
  current_step().threw = nullptr;
  try {
    body();
  } catch (const Stop&) {
    return;
  } catch (const NotApplicable&) {
    throw;
  } catch (...) {
    const char* const slot = calls_slots ? current_step().threw.load() : nullptr;
    checks.fail(words(slot != nullptr ? slot : "the case",
                      " threw: ", status_of_exception().message(), current_step().words()));
  }
}

Outcome run_abi_case(const Target& target, const Case& tested) {
  auto context = std::make_unique<AbiContext>(target);
  run_guarded(*context, true, [&] { tested.abi(*context); });
  const bool left = context->is_left();
  if (!left) run_guarded(*context, true, [&] { context->close(); });
  const Outcome outcome = outcome_of(*context);
  if (left) static_cast<void>(context.release());  // the plugin may still report to it
  return outcome;
}

/// Short, since threads that a driver keeps would have every child wait for the whole of it. It
/// hides what is left behind only if a thread takes longer than that to end.
constexpr auto kFirstPatience = std::chrono::milliseconds(200);

Outcome run_device_case(const Batch& batch, OpenDevice& device, const Case& tested) {
  const auto run = [&] {
    Context context(device.table(), device.kernels(), Injection(device.plugin()), batch.patience,
                    {&device.plugin(), batch.target.device_index});
    return run_case(context, tested);
  };
  const Usage before = current_usage();
  Outcome outcome = run();
  if (const std::string why = device.why_abandoned(); !why.empty()) {
    return {Verdict::kTimeout, why};
  }
  const Usage after = settled_usage(before, kFirstPatience);
  if (outcome.verdict != Verdict::kPass || !after.exceeds(before)) return outcome;
  // Drivers make some things once, at first use. What grows again is left behind.
  outcome = run();
  const Usage again = settled_usage(after);
  if (outcome.verdict != Verdict::kPass || !again.exceeds(after)) return outcome;
  return {Verdict::kLeak, words("each run leaves more: threads ", before.thread_count, ", ",
                                after.thread_count, ", ", again.thread_count, "; files ",
                                before.file_count, ", ", after.file_count, ", ", again.file_count)};
}

void send(int results, const Message& message) { write_all(results, message.to_line()); }

/// Bits of kNeed* that a device satisfies.
uint32_t needs_met(OpenDevice& device) {
  constexpr uint64_t kSmallMemoryBytes = uint64_t{1} << 30;
  const bp_device_props& props = device.table().props;
  uint32_t needs = 0;
  if (find_adder(device.kernels()) != nullptr) needs |= kNeedAdd;
  if ((props.flags & BP_DEVICE_ADDRESS_BIT) != 0) needs |= kNeedAddress;
  if ((props.flags & BP_DEVICE_HOST_MEMORY_BIT) != 0) needs |= kNeedHostMemory;
  if (device.plugin().device_count() > 1) needs |= kNeedTwoDevices;
  if (props.memory_bytes != 0 && props.memory_bytes <= kSmallMemoryBytes) {
    needs |= kNeedSmallMemory;
  }
  // One whose answer cannot be has them, and fails their cases.
  const auto caps = ask_collective_caps(device.plugin(), device.table());
  if (!caps.ok() || caps->has_value()) needs |= kNeedCollectives;
  return needs;
}

}  // namespace

Outcome run_case(Context& context, const Case& tested) {
  try {
    run_guarded(context, false, [&] { tested.run(context); });
  } catch (const NotApplicable& nothing) {
    // What failed before that stays a failure.
    if (context.failures().empty()) return {Verdict::kUnsupported, nothing.why};
  }
  return outcome_of(context);
}

std::string Message::to_line() const {
  std::string text = conform::words(kKindNames[static_cast<size_t>(kind)], ' ', number, ' ',
                                    static_cast<int>(verdict), ' ', words);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text + '\n';
}

std::optional<Message> Message::parse(std::string_view line) {
  const auto next = [&line] {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    return word;
  };
  Message message;
  const auto kind = std::find(std::begin(kKindNames), std::end(kKindNames), next());
  if (kind == std::end(kKindNames)) return std::nullopt;
  message.kind = static_cast<Kind>(kind - std::begin(kKindNames));
  const std::string_view number = next();
  const std::string_view verdict = next();
  int verdict_number = 0;
  std::from_chars(number.data(), number.data() + number.size(), message.number);
  std::from_chars(verdict.data(), verdict.data() + verdict.size(), verdict_number);
  message.verdict = static_cast<Verdict>(verdict_number);
  message.words = std::string(line);
  return message;
}

namespace {

Result<std::unique_ptr<OpenDevice>> open(const Target& target, uint64_t masked,
                                         std::chrono::milliseconds call_timeout) {
  note_step("the start of the plugin and its device");
  return OpenDevice::open(target, masked, call_timeout);
}

}  // namespace

int run_batch(const Batch& batch, int results) {
  std::unique_ptr<OpenDevice> device;
  for (size_t i = 0; i < batch.cases.size(); ++i) {
    const Case& tested = *batch.cases[i];
    send(results, {.kind = Message::Kind::kBegin, .number = i, .words = {}});
    if (tested.run && device == nullptr) {
      auto opened = open(batch.target, batch.masked, batch.call_timeout);
      if (!opened.ok()) {
        send(results, {Message::Kind::kEnd, i, Verdict::kFail, opened.status().to_string()});
        return 0;
      }
      device = std::move(opened).value();
    }
    note_step({});
    const Outcome outcome =
        tested.abi ? run_abi_case(batch.target, tested) : run_device_case(batch, *device, tested);
    note_step({});
    send(results, {Message::Kind::kEnd, i, outcome.verdict, outcome.words});
    if (device != nullptr && !device->why_abandoned().empty()) {
      // A thread is still inside. The parent gives what is left to another child.
      static_cast<void>(device.release());
      return 0;
    }
  }
  std::vector<std::string> complaints;
  if (device != nullptr) complaints = device->close();
  send(results, {Message::Kind::kClosed, 0, complaints.empty() ? Verdict::kPass : Verdict::kLeak,
                 joined(complaints)});
  return 0;
}

int probe(const Target& target, std::chrono::milliseconds call_timeout, int results) {
  auto opened = open(target, 0, call_timeout);
  if (!opened.ok()) {
    const bp_status code = opened.status().code();
    send(results,
         {Message::Kind::kProbe, static_cast<uint64_t>(code),
          code == BP_UNAVAILABLE ? Verdict::kNotRun : Verdict::kFail, opened.status().message()});
    return 0;
  }
  const bp_str driver = opened.value()->table().props.driver;
  send(results, {Message::Kind::kProbe, opened.value()->native_features(), Verdict::kPass,
                 words(needs_met(**opened), ' ', std::string_view(driver.ptr, driver.len))});
  return 0;
}

}  // namespace bp::conform
