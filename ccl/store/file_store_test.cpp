// SPDX-License-Identifier: Apache-2.0
//
// The file of a store: whose it may be, and what processes leave that are killed.
#include "ccl/store/file_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <random>

#include "ccl/store/file_log.hpp"
#include "ccl/store/store_file.hpp"
#include "ccl/store/store_harness_test.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

using testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class FileStoreTest : public testing::Test {
 protected:
  Result<std::shared_ptr<Store>> open(const std::string& path,
                                      std::string job = std::string(kTestJob),
                                      milliseconds answer_timeout = seconds(60)) const {
    return open_file_store({.path = path, .job = job, .answer_timeout = answer_timeout});
  }
  /// Writes the whole content, with the mode that a store has.
  std::string write(std::string_view content, mode_t mode = 0600) const {
    const std::string path = folder_.write("written", content);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  TempFolder folder_;
  const std::string path_ = folder_.path("store");
};

TEST_F(FileStoreTest, NewFile_IsPrivate) {
  umask(0);
  const auto store = value_of(open(path_));
  umask(022);
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  EXPECT_TRUE(S_ISREG(info.st_mode));
  const std::string content = content_of(path_);
  EXPECT_EQ(content.substr(0, 8), "BPSTORE1");
  EXPECT_EQ(value_of(decode_log_header(content))->job, kTestJob);
}

TEST_F(FileStoreTest, ReopenedBySameJob_HasItsKeys) {
  ASSERT_TRUE(value_of(open(path_))->set("a", "1").ok());
  const auto again = value_of(open(path_));
  EXPECT_EQ(value_of(again->try_get("a")), std::optional<std::string>("1"));
}

TEST_F(FileStoreTest, FileOfAnotherJob_IsRefusedAndStays) {
  ASSERT_TRUE(value_of(open(path_, "job/1"))->set("a", "1").ok());
  const std::string before = content_of(path_);
  const auto other = open(path_, "job/2");
  EXPECT_EQ(other.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(other.status().message(),
            "file " + path_ +
                ": the file is of job 'job/1', expected job 'job/2'; remove it, or "
                "choose another");
  EXPECT_EQ(content_of(path_), before);
}

TEST_F(FileStoreTest, ForeignFile_IsRefusedAndStays) {
  for (const char* content : {"secret", "B", "BPSTORE2........", "\n", "#!/bin/sh\n"}) {
    const std::string path = write(content);
    const auto store = open(path);
    if (std::string_view(content) == "B") {
      EXPECT_TRUE(store.ok()) << "the begin of a header";
      continue;
    }
    EXPECT_EQ(store.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(words_of(store), HasSubstr(path + ": it is no store's file"));
    EXPECT_EQ(content_of(path), content);
  }
  std::string odd_job = "BPSTORE1" + std::string(16, '\1') + "\xFF\xFF";
  EXPECT_THAT(words_of(open(write(odd_job))), HasSubstr("its header is not what a store wrote"));
}

TEST_F(FileStoreTest, ModesThatOthersUse_AreRefusedWithPathAndMode) {
  for (const auto& [mode, text] :
       {std::pair<mode_t, std::string>{0640, "0640"}, {0602, "0602"}, {0666, "0666"}}) {
    const std::string path = write("", mode);
    const auto store = open(path);
    EXPECT_EQ(store.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(words_of(store), HasSubstr(path +
                                           ": expected a file that only its user may read, "
                                           "such as mode 0600, found mode " +
                                           text));
  }
}

TEST_F(FileStoreTest, AnothersFile_IsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const std::string path = write("");
  ASSERT_EQ(chown(path.c_str(), 4711, 0), 0);
  EXPECT_THAT(words_of(open(path)), HasSubstr("expected a file of user 0, found one of user 4711"));
}

TEST_F(FileStoreTest, LinksAndSpecialFiles_AreRefused) {
  const std::string target = write("");
  const std::string link = folder_.path("link");
  std::filesystem::create_symlink(target, link);
  const auto store = open(link);
  EXPECT_EQ(store.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words_of(store),
              HasSubstr(link + ": expected a regular file, found a symbolic link"));
  EXPECT_EQ(content_of(target), "");
  const std::string nowhere = folder_.path("nowhere");
  std::filesystem::create_symlink(folder_.path("absent"), nowhere);
  EXPECT_THAT(words_of(open(nowhere)), HasSubstr("found a symbolic link"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("absent")));
  const std::string pipe = folder_.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(words_of(open(pipe)), HasSubstr("expected a regular file, found a special file"));
  EXPECT_THAT(words_of(open(folder_.path())), HasSubstr("UNAVAILABLE: " + folder_.path()));
  EXPECT_THAT(words_of(open(folder_.path("no/such"))), HasSubstr("cannot open the file: No such"));
}

TEST_F(FileStoreTest, JobThatIsTooLong_IsRefused) {
  EXPECT_THAT(words_of(open(path_, std::string(257, 'j'))),
              HasSubstr("a job's name has at most 256 bytes, found 257"));
  const auto longest = value_of(open(path_, std::string(256, 'j')));
  EXPECT_TRUE(longest->set("a", "1").ok());
  EXPECT_TRUE(value_of(open(path_, std::string(256, 'j')))->try_get("a")->has_value());
}

TEST_F(FileStoreTest, WriterKilledAtEveryByte_LosesOnlyItsLastChange) {
  std::string whole;
  {
    const auto store = value_of(open(path_));
    ASSERT_TRUE(store->set("first", "1").ok());
    whole = content_of(path_);
    ASSERT_TRUE(store->set("second", "two").ok());
  }
  const std::string longer = content_of(path_);
  const size_t header_bytes = value_of(decode_log_header(longer))->bytes;
  for (size_t bytes = 0; bytes <= longer.size(); ++bytes) {
    const std::string path = write(longer.substr(0, bytes));
    const auto store = value_of(open(path));
    const bool has_first = bytes >= whole.size();
    const bool has_second = bytes == longer.size();
    EXPECT_EQ(value_of(store->try_get("first")).has_value(), has_first) << bytes;
    EXPECT_EQ(value_of(store->try_get("second")).has_value(), has_second) << bytes;
    ASSERT_TRUE(store->set("third", "3").ok()) << bytes;
    const auto again = value_of(open(path));
    EXPECT_EQ(value_of(again->try_get("third")), std::optional<std::string>("3")) << bytes;
    EXPECT_EQ(value_of(again->try_get("first")).has_value(), has_first) << bytes;
    EXPECT_GE(content_of(path).size(), header_bytes);
  }
}

TEST_F(FileStoreTest, WriterKilledWhileOthersAreThere_TheyGoOn) {
  const auto store = value_of(open(path_));
  const auto second = value_of(open(path_));
  ASSERT_TRUE(store->set("a", "1").ok());
  const std::string before = content_of(path_);
  ASSERT_TRUE(store->set("b", std::string(100, 'b')).ok());
  const std::string change = content_of(path_).substr(before.size());
  ASSERT_TRUE(store->remove("b").ok());
  const std::string good = content_of(path_);
  for (size_t bytes = 1; bytes < change.size(); bytes += 7) {
    std::ofstream(path_, std::ios::app | std::ios::binary) << change.substr(0, bytes);
    EXPECT_EQ(value_of(second->try_get("b")), std::nullopt) << bytes;
    ASSERT_TRUE(second->set("c", std::to_string(bytes)).ok());
    EXPECT_EQ(value_of(store->get("c", soon())), std::to_string(bytes));
  }
  EXPECT_EQ(content_of(path_).substr(0, good.size()), good);
}

TEST_F(FileStoreTest, DamageInTheMiddle_IsAnErrorWithItsPlace) {
  const auto store = value_of(open(path_));
  ASSERT_TRUE(store->set("a", "1").ok());
  const size_t place = content_of(path_).size();
  ASSERT_TRUE(store->set("b", "22").ok());
  const std::string good = content_of(path_);
  std::mt19937 random(7);
  for (size_t at = place + 4; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] + 1 + static_cast<char>(random() % 200));
    const auto damaged = open(write(bad));
    EXPECT_EQ(damaged.status().code(), BP_UNAVAILABLE) << at;
    EXPECT_THAT(words_of(damaged),
                HasSubstr("the file is damaged at byte " + std::to_string(place)));
  }
}

TEST_F(FileStoreTest, CutOffWhileInUse_IsUnavailable) {
  const auto store = value_of(open(path_));
  ASSERT_TRUE(store->set("a", "1").ok());
  std::filesystem::resize_file(path_, 20);
  const Status status = store->set("b", "2");
  EXPECT_EQ(status.code(), BP_UNAVAILABLE);
  EXPECT_THAT(status.message(), HasSubstr("the file was cut off: expected at least "));
  EXPECT_THAT(status.message(), HasSubstr(path_));
}

TEST_F(FileStoreTest, Removed_IsUnavailableAlsoForWhoWaits) {
  const auto store = value_of(open(path_));
  ASSERT_TRUE(store->set("a", "1").ok());
  std::jthread waits([&] {
    const auto got = store->get("never", soon());
    EXPECT_EQ(got.status().code(), BP_UNAVAILABLE);
    EXPECT_THAT(words_of(got), HasSubstr("file " + path_ + ": the file was removed"));
  });
  std::this_thread::sleep_for(milliseconds(20));
  std::filesystem::remove(path_);
  waits.join();
  EXPECT_EQ(store->set("a", "2").code(), BP_UNAVAILABLE);
  EXPECT_FALSE(std::filesystem::exists(path_)) << "it is not made again";
  const auto next = value_of(open(path_));
  const auto got = store->try_get("a");
  EXPECT_THAT(words_of(got), HasSubstr("another file has taken the place of the store's"));
  EXPECT_EQ(store->set("a", "2").code(), BP_UNAVAILABLE);
  EXPECT_EQ(value_of(next->try_get("a")), std::nullopt);
}

TEST_F(FileStoreTest, LockHeldByAnother_IsTimeoutNamingIt) {
  constexpr milliseconds kShort{300};
  const auto patient = value_of(open(path_));
  const auto store = value_of(open(path_, std::string(kTestJob), kShort));
  const Descriptor held(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
  const auto begin = Store::Clock::now();
  const Status status = store->set("a", "1");
  EXPECT_EQ(status.code(), BP_TIMEOUT);
  EXPECT_THAT(status.message(), HasSubstr("another process has held the lock of the file for "));
  EXPECT_THAT(status.message(), HasSubstr(path_));
  EXPECT_GE(Store::Clock::now() - begin, kShort);
  EXPECT_EQ(open(path_, std::string(kTestJob), kShort).status().code(), BP_TIMEOUT);
  EXPECT_EQ(patient->share(kShort)->set("a", "1").code(), BP_TIMEOUT);
  EXPECT_LT(Store::Clock::now() - begin, seconds(30)) << "less than that of `patient`";
  std::jthread waits([&] { EXPECT_EQ(patient->set("a", "2").code(), BP_CANCELLED); });
  std::this_thread::sleep_for(milliseconds(20));
  patient->abort();
}

TEST_F(FileStoreTest, ManyChanges_AreWrittenAnew_AndOthersFollow) {
  const auto store = value_of(open(path_));
  const auto second = value_of(open(path_));
  ASSERT_TRUE(store->set("kept", "1").ok());
  EXPECT_EQ(value_of(second->get("kept", soon())), "1");
  ASSERT_TRUE(store->set("gone", "1").ok());
  ASSERT_TRUE(store->remove("gone").ok());
  std::jthread waits([&] { EXPECT_EQ(value_of(second->get("end", soon())), "now"); });
  const std::string value(10'000, 'v');
  uint64_t largest = 0;
  for (int i = 0; i < 500; ++i) {  // 5 MB
    ASSERT_TRUE(store->set("beat", value + std::to_string(i)).ok());
    largest = std::max<uint64_t>(largest, std::filesystem::file_size(path_));
  }
  EXPECT_LT(largest, StoreFile::kRewriteBytes + 20'000);
  EXPECT_GT(largest, StoreFile::kRewriteBytes / 2);
  ASSERT_TRUE(store->set("end", "now").ok());
  waits.join();
  EXPECT_EQ(value_of(second->get("beat", soon())), value + "499");
  EXPECT_EQ(value_of(second->get("kept", soon())), "1");
  EXPECT_EQ(value_of(second->try_get("gone")), std::nullopt);
  ASSERT_TRUE(second->set("back", "2").ok());
  EXPECT_EQ(value_of(store->get("back", soon())), "2");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST_F(FileStoreTest, FileThatIsNotTheNext_IsNotTaken) {
  const auto header = value_of([&]() -> Result<LogHeader> {
    const auto store = value_of(open(path_));
    EXPECT_TRUE(store->set("a", "1").ok());
    return **decode_log_header(content_of(path_));
  }());
  for (const bool is_other_store : {true, false}) {
    const std::string path = folder_.path(is_other_store ? "first" : "second");
    std::filesystem::copy_file(path_, path);
    const auto store = value_of(open(path));
    EXPECT_EQ(value_of(store->get("a", soon())), "1");
    // Newer and another store's, or this one's and not newer.
    const LogHeader wrong = {.store = header.store + (is_other_store ? 1 : 0),
                             .generation = header.generation + (is_other_store ? 9 : 0),
                             .job = std::string(kTestJob)};
    std::filesystem::rename(write(encode_log_header(wrong) + encode_change("a", "wrong")), path);
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(words_of(store->get("a", soon())),
                  HasSubstr("another file has taken the place of the store's"));
      EXPECT_EQ(store->set("a", "2").code(), BP_UNAVAILABLE);
    }
  }
}

TEST_F(FileStoreTest, CannotBeWrittenAnew_GoesOnGrowing) {
  const auto store = value_of(open(path_));
  std::filesystem::create_directory(path_ + ".new");
  const std::string value(Store::kMostValueBytes / 2, 'v');
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(store->set("beat", value + std::to_string(i)).ok());
  EXPECT_GT(std::filesystem::file_size(path_), 12 * Store::kMostValueBytes / 2);
  EXPECT_EQ(value_of(store->get("beat", soon())), value + "11");
}

TEST_F(FileStoreTest, NoDescriptorsAreLeft) {
  const size_t before = open_descriptors();
  {
    const auto store = value_of(open(path_));
    const std::string value(Store::kMostValueBytes, 'v');
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(store->set("beat", value).ok());
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

/// Adds until it is killed, in another process.
TEST(FileStoreProcess, DISABLED_Adds) {
  const auto store =
      value_of(open_file_store({.path = getenv("BP_TEST_PATH"), .job = std::string(kTestJob)}));
  const std::string times = getenv("BP_TEST_TIMES");
  const std::string filler(3000, 'f');
  for (int i = 0; i < std::stoi(times); ++i) {
    ASSERT_TRUE(store->add("n", 1).ok());
    ASSERT_TRUE(store->set("filler", filler).ok());
  }
}

TEST_F(FileStoreTest, ProcessesAddTogether_LoseNothing) {
  const auto store = value_of(open_file_store({.path = path_, .job = std::string(kTestJob)}));
  constexpr int kTimes = 400;
  const std::vector<std::string> variables = {"BP_TEST_PATH=" + path_,
                                              "BP_TEST_TIMES=" + std::to_string(kTimes)};
  OtherProcess a("FileStoreProcess.DISABLED_Adds", variables);
  OtherProcess b("FileStoreProcess.DISABLED_Adds", variables);
  for (int i = 0; i < kTimes; ++i) ASSERT_TRUE(store->add("n", 1).ok());
  EXPECT_EQ(a.end(0), 0);
  EXPECT_EQ(b.end(0), 0);
  EXPECT_EQ(value_of(store->add("n", 0)), 3 * kTimes);
}

TEST_F(FileStoreTest, ProcessesKilledAmidTheirChanges_OthersGoOn) {
  const auto store = value_of(open_file_store({.path = path_, .job = std::string(kTestJob)}));
  const std::vector<std::string> variables = {"BP_TEST_PATH=" + path_, "BP_TEST_TIMES=1000000000"};
  std::mt19937 random(3);
  int64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    OtherProcess other("FileStoreProcess.DISABLED_Adds", variables);
    ASSERT_TRUE(comes_true([&] { return value_of(store->add("n", 0)) > last; }));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    EXPECT_EQ(other.end(SIGKILL), -1);
    const int64_t now = value_of(store->add("n", 1));
    EXPECT_GT(now, last);
    last = now;
  }
}

TEST(FileLogTest, Garbage_IsRefusedOrWaitedFor) {
  std::mt19937 random(99);
  size_t read = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes = encode_change("key", i % 2 == 0 ? std::optional("value") : std::nullopt);
    for (size_t k = random() % 3; k > 0; --k) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 2 == 0 ? random() : 0);
    }
    bytes.resize(random() % 4 == 0 ? random() % bytes.size() : bytes.size());
    const auto change = next_change(bytes);
    if (!change.ok() || !*change) continue;
    ++read;
    EXPECT_EQ((*change)->key, "key");
    EXPECT_EQ((*change)->bytes, bytes.size());
  }
  EXPECT_GT(read, 1000u);
  std::string header = encode_log_header({.store = 1, .generation = 2, .job = "job"});
  for (size_t at = 0; at < header.size(); ++at) {
    std::string bad = header;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    const auto found = decode_log_header(bad);
    EXPECT_FALSE(found.ok() && found->has_value()) << at;
  }
}

}  // namespace
}  // namespace bp::ccl
