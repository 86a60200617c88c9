// SPDX-License-Identifier: Apache-2.0
//
// Foreign bytes: cut at every position, every bit turned, parts cut inside intact lengths. Each
// gives an error or a graph that holds together; sanitizer builds watch the memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/temp_folder_test.hpp"
#include "core/passes/passes.hpp"
#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// Damaged models warn about their declared sizes.
class OnnxRobustness : public testing::Test {
 protected:
  OnnxRobustness() { set_log_level(BP_LOG_ERROR); }
  ~OnnxRobustness() override { set_log_level(BP_LOG_WARNING); }
};

/// A model with every message and most field types that the reader knows.
Model rich_model() {
  Model model;
  model.inputs = {value_info("x", {"N", int64_t{1}, int64_t{4}, int64_t{4}}),
                  value_info("scale", {int64_t{2}})};
  model.initializers = {
      floats("w", {2, 1, 3, 3}, std::vector<float>(18, 0.5f)),
      floats("scale", {2}, {1, 2}),
      tensor_header("shift", {2}, kFloatType).f32(4, 1).f32(4, 2),
      tensor_header("shape", {2}, kInt64Type).text(7, "\x03\x20"),
  };
  model.nodes = {
      node("Conv", "conv", {"x", "w", ""}, {"c"},
           {attr("auto_pad", "SAME_UPPER"), attr("group", int64_t{1}),
            attr("strides", std::vector<int64_t>{1, 1})}),
      node("BatchNormalization", "norm", {"c", "scale", "shift", "shift", "scale"}, {"n"},
           {attr("epsilon", 1e-3f)}),
      node("Reshape", "flat", {"n", "shape"}, {"f"}),
      node("Constant", "one", {}, {"k"}, {attr("value", floats("", {1}, {3}))}),
      node("Max", "max", {"f", "k", "k"}, {"m"}),
      node("Outer", "call", {"m", ""}, {"y"}, {attr("axis", int64_t{1})}).text(7, "local"),
  };
  const auto body = [](const Message& inner, std::string_view name) {
    const Message axis = Message().text(1, "axis").varint(20, 2).text(21, "axis");
    return Message()
        .text(1, name)
        .text(4, "a")
        .text(4, "unused")
        .text(5, "b")
        .text(6, "axis")
        .message(7, Message(inner).message(5, axis))
        .message(9, Message().varint(2, 17))
        .text(10, "local");
  };
  model.more_model.message(8, Message().text(1, "local").varint(2, 1))
      .message(25, body(node("Inner", "in", {"a"}, {"b"}).text(7, "local"), "Outer"))
      .message(25, body(node("Softmax", "s", {"a"}, {"b"}), "Inner"));
  model.outputs = {value_info("y", {"M", int64_t{32}})};
  return model;
}

/// A graph that was read from whatever bytes must hold together, and survive the passes.
void check(const Result<Graph>& read, const std::string& what) {
  if (!read.ok()) {
    EXPECT_THAT(read.status().message(), StartsWith("m.onnx: ")) << what;
    const bool is_expected =
        read.status().code() == BP_INVALID_ARGUMENT || read.status().code() == BP_UNSUPPORTED;
    EXPECT_TRUE(is_expected) << what << ": " << read.status().to_string();
    return;
  }
  Graph graph = *read;
  EXPECT_TRUE(graph.verify().ok()) << what << ": " << graph.verify().to_string();
  const Status passed = run_passes(&graph, {});
  EXPECT_TRUE(passed.ok() || passed.code() == BP_INVALID_ARGUMENT)
      << what << ": " << passed.to_string();
}

std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}
std::string digits_bytes() { return bytes_of_file(BP_DIGITS_FOLDER "/digits.onnx"); }

TEST_F(OnnxRobustness, RichModel_IsValid) {
  const auto graph = import_model(rich_model());
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(output_type(*graph), "f32[3, 32]");
  check(graph, "whole");
}

TEST_F(OnnxRobustness, CutAtEveryByte_NeverCrashes) {
  const std::string bytes = rich_model().bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto graph = import_bytes(bytes.substr(0, size));
    EXPECT_FALSE(graph.ok()) << size;
    check(graph, "cut to " + std::to_string(size));
  }
}

TEST_F(OnnxRobustness, EveryBitTurned_NeverCrashes) {
  const std::string bytes = rich_model().bytes();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    check(import_bytes(changed), "bit " + std::to_string(bit));
  }
}

TEST_F(OnnxRobustness, PartsCutInside_NeverCrash) {
  const Model whole = rich_model();
  const auto cut_parts = [&](std::vector<Message> Model::*parts) {
    for (size_t i = 0; i < (whole.*parts).size(); ++i) {
      const std::string bytes = (whole.*parts)[i].bytes();
      for (size_t size = 0; size < bytes.size(); ++size) {
        Model model = whole;
        (model.*parts)[i] = Message().append(bytes.substr(0, size));
        check(import_model(model), "part " + std::to_string(i) + " to " + std::to_string(size));
      }
    }
  };
  cut_parts(&Model::nodes);
  cut_parts(&Model::initializers);
  cut_parts(&Model::inputs);
  cut_parts(&Model::outputs);
}

TEST_F(OnnxRobustness, RandomDamage_NeverCrashes) {
  const std::string bytes = rich_model().bytes();
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string changed = bytes;
    for (uint32_t i = 0; i <= random() % 4; ++i) {
      const size_t at = random() % changed.size();
      const size_t count = random() % 8;
      switch (random() % 3) {
        case 0:
          changed[at] = static_cast<char>(random());
          break;
        case 1:
          changed.erase(at, count);
          break;
        default:
          changed.insert(at, changed.substr(random() % changed.size(), count));
          break;
      }
    }
    check(import_bytes(changed), "round " + std::to_string(round));
  }
}

/// What a damaged model asks of the file system: it may only read the folder's own files.
TEST_F(OnnxRobustness, ExternalDataDamaged_NeverCrashes) {
  const TempFolder folder;
  folder.write("w.bin", std::string(24, '\1'));
  Message weight = tensor_header("w", {2, 3}, kFloatType);
  for (const auto& [key, value] :
       {std::pair{"location", "w.bin"}, {"offset", "0"}, {"length", "24"}, {"checksum", "00"}}) {
    weight.message(13, Message().text(1, key).text(2, value));
  }
  const Model model = {.nodes = {node("Add", "a", {"x", "w"}, {"y"})},
                       .initializers = {weight.varint(14, 1)}};
  const std::string bytes = model.bytes();
  ASSERT_TRUE(load_onnx(folder.write("m.onnx", bytes), registry()).ok());
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 5) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    const auto graph = load_onnx(folder.write("m.onnx", changed), registry());
    const bp_status code = graph.status().code();
    const bool is_expected = graph.ok() || code == BP_INVALID_ARGUMENT || code == BP_UNSUPPORTED ||
                             code == BP_UNAVAILABLE;
    EXPECT_TRUE(is_expected) << bit << ": " << graph.status().to_string();
    if (graph.ok()) EXPECT_TRUE(graph->verify().ok()) << bit;
  }
}

TEST_F(OnnxRobustness, RandomBytes_Refused) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(1 + random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_FALSE(import_bytes(bytes).ok()) << round;
  }
}

/// The field and length before a message of so many bytes.
Message head(uint32_t field, size_t bytes) {
  return Message().raw_varint(field << 3 | 2).raw_varint(bytes);
}

/// A graph whose one node has a graph as its attribute, whose one node has a graph, and so on. All
/// that a level has stands before the next one, so that none is copied into all around it.
std::string nested_graphs(int depth) {
  std::vector<std::string> levels;  // the innermost first
  size_t inside = 0;                // bytes
  for (int level = 0; level < depth; ++level) {
    const Message attribute =
        Message().text(1, "body").varint(20, 5).append(head(6, inside).bytes());
    const Message holder = Message()
                               .text(4, "If")
                               .append(head(5, attribute.bytes().size() + inside).bytes())
                               .append(attribute.bytes());
    levels.push_back(head(1, holder.bytes().size() + inside).bytes() + holder.bytes());
    inside += levels.back().size();
  }
  std::string bytes;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) bytes += *level;
  return bytes;
}

/// Readers that recurse overflow.
TEST_F(OnnxRobustness, DeeplyNestedGraphAttribute_NotEntered) {
  Model model = one_node(node("If", "deep", {"x"}, {"y"}));
  model.nodes[0].message(5, Message().text(1, "body").varint(20, 5).text(6, nested_graphs(100000)));
  EXPECT_THAT(refused(model).message(),
              HasSubstr("node 'deep' (If, opset 17): the operator is not known"));
}

// --- Small files that ask for much time or memory ---

/// The most memory that the process had at any time, in MiB.
int64_t peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

/// Compared letter by letter: hours.
TEST(OnnxFlood, LongNamesNearAMissingOne_NotCompared) {
  const std::string name(200'000, 'n');
  Model model = one_node(node("Relu", "r", {name}, {"y"}));
  for (char last = 'a'; last < 'k'; ++last) {
    model.initializers.push_back(floats(name + std::string(1000, last), {1}, {1}));
  }
  EXPECT_THAT(refused(model).message(), EndsWith("no initializer, input or node has this name"));
}

/// Each compared with all before it: minutes.
TEST(OnnxFlood, ManyOperatorSets_Read) {
  Model model = one_node(node("Relu", "r", {"x"}, {"y"}));
  for (int i = 200'000; i < 600'000; ++i) {
    model.more_model.message(8, Message().text(1, std::to_string(i)).varint(2, 1));
  }
  EXPECT_TRUE(import_model(model).ok());
  model.more_model.message(8, Message().text(1, "200000"));
  EXPECT_THAT(refused(model).message(), HasSubstr("domain '200000' is given twice"));
}

/// The node's name in full for every output: 500 MiB.
TEST(OnnxFlood, ManyOutputsOfALongName_TakeLittleMemory) {
  std::vector<std::string> outputs = {"y"};
  for (int i = 0; i < 5000; ++i) outputs.push_back(std::to_string(i));
  const Model model = one_node(node("Relu", std::string(100'000, 'n'), {"x"}, outputs));
  const int64_t before = peak_mib();
  EXPECT_THAT(refused(model).message(), HasSubstr("output 1 ('0') is not supported"));
  EXPECT_LT(peak_mib() - before, 200);
}

// Sanitizers keep what was freed.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// The most memory that the process had since start_peak(), in KiB.
int64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(line.find(':') + 1));
  }
  return 0;
}
void start_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

/// Memory follows the bytes that are there, never what they claim.
TEST_F(OnnxRobustness, ModelsThatOnceEndedAProcess_TakeLittleMemory) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(BP_FUZZ_CORPUS)) {
    const std::string bytes = bytes_of_file(entry.path());
    start_peak();
    const int64_t before = peak_kib();
    ASSERT_GT(before, 0);
    (void)import_bytes(bytes);
    const auto most = static_cast<int64_t>(2 * bytes.size() / 1024 + 16 * 1024);
    EXPECT_LT(peak_kib() - before, most) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 60);
}
#endif

/// Two bytes each in the file, and hundreds in memory.
TEST(OnnxFlood, EmptyMessages_RefusedAtTheFirst) {
  const auto repeated = [](char key) {
    std::string bytes;
    for (int i = 0; i < 300'000; ++i) bytes += {key, '\0'};
    return bytes;
  };
  Model model = one_node(node("Relu", "r", {"x"}, {"y"}).append(repeated(5 << 3 | 2)));
  EXPECT_THAT(refused(model).message(), EndsWith("attribute 0 has no name"));
  const std::pair<int, const char*> fields[] = {{1, "node 1 has no op_type"},
                                                {5, "initializer 0 has no name"},
                                                {11, "input 1 has no name"},
                                                {12, "output 1 has no name"}};
  for (const auto& [field, words] : fields) {
    model = one_node(node("Relu", "r", {"x"}, {"y"}));
    model.more_graph.append(repeated(static_cast<char>(field << 3 | 2)));
    EXPECT_THAT(refused(model).message(), EndsWith(words));
  }
}

TEST(OnnxFlood, ManyAttributes_Refused) {
  Model model = one_node(node("Relu", "r", {"x"}, {"y"}));
  for (int i = 0; i < 256; ++i) model.nodes[0].message(5, attr(std::to_string(i), int64_t{1}));
  EXPECT_THAT(refused(model).message(), HasSubstr("attribute '0' is not known"));
  model.nodes[0].message(5, attr("more", int64_t{1}));
  EXPECT_THAT(refused(model).message(), EndsWith("more than 256 attributes"));
}

TEST(Digits, Model_ReadWithNormsKept) {
  const auto graph = load_onnx(BP_DIGITS_FOLDER "/digits.onnx", registry());
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_TRUE(graph->verify().ok());
  EXPECT_THAT(
      op_names(*graph),
      ElementsAre("conv", "batch_norm", "relu", "conv", "batch_norm", "relu", "max_pool", "conv",
                  "batch_norm", "relu", "max_pool", "flatten", "gemm", "relu", "gemm", "softmax"));
  ASSERT_EQ(graph->inputs().size(), 1u);
  const Value& input = graph->value(graph->inputs()[0]);
  EXPECT_EQ(input.name, "image");
  EXPECT_EQ(graph->to_string(input.type), "f32[N, 1, 8, 8]");
  EXPECT_THAT(graph->output_names(), ElementsAre("probabilities"));
  EXPECT_EQ(output_type(*graph), "f32[N, 10]");
}

TEST(Digits, Sized_EveryTypeKnown) {
  const auto graph = load_onnx(BP_DIGITS_FOLDER "/digits.onnx", registry());
  ASSERT_TRUE(graph.ok());
  const auto sized = graph->with_input_sizes(std::vector<Dims>{{360, 1, 8, 8}});
  ASSERT_TRUE(sized.ok()) << sized.status().to_string();
  for (const Value& value : sized->values()) EXPECT_TRUE(all_known(value.type.sizes));
  EXPECT_EQ(output_type(*sized), "f32[360, 10]");
}

TEST(Digits, Passes_KeepEveryNode) {
  auto graph = load_onnx(BP_DIGITS_FOLDER "/digits.onnx", registry());
  ASSERT_TRUE(graph.ok());
  const size_t count = graph->nodes().size();
  ASSERT_TRUE(run_passes(&*graph, {}).ok());
  EXPECT_EQ(graph->nodes().size(), count);
}

TEST(Digits, CutAnywhere_Refused) {
  const std::string bytes = digits_bytes();
  ASSERT_GT(bytes.size(), 100000u);
  for (size_t size = 1; size < bytes.size(); size += size < 5000 ? 1 : 997) {
    const std::span span(reinterpret_cast<const std::byte*>(bytes.data()), size);
    const auto graph = import_onnx(span, nullptr, "m.onnx", registry());
    EXPECT_EQ(graph.status().code(), BP_INVALID_ARGUMENT) << size;
  }
}

}  // namespace
}  // namespace bp
