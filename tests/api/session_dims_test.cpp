// SPDX-License-Identifier: Apache-2.0
//
// Symbolic dimensions with ranges: what a session tells of them, which runs it refuses, and which
// ranges are refused themselves.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

using Sizes = std::vector<int64_t>;

class SessionDimsTest : public ApiTest {
 protected:
  std::string refused_run(const Session& session, const NamedTensors& inputs,
                          const RunOptions& options = {}) {
    std::string words;
    EXPECT_EQ(status_of([&] { session.run(inputs, options); }, &words), BP_INVALID_ARGUMENT);
    return words;
  }
  std::string refused_load(const std::string& model, const SessionOptions& options) {
    std::string words;
    EXPECT_EQ(status_of([&] { load(model, options); }, &words), BP_INVALID_ARGUMENT);
    return words;
  }
  NamedTensors two(int64_t rows) {
    return {{"x", make(std::vector<float>(static_cast<size_t>(rows) * 64, 1), {rows, 64})}};
  }
  uint64_t launches() const { return device_.info().launch_count; }
};

TEST_P(SessionDimsTest, Io_TellsWhatSizesMayBe) {
  const Session free = load("two");
  EXPECT_EQ(free.inputs()[0].min_sizes, (Sizes{0, 64}));
  EXPECT_EQ(free.inputs()[0].max_sizes, (Sizes{INT64_MAX, 64}));
  const Session ranged = load("two", {.dim_ranges = {{"N", {2, 5}}}});
  for (const std::vector<Io>& ios : {ranged.inputs(), ranged.outputs()}) {
    EXPECT_LT(ios[0].sizes[0], 0);
    EXPECT_EQ(ios[0].dim_names[0], "N");
    EXPECT_EQ(ios[0].min_sizes, (Sizes{2, 64}));
    EXPECT_EQ(ios[0].max_sizes, (Sizes{5, 64}));
  }
  const Session fixed = load("two", {.dims = {{"N", 3}}});
  EXPECT_EQ(fixed.inputs()[0].min_sizes, (Sizes{3, 64}));
  EXPECT_EQ(fixed.inputs()[0].max_sizes, (Sizes{3, 64}));
  const Io unknown = load("unknown").inputs()[0];
  EXPECT_TRUE(unknown.min_sizes.empty() && unknown.max_sizes.empty());
}

TEST_P(SessionDimsTest, RangeOfOneSize_FixesIt) {
  const Session session = load("two", {.dim_ranges = {{"N", {3, 3}}}});
  EXPECT_EQ(session.inputs()[0].sizes, (Sizes{3, 64}));
  EXPECT_GT(session.placement().native_count, 0u) << "planned ahead";
}

TEST_P(SessionDimsTest, Run_SizeOutside_IsRefusedBeforeAnyLaunch) {
  const Session session = load("two", {.dim_ranges = {{"N", {2, 5}}}});
  const Session from_two = load("two", {.dim_ranges = {{"N", {2, INT64_MAX}}}});
  const NamedTensors few = two(1);
  const NamedTensors many = two(6);
  const uint64_t before = launches();
  std::string words = refused_run(session, few);
  EXPECT_NE(words.find("input 'x': expected dimension 0 (N) of size 2 to 5, found 1 in "),
            std::string::npos)
      << words;
  words = refused_run(session, many);
  EXPECT_NE(words.find("(N) of size 2 to 5, found 6 in "), std::string::npos) << words;
  words = refused_run(session, many, {.timeout = kTestDeadline});
  EXPECT_NE(words.find("found 6"), std::string::npos) << words;
  words = refused_run(from_two, few);
  EXPECT_NE(words.find("(N) of size 2 or more, found 1 in "), std::string::npos) << words;
  EXPECT_EQ(status_of([&] { session.run_async(many).get(); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("found 6"), std::string::npos) << words;
  EXPECT_EQ(launches(), before);
  for (const int64_t rows : {2, 5, 4}) {
    EXPECT_EQ(session.run(two(rows)).at("b").to_vector<float>(),
              std::vector<float>(static_cast<size_t>(rows) * 64, 2));
  }
  EXPECT_EQ(from_two.run(many).at("b").sizes(), (Sizes{6, 64}));
}

TEST_P(SessionDimsTest, Run_NamesTheInputAndTheDimension) {
  const Session session =
      load("rows", {.dim_ranges = {{"M", {0, 2}}, {"N", {1, 9}}, {"P", {3, 4}}}});
  const auto row = [&](int64_t size) {
    return make(std::vector<float>(static_cast<size_t>(size), 1), {size});
  };
  const auto rows = [&](int64_t size) {
    return make(std::vector<float>(static_cast<size_t>(size), 1), {1, size});
  };
  std::string words = refused_run(session, {{"x", rows(2)}, {"z", rows(2)}, {"other", row(2)}});
  EXPECT_NE(words.find("'other': expected dimension 0 (P) of size 3 to 4, found 2"),
            std::string::npos)
      << words;
  words = refused_run(session, {{"x", rows(3)}, {"z", rows(3)}, {"other", row(3)}});
  EXPECT_NE(words.find("'x': expected dimension 1 (M) of size 0 to 2, found 3"), std::string::npos)
      << words;
  const NamedTensors outputs = session.run({{"x", rows(0)}, {"z", rows(0)}, {"other", row(4)}});
  EXPECT_EQ(outputs.at("y").sizes(), (Sizes{1, 0}));
  EXPECT_EQ(outputs.at("o").to_vector<float>(), std::vector<float>(4, 1));
}

TEST_P(SessionDimsTest, Run_ThatGivesADefaultInput_HasTheRangesToo) {
  const Session session = load("rows_plus_default", {.dim_ranges = {{"N", {1, 2}}}});
  const Tensor w = make({5, 6}, {1, 2});
  const Tensor x = make({1, 2, 3, 4}, {2, 2});
  const Tensor many = make({1, 2, 3, 4, 5, 6}, {3, 2});
  for (const NamedTensors& inputs : {NamedTensors{{"x", many}, {"w", w}}, {{"x", many}}}) {
    const std::string words = refused_run(session, inputs);
    EXPECT_NE(words.find("'x': expected dimension 0 (N) of size 1 to 2, found 3"),
              std::string::npos)
        << words;
  }
  EXPECT_EQ(session.run({{"x", x}, {"w", w}}).at("y").to_vector<float>(),
            (std::vector<float>{6, 8, 8, 10}));
}

TEST_P(SessionDimsTest, DimensionsOfADefaultInput) {
  const Session session = load("default_of_any_size", {.dims = {{"N", 3}}});
  const Io w = session.inputs()[1];
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.sizes[0], 3);
  EXPECT_EQ(w.dim_names, (std::vector<std::string>{"", "M"}));
  EXPECT_LT(w.sizes[1], 0);
  for (const SessionOptions& options :
       {SessionOptions{.dims = {{"M", 2}}}, SessionOptions{.dim_ranges = {{"M", {1, 2}}}}}) {
    const std::string words = refused_load("default_of_any_size", options);
    EXPECT_NE(words.find("dimension 'M' is one of inputs with a default alone"), std::string::npos)
        << words;
  }
}

// N of one row is added to each row of w.
TEST_P(SessionDimsTest, EndThatContradictsTheModel_IsRefusedWhenLoaded) {
  for (const DimRange range : {DimRange{1, 5}, DimRange{4, 5}, DimRange{2, 4}, DimRange{0, 4}}) {
    const bool is_min = range.max == 4;
    const std::string words = refused_load("fixed_sum", {.dim_ranges = {{"N", range}}});
    EXPECT_NE(words.find("dimension 'N' of size " + std::to_string(range.min) + " to " +
                         std::to_string(range.max) + " cannot be " +
                         std::to_string(is_min ? range.min : range.max) + ": node "),
              std::string::npos)
        << words;
  }
  EXPECT_EQ(load("fixed_sum", {.dim_ranges = {{"N", {1, 4}}}}).inputs()[0].max_sizes,
            (Sizes{4, 2}));
  EXPECT_EQ(load("fixed_sum", {.dim_ranges = {{"N", {1, INT64_MAX}}}}).inputs()[0].max_sizes,
            (Sizes{INT64_MAX, 2}));
}

TEST_P(SessionDimsTest, RangesThatCannotBe_AreRefusedByName) {
  std::string words = refused_load("two", {.dim_ranges = {{"M", {1, 2}}}});
  EXPECT_NE(words.find("dimension 'M' is not one of the model's inputs; did you mean N?"),
            std::string::npos)
      << words;
  const std::string long_name(1000, 'M');
  words = refused_load("two", {.dims = {{long_name, 4}}});
  EXPECT_NE(words.find("MMM...' is not one of"), std::string::npos) << words;
  words = refused_load("relu", {.dim_ranges = {{"M", {1, 2}}}});
  EXPECT_NE(words.find("; no size of theirs has a name"), std::string::npos) << words;
  words = refused_load("two", {.dims = {{"N", 4}}, .dim_ranges = {{"N", {1, 4}}}});
  EXPECT_NE(words.find("args.range_names[0] is 'N', which args.dim_names fixes"), std::string::npos)
      << words;
  words = refused_load("two", {.dim_ranges = {{"N", {4, 3}}}});
  EXPECT_NE(words.find("args.range_maxes[0] is 3 for 'N', expected at least its min 4"),
            std::string::npos)
      << words;
  words = refused_load("two", {.dim_ranges = {{"N", {-1, 3}}}});
  EXPECT_NE(words.find("args.range_mins[0] is -1 for 'N', expected at least 0"), std::string::npos)
      << words;
  words = refused_load("two", {.dim_ranges = {{"", {1, 3}}}});
  EXPECT_NE(words.find("args.range_names holds an empty name"), std::string::npos) << words;
}

TEST_P(SessionDimsTest, InC_RangesListedTwice_AreRefused_AndOldCallersHaveNone) {
  const char* const names[] = {"N", "N"};
  const int64_t sizes[] = {1, 1};
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = device_.handle();
  args.range_names = names;
  args.range_mins = args.range_maxes = sizes;
  args.range_count = 2;
  bpa_session* session = nullptr;
  const std::string path = model_path("two");
  EXPECT_EQ(bpa_session_load(runtime_->handle(), path.c_str(), &args, &session),
            BP_INVALID_ARGUMENT);
  const std::string words = bpa_last_error();
  EXPECT_NE(words.find("args.range_names[1] is 'N', which is listed before"), std::string::npos)
      << words;
  args.struct_size = offsetof(bpa_session_args, range_names);
  ASSERT_EQ(bpa_session_load(runtime_->handle(), path.c_str(), &args, &session), BP_OK)
      << bpa_last_error();
  bpa_io_info info{};
  info.struct_size = offsetof(bpa_io_info, min_sizes);
  EXPECT_EQ(bpa_session_get_input(session, 0, &info), BP_OK);
  EXPECT_EQ(info.rank, 2u);
  EXPECT_EQ(info.min_sizes, nullptr);
  info.struct_size = sizeof(info);
  EXPECT_EQ(bpa_session_get_input(session, 0, &info), BP_OK);
  EXPECT_EQ(info.max_sizes[0], INT64_MAX);
  bpa_session_release(session);
}

INSTANTIATE_TEST_SUITE_P(Devices, SessionDimsTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
