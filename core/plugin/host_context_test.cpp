// SPDX-License-Identifier: Apache-2.0
//
// The host table as a plugin calls it: words reach the caller of the failing slot, and nothing that
// a plugin passes does harm.
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "core/plugin/plugin_tree_test.hpp"

namespace bp {
namespace {

bp_report_info report_of(bp_status status, const char* words, bp_stream* stream = nullptr) {
  bp_report_info info{};
  info.struct_size = sizeof(info);
  info.status = status;
  info.vendor_code = -30;
  info.op_seq = 9;
  info.stream = stream;
  info.message = {words, words != nullptr ? std::strlen(words) : 5};
  return info;
}

class HostContextTest : public testing::Test {
 protected:
  void report(const bp_report_info& info) { HostContext::api()->report(&host_, &info); }
  HostContext host_{"npu"};
};

TEST_F(HostContextTest, TakeReport_AfterReport_GivesTheNewestOnce) {
  report(report_of(BP_UNSUPPORTED, "first"));
  report(report_of(BP_OUT_OF_MEMORY, "second"));
  const auto taken = host_.take_report();
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->status, BP_OUT_OF_MEMORY);
  EXPECT_EQ(taken->vendor_code, -30);
  EXPECT_EQ(taken->op_seq, 9u);
  EXPECT_EQ(taken->message, "second");
  EXPECT_FALSE(host_.take_report().has_value());
}

TEST_F(HostContextTest, TakeReport_FromOtherThreads_IsNotTheirs) {
  std::thread([this] { report(report_of(BP_INTERNAL, "elsewhere")); }).join();
  report(report_of(BP_BUSY, "here"));
  EXPECT_EQ(host_.take_report()->message, "here");
  EXPECT_FALSE(host_.take_report().has_value());
}

TEST_F(HostContextTest, TakeStreamReport_FromAnyThread_GivesTheOldestOfThatStream) {
  auto* stream = reinterpret_cast<bp_stream*>(8);
  auto* other = reinterpret_cast<bp_stream*>(16);
  std::thread([&] {
    report(report_of(BP_INTERNAL, "other", other));
    report(report_of(BP_INTERNAL, "cause", stream));
    report(report_of(BP_POISONED, "consequence", stream));
  }).join();
  EXPECT_EQ(host_.take_stream_report(stream)->message, "cause");
  EXPECT_EQ(host_.take_stream_report(stream)->message, "consequence");
  EXPECT_FALSE(host_.take_stream_report(stream).has_value());
  EXPECT_EQ(host_.take_stream_report(other)->message, "other");
}

TEST_F(HostContextTest, DropStreamReports_OthersStay) {
  auto* stream = reinterpret_cast<bp_stream*>(8);
  auto* other = reinterpret_cast<bp_stream*>(16);
  std::thread([&] {
    report(report_of(BP_INTERNAL, "first", stream));
    report(report_of(BP_INTERNAL, "other", other));
    report(report_of(BP_INTERNAL, "second", stream));
  }).join();
  host_.drop_stream_reports(stream);
  EXPECT_FALSE(host_.take_stream_report(stream).has_value());
  EXPECT_EQ(host_.take_stream_report(other)->message, "other");
}

TEST_F(HostContextTest, ToStatus_MatchingReport_CarriesItsWords) {
  EXPECT_TRUE(host_.to_status(BP_OK, "call").ok());
  report(report_of(BP_UNAVAILABLE, "the cable is out"));
  EXPECT_EQ(host_.to_status(BP_UNAVAILABLE, "device_open").to_string(),
            "UNAVAILABLE: device_open: the cable is out (UNAVAILABLE, status 3, vendor code -30)");
  report(report_of(BP_INTERNAL, "of another failure"));
  EXPECT_EQ(host_.to_status(BP_UNAVAILABLE, "device_open").message(),
            "device_open: the plugin gave no words (UNAVAILABLE, status 3)");
  report(report_of(-7, "odd"));
  EXPECT_EQ(host_.to_status(-7, "call").to_string(),
            "INTERNAL: call: odd (INTERNAL, status -7, vendor code -30)");
  EXPECT_EQ(host_.to_status(99, "call").to_string(),
            "INTERNAL: call: the plugin gave no words (INTERNAL, status 99)");
  bp_report_info with_code = report_of(BP_OUT_OF_MEMORY, "call: the pool is empty");
  with_code.vendor_code = -61;
  report(with_code);
  EXPECT_EQ(host_.to_status(BP_OUT_OF_MEMORY, "call").message(),
            "call: the pool is empty (OUT_OF_MEMORY, status 4, vendor code -61)");
}

TEST_F(HostContextTest, Report_ManyUntaken_KeepsTheNewest) {
  for (int i = 0; i < 1000; ++i) {
    const std::string words = "number " + std::to_string(i);
    auto* stream = reinterpret_cast<bp_stream*>(static_cast<uintptr_t>(i + 1));
    report(report_of(BP_INTERNAL, words.c_str(), stream));
  }
  EXPECT_FALSE(host_.take_stream_report(reinterpret_cast<bp_stream*>(1)).has_value());
  EXPECT_EQ(host_.take_report()->message, "number 999");
}

TEST_F(HostContextTest, Report_ForeignTexts_AreBoundedAndCleaned) {
  report(report_of(BP_INTERNAL, "line\nfeed \x1b[31m"));
  EXPECT_EQ(host_.take_report()->message, "line feed  [31m");
  report(report_of(BP_INTERNAL, "caf\xe9"));
  EXPECT_EQ(host_.take_report()->message, "caf\xef\xbf\xbd");
  report(report_of(BP_INTERNAL, "caf\xc3\xa9"));
  EXPECT_EQ(host_.take_report()->message, "caf\xc3\xa9");
  report(report_of(BP_INTERNAL, nullptr));
  EXPECT_EQ(host_.take_report()->message, "");
  const std::string large(100'000, 'x');
  report(report_of(BP_INTERNAL, large.c_str()));
  EXPECT_EQ(host_.take_report()->message, std::string(256, 'x') + "...");
}

TEST_F(HostContextTest, Report_BadPointersAndShortStructs_AreIgnored) {
  HostContext::api()->report(&host_, nullptr);
  bp_report_info info = report_of(BP_INTERNAL, "short");
  HostContext::api()->report(nullptr, &info);
  info.struct_size = 40;
  report(info);
  EXPECT_FALSE(host_.take_report().has_value());
  HostContext::api()->log(nullptr, BP_LOG_ERROR, {"x", 1});
}

TEST_F(HostContextTest, Lend_AfterItCameBack_IsTheSameForThatPluginOnly) {
  HostContext* const first = HostContext::lend("lent");
  HostContext* const second = HostContext::lend("lent");
  EXPECT_NE(first, second) << "two instances at once";
  first->give_back();
  EXPECT_NE(HostContext::lend("another"), first);
  EXPECT_EQ(HostContext::lend("lent"), first) << "a program that loads for ever does not grow";
  EXPECT_NE(HostContext::lend("lent"), second) << "a call that never returned may still use it";
}

TEST_F(HostContextTest, Report_AfterItCameBack_IsDroppedAndNeverToldToTheNext) {
  HostContext* const context = HostContext::lend("late");
  const bp_report_info early = report_of(BP_INTERNAL, "nobody took this");
  HostContext::api()->report(context, &early);
  context->give_back();
  const bp_report_info late = report_of(BP_INTERNAL, "of a thread that did not end");
  HostContext::api()->report(context, &late);
  ASSERT_EQ(HostContext::lend("late"), context);
  EXPECT_FALSE(context->take_report().has_value());
  HostContext::api()->report(context, &late);
  EXPECT_TRUE(context->take_report().has_value()) << "now it is an instance's again";
  context->give_back();
}

TEST_F(HostContextTest, Log_Line_CarriesThePluginsId) {
  LogCapture log;
  HostContext::api()->log(&host_, BP_LOG_WARNING, {"getting\nwarm", 12});
  HostContext::api()->log(&host_, BP_LOG_DEBUG, {"noise", 5});
  HostContext::api()->log(&host_, 99, {"of no level", 11});
  EXPECT_EQ(log.count(BP_LOG_WARNING, "plugin npu: getting warm"), 1);
  EXPECT_EQ(log.count(BP_LOG_DEBUG, "noise"), 0);
}

}  // namespace
}  // namespace bp
