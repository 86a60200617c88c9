// SPDX-License-Identifier: Apache-2.0
//
// A store's server in a process of its own, which can be stopped and killed. Brings the test that
// this process runs, so that one file of a test program includes it.
#ifndef BACKPLANE_CCL_STORE_OTHER_SERVER_TEST_HPP
#define BACKPLANE_CCL_STORE_OTHER_SERVER_TEST_HPP

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "ccl/store/store_harness_test.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {

/// A server in another process, until it is killed.
TEST(StoreServerProcess, DISABLED_Serves) {
  const auto server =
      value_of(TcpServer::start({.token = value_of(Token::from_file(getenv("BP_TEST_TOKEN"))),
                                 .job = getenv("BP_TEST_JOB")}));
  const std::string path = getenv("BP_TEST_ENDPOINT");
  std::ofstream(path + ".new") << server->endpoint();
  std::filesystem::rename(path + ".new", path);
  std::this_thread::sleep_for(seconds(120));
}

class OtherServer {
 public:
  explicit OtherServer(const std::string& job = std::string(kTestJob))
      : process_("StoreServerProcess.DISABLED_Serves",
                 {"BP_TEST_TOKEN=" + token_file_, "BP_TEST_ENDPOINT=" + endpoint_file_,
                  "BP_TEST_JOB=" + job}) {
    EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(endpoint_file_); }));
    std::ifstream(endpoint_file_) >> endpoint;
  }
  std::shared_ptr<Store> client(milliseconds answer_timeout = seconds(30),
                                milliseconds answer_grace = seconds(1)) const {
    return value_of(connect_tcp_store({.endpoint = endpoint,
                                       .token = token,
                                       .job = std::string(kTestJob),
                                       .deadline = soon(),
                                       .answer_timeout = answer_timeout,
                                       .answer_grace = answer_grace}));
  }
  void signal(int number) const { process_.signal(number); }
  void end() { process_.end(SIGKILL); }
  const std::string& token_file() const { return token_file_; }

  const std::shared_ptr<const Token> token = new_token();
  std::string endpoint;

 private:
  TempFolder folder_;
  std::string make_token_file() const {
    EXPECT_TRUE(token->write_file(folder_.path("token")).ok());
    return folder_.path("token");
  }
  const std::string token_file_ = make_token_file();
  const std::string endpoint_file_ = folder_.path("endpoint");
  OtherProcess process_;
};

}  // namespace bp::ccl

#endif
