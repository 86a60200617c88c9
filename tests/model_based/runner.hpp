// SPDX-License-Identifier: Apache-2.0
//
// Makes the calls of a sequence on a real device, gives each answer to the model, and compares
// whatever the host is entitled to know at that moment.
#ifndef BACKPLANE_TESTS_MODEL_BASED_RUNNER_HPP
#define BACKPLANE_TESTS_MODEL_BASED_RUNNER_HPP

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/model_based/model.hpp"
#include "tests/model_based/target.hpp"

namespace bp::model {

struct Mismatch {
  size_t step = 0;  // its index; the number of steps: found at the end
  std::string what;
};

class Runner {
 public:
  explicit Runner(Target& target)
      : target_(target), table_(target.table()), model_(target.traits()) {}
  ~Runner() { clean_up(); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Once per Runner. Steps that are not legal when their turn comes are skipped.
  std::optional<Mismatch> run(std::span<const Step> steps);
  uint64_t executed_count() const { return executed_count_; }
  /// How many bytes had an expected value when they were looked at.
  uint64_t compared_byte_count() const { return compared_byte_count_; }

 private:
  /// Behind the user pointer of a host call.
  struct HostCall {
    Runner* runner;
    int token;
    bool slow;
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
    uint64_t value = 0;
    size_t bytes = 0;
    std::vector<uint8_t> expected, known;  // at source, in the stream's order
    std::vector<uint8_t> seen;
    std::vector<size_t> positions;  // when it was called, among all calls; log_mutex_
    bp_status status = BP_OK;       // log_mutex_
  };
  /// Behind a memory slot.
  struct Memory {
    uint64_t handle = 0;  // of device memory, or the address
    std::unique_ptr<std::byte[]> plain;
    void* mapped = nullptr;
  };

  // Each answers what is wrong; empty: nothing.
  std::string execute(const Step& step);
  std::string create(const Step& step);
  std::string destroy(const Step& step);
  std::string sync_stream(const Step& step);
  std::string sync_event(const Step& step);
  std::string elapsed(const Step& step);
  std::string allocate(const Step& step);
  std::string free(const Step& step);
  std::string map(const Step& step);
  std::string unmap(const Step& step);
  std::string transfer(const Step& step);
  std::string host_call(const Step& step);
  std::string launch(const Step& step);
  std::string accept(const Step& step, bp_status status, int token = kNone);
  std::string judge_stream(int slot, bp_status status, bool waited);
  std::string judge_event(int slot, bp_status status, bool waited);

  std::string compare_finished();
  std::string compare_host_call(const HostCall& call, const Work& work);
  std::string compare_states();
  std::string compare_host_memory();
  std::string compare_device_memory();
  std::string compare_bytes(int slot, const std::byte* found, uint64_t begin, uint64_t end);
  std::string compare_all();
  std::string finish();
  void clean_up();

  // What a query answers where the work is over. It may lag for a moment behind a wait by another
  // handle: an event is told before its stream has counted it.
  bp_status query_over(bp_stream* stream) const;
  bp_status query_over(bp_event* event) const;

  static void on_host_call(void* user, bp_status status);
  bp_mem mem(const Place& place) const;
  std::byte* address(const Place& place) const;

  Target& target_;
  const DeviceTable& table_;
  Model model_;
  uint64_t executed_count_ = 0;
  uint64_t compared_byte_count_ = 0;
  bool waited_ = false;  // the latest step waited or asked: there may be something to compare

  std::array<bp_stream*, kStreamSlots> streams_{};
  std::array<bp_event*, kEventSlots> events_{};
  std::array<Memory, kMemorySlots> memories_;
  std::vector<std::unique_ptr<HostCall>> host_calls_;     // by token; null: the token is a launch's
  std::vector<std::weak_ptr<const void>> launch_tokens_;  // by token
  std::vector<std::pair<Work, size_t>> done_calls_;       // with their positions

  std::mutex log_mutex_;
  size_t call_count_ = 0;
};

}  // namespace bp::model

#endif
