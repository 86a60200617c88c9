// SPDX-License-Identifier: Apache-2.0
//
// Tensors in the caller's memory: no copy, every stride that stays inside, and a deleter that is
// called exactly once, when nothing uses the memory any more.
#include <atomic>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

class WrapTest : public ApiTest {
 protected:
  /// Device memory with these values, as a caller would bring it.
  bpa_wrap_args memory_of(const Tensor& base, std::span<const int64_t> sizes) const {
    const bpa_tensor_info info = base.info();
    bpa_wrap_args args{};
    args.memory = info.memory;
    args.bytes = info.memory.offset_bytes + info.bytes;
    args.dtype = info.dtype;
    args.rank = static_cast<uint32_t>(sizes.size());
    args.sizes = sizes.data();
    return args;
  }
};

TEST_P(WrapTest, Bools_GoInAndOutByAVector) {
  const std::vector<bool> values = {true, false, false, true, true};
  const Tensor tensor = Tensor::from_host(device_, values, {5});
  EXPECT_EQ(tensor.dtype(), BP_DTYPE_BOOL);
  EXPECT_EQ(tensor.to_vector<bool>(), values);
}

TEST_P(WrapTest, Wrap_IsTheSameMemory) {
  const Tensor base = make({1, -2, 3, -4, 5, -6}, {6});
  const int64_t sizes[] = {2, 3};
  int deleted = 0;
  {
    const Tensor wrapped = Tensor::wrap(device_, memory_of(base, sizes), [&] { ++deleted; });
    EXPECT_EQ(wrapped.info().memory.handle + wrapped.info().memory.offset_bytes,
              base.info().memory.handle + base.info().memory.offset_bytes);
    EXPECT_EQ(wrapped.to_vector<float>(), (std::vector<float>{1, -2, 3, -4, 5, -6}));
    EXPECT_EQ(relu(wrapped).to_vector<float>(), (std::vector<float>{1, 0, 3, 0, 5, 0}));
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
}

TEST_P(WrapTest, Wrap_OffsetAndStrides_ReadInPlace) {
  const Tensor base = make({0, 1, 2, 3, 4, 5, 6, 7}, {8});
  const int64_t sizes[] = {3, 2};
  bpa_wrap_args args = memory_of(base, sizes);
  const int64_t reversed[] = {-2, 1};
  args.strides = reversed;
  args.memory.offset_bytes += 5 * sizeof(float);
  const Tensor wrapped = Tensor::wrap(device_, args);
  EXPECT_EQ(wrapped.to_vector<float>(), (std::vector<float>{5, 6, 3, 4, 1, 2}));
  EXPECT_EQ(add(wrapped, wrapped).to_vector<float>(), (std::vector<float>{10, 12, 6, 8, 2, 4}));
}

TEST_P(WrapTest, Wrap_StridesThatNoStepTakes_MayBeAnyNumber) {
  const Tensor base = make({3, -1, 4, -5}, {4});
  for (const auto& [rows, columns] : {std::pair{0, 4}, {4, 0}, {1, 1}, {1, 4}, {4, 1}}) {
    const int64_t sizes[] = {rows, columns};
    const int64_t strides[] = {rows > 1 && columns > 0 ? 1 : INT64_MIN,
                               columns > 1 && rows > 0 ? 1 : INT64_MAX};
    bpa_wrap_args args = memory_of(base, sizes);
    args.strides = strides;
    const Tensor wrapped = Tensor::wrap(device_, args);
    const bpa_tensor_info info = wrapped.info();
    EXPECT_LE(info.strides[0], 4) << "none that a kernel could overflow with";
    EXPECT_GE(info.strides[0], 0);
    EXPECT_LE(info.strides[1], 4);
    std::vector<float> expected = base.to_vector<float>();
    expected.resize(static_cast<size_t>(rows * columns));
    EXPECT_EQ(wrapped.to_vector<float>(), expected);
    EXPECT_EQ(relu(transpose(wrapped)).to_vector<float>().size(), expected.size());
  }
}

TEST_P(WrapTest, WrapHost_BeyondTheLastAddress_IsRefused) {
  const int64_t sizes[] = {1};
  bpa_wrap_args args{};
  args.memory.handle = UINT64_MAX - 3;
  args.bytes = 4;
  args.dtype = BP_DTYPE_F32;
  args.rank = 1;
  args.sizes = sizes;
  std::string words;
  EXPECT_EQ(status_of([&] { Tensor::wrap(Device(), args); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("args.bytes"), std::string::npos) << words;
}

TEST_P(WrapTest, Wrap_ViewsAndQueuedWorkKeepTheMemory) {
  const Tensor base = make({1, -2, 3, -4}, {4});
  const int64_t sizes[] = {4};
  std::atomic<int> deleted{0};
  Tensor wrapped = Tensor::wrap(device_, memory_of(base, sizes), [&] { ++deleted; });
  Tensor view = reshape(wrapped, {2, 2});
  const Tensor result = relu(view);  // may be in a queue
  wrapped = {};
  EXPECT_EQ(deleted, 0) << "a view is left";
  view = {};
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(result.to_vector<float>(), (std::vector<float>{1, 0, 3, 0}));
}

TEST_P(WrapTest, Wrap_Fails_DeleterIsNotCalled) {
  const Tensor base = make({1, 2, 3, 4}, {4});
  const int64_t too_many[] = {5};
  int deleted = 0;
  std::string words;
  EXPECT_EQ(status_of([&] { Tensor::wrap(device_, memory_of(base, too_many), [&] { ++deleted; }); },
                      &words),
            BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("args.sizes"), std::string::npos) << words;
  EXPECT_EQ(deleted, 0);
}

// The core's own numbers for sizes that are not known look like these.
TEST_P(WrapTest, NegativeNumbers_AreToldAsTheyWereGiven) {
  const Tensor base = make({1, 2, 3, 4}, {4});
  const int64_t sizes[] = {2, 2};
  const int64_t strides[] = {-2, -3};
  bpa_wrap_args args = memory_of(base, sizes);
  args.strides = strides;
  std::string words;
  EXPECT_EQ(status_of([&] { Tensor::wrap(device_, args); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("[2, 2] with strides [-2, -3]"), std::string::npos) << words;
  EXPECT_EQ(status_of([&] { make({1, 2, 3, 4}, {-2, -2}); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("are [-2, -2]: negative"), std::string::npos) << words;
}

TEST_P(WrapTest, Wrap_DeleterMayCallTheApi) {
  const Tensor base = make({1, 2}, {2});
  const int64_t sizes[] = {2};
  std::string name;
  Tensor::wrap(device_, memory_of(base, sizes), [&] { name = device_.name(); });
  EXPECT_EQ(name, GetParam());
}

TEST_P(WrapTest, WrapHost_MovesToWhereItIsUsed) {
  std::vector<float> values = {-1, 2};
  int deleted = 0;
  {
    const Tensor host = Tensor::wrap_host(Device(), values, {2}, [&] { ++deleted; });
    EXPECT_EQ(host.device().handle(), nullptr);
    std::string words;
    EXPECT_EQ(status_of([&] { relu(host); }, &words), BP_INVALID_ARGUMENT);
    EXPECT_NE(words.find("no input is on a device, and no runtime is given"), std::string::npos)
        << words;
    EXPECT_EQ(relu(host.to(device_)).to_vector<float>(), (std::vector<float>{0, 2}));
  }
  EXPECT_EQ(deleted, 1);
}

TEST_P(WrapTest, Wrap_AfterClose_DeleterIsStillCalledOnce) {
  const Tensor base = make({1, 2}, {2});
  const int64_t sizes[] = {2};
  int deleted = 0;
  Tensor wrapped = Tensor::wrap(device_, memory_of(base, sizes), [&] { ++deleted; });
  runtime_->close();
  EXPECT_EQ(deleted, 0);
  wrapped = {};
  EXPECT_EQ(deleted, 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, WrapTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
