// SPDX-License-Identifier: Apache-2.0
//
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "core/cli/files/npy_header.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/quoted.hpp"
#include "core/base/utf8.hpp"

namespace bp {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = 65536;
constexpr size_t kAlignment = 64;  // of the data, by the format

struct TypeRow {
  std::string_view code;  // without byte order
  uint32_t dtype;
};
constexpr std::array<TypeRow, 14> kTypes = {{
    {"b1", BP_DTYPE_BOOL},
    {"i1", BP_DTYPE_I8},
    {"i2", BP_DTYPE_I16},
    {"i4", BP_DTYPE_I32},
    {"i8", BP_DTYPE_I64},
    {"u1", BP_DTYPE_U8},
    {"u2", BP_DTYPE_U16},
    {"u4", BP_DTYPE_U32},
    {"u8", BP_DTYPE_U64},
    {"f2", BP_DTYPE_F16},
    {"f4", BP_DTYPE_F32},
    {"f8", BP_DTYPE_F64},
    {"c8", BP_DTYPE_C64},
    {"c16", BP_DTYPE_C128},
}};

Status invalid(const std::string& words) {
  return {BP_INVALID_ARGUMENT, "not a valid .npy file: " + words};
}

Result<uint32_t> dtype_of(std::string_view descr) {
  const char order = descr.empty() ? ' ' : descr[0];
  const bool has_order = order == '<' || order == '>' || order == '|' || order == '=';
  const std::string_view code = has_order ? descr.substr(1) : descr;
  const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const TypeRow& candidate) { return candidate.code == code; });
  if (row == kTypes.end()) {
    return Status(BP_UNSUPPORTED, "dtype " + quoted(descr) +
                                      " is not supported; bool, integers, f2, f4, f8, c8 and c16 "
                                      "are");
  }
  if (order == '>' && dtype_bits(row->dtype) > 8) {
    return Status(BP_UNSUPPORTED, "dtype " + quoted(descr) +
                                      " is big-endian; save the array with astype('<" +
                                      std::string(code) + "')");
  }
  return row->dtype;
}

/// Reads the dictionary from the front.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Status parse(NpyHeader* out) {
    BP_TRY(expect('{'));
    while (!accept('}')) {
      BP_TRY_ASSIGN(const std::string_view key, string());
      BP_TRY(expect(':'));
      BP_TRY(value(key, out));
      if (accept(',')) continue;
      BP_TRY(expect('}'));
      break;
    }
    skip_spaces();
    if (!rest_.empty()) return invalid("text after the header's dictionary");
    for (std::string_view key : {"descr", "fortran_order", "shape"}) {
      if (!seen(key)) return invalid("the header has no " + quoted(key));
    }
    return {};
  }

 private:
  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }

  bool accept(char wanted) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Status expect(char wanted) {
    if (accept(wanted)) return {};
    const std::string found = rest_.empty() ? "its end" : quoted(rest_.substr(0, 1));
    return invalid("in the header expected '" + std::string(1, wanted) + "', found " + found);
  }

  bool accept_word(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  bool seen(std::string_view key) const {
    return std::find(seen_.begin(), seen_.end(), key) != seen_.end();
  }

  Result<std::string_view> string() {
    skip_spaces();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) {
      return invalid("in the header expected a string in quotes");
    }
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return invalid("a string in the header has no end");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  Status value(std::string_view key, NpyHeader* out) {
    if (seen(key)) return invalid("the header has " + quoted(key) + " twice");
    seen_.push_back(key);
    if (key == "descr") {
      skip_spaces();
      if (rest_.starts_with("[")) {
        return {BP_UNSUPPORTED, "structured dtypes are not supported"};
      }
      BP_TRY_ASSIGN(const std::string_view descr, string());
      BP_TRY_ASSIGN(out->dtype, dtype_of(descr));
      return {};
    }
    if (key == "fortran_order") {
      out->fortran_order = accept_word("True");
      if (out->fortran_order || accept_word("False")) return {};
      return invalid("'fortran_order': expected True or False");
    }
    if (key == "shape") return shape(&out->sizes);
    return invalid("the header has the unknown key " + quoted(key));
  }

  Status shape(Dims* out) {
    BP_TRY(expect('('));
    while (!accept(')')) {
      skip_spaces();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 0) return invalid("'shape': expected sizes from 0");
      if (out->size() == BP_MAX_RANK) {
        return {BP_UNSUPPORTED, "rank over " + std::to_string(BP_MAX_RANK)};
      }
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      out->push_back(size);
      if (accept(',')) continue;
      BP_TRY(expect(')'));
      break;
    }
    return {};
  }

  std::string_view rest_;
  std::vector<std::string_view> seen_;
};

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const size_t prefix_bytes = kMagic.size() + 2;
  if (!text.starts_with(kMagic) || text.size() < prefix_bytes) {
    return invalid("it does not begin with \\x93NUMPY and a version");
  }
  const int major = static_cast<unsigned char>(text[kMagic.size()]);
  if (major < 1 || major > 3) {
    return Status(BP_UNSUPPORTED, ".npy version " + std::to_string(major) + ": expected 1, 2 or 3");
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (text.size() - prefix_bytes < length_bytes) return invalid("truncated before its header");
  size_t header_bytes = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    header_bytes |= std::to_integer<size_t>(file[prefix_bytes + i]) << (8 * i);
  }
  NpyHeader header;
  header.data_offset_bytes = prefix_bytes + length_bytes + header_bytes;
  if (header_bytes > kMaxHeaderBytes) {
    return invalid("its header claims " + std::to_string(header_bytes) +
                   " bytes, expected at most " + std::to_string(kMaxHeaderBytes));
  }
  if (header.data_offset_bytes > text.size()) return invalid("truncated inside its header");
  const std::string_view dictionary = text.substr(prefix_bytes + length_bytes, header_bytes);
  if (!is_utf8(dictionary)) return invalid("its header is not text");
  BP_TRY(Parser(dictionary).parse(&header));
  return header;
}

Result<std::string> make_npy_header(uint32_t dtype, const Dims& sizes) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const TypeRow& candidate) { return candidate.dtype == dtype; });
  if (row == kTypes.end()) {
    return Status(BP_UNSUPPORTED, "NumPy has no dtype " + std::string(dtype_name(dtype)));
  }
  std::string dictionary = "{'descr': '";
  dictionary += dtype_bits(dtype) > 8 ? '<' : '|';
  dictionary += std::string(row->code) + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < sizes.size(); ++i) {
    dictionary += (i > 0 ? " " : "") + std::to_string(sizes[i]) + ",";
  }
  // (2, 3) has no last comma, (2,) has.
  if (sizes.size() > 1) dictionary.pop_back();
  dictionary += "), }";
  const size_t prefix_bytes = kMagic.size() + 4;
  const size_t unpadded = prefix_bytes + dictionary.size() + 1;
  dictionary.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xff),
             static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

}  // namespace bp
