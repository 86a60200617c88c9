// SPDX-License-Identifier: Apache-2.0
//
// The library of an engine that lies: how, is the name of the interface that it is given. Its
// messages go nowhere.
#include <cstring>
#include <stdexcept>
#include <string>

#include "ccl/engine/abi/engine_abi.h"

struct bp_engine {
  std::string lie;
  void* pending = nullptr;  // the transfer that it was given last
};

namespace {

bool lies(const bp_engine* engine, const char* how) { return engine->lie == how; }

int32_t create(const bp_engine_args* args, bp_engine** out_engine, bp_engine_words* out_words) {
  const std::string lie = args->interface_name;
  if (lie == "endless words") std::memset(out_words->text, 'x', sizeof(out_words->text));
  if (lie == "endless words") return BP_UNAVAILABLE;
  if (lie == "unknown status") return 4711;
  if (lie == "no end") return BP_OK;
  if (lie == "throws at once") throw std::runtime_error("at once");
  *out_engine = new bp_engine{lie};
  return BP_OK;
}

void destroy(bp_engine* engine) {
  const bool throws = lies(engine, "throws");
  delete engine;
  if (throws) throw std::runtime_error("destroy");
}

void address(bp_engine* engine, const void** out_bytes, uint64_t* out_count) {
  *out_bytes = lies(engine, "no address") ? nullptr : "address";
  *out_count = lies(engine, "endless address") ? UINT64_MAX : 7;
}

int32_t connect(bp_engine*, uint32_t, const void*, uint64_t, bp_engine_words*) { return BP_OK; }

int32_t begin(bp_engine* engine, void* transfer) {
  if (lies(engine, "unknown answers")) return 4711;
  if (lies(engine, "throws")) throw std::runtime_error("send");
  engine->pending = transfer;
  return BP_PENDING;
}

int32_t send(bp_engine* engine, uint32_t, const void*, uint64_t, const void*, uint64_t,
             void* transfer) {
  return begin(engine, transfer);
}

int32_t receive(bp_engine* engine, uint64_t, void*, void* transfer) {
  return begin(engine, transfer);
}

void drop(bp_engine*, uint64_t) {}

int32_t cancel(bp_engine* engine, void*) {
  if (lies(engine, "throws in cancel")) throw std::runtime_error("cancel");
  return BP_PENDING;
}

uint32_t state_of(bp_engine* engine, uint32_t) {
  if (lies(engine, "throws")) throw std::runtime_error("state_of");
  return lies(engine, "unknown answers") ? 4711 : BP_ENGINE_PEER_STOPPED;
}

int32_t has_unsent(bp_engine*) { return 0; }

int32_t progress(bp_engine* engine, const bp_engine_inbox* inbox) {
  if (lies(engine, "throws")) throw std::runtime_error("progress");
  if (lies(engine, "ends what never was")) {
    for (const uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{64}, UINT64_MAX}) {
      inbox->transfer_ended(inbox->context, reinterpret_cast<void*>(number), BP_OK);
    }
  }
  if (lies(engine, "ends twice")) {
    inbox->transfer_ended(inbox->context, engine->pending, BP_OK);
    inbox->transfer_ended(inbox->context, engine->pending, BP_INTERNAL);
  }
  if (lies(engine, "ends as pending")) {
    inbox->transfer_ended(inbox->context, engine->pending, BP_PENDING);
  }
  if (lies(engine, "bad news")) {
    inbox->message_arrived(inbox->context, UINT32_MAX, nullptr, 8, 1, 1);
    inbox->message_arrived(inbox->context, 0, "x", UINT64_MAX, UINT64_MAX, 2);
    inbox->peer_lost(inbox->context, UINT32_MAX, BP_OK, nullptr);
    inbox->peer_lost(inbox->context, 0, 4711, "gone\n\x1b[2J");
  }
  return 1;
}

void wait(bp_engine*, int64_t) {}

void wake(bp_engine* engine) {
  if (lies(engine, "throws")) throw std::runtime_error("wake");
}

constexpr bp_engine_api kApi = {.name = "liar",
                                .create = create,
                                .destroy = destroy,
                                .address = address,
                                .connect = connect,
                                .send = send,
                                .receive = receive,
#ifdef BP_TEST_NULL_FUNCTION
                                .drop = nullptr,
#else
                                .drop = drop,
#endif
                                .cancel = cancel,
                                .state_of = state_of,
                                .has_unsent = has_unsent,
                                .progress = progress,
                                .wait = wait,
                                .wake = wake};

}  // namespace

extern "C" {
__attribute__((visibility("default"))) extern const uint32_t bp_engine_abi = BP_ENGINE_ABI;

__attribute__((visibility("default"))) int32_t bp_engine_open(const bp_engine_host*,
                                                              bp_engine_words*,
                                                              const bp_engine_api** out_api) {
#ifdef BP_TEST_NULL_FUNCTION
  static_cast<void>(drop);
#endif
  *out_api = &kApi;
  return BP_OK;
}
}
