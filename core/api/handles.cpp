// SPDX-License-Identifier: Apache-2.0
//
// The checks of arguments that all API functions share.
#include "core/api/handles.hpp"

#include "core/api/ccl_dist_handles.hpp"
#include "core/base/utf8.hpp"

namespace bp {
namespace {

constexpr uint32_t kMaxStructBytes = 64 * 1024;  // nothing that we would ever know is larger

}  // namespace

ApiSession::~ApiSession() {
  if (!session) return;
  Runtime& runtime = session->runtime();
  const Ref<Runtime> kept(&runtime);  // the session may be its last owner
  std::shared_ptr<const void> ended;
  const Status made =
      contain([&] { ended = std::make_shared<const Ref<Session>>(std::move(session)); });
  if (made.ok()) {
    runtime.let_go(std::move(ended));
    return;
  }
  const RuntimeUse use(runtime);
  if (use.granted()) {
    session = nullptr;
  } else {
    static_cast<void>(session.detach());
  }
}

ApiStream::~ApiStream() {
  if (!owned) return;
  const RuntimeUse use(*runtime);
  if (use.granted()) stream.device().release_stream(&stream);  // else it ends with its device
}

const void* owner_of(HandleKind kind, const void* object) {
  switch (kind) {
    case HandleKind::kRuntime:
      return object;
    case HandleKind::kDevice:
      return &static_cast<const Device*>(object)->runtime();
    case HandleKind::kTensor: {
      const Device* device = static_cast<const Tensor*>(object)->device();
      return device != nullptr ? &device->runtime() : nullptr;
    }
    case HandleKind::kSession:
      return &static_cast<const ApiSession*>(object)->session->runtime();
    case HandleKind::kStream:
      return static_cast<const ApiStream*>(object)->runtime.get();
    case HandleKind::kGroup:
      return static_cast<const ApiGroup*>(object)->runtime.get();
    case HandleKind::kWork:
      return static_cast<const ApiWork*>(object)->runtime.get();
    case HandleKind::kMesh:
      return static_cast<const ApiMesh*>(object)->runtime.get();
    case HandleKind::kDataParallel:
      return static_cast<const ApiDataParallel*>(object)->runtime.get();
    case HandleKind::kCancel:
    case HandleKind::kJob:
    case HandleKind::kStore:
      return nullptr;
  }
  return nullptr;
}

Result<DeviceUse> object_of(const bpa_device* handle, std::string_view name) {
  {
    const OwnedHandle::Peek peek(handle, HandleKind::kDevice);
    if (auto* device = static_cast<Device*>(peek.object()); device != nullptr) {
      Runtime& runtime = device->runtime();
      if (runtime.try_retain()) {
        DeviceUse use(Ref<Runtime>::adopt(&runtime), *device);
        HandleUses::announce(&runtime);
        return use;
      }
      return bad_argument(name, "is a device whose runtime was released");
    }
  }
  return explain_handle(handle, HandleKind::kDevice, name);
}

void report_throw(std::string_view function, const Status& thrown) noexcept {
  if (thrown.ok()) return;
  [[maybe_unused]] const Status told = contain([&] {
    log(BP_LOG_WARNING, std::string(function) +
                            " of the application's threw, and the exception "
                            "is lost: " +
                            thrown.message());
  });
}

void report_bad_release(const void* handle, HandleKind kind, std::string_view function) noexcept {
  const bpa_status status = guarded(
      [&]() -> Status { return explain_handle(handle, kind, "handle").with_prefix(function); });
  if (status != BP_FORKED) {
    guarded([&]() -> Status {
      log(BP_LOG_ERROR, last_error_text());
      return {};
    });
  }
}

Status give_tensors(std::span<Ref<Tensor>> tensors, bpa_tensor** out_tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    Status status = make_api_handle(tensors[i].get(), &out_tensors[i]);
    if (status.ok()) [[likely]] {
      tensors[i].detach();
      continue;
    }
    for (; i > 0; --i) {
      bpa_tensor* given = std::exchange(out_tensors[i - 1], nullptr);
      release(given, "give_tensors");
    }
    return status;
  }
  return {};
}

Status check_text(const char* text, std::string_view name) {
  BP_TRY(check_pointer(text, name));
  if (!is_utf8(text)) return bad_argument(name, "is not UTF-8");
  return {};
}

Status check_array(const void* array, uint64_t count, std::string_view name) {
  if (count > kMaxArrayCount) {
    return bad_argument(name, "has " + std::to_string(count) + " entries, expected at most " +
                                  std::to_string(kMaxArrayCount));
  }
  return count > 0 ? check_pointer(array, name) : Status();
}

Status check_struct_size(uint32_t struct_size, std::string_view name) {
  if (struct_size >= 8 && struct_size <= kMaxStructBytes && struct_size % 8 == 0) return {};
  return bad_argument(
      name, "has struct_size " + std::to_string(struct_size) + ", expected sizeof of the struct");
}

Status check_unknown_members(const void* given, size_t struct_size, size_t known_size,
                             std::string_view name) {
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (size_t i = known_size; i < struct_size; ++i) {
    if (bytes[i] == 0) continue;
    return Status(BP_UNSUPPORTED, "argument " + std::string(name) + " sets a member at byte " +
                                      std::to_string(i) + ", which this library does not know");
  }
  return {};
}

Status check_flags(uint64_t flags, uint64_t known, std::string_view name, std::string_view member) {
  if ((flags & ~known) == 0) return {};
  return Status(BP_UNSUPPORTED, "argument " + std::string(name) + std::string(member) + " is " +
                                    std::to_string(flags) + ", of which only " +
                                    std::to_string(known) + " is known");
}

}  // namespace bp
