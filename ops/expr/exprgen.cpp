// SPDX-License-Identifier: Apache-2.0
//
// bp-exprgen: writes the kernels of all rows with expressions. A row that is wrong fails the build
// here, by name.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ops/expr/emit_files.hpp"
#include "ops/expr/rows.hpp"

namespace bp::expr {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

/// A file that stays the same is left alone, so that nothing is compiled again.
bool write_if_changed(const std::string& path, const std::string& text) {
  std::ifstream old(path, std::ios::binary);
  const std::string before{std::istreambuf_iterator<char>(old), std::istreambuf_iterator<char>()};
  if (old && before == text) return true;
  std::ofstream file(path, std::ios::binary);
  file << text;
  return static_cast<bool>(file.flush());
}

int fail(const std::string& words) {
  std::cerr << "bp-exprgen: " << words << "\n";
  return kFailed;
}

/// Definitions are used by the oracle only, so no emitter sees them.
int check_definitions() {
  for (const Row& row : all_rows()) {
    for (const Form& form : row.definition) {
      Expr expr;
      const uint8_t bits = form.kind == Class::kBool ? 8 : 64;
      const std::string error = compile(row, FormKind::kDefinition, {form.kind, bits}, &expr);
      if (!error.empty()) return fail(error);
    }
  }
  return 0;
}

constexpr const char* kUsageText = R"(usage: bp-exprgen cpu FOLDER COUNT
           vector C++, for the plugin cpu alone: expressions_0.cpp to expressions_<COUNT - 1>.cpp
           and reductions.cpp
       bp-exprgen c FOLDER COUNT SUFFIX HEADER
           the same in C; SUFFIX c or cpp, HEADER with the launch:
           backplane/sdk/expression/launch.h, or one of the plugin's own
       bp-exprgen opencl FOLDER SKELETONS SUFFIX HEADER
           OpenCL C: expressions_opencl.<SUFFIX>; SKELETONS: the folder of layout.h, words.h,
           memory.cl, elementwise.cl and reduction.cl; HEADER declares what plans and launches
Each file ends with BP_SDK_KERNELS; docs: the SDK's page, "Emitted kernels".
)";

int usage(const std::string& words) {
  std::cerr << "bp-exprgen: " << words << "\n" << kUsageText;
  return kUsage;
}

std::string read_file(const std::string& path, std::string* out_text) {
  std::ifstream file(path, std::ios::binary);
  *out_text = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return file ? "" : path + ": cannot be read";
}

std::string read_skeletons(const std::string& folder, Skeletons* out) {
  const std::pair<const char*, std::string*> files[] = {{"layout.h", &out->layout},
                                                        {"words.h", &out->words},
                                                        {"memory.cl", &out->memory},
                                                        {"elementwise.cl", &out->elementwise},
                                                        {"reduction.cl", &out->reduction}};
  for (const auto& [name, text] : files) {
    const std::string error = read_file(folder + "/" + name, text);
    if (!error.empty()) return error;
  }
  return {};
}

/// 0: not a number of files.
int count_of(const std::string& text) {
  const bool is_number = !text.empty() && text.size() <= 3 &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::atoi(text.c_str()) : 0;
}

bool is_suffix(const std::string& text) { return text == "c" || text == "cpp"; }

int write_files(const std::string& folder, const std::vector<File>& files) {
  for (const File& file : files) {
    const std::string path = folder + "/" + file.name;
    if (!write_if_changed(path, file.text)) return fail(path + ": cannot be written");
  }
  return 0;
}

/// words: target, folder and what the target takes.
int run(const std::vector<std::string>& words) {
  if (words.empty()) return usage("expected a target");
  const std::string& target = words[0];
  if (target == "--help" || target == "-h") {
    std::cout << kUsageText;
    return 0;
  }
  if (target != "cpu" && target != "c" && target != "opencl") {
    return usage("expected the target cpu, c or opencl, found '" + target + "'");
  }
  const size_t wanted = target == "cpu" ? 3 : 5;
  if (words.size() != wanted) {
    return usage("target " + target + ": expected " + std::to_string(wanted - 1) +
                 " arguments, found " + std::to_string(words.size() - 1));
  }
  const int count = target == "opencl" ? 1 : count_of(words[2]);
  if (count < 1) return usage("expected a COUNT of files from 1 to 999, found '" + words[2] + "'");
  if (target != "cpu" && !is_suffix(words[3])) {
    return usage("expected the SUFFIX c or cpp, found '" + words[3] + "'");
  }
  std::vector<File> files;
  std::string error;
  if (target == "cpu") {
    error = emit_cpu_files(count, &files);
  } else if (target == "c") {
    error = emit_c_files(count, words[3], words[4], &files);
  } else {
    Skeletons skeletons;
    error = read_skeletons(words[2], &skeletons);
    if (error.empty()) error = emit_opencl_files(skeletons, words[3], words[4], &files);
  }
  if (!error.empty()) return fail(error);
  if (const int failed = check_definitions(); failed != 0) return failed;
  return write_files(words[1], files);
}

}  // namespace
}  // namespace bp::expr

int main(int argc, char** argv) { return bp::expr::run({argv + 1, argv + argc}); }
