// SPDX-License-Identifier: Apache-2.0
//
// Jobs and stores between processes. No launcher started this one, so that its job has one rank.
// The device has no part in them.
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {
namespace {

/// Between prepare and drop; act allocates nothing itself.
struct Objects {
  std::string store_path;
  bpa_ccl_job* job = nullptr;
  bpa_ccl_store* store = nullptr;
};
Objects& objects() {
  static auto* const all = new Objects;
  return *all;
}

void prepare_path(World&) {
  objects().store_path = std::filesystem::temp_directory_path() /
                         ("backplane-faults-" + std::to_string(getpid()) + ".store");
}
void prepare_job(World&) {
  Objects& all = objects();
  bpa_ccl_job_release(std::exchange(all.job, nullptr));  // of an earlier world
  World::must(bpa_ccl_job_create(&all.job), "ccl_job_create");
}

bpa_status act_create(World&) { return bpa_ccl_job_create(&objects().job); }
bpa_status act_get_info(World&) {
  bpa_ccl_job_info info{};
  info.struct_size = sizeof(info);
  return bpa_ccl_job_get_info(objects().job, &info);
}
bpa_status act_get_store(World&) { return bpa_ccl_job_get_store(objects().job, &objects().store); }
bpa_status act_create_file(World&) {
  return bpa_ccl_store_create_file(objects().store_path.c_str(), "job/1", &objects().store);
}

const char* check_job(World&) { return objects().job != nullptr ? nullptr : "there is no job"; }
const char* check_store(World&) {
  return objects().store != nullptr ? nullptr : "there is no store";
}

void drop_job(World&) { bpa_ccl_job_release(std::exchange(objects().job, nullptr)); }
void drop_store(World&) { bpa_ccl_store_release(std::exchange(objects().store, nullptr)); }
void drop_file(World& world) {
  drop_store(world);
  unlink(objects().store_path.c_str());
}

constexpr Call kCalls[] = {
    {"ccl_job_create", false, false, prepare_nothing, act_create, check_job, drop_job, false, true},
    {"ccl_job_get_info", false, false, prepare_job, act_get_info, check_job, drop_tensors, false,
     true},
    {"ccl_job_get_store", false, false, prepare_job, act_get_store, check_store, drop_store, false,
     true},
    {"ccl_store_create_file", false, false, prepare_path, act_create_file, check_store, drop_file,
     false, true},
};

}  // namespace

std::span<const Call> ccl_job_calls() { return kCalls; }

}  // namespace bp::faults
