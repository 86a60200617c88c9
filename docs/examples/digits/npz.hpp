// SPDX-License-Identifier: Apache-2.0
//
// Reads arrays from an uncompressed .npz file (numpy.savez), so that the example needs no library.
// A .npz is a zip archive of .npy files. Sizes come from the archive's central directory: numpy
// leaves them out of the local headers. Every offset is checked before it is used.
#ifndef BACKPLANE_DOCS_EXAMPLES_DIGITS_NPZ_HPP
#define BACKPLANE_DOCS_EXAMPLES_DIGITS_NPZ_HPP

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

class NpzFile {
 public:
  explicit NpzFile(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail("cannot be opened");
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  /// The values of an array whose .npy dtype is `descr` ("<f4" for float, "<i8" for int64_t).
  template <class T>
  std::vector<T> read(const std::string& name, std::string_view descr) const {
    std::string_view npy = member(name + ".npy");
    if (npy.size() < 10 || npy.substr(0, 6) != std::string_view("\x93NUMPY", 6) || npy[6] != 1) {
      fail("'" + name + "' is not a .npy array of version 1");
    }
    const size_t header_bytes =
        static_cast<unsigned char>(npy[8]) + size_t{256} * static_cast<unsigned char>(npy[9]);
    if (npy.size() - 10 < header_bytes) fail("'" + name + "' ends in its header");
    const std::string_view header = npy.substr(10, header_bytes);
    const std::string dtype = "'descr': '" + std::string(descr) + "'";
    if (header.find(dtype) == std::string_view::npos) fail("'" + name + "' is not " + dtype);
    npy.remove_prefix(10 + header_bytes);
    if (npy.size() % sizeof(T) != 0) fail("'" + name + "' ends within a value");
    std::vector<T> values(npy.size() / sizeof(T));
    std::memcpy(values.data(), npy.data(), npy.size());
    return values;
  }

 private:
  [[noreturn]] void fail(const std::string& words) const {
    throw std::runtime_error(path_ + ": " + words);
  }

  /// A little-endian number of the archive.
  uint64_t number(uint64_t offset, uint64_t byte_count) const {
    if (offset > bytes_.size() || bytes_.size() - offset < byte_count) fail("is cut short");
    uint64_t value = 0;
    for (uint64_t i = byte_count; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes_[offset + i]);
    }
    return value;
  }

  std::string_view slice(uint64_t offset, uint64_t byte_count) const {
    if (offset > bytes_.size() || bytes_.size() - offset < byte_count) fail("is cut short");
    return std::string_view(bytes_).substr(offset, byte_count);
  }

  /// The bytes of one stored file: found in the central directory, which the end record points to.
  std::string_view member(const std::string& name) const {
    const size_t end = std::string_view(bytes_).rfind(std::string_view("PK\5\6", 4));
    if (end == std::string_view::npos) fail("is not a zip archive");
    uint64_t entry = number(end + 16, 4);
    for (uint64_t left = number(end + 10, 2); left > 0; --left) {
      if (number(entry, 4) != 0x02014B50) fail("has a damaged directory");
      const uint64_t name_bytes = number(entry + 28, 2);
      if (slice(entry + 46, name_bytes) == name) return stored_data(entry, name);
      entry += 46 + name_bytes + number(entry + 30, 2) + number(entry + 32, 2);
    }
    fail("has no array '" + name + "'");
  }

  std::string_view stored_data(uint64_t entry, const std::string& name) const {
    if (number(entry + 10, 2) != 0) fail("'" + name + "' is compressed; numpy.savez does not");
    const uint64_t local = number(entry + 42, 4);
    if (number(local, 4) != 0x04034B50) fail("'" + name + "' is not where the directory says");
    const uint64_t data = local + 30 + number(local + 26, 2) + number(local + 28, 2);
    return slice(data, number(entry + 24, 4));
  }

  std::string path_;
  std::string bytes_;
};

#endif
