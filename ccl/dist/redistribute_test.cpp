// SPDX-License-Identifier: Apache-2.0
//
// Every way from one placement to another, on meshes of one and two axes, against what the host
// works out element by element.
#include "ccl/dist/redistribute.hpp"

#include <algorithm>

#include "ccl/dist/mesh_harness_test.hpp"

namespace bp::ccl {
namespace {

using testing::FloatEq;
using testing::HasSubstr;
using testing::Pointwise;

/// A tensor on a mesh, element by element, by its row-major index.
class Whole {
 public:
  Whole(const MeshLayout& layout, const Dims& sizes) : layout_(layout), sizes_(sizes) {}
  const Dims& sizes() const { return sizes_; }

  /// The elements that a rank has.
  std::vector<int64_t> elements(uint32_t rank, const Placements& placements) const {
    std::vector<std::pair<int64_t, int64_t>> ranges;  // begin and end, by dimension
    for (const int64_t size : sizes_) ranges.emplace_back(0, size);
    const std::vector<uint32_t> at = layout_.coordinates(rank);
    for (size_t axis = 0; axis < placements.size(); ++axis) {
      if (placements[axis].kind != PlacementKind::kShard) continue;
      auto& [begin, end] = ranges[placements[axis].dim];
      const int64_t parts = layout_.axes()[axis].size;
      const int64_t full = (end - begin + parts - 1) / parts;
      begin = std::min(begin + full * at[axis], end);
      end = std::min(begin + full, end);
    }
    std::vector<int64_t> found;
    for (int64_t index = 0; index < element_count(sizes_); ++index) {
      int64_t rest = index;
      bool is_inside = true;
      for (size_t dim = sizes_.size(); dim-- > 0; rest /= sizes_[dim]) {
        const int64_t place = rest % sizes_[dim];
        is_inside = is_inside && place >= ranges[dim].first && place < ranges[dim].second;
      }
      if (is_inside) found.push_back(index);
    }
    return found;
  }
  /// What a rank has there before a reduction: the same as ranks that differ from it on axes that
  /// are not partial.
  float term(int64_t index, uint32_t rank, const Placements& from) const {
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis].kind != PlacementKind::kPartial) rank = layout_.members(rank, axis)[0];
    }
    return static_cast<float>((index * 7 + rank * 5 + 3) % 4 + 1);
  }
  /// ... after it, over the axes from `axis` on.
  float reduced(int64_t index, uint32_t rank, const Placements& from, size_t axis = 0) const {
    if (axis == from.size()) return term(index, rank, from);
    if (from[axis].kind != PlacementKind::kPartial) return reduced(index, rank, from, axis + 1);
    float result = 0;
    for (const uint32_t member : layout_.members(rank, axis)) {
      const float one = reduced(index, member, from, axis + 1);
      const bool is_first = member == layout_.members(rank, axis)[0];
      result = is_first ? one : combine(from[axis].reduction, result, one);
    }
    if (from[axis].reduction != Reduction::kAvg) return result;
    return result / static_cast<float>(layout_.axes()[axis].size);
  }

 private:
  static float combine(Reduction reduction, float a, float b) {
    switch (reduction) {
      case Reduction::kProd:
        return a * b;
      case Reduction::kMin:
        return std::min(a, b);
      case Reduction::kMax:
        return std::max(a, b);
      case Reduction::kSum:
      case Reduction::kAvg:
        break;
    }
    return a + b;
  }

  const MeshLayout& layout_;
  const Dims sizes_;
};

struct Case {
  Dims sizes;
  Placements from;
  Placements to;
};

class RedistributeTest : public MeshTest {
 protected:
  /// On one rank: what it has in `from` becomes what it must have in `to`.
  static void check(const Mesh& mesh, const Dims& sizes, const Placements& from,
                    const Placements& to) {
    SCOPED_TRACE(testing::Message()
                 << "rank " << mesh.rank() << " of " << mesh.layout().describe() << ": "
                 << to_string(sizes) << " " << describe(from) << " to " << describe(to));
    const Whole whole(mesh.layout(), sizes);
    std::vector<float> values;
    for (const int64_t index : whole.elements(mesh.rank(), from)) {
      values.push_back(whole.term(index, mesh.rank(), from));
    }
    std::vector<float> expected;
    for (const int64_t index : whole.elements(mesh.rank(), to)) {
      expected.push_back(whole.reduced(index, mesh.rank(), from));
    }
    const Ref<Tensor> tensor = part(mesh, sizes, from, values);
    const auto moved =
        redistribute(mesh, {.tensor = tensor, .sizes = sizes, .from = from, .to = to});
    ASSERT_TRUE(moved.ok()) << moved.status().to_string();
    EXPECT_TRUE((*moved)->contiguous());
    EXPECT_EQ((*moved)->sizes(), part_sizes(mesh, sizes, to));
    EXPECT_THAT(floats(*moved), Pointwise(FloatEq(), expected));
    EXPECT_EQ(floats(tensor), values) << "the input is as it was";
  }
  static Dims part_sizes(const Mesh& mesh, const Dims& sizes, const Placements& placements) {
    return shard_of(sizes, placements, mesh.layout().axes(), mesh.coordinates()).sizes;
  }
  static Ref<Tensor> part(const Mesh& mesh, const Dims& sizes, const Placements& placements,
                          const std::vector<float>& values) {
    auto tensor =
        copy_from_host(mesh.device().default_stream(), BP_DTYPE_F32,
                       part_sizes(mesh, sizes, placements), values.data(), MemoryTag::kIo);
    EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
    return *tensor;
  }
  /// All that an axis may be before, and after.
  static Placements all_from(const Dims& sizes) {
    Placements all = all_to(sizes);
    for (const Reduction reduction :
         {Reduction::kSum, Reduction::kProd, Reduction::kMin, Reduction::kMax, Reduction::kAvg}) {
      all.push_back(Placement::partial(reduction));
    }
    return all;
  }
  static Placements all_to(const Dims& sizes) {
    Placements all = {Placement()};
    for (uint32_t dim = 0; dim < sizes.size(); ++dim) all.push_back(Placement::shard(dim));
    return all;
  }
};

TEST_F(RedistributeTest, EveryPair_OnOneToFiveRanks) {
  const Dims shapes[] = {{},     {7},    {1},    {0},       {4, 6},
                         {5, 3}, {1, 4}, {0, 3}, {2, 5, 3}, {3, 2, 1, 4}};
  std::vector<Case> cases;
  for (const Dims& sizes : shapes) {
    for (const Placement& from : all_from(sizes)) {
      for (const Placement& to : all_to(sizes)) cases.push_back({sizes, {from}, {to}});
    }
  }
  EXPECT_GT(cases.size(), 150u);
  for (uint32_t rank_count = 1; rank_count <= 5; ++rank_count) {
    run_mesh({"cpu:0"}, layout_of({{"x", rank_count}}), [&](const Mesh& mesh) {
      for (const Case& one : cases) check(mesh, one.sizes, one.from, one.to);
    });
  }
}

TEST_F(RedistributeTest, EveryPair_OnTwoAxes) {
  const Placements all = {Placement(), Placement::shard(0), Placement::shard(1),
                          Placement::partial(Reduction::kSum)};
  std::vector<Case> cases;
  for (size_t number = 0; number < 256; ++number) {
    const Placements from = {all[number % 4], all[number / 4 % 4]};
    const Placements to = {all[number / 16 % 4], all[number / 64]};
    const auto is_partial = [](const Placement& one) {
      return one.kind == PlacementKind::kPartial;
    };
    if (std::any_of(to.begin(), to.end(), is_partial)) continue;
    for (const Dims& sizes : {Dims{5, 3}, Dims{4, 7}}) cases.push_back({sizes, from, to});
  }
  EXPECT_EQ(cases.size(), 2 * 16 * 9u);
  const std::vector<MeshAxis> meshes[] = {
      {{"a", 2}, {"b", 2}}, {{"a", 2}, {"b", 3}}, {{"a", 3}, {"b", 1}}};
  for (const auto& axes : meshes) {
    run_mesh({"cpu:0"}, layout_of(axes), [&](const Mesh& mesh) {
      for (const Case& one : cases) check(mesh, one.sizes, one.from, one.to);
    });
  }
}

TEST_F(RedistributeTest, RanksInAnotherOrder) {
  run_mesh({"cpu:0"}, layout_of({{"a", 2}, {"b", 2}}, {3, 0, 2, 1}), [](const Mesh& mesh) {
    check(mesh, {5, 3}, {Placement::shard(0), Placement::shard(0)},
          {Placement::shard(1), Placement()});
    check(mesh, {5, 3}, {Placement::partial(Reduction::kSum), Placement::shard(1)},
          {Placement::shard(0), Placement::shard(0)});
  });
}

TEST_F(RedistributeTest, DevicesOfSeveralVendors) {
  const Devices devices = {"npu:0", "xpu:0", "cpu:0"};
  run_mesh(devices, layout_of({{"x", 3}}), [](const Mesh& mesh) {
    const Dims sizes = {4, 5, 3};
    for (const Placement& from : all_from(sizes)) {
      for (const Placement& to : all_to(sizes)) check(mesh, sizes, {from}, {to});
    }
  });
}

TEST_F(RedistributeTest, NativeGroupsOfQueues) {
  run_mesh(
      {"npu:0", "npu:1", "npu:2", "npu:3"}, layout_of({{"a", 2}, {"b", 2}}), [](const Mesh& mesh) {
        EXPECT_TRUE(mesh.group(0).is_native()) << mesh.group(0).why_not_native();
        check(mesh, {5, 3}, {Placement::shard(0), Placement::shard(1)},
              {Placement::shard(1), Placement::shard(0)});
        check(mesh, {5, 3}, {Placement::partial(Reduction::kSum), Placement::shard(1)},
              {Placement::shard(0), Placement::shard(0)});
        check(mesh, {5, 3}, {Placement::shard(0), Placement::shard(0)}, {Placement(), Placement()});
      });
}

TEST_F(RedistributeTest, StridedParts_AndOtherDtypes) {
  run_mesh({"cpu:0"}, layout_of({{"x", 2}}), [this](const Mesh& mesh) {
    // Of rows 0..2 rank 0 has two; their columns are the rows of what lies in memory.
    const int64_t rows = mesh.rank() == 0 ? 2 : 1;
    std::vector<int16_t> values;
    for (int64_t i = 0; i < 4 * rows; ++i) values.push_back(static_cast<int16_t>(i));
    auto memory = copy_from_host(mesh.device().default_stream(), BP_DTYPE_I16, {4, rows},
                                 values.data(), MemoryTag::kIo);
    ASSERT_TRUE(memory.ok());
    const Ref<Tensor> turned = (*memory)->view({rows, 4}, {1, rows}, 0);
    const auto moved = redistribute(
        mesh,
        {.tensor = turned, .sizes = {3, 4}, .from = {Placement::shard(0)}, .to = {Placement()}});
    ASSERT_TRUE(moved.ok()) << moved.status().to_string();
    std::vector<int16_t> found(12);
    ASSERT_TRUE(copy_to_host(*moved, found.data(), 24).ok());
    EXPECT_EQ(found, (std::vector<int16_t>{0, 2, 4, 6, 1, 3, 5, 7, 0, 1, 2, 3}));
  });
}

TEST_F(RedistributeTest, NothingToDo_IsTheTensorItself) {
  run_mesh({"cpu:0"}, layout_of({{"x", 2}}), [](const Mesh& mesh) {
    const Ref<Tensor> tensor = part(mesh, {2}, {Placement::shard(0)}, {1});
    const auto same = redistribute(mesh, {.tensor = tensor,
                                          .sizes = {2},
                                          .from = {Placement::shard(0)},
                                          .to = {Placement::shard(0)}});
    ASSERT_TRUE(same.ok());
    EXPECT_EQ(same->get(), tensor.get());
    const auto whole = redistribute(mesh, {.tensor = part(mesh, {2}, {Placement()}, {1, 2}),
                                           .sizes = {2},
                                           .from = {Placement()},
                                           .to = {Placement()}});
    EXPECT_TRUE(whole.ok());
    EXPECT_EQ(mesh.group(0).counters().host_operations.load(), 0u);
  });
}

TEST_F(RedistributeTest, ToAShard_NeedsNoCommunication) {
  run_mesh({"cpu:0"}, layout_of({{"x", 2}}), [](const Mesh& mesh) {
    const Ref<Tensor> tensor = part(mesh, {2}, {Placement()}, {1, 2});
    const auto moved = redistribute(
        mesh, {.tensor = tensor, .sizes = {2}, .from = {Placement()}, .to = {Placement::shard(0)}});
    ASSERT_TRUE(moved.ok());
    EXPECT_NE(&(*moved)->storage(), &tensor->storage());
    EXPECT_EQ(floats(*moved), std::vector<float>{static_cast<float>(mesh.rank() + 1)});
    EXPECT_EQ(mesh.group(0).counters().host_operations.load(), 0u);
  });
}

TEST_F(RedistributeTest, BadArguments_AreRefusedByName) {
  run_mesh({"cpu:0"}, layout_of({{"x", 1}}), [this](const Mesh& mesh) {
    const auto words = [&](const RedistributeArgs& args) {
      return redistribute(mesh, args).status().to_string();
    };
    const Ref<Tensor> tensor = part(mesh, {2, 3}, {Placement()}, std::vector<float>(6));
    const auto args = [&] {
      return RedistributeArgs{
          .tensor = tensor, .sizes = {2, 3}, .from = {Placement()}, .to = {Placement::shard(1)}};
    };
    EXPECT_EQ(words(args()), "OK");
    RedistributeArgs bad = args();
    bad.tensor = nullptr;
    EXPECT_THAT(words(bad), HasSubstr("INVALID_ARGUMENT: redistribute: tensor is missing"));
    bad = args();
    bad.sizes = {3, 3};
    EXPECT_THAT(words(bad), HasSubstr("tensor is f32 [2, 3] on cpu:0, expected [3, 3]: the part of "
                                      "rank 0 of [3, 3] as [replicate]"));
    bad = args();
    bad.sizes = {-2, 3};
    EXPECT_THAT(words(bad), HasSubstr("sizes [-2, 3] are negative or too large"));
    bad.sizes = {int64_t{1} << 62, 3};
    EXPECT_THAT(words(bad), HasSubstr("negative or too large"));
    bad = args();
    bad.to = {Placement::shard(2)};
    EXPECT_THAT(words(bad), HasSubstr("to is shard 2 on axis x"));
    bad.to = {};
    EXPECT_THAT(words(bad), HasSubstr("to has 0 placements, and the mesh 1 axes"));
    bad = args();
    bad.to = {Placement::partial(Reduction::kSum)};
    EXPECT_THAT(words(bad), HasSubstr("UNSUPPORTED: axis x cannot become partial sum"));
    bad = args();
    bad.tensor = upload(device("npu:0"), BP_DTYPE_F32, {1});
    EXPECT_THAT(words(bad), HasSubstr("f32 [1] on npu:0, expected one on cpu:0"));
  });
}

TEST_F(RedistributeTest, RankThatAborts_FailsAllWithItsWords) {
  run_mesh({"npu:0", "xpu:0", "cpu:0"}, layout_of({{"x", 3}}), [](const Mesh& mesh) {
    if (mesh.rank() == 1) return mesh.group(0).abort("it has had enough");
    const Ref<Tensor> tensor =
        part(mesh, {4, 3}, {Placement::partial(Reduction::kSum)}, std::vector<float>(12));
    const auto moved = redistribute(mesh, {.tensor = tensor,
                                           .sizes = {4, 3},
                                           .from = {Placement::partial(Reduction::kSum)},
                                           .to = {Placement::shard(1)}});
    EXPECT_EQ(moved.status().code(), BP_CANCELLED);
    EXPECT_THAT(moved.status().message(), HasSubstr("it has had enough"));
  });
}

}  // namespace
}  // namespace bp::ccl
