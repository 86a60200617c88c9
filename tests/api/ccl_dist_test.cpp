// SPDX-License-Identifier: Apache-2.0
//
// Meshes, redistribution and data parallel training through the library, on ranks of one vendor and
// of several.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backplane/ops.hpp"
#include "tests/api/ccl_fixture.hpp"

namespace bp {
namespace {

using ccl::DataParallel;
using ccl::Group;
using ccl::Mesh;
using ccl::Placement;
using ccl::Reduction;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class CclDistTest : public CclTest {
 protected:
  /// As run(), with a mesh; device `rank` modulo their number.
  void run_mesh(const DeviceNames& devices, const std::vector<ccl::Axis>& axes,
                const std::function<void(const Mesh&, uint32_t, Device)>& body) {
    uint32_t rank_count = 1;
    for (const ccl::Axis& axis : axes) rank_count *= axis.size;
    store_ = ccl::Store::memory();
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const Device device = runtime_->device(devices[rank % devices.size()]);
          body(Mesh::create(device, {.store = store_,
                                     .rank = rank,
                                     .rank_count = rank_count,
                                     .axes = axes,
                                     .timeout = timeout_}),
               rank, device);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static std::string words_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
};

/// Values 0, 1, ... of a matrix, those of the part.
Floats part_of(const ccl::Shard& shard, int64_t columns) {
  Floats values;
  for (int64_t row = 0; row < shard.sizes[0]; ++row) {
    for (int64_t column = 0; column < shard.sizes[1]; ++column) {
      values.push_back(
          static_cast<float>((shard.offsets[0] + row) * columns + shard.offsets[1] + column));
    }
  }
  return values;
}

TEST_F(CclDistTest, Redistribute_OnAMeshOfSeveralVendors) {
  DeviceNames devices = {"npu:0", "cpu:0"};
  if (has("xpu:0")) devices.push_back("xpu:0");
  run_mesh(
      devices, {{"data", 2}, {"model", 3}}, [&](const Mesh& mesh, uint32_t rank, Device device) {
        EXPECT_EQ(mesh.group("data").rank(), rank / 3);
        EXPECT_EQ(mesh.group("model").rank(), rank % 3);
        const std::vector<int64_t> sizes = {5, 4};
        const std::vector<Placement> placements[] = {{{}, {}},
                                                     {Placement::shard(0), {}},
                                                     {Placement::shard(1), Placement::shard(0)},
                                                     {Placement::shard(0), Placement::shard(0)}};
        for (const auto& from : placements) {
          const ccl::Shard before = mesh.shard(sizes, from);
          const Tensor tensor = Tensor::from_host<float>(device, part_of(before, 4),
                                                         {before.sizes[0], before.sizes[1]});
          for (const auto& to : placements) {
            const Tensor moved = ccl::redistribute(mesh, tensor, sizes, from, to);
            const ccl::Shard after = mesh.shard(sizes, to);
            EXPECT_EQ(moved.sizes(), after.sizes);
            EXPECT_EQ(moved.to_vector<float>(), part_of(after, 4));
          }
        }
      });
}

// The lines that docs/collectives.md shows.
TEST_F(CclDistTest, LinesOfThePage_DoWhatItSays) {
  const auto store = ccl::Store::memory();
  const auto body = [&](uint32_t rank, bp::Device device) {
    auto x = upload(device, {1});
    // clang-format off
    auto mesh = bp::ccl::Mesh::create(device, {.store = store, .rank = rank, .rank_count = 6,
                                               .axes = {{"data", 2}, {"model", 3}}});
    mesh.group("model").all_reduce(x);
    // clang-format on
    EXPECT_EQ(x.to_vector<float>(), Floats{3});
    const std::vector<int64_t> sizes = {6, 2};
    const auto part = Tensor::from_host<float>(device, Floats(12, 1), {6, 2});
    using bp::ccl::Placement;
    const std::vector<Placement> summands = {Placement::replicate(), Placement::partial()};
    const std::vector<Placement> cut = {Placement::replicate(), Placement::shard(0)};
    auto rows = bp::ccl::redistribute(mesh, part, sizes, summands, cut);
    EXPECT_EQ(rows.sizes(), (std::vector<int64_t>{2, 2}));
    EXPECT_EQ(rows.to_vector<float>(), Floats(4, 3));
  };
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 6; ++rank) {
    threads.emplace_back([&, rank] { EXPECT_NO_THROW(body(rank, runtime_->device("cpu:0"))); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CclDistTest, Partials_AreReduced) {
  run_mesh({"cpu:0"}, {{"x", 3}}, [](const Mesh& mesh, uint32_t rank, Device device) {
    const auto value = static_cast<float>(rank + 1);
    const Tensor tensor = Tensor::from_host<float>(device, Floats(4, value), {4});
    const auto reduced = [&](Reduction op, Placement to) {
      return ccl::redistribute(mesh, tensor, {4}, {Placement::partial(op)}, {to})
          .to_vector<float>();
    };
    EXPECT_EQ(reduced(Reduction::sum, {}), Floats(4, 6));
    EXPECT_EQ(reduced(Reduction::prod, {}), Floats(4, 6));
    EXPECT_EQ(reduced(Reduction::min, {}), Floats(4, 1));
    EXPECT_EQ(reduced(Reduction::max, {}), Floats(4, 3));
    EXPECT_EQ(reduced(Reduction::avg, Placement::shard(0)), Floats(rank < 2 ? 2 : 0, 2));
  });
}

TEST_F(CclDistTest, BadMeshes_AreRefusedByName) {
  store_ = ccl::Store::memory();
  const Device device = runtime_->device("cpu:0");
  const auto words = [&](const ccl::MeshOptions& options) {
    return words_of([&] { Mesh::create(device, options); });
  };
  EXPECT_THAT(words({.store = store_, .rank_count = 5, .axes = {{"data", 2}, {"model", 3}}}),
              AllOf(HasSubstr("INVALID_ARGUMENT: argument args: a mesh: axes [data 2, model 3]"),
                    HasSubstr("6 places, and there are 5 ranks")));
  EXPECT_THAT(words({.store = store_, .rank_count = 4, .axes = {{"data", 2}, {"data", 2}}}),
              HasSubstr("are both called data"));
  EXPECT_THAT(words({.store = store_, .rank_count = 2, .axes = {{"data", 2}}, .ranks = {1}}),
              HasSubstr("options.ranks has 1 ranks of 2"));
  const Mesh mesh = Mesh::create(device, {.store = store_, .axes = {{"x", 1}}});
  EXPECT_THAT(words_of([&] { mesh.group("y"); }),
              HasSubstr("argument axis is 'y', and the mesh has [x 1]"));
  const Tensor tensor = upload(device, {1, 2});
  const Placement whole;
  EXPECT_THAT(words_of([&] { ccl::redistribute(mesh, tensor, {3}, {whole}, {whole}); }),
              HasSubstr("f32 [2] on cpu:0, expected [3]"));
  EXPECT_THAT(
      words_of([&] { ccl::redistribute(mesh, tensor, {2}, {whole}, {Placement::shard(1)}); }),
      HasSubstr("args.to[0] is BPA_CCL_SHARD(1), and the tensor has 1 dimensions"));
  EXPECT_THAT(words_of([&] {
                ccl::redistribute(mesh, tensor, {2}, {whole, whole}, {whole, whole});
              }),
              HasSubstr("args.placement_count is 2, and the mesh has 1 axes"));
}

TEST_F(CclDistTest, FailureOfAGroup_IsAGroupError) {
  run_mesh({"npu:0", "cpu:0"}, {{"x", 2}}, [](const Mesh& mesh, uint32_t rank, Device device) {
    if (rank == 0) return mesh.group("x").abort("enough");
    const Tensor tensor = upload(device, {1, 2});
    const ccl::Failure failure = failure_of(
        [&] { ccl::redistribute(mesh, tensor, {2}, {Placement::partial()}, {Placement()}); });
    EXPECT_EQ(failure.code, BP_CANCELLED);
    EXPECT_THAT(failure.culprits, ElementsAre(0));
    EXPECT_THAT(failure.words, HasSubstr("enough"));
  });
}

TEST_F(CclDistTest, GroupsOutliveTheirMesh) {
  run_mesh({"cpu:0"}, {{"x", 2}}, [](Mesh mesh, uint32_t, Device device) {
    const Group group = mesh.group("x");
    mesh = Mesh();
    const Tensor x = upload(device, {1});
    group.all_reduce(x);
    EXPECT_EQ(x.to_vector<float>(), Floats{2});
  });
}

// --- Training ---

constexpr int64_t kRows = 30;
constexpr int64_t kInputs = 3;
constexpr int64_t kHidden = 8;
constexpr int kSteps = 12;

Floats random_floats(uint32_t seed, int64_t count) {
  std::mt19937 random(seed);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random() >> 8) / (1 << 23) - 1;
  return values;
}

/// A perceptron with one hidden layer, its gradients by hand: what each rank does with its rows.
class Training {
 public:
  Training(const Group& group, Device device, std::mt19937 order)
      : group_(group), device_(device), order_(order) {
    const int64_t begin = kRows * group.rank() / group.rank_count();
    const int64_t end = kRows * (group.rank() + 1) / group.rank_count();
    const Floats inputs = random_floats(1, kRows * kInputs);
    const Floats targets = random_floats(2, kRows);
    x_ = Tensor::from_host<float>(
        device, Floats(inputs.begin() + begin * kInputs, inputs.begin() + end * kInputs),
        {end - begin, kInputs});
    target_ = Tensor::from_host<float>(
        device, Floats(targets.begin() + begin, targets.begin() + end), {end - begin, 1});
    weight_ = upload_scalar(2.0f * static_cast<float>(group.rank_count()) / kRows);
    rate_ = upload_scalar(0.2f);
    const uint32_t seed = 10 + group.rank();  // rank 0's parameters count
    parameters_ = {parameter(seed, kInputs, kHidden), parameter(seed + 1, 1, kHidden),
                   parameter(seed + 2, kHidden, 1), parameter(seed + 3, 1, 1)};
    parallel_ =
        DataParallel::create(group, parameters_, {.bucket_bytes = 512, .first_bucket_bytes = 256});
    parallel_.broadcast_parameters(parameters_);
  }

  /// All parameters, one behind the other.
  Floats run() {
    for (int step = 0; step < kSteps; ++step) advance();
    Floats all;
    for (const Tensor& parameter : parameters_) {
      const Floats values = parameter.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  void advance() {
    const Tensor hidden = relu(add(matmul(x_, parameters_[0]), parameters_[1]));
    const Tensor out = add(matmul(hidden, parameters_[2]), parameters_[3]);
    const Tensor d_out = mul(sub(out, target_), weight_);
    const Tensor d_hidden = mul(gemm(d_out, parameters_[2], {}, {.trans_b = true}), sign(hidden));
    const Tensor gradients[] = {
        gemm(x_, d_hidden, {}, {.trans_a = true}), reduce_sum(d_hidden, {.axes = {0}}),
        gemm(hidden, d_out, {}, {.trans_a = true}), reduce_sum(d_out, {.axes = {0}})};
    std::vector<uint64_t> order = {0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), order_);
    for (const uint64_t i : order) parallel_.ready(i, gradients[i]);
    parallel_.finish();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i] = sub(parameters_[i], mul(parallel_.gradient(i), rate_));
    }
  }
  Tensor parameter(uint32_t seed, int64_t rows, int64_t columns) const {
    return Tensor::from_host<float>(device_, random_floats(seed, rows * columns), {rows, columns});
  }
  Tensor upload_scalar(float value) const {
    return Tensor::from_host<float>(device_, Floats{value}, {1});
  }

  const Group group_;
  const Device device_;
  std::mt19937 order_;
  Tensor x_, target_, weight_, rate_;
  std::vector<Tensor> parameters_;
  DataParallel parallel_;
};

class CclTrainingTest : public CclDistTest {
 protected:
  /// What each rank comes to.
  std::vector<Floats> train(const DeviceNames& devices, uint32_t seed) {
    std::vector<Floats> trained(devices.size());
    run(devices, [&](const Group& group, Device device) {
      trained[group.rank()] = Training(group, device, std::mt19937(seed + group.rank())).run();
    });
    return trained;
  }
};

TEST_F(CclTrainingTest, EqualsOneRank_OnDevicesOfEveryKind) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const Floats alone = train({"cpu:0"}, seed)[0];
  std::vector<DeviceNames> groups = {{"cpu:0", "cpu:0"},
                                     {"cpu:0", "cpu:0", "cpu:0", "cpu:0"},
                                     {"npu:0", "npu:1"},
                                     {"npu:0", "cpu:0", "npu:1"},
                                     {"npu:0"}};
  if (has("xpu:0")) groups.push_back({"npu:0", "xpu:0", "cpu:0"});
  for (const DeviceNames& devices : groups) {
    SCOPED_TRACE(testing::PrintToString(devices));
    const std::vector<Floats> trained = train(devices, seed);
    ASSERT_EQ(trained[0].size(), alone.size());
    for (const Floats& one : trained) EXPECT_EQ(one, trained[0]) << "bit by bit, on every rank";
    for (size_t i = 0; i < alone.size(); ++i) {
      // Sums of 30 rows in another order: 30 roundings of 2^-24 in each of 12 steps.
      EXPECT_NEAR(trained[0][i], alone[i], 2e-5f) << "parameter " << i;
    }
  }
}

TEST_F(CclTrainingTest, BoundOutputOfARun_MayBeTheGradient) {
  run({"cpu:0", "cpu:0"}, [&](const Group& group, Device device) {
    const std::vector<Tensor> parameters = {Tensor::create(device, BP_DTYPE_F32, {1, 10})};
    const auto parallel = DataParallel::create(group, parameters);
    const Session session =
        Session::load(*runtime_, BP_DIGITS_DIR "/digits.onnx", {.device = "cpu:0"});
    const Tensor image = Tensor::from_host<float>(
        device, Floats(64, group.rank() == 0 ? 0.25f : 0.75f), {1, 1, 8, 8});
    const Floats own = session.run({{"image", image}}).at("probabilities").to_vector<float>();
    session.run({{"image", image}}, {.outputs = {{"probabilities", parallel.gradient(0)}}});
    parallel.ready(0);
    parallel.finish();
    const Tensor sum = upload(device, own);
    group.all_reduce(sum, {.op = Reduction::avg});
    EXPECT_EQ(parallel.gradient(0).to_vector<float>(), sum.to_vector<float>());
  });
}

TEST_F(CclTrainingTest, RankThatFailsInTheMiddle_EndsTheOthersSteps) {
  run({"npu:0", "cpu:0"}, [&](const Group& group, Device device) {
    const std::vector<Tensor> parameters = {upload(device, {1}), upload(device, {2})};
    const auto parallel =
        DataParallel::create(group, parameters, {.bucket_bytes = 4, .first_bucket_bytes = 4});
    const std::string words = words_of([&] {
      for (int step = 0; step < 10; ++step) {
        for (const uint64_t i : {1, 0}) {
          if (group.rank() == 1 && step == 3 && i == 0) group.abort("no more data");
          parallel.ready(i, parameters[i]);
        }
        parallel.finish();
        EXPECT_EQ(parallel.gradient(1).to_vector<float>(), Floats{2});
        EXPECT_LE(step, 3);
      }
    });
    EXPECT_THAT(words, AllOf(HasSubstr("CANCELLED"), HasSubstr("no more data")));
    const ccl::Failure failure = failure_of([&] { parallel.finish(); });
    EXPECT_EQ(failure.code, BP_CANCELLED);
    EXPECT_THAT(failure.culprits, ElementsAre(1));
  });
}

TEST_F(CclTrainingTest, InfoAndErrors) {
  run({"cpu:0"}, [&](const Group& group, Device device) {
    const std::vector<Tensor> parameters = {upload(device, {1}), upload(device, {2, 3})};
    const auto parallel = DataParallel::create(group, parameters, {.first_bucket_bytes = 1});
    EXPECT_EQ(parallel.info().parameter_count, 2u);
    EXPECT_EQ(parallel.info().bucket_count, 2u);
    EXPECT_EQ(parallel.info().bucket_bytes, 512u);
    parallel.ready(1, parameters[1]);
    EXPECT_EQ(parallel.info().begun_count, 1u);
    EXPECT_THAT(words_of([&] { parallel.finish(); }),
                HasSubstr("INVALID_ARGUMENT: data parallel: gradient 0: not ready"));
    EXPECT_THAT(words_of([&] { parallel.ready(1); }), HasSubstr("ready already"));
    EXPECT_THAT(words_of([&] { parallel.ready(2); }),
                HasSubstr("argument index is 2, and there are 2 gradients"));
    parallel.accumulate(0, parameters[0]);
    parallel.ready(0, parameters[0]);
    parallel.finish();
    EXPECT_EQ(parallel.gradient(0).to_vector<float>(), Floats{2});
    const std::vector<Tensor> none;
    EXPECT_THAT(words_of([&] { DataParallel::create(group, none); }),
                HasSubstr("args.parameter_count is 0"));
    EXPECT_THAT(words_of([&] {
                  DataParallel::create(group, std::vector{upload(runtime_->device("npu:0"), {1})});
                }),
                HasSubstr("args.parameters[0] is f32 [1] on npu:0, and the group is on cpu:0"));
  });
}

TEST_F(CclTrainingTest, StepsInProgress_AtTheEndOfAllHandles) {
  // One rank drops everything with a reduction on its way, which the other one still gets.
  run({"cpu:0", "cpu:0"}, [&](const Group& group, Device device) {
    const std::vector<Tensor> parameters = {upload(device, {static_cast<float>(group.rank())})};
    auto parallel = DataParallel::create(group, parameters);
    parallel.ready(0, parameters[0]);
    const Tensor average = parallel.gradient(0);
    parallel = DataParallel();
    EXPECT_EQ(average.to_vector<float>(), Floats{0.5f});
  });
}

}  // namespace
}  // namespace bp
