// SPDX-License-Identifier: Apache-2.0
//
// Buckets of gradients: how they are laid out, when they are reduced, and what a step must and must
// not be.
#include "ccl/dist/data_parallel.hpp"

#include <algorithm>
#include <random>

#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Parameters = std::vector<Parameter>;

/// The parameters of each bucket, in order.
std::vector<std::vector<size_t>> bucketed(const Parameters& parameters, BucketLimits limits) {
  const auto buckets = plan_buckets(parameters, limits);
  EXPECT_TRUE(buckets.ok()) << buckets.status().to_string();
  std::vector<std::vector<size_t>> found;
  for (const BucketLayout& bucket : *buckets) {
    std::vector<size_t>& one = found.emplace_back();
    uint64_t end = 0;
    for (const auto& [parameter, offset] : bucket.entries) {
      one.push_back(parameter);
      EXPECT_EQ(bucket.dtype, parameters[parameter].dtype);
      EXPECT_EQ(offset, end);
      end += (dtype_storage_bytes(bucket.dtype, element_count(parameters[parameter].sizes)) + 255) /
             256 * 256;
    }
    EXPECT_EQ(bucket.bytes, end);
  }
  return found;
}

Parameter of(int64_t count, uint32_t dtype = BP_DTYPE_F32) { return {dtype, {count}}; }

TEST(Buckets, FillFromTheLastParameterOn) {
  const Parameters parameters(5, of(64));  // 256 bytes each
  using Lists = std::vector<std::vector<size_t>>;
  EXPECT_EQ(bucketed(parameters, {}), (Lists{{4, 3, 2, 1, 0}}));
  EXPECT_EQ(bucketed(parameters, {.bytes = 512, .first_bytes = 256}), (Lists{{4}, {3, 2}, {1, 0}}));
  EXPECT_EQ(bucketed(parameters, {.bytes = 1, .first_bytes = 1}), (Lists{{4}, {3}, {2}, {1}, {0}}));
  EXPECT_EQ(bucketed({of(64), of(1000), of(64)}, {.bytes = 512, .first_bytes = 512}),
            (Lists{{2}, {1}, {0}}))
      << "a gradient that is larger than a bucket has one of its own";
  EXPECT_EQ(bucketed(parameters, {.bytes = UINT64_MAX, .first_bytes = UINT64_MAX}),
            (Lists{{4, 3, 2, 1, 0}}));
}

TEST(Buckets, DtypesApart_InTheOrderInWhichTheyAreFull) {
  using Lists = std::vector<std::vector<size_t>>;
  const Parameters mixed = {of(8), of(8, BP_DTYPE_F16), of(8), of(8, BP_DTYPE_F16), of(8)};
  EXPECT_EQ(bucketed(mixed, {}), (Lists{{3, 1}, {4, 2, 0}}));
  EXPECT_EQ(bucketed(mixed, {.bytes = 512, .first_bytes = 256}), (Lists{{4}, {3, 1}, {2, 0}}));
}

TEST(Buckets, SizesThatCannotBe_AreRefusedByName) {
  const auto words = [](const Parameter& parameter) {
    return plan_buckets(Parameters{of(1), parameter}, {}).status().to_string();
  };
  EXPECT_THAT(words({BP_DTYPE_F32, {int64_t{1} << 62, 1 << 20}}),
              HasSubstr("INVALID_ARGUMENT: parameter 1 has sizes"));
  EXPECT_THAT(words({BP_DTYPE_F32, {int64_t{1} << 50}}), HasSubstr("too large together"));
  EXPECT_THAT(words({BP_DTYPE_I4, {2}}), HasSubstr("no whole bytes"));
}

class DataParallelTest : public GroupTest {
 protected:
  static Ref<DataParallel> make(ProcessGroup& group, DataParallelArgs args) {
    auto made = DataParallel::create(Ref<ProcessGroup>(&group), std::move(args));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *made;
  }
  static Stream& stream_of(ProcessGroup& group) { return group.device().default_stream(); }
  static Ref<Tensor> filled(ProcessGroup& group, int64_t count, double value) {
    return upload(group.device(), BP_DTYPE_F32,
                  std::vector<double>(static_cast<size_t>(count), value));
  }
  static std::vector<float> values_of(DataParallel& parallel, size_t index) {
    const auto gradient = parallel.gradient(index);
    EXPECT_TRUE(gradient.ok()) << gradient.status().to_string();
    return floats(*gradient);
  }
  /// The average of rank + add over the group's ranks.
  static float average(const ProcessGroup& group, float add) {
    return static_cast<float>(group.place().rank_count - 1) / 2 + add;
  }
};

const Devices kMixed = {"npu:0", "xpu:0", "cpu:0"};

TEST_F(DataParallelTest, StepsAverage_WhateverOrderGradientsComeIn) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const Devices& devices : {kMixed, Devices{"cpu:0", "cpu:0", "cpu:0", "cpu:0"},
                                 Devices{"npu:0", "npu:1", "npu:2", "npu:3"},
                                 Devices{"npu:0", "npu:1", "cpu:0"}, Devices{"xpu:0"}}) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      std::mt19937 random(seed + rank);
      Parameters parameters;
      for (int64_t i = 0; i < 12; ++i) parameters.push_back(of(10 + 50 * i));
      parameters.push_back({BP_DTYPE_F32, {0, 3}});
      const auto parallel =
          make(group, {.parameters = parameters, .limits = {.bytes = 4096, .first_bytes = 1024}});
      EXPECT_GT(parallel->info().bucket_count, 3u);
      for (int step = 0; step < 5; ++step) {
        std::vector<size_t> order(parameters.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        for (const size_t i : order) {
          const int64_t count = element_count(parameters[i].sizes);
          Ref<Tensor> values = filled(group, count, rank + 100.0 * step + static_cast<double>(i));
          if (count == 0) values = values->view({0, 3}, {3, 1}, 0);
          const Status status = parallel->ready(i, values, stream_of(group));
          ASSERT_TRUE(status.ok()) << status.to_string();
        }
        const Status finished = parallel->finish(stream_of(group));
        ASSERT_TRUE(finished.ok()) << finished.to_string();
        for (size_t i = 0; i < parameters.size(); ++i) {
          EXPECT_THAT(values_of(*parallel, i),
                      Each(testing::FloatEq(average(
                          group, 100.0f * static_cast<float>(step) + static_cast<float>(i)))))
              << "gradient " << i << " of step " << step;
        }
      }
    });
  }
}

TEST_F(DataParallelTest, Buckets_CountAsMemoryOfCommunication) {
  run({"npu:0", "cpu:0"}, [](uint32_t, ProcessGroup& group) {
    const auto communication_bytes = [&] {
      return group.device().allocator().stats().tag_bytes[static_cast<size_t>(MemoryTag::kComm)];
    };
    const uint64_t before = communication_bytes();
    Ref<DataParallel> parallel = make(group, {.parameters = {of(1000), of(24)}});
    EXPECT_GE(communication_bytes(), before + 4096);
    parallel = {};
    // What the ranks compared may wait for the next allocation to be let go.
    EXPECT_LE(communication_bytes(), before + 512);
  });
}

TEST_F(DataParallelTest, BucketIsReduced_WhileOthersAreStillComputed) {
  run(kMixed, [&](uint32_t rank, ProcessGroup& group) {
    const auto parallel = make(
        group, {.parameters = Parameters(3, of(64)), .limits = {.bytes = 256, .first_bytes = 256}});
    ASSERT_TRUE(parallel->ready(2, filled(group, 64, rank), stream_of(group)).ok());
    EXPECT_EQ(parallel->info().begun_count, 1u);
    EXPECT_THAT(values_of(*parallel, 2), Each(average(group, 0))) << "before the step's end";
    ASSERT_TRUE(parallel->ready(0, filled(group, 64, rank), stream_of(group)).ok());
    EXPECT_EQ(parallel->info().begun_count, 1u) << "an earlier bucket is not full";
    ASSERT_TRUE(parallel->ready(1, filled(group, 64, rank), stream_of(group)).ok());
    EXPECT_EQ(parallel->info().begun_count, 3u);
    ASSERT_TRUE(parallel->finish(stream_of(group)).ok());
    EXPECT_EQ(parallel->info().begun_count, 0u);
  });
}

TEST_F(DataParallelTest, GradientsAreWrittenInPlace_OnPlacesThatKernelsTake) {
  run(kMixed, [&](uint32_t rank, ProcessGroup& group) {
    const auto parallel = make(group, {.parameters = {of(3), {BP_DTYPE_F32, {2, 2}}, of(1)}});
    for (size_t i = 0; i < 3; ++i) {
      const Ref<Tensor> gradient = *parallel->gradient(i);
      EXPECT_EQ(gradient->offset_bytes() % 256, 0u);
      EXPECT_EQ(&gradient->storage(), &(*parallel->gradient(0))->storage());
      const std::vector<float> own(static_cast<size_t>(gradient->element_count()),
                                   static_cast<float>(rank));
      ASSERT_TRUE(write_from_host(stream_of(group), *gradient, own.data()).ok());
      ASSERT_TRUE(parallel->ready(i, nullptr, stream_of(group)).ok());
    }
    ASSERT_TRUE(parallel->finish(stream_of(group)).ok());
    for (size_t i = 0; i < 3; ++i) EXPECT_THAT(values_of(*parallel, i), Each(average(group, 0)));
  });
}

TEST_F(DataParallelTest, AccumulatedGradients_AreReducedOnce) {
  run(kMixed, [&](uint32_t rank, ProcessGroup& group) {
    const auto parallel = make(group, {.parameters = {of(5), of(7)}});
    for (int step = 0; step < 2; ++step) {
      for (const double part : {1.0, 10.0}) {
        for (const size_t i : {1u, 0u}) {
          const int64_t count = i == 0 ? 5 : 7;
          ASSERT_TRUE(
              parallel->accumulate(i, filled(group, count, rank * part), stream_of(group)).ok());
        }
        EXPECT_EQ(parallel->info().begun_count, 0u);
      }
      ASSERT_TRUE(parallel->ready(1, filled(group, 7, 100.0 * rank), stream_of(group)).ok());
      ASSERT_TRUE(parallel->ready(0, nullptr, stream_of(group)).ok());
      ASSERT_TRUE(parallel->finish(stream_of(group)).ok());
      EXPECT_THAT(values_of(*parallel, 0), Each(11.0f)) << "the average of 0, 11 and 22";
      EXPECT_THAT(values_of(*parallel, 1), Each(111.0f));
      EXPECT_EQ(group.counters().host_operations.load() + group.counters().staged_operations.load(),
                static_cast<uint64_t>(step) + 2)
          << "one for each step, and that of the beginning";
    }
  });
}

TEST_F(DataParallelTest, GradientMayBeGivenAsItself) {
  run({"cpu:0", "npu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const auto parallel = make(group, {.parameters = {{BP_DTYPE_F32, {2, 2}}}});
    const Ref<Tensor> gradient = *parallel->gradient(0);
    const std::vector<float> own = {0, 1, 2, static_cast<float>(3 + rank)};
    ASSERT_TRUE(write_from_host(stream_of(group), *gradient, own.data()).ok());
    ASSERT_TRUE(parallel->accumulate(0, gradient, stream_of(group)).ok());
    const Ref<Tensor> turned = gradient->view({2, 2}, {1, 2}, 0);
    ASSERT_TRUE(parallel->ready(0, turned, stream_of(group)).ok());
    ASSERT_TRUE(parallel->finish(stream_of(group)).ok());
    EXPECT_THAT(values_of(*parallel, 0), ElementsAre(0, 3, 3, 7));
  });
}

TEST_F(DataParallelTest, UnusedParameters) {
  run(kMixed, [&](uint32_t rank, ProcessGroup& group) {
    const auto strict = make(group, {.parameters = Parameters(4, of(2))});
    ASSERT_TRUE(strict->ready(1, filled(group, 2, rank), stream_of(group)).ok());
    const Status refused = strict->finish(stream_of(group));
    EXPECT_EQ(refused.code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(refused.message(), HasSubstr("gradients 0, 2, 3: not ready at the step's end"));
    for (const size_t i : {0u, 2u, 3u}) {
      ASSERT_TRUE(strict->ready(i, filled(group, 2, rank), stream_of(group)).ok());
    }
    EXPECT_TRUE(strict->finish(stream_of(group)).ok()) << "the step went on";
    EXPECT_THAT(values_of(*strict, 3), Each(average(group, 0)));

    const auto lenient = make(group, {.parameters = Parameters(4, of(2)), .allows_unused = true});
    for (int step = 0; step < 2; ++step) {
      // Each rank has used another one; nobody the last one.
      ASSERT_TRUE(lenient->ready(rank, filled(group, 2, 3), stream_of(group)).ok());
      ASSERT_TRUE(lenient->finish(stream_of(group)).ok());
      for (size_t i = 0; i < 3; ++i) EXPECT_THAT(values_of(*lenient, i), Each(1.0f));
      EXPECT_THAT(values_of(*lenient, 3), Each(0.0f));
    }
    ASSERT_TRUE(lenient->accumulate(2, filled(group, 2, 1), stream_of(group)).ok());
    EXPECT_THAT(lenient->finish(stream_of(group)).message(),
                HasSubstr("gradient 2: accumulated, and not ready"));
  });
}

TEST_F(DataParallelTest, BadCalls_AreRefusedByName) {
  run({"cpu:0"}, [&](uint32_t, ProcessGroup& group) {
    Stream& stream = stream_of(group);
    const auto parallel = make(group, {.parameters = {of(2), of(3)}});
    EXPECT_THAT(parallel->gradient(2).status().message(), HasSubstr("no gradient 2, but 0 to 1"));
    EXPECT_THAT(parallel->ready(SIZE_MAX, nullptr, stream).message(), HasSubstr("no gradient"));
    EXPECT_THAT(parallel->ready(0, filled(group, 3, 0), stream).message(),
                HasSubstr("tensor 0 is f32 [3] on cpu:0, expected f32 [2] on cpu:0"));
    ASSERT_TRUE(parallel->ready(0, nullptr, stream).ok());
    EXPECT_THAT(parallel->ready(0, nullptr, stream).message(),
                HasSubstr("gradient 0 is ready already in this step"));
    EXPECT_THAT(parallel->accumulate(0, filled(group, 2, 0), stream).message(),
                HasSubstr("ready already"));
    EXPECT_THAT(parallel->finish(device("npu:0").default_stream()).message(),
                HasSubstr("the stream is of npu:0, and the group on cpu:0"));
    const std::vector<Ref<Tensor>> none = {filled(group, 2, 0), filled(group, 3, 0)};
    none[1]->forbid_writes();
    EXPECT_THAT(parallel->broadcast_parameters(none, 1).message(),
                HasSubstr("tensor 1 is f32 [3] on cpu:0, expected a contiguous one that is not"));
    const std::vector<Ref<Tensor>> one = {filled(group, 2, 0)};
    EXPECT_THAT(parallel->broadcast_parameters(one, 0).message(),
                HasSubstr("a tensor for each of 2 parameters, found 1"));
    const auto refused = [&](DataParallelArgs args) {
      return DataParallel::create(Ref<ProcessGroup>(&group), std::move(args)).status().to_string();
    };
    EXPECT_THAT(refused({}), HasSubstr("INVALID_ARGUMENT: data parallel: expected a parameter"));
    EXPECT_THAT(refused({.parameters = {of(1), of(1, BP_DTYPE_I32)}}),
                AllOf(HasSubstr("INVALID_ARGUMENT: data parallel: parameter 1"), HasSubstr("i32")));
  });
}

TEST_F(DataParallelTest, RanksThatDiffer_AllFail) {
  run(kMixed, [&](uint32_t rank, ProcessGroup& group) {
    const auto create = [&](DataParallelArgs args) {
      return DataParallel::create(Ref<ProcessGroup>(&group), std::move(args)).status().to_string();
    };
    EXPECT_THAT(
        create({.parameters = Parameters(rank == 2 ? 4 : 3, of(2))}),
        HasSubstr("INVALID_ARGUMENT: data parallel: rank 2 has 4 parameters, rank 0 has 3"));
    EXPECT_THAT(create({.parameters = {of(rank == 1 ? 2 : 3)}}),
                HasSubstr("rank 1 and rank 0 have parameters of other sizes or dtypes"));
    EXPECT_THAT(create({.parameters = {of(2, rank == 1 ? BP_DTYPE_I32 : BP_DTYPE_F32)}}),
                rank == 1 ? HasSubstr("parameter 0")
                          : HasSubstr("UNAVAILABLE: data parallel: rank 1 could not make"));
    EXPECT_EQ(create({.parameters = {of(2)}}), "OK") << "the group goes on";
  });
}

TEST_F(DataParallelTest, ParametersOfTheRoot_AreEveryones) {
  run(kMixed, [&](uint32_t rank, ProcessGroup& group) {
    const auto parallel = make(group, {.parameters = {of(2), of(3)}});
    const std::vector<Ref<Tensor>> tensors = {filled(group, 2, rank), filled(group, 3, 10 + rank)};
    ASSERT_TRUE(parallel->broadcast_parameters(tensors, 1).ok());
    EXPECT_THAT(floats(tensors[0]), ElementsAre(1, 1));
    EXPECT_THAT(floats(tensors[1]), ElementsAre(11, 11, 11));
  });
}

TEST_F(DataParallelTest, RankThatAbortsInTheMiddle_FailsTheStepOnAll) {
  run(kMixed, [&](uint32_t rank, ProcessGroup& group) {
    const auto parallel = make(
        group, {.parameters = Parameters(4, of(64)), .limits = {.bytes = 256, .first_bytes = 256}});
    Status status;
    for (size_t i = 4; i-- > 0 && status.ok();) {
      if (rank == 1 && i == 1) group.abort("out of data");
      status = parallel->ready(i, filled(group, 64, rank), stream_of(group));
    }
    if (status.ok()) status = parallel->finish(stream_of(group));
    // Streams of queues do not wait: what they lead to tells it.
    if (status.ok()) status = read_status(*parallel->gradient(0));
    EXPECT_EQ(status.code(), BP_CANCELLED) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("out of data"));
    EXPECT_EQ(parallel->finish(stream_of(group)).code(), BP_CANCELLED) << "again";
    EXPECT_EQ(group.failure().culprits, std::vector<uint32_t>{1});
  });
}

TEST_F(DataParallelTest, RankThatIsGone_IsNamed) {
  run(kMixed, [&](uint32_t rank, ProcessGroup& group) {
    const auto parallel = make(group, {.parameters = {of(2)}});
    if (rank == 2) return;  // its group ends, which waits for nothing
    const Status begun = parallel->ready(0, filled(group, 2, rank), stream_of(group));
    Status status = begun.ok() ? parallel->finish(stream_of(group)) : begun;
    if (status.ok()) status = read_status(*parallel->gradient(0));
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(group.failure().culprits, testing::Contains(2u));
  });
}

}  // namespace
}  // namespace bp::ccl
