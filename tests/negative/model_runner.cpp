// SPDX-License-Identifier: Apache-2.0
//
// Test program: model_runner PLUGIN_DIR. Makes a session on cpu:0 of each model whose path stands
// on a line of standard input, from its bytes, and answers with a line: the status, launches on the
// device meanwhile, and the words of the error, with tabs between.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "backplane/backplane.hpp"

namespace {

uint64_t launches(bpa_device* device) {
  bpa_device_info info{};
  info.struct_size = sizeof(info);
  bp::detail::check(bpa_device_get_info(device, &info));
  return info.launch_count;
}

void answer(const bp::Runtime& runtime, bpa_device* device, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = device;
  bpa_session* session = nullptr;
  const uint64_t before = launches(device);
  const bpa_status status = bpa_session_create(runtime.handle(), bytes.data(), bytes.size(),
                                               nullptr, nullptr, &args, &session);
  std::string words = status == BP_OK ? "" : bpa_last_error();
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  std::cout << status << '\t' << launches(device) - before << '\t' << words << std::endl;
  bpa_session_release(session);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: model_runner PLUGIN_DIR\n";
    return 2;
  }
  try {
    bp::RuntimeOptions options;
    options.install_dir = argv[1];
    options.options["BACKPLANE_FALLBACK"] = "allow";
    bp::set_log_level(1);
    const auto runtime = bp::Runtime::create(options);
    const bp::Device device = runtime.device("cpu:0");
    for (std::string path; std::getline(std::cin, path);) answer(runtime, device.handle(), path);
  } catch (const bp::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
