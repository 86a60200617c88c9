// SPDX-License-Identifier: Apache-2.0
//
// Where ranks lie in meshes, the groups of their axes, and what makes no mesh.
#include <algorithm>
#include <numeric>

#include "ccl/dist/mesh_harness_test.hpp"

namespace bp::ccl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Status status_of(std::vector<MeshAxis> axes, uint32_t rank_count,
                 const std::vector<uint32_t>& ranks = {}) {
  return MeshLayout::make(std::move(axes), rank_count, ranks).status();
}

TEST(MeshLayout, LastAxisIsTheFastest) {
  const auto layout = MeshLayout::make({{"data", 2}, {"model", 3}}, 6, {});
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(layout->coordinates(0), ElementsAre(0, 0));
  EXPECT_THAT(layout->coordinates(4), ElementsAre(1, 1));
  EXPECT_THAT(layout->members(4, 0), ElementsAre(1, 4));
  EXPECT_THAT(layout->members(4, 1), ElementsAre(3, 4, 5));
  EXPECT_EQ(layout->find("model"), 1u);
  EXPECT_EQ(layout->find("Model"), std::nullopt);
  EXPECT_EQ(layout->describe(), "[data 2, model 3]");
}

TEST(MeshLayout, RanksMayLieInAnyOrder) {
  std::vector<uint32_t> order(6);
  std::iota(order.begin(), order.end(), 0u);
  size_t count = 0;
  do {
    const auto layout = MeshLayout::make({{"a", 2}, {"b", 3}}, 6, order);
    ASSERT_TRUE(layout.ok());
    for (uint32_t place = 0; place < 6; ++place) {
      const uint32_t rank = order[place];
      ASSERT_THAT(layout->coordinates(rank), ElementsAre(place / 3, place % 3));
      ASSERT_THAT(layout->members(rank, 0), ElementsAre(order[place % 3], order[place % 3 + 3]));
      const uint32_t row = place / 3 * 3;
      ASSERT_THAT(layout->members(rank, 1),
                  ElementsAre(order[row], order[row + 1], order[row + 2]));
    }
    ++count;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(count, 720u);
}

TEST(MeshLayout, BadShapes_AreRefusedByName) {
  EXPECT_THAT(status_of({{"data", 2}, {"model", 3}}, 8).message(),
              AllOf(HasSubstr("[data 2, model 3] have 6 places"), HasSubstr("8 ranks")));
  EXPECT_THAT(status_of({{"data", 2}, {"data", 2}}, 4).message(),
              HasSubstr("axes 0 and 1 are both called data"));
  EXPECT_THAT(status_of({{"data", 2}, {"model", 0}}, 2).message(),
              HasSubstr("axis model has size 0"));
  EXPECT_THAT(status_of({}, 1).message(), HasSubstr("1 to 16 axes, found 0"));
  EXPECT_THAT(status_of(std::vector<MeshAxis>(17, {"x", 1}), 1).message(), HasSubstr("found 17"));
  EXPECT_THAT(status_of({{"", 1}}, 1).message(), HasSubstr("axis 0 has 0 bytes"));
  EXPECT_THAT(status_of({{std::string(65, 'x'), 1}}, 1).message(), HasSubstr("65 bytes"));
  const uint32_t most = UINT32_MAX;
  EXPECT_THAT(status_of({{"a", most}, {"b", most}, {"c", most}}, 4).message(),
              HasSubstr("far more places"));
  EXPECT_THAT(status_of({{"a", 3}}, 3, {0, 1, 1}).message(),
              HasSubstr("rank 1 is at places 1 and 2"));
  EXPECT_THAT(status_of({{"a", 3}}, 3, {0, 1, 3}).message(), HasSubstr("place 2 has rank 3"));
  EXPECT_THAT(status_of({{"a", 3}}, 3, {0, 1}).message(), HasSubstr("has 2 ranks, expected 3"));
  for (const Status& status : {status_of({{"a", 2}}, 3), status_of({{"a", 2}}, 2, {1, 1})}) {
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  }
}

/// Each axis' group is of the right ranks: a rank's number is its coordinate, and the sum over the
/// group is that of its members.
void expect_groups(const Mesh& mesh, const MeshLayout& layout) {
  for (size_t axis = 0; axis < layout.axes().size(); ++axis) {
    ProcessGroup& group = mesh.group(axis);
    EXPECT_EQ(group.place().rank, mesh.coordinates()[axis]);
    EXPECT_EQ(group.place().rank_count, layout.axes()[axis].size);
    const float own = static_cast<float>(mesh.rank());
    auto x =
        copy_from_host(mesh.device().default_stream(), BP_DTYPE_F32, {1}, &own, MemoryTag::kIo);
    ASSERT_TRUE(x.ok());
    const auto work =
        group.enqueue({.kind = Kind::kAllReduce, .send = *x, .recv = *x}, {.waits = true});
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    const auto members = layout.members(mesh.rank(), axis);
    float sum = 0;
    ASSERT_TRUE(copy_to_host(*x, &sum, sizeof(sum)).ok());
    EXPECT_EQ(sum, static_cast<float>(std::accumulate(members.begin(), members.end(), 0u)));
  }
}

TEST_F(MeshTest, AxisGroups_OfSeveralShapesAndOrders) {
  const struct {
    std::vector<MeshAxis> axes;
    std::vector<uint32_t> order;
  } cases[] = {{{{"data", 1}}, {}},
               {{{"data", 5}}, {4, 2, 0, 1, 3}},
               {{{"data", 2}, {"model", 3}}, {}},
               {{{"data", 3}, {"model", 2}}, {5, 0, 3, 1, 4, 2}},
               {{{"a", 1}, {"b", 2}, {"c", 1}, {"d", 3}}, {}},
               {{{"pipe", 2}, {"data", 2}, {"model", 2}}, {7, 6, 5, 4, 3, 2, 1, 0}}};
  for (const auto& [axes, order] : cases) {
    const MeshLayout layout = layout_of(axes, order);
    SCOPED_TRACE(layout.describe());
    run_mesh({"cpu:0"}, layout, [&](const Mesh& mesh) { expect_groups(mesh, layout); });
  }
}

/// What each rank's create answers.
template <class LayoutOf>
std::vector<Status> outcomes(uint32_t rank_count, LayoutOf args_of) {
  std::vector<Status> outcomes(rank_count);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] { outcomes[rank] = Mesh::create(args_of(rank)).status(); });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST_F(MeshTest, RanksThatDisagree_AllFailAndNameBoth) {
  store_ = make_memory_store();
  const MeshLayout wide = layout_of({{"data", 2}, {"model", 3}});
  const MeshLayout tall = layout_of({{"data", 3}, {"model", 2}});
  const auto statuses = outcomes(
      6, [&](uint32_t rank) { return mesh_args({"cpu:0"}, rank == 4 ? tall : wide, rank); });
  size_t refused = 0;
  for (uint32_t rank = 0; rank < 6; ++rank) {
    EXPECT_THAT(statuses[rank].message(),
                AllOf(HasSubstr("mesh test"), HasSubstr("[data 2, model 3]"),
                      HasSubstr("[data 3, model 2]")))
        << rank;
    if (statuses[rank].code() == BP_INVALID_ARGUMENT) ++refused;
  }
  EXPECT_GE(refused, 1u);
}

TEST_F(MeshTest, RankThatDoesNotCome_IsNamed) {
  store_ = make_memory_store();
  timeout_ = std::chrono::seconds(3);
  const MeshLayout layout = layout_of({{"data", 3}});
  const auto statuses =
      outcomes(2, [&](uint32_t rank) { return mesh_args({"cpu:0"}, layout, rank); });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), BP_TIMEOUT);
    EXPECT_THAT(status.message(), HasSubstr("of 3 ranks these did not come in time: 2"));
  }
}

TEST_F(MeshTest, DeadlineThatPasses_IsToldWithWhatSetIt) {
  core_options_ = {{"BACKPLANE_CCL_TIMEOUT", "1"}};
  make_runtime();
  const MeshLayout layout = layout_of({{"data", 2}});
  for (const auto& [timeout, words] :
       {std::pair(0, "in time: 1 (BACKPLANE_CCL_TIMEOUT; store "),
        std::pair(100, "in time: 1 (the timeout that the program gave; store ")}) {
    store_ = make_memory_store();
    timeout_ = std::chrono::milliseconds(timeout);
    EXPECT_THAT(Mesh::create(mesh_args({"cpu:0"}, layout, 0)).status().message(), HasSubstr(words));
  }
}

TEST_F(MeshTest, SameRankTwice_IsRefused) {
  store_ = make_memory_store();
  timeout_ = std::chrono::milliseconds(500);
  const MeshLayout layout = layout_of({{"data", 2}});
  const auto statuses =
      outcomes(3, [&](uint32_t rank) { return mesh_args({"cpu:0"}, layout, rank % 2); });
  const auto refused = std::count_if(statuses.begin(), statuses.end(), [](const Status& status) {
    return status.message().find("already") != std::string::npos;
  });
  EXPECT_EQ(refused, 1) << statuses[0].to_string() << statuses[1].to_string()
                        << statuses[2].to_string();
}

TEST_F(MeshTest, BadArguments_AreRefused) {
  store_ = make_memory_store();
  const MeshLayout layout = layout_of({{"data", 1}});
  MeshArgs args = mesh_args({"cpu:0"}, layout, 0);
  args.name = std::string(129, 'x');
  EXPECT_THAT(Mesh::create(args).status().message(), HasSubstr("1 to 128 bytes, found 129"));
  args = mesh_args({"cpu:0"}, layout, 0);
  args.rank = 1;
  EXPECT_THAT(Mesh::create(args).status().message(), HasSubstr("a rank from 0 to 0, found 1"));
  args = mesh_args({"cpu:0"}, layout, 0);
  args.store = nullptr;
  EXPECT_THAT(Mesh::create(args).status().message(), HasSubstr("store is missing"));
}

}  // namespace
}  // namespace bp::ccl
