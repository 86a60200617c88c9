// SPDX-License-Identifier: Apache-2.0
//
// Writes allocations.txt: each request that the allocator of cpu:0 gets while an encoder of BERT's
// sizes runs operator by operator over texts of changing length, after its weights are there, and
// then while a session runs digits at changing batches. Run by hand when what a run asks for has
// changed:
//   build/release/bin/perf/record_allocations docs/examples/digits/digits.onnx >FILE
// The linker puts the two functions below before the allocator's own (--wrap).
#include <cstdio>
#include <mutex>
#include <random>
#include <unordered_map>

#include "core/memory/allocator.hpp"
#include "tests/perf/public_fixture.hpp"

namespace {

// Numbers as memory_cost.cpp reads them.
class Trace {
 public:
  void begin() { recording_ = true; }
  void note_request(const bp::Block* block, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!recording_) return;
    requests_[block] = count_++;
    write(static_cast<int64_t>(bytes));
  }
  void note_end(const bp::Block* block) {
    const std::lock_guard lock(mutex_);
    const auto found = requests_.find(block);
    if (found == requests_.end()) return;  // older than the recording
    write(-found->second);
    requests_.erase(found);
  }

 private:
  void write(int64_t number) {
    const std::string text = std::to_string(number);
    column_ += text.size() + 1;
    const bool wrap = column_ > 98;
    if (wrap) column_ = text.size() + 1;
    std::printf("%s%s", wrap ? "\n" : " ", text.c_str());
  }

  std::mutex mutex_;
  bool recording_ = false;
  std::unordered_map<const bp::Block*, int64_t> requests_;
  int64_t count_ = 0;
  size_t column_ = 0;
};
Trace& trace() {
  static Trace only;
  return only;
}

}  // namespace

namespace bp {

// A member function takes its object as the first argument.
Result<Block*> real_allocate(
    Allocator* allocator, uint64_t bytes, MemoryTag tag,
    Allocator::Pool& pool) asm("__real__ZN2bp9Allocator8allocateEmNS_9MemoryTagERNS0_4PoolE");
void real_free(Allocator* allocator, Block* block) asm("__real__ZN2bp9Allocator4freeEPNS_5BlockE");

Result<Block*> recorded_allocate(
    Allocator* allocator, uint64_t bytes, MemoryTag tag,
    Allocator::Pool& pool) asm("__wrap__ZN2bp9Allocator8allocateEmNS_9MemoryTagERNS0_4PoolE");
void recorded_free(Allocator* allocator,
                   Block* block) asm("__wrap__ZN2bp9Allocator4freeEPNS_5BlockE");

Result<Block*> recorded_allocate(Allocator* allocator, uint64_t bytes, MemoryTag tag,
                                 Allocator::Pool& pool) {
  Result<Block*> block = real_allocate(allocator, bytes, tag, pool);
  if (block.ok()) trace().note_request(*block, bytes);
  return block;
}
void recorded_free(Allocator* allocator, Block* block) {
  trace().note_end(block);
  real_free(allocator, block);
}

}  // namespace bp

namespace perf {
namespace {

constexpr int64_t kWidth = 768;
constexpr int64_t kHeads = 12;
constexpr int64_t kBatch = 4;
constexpr int kLayers = 12;
constexpr int kTexts = 8;

struct Layer {
  bp::Tensor query, key, value, out, wide, narrow, scale, shift;

  explicit Layer(const Fixture& f)
      : query(f.ones({kWidth, kWidth})),
        key(f.ones({kWidth, kWidth})),
        value(f.ones({kWidth, kWidth})),
        out(f.ones({kWidth, kWidth})),
        wide(f.ones({kWidth, 4 * kWidth})),
        narrow(f.ones({4 * kWidth, kWidth})),
        scale(f.ones({kWidth})),
        shift(f.ones({kWidth})) {}
};

bp::Tensor heads(const bp::Tensor& x, const bp::Tensor& weight, int64_t length,
                 std::vector<int64_t> order) {
  const bp::Tensor projected = bp::matmul(x, weight);
  const bp::Tensor split = bp::reshape(projected, {kBatch, length, kHeads, kWidth / kHeads});
  return bp::transpose(split, {.perm = std::move(order)});
}

bp::Tensor encode(const Layer& layer, const bp::Tensor& x, int64_t length, const bp::Tensor& mask) {
  const bp::Tensor query = heads(x, layer.query, length, {0, 2, 1, 3});
  const bp::Tensor key = heads(x, layer.key, length, {0, 2, 3, 1});
  const bp::Tensor value = heads(x, layer.value, length, {0, 2, 1, 3});
  const bp::Tensor weights = bp::softmax(bp::add(bp::matmul(query, key), mask), {.axis = -1});
  const bp::Tensor mixed = bp::transpose(bp::matmul(weights, value), {.perm = {0, 2, 1, 3}});
  const bp::Tensor joined = bp::reshape(mixed, {kBatch, length, kWidth});
  const bp::Tensor attended = bp::add(x, bp::matmul(joined, layer.out));
  const bp::Tensor hidden = bp::relu(bp::matmul(attended, layer.wide));
  const bp::Tensor sum = bp::add(attended, bp::matmul(hidden, layer.narrow));
  return bp::add(bp::mul(sum, layer.scale), layer.shift);
}

void run_encoder(const Fixture& f) {
  std::vector<Layer> layers;
  for (int i = 0; i < kLayers; ++i) layers.emplace_back(f);
  trace().begin();  // the weights stay, and would hide what becomes of the rest
  std::mt19937 random(7);
  for (int text = 0; text < kTexts; ++text) {
    const auto length = static_cast<int64_t>(16 + random() % 240);
    const bp::Tensor mask = f.ones({1, 1, 1, length});
    bp::Tensor x = f.ones({kBatch, length, kWidth});
    for (const Layer& layer : layers) x = encode(layer, x, length, mask);
  }
}

void run_digits(const Fixture& f, const char* path) {
  const bp::Session session = bp::Session::load(f.runtime, path, {.device = "cpu:0"});
  for (const int64_t batch : {1, 32, 7, 64, 3, 16}) {
    session.run({{"image", f.ones({batch, 1, 8, 8})}});
  }
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: record_allocations DIGITS_MODEL >FILE\n");
    return 2;
  }
  try {
    const perf::Fixture f;
    std::printf("# By record_allocations.cpp: n > 0 asks for n bytes, n <= 0 ends request -n.\n");
    perf::run_encoder(f);
    perf::run_digits(f, argv[1]);
    std::printf("\n");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
}
