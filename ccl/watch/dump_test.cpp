// SPDX-License-Identifier: Apache-2.0
//
// Dumps: what is written is read, files are written whole and for their user alone, and a text that
// is none of ours is refused by the field that is wrong.
#include "ccl/watch/dump.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "ccl/watch/filled_recorder_test.hpp"
#include "ccl/watch/trace.hpp"
#include "core/base/folder.hpp"
#include "core/base/json.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Of every state, with both kinds of number.
FilledRecorder filled() {
  FilledRecorder rank("tp \"left\"", {1, 3});
  rank.group.id = UINT64_MAX;
  rank.group.epoch = 2;
  rank.group.job_ranks = {4, 7, 5};
  rank.group.error = {BP_TIMEOUT, "rank 2 has not come\n", {2}};
  rank.complete(all_reduce(), 1);
  rank.wait_ms(3);
  rank.complete(broadcast(1), 2, BP_UNAVAILABLE);
  rank.enter(send_to(2), 1);
  rank.call({Kind::kBarrier, BP_DTYPE_NONE, Reduction::kSum, 0, 0, false}, 3);
  rank.enter({Kind::kGather, BP_DTYPE_U8, Reduction::kSum, 1, 10, true}, 4);
  return rank;
}

std::string error_of(std::string_view text) {
  const auto dump = parse_dump(text, "x.json");
  return dump.ok() ? "no error" : dump.status().to_string();
}

std::string with(std::string text, std::string_view old, std::string_view replacement) {
  const size_t place = text.find(old);
  EXPECT_NE(place, std::string::npos) << old;
  return text.replace(place, old.size(), replacement);
}

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Dump, TextIsReadAgain_NothingIsLost) {
  const RankDump dump = filled().dump();
  const std::string text = dump_text(dump);
  const auto read = parse_dump(text, "x.json");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->path, "x.json");
  EXPECT_EQ(read->group.name, "tp \"left\"");
  EXPECT_EQ(read->group.id, UINT64_MAX);
  EXPECT_EQ(read->group.job_ranks, (std::vector<uint32_t>{4, 7, 5}));
  EXPECT_EQ(read->group.error.code, BP_TIMEOUT);
  EXPECT_EQ(read->group.error.words, "rank 2 has not come\n");
  EXPECT_EQ(read->group.error.culprits, (std::vector<uint32_t>{2}));
  EXPECT_EQ(read->process_id, static_cast<uint64_t>(getpid()));
  EXPECT_FALSE(read->host.empty());
  ASSERT_EQ(read->records.size(), 5u);
  EXPECT_EQ(read->records[0].completed_ns, dump.records[0].completed_ns);
  EXPECT_EQ(read->records[1].error, BP_UNAVAILABLE);
  EXPECT_EQ(read->records[4].entry.operation.kind, Kind::kGather);
  EXPECT_EQ(read->last.entered, 4u);
  // Whatever else there is is written the same.
  EXPECT_EQ(dump_text(*read), text);
}

TEST(Dump, FieldsOfTheFlightRecorder_HaveItsNamesAndMeanings) {
  const JsonValue root = parse_json(filled().recorder.to_json(filled().group), 1 << 20);
  EXPECT_EQ(root.at("version").text(), "2.10");
  const JsonValue& config = root.at("pg_config").at("tp \"left\"");
  EXPECT_EQ(config.at("ranks").text(), "[4, 7, 5]");
  EXPECT_EQ(config.at("desc").text(), "epoch 2");
  EXPECT_THAT(root.at("pg_status").at("18446744073709551615").keys(),
              ElementsAre("last_enqueued_collective", "last_started_collective",
                          "last_completed_collective"));
  const JsonValue dumped = parse_json(dump_text(filled().dump()), 1 << 20);
  const std::vector<JsonValue>& entries = dumped.at("entries").values();
  for (const char* name :
       {"record_id", "pg_id", "process_group", "collective_seq_id", "p2p_seq_id", "op_id",
        "profiling_name", "time_created_ns", "time_discovered_started_ns",
        "time_discovered_completed_ns", "duration_ms", "input_sizes", "input_dtypes",
        "output_sizes", "output_dtypes", "state", "retired", "timeout_ms", "is_p2p"}) {
    EXPECT_NE(entries[0].find(name), nullptr) << name;
  }
  EXPECT_EQ(entries[0].at("profiling_name").text(), "xccl:all_reduce");
  EXPECT_EQ(entries[0].at("collective_seq_id").text(), "1");
  EXPECT_EQ(entries[0].at("timeout_ms").text(), "3600000");
  EXPECT_EQ(entries[0].at("input_sizes").values()[0].values()[0].text(), "1048576");
  EXPECT_EQ(entries[1].at("state").text(), "failed");
  EXPECT_EQ(entries[2].at("profiling_name").text(), "xccl:send 1->2");
  EXPECT_EQ(entries[2].at("p2p_seq_id").text(), "1");
  EXPECT_EQ(entries[2].at("is_p2p").text(), "true");
  EXPECT_EQ(entries[3].at("state").text(), "scheduled");
  EXPECT_EQ(entries[3].find("duration_ms"), nullptr);
  EXPECT_EQ(entries[4].at("output_sizes").values()[0].values()[0].text(), "30");
}

TEST(Dump, RootedOperation_HasTheTensorsOfItsCallOnEveryRank) {
  const RecordEntry entry = {.operation = broadcast(1), .sequence = 1};
  EXPECT_EQ(their_words(entry, {0, 3}).input_count, 16u);
  EXPECT_EQ(their_words(entry, {1, 3}).input_count, 16u);
  const RecordEntry recv = {.operation = recv_from(2), .sequence = 1, .timeout_ns = 1};
  EXPECT_EQ(their_words(recv, {0, 3}).profiling_name, "xccl:recv 0<-2");
  EXPECT_EQ(their_words(recv, {0, 3}).timeout_ms, 1u);
}

TEST(Dump, NoOperations_IsADumpToo) {
  const auto read = parse_dump(FilledRecorder("empty", {0, 1}).recorder.to_json({}), "x.json");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_TRUE(read->records.empty());
}

TEST(DumpFile, Names_BelongInAFolderAndKeepGroupsApart) {
  const auto name_of = [](std::string group, uint64_t epoch, uint32_t rank) {
    GroupInfo info;
    info.name = std::move(group);
    info.epoch = epoch;
    info.place = {rank, rank + 1};
    return dump_file_name(info);
  };
  EXPECT_EQ(name_of("world", 0, 3), "world-0-rank3.json");
  EXPECT_THAT(name_of("../a/b", 1, 0), testing::MatchesRegex("_._a_b-[0-9a-f]{8}-1-rank0.json"));
  EXPECT_NE(name_of("a/b", 0, 0), name_of("a b", 0, 0));
  EXPECT_NE(name_of("", 0, 0), name_of("\n", 0, 0));
  EXPECT_LT(name_of(std::string(5000, 'x'), 0, 0).size(), 255u);
}

TEST(DumpFile, Written_IsForItsUserAloneAndLeavesNothingElse) {
  const TempFolder folder;
  const FilledRecorder rank = filled();
  const mode_t before = umask(0);
  const Status written = rank.recorder.write_dump(folder.path(), rank.group);
  umask(before);
  ASSERT_TRUE(written.ok()) << written.to_string();
  const std::string path = folder.path(dump_file_name(rank.group));
  struct stat info = {};
  ASSERT_EQ(lstat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0600u);
  EXPECT_EQ(names_in_folder(folder.path())->size(), 1u);
  const auto read = read_dump(path);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->records.size(), 5u);
  EXPECT_EQ(read->path, path);
}

TEST(DumpFile, LinkInItsPlace_IsReplacedAndNotFollowed) {
  const TempFolder folder;
  const FilledRecorder rank = filled();
  const std::string target = folder.write("target", "mine");
  const std::string path = folder.path(dump_file_name(rank.group));
  std::filesystem::create_symlink(target, path);
  ASSERT_TRUE(rank.recorder.write_dump(folder.path(), rank.group).ok());
  EXPECT_EQ(content_of(target), "mine");
  EXPECT_FALSE(std::filesystem::is_symlink(path));
  EXPECT_TRUE(read_dump(path).ok());
}

TEST(DumpFile, FolderThatCannotBe_IsNamed) {
  const TempFolder folder;
  const FilledRecorder rank = filled();
  const auto words = [&](const std::string& path) {
    return rank.recorder.write_dump(path, rank.group).to_string();
  };
  EXPECT_THAT(words(folder.path("none")), HasSubstr("none: cannot open the folder: No such file"));
  std::filesystem::create_directory(folder.path("real"));
  std::filesystem::create_directory_symlink(folder.path("real"), folder.path("link"));
  EXPECT_THAT(words(folder.path("link")), HasSubstr("UNAVAILABLE"));
  EXPECT_TRUE(names_in_folder(folder.path("real"))->empty());
  EXPECT_THAT(words(folder.write("file", "x")), HasSubstr("Not a directory"));
}

TEST(DumpFolder, WhereDumpsCanBeWritten_IsWellAndLeftAsItIs) {
  const TempFolder folder;
  EXPECT_TRUE(check_dump_folder(folder.path()).ok());
  const std::string left = folder.write(".check." + std::to_string(gettid()), "by a dead thread");
  EXPECT_TRUE(check_dump_folder(folder.path()).ok());
  EXPECT_TRUE(names_in_folder(folder.path())->empty());
}

TEST(DumpFolder, MissingOne_IsMadeForItsUserAlone) {
  const TempFolder folder;
  const std::string path = folder.path("traces");
  const mode_t before = umask(0);
  const Status checked = check_dump_folder(path);
  umask(before);
  ASSERT_TRUE(checked.ok()) << checked.to_string();
  struct stat info = {};
  ASSERT_EQ(lstat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISDIR(info.st_mode));
  EXPECT_EQ(info.st_mode & 07777u, 0700u);
  const FilledRecorder rank = filled();
  EXPECT_TRUE(rank.recorder.write_dump(path, rank.group).ok());
}

TEST(DumpFolder, WhatCannotBe_IsNamed) {
  const TempFolder folder;
  const auto words = [](const std::string& path) { return check_dump_folder(path).to_string(); };
  EXPECT_EQ(words(folder.path("none/inner")), "UNAVAILABLE: " + folder.path("none/inner") +
                                                  ": cannot make the folder: No such file or "
                                                  "directory");
  std::filesystem::create_directory(folder.path("real"));
  std::filesystem::create_directory_symlink(folder.path("real"), folder.path("link"));
  EXPECT_THAT(words(folder.path("link")), HasSubstr("link: cannot open the folder: "));
  EXPECT_THAT(words(folder.write("file", "x")), HasSubstr("file: cannot open the folder: Not a "));
  // There not even root may.
  EXPECT_THAT(words("/proc/1"), HasSubstr("/proc/1: cannot create a file in the folder: "));
}

TEST(DumpFile, PlaceThatIsTaken_NothingIsLeftBehind) {
  const TempFolder folder;
  const FilledRecorder rank = filled();
  const std::string path = folder.path(dump_file_name(rank.group));
  std::filesystem::create_directories(path + "/inner");
  EXPECT_THAT(rank.recorder.write_dump(folder.path(), rank.group).to_string(),
              HasSubstr("cannot put the file in its place"));
  EXPECT_EQ(names_in_folder(folder.path())->size(), 1u);
}

TEST(DumpFile, FilesThatAreNone_AreRefused) {
  const TempFolder folder;
  EXPECT_THAT(read_dump(folder.path("none.json")).status().to_string(),
              HasSubstr("none.json: cannot open the file"));
  EXPECT_THAT(read_dump(folder.write("e.json", "")).status().to_string(), HasSubstr("is empty"));
  const std::string large = folder.write("large.json", "{");
  std::filesystem::resize_file(large, kMostDumpBytes + 1);
  EXPECT_THAT(read_dump(large).status().to_string(),
              HasSubstr("large.json: the file is too large"));
}

TEST(DumpParse, TextThatIsNoDump_IsRefused) {
  EXPECT_THAT(error_of("{"), StartsWith("INVALID_ARGUMENT: x.json: "));
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object, found array"));
  EXPECT_THAT(error_of("{}"), HasSubstr("'format' not found"));
  EXPECT_THAT(error_of(R"({"version": "2.10", "entries": []})"), HasSubstr("'format' not found"));
  EXPECT_THAT(error_of(std::string(600'000, ',')), HasSubstr("more than 500000 values"));
  EXPECT_THAT(error_of(R"({"format": )" + std::string(100, '[')), HasSubstr("nested deeper"));
}

struct Edit {
  const char* old;
  const char* replacement;
  const char* words;
};

TEST(DumpParse, EachFieldThatIsWrong_IsNamed) {
  const std::string text = dump_text(filled().dump());
  ASSERT_EQ(error_of(text), "no error");
  const Edit edits[] = {
      {"backplane-ccl-dump-1", "another", "/format: expected \"backplane-ccl-dump-1\""},
      {"\"2.10\"", "\"3.0\"", "/version: "},
      {"\"epoch\": 2", "\"epoch\": -1", "/epoch: expected a whole number"},
      {"\"epoch\": 2", "\"epoch\": 3", "desc: expected \"epoch 3\""},
      {"\"epoch\": 2", "\"epoch\": 2.5", "/epoch: expected a whole number"},
      {"\"rank\": 1", "\"rank\": 3", "/rank: expected a whole number from 0 to 2, found 3"},
      {"\"rank_count\": 3", "\"rank_count\": 0", "/rank_count: expected at least 1"},
      {"\"rank_count\": 3", "\"rank_count\": 4", "/job_ranks: expected none, or 4 different"},
      {"\"rank_count\": 3", "\"rank_count\": 99999", "/rank_count: "},
      {"\"job_ranks\": [4, 7, 5]", "\"job_ranks\": [4, 4, 5]", "/job_ranks: "},
      {"\"job_ranks\": [4, 7, 5]", "\"job_ranks\": [4, 6, 5]", "/ranks: expected \"[4, 6, 5]\""},
      {"\"job_ranks\": [4, 7, 5]", "\"job_ranks\": [4, \"7\", 5]", "/job_ranks: expected ranks"},
      {"\"culprits\": [2]", "\"culprits\": [3]", "/error/culprits: expected ranks below 3"},
      {"\"code\": \"TIMEOUT\"", "\"code\": \"LATE\"", "/error/code: expected a name"},
      {"\"last_enqueued_collective\": 4", "\"last_enqueued_collective\": 3",
       "/last_started_collective: expected a whole number from 0 to 3, found 4"},
      {"\"last_completed_collective\": 1", "\"last_completed_collective\": 5",
       "last_completed_collective: "},
      {"\"process_id\": ", "\"process_id\": -", "/process_id: "},
      {"\"record_id\": 1", "\"record_id\": 0", "/entries/1/op_id: expected 0, found 1"},
      {"\"record_id\": 1,", "\"record_id\": [],", "/entries/1/record_id: "},
      {"\"pg_id\": 18446744073709551615", "\"pg_id\": 7", "/entries/0/pg_id: "},
      {", \"epoch 2\"]", ", \"epoch 3\"]", "/entries/0/process_group: "},
      {"\"p2p_seq_id\": 0", "\"p2p_seq_id\": 1", "/entries/0/p2p_seq_id: expected 0, found 1"},
      {"\"collective_seq_id\": 1", "\"collective_seq_id\": 0", "/entries/0/collective_seq_id: "},
      {"xccl:all_reduce", "xccl:reduce", "/entries/0/profiling_name: "},
      {"\"duration_ms\": 0.0", "\"duration_ms\": true, \"x\": 0.0", "/entries/0/duration_ms: "},
      {"\"time_created_ns\": ", "\"time_created_ns\": 0, \"x\": ", "/time_created_ns: "},
      {"\"time_discovered_completed_ns\": ", "\"time_discovered_completed_ns\": 0, \"x\": ",
       "/time_discovered_completed_ns: expected a time, found 0"},
      {"[[1048576]]", "[[1048577]]", "/entries/0/input_sizes: expected [[1048576]]"},
      {"[[1048576]]", "[[1048576], []]", "/entries/0/input_sizes: "},
      {"\"input_dtypes\": [\"f32\"]", "\"input_dtypes\": [\"f64\"]", "/entries/0/input_dtypes: "},
      {"\"output_dtypes\": [\"f32\"]", "\"output_dtypes\": []", "/entries/0/output_dtypes: "},
      {"\"state\": \"completed\"", "\"state\": \"over\"", "/entries/0/state: expected a name"},
      {"\"state\": \"completed\"", "\"state\": \"failed\"", "/entries/0/error: "},
      {"\"retired\": true", "\"retired\": false", "/entries/0/retired: expected true"},
      {"\"timeout_ms\": 3600000", "\"timeout_ms\": 1", "/entries/0/timeout_ms: "},
      {"\"is_p2p\": false", "\"is_p2p\": 0", "/entries/0/is_p2p: expected true or false"},
      {"\"kind\": \"all_reduce\"", "\"kind\": \"any_reduce\"", "/entries/0/kind: "},
      {"\"dtype\": \"f32\"", "\"dtype\": \"i4\"", "/entries/0/kind: expected an operation"},
      {"\"reduction\": \"sum\"", "\"reduction\": \"xor\"", "/entries/0/reduction: "},
      {"\"root\": 1", "\"root\": 3", "there is no rank 3 in a group of 3"},
      {"\"count\": 1048576", "\"count\": 1e6", "/entries/0/count: expected a whole number"},
      {"\"count\": 1048576", "\"count\": 18446744073709551615", "larger than any device"},
      {"\"deterministic\": false", "\"deterministic\": null", "/entries/0/deterministic: "},
      {"\"send_bytes\": 0", "\"send_bytes\": \"0\"", "/entries/0/send_bytes: "},
      {"\"path\": \"host\"", "\"path\": \"air\"", "/entries/0/path: "},
      {"\"error\": \"OK\"", "\"error\": \"BUSY\"", "/entries/0/error: expected a failure"},
      {"\"entries\": [", "\"entries\": 5, \"x\": [", "/entries: expected an array"},
  };
  for (const Edit& edit : edits) {
    EXPECT_THAT(error_of(with(text, edit.old, edit.replacement)), HasSubstr(edit.words))
        << edit.old << " -> " << edit.replacement;
  }
}

TEST(DumpParse, EntriesThatNoRecorderHas_AreRefused) {
  RankDump dump = filled().dump();
  dump.records.assign(Recorder::kCapacity + 1, dump.records[0]);
  for (size_t i = 0; i < dump.records.size(); ++i) dump.records[i].id = i;
  EXPECT_THAT(error_of(dump_text(dump)), HasSubstr("/entries: expected at most 4096, found 4097"));
  dump.records.pop_back();
  EXPECT_EQ(error_of(dump_text(dump)), "no error");
  dump.last = {};
  EXPECT_THAT(error_of(dump_text(dump)),
              HasSubstr("/entries/0/collective_seq_id: expected at most"));
  dump.last.entered = 1;
  std::swap(dump.records[0].id, dump.records[1].id);
  EXPECT_THAT(error_of(dump_text(dump)), HasSubstr("/entries/1/record_id: expected above 1"));
}

TEST(DumpParse, FieldsOfTheFuture_ArePassedOver) {
  const std::string text = dump_text(filled().dump());
  EXPECT_EQ(error_of(with(text, "\"host\"", "\"novelty\": {\"a\": [1]}, \"host\"")), "no error");
}

/// One change of a text, of those that broken disks, editors and attackers make.
std::string mutated(std::string text, std::mt19937* random) {
  const auto at_most = [random](size_t most) {
    return std::uniform_int_distribution<size_t>(0, most)(*random);
  };
  static constexpr std::string_view kPieces[] = {"0",     "-1",   "18446744073709551616",
                                                 "1e999", "\"\"", "[",
                                                 "]",     "{",    "}",
                                                 "nul",   "true", ",",
                                                 ":",     "\\",   "\xff",
                                                 "\x01"};
  const size_t place = at_most(text.size() - 1);
  switch (at_most(5)) {
    case 0:
      text[place] = static_cast<char>(at_most(255));
      break;
    case 1:
      text.resize(place);
      break;
    case 2:
      text.erase(place, at_most(40));
      break;
    case 3:
      text.insert(place, kPieces[at_most(std::size(kPieces) - 1)]);
      break;
    case 4:
      text.insert(place, text.substr(at_most(text.size() - 1), at_most(200)));
      break;
    default: {  // another number in place of one
      const size_t digit = text.find_first_of("0123456789", place);
      if (digit != std::string::npos) text[digit] = static_cast<char>('0' + at_most(9));
    }
  }
  return text;
}

TEST(DumpParse, ThousandsOfBrokenTexts_AreRefusedByNameOrTraced) {
  constexpr int kTexts = 6000;
  std::mt19937 random(20240607);
  const std::string text = dump_text(filled().dump());
  int refused = 0;
  for (int i = 0; i < kTexts; ++i) {
    std::string broken = mutated(text, &random);
    if (i % 3 == 0 && !broken.empty()) broken = mutated(std::move(broken), &random);
    const auto dump = parse_dump(broken, "x.json");
    if (!dump.ok()) {
      ++refused;
      ASSERT_THAT(dump.status().to_string(), StartsWith("INVALID_ARGUMENT: x.json: ")) << broken;
      continue;
    }
    const auto trace = trace_dumps({*dump});
    ASSERT_TRUE(trace.ok()) << trace.status().to_string();
    ASSERT_FALSE(trace->findings.empty());
    // What was let through is a dump: it is written and read as any other.
    ASSERT_TRUE(parse_dump(dump_text(*dump), "y.json").ok()) << broken;
  }
  EXPECT_GT(refused, kTexts / 2);
  EXPECT_LT(refused, kTexts);
}

}  // namespace
}  // namespace bp::ccl
