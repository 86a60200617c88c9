// SPDX-License-Identifier: Apache-2.0
//
// Views, writing into them, and tensors that nothing writes through. The oracle is a loop over host
// memory.
#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

using Values = std::vector<float>;

class ViewTest : public ApiTest {
 protected:
  Tensor numbers(int64_t count) {
    Values values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0.0f);
    return Tensor::from_host<float>(device_, values, {count});
  }
  uint64_t fallback_count() const { return device_.info().fallback_count; }
};

TEST_P(ViewTest, View_ReadsThroughStrides) {
  const Tensor base = numbers(24);
  EXPECT_EQ(base.view({2, 3}, {12, -2}, 5).to_vector<float>(), (Values{5, 3, 1, 17, 15, 13}));
  EXPECT_EQ(base.view({2, 2}, {0, 1}, 7).to_vector<float>(), (Values{7, 8, 7, 8}));
  EXPECT_EQ(base.view({}, {}, 9).to_vector<float>(), (Values{9}));
  EXPECT_EQ(base.view({0, 5}, {100, 100}, 24).to_vector<float>(), Values());
}

TEST_P(ViewTest, View_LivesWithoutItsBase) {
  Tensor view;
  {
    const Tensor base = numbers(8);
    view = base.view({4}, {2}, 1);
  }
  EXPECT_EQ(view.to_vector<float>(), (Values{1, 3, 5, 7}));
}

TEST_P(ViewTest, View_OutsideOfItsBase_IsRefused) {
  const Tensor base = numbers(10);
  const Tensor middle = base.view({4}, {1}, 3);
  std::string words;
  const auto refused = [&](const Tensor& of, std::vector<int64_t> sizes,
                           std::vector<int64_t> strides, int64_t offset) {
    return status_of([&] { of.view(sizes, strides, offset); }, &words);
  };
  EXPECT_EQ(refused(base, {11}, {1}, 0), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("leave the elements 0 to 9 of f32 [10] on"));
  EXPECT_EQ(refused(base, {2}, {1}, 9), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, {1}, {1}, 10), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, {1}, {1}, -1), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, {3}, {-1}, 1), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, {3}, {INT64_MAX}, 0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, {3, 3}, {INT64_MIN, INT64_MAX}, 5), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, {0}, {1}, INT64_MAX), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, {-1}, {1}, 0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, {INT64_MAX / 8}, {0}, 0), BP_INVALID_ARGUMENT);
  // A view has no more than what it shows.
  EXPECT_EQ(refused(middle, {1}, {1}, 4), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(middle, {1}, {1}, -1), BP_INVALID_ARGUMENT);
  EXPECT_EQ(middle.view({4}, {-1}, 3).to_vector<float>(), (Values{6, 5, 4, 3}));
}

TEST_P(ViewTest, ViewAs_HasTheBytesOfTheOther) {
  const Tensor base = numbers(6);
  const Tensor pairs = base.view({3, 2}, {2, 1});
  const Tensor complex = pairs.view_as(BP_DTYPE_C64);
  EXPECT_EQ(complex.sizes(), (std::vector<int64_t>{3}));
  // A row of every other number, backwards, as pairs again.
  const Tensor back = complex.view({2}, {-2}, 2).view_as(BP_DTYPE_F32);
  EXPECT_EQ(back.sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(back.to_vector<float>(), (Values{4, 5, 0, 1}));
  back.assign(make({-1}, {}));
  EXPECT_EQ(base.to_vector<float>(), (Values{-1, -1, 2, 3, -1, -1}));
  const Tensor bits = numbers(2).view_as(BP_DTYPE_U32);
  EXPECT_EQ(bits.to_vector<uint32_t>(), (std::vector<uint32_t>{0, 0x3f800000}));
  EXPECT_EQ(bits.view_as(BP_DTYPE_U8).to_vector<uint8_t>(),
            (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 0x80, 0x3f}));
  EXPECT_EQ(numbers(1).view({}, {}).view_as(BP_DTYPE_I16).sizes(), (std::vector<int64_t>{2}));
  const Tensor none = base.view({3, 0, 2}, {9, 9, 9}).view_as(BP_DTYPE_F64);
  EXPECT_EQ(none.sizes(), (std::vector<int64_t>{3, 0}));
  EXPECT_TRUE(
      base.view({6}, {1}, 0, BPA_TENSOR_READ_ONLY_BIT).view_as(BP_DTYPE_I32).is_read_only());
}

TEST_P(ViewTest, ViewAs_OfNoWholeElements_IsRefused) {
  const Tensor base = numbers(12);
  std::string words;
  const auto refused = [&](const Tensor& of, uint32_t dtype) {
    return status_of([&] { of.view_as(dtype); }, &words);
  };
  EXPECT_EQ(refused(base, 999), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, BP_DTYPE_BOOL), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, BP_DTYPE_I4), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, BP_DTYPE_F64), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words,
              testing::HasSubstr("expected a contiguous last axis of the parts of an element, 2"));
  EXPECT_EQ(refused(base.view({3, 2}, {3, 1}), BP_DTYPE_F64), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words,
              testing::HasSubstr("with strides [3, 1], expected the others to be multiples of 2"));
  EXPECT_EQ(refused(base.view({3, 2}, {4, 2}), BP_DTYPE_F64), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base.view({2}, {1}, 1), BP_DTYPE_F64), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("not aligned to 8 bytes"));
  EXPECT_EQ(refused(base.view({}, {}), BP_DTYPE_F64), BP_INVALID_ARGUMENT);
  const std::vector<int64_t> ones(BP_MAX_RANK, 1);
  EXPECT_EQ(refused(base.view(ones, ones), BP_DTYPE_I16), BP_INVALID_ARGUMENT);
  const Tensor repeated = base.view({INT64_MAX / 16}, {0});
  EXPECT_EQ(refused(repeated, BP_DTYPE_U8), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("too many parts together"));
}

TEST_P(ViewTest, Assign_IsSeenByBaseAndViews) {
  const Tensor base = numbers(6);
  const Tensor odd = base.view({3}, {2}, 1);
  const Tensor rows = base.view({2, 3}, {3, 1});
  odd.assign(make({-1, -3, -5}, {3}));
  EXPECT_EQ(base.to_vector<float>(), (Values{0, -1, 2, -3, 4, -5}));
  EXPECT_EQ(rows.to_vector<float>(), base.to_vector<float>());
  rows.assign(make({7, 8, 9}, {3}));  // repeated
  EXPECT_EQ(base.to_vector<float>(), (Values{7, 8, 9, 7, 8, 9}));
  base.view({}, {}, 4).assign(make({1}, {}));
  EXPECT_EQ(odd.to_vector<float>(), (Values{8, 7, 9}));
  EXPECT_EQ(add(base, base).to_vector<float>(), (Values{14, 16, 18, 14, 2, 18}));
}

TEST_P(ViewTest, Assign_FromHostAndOtherDevices) {
  const Tensor base = numbers(6);
  const Tensor even = base.view({3}, {2});
  even.assign(Tensor::from_host<float>(Device(), Values{10, 20, 30}, {3}));
  EXPECT_EQ(base.to_vector<float>(), (Values{10, 1, 20, 3, 30, 5}));
  const Tensor elsewhere = Tensor::from_host<float>(runtime_->device("cpu:0"), Values{4}, {1});
  even.assign(elsewhere);
  EXPECT_EQ(base.to_vector<float>(), (Values{4, 1, 4, 3, 4, 5}));
}

TEST_P(ViewTest, Assign_OfItself_ReadsBeforeItWrites) {
  const Tensor base = numbers(6);
  base.assign(base.view({6}, {-1}, 5));
  EXPECT_EQ(base.to_vector<float>(), (Values{5, 4, 3, 2, 1, 0}));
  base.view({5}, {1}, 1).assign(base.view({5}, {1}));
  EXPECT_EQ(base.to_vector<float>(), (Values{5, 5, 4, 3, 2, 1}));
  base.view({2, 3}, {3, 1}).assign(base.view({2, 1}, {3, 1}, 2));
  EXPECT_EQ(base.to_vector<float>(), (Values{4, 4, 4, 1, 1, 1}));
}

TEST_P(ViewTest, Assign_ComesAfterQueuedWorkAndBeforeLaterWork) {
  const Tensor base = make(Values(4096, 1), {4096});
  Values expected(4096, 1);
  Tensor sum = base;
  for (int round = 0; round < 20; ++round) {
    const auto start = static_cast<int64_t>(round);
    sum = add(base, sum);  // reads what the next line overwrites
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += round == 0 ? 1 : 0;
    base.view({1024}, {4}, start % 4).assign(sum.view({1024}, {4}, start % 4));
    const Values now = base.to_vector<float>();
    const Values of_sum = sum.to_vector<float>();
    for (size_t i = static_cast<size_t>(start % 4); i < now.size(); i += 4) {
      ASSERT_EQ(now[i], of_sum[i]) << "element " << i << " in round " << round;
    }
  }
}

TEST_P(ViewTest, Assign_OnAStream) {
  const Tensor base = numbers(8);
  const Stream stream = Stream::create(device_);
  base.view({4}, {2}).assign(make({0, 0, 0, 0}, {4}), stream);
  stream.sync();
  EXPECT_EQ(base.to_vector<float>(), (Values{0, 1, 0, 3, 0, 5, 0, 7}));
  if (GetParam() == "cpu:0") return;
  std::string words;
  const Tensor other = Tensor::from_host<float>(runtime_->device("cpu:0"), Values{1}, {1});
  EXPECT_EQ(status_of([&] { other.assign(other, stream); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("argument stream is of " + GetParam()));
}

TEST_P(ViewTest, Assign_ThatCannotBe_ChangesNothing) {
  const Tensor base = numbers(6);
  std::string words;
  const auto refused = [&](const Tensor& target, const Tensor& source) {
    return status_of([&] { target.assign(source); }, &words);
  };
  EXPECT_EQ(refused(base, make({1, 2}, {2})), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("its sizes cannot be repeated to these"));
  EXPECT_EQ(refused(base, make({1, 2, 3, 4, 5, 6}, {1, 6})), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, Tensor::from_host<int32_t>(device_, std::vector<int32_t>{1}, {1})),
            BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("expected one dtype"));
  EXPECT_EQ(refused(base.view({2, 3}, {1, 1}), make({0}, {1})), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("let elements share memory"));
  EXPECT_EQ(refused(base.view({6}, {0}), make({0}, {1})), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(Tensor(), base), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(base, Tensor()), BP_INVALID_ARGUMENT);
  const Tensor host = Tensor::from_host<float>(Device(), Values{1}, {1});
  EXPECT_EQ(refused(host, host), BP_UNSUPPORTED);
  EXPECT_EQ(base.to_vector<float>(), (Values{0, 1, 2, 3, 4, 5}));
  base.view({0}, {1}).assign(make({1}, {1}));  // of nothing, nothing
  EXPECT_EQ(base.to_vector<float>(), (Values{0, 1, 2, 3, 4, 5}));
}

TEST_P(ViewTest, Nibbles_AreViewedInWholeBytesAndNotRepeated) {
  const std::vector<uint8_t> bytes{0x21, 0x43, 0x65, 0x07};
  const auto nibbles = [&](int64_t count) {
    bpa_tensor* made = nullptr;
    detail::check(bpa_tensor_from_host(device_.handle(), BP_DTYPE_U4, &count, 1, bytes.data(),
                                       static_cast<uint64_t>(count + 1) / 2, &made));
    return Tensor::adopt(made);
  };
  const Tensor base = nibbles(8);
  std::string words;
  EXPECT_EQ(status_of([&] { base.view({7}, {1}); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("of whole bytes"));
  EXPECT_EQ(status_of([&] { base.view({2}, {1}, 1); }), BP_INVALID_ARGUMENT);
  EXPECT_EQ(base.view({4}, {1}, 4).info().bytes, 2u);
  EXPECT_EQ(nibbles(7).view({3}, {1}, 4).info().bytes, 2u);
  EXPECT_EQ(status_of([&] { base.assign(nibbles(1)); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("below one byte cannot be repeated"));
}

TEST_P(ViewTest, View_FarIntoForeignMemory_IsWhereItShould) {
  alignas(256) static float memory[64];
  bpa_wrap_args args{};
  const int64_t size = int64_t{1} << 56;
  args.struct_size = sizeof(args);
  args.memory.handle = reinterpret_cast<uint64_t>(&memory);
  args.bytes = uint64_t{1} << 60;
  args.dtype = BP_DTYPE_F64;
  args.rank = 1;
  args.sizes = &size;
  bpa_tensor* made = nullptr;
  ASSERT_EQ(bpa_tensor_wrap(nullptr, &args, &made), BP_OK) << bpa_last_error();
  const Tensor base = Tensor::adopt(made);
  const bpa_tensor_info last = base.view({1}, {1}, size - 1).info();
  EXPECT_EQ(last.memory.handle + last.memory.offset_bytes,
            args.memory.handle + 8 * static_cast<uint64_t>(size - 1));
}

TEST_P(ViewTest, StridedHostMemory_IsReadOut) {
  std::vector<float> values(12);
  std::iota(values.begin(), values.end(), 0.0f);
  const Tensor base = Tensor::from_host<float>(Device(), values, {12});
  EXPECT_EQ(base.view({2, 3}, {-6, 2}, 6).to_vector<float>(), (Values{6, 8, 10, 0, 2, 4}));
  EXPECT_EQ(base.view({2, 2}, {0, 5}, 1).to_vector<float>(), (Values{1, 6, 1, 6}));
}

/// Views without an element in common, and streams that are slow enough to be caught at it.
class DisjointViewsTest : public ApiTest {
 protected:
  void SetUp() override {
    open({{"BACKPLANE_FALLBACK", "allow"}, {"npu.launch_latency_ns", "500000"}});
    if (IsSkipped()) return;
    base_ = Tensor::from_host<float>(device_, Values(2 * kCount, 0), {2 * kCount});
    a_ = base_.view({kCount}, {1}, 0);
    b_ = base_.view({kCount}, {1}, kCount);
    slow_ = Stream::create(device_);
    other_ = Stream::create(device_);
  }
  void keep_busy() {
    Tensor x = Tensor::from_host<float>(device_, Values(kCount, 1), {kCount});
    for (int i = 0; i < 8; ++i) x = add(x, x, *slow_);
  }
  static constexpr int64_t kCount = 1 << 14;
  Tensor base_, a_, b_;
  std::optional<Stream> slow_, other_;
};

TEST_P(DisjointViewsTest, WriteThroughOne_LeavesTheWriteOfTheOther) {
  for (int round = 0; round < 4; ++round) {
    const auto value = static_cast<float>(round + 1);
    other_->acquire(a_, BPA_ACCESS_WRITE_BIT);
    keep_busy();
    b_.assign(make({value}, {1}), *slow_);
    other_->release(a_, BPA_ACCESS_WRITE_BIT);
    EXPECT_EQ(b_.to_vector<float>(), Values(kCount, value));
  }
}

TEST_P(DisjointViewsTest, WriteThroughOne_LeavesTheReadOfTheOther) {
  for (int round = 0; round < 4; ++round) {
    b_.assign(make({1}, {1}));
    other_->acquire(a_, BPA_ACCESS_WRITE_BIT);
    keep_busy();
    const Tensor sum = add(b_, b_, *slow_);
    other_->release(a_, BPA_ACCESS_WRITE_BIT);
    b_.assign(make({5}, {1}), *other_);
    EXPECT_EQ(sum.to_vector<float>(), Values(kCount, 2));
  }
}

TEST_P(DisjointViewsTest, MemoryOfAWriteThatIsNotOver_IsNobodyElses) {
  other_->acquire(a_, BPA_ACCESS_WRITE_BIT);
  keep_busy();
  b_.assign(make({7}, {1}), *slow_);
  other_->release(a_, BPA_ACCESS_WRITE_BIT);
  a_ = b_ = base_ = Tensor();
  const Tensor next = Tensor::from_host<float>(device_, Values(2 * kCount, 5), {2 * kCount});
  slow_->sync();
  EXPECT_EQ(next.to_vector<float>(), Values(2 * kCount, 5));
}

INSTANTIATE_TEST_SUITE_P(Devices, DisjointViewsTest, ::testing::ValuesIn(tests::device_names()),
                         device_name_of);

TEST_P(ViewTest, ReadOnly_IsInheritedAndKept) {
  const Tensor base = numbers(6);
  const Tensor locked = base.view({6}, {1}, 0, BPA_TENSOR_READ_ONLY_BIT);
  EXPECT_FALSE(base.is_read_only());
  EXPECT_TRUE(locked.is_read_only());
  EXPECT_TRUE(locked.view({2}, {1}).is_read_only());
  EXPECT_TRUE(transpose(locked.view({2, 3}, {3, 1})).is_read_only());
  EXPECT_FALSE(add(locked, locked).is_read_only());
  std::string words;
  EXPECT_EQ(status_of([&] { locked.assign(base); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("that is read-only"));
  base.assign(make({9}, {1}));  // by another tensor the memory may change
  EXPECT_EQ(locked.to_vector<float>(), Values(6, 9));
  EXPECT_EQ(status_of([&] { base.view({6}, {1}, 0, 2); }), BP_UNSUPPORTED);
}

TEST_P(ViewTest, ReadOnly_IsNoOutputOfARun) {
  const Session session = load("relu");
  const Tensor x = make(Values(4, -1), {2, 2});
  const Tensor out = make(Values(4, 5), {2, 2});
  const Tensor locked = out.view({2, 2}, {2, 1}, 0, BPA_TENSOR_READ_ONLY_BIT);
  std::string words;
  RunOptions options;
  options.outputs = {{session.outputs()[0].name, locked}};
  EXPECT_EQ(status_of(
                [&] {
                  session.run({{session.inputs()[0].name, x}}, options);
                },
                &words),
            BP_INVALID_ARGUMENT);
  EXPECT_THAT(words, testing::HasSubstr("args.bound_outputs[0] is read-only"));
  EXPECT_EQ(out.to_vector<float>(), Values(4, 5));
}

TEST_P(ViewTest, Outputs_WrittenInto_LeaveTheModelsWeightsAlone) {
  const Session session = load("weights_out");
  const Tensor x = make(Values(4, 1), {2, 2});
  for (int run = 0; run < 2; ++run) {
    const NamedTensors outputs = session.run({{"x", x}});
    EXPECT_EQ(outputs.at("t").to_vector<float>(), Values(6, 0));
    EXPECT_EQ(outputs.at("i").to_vector<float>(), Values(4, 0));
    for (const auto& [name, output] : outputs) {
      const bpa_status status = status_of([&, &output = output] { output.assign(make({9}, {1})); });
      EXPECT_EQ(status, output.is_read_only() ? BP_INVALID_ARGUMENT : BP_OK);
    }
  }
}

/// A view of `count` elements, without two elements in one place.
struct RandomView {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

RandomView random_view(std::mt19937& random, int64_t count) {
  const auto below = [&](int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
  };
  RandomView view;
  int64_t reach = 1;  // what the dimensions so far take
  const int64_t rank = below(5);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = 1 + below(5);
    const int64_t stride = reach + below(3);
    if (stride * (size - 1) + reach > count) break;
    view.sizes.push_back(size);
    view.strides.push_back(stride);
    reach += stride * (size - 1);
  }
  std::vector<size_t> order(view.sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  RandomView shuffled;
  shuffled.offset = below(count - reach + 1);
  for (const size_t d : order) {
    const bool is_backward = below(3) == 0;
    if (is_backward) shuffled.offset += view.strides[d] * (view.sizes[d] - 1);
    shuffled.sizes.push_back(view.sizes[d]);
    shuffled.strides.push_back(is_backward ? -view.strides[d] : view.strides[d]);
  }
  return shuffled;
}

/// Calls body(place, index) for each element, in row-major order.
template <class Body>
void for_each_place(const RandomView& view, Body body) {
  std::vector<int64_t> index(view.sizes.size(), 0);
  for (size_t n = 0;; ++n) {
    int64_t place = view.offset;
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * view.strides[d];
    body(static_cast<size_t>(place), n);
    size_t d = index.size();
    while (d > 0 && ++index[d - 1] == view.sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

template <class T>
class Model {
 public:
  static constexpr int64_t kCount = 1500;
  explicit Model(Device device) : values_(kCount) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<T>(i % 120);
    tensor_ = Tensor::from_host<T>(device, values_, {kCount});
  }
  void assign_somewhere(std::mt19937& random) {
    const RandomView view = random_view(random, kCount);
    std::vector<T> given;
    for_each_place(view, [&](size_t place, size_t) {
      given.push_back(static_cast<T>(random() % 120));
      values_[place] = given.back();
    });
    const Tensor source = Tensor::from_host<T>(tensor_.device(), std::span<const T>(given),
                                               std::span<const int64_t>(view.sizes));
    tensor_.view(view.sizes, view.strides, view.offset).assign(source);
  }
  void copy_within(std::mt19937& random) {
    const RandomView from = random_view(random, kCount);
    RandomView into = from;
    // Where that has room for as many: the same steps, begun elsewhere.
    int64_t lowest = kCount, highest = 0;
    for_each_place(from, [&](size_t place, size_t) {
      lowest = std::min(lowest, static_cast<int64_t>(place));
      highest = std::max(highest, static_cast<int64_t>(place));
    });
    const int64_t room = kCount - (highest - lowest);
    into.offset += static_cast<int64_t>(random() % static_cast<uint64_t>(room)) - lowest;
    std::vector<T> moved;
    for_each_place(from, [&](size_t place, size_t) { moved.push_back(values_[place]); });
    for_each_place(into, [&](size_t place, size_t n) { values_[place] = moved[n]; });
    tensor_.view(into.sizes, into.strides, into.offset)
        .assign(tensor_.view(from.sizes, from.strides, from.offset));
  }
  void expect_equal() const { ASSERT_EQ(tensor_.to_vector<T>(), values_); }

 private:
  std::vector<T> values_;
  Tensor tensor_;
};

template <class T>
void write_at_random(Device device, uint32_t seed) {
  std::mt19937 random(seed);
  Model<T> model(device);
  for (int round = 0; round < 150; ++round) {
    model.assign_somewhere(random);
    model.copy_within(random);
    if (round % 10 == 9) ASSERT_NO_FATAL_FAILURE(model.expect_equal()) << "round " << round;
  }
}

TEST_P(ViewTest, Assign_AtRandom_IsThatOfHostMemory) {
  const uint64_t before = fallback_count();
  write_at_random<float>(device_, 1);
  write_at_random<uint8_t>(device_, 2);
  write_at_random<int16_t>(device_, 3);
  write_at_random<double>(device_, 4);
  EXPECT_EQ(fallback_count(), before) << "the device's own kernel writes into views";
}

TEST_P(ViewTest, Device_HasDlpacksNumbersOfIt) {
  const bpa_device_info info = device_.info();
  EXPECT_EQ(info.dlpack_device_type, GetParam() == "cpu:0" ? 1u : 0u);  // kDLCPU
  EXPECT_EQ(info.dlpack_device_id, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, ViewTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
