// SPDX-License-Identifier: Apache-2.0
//
// Compiled programs on disk: who may read them, what is believed, and what is done when it is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "xpu_test_support.hpp"

namespace bp::xpu_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class XpuCacheTest : public XpuTest {
 protected:
  fs::path cache() const { return folder_.path() / "programs"; }

  /// Copies 4 floats by a program that an instance with this option compiled or found.
  void copy_four(const std::string& option, std::vector<std::string>* out_logged = nullptr) {
    tests::RawInstance instance(plugin_, {{"cache", option}});
    ASSERT_EQ(instance.status(), BP_OK) << instance.host().last_message();
    bp_device* device = nullptr;
    ASSERT_EQ(instance.open(0, {}, &device), BP_OK) << instance.host().last_message();
    std::swap(device, device_);
    const std::vector<float> values{1.5f, -2.0f, 0.25f, 7.0f};
    std::vector<float> copied(4);
    const uint64_t x = alloc(16);
    const uint64_t y = alloc(16);
    EXPECT_EQ(upload({x, 0}, values.data(), 16), BP_OK);
    EXPECT_EQ(launch_identity(x, y), BP_OK) << instance.host().last_message();
    EXPECT_EQ(download(copied.data(), {y, 0}, 16), BP_OK);
    EXPECT_EQ(copied, values);
    free(x);
    free(y);
    std::swap(device, device_);
    EXPECT_EQ(plugin_.device->device_close(device), BP_OK);
    if (out_logged != nullptr) *out_logged = instance.host().logged();
  }

  /// The only file that copy_four leaves.
  fs::path only_file() {
    const std::vector<fs::path> files = files_in(cache());
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? fs::path() : files[0];
  }

  Folder folder_;

 private:
  bp_status launch_identity(uint64_t x, uint64_t y) {
    const bp_kernel* const kernel = find_kernel("identity");
    const int64_t size = 4;
    const int64_t stride = 1;
    const bp_arg_info info{sizeof(bp_arg_info), 0, BP_DTYPE_F32, 1, &size, &stride, nullptr};
    const bp_arg_info infos[] = {info, info};
    bp_kernel_query query{};
    query.struct_size = sizeof(query);
    query.kernel = kernel;
    query.op_version = 1;
    query.input_count = query.output_count = 1;
    query.arg_stride_bytes = sizeof(bp_arg_info);
    query.args = infos;
    bp_plan_info plan_info{};
    plan_info.struct_size = sizeof(plan_info);
    bp_kernel_plan* plan = nullptr;
    bp_status status = kernel->plan(device_, &query, &plan_info, &plan);
    if (status != BP_OK) return status;
    bp_kernel_state* state = nullptr;
    EXPECT_EQ(kernel->state_create(device_, kernel, plan, &state), BP_OK);
    const bp_tensor tensors[] = {{x, 0, 16, BP_DTYPE_F32, 1, &size, &stride, 0, 0, 0},
                                 {y, 0, 16, BP_DTYPE_F32, 1, &size, &stride, 0, 0, 0}};
    bp_launch_args args{};
    args.struct_size = sizeof(args);
    args.device = device_;
    args.kernel = kernel;
    args.plan = plan;
    args.state = state;
    args.tensors = tensors;
    args.input_count = args.output_count = 1;
    status = kernel->launch(&args);
    kernel->state_destroy(device_, state);
    kernel->plan_free(device_, plan);
    return status;
  }
};

TEST_F(XpuCacheTest, Program_IsKeptForTheUserAlone_AndFoundAgain) {
  copy_four(cache());
  EXPECT_EQ(mode_of(cache()), 0700u);
  const fs::path file = only_file();
  EXPECT_EQ(mode_of(file), 0600u);
  const auto written = fs::last_write_time(file);
  const std::string bytes = read_file(file);
  copy_four(cache());
  EXPECT_EQ(only_file(), file);
  EXPECT_EQ(fs::last_write_time(file), written) << "it was compiled again";
  EXPECT_EQ(read_file(file), bytes);
}

/// What a program was compiled from stands in the file, and is compared: that of another driver,
/// device or source is not found.
TEST_F(XpuCacheTest, Key_HoldsDriverDeviceAndSource) {
  copy_four(cache());
  const std::string bytes = read_file(only_file());
  bp_device_props props{};
  props.struct_size = sizeof(props);
  ASSERT_EQ(plugin_.device->device_props(device_, &props), BP_OK);
  for (const bp_str& part : {props.driver, props.vendor, props.name}) {
    ASSERT_GT(text_of(part).size(), 0u);
    EXPECT_THAT(bytes, HasSubstr(text_of(part) + '\0')) << text_of(part);
  }
  EXPECT_THAT(bytes, HasSubstr("#pragma OPENCL FP_CONTRACT OFF"));
  EXPECT_THAT(bytes, HasSubstr("kernel void"));
}

TEST_F(XpuCacheTest, BrokenFile_IsCompiledAgainAndReplaced) {
  copy_four(cache());
  const fs::path file = only_file();
  const std::string good = read_file(file);
  std::string flipped = good;
  flipped[good.size() - 100] = static_cast<char>(flipped[good.size() - 100] ^ 1);
  std::string longer_key = good;
  longer_key[8] = static_cast<char>(longer_key[8] + 1);
  std::string huge_key = good;
  huge_key.replace(8, 8, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
  for (const std::string& bad :
       {std::string(), std::string("x"), good.substr(0, 24), good.substr(0, good.size() / 2),
        good + "x", flipped, longer_key, huge_key, std::string(good.size(), '\0')}) {
    write_file(file, bad);
    copy_four(cache());
    EXPECT_EQ(read_file(only_file()).substr(0, 8), good.substr(0, 8));
    EXPECT_NE(read_file(file), bad) << bad.size() << " bytes stayed";
  }
}

TEST_F(XpuCacheTest, FileOfAnotherProgram_IsReplaced) {
  copy_four(cache());
  const fs::path file = only_file();
  std::string foreign = read_file(file);
  // Another driver's name in the key: whole by its sizes, but not what was asked for.
  foreign[24] = static_cast<char>(foreign[24] ^ 1);
  write_file(file, foreign);
  copy_four(cache());
  EXPECT_NE(read_file(only_file()), foreign);
}

TEST_F(XpuCacheTest, FileThatOthersMayWrite_IsNotBelieved) {
  copy_four(cache());
  const fs::path file = only_file();
  fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  copy_four(cache());
  EXPECT_EQ(mode_of(only_file()), 0600u) << "it was replaced";
}

TEST_F(XpuCacheTest, LinkInPlaceOfTheFile_IsReplacedAndNotFollowed) {
  copy_four(cache());
  const fs::path file = only_file();
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  const std::string bytes = read_file(elsewhere);
  copy_four(cache());
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file)));
  EXPECT_EQ(read_file(elsewhere), bytes);
}

TEST_F(XpuCacheTest, FolderThatOthersMayEnter_IsLeftAloneWithOneLine) {
  fs::create_directory(cache());
  fs::permissions(cache(), fs::perms::all);
  std::vector<std::string> logged;
  copy_four(cache(), &logged);
  EXPECT_TRUE(files_in(cache()).empty());
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_THAT(logged[0], HasSubstr("others than its owner may enter it"));
  EXPECT_THAT(logged[0], HasSubstr(cache().string()));
}

TEST_F(XpuCacheTest, FolderThatCannotBe_IsToldOnce) {
  write_file(folder_.path() / "file", "x");
  std::vector<std::string> logged;
  copy_four((folder_.path() / "file" / "programs").string(), &logged);
  ASSERT_EQ(logged.size(), 1u);
  EXPECT_THAT(logged[0], HasSubstr("compiled programs are not kept in"));
}

TEST_F(XpuCacheTest, Off_LeavesNoFile) {
  std::vector<std::string> logged;
  copy_four("off", &logged);
  EXPECT_TRUE(files_in(folder_.path()).empty());
  EXPECT_TRUE(logged.empty());
}

TEST_F(XpuCacheTest, RelativeFolder_IsRefused) {
  const tests::RawInstance instance(plugin_, {{"cache", "programs"}});
  EXPECT_EQ(instance.status(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(instance.host().last_message(),
            "option cache: 'programs' is neither an absolute path nor 'off'");
}

TEST_F(XpuCacheTest, FolderThatIsFull_LosesItsOldestHalf) {
  copy_four(cache());
  const fs::path newest = only_file();
  constexpr int kFiles = 4096;
  for (int i = 0; i < kFiles; ++i) {
    const fs::path old = cache() / (std::to_string(i) + ".clbin");
    write_file(old, "x");
    fs::last_write_time(old, fs::last_write_time(newest) - std::chrono::hours(kFiles - i));
  }
  write_file(newest, "broken");
  copy_four(cache());
  EXPECT_LE(files_in(cache()).size(), kFiles / 2u + 1);
  EXPECT_TRUE(fs::exists(newest));
  EXPECT_FALSE(fs::exists(cache() / "0.clbin"));
  EXPECT_TRUE(fs::exists(cache() / "4095.clbin"));
}

}  // namespace
}  // namespace bp::xpu_test
