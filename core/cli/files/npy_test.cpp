// SPDX-License-Identifier: Apache-2.0
//
// .npy files: what NumPy writes, what we write, and every way to be wrong.
#include "core/cli/files/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/base/temp_folder_test.hpp"
#include "core/cli/files/npy_header.hpp"

namespace bp {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// A file as NumPy writes it: the header padded to 64 bytes.
std::string npy(const std::string& dictionary, const std::string& data, int major = 1) {
  std::string header = dictionary;
  const size_t prefix = major == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += {static_cast<char>(major), '\0', static_cast<char>(header.size() & 0xff),
           static_cast<char>(header.size() >> 8)};
  if (major > 1) file += std::string(2, '\0');
  return file + header + data;
}

std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& fortran_order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran_order + ", 'shape': " + shape +
         ", }";
}

Result<HostTensor> parse(const std::string& file) {
  // Exactly as many bytes as the file has, so that reading beyond them is caught.
  std::shared_ptr<std::byte[]> memory(
      new (std::align_val_t(64)) std::byte[file.size()],
      [](std::byte* p) { operator delete[](p, std::align_val_t(64)); });
  std::memcpy(memory.get(), file.data(), file.size());
  return parse_npy({memory.get(), file.size()}, memory);
}

std::string words(const std::string& file) { return parse(file).status().message(); }

template <class T>
std::vector<T> values_of(const HostTensor& tensor) {
  std::vector<T> values(tensor.bytes / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data, tensor.bytes);
  return values;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const std::string kSix = bytes_of<float>({1, 2, 3, 4, 5, 6});

TEST(ParseNpy, Floats_UsedInPlace) {
  const auto tensor = parse(npy(dictionary("<f4", "(2, 3)"), kSix));
  ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
  EXPECT_EQ(tensor->dtype, BP_DTYPE_F32);
  EXPECT_EQ(tensor->sizes, (Dims{2, 3}));
  EXPECT_THAT(values_of<float>(*tensor), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data) % 64, 0u);
}

TEST(ParseNpy, Versions2And3_Read) {
  for (int major : {2, 3}) {
    const auto tensor = parse(npy(dictionary("<f4", "(6,)"), kSix, major));
    ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
    EXPECT_EQ(tensor->sizes, Dims{6});
  }
}

TEST(ParseNpy, EveryDtype_Read) {
  const struct {
    const char* descr;
    uint32_t dtype;
    size_t bytes;
  } cases[] = {
      {"|b1", BP_DTYPE_BOOL, 1}, {"|i1", BP_DTYPE_I8, 1},     {"<i2", BP_DTYPE_I16, 2},
      {"<i4", BP_DTYPE_I32, 4},  {"<i8", BP_DTYPE_I64, 8},    {"|u1", BP_DTYPE_U8, 1},
      {"<u2", BP_DTYPE_U16, 2},  {"<u4", BP_DTYPE_U32, 4},    {"<u8", BP_DTYPE_U64, 8},
      {"<f2", BP_DTYPE_F16, 2},  {"<f4", BP_DTYPE_F32, 4},    {"<f8", BP_DTYPE_F64, 8},
      {"<c8", BP_DTYPE_C64, 8},  {"<c16", BP_DTYPE_C128, 16},
  };
  for (const auto& each : cases) {
    const auto tensor = parse(npy(dictionary(each.descr, "(1,)"), std::string(each.bytes, '\x01')));
    ASSERT_TRUE(tensor.ok()) << each.descr << tensor.status().to_string();
    EXPECT_EQ(tensor->dtype, each.dtype);
    EXPECT_EQ(tensor->bytes, each.bytes);
  }
}

TEST(ParseNpy, ScalarAndEmpty_Read) {
  const auto scalar = parse(npy(dictionary("<f4", "()"), bytes_of<float>({5})));
  ASSERT_TRUE(scalar.ok()) << scalar.status().to_string();
  EXPECT_EQ(scalar->sizes.size(), 0u);
  const auto empty = parse(npy(dictionary("<f4", "(0, 3)"), ""));
  ASSERT_TRUE(empty.ok()) << empty.status().to_string();
  EXPECT_EQ(empty->bytes, 0u);
}

TEST(ParseNpy, FortranOrder_TurnedRound) {
  const auto tensor = parse(npy(dictionary("<f4", "(2, 3)", "True"), kSix));
  ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
  EXPECT_THAT(values_of<float>(*tensor), ElementsAre(1, 3, 5, 2, 4, 6));
  std::vector<int16_t> counted(24);
  for (int16_t i = 0; i < 24; ++i) counted[static_cast<size_t>(i)] = i;
  const auto cube = parse(npy(dictionary("<i2", "(2, 3, 4)", "True"), bytes_of(counted)));
  ASSERT_TRUE(cube.ok());
  const auto values = values_of<int16_t>(*cube);
  for (int i = 0; i < 24; ++i) {
    const int a = i / 12, b = i / 4 % 3, c = i % 4;
    EXPECT_EQ(values[static_cast<size_t>(i)], a + 2 * b + 6 * c) << i;
  }
  const auto line = parse(npy(dictionary("<f4", "(6,)", "True"), kSix));
  EXPECT_THAT(values_of<float>(*line), ElementsAre(1, 2, 3, 4, 5, 6));
  const auto empty = parse(npy(dictionary("<f4", "(0, 3)", "True"), ""));
  EXPECT_TRUE(empty.ok());
}

TEST(ParseNpy, UnalignedData_Copied) {
  std::string file = npy(dictionary("<f4", "(6,)"), kSix);
  // One space less in the header, which other writers may leave out.
  file.erase(file.find("  "), 1);
  file[8] = static_cast<char>(file[8] - 1);
  const auto tensor = parse(file);
  ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data) % 4, 0u);
  EXPECT_THAT(values_of<float>(*tensor), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(ParseNpy, KeysInAnyOrderAndDoubleQuotes_Read) {
  const auto tensor = parse(npy("{\"shape\":(6,),'fortran_order':False,\"descr\":\"<f4\"}", kSix));
  ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
}

TEST(ParseNpy, WrongSize_Named) {
  EXPECT_EQ(words(npy(dictionary("<f4", "(2, 4)"), kSix)),
            "f32[2, 4] needs 32 bytes of data, found 24");
  EXPECT_EQ(words(npy(dictionary("<f4", "(5,)"), kSix)), "f32[5] needs 20 bytes of data, found 24");
  EXPECT_THAT(words(npy(dictionary("<f4", "(4611686018427387904, 4)"), kSix)),
              EndsWith("are more bytes than can be counted"));
  EXPECT_THAT(words(npy(dictionary("<f4", "(99999999999999999999,)"), kSix)),
              HasSubstr("'shape': expected sizes from 0"));
}

TEST(ParseNpy, Dtypes_Refused) {
  const auto big = parse(npy(dictionary(">f4", "(6,)"), kSix));
  EXPECT_EQ(big.status().code(), BP_UNSUPPORTED);
  EXPECT_EQ(big.status().message(), "dtype '>f4' is big-endian; save the array with astype('<f4')");
  EXPECT_THAT(words(npy(dictionary("|O", "(6,)"), kSix)), HasSubstr("dtype '|O' is not supported"));
  EXPECT_THAT(words(npy(dictionary("<U5", "(6,)"), kSix)), HasSubstr("dtype '<U5'"));
  EXPECT_THAT(words(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", kSix)),
              HasSubstr("structured dtypes are not supported"));
  EXPECT_EQ(words(npy(dictionary("|b1", "(2,)"), "\x01\x07")),
            "element 1 of dtype bool: expected 0 or 1, found 7");
}

TEST(ParseNpy, BadHeaders_Named) {
  const struct {
    std::string dictionary;
    const char* words;
  } cases[] = {
      {"", "in the header expected '{'"},
      {"{", "expected a string in quotes"},
      {"{}", "the header has no 'descr'"},
      {"{'descr': '<f4', 'shape': (6,)}", "the header has no 'fortran_order'"},
      {"{'descr': '<f4', 'descr': '<f4'}", "the header has 'descr' twice"},
      {"{'descr': '<f4', 'extra': 1}", "the header has the unknown key 'extra'"},
      {"{'descr' '<f4'}", "expected ':', found '''"},
      {"{'descr': '<f4", "a string in the header has no end"},
      {"{'descr': f4}", "expected a string in quotes"},
      {"{'fortran_order': 1}", "'fortran_order': expected True or False"},
      {"{'shape': 6}", "expected '(', found '6'"},
      {"{'shape': (6", "expected ')', found its end"},
      {"{'shape': (-1,)}", "'shape': expected sizes from 0"},
      {"{'shape': (6;)}", "expected ')', found ';'"},
      {"{'shape': (1.5,)}", "expected ')', found '.'"},
      {dictionary("<f4", "(6,)") + "x", "text after the header's dictionary"},
      {"{'descr': '\xff'}", "its header is not text"},
      {dictionary("<f4", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), "rank over 16"},
  };
  for (const auto& each : cases) {
    EXPECT_THAT(words(npy(each.dictionary, kSix)), HasSubstr(each.words)) << each.dictionary;
  }
}

TEST(ParseNpy, BadPrefixes_Named) {
  EXPECT_EQ(words("not numpy"),
            "not a valid .npy file: it does not begin with \\x93NUMPY and a version");
  EXPECT_THAT(words("\x93NUMPY"), HasSubstr("does not begin with"));
  std::string version = npy(dictionary("<f4", "(6,)"), kSix);
  version[6] = 9;
  EXPECT_EQ(words(version), ".npy version 9: expected 1, 2 or 3");
  std::string huge = npy(dictionary("<f4", "(6,)"), kSix, 2);
  huge[11] = '\x7f';
  EXPECT_THAT(words(huge), HasSubstr("its header claims 21307"));
}

TEST(ParseNpy, CutOrChangedAnywhere_NeverCrashes) {
  const std::string file = npy(dictionary("<f4", "(2, 3)", "True"), kSix);
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(parse(file.substr(0, size)).ok()) << size;
  }
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string changed = file;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    const auto tensor = parse(changed);
    if (tensor.ok()) {
      EXPECT_LE(tensor->bytes, file.size());
    }
  }
}

TEST(ReadNpy, Files) {
  const TempFolder folder;
  const auto tensor = read_npy(folder.write("a.npy", npy(dictionary("<f4", "(2, 3)"), kSix)));
  ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
  EXPECT_THAT(values_of<float>(*tensor), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read_npy(folder.write("b.npy", "")).status().message(),
              EndsWith("b.npy: the file is empty (0 bytes)"));
  EXPECT_THAT(read_npy(folder.write("c.npy", "hello")).status().message(),
              HasSubstr("c.npy: not a valid .npy file"));
  EXPECT_EQ(read_npy(folder.path("none.npy")).status().code(), BP_UNAVAILABLE);
}

TEST(WriteNpy, ReadBack_Same) {
  const TempFolder folder;
  for (const Dims& sizes : {Dims{}, Dims{6}, Dims{2, 3}, Dims{0, 3}}) {
    const size_t count = static_cast<size_t>(element_count(sizes));
    const std::vector<float> values(count, 1.5f);
    const HostTensor tensor = {BP_DTYPE_F32, sizes, values.data(), count * 4, nullptr};
    const std::string path = folder.path("t.npy");
    ASSERT_TRUE(write_npy(path, tensor).ok());
    const auto back = read_npy(path);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(back->sizes, sizes);
    EXPECT_EQ(values_of<float>(*back), values);
  }
}

TEST(WriteNpy, Bytes_AsNumPyWritesThem) {
  const TempFolder folder;
  const std::vector<int64_t> values = {7, 8};
  const HostTensor tensor = {BP_DTYPE_I64, {2}, values.data(), 16, nullptr};
  ASSERT_TRUE(write_npy(folder.path("t.npy"), tensor).ok());
  EXPECT_EQ(content(folder.path("t.npy")), npy(dictionary("<i8", "(2,)"), bytes_of(values)));
  const HostTensor flags = {BP_DTYPE_BOOL, {1, 2}, "\x01", 2, nullptr};
  ASSERT_TRUE(write_npy(folder.path("b.npy"), flags).ok());
  EXPECT_THAT(content(folder.path("b.npy")), HasSubstr(dictionary("|b1", "(1, 2)")));
}

size_t file_count(const TempFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(WriteNpy, OverMappedFile_ArrayStays) {
  const TempFolder folder;
  const std::string path = folder.path("t.npy");
  const std::vector<float> values(3000, 1.5f);
  ASSERT_TRUE(write_npy(path, {BP_DTYPE_F32, {3000}, values.data(), 12000, nullptr}).ok());
  std::filesystem::create_symlink(path, folder.path("link.npy"));
  const auto mapped = read_npy(path);
  ASSERT_TRUE(mapped.ok()) << mapped.status().to_string();
  const float value = 2;
  const HostTensor small = {BP_DTYPE_F32, {}, &value, 4, nullptr};
  ASSERT_TRUE(write_npy(folder.path("link.npy"), small).ok());
  EXPECT_EQ(values_of<float>(*mapped), values);
  EXPECT_THAT(values_of<float>(*read_npy(path)), ElementsAre(2));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link.npy")));
  EXPECT_EQ(file_count(folder), 2u);
}

TEST(WriteNpy, NoRoom_OldFileStays) {
  const TempFolder folder;
  const std::string path = folder.write("t.npy", "old");
  const std::vector<float> values(3000, 1.5f);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_npy(path, {BP_DTYPE_F32, {3000}, values.data(), 12000, nullptr});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), BP_UNAVAILABLE);
  EXPECT_THAT(status.message(), HasSubstr("t.npy: cannot write the file: File too large"));
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(file_count(folder), 1u);
}

TEST(WriteNpy, Failures_NameFile) {
  const TempFolder folder;
  const float value = 1;
  HostTensor tensor = {BP_DTYPE_F32, {}, &value, 4, nullptr};
  const Status missing = write_npy(folder.path("none/t.npy"), tensor);
  EXPECT_EQ(missing.code(), BP_UNAVAILABLE);
  EXPECT_THAT(missing.message(), HasSubstr("none/t.npy: cannot write the file: No such file"));
  const Status full = write_npy("/dev/full", tensor);
  EXPECT_THAT(full.message(), StartsWith("/dev/full: cannot write the file: No space left"));
  tensor.dtype = BP_DTYPE_BF16;
  tensor.bytes = 2;
  const Status dtype = write_npy(folder.path("t.npy"), tensor);
  EXPECT_EQ(dtype.code(), BP_UNSUPPORTED);
  EXPECT_THAT(dtype.message(), EndsWith("t.npy: NumPy has no dtype bf16"));
}

}  // namespace
}  // namespace bp
