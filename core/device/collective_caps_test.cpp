// SPDX-License-Identifier: Apache-2.0
//
// A device's answer about collectives, with each defect that the core must see.
#include "core/device/collective_caps.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "core/base/dtype.hpp"

namespace bp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kF32 = BP_DTYPE_BIT(BP_DTYPE_F32);
constexpr uint64_t kSum = BP_REDUCTION_BIT(BP_REDUCTION_SUM);

class CheckCollectiveCaps : public testing::Test {
 protected:
  CheckCollectiveCaps() {
    for (uint32_t kind = 0; kind < 6; ++kind) {
      rows_.push_back(
          {sizeof(bp_collective_row), 0, kind, 0, collective_reduces(kind) ? kSum : 0, kF32});
    }
    caps_.struct_size = sizeof(caps_);
    caps_.domain = "link";
    caps_.domain_bytes = 4;
    caps_.uid_bytes = 128;
  }
  Result<CollectiveCaps> check() {
    caps_.rows = rows_.data();
    caps_.row_count = static_cast<uint32_t>(rows_.size());
    if (caps_.row_stride_bytes == 0) caps_.row_stride_bytes = sizeof(bp_collective_row);
    return check_collective_caps("npu:0", caps_);
  }
  void expect_refused(const std::function<void(bp_collective_caps*)>& change, const char* words) {
    const bp_collective_caps good = caps_;
    caps_.rows = rows_.data();
    caps_.row_count = static_cast<uint32_t>(rows_.size());
    caps_.row_stride_bytes = sizeof(bp_collective_row);
    change(&caps_);
    const auto checked = check_collective_caps("npu:0", caps_);
    ASSERT_FALSE(checked.ok()) << words;
    EXPECT_THAT(checked.status().message(), AllOf(HasSubstr("npu:0"), HasSubstr(words)));
    caps_ = good;
  }
  std::vector<bp_collective_row> rows_;
  bp_collective_caps caps_{};
};

TEST_F(CheckCollectiveCaps, GoodAnswer_IsCopied) {
  caps_.flags = BP_CAPS_NAN_BIT | 0x8000u;
  caps_.rank_count_max = 7;
  const auto own = check();
  ASSERT_TRUE(own.ok()) << own.status().to_string();
  EXPECT_EQ(own->domain, "link");
  EXPECT_EQ(own->flags, BP_CAPS_NAN_BIT) << "an unknown flag is masked";
  EXPECT_EQ(own->uid_bytes, 128u);
  EXPECT_EQ(own->uid_count_max, 1u) << "0 means 1";
  EXPECT_EQ(own->rank_count_max, 7u);
  EXPECT_TRUE(own->has(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, BP_REDUCTION_SUM, false));
  EXPECT_FALSE(own->has(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, BP_REDUCTION_SUM, true));
  EXPECT_FALSE(own->has(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, BP_REDUCTION_MAX, false));
  EXPECT_FALSE(own->has(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F64, BP_REDUCTION_SUM, false));
  EXPECT_FALSE(own->has(BP_COLLECTIVE_REDUCE, BP_DTYPE_F32, BP_REDUCTION_SUM, false));
  EXPECT_TRUE(own->has(BP_COLLECTIVE_BROADCAST, BP_DTYPE_F32, 0, true)) << "nothing is combined";
  EXPECT_FALSE(own->has(BP_COLLECTIVE_BROADCAST, 200, 0, false));
}

TEST_F(CheckCollectiveCaps, BadSizes_AreNamed) {
  const auto refused = [this](const char* words, auto change) { expect_refused(change, words); };
  refused("a domain of 1 to 4096 bytes, found 0", [](auto* caps) { caps->domain = nullptr; });
  refused("found 0", [](auto* caps) { caps->domain_bytes = 0; });
  refused("found 4097", [](auto* caps) { caps->domain_bytes = 4097; });
  refused("uid_bytes from 1 to 8192, found 0", [](auto* caps) { caps->uid_bytes = 0; });
  refused("found 8193", [](auto* caps) { caps->uid_bytes = 8193; });
  refused("1 to 1024 rows, found 0", [](auto* caps) { caps->row_count = 0; });
  refused("found 1025", [](auto* caps) { caps->row_count = 1025; });
  refused("stride of 4 bytes", [](auto* caps) { caps->row_stride_bytes = 4; });
  refused("stride of 36 bytes", [](auto* caps) { caps->row_stride_bytes = 36; });
  refused("rows", [](auto* caps) { caps->rows = nullptr; });
  refused("rows", [](auto* caps) {
    caps->rows = reinterpret_cast<const bp_collective_row*>(
        reinterpret_cast<const std::byte*>(caps->rows) + 1);
  });
}

TEST_F(CheckCollectiveCaps, BadRow_IsNamed) {
  rows_[2].struct_size = 8;
  EXPECT_THAT(check().status().message(), AllOf(HasSubstr("row 2"), HasSubstr("struct_size is 8")));
  rows_[2].struct_size = sizeof(bp_collective_row) + 8;
  EXPECT_THAT(check().status().message(),
              AllOf(HasSubstr("row 2"), HasSubstr("above the stride of 32 bytes")));
}

TEST_F(CheckCollectiveCaps, MissingRequiredKinds_AreNamed) {
  rows_[1].kind = 77;                  // of a newer header: left out
  rows_[2].reductions = 0;             // reduces by nothing
  rows_[5].dtypes = BP_DTYPE_BIT(60);  // a dtype of a newer header
  rows_.push_back({sizeof(bp_collective_row), 0, BP_COLLECTIVE_REDUCE, 0, kSum, kF32});
  EXPECT_THAT(check().status().message(),
              HasSubstr("required kinds all_gather, reduce_scatter, recv"));
}

TEST_F(CheckCollectiveCaps, LongerRowsOfANewerPlugin_AreReadByTheirStride) {
  struct Longer {
    bp_collective_row row;
    uint64_t more[2];
  };
  std::vector<Longer> longer;
  for (bp_collective_row row : rows_) {
    row.struct_size = sizeof(Longer);
    row.flags = BP_ROW_DETERMINISTIC_BIT | 0x100u;
    longer.push_back({row, {~uint64_t{0}, ~uint64_t{0}}});
  }
  caps_.rows = &longer[0].row;
  caps_.row_count = static_cast<uint32_t>(longer.size());
  caps_.row_stride_bytes = sizeof(Longer);
  const auto own = check_collective_caps("npu:0", caps_);
  ASSERT_TRUE(own.ok()) << own.status().to_string();
  ASSERT_EQ(own->rows.size(), 6u);
  for (uint32_t kind = 0; kind < 6; ++kind) {
    EXPECT_EQ(own->rows[kind].kind, kind);
    EXPECT_EQ(own->rows[kind].dtypes, kF32);
    EXPECT_TRUE(own->rows[kind].is_deterministic);
  }
}

TEST(CollectiveKinds, Reductions_AreThoseOfTheHeader) {
  EXPECT_TRUE(collective_reduces(BP_COLLECTIVE_REDUCE));
  EXPECT_FALSE(collective_reduces(BP_COLLECTIVE_GATHER));
  EXPECT_FALSE(collective_reduces(77));
}

}  // namespace
}  // namespace bp
