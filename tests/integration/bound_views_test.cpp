// SPDX-License-Identifier: Apache-2.0
//
// Outputs that are views of an input, where outputs are bound to the input's memory: values are as
// if all memory were apart.
#include <string>
#include <vector>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class BoundViewsTest : public DeviceTest {
 protected:
  void SetUp() override { open(test_runtime_args()); }

  /// Outputs "sum" = x + x and "view" = x transposed, in either order.
  Graph graph(bool sum_first) {
    Graph graph(runtime_->registry());
    const ValueId x =
        must(graph.add_input("x", {.dtype = BP_DTYPE_F32, .has_rank = true, .sizes = {2, 2}}));
    Attributes swapped(runtime_->registry().schema(op("transpose")));
    const int64_t order[] = {1, 0};
    EXPECT_TRUE(swapped.set_i64s("perm", order).ok());
    const ValueId both[] = {x, x};
    const std::string sum_name[] = {"sum"};
    const std::string view_name[] = {"view"};
    const NodeId sum = must(graph.add_node(op("add"), "", both, {}, sum_name));
    const NodeId view = must(graph.add_node(op("transpose"), "", {&x, 1}, swapped, view_name));
    std::vector<ValueId> outputs = {graph.node(sum).outputs[0], graph.node(view).outputs[0]};
    std::vector<std::string> names = {"sum", "view"};
    if (!sum_first) std::swap(outputs[0], outputs[1]);
    if (!sum_first) std::swap(names[0], names[1]);
    EXPECT_TRUE(graph.set_outputs(outputs, names).ok());
    return graph;
  }
  template <class T>
  static T must(Result<T> result) {
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return std::move(*result);
  }
  /// Another tensor over the same memory.
  static Ref<Tensor> wrap_of(const Ref<Tensor>& x) {
    const Storage& storage = x->storage();
    return Ref<Tensor>::make(
        Storage::wrap(x->device(), storage.handle(), storage.offset_bytes() + storage.bytes(),
                      std::make_shared<Ref<Tensor>>(x)),
        x->dtype(), x->sizes(), x->strides(), storage.offset_bytes() + x->offset_bytes());
  }

  const std::vector<double> sum_ = {2, 4, 6, 8};
  const std::vector<double> view_ = {1, 3, 2, 4};
};

TEST_P(BoundViewsTest, OneOutputBoundToTheInputsMemory_BothAreRight) {
  for (const bool sum_first : {true, false}) {
    for (const size_t bound : {size_t{0}, size_t{1}}) {
      for (const bool same_tensor : {true, false}) {
        SCOPED_TRACE(std::string(sum_first ? "sum, view" : "view, sum") + ", bound is " +
                     std::to_string(bound) + (same_tensor ? ", the tensor" : ", a wrap"));
        const Ref<Session> s = session(graph(sum_first));
        ASSERT_TRUE(s);
        const Ref<Tensor> x = upload_f32({2, 2}, {1, 2, 3, 4});
        const NamedTensor inputs[] = {{"x", x}};
        std::vector<Ref<Tensor>> targets(2);
        targets[bound] = same_tensor ? x : wrap_of(x);
        const auto outputs = s->run(inputs, {.outputs = targets});
        ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
        EXPECT_EQ((*outputs)[bound], targets[bound]);
        EXPECT_EQ(values((*outputs)[0]), sum_first ? sum_ : view_);
        EXPECT_EQ(values((*outputs)[1]), sum_first ? view_ : sum_);
        EXPECT_EQ(values(x), (bound == 0) == sum_first ? sum_ : view_);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, BoundViewsTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
