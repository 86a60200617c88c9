// SPDX-License-Identifier: Apache-2.0
//
// Messages between two ranks by the table of an engine's library alone: what is left of an
// operation without the core. The library is the one that groups of this process use, if it is the
// one at the path.
#ifndef BACKPLANE_TESTS_PERF_CCL_DIRECT_EXCHANGE_HPP
#define BACKPLANE_TESTS_PERF_CCL_DIRECT_EXCHANGE_HPP

#include <dlfcn.h>

#include <array>
#include <deque>
#include <functional>
#include <stdexcept>
#include <string>

#include "ccl/engine/abi/engine_abi.h"
#include "tests/perf/ccl/speed_rank.hpp"

namespace perf {

class DirectExchange {
 public:
  /// swap: gives the other rank's text for this rank's.
  DirectExchange(const std::string& path,
                 const std::function<std::string(const std::string&)>& swap)
      : api_(open(path)), inbox_(make_inbox()) {
    const bp_engine_args args{.interface_name = "", .uses_shared_memory = 1};
    bp_engine_words words{};
    check(api_.create(&args, &engine_, &words), words);
    const void* bytes = nullptr;
    uint64_t count = 0;
    api_.address(engine_, &bytes, &count);
    const std::string other = swap(std::string(static_cast<const char*>(bytes), count));
    check(api_.connect(engine_, kPeer, other.data(), other.size(), &words), words);
  }
  ~DirectExchange() { api_.destroy(engine_); }
  DirectExchange(const DirectExchange&) = delete;
  DirectExchange& operator=(const DirectExchange&) = delete;

  /// Sends these bytes, and waits for as many of the other rank.
  void run(const void* send, void* recv, uint64_t bytes) {
    pending_ = 0;
    // The size of the headers of groups (ccl/group/message.hpp), and the byte of their proof.
    constexpr std::array<char, 72 + 1> kHeader{};
    note(api_.send(engine_, kPeer, kHeader.data(), kHeader.size(), send, bytes, this));
    while (arrived_.empty()) progress();
    const auto [token, arrived_bytes] = arrived_.front();
    arrived_.pop_front();
    if (arrived_bytes != bytes) throw std::runtime_error("the other rank sent another size");
    note(api_.receive(engine_, token, recv, this));
    while (pending_ > 0) progress();
  }
  /// What was sent leaves: the other rank waits for it, and this end is not driven now.
  void flush() {
    while (api_.has_unsent(engine_) != 0) progress();
  }

 private:
  struct Arrived {
    uint64_t token;
    uint64_t bytes;
  };
  static constexpr uint32_t kPeer = 1;  // what this end calls the other one

  static const bp_engine_api& open(const std::string& path) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto* const abi = static_cast<const uint32_t*>(dlsym(library, "bp_engine_abi"));
    if (abi == nullptr || *abi != BP_ENGINE_ABI) {
      throw std::runtime_error(path + " has another table than this program was built with");
    }
    using Open = int32_t (*)(const bp_engine_host*, bp_engine_words*, const bp_engine_api**);
    static constexpr bp_engine_host kHost{.log = [](uint32_t, const char*) {}};
    bp_engine_words words{};
    const bp_engine_api* api = nullptr;
    check(reinterpret_cast<Open>(dlsym(library, "bp_engine_open"))(&kHost, &words, &api), words);
    return *api;
  }
  static void check(int32_t status, const bp_engine_words& words) {
    if (status != BP_OK) throw std::runtime_error("the engine: " + std::string(words.text));
  }

  bp_engine_inbox make_inbox() {
    return {
        .context = this,
        .message_arrived =
            [](void* self, uint32_t, const void*, uint64_t, uint64_t bytes, uint64_t token) {
              static_cast<DirectExchange*>(self)->arrived_.push_back({token, bytes});
            },
        .peer_lost = [](void* self, uint32_t, int32_t,
                        const char* words) { static_cast<DirectExchange*>(self)->loss_ = words; },
        .transfer_ended =
            [](void* self, void*, int32_t status) {
              auto* const exchange = static_cast<DirectExchange*>(self);
              --exchange->pending_;
              if (status != BP_OK) exchange->loss_ = "a transfer failed";
            }};
  }
  void note(int32_t status) {
    if (status == BP_PENDING) {
      ++pending_;
    } else if (status != BP_OK) {
      throw std::runtime_error("the engine: status " + std::to_string(status));
    }
  }
  void progress() {
    // The clock costs as much as some of what is measured.
    constexpr uint32_t kLooksBetweenClocks = 4096;
    if (api_.progress(engine_, &inbox_) != 0) {
      idle_count_ = 0;
    } else if (++idle_count_ % kLooksBetweenClocks == 0) {
      if (idle_count_ == kLooksBetweenClocks) idle_since_ = Clock::now();
      if (Clock::now() - idle_since_ > std::chrono::seconds(60)) {
        throw std::runtime_error("nothing came from the other rank for 60 s");
      }
    }
    if (!loss_.empty()) throw std::runtime_error("the other rank is lost: " + loss_);
  }

  const bp_engine_api& api_;
  const bp_engine_inbox inbox_;
  bp_engine* engine_ = nullptr;
  std::deque<Arrived> arrived_;
  uint32_t pending_ = 0;  // transfers that go on
  uint64_t idle_count_ = 0;
  Clock::time_point idle_since_;
  std::string loss_;
};

}  // namespace perf

#endif
