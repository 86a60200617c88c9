/* SPDX-License-Identifier: Apache-2.0
 *
 * The one exported symbol, the plugin description it fills, and the root table.
 */
#ifndef BACKPLANE_ROOT_H
#define BACKPLANE_ROOT_H

#include "backplane/collective.h"
#include "backplane/device.h"
#include "backplane/host.h"
#include "backplane/kernel.h"
#include "backplane/memory.h"
#include "backplane/status.h"
#include "backplane/stream.h"
#include "backplane/types.h"
#include "backplane/version.h"

/* How an instance is to behave. Allocated by the core, read during init only. Required: all.
 * Rules: beside each member. */
typedef struct bp_config {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t abi_semantics; /* min(plugin's abi_built, core's abi_max): the rules both sides follow */
  uint32_t option_count;
  const bp_str* option_names;  /* instance-scope options that the user set; lifetime: call */
  const bp_str* option_values; /* already checked against the manifest: i64 and bytes in decimal,
                                  bool as "true" or "false"; lifetime: call */
} bp_config;

typedef struct bp_root_api {
  uint32_t struct_size;
  uint32_t flags;

  /* init: makes an instance.
   * Rules: it opens the vendor's driver. Every later slot takes the instance or an object made from
   * it. Several instances may live at once; after shutdown, init works again.
   * Errors: BP_UNAVAILABLE with a sentence if the driver or hardware is not on this machine (not an
   * error to the user); BP_BUSY if only one instance can live; BP_INVALID_ARGUMENT for an option's
   * value. On an error nothing is kept and *out_instance stays NULL.
   * Ownership: host and host_ctx live until shutdown returns; config is read during the call.
   * Threads: init-only (a helper thread of the core).
   * Blocks: it may; the core gives up, by name, at its deadline. Absent: the plugin is refused. */
  bp_status (*init)(const bp_host_api* host, void* host_ctx, const bp_config* config,
                    bp_instance** out_instance);

  /* shutdown: ends the instance.
   * Rules: every device is closed before. It joins the plugin's threads.
   * Errors: none that stop it. Ownership: the instance is gone when it returns.
   * Threads: init-only. Blocks: it may. Absent: the plugin is refused. */
  bp_status (*shutdown)(bp_instance* instance);
} bp_root_api;

/* A named extension table. Static data of the plugin. Required: all. Rules: beside each member. It
 * is looked up once, at load. Extensions carry their own version. */
typedef struct bp_extension {
  uint32_t struct_size;
  uint32_t flags;
  bp_str name; /* "vendor.feature"; lifetime: plugin */
  uint32_t version;
  uint32_t reserved; /* 0 */
  const void* table; /* length: as the extension says; lifetime: plugin */
} bp_extension;

/* What bp_plugin_entry fills. Allocated and zeroed by the core, which sets struct_size to what it
 * knows; the plugin writes at most that many bytes. Required: kernel. Rules: beside each member.
 * All tables are static data of the plugin (lifetime: plugin). */
typedef struct bp_plugin {
  uint32_t struct_size;
  uint32_t flags;                        /* BP_PLUGIN_*_BIT */
  const bp_root_api* root;               /* required */
  const bp_device_api* device;           /* required */
  const bp_memory_api* memory;           /* required */
  const bp_stream_api* stream;           /* NULL: the core emulates streams and events */
  const bp_kernel_api* kernel;           /* NULL: no kernels; a way to do work (rule below) */
  const bp_extension* const* extensions; /* array of pointers; NULL: none */
  uint64_t extension_count;
  const bp_collective_api* collective; /* NULL: none of its own; a way to do work (rule below) */
} bp_plugin;

/* Rules: a plugin offers at least one way to do work: kernel, or a table of later headers (module,
 * executable, collective). A plugin without any is refused. */

/* bp_plugin.flags */
#define BP_PLUGIN_SINGLE_INSTANCE_BIT 1u /* Rules: a second init answers BP_BUSY */

#if defined(_WIN32)
#define BP_EXPORT __declspec(dllexport)
#else
#define BP_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* bp_plugin_entry: where a plugin begins.
 * Rules: the only exported symbol. It fills pointers; touches no device, starts no thread.
 * core_abi: the core's newest ABI (BP_ABI_VERSION).
 * Errors: BP_INCOMPATIBLE if the plugin cannot serve that core. Threads: init-only. Blocks: no. */
BP_EXPORT int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin);

#ifdef __cplusplus
}
#endif

#endif
