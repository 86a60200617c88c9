// SPDX-License-Identifier: Apache-2.0
//
// The format is PKWARE's APPNOTE 6.3: at the end of the file a record that says where the directory
// is; in the directory, an entry's sizes and place; at that place, its header once more and its
// bytes. Every number is somebody's claim.
#include "core/cli/files/zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/utf8.hpp"

namespace bp {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kWideLocatorBytes = 20;
constexpr uint64_t kMaxCommentBytes = UINT16_MAX;
constexpr uint32_t kEndMark = 0x06054b50;
constexpr uint32_t kWideEndMark = 0x06064b50;
constexpr uint32_t kWideLocatorMark = 0x07064b50;
constexpr uint32_t kDirectoryMark = 0x02014b50;
constexpr uint32_t kEntryMark = 0x04034b50;
constexpr uint16_t kWideExtra = 1;
constexpr uint16_t kEncryptedBit = 1;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;

Status bad_zip(const std::string& words) { return {BP_INVALID_ARGUMENT, words}; }

/// Takes fields from the front. Past the end all are zero or empty, and it is not ok.
class Fields {
 public:
  Fields(Bytes all, uint64_t place)
      : is_ok_(place <= all.size()), left_(is_ok_ ? all.subspan(place) : Bytes()) {}

  bool is_ok() const { return is_ok_; }
  bool is_empty() const { return left_.empty(); }
  Bytes take(uint64_t count) {
    is_ok_ = is_ok_ && count <= left_.size();
    if (!is_ok_) return {};
    const Bytes taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }

 private:
  uint64_t number(uint64_t count) {
    uint64_t value = 0;
    const Bytes taken = take(count);
    for (size_t i = taken.size(); i-- > 0;)
      value = value << 8 | std::to_integer<uint64_t>(taken[i]);
    return value;
  }

  bool is_ok_;
  Bytes left_;
};

struct Directory {
  uint64_t count = 0;
  uint64_t size_bytes = 0;
  uint64_t place = 0;
};

/// The record at the end is the last one that its comment, which ends the file, agrees with.
std::optional<uint64_t> find_end(Bytes bytes) {
  if (bytes.size() < kEndBytes) return {};
  const uint64_t last = bytes.size() - kEndBytes;
  for (uint64_t comment = 0; comment <= std::min(last, kMaxCommentBytes); ++comment) {
    Fields end(bytes, last - comment);
    if (end.u32() != kEndMark) continue;
    end.take(16);
    if (end.u16() == comment) return last - comment;
  }
  return {};
}

/// What the record says, or the wider one before it, where a number does not fit.
Result<Directory> find_directory(Bytes bytes) {
  const std::optional<uint64_t> place = find_end(bytes);
  if (!place) return bad_zip("it has no directory at its end");
  Fields end(bytes, *place);
  end.take(10);
  Directory found;
  found.count = end.u16();
  found.size_bytes = end.u32();
  found.place = end.u32();
  const bool is_narrow =
      found.count != UINT16_MAX && found.size_bytes != UINT32_MAX && found.place != UINT32_MAX;
  if (is_narrow || *place < kWideLocatorBytes) return found;
  Fields locator(bytes, *place - kWideLocatorBytes);
  if (locator.u32() != kWideLocatorMark) return found;
  locator.take(4);
  Fields wide(bytes, locator.u64());
  if (wide.u32() != kWideEndMark) return bad_zip("its directory is not where it says");
  wide.take(28);
  found.count = wide.u64();
  found.size_bytes = wide.u64();
  found.place = wide.u64();
  if (!wide.is_ok()) return bad_zip("its directory is cut");
  return found;
}

/// Those of the numbers, in this order, that are all ones and so stand in the extra field.
void widen(Bytes extra, std::initializer_list<uint64_t*> numbers) {
  for (Fields fields(extra, 0); fields.is_ok() && !fields.is_empty();) {
    const uint16_t id = fields.u16();
    Fields wide(fields.take(fields.u16()), 0);
    for (uint64_t* number : numbers) {
      if (id != kWideExtra || *number != UINT32_MAX) continue;
      const uint64_t value = wide.u64();
      if (wide.is_ok()) *number = value;
    }
  }
}

/// The bytes behind an entry's own header.
Result<Bytes> packed_bytes(Bytes bytes, uint64_t place, Bytes name, uint64_t size) {
  Fields header(bytes, place);
  if (header.u32() != kEntryMark) return bad_zip("it is not where the directory says");
  header.take(22);
  const uint16_t name_bytes = header.u16();
  const uint16_t extra_bytes = header.u16();
  const Bytes own_name = header.take(name_bytes);
  header.take(extra_bytes);
  const Bytes packed = header.take(size);
  if (!header.is_ok()) return bad_zip("the archive ends within it");
  if (!std::equal(name.begin(), name.end(), own_name.begin(), own_name.end())) {
    return bad_zip("its header has another name than the directory");
  }
  return packed;
}

Result<ZipEntry> take_entry(Bytes bytes, Fields* directory) {
  if (directory->u32() != kDirectoryMark) return bad_zip("the directory is damaged");
  directory->take(4);
  const uint16_t flags = directory->u16();
  const uint16_t method = directory->u16();
  directory->take(4);
  ZipEntry entry;
  entry.checksum = directory->u32();
  uint64_t packed_size = directory->u32();
  entry.size_bytes = directory->u32();
  const uint16_t name_bytes = directory->u16();
  const uint16_t extra_bytes = directory->u16();
  const uint16_t comment_bytes = directory->u16();
  directory->take(8);
  uint64_t place = directory->u32();
  const Bytes name = directory->take(name_bytes);
  widen(directory->take(extra_bytes), {&entry.size_bytes, &packed_size, &place});
  directory->take(comment_bytes);
  if (!directory->is_ok()) return bad_zip("the directory is cut");
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  if (!is_utf8(entry.name) || entry.name.find('\0') != std::string::npos) {
    return bad_zip("its name is no text");
  }
  if ((flags & kEncryptedBit) != 0) return bad_zip("it is encrypted");
  if (method != kStored && method != kDeflated) {
    return bad_zip("expected it stored or deflated, found compression method " +
                   std::to_string(method));
  }
  entry.is_deflated = method == kDeflated;
  BP_TRY_ASSIGN(entry.packed, packed_bytes(bytes, place, name, packed_size));
  return entry;
}

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

}  // namespace

Result<std::vector<ZipEntry>> zip_entries(Bytes bytes) {
  BP_TRY_ASSIGN(const Directory found, find_directory(bytes));
  Fields all(bytes, found.place);
  Fields directory(all.take(found.size_bytes), 0);
  if (!all.is_ok()) return bad_zip("its directory is not where it says");
  std::vector<ZipEntry> entries;
  for (uint64_t i = 0; i < found.count; ++i) {
    auto entry = take_entry(bytes, &directory);
    if (!entry.ok()) return entry.status().with_prefix("entry " + std::to_string(i));
    entries.push_back(*std::move(entry));
  }
  return entries;
}

Result<uint64_t> unpack(const ZipEntry& entry, std::span<std::byte> out) {
  if (!entry.is_deflated) {
    const size_t count = std::min(out.size(), entry.packed.size());
    if (count > 0) std::memcpy(out.data(), entry.packed.data(), count);
    return count;
  }
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return Status(BP_OUT_OF_MEMORY, "no host memory to unpack it");
  }
  const std::unique_ptr<z_stream, EndInflate> end(&stream);
  constexpr size_t kMost = size_t{1} << 30;  // zlib counts in 32 bits
  Bytes in = entry.packed;
  size_t count = 0;
  for (int state = Z_OK; state != Z_STREAM_END && count < out.size();) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = static_cast<uInt>(std::min(in.size(), kMost));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + count);
    stream.avail_out = static_cast<uInt>(std::min(out.size() - count, kMost));
    const uInt given = stream.avail_in;
    const uInt room = stream.avail_out;
    state = inflate(&stream, Z_NO_FLUSH);
    in = in.subspan(given - stream.avail_in);
    count += room - stream.avail_out;
    if (state == Z_MEM_ERROR) return Status(BP_OUT_OF_MEMORY, "no host memory to unpack it");
    if (state == Z_BUF_ERROR) return bad_zip("its compressed bytes end too early");
    if (state != Z_OK && state != Z_STREAM_END) return bad_zip("its compressed bytes are damaged");
  }
  return count;
}

Status check_unpacked(const ZipEntry& entry, Bytes bytes) {
  if (bytes.size() != entry.size_bytes) {
    return bad_zip("expected " + std::to_string(entry.size_bytes) + " bytes unpacked, found " +
                   (bytes.size() > entry.size_bytes ? "more" : std::to_string(bytes.size())));
  }
  const auto* first = reinterpret_cast<const Bytef*>(bytes.data());
  if (crc32_z(0, first, bytes.size()) != entry.checksum) {
    return bad_zip("its checksum is wrong");
  }
  return {};
}

}  // namespace bp
