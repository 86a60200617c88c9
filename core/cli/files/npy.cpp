// SPDX-License-Identifier: Apache-2.0
//
// The data behind the header: used in place where possible, turned round where it is column-major.
#include "core/cli/files/npy.hpp"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "core/base/dtype.hpp"
#include "core/base/mapped_file.hpp"
#include "core/cli/files/npy_header.hpp"

namespace bp {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are little-endian");

/// Copies column-major elements to row-major order.
void to_row_major(const Dims& sizes, size_t element_bytes, const std::byte* from, std::byte* to) {
  Dims from_strides;
  from_strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    from_strides[i] = stride;
    stride *= sizes[i];
  }
  Dims index;
  index.resize(sizes.size(), 0);
  int64_t offset = 0;
  for (int64_t left = element_count(std::as_const(sizes)); left > 0; --left) {
    std::memcpy(to, from + static_cast<size_t>(offset) * element_bytes, element_bytes);
    to += element_bytes;
    for (size_t i = sizes.size(); i-- > 0;) {
      offset += from_strides[i];
      if (++index[i] < sizes[i]) break;
      offset -= from_strides[i] * sizes[i];
      index[i] = 0;
    }
  }
}

/// A new file in the folder of `path`. Its name is its own, as that of `path` may be as long as
/// names can be.
std::FILE* create_beside(const std::filesystem::path& path, std::string* out_path) {
  const std::string prefix = ".backplane-" + std::to_string(getpid()) + "-";
  for (int number = 0;; ++number) {
    *out_path = (path.parent_path() / (prefix + std::to_string(number))).string();
    std::FILE* file = std::fopen(out_path->c_str(), "wbx");
    if (file != nullptr || errno != EEXIST) return file;
  }
}

/// Writes everything and closes the file, or answers errno.
int write_all(std::FILE* file, const std::string& header, const HostTensor& tensor) {
  if (file == nullptr) return errno;
  const bool written =
      std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
      (tensor.bytes == 0 || std::fwrite(tensor.data, 1, tensor.bytes, file) == tensor.bytes);
  const int write_error = errno;
  // A full disk may show only when the last bytes leave the buffer.
  const bool closed = std::fclose(file) == 0;
  if (!written) return write_error;
  return closed ? 0 : errno;
}

/// Writes beside the file and renames: the old file may be mapped, by this process too, and would
/// lose its pages if it were cut to nothing first. Answers errno.
int replace_file(const std::string& path, const std::string& header, const HostTensor& tensor) {
  std::error_code error;
  const auto state = std::filesystem::status(path, error);
  // A device or a pipe is written to, not replaced.
  if (std::filesystem::exists(state) && !std::filesystem::is_regular_file(state)) {
    return write_all(std::fopen(path.c_str(), "wb"), header, tensor);
  }
  // Behind a link the file is replaced, not the link.
  const auto found = std::filesystem::canonical(path, error);
  const std::string target = error ? path : found.string();
  std::string part;
  std::FILE* const file = create_beside(target, &part);
  if (file == nullptr) return errno;
  int failure = write_all(file, header, tensor);
  if (failure == 0 && std::rename(part.c_str(), target.c_str()) != 0) failure = errno;
  if (failure != 0) std::remove(part.c_str());
  return failure;
}

std::string type_text(const NpyHeader& header) {
  return std::string(dtype_name(header.dtype)) + to_string(header.sizes);
}

/// The bytes of the data that the header tells of, if that is what a file of `file_bytes` has.
Result<uint64_t> checked_data_bytes(const NpyHeader& header, uint64_t file_bytes) {
  const auto count = checked_element_count(header.sizes);
  if (!count || *count > std::numeric_limits<int64_t>::max() / 128) {
    return Status(BP_INVALID_ARGUMENT, type_text(header) + " are more bytes than can be counted");
  }
  const uint64_t needed_bytes = dtype_storage_bytes(header.dtype, *count);
  const uint64_t found_bytes = file_bytes - header.data_offset_bytes;
  if (found_bytes == needed_bytes) return needed_bytes;
  return Status(BP_INVALID_ARGUMENT, type_text(header) + " needs " + std::to_string(needed_bytes) +
                                         " bytes of data, found " + std::to_string(found_bytes));
}

}  // namespace

Status check_npy_size(std::span<const std::byte> front, uint64_t file_bytes) {
  BP_TRY_ASSIGN(const NpyHeader header, parse_npy_header(front));
  return checked_data_bytes(header, file_bytes).status();
}

Result<HostTensor> parse_npy(std::span<const std::byte> bytes,
                             const std::shared_ptr<const void>& owner) {
  BP_TRY_ASSIGN(const NpyHeader header, parse_npy_header(bytes));
  const size_t element_bytes = dtype_bits(header.dtype) / 8;
  BP_TRY_ASSIGN(const uint64_t data_bytes, checked_data_bytes(header, bytes.size()));
  HostTensor tensor = {header.dtype, header.sizes, bytes.data() + header.data_offset_bytes,
                       data_bytes, owner};
  BP_TRY(tensor.check_values());
  const size_t number_bytes = dtype_bits(header.dtype) >= 64 ? 8 : element_bytes;
  const bool is_aligned = reinterpret_cast<uintptr_t>(tensor.data) % number_bytes == 0;
  const bool is_column_major = header.fortran_order && header.sizes.size() > 1;
  if (is_aligned && !is_column_major) return tensor;
  void* memory = nullptr;
  BP_TRY_ASSIGN(HostTensor copy, HostTensor::allocate(tensor.dtype, tensor.sizes, &memory));
  if (is_column_major) {
    to_row_major(header.sizes, element_bytes, static_cast<const std::byte*>(tensor.data),
                 static_cast<std::byte*>(memory));
  } else if (tensor.bytes > 0) {
    std::memcpy(memory, tensor.data, tensor.bytes);
  }
  return copy;
}

Result<HostTensor> read_npy(const std::string& path) {
  // The mapping takes no memory of its own, so any file is fine; its size must match its shape.
  BP_TRY_ASSIGN(const auto file, MappedFile::open(path, std::numeric_limits<int64_t>::max()));
  auto tensor = parse_npy(file->bytes(), file);
  if (tensor.ok()) return tensor;
  return tensor.status().with_prefix(path);
}

Status write_npy(const std::string& path, const HostTensor& tensor) {
  const auto header = make_npy_header(tensor.dtype, tensor.sizes);
  if (!header.ok()) return header.status().with_prefix(path);
  const int error = replace_file(path, *header, tensor);
  if (error == 0) return {};
  return {BP_UNAVAILABLE,
          path + ": cannot write the file: " + std::generic_category().message(error)};
}

}  // namespace bp
