// SPDX-License-Identifier: Apache-2.0
//
// Weights in, bytes out and in again, and where the values of a run lie.
#include "tests/sketches/executable_mock/executable.hpp"

#include <cstring>

namespace bp::sketch {
namespace {

uint64_t rounded(uint64_t bytes) {
  return (bytes + npu::kAlignmentBytes - 1) / npu::kAlignmentBytes * npu::kAlignmentBytes;
}

/// FNV-1a: enough to find damage, and no defence against malice.
uint64_t check_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

void append(std::vector<std::byte>* out, const void* data, uint64_t bytes) {
  const auto* const first = static_cast<const std::byte*>(data);
  out->insert(out->end(), first, first + bytes);
}

}  // namespace

Executable::Executable(bp_device* device, std::vector<std::byte> image,
                       std::span<const std::span<const std::byte>> constants)
    : device_(device), image_(std::move(image)) {
  const char* reason = nullptr;
  program_ = read_program(Image(image_.data(), image_.size()), &reason);
  if (reason != nullptr) sdk::fail(BP_UNSUPPORTED, "executable_compile: ", reason);
  for (uint32_t id = 0; id < program_.values.size(); ++id) {
    const uint64_t index = program_.values[id].constant_index;
    if (index == 0) continue;
    if (index > constants.size() || constants[index - 1].size() != bytes_of(id, {})) {
      sdk::refuse("constant ", index, " is missing, or not as large as its value");
    }
  }
  for (const std::span<const std::byte> constant : constants) {
    constant_offsets_.push_back(weight_bytes_);
    constant_bytes_.push_back(constant.size());
    weight_bytes_ += rounded(constant.size());
  }
  if (weight_bytes_ == 0) return;
  device_->driver_call();
  weights_.handle = device_->memory().alloc(weight_bytes_, 0);
  for (size_t i = 0; i < constants.size(); ++i) {
    const bp_mem place{weights_.handle, constant_offsets_[i]};
    std::memcpy(device_->memory().translate(place, constants[i].size()), constants[i].data(),
                constants[i].size());
  }
}

Executable::~Executable() {
  if (weights_.handle != 0) device_->memory().free(weights_.handle);
}

uint64_t Executable::bytes_of(uint32_t value, std::span<const int64_t> symbols) const {
  uint64_t bytes = sdk::dtype_bytes(program_.values[value].dtype);
  for (const int64_t size : program_.sizes_of(value, symbols)) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      sdk::refuse("a value of 2^64 bytes or more");
    }
  }
  return bytes;
}

std::vector<bp_mem> Executable::places_of(std::span<const int64_t> symbols,
                                          std::span<const bp_mem> given, bp_mem workspace) const {
  std::vector<bp_mem> places(program_.values.size());
  for (size_t id = 0; id < places.size(); ++id) {
    const uint64_t index = program_.values[id].constant_index;
    if (index != 0) places[id] = {weights_.handle, constant_offsets_[index - 1]};
  }
  for (size_t i = 0; i < program_.inputs.size(); ++i) places[program_.inputs[i]] = given[i];
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    places[program_.outputs[i]] = given[program_.inputs.size() + i];
  }
  for (uint32_t id = 0; id < places.size(); ++id) {
    if (places[id].handle != 0) continue;
    places[id] = workspace;
    workspace.offset_bytes += rounded(bytes_of(id, symbols));
  }
  return places;
}

uint64_t Executable::workspace_bytes(std::span<const int64_t> symbols) const {
  // A handle that stands for "given" keeps those values out of the workspace.
  const std::vector<bp_mem> given(program_.inputs.size() + program_.outputs.size(), bp_mem{1, 0});
  const std::vector<bp_mem> places = places_of(symbols, given, {2, 0});
  uint64_t end = 0;
  for (uint32_t id = 0; id < places.size(); ++id) {
    if (places[id].handle != 2) continue;
    end = std::max(end, places[id].offset_bytes + rounded(bytes_of(id, symbols)));
  }
  return end;
}

std::vector<std::byte> Executable::serialize() const {
  std::vector<std::byte> body = image_;
  for (size_t i = 0; i < constant_bytes_.size(); ++i) {
    append(&body, &constant_bytes_[i], sizeof(uint64_t));
    const bp_mem place{weights_.handle, constant_offsets_[i]};
    append(&body, device_->memory().translate(place, constant_bytes_[i]), constant_bytes_[i]);
  }
  BlobHead head{.magic = {},
                .format = kBlobFormat,
                .constant_count = static_cast<uint32_t>(constant_bytes_.size()),
                .image_bytes = image_.size(),
                .check = check_of(body)};
  std::memcpy(head.magic, kBlobMagic, sizeof(head.magic));
  std::vector<std::byte> blob;
  append(&blob, &head, sizeof(head));
  append(&blob, body.data(), body.size());
  return blob;
}

const char* blob_defect(std::span<const std::byte> blob, bool whole) {
  BlobHead head{};
  if (blob.size() < sizeof(head)) return "the blob is shorter than its head";
  std::memcpy(&head, blob.data(), sizeof(head));
  if (std::memcmp(head.magic, kBlobMagic, sizeof(head.magic)) != 0) {
    return "the blob is another plugin's";
  }
  if (head.format != kBlobFormat) return "the blob is of another version";
  if (head.image_bytes > blob.size() - sizeof(head)) return "the blob is cut short";
  if (whole && check_of(blob.subspan(sizeof(head))) != head.check) return "the blob is damaged";
  return nullptr;
}

std::unique_ptr<bp_executable> deserialize(bp_device* device, std::span<const std::byte> blob) {
  if (const char* const defect = blob_defect(blob, true)) {
    sdk::fail(BP_INCOMPATIBLE, "executable_deserialize: ", defect);
  }
  BlobHead head{};
  std::memcpy(&head, blob.data(), sizeof(head));
  std::span<const std::byte> rest = blob.subspan(sizeof(head));
  std::vector<std::byte> image(rest.begin(), rest.begin() + static_cast<int64_t>(head.image_bytes));
  rest = rest.subspan(head.image_bytes);
  std::vector<std::span<const std::byte>> constants;
  for (uint32_t i = 0; i < head.constant_count; ++i) {
    uint64_t bytes = 0;
    if (rest.size() < sizeof(bytes)) sdk::fail(BP_INCOMPATIBLE, "the blob lacks a constant");
    std::memcpy(&bytes, rest.data(), sizeof(bytes));
    rest = rest.subspan(sizeof(bytes));
    if (rest.size() < bytes) sdk::fail(BP_INCOMPATIBLE, "the blob ends in a constant");
    constants.push_back(rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  return std::make_unique<bp_executable>(device, std::move(image), constants);
}

}  // namespace bp::sketch
