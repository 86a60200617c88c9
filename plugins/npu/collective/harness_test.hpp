// SPDX-License-Identifier: Apache-2.0
//
// Ranks of one group through the raw ABI: the devices of one instance, a stream and a communicator
// on each.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_HARNESS_TEST_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_HARNESS_TEST_HPP

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/collective.h"
#include "plugins/npu/npu_harness_test.hpp"

namespace bp::npu_test {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kAMoment = 50'000'000;
using Uid = std::array<std::byte, 32>;

inline const bp_collective_api& collective() { return *plugin().collective; }

inline bp_collective_op operation(uint32_t kind, uint32_t dtype, uint64_t count, bp_mem send,
                                  bp_mem recv, uint32_t reduction = 0, uint32_t peer = 0) {
  return {sizeof(bp_collective_op), 0, kind, dtype, reduction, peer, count, send, recv};
}

/// One rank. Members are public: tests go past what is usual.
struct Rank {
  bp_device* device = nullptr;
  bp_stream* stream = nullptr;
  bp_comm* comm = nullptr;
  uint64_t sequence = 1;  // of the next collective

  bp_collective_batch batch(const std::vector<bp_collective_op>& operations) const {
    return {sizeof(bp_collective_batch),
            0,
            comm,
            stream,
            operations.data(),
            static_cast<uint32_t>(operations.size()),
            sizeof(bp_collective_op),
            sequence,
            100};
  }
};

inline bp_status enqueue(bp_device* device, const std::vector<bp_collective_batch>& batches) {
  const bp_collective_args args{sizeof(args), 0, batches.data(),
                                static_cast<uint32_t>(batches.size()), sizeof(bp_collective_batch)};
  return collective().collective_enqueue(device, &args);
}

class Ranks {
 public:
  explicit Ranks(uint32_t count, OptionList device_options = {})
      : instance_({{"devices", std::to_string(count)}}), ranks_(count) {
    device_options.insert(device_options.end(), kSmall.begin(), kSmall.end());
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(instance_.open(i, device_options, &ranks_[i].device), BP_OK);
      ranks_[i].stream = new_stream(i);
    }
    join(new_uid());
  }
  ~Ranks() {
    for (Rank& rank : ranks_) {
      if (rank.comm != nullptr) abort({rank.comm});
    }
    for (Rank& rank : ranks_) {
      if (rank.comm != nullptr) EXPECT_EQ(collective().comm_destroy(rank.comm), BP_OK);
      if (rank.stream != nullptr) EXPECT_EQ(plugin().stream->stream_destroy(rank.stream), BP_OK);
    }
    for (const auto& [device, stream] : more_streams_) plugin().stream->stream_destroy(stream);
    for (const auto& [device, handle] : allocated_) plugin().memory->mem_free(device, handle);
    for (Rank& rank : ranks_) EXPECT_EQ(plugin().device->device_close(rank.device), BP_OK);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Rank& operator[](size_t rank) { return ranks_[rank]; }
  uint32_t count() const { return static_cast<uint32_t>(ranks_.size()); }
  const tests::RecordingHost& host() const { return instance_.host(); }

  Uid new_uid() {
    Uid uid{};
    bp_uid_space space{sizeof(space), 0, uid.data(), uid.size()};
    EXPECT_EQ(collective().uid_create(ranks_[0].device, &space), BP_OK);
    return uid;
  }
  bp_status init(size_t rank, const Uid& uid, uint32_t number, uint32_t count, bp_comm** out_comm) {
    const bp_comm_args args{.struct_size = sizeof(args),
                            .flags = 0,
                            .uids = uid.data(),
                            .uid_bytes = uid.size(),
                            .uid_count = 1,
                            .rank = number,
                            .rank_count = count,
                            .reserved = 0,
                            .timeout_hint_ns = 0,
                            .name = sdk::str("test")};
    return collective().comm_init(ranks_[rank].device, &args, out_comm);
  }
  void join(const Uid& uid) {
    for (uint32_t i = 0; i < count(); ++i) {
      EXPECT_EQ(init(i, uid, i, count(), &ranks_[i].comm), BP_OK) << host().last_message();
    }
  }
  bp_stream* new_stream(size_t rank) {
    const bp_stream_args args{sizeof(args), 0};
    bp_stream* stream = nullptr;
    EXPECT_EQ(plugin().stream->stream_create(ranks_[rank].device, &args, &stream), BP_OK);
    return stream;
  }
  /// ... that ends with the ranks.
  bp_stream* another_stream(size_t rank) {
    more_streams_.emplace_back(ranks_[rank].device, new_stream(rank));
    return more_streams_.back().second;
  }

  bp_mem alloc(size_t rank, uint64_t bytes) {
    const bp_alloc_args args{sizeof(args), 0, bytes, 0, BP_USAGE_COMM, 0};
    uint64_t handle = 0;
    EXPECT_EQ(plugin().memory->mem_alloc(ranks_[rank].device, &args, &handle), BP_OK);
    allocated_.emplace_back(ranks_[rank].device, handle);
    return {handle, 0};
  }
  template <class T>
  bp_mem put(size_t rank, const std::vector<T>& values) {
    const bp_mem mem = alloc(rank, values.size() * sizeof(T));
    const bp_copy_args args =
        copy_args(BP_COPY_HOST_TO_DEVICE, mem, host_mem(values.data()), values.size() * sizeof(T));
    EXPECT_EQ(plugin().memory->mem_copy(ranks_[rank].device, &args), BP_OK);
    return mem;
  }
  template <class T>
  std::vector<T> get(size_t rank, bp_mem mem, size_t count) {
    std::vector<T> values(count);
    const bp_copy_args args =
        copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(values.data()), mem, count * sizeof(T));
    EXPECT_EQ(plugin().memory->mem_copy(ranks_[rank].device, &args), BP_OK);
    return values;
  }

  /// Of one rank, on its own stream.
  bp_status run(size_t rank, const std::vector<bp_collective_op>& operations) {
    const bp_status status = enqueue(ranks_[rank].device, {ranks_[rank].batch(operations)});
    if (status != BP_OK) return status;
    for (const bp_collective_op& what : operations) {
      const bool is_of_two = what.kind == BP_COLLECTIVE_SEND || what.kind == BP_COLLECTIVE_RECV;
      if (!is_of_two) ++ranks_[rank].sequence;
    }
    return BP_OK;
  }
  bp_status sync(size_t rank, uint64_t timeout_ns = 30 * kSecond) {
    return plugin().stream->stream_sync(ranks_[rank].stream, timeout_ns);
  }
  bp_comm_state poll(size_t rank) {
    bp_comm_state state{};
    state.struct_size = sizeof(state);
    EXPECT_EQ(collective().comm_poll(ranks_[rank].comm, &state), BP_OK);
    return state;
  }
  bp_status abort(const std::vector<bp_comm*>& comms) {
    const bp_comm_abort_args args{sizeof(args), 0, comms.data(), comms.size()};
    return collective().comm_abort(ranks_[0].device, &args);
  }
  bp_status destroy(size_t rank) {
    const bp_status status = collective().comm_destroy(ranks_[rank].comm);
    if (status == BP_OK) ranks_[rank].comm = nullptr;
    return status;
  }

 private:
  Instance instance_;
  std::vector<Rank> ranks_;
  std::vector<std::pair<bp_device*, bp_stream*>> more_streams_;
  std::vector<std::pair<bp_device*, uint64_t>> allocated_;
};

}  // namespace bp::npu_test

#endif
