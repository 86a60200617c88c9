// SPDX-License-Identifier: Apache-2.0
//
// Ends of an engine on one thread, which drives them all, and what they were told.
#ifndef BACKPLANE_CCL_ENGINE_ENGINE_HARNESS_TEST_HPP
#define BACKPLANE_CCL_ENGINE_ENGINE_HARNESS_TEST_HPP

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ccl/engine/library_engine.hpp"
#include "ccl/engine/proven_engine.hpp"

namespace bp::ccl {

using Bytes = std::vector<std::byte>;

inline Bytes pattern(size_t count, unsigned seed) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + seed);
  return bytes;
}

struct Arrived {
  uint32_t peer;
  std::string header;
  uint64_t bytes;
  uint64_t token;
};

struct RecordingInbox final : Inbox {
  void message_arrived(uint32_t peer, std::span<const std::byte> header, uint64_t bytes,
                       uint64_t token) noexcept override {
    arrived.push_back({peer,
                       std::string(reinterpret_cast<const char*>(header.data()), header.size()),
                       bytes, token});
  }
  void peer_lost(uint32_t peer, const Status& why) noexcept override {
    EXPECT_EQ(lost.count(peer), 0u) << "told twice";
    lost[peer] = why.message();
  }
  std::vector<Arrived> arrived;
  std::map<uint32_t, std::string> lost;
};

/// Which engine, and how it is made.
enum class EngineKind { kLoop, kShared, kNetwork, kProvenLoop, kProvenShared };

inline std::string kind_name(EngineKind kind) {
  switch (kind) {
    case EngineKind::kLoop:
      return "loop";
    case EngineKind::kShared:
      return "ucx_shared_memory";
    case EngineKind::kNetwork:
      return "ucx_loopback";
    case EngineKind::kProvenLoop:
      return "proven_loop";
    case EngineKind::kProvenShared:
      return "proven_ucx_shared_memory";
  }
  return "?";
}

inline LibraryEngineArgs library_args(EngineKind kind) {
  LibraryEngineArgs args;
  args.name = "ucx";
  args.search_path = {BP_PLUGIN_DIR};
  args.uses_shared_memory = kind != EngineKind::kNetwork;
  if (kind == EngineKind::kNetwork) args.interface_name = "lo";
  return args;
}

/// All ends of one job have this token.
inline std::shared_ptr<const Token> job_token() {
  static const auto token = *Token::make();
  return token;
}

inline std::unique_ptr<Engine> make_engine(EngineKind kind, uint32_t rank) {
  std::unique_ptr<Engine> engine;
  if (kind == EngineKind::kLoop || kind == EngineKind::kProvenLoop) {
    engine = make_loop_engine();
  } else {
    auto made = make_library_engine(library_args(kind));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) engine = *std::move(made);
  }
  const bool is_proven = kind == EngineKind::kProvenLoop || kind == EngineKind::kProvenShared;
  if (!is_proven || engine == nullptr) return engine;
  return make_proven_engine(std::move(engine),
                            {.token = job_token(), .job = "test", .own_rank = rank});
}

/// Ends that call each other by their place.
struct Ends {
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<RecordingInbox> inboxes;

  explicit Ends(size_t count) : engines(count), inboxes(count) {}
  Engine& operator[](size_t i) { return *engines[i]; }

  void connect_all() {
    for (uint32_t i = 0; i < engines.size(); ++i) {
      for (uint32_t j = 0; j < engines.size(); ++j) {
        const Status connected = engines[i]->connect(j, engines[j]->address());
        EXPECT_TRUE(connected.ok()) << connected.to_string();
      }
    }
  }
  void pass() {
    for (size_t i = 0; i < engines.size(); ++i) {
      if (engines[i] != nullptr) engines[i]->progress(inboxes[i]);
    }
  }
  /// Drives all until it is so. A deadline ends it.
  [[nodiscard]] bool drive_until(const std::function<bool()>& is_so) {
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (!is_so()) {
      if (Clock::now() > end) return false;
      pass();
    }
    return true;
  }
  bool await_arrivals(size_t end, size_t count) {
    return drive_until([&] { return inboxes[end].arrived.size() >= count; });
  }
  bool await(const Transfer& transfer) {
    return drive_until([&] { return transfer.is_over(); });
  }
  void send(size_t from, uint32_t to, const std::string& header, const Bytes& payload,
            Transfer* transfer) {
    engines[from]->send(to, std::as_bytes(std::span(header)), payload.data(), payload.size(),
                        transfer);
  }
};

}  // namespace bp::ccl

#endif
