// SPDX-License-Identifier: Apache-2.0
//
// Where ranks disagree, stay away, leave or give up: every rank gets an error that names it, in
// time, and nothing hangs.
#include <sys/resource.h>

#include "ccl/group/group_harness_test.hpp"
#include "ccl/group/join.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

const Devices kMixes[] = {
    {"cpu:0", "cpu:0", "cpu:0"}, {"npu:0", "npu:1", "npu:2"}, {"npu:0", "xpu:0", "cpu:0"}};

Clock::time_point soon() { return Clock::now() + seconds(20); }

class GroupFaults : public GroupTest {
 protected:
  static Call sum_of(ProcessGroup& group, uint64_t count = 3) {
    return {.send = upload(group.device(), BP_DTYPE_F32, std::vector<double>(count, 1)),
            .recv = room(group.device(), BP_DTYPE_F32, count)};
  }
  static std::string name_of(const Devices& devices) {
    std::string name;
    for (const std::string& device : devices) name += device + " ";
    return name;
  }
  /// On a thread for each rank of each mix, which all come to an error within a time.
  using Body = std::function<void(const Devices& devices, uint32_t rank, ProcessGroup& group,
                                  std::atomic<int>* come, Delays& delays)>;
  void on_each_mix(Clock::duration promised, const Body& body) {
    expect_within(promised, [&](Delays& delays) {
      for (const Devices& devices : kMixes) {
        std::atomic<int> come = 0;
        run(devices,
            [&](uint32_t rank, ProcessGroup& group) { body(devices, rank, group, &come, delays); });
      }
    });
  }
};

TEST_F(GroupFaults, CountsThatDiffer_FailAllRanksWithBothSidesWithinASecond) {
  on_each_mix(seconds(1), [](const Devices& devices, uint32_t rank, ProcessGroup& group,
                             std::atomic<int>* come, Delays& delays) {
    meet(come, 3);
    const auto begin = Clock::now();
    const auto work = group.enqueue(sum_of(group, rank == 1 ? 2 : 3));
    // Another rank may have found out before this one called.
    const Status status = work.ok() ? (*work)->wait(soon()) : work.status();
    delays.note_since(begin, name_of(devices) + std::to_string(rank));
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
    // As headers tell it, or the library of linked devices.
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("disagree"), HasSubstr("rank 1"),
                      AnyOf(HasSubstr("all_reduce sum f32 3"), HasSubstr("of 3 elements")),
                      AnyOf(HasSubstr("all_reduce sum f32 2"), HasSubstr("of 2 elements"))))
        << name_of(devices);
    EXPECT_FALSE(group.failure().culprits.empty()) << name_of(devices);
  });
}

TEST_F(GroupFaults, KindsThatDiffer_NameBoth) {
  run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    Call call = sum_of(group);
    if (rank == 1) {
      call = {.kind = Kind::kBroadcast, .recv = room(group.device(), BP_DTYPE_F32, 3)};
    }
    const auto work = group.enqueue(call);
    ASSERT_TRUE(work.ok());
    const Status status = (*work)->wait(soon());
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("all_reduce sum f32 3 as number 1"), HasSubstr("broadcast f32 3")));
  });
}

// Whatever of a call differs is in the headers, also where the bytes are as many.
TEST_F(GroupFaults, EachPartOfACallThatDiffers_IsToldOfBothSides) {
  struct Part {
    std::function<void(Call&)> differ;
    const char* good;
    const char* wrong;
    Kind kind = Kind::kAllReduce;
  };
  const Part parts[] = {
      {[](Call& call) { call.reduction = Reduction::kMax; }, "sum f32 3", "max f32 3"},
      {[](Call& call) {
         call.send = upload(*call.send->device(), BP_DTYPE_I32, {1, 2, 3});
         call.recv = room(*call.send->device(), BP_DTYPE_I32, 3);
       },
       "sum f32 3", "sum i32 3"},
      {[](Call& call) { call.is_deterministic = true; }, "sum f32 3", "deterministic"},
      {[](Call& call) {
         call.root = 2;
         call.send = {};
       },
       "broadcast f32 3 root 0", "broadcast f32 3 root 2", Kind::kBroadcast}};
  for (const Part& part : parts) {
    run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
      Call call = sum_of(group);
      call.kind = part.kind;
      if (part.kind == Kind::kBroadcast && rank != 0) call.send = {};
      if (rank == 1) part.differ(call);
      const auto begin = Clock::now();
      const auto work = group.enqueue(call);
      if (work.ok()) (void)(*work)->wait(soon());
      // Who only sends, or has what it waits for, is told.
      const Status status = await_failure(group).to_status();
      EXPECT_LT(Clock::now() - begin, kBeforeDeadline) << part.wrong;
      EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
      EXPECT_THAT(status.message(), AllOf(HasSubstr("disagree"), HasSubstr("rank 1 (cpu:0)"),
                                          HasSubstr(part.good), HasSubstr(part.wrong)));
    });
  }
}

TEST_F(GroupFaults, SendAndRecvThatDiffer_AreToldOfBothSides) {
  for (const Devices& devices : {Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "cpu:0"}}) {
    for (const bool is_of_another_dtype : {false, true}) {
      const std::string wrong = is_of_another_dtype ? "send i32 3" : "send f32 2";
      run(devices, [&](uint32_t rank, ProcessGroup& group) {
        Call call{.kind = Kind::kRecv, .root = 1, .recv = room(group.device(), BP_DTYPE_F32, 3)};
        if (rank == 1) {
          call = {.kind = Kind::kSend,
                  .send = is_of_another_dtype ? upload(group.device(), BP_DTYPE_I32, {1, 2, 3})
                                              : upload(group.device(), BP_DTYPE_F32, {1, 2})};
        }
        const auto work = group.enqueue(call);
        if (work.ok()) (void)(*work)->wait(soon());
        const Status status = await_failure(group).to_status();
        EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
        EXPECT_THAT(status.message(),
                    AllOf(HasSubstr("disagree"), HasSubstr("recv f32 3"), HasSubstr(wrong)))
            << name_of(devices);
        if (rank == 0) EXPECT_FALSE(read_status(call.recv).ok());
      });
    }
  }
}

// Two ranks that both are the root wait for nobody: each has a message that nobody wants.
TEST_F(GroupFaults, RanksThatBothAreTheRoot_AreCompared) {
  run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const Call own{.kind = Kind::kBroadcast,
                   .root = rank,
                   .recv = upload(group.device(), BP_DTYPE_F32, {1, 1, 1})};
    // The other's message may come before its end, or behind it.
    const Status status = group.enqueue(own, {.waits = true}).status();
    EXPECT_THAT(status.code(), AnyOf(BP_OK, BP_INVALID_ARGUMENT)) << status.to_string();
    const Failure failure = await_failure(group);
    EXPECT_EQ(failure.code, BP_INVALID_ARGUMENT) << failure.words;
    EXPECT_THAT(failure.words,
                AllOf(HasSubstr("the ranks disagree"), HasSubstr("broadcast f32 3 root 0"),
                      HasSubstr("broadcast f32 3 root 1"), HasSubstr("as number 1")));
  });
}

// Two of them think that rank 0 sends, and wait for it alone: what the third one sends tells.
TEST_F(GroupFaults, RootsThatDiffer_FailAllWithoutAWait) {
  for (const Devices& devices : {Devices{"cpu:0", "cpu:0", "cpu:0"}, {"cpu:0", "npu:0", "xpu:0"}}) {
    for (const bool waits : {true, false}) {
      run(devices, [&](uint32_t rank, ProcessGroup& group) {
        if (rank == 0) std::this_thread::sleep_for(milliseconds(50));
        const Call call{.kind = Kind::kBroadcast,
                        .root = rank == 2 ? 2u : 0u,
                        .recv = room(group.device(), BP_DTYPE_F32, 3)};
        const auto begin = Clock::now();
        const auto work = group.enqueue(call, {.timeout = seconds(30), .waits = waits});
        const Status status =
            work.ok() && *work ? (*work)->wait(begin + seconds(40)) : work.status();
        // A root has done its part, and learns afterwards.
        const Failure failure = await_failure(group);
        EXPECT_LT(Clock::now() - begin, kBeforeDeadline) << name_of(devices);
        EXPECT_EQ(failure.code, BP_INVALID_ARGUMENT) << status.to_string();
        EXPECT_THAT(failure.words,
                    AllOf(HasSubstr("the ranks disagree"), HasSubstr("broadcast f32 3 root 0"),
                          HasSubstr("broadcast f32 3 root 2"), HasSubstr("as number 1")))
            << name_of(devices);
        EXPECT_FALSE(failure.culprits.empty());
      });
    }
  }
}

// Each waits for one that takes another for the root, and nobody sends.
TEST_F(GroupFaults, RanksThatSendEachOtherNothing_AreComparedAtTheDeadline) {
  std::atomic<int> come = 0;
  run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const Call call{.kind = Kind::kBroadcast,
                    .root = rank == 1 ? 0u : 1u,
                    .recv = room(group.device(), BP_DTYPE_F32, 3)};
    const auto work = enqueue_for_one_deadline(group, call, rank == 0, &come, 3);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    const Status status = (*work)->wait(soon());
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("the ranks disagree"),
                      HasSubstr("and 1 more have called broadcast f32 3 root 1"),
                      HasSubstr("rank 1 (cpu:0) has called broadcast f32 3 root 0")));
    EXPECT_THAT((*work)->failure().culprits, ElementsAre(1));
  });
}

TEST_F(GroupFaults, RankThatIsHeldUpByAnother_IsNotBlamed) {
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 2) {  // comes to nothing
      EXPECT_TRUE(await_that([&] { return ended == 2; }));
      EXPECT_EQ(await_failure(group).code, BP_TIMEOUT);
      return;
    }
    Call reduce = sum_of(group);
    reduce.kind = Kind::kReduce;
    reduce.root = 1;
    if (rank == 0) reduce.recv = nullptr;
    const auto first = group.enqueue(reduce, {.timeout = seconds(15)});
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    if (rank == 1) await_started(group, 1);
    meet(&begun, 2);
    const auto last =
        rank == 1 ? first : group.enqueue(sum_of(group), {.timeout = milliseconds(300)});
    ASSERT_TRUE(last.ok()) << last.status().to_string();
    const Status status = (*last)->wait(soon());
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("rank 1 (cpu:0) is still in number 1 (reduce sum f32 3 root 1)"),
                      HasSubstr("rank 2 (cpu:0) never entered it")));
    EXPECT_THAT((*last)->failure().culprits, ElementsAre(2));
    ++ended;
  });
}

TEST_F(GroupFaults, RankThatNeverCalls_IsNamedAtTheDeadline) {
  on_each_mix(seconds(1), [](const Devices& devices, uint32_t rank, ProcessGroup& group,
                             std::atomic<int>* come, Delays& delays) {
    ASSERT_TRUE(group.enqueue(sum_of(group), {.timeout = seconds(10), .waits = true}).ok());
    meet(come, 3);
    if (rank == 2) {  // its program goes another way; the group is there all the same
      EXPECT_TRUE(await_that([&] { return *come == 7; }));
      const auto begin = Clock::now();
      EXPECT_EQ(await_failure(group).code, BP_TIMEOUT);
      delays.note_since(begin, name_of(devices));
      return;
    }
    const Call call = sum_of(group);
    const auto work = enqueue_for_one_deadline(group, call, rank == 0, come, 5);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    const auto begin = Clock::now();
    const Status status = (*work)->wait(soon());
    EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
    EXPECT_EQ(status.code(), BP_TIMEOUT) << status.to_string();
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("all_reduce sum f32 3 as number 2"), HasSubstr("rank 2"),
                      HasSubstr("never entered it, its last was number 1")))
        << name_of(devices);
    EXPECT_THAT((*work)->failure().culprits, ElementsAre(2)) << name_of(devices);
    EXPECT_TRUE((*work)->failure().is_retryable());
    const Status read = read_status(call.recv);
    EXPECT_FALSE(read.ok()) << "the results are marked, on " << group.device().name();
    meet(come, 7);
  });
}

// As it is where neither is given. Who waits for the call learns more than that it takes long.
TEST_F(GroupFaults, TimeoutsThatAreAlike_LetTheGroupSpeakFirst) {
  timeout_ = seconds(5);  // in which they also have to join
  core_options_ = {{"BACKPLANE_TIMEOUT", "5"}};
  make_runtime();
  const Devices devices = {"cpu:0", "cpu:0", "npu:0", "cpu:0", "xpu:0", "cpu:0"};
  std::atomic<int> begun = 0;
  run(devices, [&](uint32_t rank, ProcessGroup& all) {
    const auto pair = all.split({.color = rank / 2});  // all pairs wait at one time
    ASSERT_TRUE(pair.ok()) << pair.status().to_string();
    ProcessGroup& group = **pair;
    const Call call = sum_of(group);
    meet(&begun, 6);
    if (rank % 2 == 0) {
      const Status status = group.enqueue(call, {.waits = true}).status();
      EXPECT_EQ(status.code(), BP_TIMEOUT) << devices[rank];
      EXPECT_THAT(status.message(), HasSubstr("rank 1 (cpu:0) never entered it")) << devices[rank];
    }
    EXPECT_TRUE(await_that([&] { return !group.failure().ok(); })) << devices[rank];
    EXPECT_EQ(group.failure().code, BP_TIMEOUT) << devices[rank];
  });
}

TEST_F(GroupFaults, Abort_EndsAllRanksWithinASecond) {
  const auto promised = milliseconds(1050);  // of which the test itself waits 50
  on_each_mix(promised, [](const Devices& devices, uint32_t rank, ProcessGroup& group,
                           std::atomic<int>* come, Delays& delays) {
    if (rank == 0) {
      EXPECT_TRUE(await_that([&] { return *come == 2; }));
      std::this_thread::sleep_for(milliseconds(50));
      group.abort("the user has pressed a key");
      return;
    }
    const Call call = sum_of(group);
    const auto work = group.enqueue(call);
    ++*come;
    ASSERT_TRUE(work.ok());
    const auto begin = Clock::now();
    const Status status = (*work)->wait(soon());
    delays.note_since(begin, name_of(devices) + std::to_string(rank));
    EXPECT_EQ(status.code(), BP_CANCELLED) << status.to_string();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 0"), HasSubstr("pressed a key")));
    EXPECT_EQ((*work)->failure().operation, "all_reduce sum f32 3") << "what this one waited for";
    EXPECT_EQ((*work)->failure().sequence, 1u);
    EXPECT_EQ(group.failure().operation, "") << "the group waited for nothing";
    const auto later = group.enqueue(call);
    EXPECT_EQ(later.status().code(), BP_CANCELLED);
  });
}

TEST_F(GroupFaults, RankThatLeaves_EndsTheOthers) {
  std::atomic<int> come = 0;
  run({"cpu:0", "cpu:0", "npu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 1) return;
    const Call call = sum_of(group);
    meet(&come, 2);
    const auto begin = Clock::now();
    const auto work = group.enqueue(call);
    // The other one may have found it out before this one called.
    const Status status = work.ok() ? (*work)->wait(soon()) : work.status();
    EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
    EXPECT_EQ(status.code(), BP_UNAVAILABLE) << status.to_string();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1 (cpu:0)"), HasSubstr("left")));
    EXPECT_THAT(group.failure().culprits, ElementsAre(1));
  });
}

TEST_F(GroupFaults, RecvThatNobodySends_NamesItsPeer) {
  run({"cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 1) {
      EXPECT_EQ(await_failure(group).code, BP_TIMEOUT);
      return;
    }
    const Call call{.kind = Kind::kRecv, .root = 1, .recv = room(group.device(), BP_DTYPE_F32, 3)};
    const auto work = group.enqueue(call, {.timeout = milliseconds(200), .waits = true});
    EXPECT_EQ(work.status().code(), BP_TIMEOUT);
    EXPECT_THAT(work.status().message(),
                AllOf(HasSubstr("recv f32 3"), HasSubstr("rank 1 (cpu:0)")));
  });
}

TEST_F(GroupFaults, FailedStream_ReachesThoseThatWaitedForIt) {
  for (const Devices& devices :
       {Devices{"npu:0", "npu:1"}, Devices{"npu:0", "cpu:0"}, Devices{"xpu:0", "cpu:0"}}) {
    std::atomic<int> come = 0;
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      if (rank == 1) {
        meet(&come, 2);
        group.abort("it was called for nothing");
        return;
      }
      const OpId add = *runtime_->registry().find("add");
      const Call call = sum_of(group);
      ASSERT_TRUE(group.enqueue(call).ok());
      auto consumer = group.device().acquire_stream();
      ASSERT_TRUE(consumer.ok());
      Tensor* const inputs[] = {call.recv.get(), call.recv.get()};
      Ref<Tensor> after;  // enqueued behind what will fail
      ASSERT_TRUE(
          bp::call(*runtime_, {.op = add, .inputs = inputs, .stream = *consumer}, {&after, 1})
              .ok());
      meet(&come, 2);
      const Status status = read_status(after);
      EXPECT_FALSE(status.ok()) << group.device().name() << " gave results of a lost operation";
      EXPECT_THAT(status.message(), HasSubstr("rank 1")) << status.to_string();
      const Status reset = (*consumer)->reset();
      EXPECT_TRUE(reset.ok()) << reset.to_string();
      EXPECT_TRUE((*consumer)->sync().ok()) << "a reset ends the failure";
      group.device().release_stream(*consumer);
    });
  }
}

TEST_F(GroupFaults, InputThatWasLost_FailsTheGroupByName) {
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    auto stream = group.device().acquire_stream();
    ASSERT_TRUE(stream.ok());
    const Call barrier{.kind = Kind::kBarrier};  // by messages, on the given stream
    if (rank == 0) (*stream)->fail((*stream)->issued_seq(), Status(BP_INTERNAL, "broken"));
    const auto work = group.enqueue(barrier, {.stream = *stream});
    if (rank == 0) {
      EXPECT_EQ(work.status().code(), BP_POISONED) << "a call error, without effect";
      group.abort("its stream is broken");
    } else {
      // The other rank may have given up before this one calls.
      const Status status = work.ok() ? (*work)->wait(soon()) : work.status();
      EXPECT_EQ(status.code(), BP_CANCELLED) << status.to_string();
    }
    EXPECT_TRUE((*stream)->reset().ok());
    group.device().release_stream(*stream);
  });
}

TEST_F(GroupFaults, RuntimeThatCloses_EndsWaits) {
  for (const Devices& devices :
       {Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "npu:1"}, Devices{"xpu:0", "cpu:0"}}) {
    make_runtime();
    std::atomic<int> waiting = 0;
    std::thread closer([&] {
      EXPECT_TRUE(await_that([&] { return waiting == 1; }));
      std::this_thread::sleep_for(milliseconds(30));
      // As the API closes it: other threads are in calls.
      const auto owner_of = [](HandleKind, const void*) -> const void* { return nullptr; };
      EXPECT_TRUE(runtime_->close_amid_calls(owner_of).ok());
    });
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      if (rank == 1) {
        EXPECT_FALSE(await_failure(group).ok());
        return;
      }
      const auto work = group.enqueue(sum_of(group));
      ASSERT_TRUE(work.ok());
      ++waiting;
      const auto begin = Clock::now();
      const Status status = (*work)->wait(soon());
      EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
      EXPECT_FALSE(status.ok());
    });
    closer.join();
  }
}

class GroupCalls : public GroupTest {};

TEST_F(GroupCalls, BadCalls_AreNamedAndHaveNoEffect) {
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    Device& on = group.device();
    const auto refused = [&](const Call& call, const char* words) {
      const auto work = group.enqueue(call);
      ASSERT_FALSE(work.ok()) << words;
      EXPECT_EQ(work.status().code(), BP_INVALID_ARGUMENT);
      EXPECT_THAT(work.status().message(), HasSubstr(words));
    };
    const Ref<Tensor> four = room(on, BP_DTYPE_F32, 4);
    const Ref<Tensor> three = room(on, BP_DTYPE_F32, 3);
    refused({.recv = four}, "all_reduce: send is missing");
    refused({.send = four}, "all_reduce: recv is missing");
    refused({.send = four, .recv = three}, "do not fit in a group of 2");
    refused({.send = four, .recv = room(on, BP_DTYPE_F64, 4)}, "of two dtypes");
    refused({.send = room(device("cpu:0"), BP_DTYPE_F32, 4), .recv = four}, "expected a tensor on");
    refused({.kind = Kind::kAllGather, .send = four, .recv = three}, "a block for each of 2 ranks");
    refused({.kind = Kind::kBroadcast, .root = 2, .recv = four}, "root");
    refused({.kind = Kind::kSend, .root = 1 - rank, .send = four, .recv = three},
            "expected no recv on rank");
    const Ref<Tensor> eight = room(on, BP_DTYPE_F32, 8);
    refused({.send = eight->view({4}, {1}, 0), .recv = eight->view({4}, {1}, 2)},
            "send and recv overlap");
    refused({.kind = Kind::kAllGather,
             .send = eight->view({4}, {1}, 4 * (1 - static_cast<int64_t>(rank))),
             .recv = eight},
            "this rank's block");
    refused({.send = four, .recv = eight->view({4}, {2}, 0)}, "contiguous");
    refused({.kind = Kind::kAllToAll, .send = four, .recv = four}, "overlap");
    EXPECT_EQ(group.enqueue(std::span<const Call>()).status().code(), BP_INVALID_ARGUMENT);
    auto foreign = device("cpu:0").acquire_stream();
    const auto elsewhere =
        group.enqueue(Call{.send = four, .recv = room(on, BP_DTYPE_F32, 4)}, {.stream = *foreign});
    EXPECT_THAT(elsewhere.status().message(), HasSubstr("the stream is of cpu:0"));
    device("cpu:0").release_stream(*foreign);
    // After all these the group's numbers are as before.
    const Ref<Tensor> sum = room(on, BP_DTYPE_F32, 1);
    const auto work = group.enqueue(Call{.send = upload(on, BP_DTYPE_F32, {2}), .recv = sum});
    ASSERT_TRUE(work.ok());
    EXPECT_EQ((*work)->sequence(), 1u);
    EXPECT_EQ(floats(sum), (std::vector<float>{4}));
  });
}

TEST_F(GroupCalls, TensorOfAnotherRuntime_IsToldAsThat) {
  const auto other = runtime_;
  const Ref<Tensor> theirs = room(device("cpu:0"), BP_DTYPE_F32, 4);
  make_runtime();
  run({"cpu:0", "cpu:0"}, [&](uint32_t, ProcessGroup& group) {
    const auto work =
        group.enqueue(Call{.send = room(group.device(), BP_DTYPE_F32, 4), .recv = theirs});
    EXPECT_EQ(work.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(
        work.status().message(),
        HasSubstr("recv is f32 [4] on cpu:0 of another Runtime, expected a tensor on cpu:0"));
  });
}

TEST_F(GroupCalls, Trace_HasEveryOperation) {
  run({"cpu:0", "cpu:0"}, [&](uint32_t, ProcessGroup& group) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(group.enqueue(Call{.kind = Kind::kBarrier}, {.waits = true}).ok());
    }
    const std::string trace = group.trace();
    EXPECT_THAT(trace, AllOf(HasSubstr("\"collective_seq_id\": 3"), HasSubstr("completed"),
                             HasSubstr("barrier")));
  });
}

// --- Before ranks have met

TEST(RankCards, RankThatCannotJoin_IsToldToTheOthersAtOnce) {
  const auto store = make_memory_store();
  const Status why(BP_UNAVAILABLE, "it has no descriptors");
  EXPECT_EQ(refuse_to_join(*store, 1, why).code(), BP_UNAVAILABLE);
  const auto met = exchange_cards(*store, "test", {}, {0, 2}, {"group test", soon()});
  EXPECT_EQ(met.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(met.status().message(),
              AllOf(HasSubstr("rank 1 cannot join"), HasSubstr("it has no descriptors")));
}

TEST(RankCards, HostThatCannotBeNamed_IsAnErrorAndNotAnotherHost) {
  ASSERT_TRUE(host_identity().ok());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto identity = host_identity();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(identity.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(identity.status().message(),
              AllOf(HasSubstr("boot_id"), HasSubstr("Too many open files")));
}

}  // namespace
}  // namespace bp::ccl
