// SPDX-License-Identifier: Apache-2.0
//
// Level 1: work on one stream runs in order, whatever kinds of work meet. Each pair of kinds is a
// case; the stream is held until both are enqueued, so that an overtaking would show.
#include <cstring>
#include <deque>
#include <memory>

#include "sdk/conform/adder.hpp"

namespace bp::conform {
namespace {

constexpr size_t kCount = 1024;
constexpr size_t kBytes = kCount * sizeof(float);

enum class Write { kUpload, kCopy, kFill, kLaunch };
enum class Read { kDownload, kCopy, kLaunch };

struct WriteKind {
  const char* name;
  Write kind;
  uint64_t bands;
  uint32_t needs;
};
constexpr WriteKind kWrites[] = {{"upload", Write::kUpload, 0, 0},
                                 {"copy", Write::kCopy, 0, 0},
                                 {"fill", Write::kFill, BP_FEATURE_FILL_BIT, 0},
                                 {"launch", Write::kLaunch, 0, kNeedAdd}};

struct ReadKind {
  const char* name;
  Read kind;
  uint32_t needs;
};
constexpr ReadKind kReads[] = {{"download", Read::kDownload, 0},
                               {"copy", Read::kCopy, 0},
                               {"launch", Read::kLaunch, kNeedAdd}};

Bytes content(float value) { return to_bytes(Floats(kCount, value)); }

/// A stream, the memory under test, and all that enqueued work still needs.
class Rig {
 public:
  Rig(Context& context, uint32_t needs)
      : context_(context),
        zero_(context, content(0)),
        memory_(context, content(-1)),
        out_(context, content(-2)),
        stream_(context) {
    if ((needs & kNeedAdd) != 0) adder_ = std::make_unique<Adder>(context, kCount);
  }

  const Stream& stream() const { return stream_; }
  Memory& memory() { return memory_; }

  /// What a write takes its value from, made ready while the stream may be used.
  void prepare(float value) {
    sources_.push_back(content(value));
    prepared_.emplace_back(context_, sources_.back());
  }

  /// Enqueues: all elements become `value`, that of the source with this number.
  void write(Write kind, size_t source, float value) {
    switch (kind) {
      case Write::kUpload:
        stream_.upload(memory_, sources_[source]);
        break;
      case Write::kCopy:
        stream_.copy(memory_, prepared_[source]);
        break;
      case Write::kFill: {
        uint32_t pattern = 0;
        std::memcpy(&pattern, &value, sizeof(pattern));
        context_.expect_ok("mem_fill", context_.fill(stream_.get(), memory_.at(), kBytes, pattern,
                                                     sizeof(pattern)));
        break;
      }
      case Write::kLaunch:
        context_.expect_ok("launch",
                           adder_->launch(stream_.get(), prepared_[source], zero_, memory_));
        break;
    }
  }

  /// Enqueues a read of the memory; the result is there after the stream is done.
  void read(Read kind) {
    if (kind == Read::kDownload) stream_.download(&downloaded_, memory_);
    if (kind == Read::kCopy) stream_.copy(out_, memory_);
    if (kind == Read::kLaunch) {
      context_.expect_ok("launch", adder_->launch(stream_.get(), memory_, zero_, out_));
    }
  }
  Bytes result(Read kind) { return kind == Read::kDownload ? downloaded_ : out_.read(); }

 private:
  Context& context_;
  Memory zero_;
  Memory memory_;
  Memory out_;
  std::deque<Bytes> sources_;
  std::deque<Memory> prepared_;
  Bytes downloaded_ = Bytes(kBytes);
  std::unique_ptr<Adder> adder_;
  Stream stream_;
};

void write_then_write(Context& context, const WriteKind& first, const WriteKind& second) {
  Rig rig(context, first.needs | second.needs);
  rig.prepare(3);
  rig.prepare(5);
  Gate gate(context, rig.stream());
  rig.write(first.kind, 0, 3);
  rig.write(second.kind, 1, 5);
  gate.open();
  rig.stream().finish();
  rig.memory().expect("the memory after both", content(5));
}

void write_then_read(Context& context, const WriteKind& write, const ReadKind& read) {
  Rig rig(context, write.needs | read.needs);
  rig.prepare(7);
  Gate gate(context, rig.stream());
  rig.write(write.kind, 0, 7);
  rig.read(read.kind);
  gate.open();
  rig.stream().finish();
  context.expect_bytes("what was read", rig.result(read.kind), content(7));
}

void read_then_write(Context& context, const ReadKind& read, const WriteKind& write) {
  Rig rig(context, write.needs | read.needs);
  rig.prepare(9);
  Gate gate(context, rig.stream());
  rig.read(read.kind);
  rig.write(write.kind, 0, 9);
  gate.open();
  rig.stream().finish();
  context.expect_bytes("what was read", rig.result(read.kind), content(-1));
  rig.memory().expect("the memory after the write", content(9));
}

/// What a host call sees of a download in front of it.
struct Seen {
  const Bytes* source;
  Bytes copy;
};

void look(void* user, bp_status) {
  auto* seen = static_cast<Seen*>(user);
  seen->copy = *seen->source;
}

void write_then_host_call(Context& context, const WriteKind& write) {
  Rig rig(context, write.needs);
  rig.prepare(11);
  Bytes downloaded(kBytes);
  Seen seen{&downloaded, {}};
  Gate gate(context, rig.stream());
  rig.write(write.kind, 0, 11);
  rig.stream().download(&downloaded, rig.memory());
  rig.stream().call(look, &seen);
  gate.open();
  rig.stream().finish();
  context.expect_bytes("what the host call saw", seen.copy, content(11));
}

void long_mixed_sequence(Context& context, size_t rounds) {
  Rig rig(context, kNeedAdd);
  const Memory sum(context, content(0));
  const Memory one(context, content(1));
  const Memory other(context, content(0));
  Adder adder(context, kCount);
  for (size_t i = 0; i < rounds; ++i) {
    // sum -> other -> sum, one more each time.
    context.expect_ok("launch", adder.launch(rig.stream().get(), sum, one, other, i + 1));
    rig.stream().copy(sum, other);
  }
  rig.stream().finish();
  sum.expect("the sum", content(static_cast<float>(rounds)));
}

}  // namespace

void add_order_cases(CaseList* list) {
  static constexpr std::string_view kProves = "Work on one stream runs in order.";
  const auto add = [list](const std::string& name, uint64_t bands, uint32_t needs,
                          std::function<void(Context&)> run) {
    list->add({.id = "L1.order." + name,
               .proves = kProves,
               .bands = BP_FEATURE_ASYNC_BIT | bands,
               .needs = needs,
               .run = std::move(run)});
  };
  for (const WriteKind& write : kWrites) {
    for (const WriteKind& second : kWrites) {
      add(words(write.name, "_then_", second.name), write.bands | second.bands,
          write.needs | second.needs,
          [=](Context& context) { write_then_write(context, write, second); });
    }
    for (const ReadKind& read : kReads) {
      add(words(write.name, "_then_", read.name, "_of_it"), write.bands, write.needs | read.needs,
          [=](Context& context) { write_then_read(context, write, read); });
      add(words(read.name, "_then_", write.name, "_over_it"), write.bands, write.needs | read.needs,
          [=](Context& context) { read_then_write(context, read, write); });
    }
    add(words(write.name, "_then_host_call"), write.bands, write.needs,
        [=](Context& context) { write_then_host_call(context, write); });
  }
  for (const size_t rounds : {10u, 200u}) {
    add(words("launches_and_copies.", rounds), 0, kNeedAdd,
        [=](Context& context) { long_mixed_sequence(context, rounds); });
  }
}

}  // namespace bp::conform
