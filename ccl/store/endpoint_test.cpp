// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/endpoint.hpp"

#include <random>

#include "ccl/store/refusal_log.hpp"
#include "ccl/store/store_harness_test.hpp"

namespace bp::ccl {
namespace {

using testing::HasSubstr;
using Kind = Endpoint::Kind;

TEST(EndpointTest, Texts_AreTakenApart) {
  struct Case {
    const char* text;
    Kind kind;
    const char* host;
    int port;
  };
  for (const Case& c : {Case{"127.0.0.1:4711", Kind::kIpv4, "127.0.0.1", 4711},
                        Case{"[::1]:0", Kind::kIpv6, "::1", 0},
                        Case{"[fe80::1%eth0]:65535", Kind::kIpv6, "fe80::1%eth0", 65535},
                        Case{"eth0:7", Kind::kInterface, "eth0", 7},
                        Case{"br-lan.5:7", Kind::kInterface, "br-lan.5", 7}}) {
    const Endpoint endpoint = value_of(parse_endpoint(c.text));
    EXPECT_EQ(endpoint.kind, c.kind) << c.text;
    EXPECT_EQ(endpoint.host, c.host);
    EXPECT_EQ(endpoint.port, c.port);
  }
}

TEST(EndpointTest, WhatIsNone_IsRefusedInWords) {
  for (const auto& [text, words] : {std::pair<const char*, const char*>{"", "it has no port"},
                                    {"127.0.0.1", "it has no port"},
                                    {":4711", "it names no address"},
                                    {"127.0.0.1:", "its port is no number from 0 to 65535"},
                                    {"127.0.0.1:65536", "its port is no number"},
                                    {"127.0.0.1:-1", "its port is no number"},
                                    {"127.0.0.1:+1", "its port is no number"},
                                    {"127.0.0.1:1 ", "its port is no number"},
                                    {"::1:4711", "an IPv6 address stands in brackets"},
                                    {"[::1:4711", "there is no IPv6 address in its brackets"},
                                    {"[]:1", "there is no IPv6 address in its brackets"},
                                    {"[eth0]:1", "there is no IPv6 address in its brackets"},
                                    {"node17.example.org:1", "names of hosts are not looked up"},
                                    {"a b:1", "names of hosts are not looked up"},
                                    {"../x:1", "names of hosts are not looked up"}}) {
    const auto endpoint = parse_endpoint(text);
    EXPECT_EQ(endpoint.status().code(), BP_INVALID_ARGUMENT) << text;
    EXPECT_THAT(words_of(endpoint), HasSubstr(words)) << text;
    EXPECT_THAT(words_of(endpoint), HasSubstr("'" + std::string(text) + "'"));
    EXPECT_THAT(words_of(endpoint), HasSubstr("Expected such as 127.0.0.1:4711, [::1]:4711"));
  }
}

TEST(EndpointTest, Garbage_IsRefusedOrHasAHost) {
  std::mt19937 random(1);
  const std::string letters = "[]:%.0123456789abf-_ \n\xFF";
  size_t parsed = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string text(random() % 24, '\0');
    for (char& letter : text) letter = letters[random() % letters.size()];
    if (i % 2 == 0) text += ":80";
    const auto endpoint = parse_endpoint(text);
    parsed += endpoint.ok() ? 1 : 0;
    if (!endpoint.ok()) continue;
    EXPECT_FALSE(endpoint->host.empty()) << text;
    if (endpoint->kind != Kind::kInterface) {
      [[maybe_unused]] const auto address = SocketAddress::of_address(*endpoint);
    }
  }
  EXPECT_GT(parsed, 100u);
}

TEST(SocketAddressTest, Text_GoesRound) {
  for (const char* text : {"127.0.0.1:4711", "[::1]:1", "0.0.0.0:2", "[::]:3", "10.1.2.3:0"}) {
    const auto address = value_of(SocketAddress::of_address(value_of(parse_endpoint(text))));
    EXPECT_EQ(address.text(), text);
    EXPECT_EQ(address.is_of_all_interfaces(),
              std::string(text) == "0.0.0.0:2" || std::string(text) == "[::]:3");
  }
}

TEST(SocketAddressTest, WhatIsNoAddress_IsRefused) {
  EXPECT_THAT(words_of(SocketAddress::of_address(value_of(parse_endpoint("1.2.3:1")))),
              HasSubstr("'1.2.3' is no IPv4 address"));
  EXPECT_THAT(words_of(SocketAddress::of_address(value_of(parse_endpoint("[1:2]:1")))),
              HasSubstr("'1:2' is no IPv6 address"));
  EXPECT_THAT(words_of(SocketAddress::of_address(value_of(parse_endpoint("[fe80::1%nope]:1")))),
              HasSubstr("'fe80::1%nope' is no IPv6 address"));
  EXPECT_THAT(words_of(SocketAddress::of_address(value_of(parse_endpoint("lo:1")))),
              HasSubstr("expected the address of the peer, found 'lo', which is no address"));
}

TEST(SocketAddressTest, Interface_IsItsFirstAddress) {
  const auto address = value_of(SocketAddress::of_listener(value_of(parse_endpoint("lo:80"))));
  EXPECT_EQ(address.text(), "127.0.0.1:80");
  const auto none = SocketAddress::of_listener(value_of(parse_endpoint("nope0:80")));
  EXPECT_EQ(none.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(words_of(none), HasSubstr("the interface 'nope0' is not there; there are "));
  EXPECT_THAT(words_of(none), testing::ContainsRegex("there are (.*, )?lo(,|$)"));
}

TEST(RefusalLogTest, AHost_IsToldOfOnceInAWhile) {
  RefusalLog log;
  const auto begin = RefusalLog::TimePoint();
  EXPECT_EQ(log.count("a", begin), std::optional<uint64_t>(0));
  EXPECT_EQ(log.count("a", begin + seconds(1)), std::nullopt);
  EXPECT_EQ(log.count("a", begin + seconds(9)), std::nullopt);
  EXPECT_EQ(log.count("b", begin + seconds(9)), std::optional<uint64_t>(0));
  EXPECT_EQ(log.count("a", begin + seconds(10)), std::optional<uint64_t>(2));
  EXPECT_EQ(log.count("a", begin + seconds(20)), std::optional<uint64_t>(0));
}

TEST(RefusalLogTest, ManyHosts_AreToldOfTogether) {
  RefusalLog log;
  const auto begin = RefusalLog::TimePoint();
  size_t told = 0;
  for (int i = 0; i < 10'000; ++i) told += log.count(std::to_string(i), begin) ? 1 : 0;
  EXPECT_EQ(told, RefusalLog::kMostHosts + 1);
  EXPECT_TRUE(log.count("another", begin + seconds(11)).has_value()) << "the old are forgotten";
}

}  // namespace
}  // namespace bp::ccl
