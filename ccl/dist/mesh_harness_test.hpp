// SPDX-License-Identifier: Apache-2.0
//
// Meshes whose ranks are threads of this process.
#ifndef BACKPLANE_CCL_DIST_MESH_HARNESS_TEST_HPP
#define BACKPLANE_CCL_DIST_MESH_HARNESS_TEST_HPP

#include <functional>
#include <thread>
#include <vector>

#include "ccl/dist/mesh.hpp"
#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {

class MeshTest : public GroupTest {
 protected:
  static MeshLayout layout_of(const std::vector<MeshAxis>& axes,
                              const std::vector<uint32_t>& order = {}) {
    uint32_t rank_count = 1;
    for (const MeshAxis& axis : axes) rank_count *= axis.size;
    auto layout = MeshLayout::make(axes, rank_count, order);
    EXPECT_TRUE(layout.ok()) << layout.status().to_string();
    return *layout;
  }
  MeshArgs mesh_args(const Devices& devices, const MeshLayout& layout, uint32_t rank) {
    return {.store = store_,
            .name = "test",
            .rank = rank,
            .layout = layout,
            .device = &device(devices[rank % devices.size()]),
            .timeout = timeout_};
  }
  /// A thread for each rank; device `rank` modulo their number.
  void run_mesh(const Devices& devices, const MeshLayout& layout,
                const std::function<void(const Mesh&)>& body) {
    store_ = make_memory_store();
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < layout.rank_count(); ++rank) {
      threads.emplace_back([&, rank] {
        auto mesh = Mesh::create(mesh_args(devices, layout, rank));
        ASSERT_TRUE(mesh.ok()) << mesh.status().to_string();
        body(**mesh);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace bp::ccl

#endif
