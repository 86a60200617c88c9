// SPDX-License-Identifier: Apache-2.0
//
// See oracle.hpp. Works on a stretch of elements at a time: all contributions of a large case would
// take gigabytes.
#include "tests/ccl/oracle.hpp"

#include <array>
#include <complex>

#include "tests/ccl/covering_array.hpp"

namespace bp::ccl::cases {
namespace {

constexpr uint64_t kStretch = 4096;

uint64_t noise(const Case& c, uint32_t rank, uint64_t element) {
  const uint64_t where = (uint64_t{c.number} << 40) ^ (uint64_t{rank} << 34) ^ element;
  return Random::mix(where * 0x9e3779b97f4a7c15ull + 1);
}

/// A part of a complex number, or all of a real one.
uint64_t float_part(const Case& c, uint32_t rank, uint64_t noise) {
  const Format& format = *c.format;
  const bool is_negative = (noise & 1) != 0;
  const bool is_product = c.reduces() && c.reduction == Reduction::kProd;
  if (c.fill == Fill::kExact) {
    // Of products two factors have an exponent; sums of eight must fit into 3 digits.
    const bool is_scaled = is_product && rank < 2;
    return float_bits(format, is_negative, is_scaled ? static_cast<int>((noise >> 1) % 3) - 1 : 0,
                      0);
  }
  const uint64_t mantissa = (noise >> 12) & ((uint64_t{1} << format.mantissa_bits) - 1);
  if (is_product) {  // 0.75 to 1.5, so that no product leaves the normal numbers
    const bool is_upper = (mantissa >> (format.mantissa_bits - 1)) != 0;
    return float_bits(format, is_negative, is_upper ? -1 : 0, mantissa);
  }
  const int exponent = format.bytes == 1 ? static_cast<int>((noise >> 1) % 5) - 3
                                         : static_cast<int>((noise >> 1) % 16) - 8;
  return float_bits(format, is_negative, exponent, mantissa);
}

void fill_element(const Case& c, uint32_t rank, uint64_t element, std::byte* out) {
  const Format& format = *c.format;
  const uint64_t random = noise(c, rank, element);
  switch (format.of) {
    case Class::kFloat:
      return write_bits(float_part(c, rank, random), format.bytes, out);
    case Class::kComplex:
      write_bits(float_part(c, rank, random), format.part_bytes(), out);
      return write_bits(c.fill == Fill::kExact && c.reduction == Reduction::kProd
                            ? 0  // else sums of products would need more digits
                            : float_part(c, rank, Random::mix(random)),
                        format.part_bytes(), out + format.part_bytes());
    case Class::kBool:
      return write_bits(random & 1, 1, out);
    case Class::kSigned:
    case Class::kUnsigned:
    case Class::kScale:
      return write_bits(random, format.bytes, out);
  }
}

/// Few bits: worth() of each.
const std::vector<double>& worths(const Format& format) {
  static const auto tables = [] {
    std::vector<std::vector<double>> all(formats().size());
    for (size_t i = 0; i < all.size(); ++i) {
      const Format& of = formats()[i];
      if (!of.is_floating() || of.part_bytes() > 2) continue;
      all[i].resize(size_t{1} << (8 * of.part_bytes()));
      for (size_t bits = 0; bits < all[i].size(); ++bits) {
        all[i][bits] = static_cast<double>(worth(of, bits));
      }
    }
    return all;
  }();
  return tables[static_cast<size_t>(&format - formats().data())];
}

long double part_at(const Format& format, const std::byte* at) {
  const uint64_t bits = read_bits(at, format.part_bytes());
  const std::vector<double>& table = worths(format);
  return table.empty() ? worth(format, bits) : table[bits];
}

std::string wrong(uint64_t element, const std::string& found, const std::string& expected) {
  return "element " + std::to_string(element) + ": expected " + expected + ", found " + found;
}

std::string bits_text(const std::byte* at, uint32_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "bits ";
  for (uint32_t i = bytes; i-- > 0;) {
    const auto byte = static_cast<unsigned>(at[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string number_text(long double number) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.20Lg", number);
  return text.data();
}

/// Of one element: a value of each rank.
using Contributions = std::vector<const std::byte*>;

uint64_t combined_integer(const Case& c, const Contributions& of) {
  const Format& format = *c.format;
  uint64_t result = widened(format, read_bits(of[0], format.bytes));
  for (size_t rank = 1; rank < of.size(); ++rank) {
    const uint64_t value = widened(format, read_bits(of[rank], format.bytes));
    const bool is_less = format.of == Class::kSigned
                             ? static_cast<int64_t>(value) < static_cast<int64_t>(result)
                             : value < result;
    switch (c.reduction) {
      case Reduction::kProd:
        result *= value;
        break;
      case Reduction::kMin:
        if (is_less) result = value;
        break;
      case Reduction::kMax:
        if (!is_less) result = value;
        break;
      case Reduction::kSum:
      case Reduction::kAvg:
        result += value;
        break;
    }
  }
  return result;
}

struct Reference {
  std::complex<long double> value;
  std::complex<long double> magnitudes;  // of each part
};

Reference combined_floats(const Case& c, const Contributions& of) {
  const Format& format = *c.format;
  const bool is_complex = format.of == Class::kComplex;
  Reference result;
  for (size_t rank = 0; rank < of.size(); ++rank) {
    const long double real = part_at(format, of[rank]);
    const long double imaginary =
        is_complex ? part_at(format, of[rank] + format.part_bytes()) : 0.0L;
    const std::complex<long double> value{real, imaginary};
    result.magnitudes += std::complex<long double>{std::abs(real), std::abs(imaginary)};
    if (rank == 0) {
      result.value = value;
      continue;
    }
    switch (c.reduction) {
      case Reduction::kProd:
        result.value = is_complex ? result.value * value : result.value.real() * real;
        break;
      case Reduction::kMin:
        result.value = std::min(result.value.real(), real);
        break;
      case Reduction::kMax:
        result.value = std::max(result.value.real(), real);
        break;
      case Reduction::kSum:
      case Reduction::kAvg:
        result.value += value;
        break;
    }
  }
  if (c.reduction == Reduction::kAvg) {
    result.value /= static_cast<long double>(of.size());
    result.magnitudes /= static_cast<long double>(of.size());
  } else if (c.reduction == Reduction::kProd) {
    const long double size = std::abs(result.value);
    result.magnitudes = {size, size};
  }
  return result;
}

bool is_exact(const Case& c) {
  if (c.reduction == Reduction::kMin || c.reduction == Reduction::kMax) return true;
  return c.fill == Fill::kExact && c.reduction != Reduction::kAvg;
}

std::string judge_part(const Case& c, uint64_t element, long double found, long double reference,
                       long double magnitudes) {
  const long double most = is_exact(c) ? 0.0L : bound_of(c, reference, magnitudes);
  if (std::abs(found - reference) <= most) return "";  // NaN is not
  return wrong(element, number_text(found),
               number_text(reference) + " give or take " + number_text(most));
}

std::string compare_part(uint64_t element, long double here, long double there, long double most) {
  if (std::abs(here - there) <= most) return "";
  return wrong(element, number_text(there),
               "as ours " + number_text(here) + " give or take " + number_text(most));
}

std::string judge_combined(const Case& c, uint64_t element, const Contributions& of,
                           const std::byte* found) {
  const Format& format = *c.format;
  if (!format.is_floating()) {
    std::array<std::byte, 8> expected;
    write_bits(combined_integer(c, of), format.bytes, expected.data());
    if (std::memcmp(found, expected.data(), format.bytes) == 0) return "";
    return wrong(element, bits_text(found, format.bytes), bits_text(expected.data(), format.bytes));
  }
  const Reference reference = combined_floats(c, of);
  std::string problem = judge_part(c, element, part_at(format, found), reference.value.real(),
                                   reference.magnitudes.real());
  if (format.of == Class::kComplex && problem.empty()) {
    problem = judge_part(c, element, part_at(format, found + format.part_bytes()),
                         reference.value.imag(), reference.magnitudes.imag());
  }
  return problem;
}

/// Elements of what a rank gets of a reduction, in the contributions.
Block summed_block(const Case& c, uint32_t rank) {
  if (c.kind != Kind::kReduceScatter) return {0, c.count};
  const std::vector<uint64_t> counts = c.send_counts(rank);
  return {Case::first_of(counts, rank), counts[rank]};
}

/// `visit` gets each element of what the rank gets, until it answers false.
template <class Visit>
void visit_sums(const Case& c, uint32_t rank, Visit visit) {
  const Block block = summed_block(c, rank);
  const uint32_t bytes = c.format->bytes;
  std::vector<Bytes> stretches(c.rank_count, Bytes(kStretch * bytes));
  Contributions of(c.rank_count);
  for (uint64_t first = 0; first < block.count; first += kStretch) {
    const uint64_t count = std::min(kStretch, block.count - first);
    for (uint32_t from = 0; from < c.rank_count; ++from) {
      fill_input(c, from, block.first + first, count, stretches[from].data());
    }
    for (uint64_t i = 0; i < count; ++i) {
      for (uint32_t from = 0; from < c.rank_count; ++from) {
        of[from] = stretches[from].data() + i * bytes;
      }
      if (!visit(first + i, of)) return;
    }
  }
}

std::string judge_sums(const Case& c, uint32_t rank, const std::byte* found) {
  std::string problem;
  visit_sums(c, rank, [&](uint64_t i, const Contributions& of) {
    problem = judge_combined(c, i, of, found + i * c.format->bytes);
    return problem.empty();
  });
  return problem;
}

std::string compare_floats(const Case& c, uint32_t rank, const std::byte* ours,
                           const std::byte* theirs) {
  std::string problem;
  const auto most = [&](long double reference, long double magnitudes) {
    return is_exact(c) ? 0.0L : 2 * bound_of(c, reference, magnitudes);
  };
  visit_sums(c, rank, [&](uint64_t i, const Contributions& of) {
    const Reference reference = combined_floats(c, of);
    const std::byte* const here = ours + i * c.format->bytes;
    const std::byte* const there = theirs + i * c.format->bytes;
    problem = compare_part(i, part_at(*c.format, here), part_at(*c.format, there),
                           most(reference.value.real(), reference.magnitudes.real()));
    if (c.format->of != Class::kComplex || !problem.empty()) return problem.empty();
    const uint32_t half = c.format->part_bytes();
    problem = compare_part(i, part_at(*c.format, here + half), part_at(*c.format, there + half),
                           most(reference.value.imag(), reference.magnitudes.imag()));
    return problem.empty();
  });
  return problem;
}

/// What `from` put in as `block`, from element `at` of what is found on.
std::string judge_moved(const Case& c, uint32_t from, const Block& block, uint64_t at,
                        const std::byte* found) {
  const uint32_t bytes = c.format->bytes;
  Bytes stretch(kStretch * bytes);
  for (uint64_t done = 0; done < block.count; done += kStretch) {
    const uint64_t count = std::min(kStretch, block.count - done);
    fill_input(c, from, block.first + done, count, stretch.data());
    const std::byte* const here = found + (at + done) * bytes;
    if (std::memcmp(here, stretch.data(), count * bytes) == 0) continue;
    for (uint64_t i = 0; i < count; ++i) {
      const std::byte* const expected = stretch.data() + i * bytes;
      if (std::memcmp(here + i * bytes, expected, bytes) == 0) continue;
      return wrong(at + done + i, bits_text(here + i * bytes, bytes),
                   bits_text(expected, bytes) + " of rank " + std::to_string(from));
    }
  }
  return "";
}

}  // namespace

void fill_input(const Case& c, uint32_t rank, uint64_t first, uint64_t count, std::byte* out) {
  for (uint64_t i = 0; i < count; ++i) {
    fill_element(c, rank, first + i, out + i * c.format->bytes);
  }
}

Bytes input_of(const Case& c, uint32_t rank) {
  const uint64_t count = c.sent_elements(rank);
  Bytes bytes(count * c.format->bytes);
  fill_input(c, rank, 0, count, bytes.data());
  return bytes;
}

long double bound_of(const Case& c, long double reference, long double magnitudes) {
  const long double unit = c.format->unit_roundoff();
  // A complex product is four real ones and two sums.
  const bool is_complex_product =
      c.format->of == Class::kComplex && c.reduction == Reduction::kProd;
  const long double terms = (is_complex_product ? 4.0L : 1.0L) * c.rank_count;
  return unit * std::abs(reference) + 4 * std::sqrt(terms) * unit * magnitudes +
         terms * c.format->least_error();
}

std::string judge(const Case& c, uint32_t rank, const std::byte* found) {
  if (c.reduces()) return judge_sums(c, rank, found);
  const auto sent_block = [&](uint32_t from) {
    const std::vector<uint64_t> counts = c.send_counts(from);
    return Block{Case::first_of(counts, rank), counts[rank]};
  };
  const Block whole{0, c.count};
  if (c.kind == Kind::kBroadcast) return judge_moved(c, c.root, whole, 0, found);
  if (c.kind == Kind::kScatter) return judge_moved(c, c.root, sent_block(c.root), 0, found);
  if (c.kind == Kind::kSend) return judge_moved(c, c.sender_to(rank), whole, 0, found);
  std::string problem;
  const std::vector<uint64_t> counts = c.recv_counts(rank);
  for (uint32_t from = 0; from < c.rank_count && problem.empty(); ++from) {
    const Block block =
        c.kind == Kind::kAllToAll ? sent_block(from) : Block{0, c.block_count(from, from)};
    problem = judge_moved(c, from, block, Case::first_of(counts, from), found);
  }
  return problem;
}

std::string compare(const Case& c, uint32_t rank, const std::byte* ours, const std::byte* theirs) {
  const uint64_t bytes = c.format->bytes;
  if (std::memcmp(ours, theirs, c.received_elements(rank) * bytes) == 0) return "";
  std::string problem = judge(c, rank, theirs);
  if (!problem.empty()) return problem;
  if (c.reduces() && c.format->is_floating()) return compare_floats(c, rank, ours, theirs);
  uint64_t element = 0;
  while (std::memcmp(ours + element * bytes, theirs + element * bytes, bytes) == 0) ++element;
  return wrong(element, bits_text(theirs + element * bytes, c.format->bytes),
               "as ours " + bits_text(ours + element * bytes, c.format->bytes));
}

bool is_kept(const Case& c) {
  if (c.format == nullptr || is_refused(limit_of(c))) return false;
  const bool is_small_float = c.format->of == Class::kFloat && c.format->bytes < 4;
  return !is_small_float && c.format->of != Class::kScale;
}

uint32_t keeper_of(const Case& c, uint32_t rank) {
  const bool is_same =
      c.kind == Kind::kAllReduce || c.kind == Kind::kAllGather || c.kind == Kind::kBroadcast;
  return is_same ? 0 : rank;
}

uint64_t digest(const Bytes& bytes) {
  uint64_t hash = 0xcbf29ce484222325ull ^ bytes.size();
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    hash = Random::mix(hash ^ read_bits(bytes.data() + i, 8)) + i;
  }
  for (; i < bytes.size(); ++i) hash = Random::mix(hash ^ static_cast<uint64_t>(bytes[i]));
  return hash;
}

}  // namespace bp::ccl::cases
