/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of the plugin ABI that these headers describe.
 *
 * Rules: a plugin's manifest names the oldest version it can live with (abi_min) and the one it was
 * built against (abi_built); a core has its own range. The pair loads unless
 * plugin.abi_min > core.abi_max or plugin.abi_built < core.abi_min. 0.x is recorded, not frozen: a
 * break needs an ADR and raises BP_ABI_CORE_MIN.
 *
 * 0.2 broke 0.1 (docs/adr/0020-headers-0-2-in-one-break.md), so a plugin that was built against 0.1
 * is refused. 0.3 adds collectives.
 */
#ifndef BACKPLANE_VERSION_H
#define BACKPLANE_VERSION_H

#include <stdint.h>

#define BP_ABI_MAJOR 0
#define BP_ABI_MINOR 3

/* Versions travel as one number so that they compare with <. */
#define BP_ABI_VERSION(major, minor) ((uint32_t)(major)*65536u + (uint32_t)(minor))
#define BP_ABI_CURRENT BP_ABI_VERSION(BP_ABI_MAJOR, BP_ABI_MINOR)

/* Rules: the oldest plugin ABI that a core built from these headers still loads. */
#define BP_ABI_CORE_MIN BP_ABI_VERSION(0, 2)

#endif
