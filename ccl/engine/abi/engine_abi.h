/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of an engine library, which libbackplane opens at run time: messages between pairs, as
 * ccl/engine/engine.hpp describes them. It is private to one release: an engine library and
 * libbackplane are built together, and what has another BP_ENGINE_ABI is refused. So nothing here
 * is ever kept for the sake of an older one; whatever changes raises the number.
 *
 * A library exports two symbols: the number, which is read before any code of the library is
 * called, and the function that gives the table.
 *
 *   const uint32_t bp_engine_abi = BP_ENGINE_ABI;
 *   int32_t bp_engine_open(const bp_engine_host* host, bp_engine_words* out_words,
 *                          const bp_engine_api** out_api);
 *
 * No exception leaves a function of either side. Statuses are those of backplane/status.h. Texts
 * end with a zero.
 */
#ifndef BACKPLANE_CCL_ENGINE_ABI_ENGINE_ABI_H
#define BACKPLANE_CCL_ENGINE_ABI_ENGINE_ABI_H

#include <stdint.h>

#include "backplane/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_ENGINE_ABI 3u
/* A header that a message has at most. */
#define BP_ENGINE_HEADER_BYTES_MAX 192u
#define BP_ENGINE_WORDS_BYTES 512u

/* As PeerState. */
#define BP_ENGINE_PEER_UNKNOWN 0u
#define BP_ENGINE_PEER_RUNS 1u
#define BP_ENGINE_PEER_STOPPED 2u

/* One rank's end. */
typedef struct bp_engine bp_engine;

/* Why a call failed; the callee writes it with every status but BP_OK, cut off where it is longer.
 */
typedef struct bp_engine_words {
  char text[BP_ENGINE_WORDS_BYTES];
} bp_engine_words;

/* What libbackplane lends; for ever. Any thread. */
typedef struct bp_engine_host {
  void (*log)(uint32_t level, const char* text); /* level: BP_LOG_* of backplane/host.h */
} bp_engine_host;

/* Between processes of one host shared memory serves, and no socket listens. With a network
 * interface its network serves too, and a socket listens on that interface's address alone. */
typedef struct bp_engine_args {
  const char* interface_name; /* "eth0"; empty: none */
  uint32_t uses_shared_memory;
} bp_engine_args;

/* What the engine tells; called inside progress() alone, and must not call the engine. */
typedef struct bp_engine_inbox {
  void* context;
  /* As Inbox::message_arrived(); the header is there during the call. */
  void (*message_arrived)(void* context, uint32_t peer, const void* header, uint64_t header_bytes,
                          uint64_t bytes, uint64_t token);
  /* As Inbox::peer_lost(). */
  void (*peer_lost)(void* context, uint32_t peer, int32_t status, const char* words);
  /* A transfer that send() or receive() left pending is over. */
  void (*transfer_ended)(void* context, void* transfer, int32_t status);
} bp_engine_inbox;

/* Of one end: one thread at a time, but for wake(). */
typedef struct bp_engine_api {
  const char* name; /* "ucx" */
  /* Errors: INVALID_ARGUMENT for an interface that is not there; UNAVAILABLE for what the system
   * refuses. */
  int32_t (*create)(const bp_engine_args* args, bp_engine** out_engine, bp_engine_words* out_words);
  /* Ends all transfers, whose memory is the caller's on return. What was sent and is over reaches
   * peers that take it soon; it waits for others for two seconds at most. */
  void (*destroy)(bp_engine* engine);
  /* As long as the engine is there. */
  void (*address)(bp_engine* engine, const void** out_bytes, uint64_t* out_count);
  /* Errors: INVALID_ARGUMENT for what is no address of this engine; UNAVAILABLE for one of a
   * process that has ended. */
  int32_t (*connect)(bp_engine* engine, uint32_t peer, const void* address, uint64_t address_bytes,
                     bp_engine_words* out_words);
  /* BP_PENDING: `transfer` is told of later. Anything else: over. */
  int32_t (*send)(bp_engine* engine, uint32_t peer, const void* header, uint64_t header_bytes,
                  const void* data, uint64_t bytes, void* transfer);
  int32_t (*receive)(bp_engine* engine, uint64_t token, void* into, void* transfer);
  void (*drop)(bp_engine* engine, uint64_t token);
  /* On return the memory of `transfer` is the caller's and nothing is told of it any more. The
   * status: CANCELLED, unless it was over before. The peer may be lost by it. */
  int32_t (*cancel)(bp_engine* engine, void* transfer);
  /* BP_ENGINE_PEER_*: as Engine::state_of(). */
  uint32_t (*state_of)(bp_engine* engine, uint32_t peer);
  /* 1: as Engine::has_unsent(). */
  int32_t (*has_unsent)(bp_engine* engine);
  /* 1: something happened. */
  int32_t (*progress)(bp_engine* engine, const bp_engine_inbox* inbox);
  /* until_ns: of CLOCK_MONOTONIC. */
  void (*wait)(bp_engine* engine, int64_t until_ns);
  void (*wake)(bp_engine* engine);
} bp_engine_api;

#ifdef __cplusplus
}
#endif

#endif
