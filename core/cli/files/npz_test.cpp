// SPDX-License-Identifier: Apache-2.0
//
// .npz archives, made here and by NumPy, whole and damaged; and the choice by extension.
#include "core/cli/files/npz.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/temp_folder_test.hpp"
#include "core/cli/files/files.hpp"
#include "core/cli/files/npy_header.hpp"

namespace bp {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

struct Part {
  std::string name;
  std::string content;
  bool deflated = false;
};

std::string npy(const Dims& sizes, const std::vector<float>& values) {
  return *make_npy_header(BP_DTYPE_F32, sizes) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::string make_zip(const TempFolder& folder, const std::vector<Part>& parts) {
  const std::string path = folder.path("test.npz");
  std::filesystem::remove(path);
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
  for (const Part& part : parts) {
    zip_source_t* source = zip_source_buffer(archive, part.content.data(), part.content.size(), 0);
    const int64_t index = zip_file_add(archive, part.name.c_str(), source, 0);
    EXPECT_GE(index, 0) << zip_strerror(archive);
    zip_set_file_compression(archive, static_cast<uint64_t>(index),
                             part.deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  EXPECT_EQ(zip_close(archive), 0);
  return path;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ReadNpz, StoredAndDeflated_Read) {
  const TempFolder folder;
  const auto tensors = read_npz(
      make_zip(folder, {{"a.npy", npy({2}, {1, 2})}, {"b/c.npy", npy({1, 3}, {3, 4, 5}), true}}));
  ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].first, "a");
  EXPECT_EQ((*tensors)[1].first, "b/c");
  const HostTensor& second = (*tensors)[1].second;
  EXPECT_EQ(second.sizes, (Dims{1, 3}));
  const std::vector<float> expected = {3, 4, 5};
  EXPECT_EQ(std::memcmp(second.data, expected.data(), 12), 0);
}

TEST(ReadNpz, OnlyOne_TheOthersAreNotUnpacked) {
  const TempFolder folder;
  const std::string file =
      make_zip(folder, {{"broken.npy", "hi"}, {"a.npy", npy({2}, {1, 2})}, {"b.npy", "hi"}});
  EXPECT_FALSE(read_npz(file).ok());
  const auto tensors = read_npz(file, "a");
  ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].first, "broken");
  EXPECT_EQ((*tensors)[0].second.data, nullptr);
  EXPECT_EQ((*tensors)[1].second.sizes, (Dims{2}));
  EXPECT_FALSE(read_npz(file, "b").ok());
}

TEST(ReadNpz, WrittenByNumPy_Read) {
  const auto tensors = read_npz(BP_DIGITS_FOLDER "/heldout.npz");
  ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].first, "image");
  EXPECT_EQ((*tensors)[0].second.dtype, BP_DTYPE_F32);
  EXPECT_EQ((*tensors)[0].second.sizes, (Dims{360, 1, 8, 8}));
  EXPECT_EQ((*tensors)[1].first, "label");
  EXPECT_EQ((*tensors)[1].second.dtype, BP_DTYPE_I64);
  EXPECT_EQ((*tensors)[1].second.sizes, Dims{360});
  EXPECT_EQ((*tensors)[2].first, "probabilities");
  const auto* labels = static_cast<const int64_t*>((*tensors)[1].second.data);
  const auto* probabilities = static_cast<const float*>((*tensors)[2].second.data);
  int hits = 0;
  for (size_t i = 0; i < 360; ++i) {
    const float* row = probabilities + 10 * i;
    hits += std::max_element(row, row + 10) - row == labels[i] ? 1 : 0;
  }
  EXPECT_EQ(hits, 358);
}

TEST(ReadNpz, NotAnArchive_Named) {
  const TempFolder folder;
  const Status text = read_npz(folder.write("t.npz", "hello")).status();
  EXPECT_EQ(text.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(text.message(), HasSubstr("t.npz: not a valid .npz file (a zip archive): "));
  EXPECT_THAT(read_npz(folder.write("e.npz", "")).status().message(),
              EndsWith("e.npz: the file is empty (0 bytes)"));
  EXPECT_EQ(read_npz(folder.path("none.npz")).status().code(), BP_UNAVAILABLE);
}

TEST(ReadNpz, EmptyArchive_Named) {
  const TempFolder folder;
  const std::string end = "PK\x05\x06" + std::string(18, '\0');
  const auto tensors = read_npz(folder.write("empty.npz", end));
  EXPECT_EQ(tensors.status().code(), BP_INVALID_ARGUMENT);
}

TEST(ReadNpz, OtherEntries_Named) {
  const TempFolder folder;
  EXPECT_THAT(read_npz(make_zip(folder, {{"readme.txt", "hi"}})).status().message(),
              EndsWith("test.npz: array 'readme.txt': expected only .npy files in the archive"));
  EXPECT_THAT(read_npz(make_zip(folder, {{"a.npy", "hi"}})).status().message(),
              HasSubstr("test.npz: array 'a.npy': not a valid .npy file"));
}

TEST(ReadNpz, ChecksumWrong_Refused) {
  const TempFolder folder;
  std::string bytes = content(make_zip(folder, {{"a.npy", npy({2}, {1, 2})}}));
  const std::string one("\x00\x00\x80\x3f", 4);
  bytes[bytes.find(one)] = 1;
  const Status status = read_npz(folder.write("bad.npz", bytes)).status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), HasSubstr("bad.npz: array 'a.npy': CRC error"));
}

TEST(ReadNpz, ClaimedSizeOverLimit_RefusedBeforeAllocation) {
  const TempFolder folder;
  std::string bytes = content(make_zip(folder, {{"a.npy", npy({2}, {1, 2}), true}}));
  // The uncompressed size in the central directory, which begins with PK 1 2.
  const size_t entry = bytes.find("PK\x01\x02");
  ASSERT_NE(entry, std::string::npos);
  bytes.replace(entry + 24, 4, "\xfe\xff\xff\xff");
  const Status under = read_npz(folder.write("big.npz", bytes)).status();
  EXPECT_EQ(under.code(), BP_INVALID_ARGUMENT);
  const std::string zip64_extra("\x01\x00\x08\x00\x00\x00\x00\x00\x00\x01\x00\x00", 12);
  bytes.replace(entry + 24, 4, "\xff\xff\xff\xff");
  bytes.replace(entry + 30, 2, std::string("\x0c\x00", 2));
  bytes.insert(entry + 46 + 5, zip64_extra);
  const size_t end = bytes.find("PK\x05\x06");
  bytes[end + 12] = static_cast<char>(bytes[end + 12] + 12);
  const Status over = read_npz(folder.write("huge.npz", bytes)).status();
  EXPECT_EQ(over.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(over.message(), HasSubstr("the arrays unpack to more than 4294967296 bytes"));
}

// Its last byte is damaged, which only unpacking the whole entry finds out.
TEST(ReadNpz, EntryLargerThanItsArray_IsNotUnpacked) {
  const TempFolder folder;
  const std::string zeros(1 << 20, '\0');
  std::string bytes = content(make_zip(folder, {{"a.npy", npy({3}, {1, 2, 3}) + zeros}}));
  bytes[bytes.find("PK\x01\x02") - 1] = 1;
  const Status status = read_npz(folder.write("bomb.npz", bytes)).status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), HasSubstr("array 'a.npy': f32[3] needs 12 bytes of data, found " +
                                          std::to_string(zeros.size() + 12)));
}

TEST(ReadNpz, CutOrChangedAnywhere_NeverCrashes) {
  const TempFolder folder;
  const std::string bytes =
      content(make_zip(folder, {{"a.npy", npy({2}, {1, 2}), true}, {"b.npy", npy({1}, {3})}}));
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_FALSE(read_npz(folder.write("cut.npz", bytes.substr(0, size))).ok()) << size;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    const auto tensors = read_npz(folder.write("changed.npz", changed));
    if (!tensors.ok()) {
      EXPECT_THAT(tensors.status().message(), HasSubstr("changed.npz: "));
    }
  }
}

TEST(ReadTensors, ByExtension) {
  const TempFolder folder;
  const auto npy_file = read_tensors(folder.write("a.npy", npy({2}, {1, 2})));
  ASSERT_TRUE(npy_file.ok()) << npy_file.status().to_string();
  ASSERT_EQ(npy_file->size(), 1u);
  EXPECT_EQ((*npy_file)[0].first, "");
  EXPECT_EQ((*npy_file)[0].second.sizes, Dims{2});
  EXPECT_EQ(read_tensors(BP_DIGITS_FOLDER "/heldout.npz")->size(), 3u);
  // TensorProto: dims 1, FLOAT, raw_data 1.0.
  const std::string proto("\x08\x01\x10\x01\x4a\x04\x00\x00\x80\x3f", 10);
  const auto pb = read_tensors(folder.write("a.pb", proto));
  ASSERT_TRUE(pb.ok()) << pb.status().to_string();
  EXPECT_EQ(*static_cast<const float*>((*pb)[0].second.data), 1.0f);
  const Status other = read_tensors("a.txt").status();
  EXPECT_EQ(other.code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(other.message(),
            "a.txt: expected a file that ends in .npy, .npz or .pb (ONNX TensorProto)");
  EXPECT_THAT(read_tensors(folder.write("b.pb", "hello")).status().message(),
              HasSubstr("b.pb: not a valid ONNX file"));
}

}  // namespace
}  // namespace bp
