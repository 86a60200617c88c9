// SPDX-License-Identifier: Apache-2.0
//
// What the machine and oneDNN do without us, timed in turns with our operators (turns.hpp):
//   raw_cost copy BYTES [stream]        a copy of so many bytes by all threads; stream: with stores
//                                       that go past the caches
//   raw_cost matmul M K N [packed]      packed: the right side is a constant, packed ahead
//   raw_cost conv IC IH OC K STRIDE PAD [GROUPS]    one image, weights packed ahead, images
//   row-major as
//                                       for our operator: by row-major code, or reordered into
//                                       the layout that oneDNN likes and back, whichever is quicker
// OMP_NUM_THREADS says how many threads.
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include "tests/perf/turns.hpp"

namespace perf {
namespace {

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;
using Args = std::unordered_map<int, dnnl::memory>;
using Desc = dnnl::memory::desc;

Memory allocate(size_t bytes) {
  constexpr size_t kPage = size_t{2} << 20;
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes / kPage + 1) * kPage)),
                &std::free);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory.get(), 1, bytes);
  return memory;
}

void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes) {
#ifdef __x86_64__
  for (size_t i = 0; i + sizeof(__m128i) <= bytes; i += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Threads that each copy a part when they are told to, so that none is started in a measured run.
class Copiers {
 public:
  Copiers(size_t bytes, unsigned count, bool streams)
      : from_(allocate(bytes)),
        to_(allocate(bytes)),
        part_(bytes / count / 64 * 64),
        streams_(streams) {
    for (unsigned i = 1; i < count; ++i) {
      threads_.emplace_back([this, i] { work(i); });
    }
  }

  ~Copiers() {
    ended_.store(true, std::memory_order_release);
    tell();
  }
  Copiers(const Copiers&) = delete;
  Copiers& operator=(const Copiers&) = delete;

  void copy_all() {
    done_.store(0, std::memory_order_relaxed);
    tell();
    copy_part(0);
    while (done_.load(std::memory_order_acquire) < threads_.size()) {
    }
  }

 private:
  void tell() {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  void work(unsigned index) {
    for (unsigned seen = 0;; ++seen) {
      // At hand between the copies of one turn, and asleep while others have theirs.
      const auto begin = std::chrono::steady_clock::now();
      while (round_.load(std::memory_order_acquire) == seen) {
        if (nanoseconds_since(begin) > 2'000'000) round_.wait(seen, std::memory_order_acquire);
      }
      if (ended_.load(std::memory_order_acquire)) return;
      copy_part(index);
      done_.fetch_add(1, std::memory_order_release);
    }
  }
  void copy_part(unsigned index) {
    std::byte* const to = to_.get() + index * part_;
    const std::byte* const from = from_.get() + index * part_;
    if (streams_) {
      copy_past_caches(to, from, part_);
    } else {
      std::memcpy(to, from, part_);
    }
  }

  Memory from_;
  Memory to_;
  size_t part_;
  bool streams_;
  std::atomic<unsigned> round_{0};
  std::atomic<size_t> done_{0};
  std::atomic<bool> ended_{false};
  std::vector<std::jthread> threads_;
};

/// Primitives in a row.
struct Program {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<std::pair<dnnl::primitive, Args>> steps;

  dnnl::memory filled(const Desc& desc) {
    dnnl::memory memory(desc, engine);
    auto* const values = static_cast<float*>(memory.get_data_handle());
    for (size_t i = 0; i < desc.get_size() / sizeof(float); ++i) {
      values[i] = static_cast<float>(i % 13) - 6.0F;
    }
    return memory;
  }
  void add_reorder(const dnnl::memory& from, const dnnl::memory& to) {
    steps.push_back({dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}});
  }
  void run() {
    for (auto& [primitive, args] : steps) primitive.execute(stream, args);
    stream.wait();
  }
  double quickest_ns() {
    constexpr int kRuns = 10;
    double best = 1e18;
    for (int i = 0; i < kRuns; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      run();
      best = std::min(best, static_cast<double>(nanoseconds_since(begin)));
    }
    return best;
  }
};

Desc plain(const std::vector<int64_t>& sizes) {
  const auto tag = sizes.size() == 2   ? dnnl::memory::format_tag::ab
                   : sizes.size() == 4 ? dnnl::memory::format_tag::abcd
                                       : dnnl::memory::format_tag::abcde;
  return {sizes, dnnl::memory::data_type::f32, tag};
}
Desc any(const std::vector<int64_t>& sizes) {
  return {sizes, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

Program make_matmul(std::span<const int64_t> n, bool packed) {
  Program program;
  const Desc right = packed ? any({n[1], n[2]}) : plain({n[1], n[2]});
  const dnnl::matmul::primitive_desc desc(program.engine, plain({n[0], n[1]}), right,
                                          plain({n[0], n[2]}));
  program.steps.push_back({dnnl::matmul(desc),
                           {{DNNL_ARG_SRC, program.filled(desc.src_desc())},
                            {DNNL_ARG_WEIGHTS, program.filled(desc.weights_desc())},
                            {DNNL_ARG_DST, program.filled(desc.dst_desc())}}});
  return program;
}

struct Conv {
  int64_t in_channels, in_size, out_channels, kernel, stride, pad, groups;
};

Program make_conv(const Conv& c, bool reordered) {
  Program program;
  const int64_t out_size = (c.in_size + 2 * c.pad - c.kernel) / c.stride + 1;
  const std::vector<int64_t> x{1, c.in_channels, c.in_size, c.in_size};
  const std::vector<int64_t> y{1, c.out_channels, out_size, out_size};
  std::vector<int64_t> w{c.out_channels / c.groups, c.in_channels / c.groups, c.kernel, c.kernel};
  if (c.groups > 1) {
    w.insert(w.begin(), c.groups);
  }
  const dnnl::memory::dims stride{c.stride, c.stride};
  const dnnl::memory::dims pad{c.pad, c.pad};
  const dnnl::convolution_forward::primitive_desc desc(
      program.engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      reordered ? any(x) : plain(x), any(w), reordered ? any(y) : plain(y), stride, pad, pad);
  const dnnl::memory given = program.filled(plain(x));
  const dnnl::memory answer = program.filled(plain(y));
  const bool is_x_plain = desc.src_desc() == plain(x);
  const bool is_y_plain = desc.dst_desc() == plain(y);
  const dnnl::memory src = is_x_plain ? given : program.filled(desc.src_desc());
  const dnnl::memory dst = is_y_plain ? answer : program.filled(desc.dst_desc());
  if (!is_x_plain) program.add_reorder(given, src);
  program.steps.push_back({dnnl::convolution_forward(desc),
                           {{DNNL_ARG_SRC, src},
                            {DNNL_ARG_WEIGHTS, program.filled(desc.weights_desc())},
                            {DNNL_ARG_DST, dst}}});
  if (!is_y_plain) program.add_reorder(dst, answer);
  return program;
}

unsigned thread_count() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  return text == nullptr ? 1 : static_cast<unsigned>(std::max(1, std::atoi(text)));
}

int serve(const std::string& kind, std::span<const int64_t> n, const std::string& word) {
  if (kind == "copy" && n.size() == 1) {
    Copiers copiers(static_cast<size_t>(n[0]), thread_count(), word == "stream");
    serve_turns("", [&] { copiers.copy_all(); });
    return 0;
  }
  if (kind == "matmul" && n.size() == 3) {
    Program program = make_matmul(n, word == "packed");
    serve_turns("", [&] { program.run(); });
    return 0;
  }
  if (kind == "conv" && n.size() == 7) {
    const Conv conv{n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
    Program direct = make_conv(conv, false);
    Program reordered = make_conv(conv, true);
    Program& best = direct.quickest_ns() < reordered.quickest_ns() ? direct : reordered;
    serve_turns("", [&] { best.run(); });
    return 0;
  }
  std::fprintf(stderr, "usage: see the head of raw_cost.cpp\n");
  return 2;
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  std::vector<int64_t> numbers;
  std::string word;
  for (int i = 2; i < argc; ++i) {
    char* end = nullptr;
    const int64_t number = std::strtoll(argv[i], &end, 10);
    if (*end == '\0') {
      numbers.push_back(number);
    } else {
      word = argv[i];
    }
  }
  try {
    return perf::serve(argc > 1 ? argv[1] : "", numbers, word);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
}
