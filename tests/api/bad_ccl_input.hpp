// SPDX-License-Identifier: Apache-2.0
//
// The part of bad_input_test's fixture that collectives need: a group of one rank, which sends to
// itself.
#ifndef BACKPLANE_TESTS_API_BAD_CCL_INPUT_HPP
#define BACKPLANE_TESTS_API_BAD_CCL_INPUT_HPP

#include <string>
#include <vector>

#include "backplane/backplane.h"
#include "core/base/temp_folder_test.hpp"

namespace bp::bad_input {

struct CclObjects {
  CclObjects() = default;
  CclObjects(const CclObjects&) = delete;
  CclObjects& operator=(const CclObjects&) = delete;

  /// `device`, `tensor` and `stream` stay the caller's; `tensor` is f32 [2, 2] on the device.
  void begin_ccl(bpa_device* device, bpa_tensor* tensor, bpa_stream* stream);
  void end_ccl();

  bpa_ccl_group_args group_args();      // with a name that no group has yet
  bpa_ccl_rebuild_args rebuild_args();  // with an epoch that the group has not had
  bpa_ccl_split_args split_args() const;
  bpa_ccl_options ccl_options() const;
  bpa_ccl_call ccl_call() const;
  bpa_ccl_tcp_store_args tcp_store_args();  // that serve it, at a port that was free
  const char* store_path();                 // where there is none yet
  /// For functions that end what they are given.
  bpa_ccl_store* take_store() const;
  bpa_ccl_group* take_group();
  bpa_ccl_work* take_work() const;
  bpa_ccl_job* take_job() const;  // without a launcher
  /// The other end of a send or recv of the rank with itself, on another stream than ccl_options()
  /// has.
  void expect_message() const;
  void send_message() const;

  bpa_ccl_store* store = nullptr;
  bpa_ccl_group* group = nullptr;
  bpa_ccl_work* work = nullptr;
  bpa_ccl_group* doomed_group = nullptr;  // to be aborted
  bpa_tensor* recv_tensor = nullptr;      // as `tensor`, elsewhere
  bpa_ccl_store* stale_store = nullptr;
  bpa_ccl_group* stale_group = nullptr;
  bpa_ccl_work* stale_work = nullptr;
  bpa_ccl_job* job = nullptr;
  bpa_ccl_job* stale_job = nullptr;
  const uint64_t counts[1] = {4};  // as `tensor` has elements
  const uint64_t other_counts[1] = {5};
  const uint64_t huge_counts[1] = {UINT64_MAX};
  const std::string long_text = std::string(257, 'x');
  std::vector<char> text = std::vector<char>(size_t{1} << 22);

 private:
  bpa_device* ccl_device_ = nullptr;
  bpa_tensor* ccl_tensor_ = nullptr;
  bpa_stream* ccl_stream_ = nullptr;
  std::string name_;
  int name_count_ = 0;
  uint64_t epoch_count_ = 0;
  const uint32_t members_[1] = {0};
  const TempFolder folder_;
  std::string path_, token_file_, endpoint_;
};

}  // namespace bp::bad_input

#endif
