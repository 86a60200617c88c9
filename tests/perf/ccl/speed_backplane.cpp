// SPDX-License-Identifier: Apache-2.0
//
// Backplane's side: speed_backplane PREFIX RANK [LIBRARY]. Ranks meet in the file PREFIX.store.
// With the engine's library they also exchange messages by that alone.
#include <cstdio>
#include <optional>
#include <vector>

#include "backplane/backplane.hpp"
#include "tests/perf/ccl/direct_exchange.hpp"
#include "tests/perf/ccl/speed_rank.hpp"

namespace {

/// Memory of the program, as a tensor.
class Memory {
 public:
  explicit Memory(const bp::Device& device) : device_(device) {}
  float* get(uint64_t count) {
    if (values_.size() == count) return values_.data();
    tensor_ = bp::Tensor();
    values_ = std::vector<float>(count);
    tensor_ = bp::Tensor::wrap_host(device_, values_, {static_cast<int64_t>(count)});
    return values_.data();
  }
  const bp::Tensor& tensor() const { return tensor_; }

 private:
  bp::Device device_;
  std::vector<float> values_;
  bp::Tensor tensor_;
};

/// The text of the other rank, of two; at most kMost bytes.
std::string swap_texts(const bp::ccl::Group& group, const bp::Device& device,
                       const std::string& text) {
  constexpr size_t kMost = 4096;
  const auto size = static_cast<uint32_t>(text.size());
  if (size + sizeof(size) > kMost) throw std::runtime_error("too long a text to swap");
  std::vector<uint8_t> own(kMost);
  std::memcpy(own.data(), &size, sizeof(size));
  std::memcpy(own.data() + sizeof(size), text.data(), size);
  const auto send = bp::Tensor::from_host<uint8_t>(device, own, {int64_t{kMost}});
  const auto recv = bp::Tensor::create(device, send.dtype(), {2 * int64_t{kMost}});
  group.all_gather(send, recv);
  const std::vector<uint8_t> all = recv.to_vector<uint8_t>();
  const uint8_t* const other = all.data() + (group.rank() == 0 ? kMost : 0);
  uint32_t other_size = 0;
  std::memcpy(&other_size, other, sizeof(other_size));
  return std::string(reinterpret_cast<const char*>(other) + sizeof(other_size), other_size);
}

/// What all_reduce of two ranks exchanges, and no more than that.
double time_exchange(perf::DirectExchange& direct, const bp::ccl::Group& group, uint64_t bytes,
                     uint64_t iterations) {
  const uint64_t count = bytes / sizeof(float);
  std::vector<float> sent(count);
  std::vector<float> received(count);
  for (uint64_t i = 0; i < count; ++i) sent[i] = perf::value_of(i, group.rank());
  const auto once = [&] { direct.run(sent.data(), received.data(), bytes); };
  for (uint64_t i = 0; i < 1 + iterations / 10; ++i) once();  // warm
  direct.flush();
  std::fill(received.begin(), received.end(), 0.0f);
  group.barrier();
  const double each = perf::nanoseconds_of(iterations, once);
  direct.flush();
  const auto check = [&] {
    once();
    direct.flush();
  };
  perf::check_calls(
      sent.data(), received.data(), count, group.rank(), check,
      [&](uint64_t i, uint64_t turn) { return perf::value_of(i, 1 - group.rank(), turn); });
  return each;
}

void run(const std::string& prefix, uint32_t rank, const char* library) {
  auto runtime = bp::Runtime::create();
  const bp::Device device = runtime.device("cpu:0");
  const auto group = bp::ccl::Group::create(
      device,
      {.store = bp::ccl::Store::file(prefix + ".store", "speed"), .rank = rank, .rank_count = 2});
  std::optional<perf::DirectExchange> direct;
  if (library != nullptr) {
    direct.emplace(library,
                   [&](const std::string& text) { return swap_texts(group, device, text); });
  }
  // After the threads of kernels were made, which may run anywhere.
  perf::pin_to_processor(rank);
  Memory sent(device);
  Memory received(device);
  auto commands = perf::commands_of(
      {.send = [&](uint64_t count) { return sent.get(count); },
       .recv = [&](uint64_t count) { return received.get(count); },
       .all_reduce = [&](uint64_t) { group.all_reduce(sent.tensor(), received.tensor()); },
       .barrier = [&] { group.barrier(); }},
      rank);
  if (direct) {
    commands["exchange"] = [&](uint64_t bytes, uint64_t iterations) {
      return time_exchange(*direct, group, bytes, iterations);
    };
  }
  perf::serve(commands, prefix, rank);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3 && argc != 4) throw std::runtime_error("expected PREFIX, RANK and [LIBRARY]");
  run(argv[1], static_cast<uint32_t>(std::stoul(argv[2])), argc == 4 ? argv[3] : nullptr);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "speed_backplane: %s\n", error.what());
  return 1;
}
