// SPDX-License-Identifier: Apache-2.0
//
// Weights in other files: what is read, and each rule of what is refused. How names are kept in the
// folder is tested with ClosedFolder; here is that the reader asks it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/temp_folder_test.hpp"
#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::ElementsAre;
using testing::HasSubstr;

using Entries = std::vector<std::pair<std::string, std::string>>;

/// A tensor whose values are in another file.
Message external(std::string_view name, const std::vector<int64_t>& dims, const Entries& entries,
                 int type = kFloatType) {
  Message tensor = tensor_header(name, dims, type);
  for (const auto& [key, value] : entries) {
    tensor.message(13, Message().text(1, key).text(2, value));
  }
  return tensor.varint(14, 1);
}

class ExternalDataTest : public testing::Test {
 protected:
  ExternalDataTest() { folder_.write("w.bin", bytes_of<float>({1, 2, 3, 4, 5, 6})); }

  Result<Graph> load(const Message& weight) const {
    const Model model = {.nodes = {node("Add", "add1", {"x", "w"}, {"y"})},
                         .initializers = {weight}};
    return load_onnx(folder_.write("m.onnx", model.bytes()), registry());
  }
  std::vector<float> values(const Message& weight) const {
    const auto graph = load(weight);
    if (!graph.ok()) {
      ADD_FAILURE() << graph.status().to_string();
      return {};
    }
    return values_of<float>(*graph->value(graph->find_value("w")).constant);
  }
  /// The words behind those that name file and tensor.
  std::string refused(const Entries& entries, bp_status code = BP_INVALID_ARGUMENT) const {
    return refused(external("w", {1, 3}, entries), code);
  }
  std::string refused(const Message& weight, bp_status code = BP_INVALID_ARGUMENT) const {
    const auto graph = load(weight);
    if (graph.ok()) return "it was read";
    EXPECT_EQ(graph.status().code(), code);
    const std::string begin = folder_.path("m.onnx") + ": initializer: tensor 'w': ";
    EXPECT_TRUE(graph.status().message().starts_with(begin)) << graph.status().message();
    return graph.status().message().substr(begin.size());
  }

  TempFolder folder_;
};

TEST_F(ExternalDataTest, Values_AreReadWhereTheyLie) {
  EXPECT_THAT(values(external("w", {2, 3}, {{"location", "w.bin"}})),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values(external("w", {1, 3}, {{"location", "w.bin"}, {"offset", "12"}})),
              ElementsAre(4, 5, 6));
  EXPECT_THAT(values(external("w", {1, 3},
                              {{"location", "./w.bin"},
                               {"offset", "4"},
                               {"length", "12"},
                               {"checksum", "da39a3ee5e6b4b0d3255bfef95601890afd80709"}})),
              ElementsAre(2, 3, 4));
}

TEST_F(ExternalDataTest, UnalignedValues_AreCopied) {
  folder_.write("odd.bin", "x" + bytes_of<float>({7, 8, 9}));
  EXPECT_THAT(values(external("w", {1, 3}, {{"location", "odd.bin"}, {"offset", "1"}})),
              ElementsAre(7, 8, 9));
}

TEST_F(ExternalDataTest, FileInAFolderBelow_IsRead) {
  std::filesystem::create_directory(folder_.path("parts"));
  folder_.write("parts/w.bin", bytes_of<float>({1, 2, 3}));
  EXPECT_THAT(values(external("w", {1, 3}, {{"location", "parts/w.bin"}})), ElementsAre(1, 2, 3));
}

TEST_F(ExternalDataTest, NoValues_AreRead) {
  folder_.write("empty.bin", "");
  const auto graph = load(external("w", {0, 3}, {{"location", "empty.bin"}}));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
}

TEST_F(ExternalDataTest, AttributesTensor_IsRead) {
  Message value = tensor_header("", {3}, kFloatType);
  value.message(13, Message().text(1, "location").text(2, "w.bin")).varint(14, 1);
  Model model = {.nodes = {node("Constant", "c", {}, {"k"}, {attr("value", value)}),
                           node("Add", "add1", {"x", "k"}, {"y"})}};
  const auto graph = load_onnx(folder_.write("m.onnx", model.bytes()), registry());
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
}

TEST_F(ExternalDataTest, WeightsBeyondTwoGiB_AreMappedAndNotRead) {
  // Sparse: takes no disk. Its last bytes are values.
  constexpr uint64_t kBytes = (uint64_t{3} << 30) + 12;
  const std::string path = folder_.write("big.bin", "");
  std::filesystem::resize_file(path, kBytes - 12);
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes_of<float>({1, 2, 3});
  EXPECT_THAT(values(external("w", {1, 3},
                              {{"location", "big.bin"}, {"offset", std::to_string(kBytes - 12)}})),
              ElementsAre(1, 2, 3));
  const auto graph = load(external("w", {int64_t{3} << 28, 1}, {{"location", "big.bin"}}));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(graph->value(graph->find_value("w")).constant->bytes, uint64_t{3} << 30);
}

TEST_F(ExternalDataTest, OneFileOfManyTensors_IsMappedOnce) {
  Model model = {
      .nodes = {node("Add", "a", {"x", "w"}, {"s"}), node("Add", "b", {"s", "v"}, {"y"})},
      .initializers = {external("w", {1, 3}, {{"location", "w.bin"}}),
                       external("v", {1, 3}, {{"location", "w.bin"}, {"offset", "12"}})}};
  const auto graph = load_onnx(folder_.write("m.onnx", model.bytes()), registry());
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  const auto& w = *graph->value(graph->find_value("w")).constant;
  const auto& v = *graph->value(graph->find_value("v")).constant;
  EXPECT_EQ(static_cast<const char*>(v.data) - static_cast<const char*>(w.data), 12);
  EXPECT_EQ(w.owner, v.owner);
}

// --- What is refused ---

TEST_F(ExternalDataTest, Keys) {
  EXPECT_EQ(refused({{"offset", "0"}}), "external data: location is missing");
  EXPECT_EQ(refused({{"location", "w.bin"}, {"basepath", "/etc"}}),
            "external data: key 'basepath' is not known, only location, offset, length and "
            "checksum");
  EXPECT_EQ(refused({{"location", "w.bin"}, {"location", "v.bin"}}),
            "external data: location is given twice");
  EXPECT_EQ(refused({{"location", "w.bin"}, {"__class__", "x"}}),
            "external data: key '__class__' is not known, only location, offset, length and "
            "checksum");
}

TEST_F(ExternalDataTest, Numbers) {
  for (const char* offset : {"-1", "+1", "0x4", "4 ", "", "1e3", "18446744073709551616"}) {
    EXPECT_EQ(
        refused({{"location", "w.bin"}, {"offset", offset}}),
        "external data: offset is '" + std::string(offset) + "', expected a whole number of bytes");
  }
  EXPECT_EQ(refused({{"location", "w.bin"}, {"length", "-12"}}),
            "external data: length is '-12', expected a whole number of bytes");
}

TEST_F(ExternalDataTest, BytesThatAreNotThere) {
  EXPECT_EQ(refused({{"location", "w.bin"}, {"offset", "13"}}),
            "external data: expected 12 bytes at byte 13 of 'w.bin', which has 24");
  EXPECT_EQ(refused({{"location", "w.bin"}, {"offset", "18446744073709551612"}}),
            "external data: expected 12 bytes at byte 18446744073709551612 of 'w.bin', which has "
            "24");
  EXPECT_EQ(refused({{"location", "w.bin"}, {"length", "18446744073709551615"}, {"offset", "4"}}),
            "external data: expected 18446744073709551615 bytes at byte 4 of 'w.bin', which has "
            "24");
  EXPECT_EQ(refused({{"location", "w.bin"}, {"length", "16"}}),
            "sizes [1, 3] of f32 need 12 bytes, found 16");
  EXPECT_EQ(refused(external("w", {1024, 1024, 1024, 1024}, {{"location", "w.bin"}})),
            "external data: expected 4398046511104 bytes at byte 0 of 'w.bin', which has 24");
}

TEST_F(ExternalDataTest, FilesOutsideTheFolder) {
  EXPECT_EQ(refused({{"location", "../w.bin"}}),
            "external data: '../w.bin' has a part '..', expected a file in the folder");
  EXPECT_EQ(refused({{"location", "/proc/self/environ"}}),
            "external data: '/proc/self/environ' is absolute, expected a file in the folder");
  EXPECT_EQ(refused({{"location", ""}}), "external data: '' is no file name");
  EXPECT_EQ(refused({{"location", "none.bin"}}, BP_UNAVAILABLE),
            "external data: 'none.bin': cannot open the file: No such file or directory");
}

TEST_F(ExternalDataTest, LinksAndSpecialFiles) {
  std::filesystem::create_symlink("w.bin", folder_.path("link.bin"));
  EXPECT_EQ(refused({{"location", "link.bin"}}),
            "external data: 'link.bin' goes by a symbolic link, expected none");
  std::filesystem::create_directory(folder_.path("sub"));
  std::filesystem::create_directory_symlink(".", folder_.path("here"));
  EXPECT_EQ(refused({{"location", "here/w.bin"}}),
            "external data: 'here/w.bin' goes by a symbolic link, expected none");
  EXPECT_EQ(refused({{"location", "sub"}}),
            "external data: 'sub' is a folder, expected a regular file");
  ASSERT_EQ(::mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refused({{"location", "pipe"}}),
            "external data: 'pipe' is a special file, expected a regular file");
  ASSERT_EQ(::link(folder_.path("w.bin").c_str(), folder_.path("hard.bin").c_str()), 0);
  EXPECT_EQ(refused({{"location", "hard.bin"}}),
            "external data: 'hard.bin' has 2 hard links, expected 1: it may be another's file");
}

/// As a hub's cache keeps models: all names are links into one folder of contents.
class ContentStoreTest : public ExternalDataTest {
 protected:
  ContentStoreTest() {
    std::filesystem::create_directories(folder_.path("blobs/below"));
    std::filesystem::create_directories(folder_.path("snapshot/onnx"));
    folder_.write("blobs/1234", bytes_of<float>({1, 2, 3, 4, 5, 6}));
    folder_.write("blobs/below/secret", bytes_of<float>({1, 2, 3, 4, 5, 6}));
  }

  void link(const std::string& to, const std::string& name) const {
    std::filesystem::create_symlink(to, folder_.path("snapshot/onnx/" + name));
  }
  /// What comes of a model in the store that is linked, and names `location`.
  std::string loaded(const std::string& location) const {
    const Model model = {.nodes = {node("Add", "add1", {"x", "w"}, {"y"})},
                         .initializers = {external("w", {2, 3}, {{"location", location}})}};
    folder_.write("blobs/abcd", model.bytes());
    std::filesystem::remove(folder_.path("snapshot/onnx/m.onnx"));
    link("../../blobs/abcd", "m.onnx");
    const auto graph = load_onnx(folder_.path("snapshot/onnx/m.onnx"), registry());
    return graph.ok() ? "read" : graph.status().message();
  }
};

TEST_F(ContentStoreTest, LinksIntoTheModelsRealFolder_AreFollowed) {
  link("../../blobs/1234", "m.onnx_data");
  EXPECT_EQ(loaded("m.onnx_data"), "read");
  EXPECT_EQ(loaded("./m.onnx_data"), "read");
  folder_.write("snapshot/onnx/plain", bytes_of<float>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(loaded("plain"), "read") << "no link at all";
}

TEST_F(ContentStoreTest, LinksElsewhere_AreRefused) {
  link("../../w.bin", "outside");
  link("../../blobs/below/secret", "below");
  link("/proc/self/environ", "process");
  link("../../blobs/none", "none");
  link("../../blobs", "folder");
  EXPECT_THAT(loaded("outside"), HasSubstr("'outside' is a link to '"));
  EXPECT_THAT(loaded("outside"), HasSubstr("where the link to the model leads"));
  EXPECT_THAT(loaded("below"), HasSubstr("'below' is a link to '"));
  EXPECT_THAT(loaded("process"), HasSubstr("'process' is a link to '"));
  EXPECT_THAT(loaded("none"), HasSubstr("'none': cannot open the file: No such file"));
  EXPECT_THAT(loaded("folder/1234"), HasSubstr("goes by a symbolic link"));
  EXPECT_THAT(loaded("../onnx/outside"), HasSubstr("has a part '..'"));
  ASSERT_EQ(::link(folder_.path("blobs/1234").c_str(), folder_.path("blobs/again").c_str()), 0);
  link("../../blobs/1234", "twice");
  EXPECT_THAT(loaded("twice"), HasSubstr("has 2 hard links, expected 1"));
}

/// A model that is no link has no store: its folder alone counts.
TEST_F(ContentStoreTest, ModelThatIsNoLink_HasNone) {
  std::filesystem::create_symlink("blobs/1234", folder_.path("linked.bin"));
  EXPECT_EQ(refused({{"location", "linked.bin"}}),
            "external data: 'linked.bin' goes by a symbolic link, expected none");
}

TEST_F(ExternalDataTest, TwoPlacesForValues) {
  const Entries entries = {{"location", "w.bin"}};
  EXPECT_EQ(refused(external("w", {1, 3}, entries).text(9, bytes_of<float>({1, 2, 3}))),
            "values in raw_data, expected them in another file only");
  EXPECT_EQ(refused(external("w", {1, 3}, entries).f32(4, 1)),
            "values in field 4, expected them in another file only");
  EXPECT_EQ(refused(tensor_header("w", {1, 3}, kFloatType).varint(14, 1)),
            "its values are in another file, but external_data names none");
  EXPECT_EQ(refused(floats("w", {1, 3}, {1, 2, 3})
                        .message(13, Message().text(1, "location").text(2, "w.bin"))),
            "external_data is given, but data_location is not EXTERNAL");
  EXPECT_EQ(refused(floats("w", {1, 3}, {1, 2, 3}).varint(14, 2)),
            "data_location is 2, expected 0 (DEFAULT) or 1 (EXTERNAL)");
}

TEST_F(ExternalDataTest, BadBool_IsRefusedAsInTheModelsOwnBytes) {
  folder_.write("b.bin", std::string("\1\2\0", 3));
  EXPECT_THAT(refused(external("w", {1, 3}, {{"location", "b.bin"}}, kBoolType)), HasSubstr("2"));
}

TEST_F(ExternalDataTest, ModelInMemory_HasNoFolder) {
  const Model model = {.nodes = {node("Add", "add1", {"x", "w"}, {"y"})},
                       .initializers = {external("w", {1, 3}, {{"location", "w.bin"}})}};
  const Status status = testing_onnx::refused(model);
  EXPECT_EQ(status.code(), BP_UNSUPPORTED);
  EXPECT_EQ(status.message(),
            "m.onnx: initializer: tensor 'w': its values are in another file (external data), and "
            "a model in memory has no folder");
}

TEST_F(ExternalDataTest, ReadInPlaceOfMapped_FilesMayBeCutOffAfterwards) {
  const Model model = {.nodes = {node("Add", "add1", {"x", "w"}, {"y"})},
                       .initializers = {external("w", {1, 3}, {{"location", "w.bin"}})}};
  const std::string path = folder_.write("m.onnx", model.bytes());
  std::vector<uint64_t> reserved;
  const auto reserve = [&](uint64_t bytes) -> Result<std::shared_ptr<const void>> {
    reserved.push_back(bytes);
    return std::shared_ptr<const void>();
  };
  const auto graph = load_onnx(path, registry(), {.read = true, .reserve = reserve});
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(reserved, ElementsAre(std::filesystem::file_size(path), 6 * sizeof(float)));
  std::filesystem::resize_file(path, 0);
  std::filesystem::resize_file(folder_.path("w.bin"), 0);
  const HostTensor& w = *graph->value(graph->find_value("w")).constant;
  EXPECT_THAT(values_of<float>(w), ElementsAre(1, 2, 3));
  EXPECT_EQ(w.file, nullptr) << "its memory is not to be given back";
}

TEST_F(ExternalDataTest, ReadInPlaceOfMapped_ShrinksMeanwhile_IsNamed) {
  const Model model = {.nodes = {node("Add", "add1", {"x", "w"}, {"y"})},
                       .initializers = {external("w", {1, 3}, {{"location", "w.bin"}})}};
  const std::string path = folder_.write("m.onnx", model.bytes());
  const auto shrinks = [&](uint64_t bytes) -> Result<std::shared_ptr<const void>> {
    if (bytes == 6 * sizeof(float)) std::filesystem::resize_file(folder_.path("w.bin"), 5);
    return std::shared_ptr<const void>();
  };
  const auto graph = load_onnx(path, registry(), {.read = true, .reserve = shrinks});
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(graph.status().message(), HasSubstr("tensor 'w': external data: "));
  EXPECT_THAT(graph.status().message(),
              HasSubstr("w.bin: the file shrank while it was read: expected 24 bytes, found 5"));
}

}  // namespace
}  // namespace bp
