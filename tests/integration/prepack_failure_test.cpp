// SPDX-License-Identifier: Apache-2.0
//
// A plugin that cannot pack a weight: what prepack answers is the session's error, and whatever
// prepack_query says wrongly sends the operator elsewhere, counted. Nothing is left behind.
#include <cfenv>

#include "core/runtime/runtime.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class PrepackFailureTest : public DeviceTest {
 protected:
  void SetUp() override {}
  void open_with(const std::string& fault, int64_t status, const std::string& fallback) {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/wrong_kernels"};
    args.plugin_options = {{"wrong_kernels.device_fault", fault},
                           {"wrong_kernels.pack_status", std::to_string(status)}};
    args.options = {{"BACKPLANE_FALLBACK", fallback}};
    open(args);
  }
  /// x f32[rows, 3] times a constant matrix.
  Graph product(int64_t rows = 2) {
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {rows, 3}});
    void* data = nullptr;
    auto weights = HostTensor::allocate(BP_DTYPE_F32, {3, 4}, &data);
    EXPECT_TRUE(weights.ok());
    for (int64_t i = 0; i < 12; ++i) static_cast<float*>(data)[i] = static_cast<float>(i % 5 - 2);
    const ValueId w = *graph.add_constant("w", std::move(*weights));
    EXPECT_TRUE(graph.set_outputs({*graph.op("matmul", std::vector{x, w})}, {"y"}).ok());
    return graph;
  }
  Result<Ref<Session>> make() {
    return Session::create(*runtime_, product(), {.device = device_, .dims = {}});
  }
  /// Of x_ and the matrix.
  static std::vector<double> expected() {
    const double x[2][3] = {{1, -2, 3}, {0, 5, -6}};
    std::vector<double> y(8);
    for (size_t i = 0; i < 8; ++i) {
      for (size_t k = 0; k < 3; ++k) {
        y[i] += x[i / 4][k] * (static_cast<double>((k * 4 + i % 4) % 5) - 2);
      }
    }
    return y;
  }
  uint64_t allocated_bytes() const { return device_->allocator().stats().allocated_bytes; }
  /// Expects that no session is made, and nothing is left of the attempt.
  void expect_refused(bp_status code, const std::string& words) {
    const uint64_t before = allocated_bytes();
    const auto made = make();
    ASSERT_FALSE(made.ok()) << code;
    EXPECT_EQ(made.status().code(), code) << made.status().to_string();
    expect_words(made.status(), {"node 'matmul#0'", "prepack", "matmul_told", words.c_str()});
    EXPECT_EQ(allocated_bytes(), before) << code;
  }
  const OracleTensor x_ =
      OracleTensor::from_f64(BP_DTYPE_F32, {2, 3}, std::vector<double>{1, -2, 3, 0, 5, -6});
};

TEST_P(PrepackFailureTest, NoFault_WeightsArePacked) {
  open_with("none", 0, "deny");
  expect_oracle(product(), {x_});
}

TEST_P(PrepackFailureTest, Prepack_AnswersAStatus_ThatIsTheSessionsError) {
  for (const bp_status status :
       {BP_INVALID_ARGUMENT, BP_UNSUPPORTED, BP_UNAVAILABLE, BP_OUT_OF_MEMORY, BP_BUSY, BP_POISONED,
        BP_DEVICE_LOST, BP_INCOMPATIBLE, BP_INTERNAL}) {
    open_with("pack_fails", status, "allow");
    expect_refused(status, "the packer jammed");
    if (status == BP_DEVICE_LOST) continue;
    // The device goes on.
    EXPECT_EQ(values(must_call("relu", {upload_f32({2}, {-1, 2})})), (std::vector<double>{0, 2}));
  }
}

TEST_P(PrepackFailureTest, Prepack_AnswersWhatItCannotMean_IsADefectOfThePlugin) {
  for (const bp_status status : {BP_PENDING, BP_TIMEOUT, BP_CANCELLED, BP_GONE, BP_FORKED, 77}) {
    open_with("pack_fails", status, "allow");
    expect_refused(BP_INTERNAL, "matmul_told");
  }
}

TEST_P(PrepackFailureTest, PrepackQuery_SaysWhatCannotBe_TheOperatorGoesElsewhere) {
  for (const char* fault :
       {"pack_query_fails", "pack_of_nothing", "pack_huge", "matmul_packs_to_48", "pack_to_512",
        "pack_without_layout", "pack_with_long_layout"}) {
    open_with(fault, BP_INTERNAL, "allow");
    const uint64_t before = allocated_bytes();
    {
      const auto made = make();
      ASSERT_TRUE(made.ok()) << fault << ": " << made.status().to_string();
      const NamedTensor input[] = {{"x", upload(x_)}};
      const auto outputs = (*made)->run(input);
      ASSERT_TRUE(outputs.ok()) << fault << ": " << outputs.status().to_string();
      EXPECT_EQ((*made)->placement_counts().fallback, 1u) << fault;
      EXPECT_NE((*made)->placements()[0].reason.find("matmul_told wants input 1 packed"),
                std::string::npos)
          << (*made)->placements()[0].reason;
      EXPECT_EQ(values((*outputs)[0]), expected()) << fault;
    }
    EXPECT_TRUE(device_->quiesce().ok());
    EXPECT_EQ(allocated_bytes(), before) << fault;
    open_with(fault, BP_INTERNAL, "deny");
    const auto denied = make();
    ASSERT_FALSE(denied.ok()) << fault;
    EXPECT_EQ(denied.status().code(), BP_UNSUPPORTED) << denied.status().to_string();
    expect_words(denied.status(), {"matmul_told wants input 1 packed"});
  }
}

TEST_P(PrepackFailureTest, PrepackQuery_HasNoMemory_TheOperatorGoesElsewhere) {
  open_with("pack_query_fails", BP_OUT_OF_MEMORY, "allow");
  const auto made = make();
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ((*made)->placement_counts().fallback, 1u);
}

TEST_P(PrepackFailureTest, PrepackQuery_ChangesTheRounding_ItIsAsBefore) {
  open_with("pack_query_rounds", 0, "allow");
  const auto made = make();
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  std::fesetround(FE_TONEAREST);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
}

// A kernel that chooses another form for each shape: those of plans that are gone are gone, too.
TEST_P(PrepackFailureTest, FormOfEachShape_EndsWithItsPlan) {
  open_with("matmul_form_changes", 0, "deny");
  auto made = Session::create(*runtime_, product(kUnknownDim), {.device = device_, .dims = {}});
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const auto run = [&](int64_t rows) {
    const std::vector<double> values(static_cast<size_t>(rows) * 3, 1.0);
    const NamedTensor input[] = {
        {"x", upload(OracleTensor::from_f64(BP_DTYPE_F32, {rows, 3}, values))}};
    const auto outputs = (*made)->run(input);
    ASSERT_TRUE(outputs.ok()) << rows << ": " << outputs.status().to_string();
  };
  for (int64_t rows = 1; rows <= 150; ++rows) run(rows);
  const uint64_t full = allocated_bytes();
  for (int64_t rows = 151; rows <= 600; ++rows) run(rows);
  EXPECT_LE(allocated_bytes(), full + 64 * 1024) << "450 forms of 256 bytes at least";
}

TEST_P(PrepackFailureTest, MorePackedThanTheDeviceHas_IsOutOfMemoryAndNamed) {
  open_with("pack_larger_than_memory", 0, "allow");
  const auto made = make();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), BP_OUT_OF_MEMORY) << made.status().to_string();
  expect_words(made.status(), {"matmul_told on wrong_kernels:0 wants input 1 packed"});
}

INSTANTIATE_TEST_SUITE_P(Devices, PrepackFailureTest, testing::Values("wrong_kernels:0"),
                         device_test_name);

}  // namespace
}  // namespace bp
