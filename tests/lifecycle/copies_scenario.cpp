// SPDX-License-Identifier: Apache-2.0
//
// Two copies of libbackplane.so in one process, each opened RTLD_LOCAL by a name of its own, over
// the same plugin files: as when two packages bring the library. Nothing of it is linked in here.
//   copies_scenario FIRST_LIBRARY SECOND_LIBRARY DEVICE DEVICE_FOLDER HOST_FOLDER
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backplane/backplane.h"
#include "backplane/ops/attributes.h"

namespace {

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::fflush(nullptr);                                                              \
      _exit(99);                                                                         \
    }                                                                                    \
  } while (false)

std::string device_name;
std::string device_folder;
std::string host_folder;

/// One copy, with a Runtime in it.
class Copy {
 public:
  explicit Copy(const char* path) : library_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) std::fprintf(stderr, "%s\n", dlerror());
    CHECK(library_ != nullptr);
    call<&bpa_log_set_sink>("bpa_log_set_sink")(
        [](void* user, uint32_t, const char*, uint64_t) { ++*static_cast<int*>(user); },
        &line_count);
  }

  void create() {
    const char* const names[] = {"BACKPLANE_LOG"};
    const char* const values[] = {"info"};
    bpa_runtime_args args{};
    args.struct_size = sizeof(args);
    args.plugin_path = device_folder.c_str();
    args.install_dir = host_folder.c_str();
    args.option_names = names;
    args.option_values = values;
    args.option_count = 1;
    CHECK(call<&bpa_runtime_create>("bpa_runtime_create")(&args, &runtime) == BP_OK);
    CHECK(call<&bpa_runtime_find_device>("bpa_runtime_find_device")(runtime, device_name.c_str(),
                                                                    &device) == BP_OK);
  }

  void work() {
    const int64_t size = 1000;
    const std::vector<float> ones(static_cast<size_t>(size), 1.0f);
    std::vector<float> values(ones.size());
    bpa_tensor* x = nullptr;
    CHECK(call<&bpa_tensor_from_host>("bpa_tensor_from_host")(
              device, BP_DTYPE_F32, &size, 1, ones.data(), ones.size() * sizeof(float), &x) ==
          BP_OK);
    for (int i = 0; i < 20; ++i) {
      const bpa_tensor* const inputs[] = {x};
      bpa_tensor* y = nullptr;
      CHECK(call<&bpa_op_call>("bpa_op_call")(nullptr, BP_OP_RELU, inputs, 1, nullptr, 0, &y, 1) ==
            BP_OK);
      call<&bpa_tensor_release>("bpa_tensor_release")(x);
      x = y;
    }
    CHECK(call<&bpa_tensor_to_host>("bpa_tensor_to_host")(x, values.data(),
                                                          values.size() * sizeof(float)) == BP_OK);
    CHECK(values == ones);
    call<&bpa_tensor_release>("bpa_tensor_release")(x);
  }

  std::string error() { return call<&bpa_last_error>("bpa_last_error")(); }
  bpa_status sync() { return call<&bpa_device_sync>("bpa_device_sync")(device); }
  void close() { CHECK(call<&bpa_runtime_close>("bpa_runtime_close")(runtime) == BP_OK); }
  void release() { call<&bpa_runtime_release>("bpa_runtime_release")(runtime); }
  void unmap() { CHECK(dlclose(library_) == 0); }
  void* address() { return dlsym(library_, "bpa_runtime_create"); }

  int line_count = 0;  // of its own log
  bpa_runtime* runtime = nullptr;
  bpa_device* device = nullptr;

 private:
  template <auto function>
  decltype(function) call(const char* name) {
    void* const symbol = dlsym(library_, name);
    CHECK(symbol != nullptr);
    return reinterpret_cast<decltype(function)>(symbol);
  }
  void* library_;
};

void use_both(Copy& first, Copy& second) {
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) first.work();
  });
  for (int i = 0; i < 10; ++i) second.work();
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 6);
  device_name = argv[3];
  device_folder = argv[4];
  host_folder = argv[5];
  Copy first(argv[1]);
  Copy second(argv[2]);
  CHECK(first.address() != second.address());
  void* const first_address = first.address();

  first.create();
  const int lines = first.line_count;
  CHECK(lines > 0);
  second.create();
  CHECK(first.line_count == lines && second.line_count > 0);  // logs are not shared
  use_both(first, second);

  first.close();
  CHECK(first.sync() == BP_GONE);
  CHECK(!first.error().empty() && second.error().empty());
  second.work();
  first.release();
  second.work();

  first.create();  // plugins are initialised again, in the copy that had shut them down
  use_both(first, second);
  first.release();
  first.unmap();
  second.work();
  second.release();
  second.unmap();

  // What still runs is left its code, and a later user gets the same copy.
  Copy left(argv[1]);
  left.create();
  left.work();
  left.unmap();
  CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  Copy later(argv[1]);
  CHECK(later.address() == first_address);
  later.create();
  later.work();
  later.release();
  std::puts("both copies worked");
}
