// SPDX-License-Identifier: Apache-2.0
//
// The library's edge: the table, behind which exceptions become statuses and words.
#include <cstdio>
#include <new>

#include "ccl/engine/ucx/end.hpp"

/// What the table's callers hold.
struct bp_engine {
  explicit bp_engine(const bp_engine_args& args) : end(args) {}
  bp_ucx::End end;
};

namespace bp_ucx {
namespace {

void write_words(bp_engine_words* out_words, const char* words) {
  std::snprintf(out_words->text, sizeof(out_words->text), "%s", words);
}

template <class Body>
int32_t guarded(bp_engine_words* out_words, Body body) noexcept {
  try {
    body();
    return BP_OK;
  } catch (const Refusal& refusal) {
    write_words(out_words, refusal.what());
    return refusal.status;
  } catch (const std::bad_alloc&) {
    write_words(out_words, "there is no memory");
    return BP_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    write_words(out_words, error.what());
    return BP_INTERNAL;
  } catch (...) {
    write_words(out_words, "an unknown exception");
    return BP_INTERNAL;
  }
}

/// Of functions that have no words.
template <class Body>
int32_t status_of(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return BP_OUT_OF_MEMORY;
  } catch (...) {
    return BP_INTERNAL;
  }
}

int32_t create(const bp_engine_args* args, bp_engine** out_engine, bp_engine_words* out_words) {
  *out_engine = nullptr;
  return guarded(out_words, [&] { *out_engine = new bp_engine(*args); });
}

void destroy(bp_engine* engine) { delete engine; }

void address(bp_engine* engine, const void** out_bytes, uint64_t* out_count) {
  *out_bytes = engine->end.address().data();
  *out_count = engine->end.address().size();
}

int32_t connect(bp_engine* engine, uint32_t peer, const void* bytes, uint64_t count,
                bp_engine_words* out_words) {
  return guarded(out_words, [&] {
    engine->end.connect(peer, std::string_view(static_cast<const char*>(bytes), count));
  });
}

int32_t send(bp_engine* engine, uint32_t peer, const void* header, uint64_t header_bytes,
             const void* data, uint64_t bytes, void* transfer) {
  return status_of([&] {
    const std::string_view text(static_cast<const char*>(header), header_bytes);
    return engine->end.send(peer, text, data, bytes, transfer);
  });
}

int32_t receive(bp_engine* engine, uint64_t token, void* into, void* transfer) {
  return status_of([&] { return engine->end.receive(token, into, transfer); });
}

void drop(bp_engine* engine, uint64_t token) { engine->end.drop(token); }

int32_t cancel(bp_engine* engine, void* transfer) {
  return status_of([&] { return engine->end.cancel(transfer); });
}

uint32_t state_of(bp_engine* engine, uint32_t peer) {
  uint32_t state = BP_ENGINE_PEER_UNKNOWN;
  status_of([&] {
    state = engine->end.state_of(peer);
    return BP_OK;
  });
  return state;
}

int32_t has_unsent(bp_engine* engine) { return engine->end.has_unsent() ? 1 : 0; }

int32_t progress(bp_engine* engine, const bp_engine_inbox* inbox) {
  // Without memory for a moment: what was not done is done next time.
  return status_of([&] { return engine->end.progress(*inbox) ? 1 : 0; }) == 0 ? 0 : 1;
}

void wait(bp_engine* engine, int64_t until_ns) {
  status_of([&] {
    engine->end.wait(until_ns);
    return BP_OK;
  });
}

void wake(bp_engine* engine) { engine->end.wake(); }

constexpr bp_engine_api kApi = {.name = "ucx",
                                .create = create,
                                .destroy = destroy,
                                .address = address,
                                .connect = connect,
                                .send = send,
                                .receive = receive,
                                .drop = drop,
                                .cancel = cancel,
                                .state_of = state_of,
                                .has_unsent = has_unsent,
                                .progress = progress,
                                .wait = wait,
                                .wake = wake};

}  // namespace
}  // namespace bp_ucx

extern "C" {

__attribute__((visibility("default"))) extern const uint32_t bp_engine_abi = BP_ENGINE_ABI;

__attribute__((visibility("default"))) int32_t bp_engine_open(const bp_engine_host* host,
                                                              bp_engine_words* out_words,
                                                              const bp_engine_api** out_api) {
  *out_api = nullptr;
  return bp_ucx::guarded(out_words, [&] {
    bp_ucx::open_ucp(*host);
    *out_api = &bp_ucx::kApi;
  });
}
}
