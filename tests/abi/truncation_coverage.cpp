// SPDX-License-Identifier: Apache-2.0
//
// Every versioned struct of the ABI is cut short at every size by some test of this program. The
// list is the description's, so a struct that is appended to the headers fails here, by name, until
// a test hands it over.
#include <gtest/gtest.h>

#include "truncated.hpp"

namespace bp::abi {
namespace {

class TruncationCoverage : public testing::Environment {
 public:
  void TearDown() override {
    // A part of the tests tries a part of the structs.
    if (GTEST_FLAG_GET(filter) != "*" || testing::UnitTest::GetInstance()->Failed()) return;
    for (const StructInfo& info : kStructs) {
      const std::set<uint32_t>& tried = tried_sizes[static_cast<size_t>(&info - kStructs)];
      for (uint32_t bytes = 0; bytes <= info.bytes; bytes += 8) {
        if (tried.contains(bytes)) continue;
        ADD_FAILURE() << info.name << " has " << info.bytes << " bytes, and no test cuts it at "
                      << bytes << ": write one (truncation_*_test.cpp)";
        break;
      }
    }
  }
};

// GoogleTest owns it.
[[maybe_unused]] const testing::Environment* const registered =
    testing::AddGlobalTestEnvironment(new TruncationCoverage);

}  // namespace
}  // namespace bp::abi
