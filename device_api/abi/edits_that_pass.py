# SPDX-License-Identifier: Apache-2.0
"""Edits of the headers that break nothing: what is appended, and what is harmless.

A row is (name, header, texts[, words]): `texts` are pairs of what stands in the header and what
an editor makes of it. `words` tell what is new; a harmless edit has none. guard_edits_test.py
tries them.
"""

from edits_of_form import SLOT, BAND_SLOT, ALLOC_BYTES, MEMORY_END, EXTERN_OPEN, EXTERN_CLOSE

STRUCT = ("/* Allocated by the core. Required: none. */\ntypedef struct bp_sample_args {\n"
          "  uint32_t struct_size;\n  uint32_t flags;\n} bp_sample_args;\n\n")
DEVICE_END = "} bp_device_api;"

# These pass once they are recorded; the words name what is new.
APPENDED = (
    ("member at the end", "memory.h",
     [("  uint64_t bytes; /* 0 is legal and does nothing */\n",
       "  uint64_t bytes; /* 0 is legal and does nothing */\n  uint64_t hint;\n"),
      ("Required: all. Rules: beside each member. */\ntypedef struct bp_copy_args",
       "Required: bytes. Rules: beside each member. */\ntypedef struct bp_copy_args")],
     "bp_copy_args.hint"),
    ("member at the end of an out struct", "device.h",
     [("} bp_device_props;", "  uint64_t queue_count;\n} bp_device_props;")],
     "bp_device_props.queue_count"),
    ("pair of halves at the end", "device.h",
     [("} bp_device_props;", "  uint32_t a;\n  uint32_t b;\n} bp_device_props;")],
     "bp_device_props.a, bp_device_props.b"),
    ("slot at the end", "device.h", [(DEVICE_END, SLOT.format("device_nap") + DEVICE_END)],
     "bp_device_api.device_nap"),
    ("host service", "host.h", [("} bp_host_api;", SLOT.format("nod") + "} bp_host_api;")],
     "bp_host_api.nod"),
    ("slot of a kernel", "kernel.h",
     [("shares memory with an output */\n};",
       "shares memory with an output */\n" + SLOT.format("warm") + "};")],
     "bp_kernel.warm"),
    ("band at the end", "memory.h",
     [(MEMORY_END, BAND_SLOT.format("SHINE") + MEMORY_END),
      ("BP_FEATURE_MAP_BIT */", "BP_FEATURE_MAP_BIT, BP_FEATURE_SHINE_BIT */"),
      ('#include "backplane/types.h"\n', '#include "backplane/types.h"\n\n/* a band */\n'
       "#define BP_FEATURE_SHINE_BIT ((uint64_t)1 << 40)\n")], "mem_shine"),
    ("new struct", "stream.h", [("/* A function on the host", STRUCT + "/* A function on the host")
                                ], "struct bp_sample_args"),
    ("new struct with rules", "stream.h",
     [("/* A function on the host", STRUCT.replace("none.", "none. Rules: made once.")
       + "/* A function on the host")], "struct bp_sample_args"),
    ("new member with a rule", "device.h",
     [("} bp_device_props;", "  uint64_t queue_count; /* Rules: not 0 */\n} bp_device_props;")],
     "bp_device_props.queue_count"),
    ("new member beside rules", "root.h",
     [("none of its own; a way to do work (rule below) */\n} bp_plugin;",
       "none of its own; a way to do work (rule below) */\n"
       "  const bp_str* names; /* NULL: none; length: extension_count */\n} bp_plugin;")],
     "bp_plugin.names"),
    ("new status with its rule", "status.h",
     [("answers */\n", "answers */\n#define BP_WEARY 31 /* rest, then retry */\n")], "BP_WEARY"),
    ("new slot with rules", "device.h",
     [(DEVICE_END, SLOT.format("device_rest").replace("sample.", "sample. Rules: once.")
       + DEVICE_END)], "bp_device_api.device_rest"),
    ("new frozen struct", "types.h",
     [("/* A list of integers.", "/* Frozen. */\ntypedef struct bp_pair {\n  uint64_t a;\n"
       "  uint64_t b;\n} bp_pair;\n\n/* A list of integers.")], "struct bp_pair"),
    ("new handle", "host.h", [("typedef struct bp_event bp_event; ",
                               "typedef struct bp_queue bp_queue; /* made by queue_create */\n"
                               "typedef struct bp_event bp_event; ")], "bp_queue"),
    ("new callback", "stream.h",
     [("/* A function on the host", "/* Asks. */\ntypedef void (*bp_ask_fn)(void* user);\n\n"
                                    "/* A function on the host")], "bp_ask_fn"),
    ("new alias", "status.h", [("typedef int32_t bp_status;",
                                "typedef int32_t bp_status;\ntypedef uint32_t bp_code;")],
     "bp_code"),
    ("new enum value", "memory.h", [("#define BP_USAGE_COMM 3u", "#define BP_USAGE_COMM 3u\n"
                                     "#define BP_USAGE_SCRATCH 4u")], "BP_USAGE_SCRATCH"),
    ("new value in the middle", "memory.h",
     [("#define BP_USAGE_IO 2u", "#define BP_USAGE_SCRATCH 4u\n#define BP_USAGE_IO 2u")],
     "BP_USAGE_SCRATCH"),
    ("new flag bit", "device.h", [("#define BP_DEVICE_HOST_MEMORY_BIT 4u",
                                   "#define BP_DEVICE_HOST_MEMORY_BIT 4u\n"
                                   "#define BP_DEVICE_SHINY_BIT 8u")], "BP_DEVICE_SHINY_BIT"),
    ("new dtype", "types.h", [("#define BP_MAX_RANK 16u", "#define BP_DTYPE_B1 40u\n\n"
                                                          "#define BP_MAX_RANK 16u")],
     "BP_DTYPE_B1"),
    ("new status", "status.h", [("\n#endif\n", "\n#define BP_TIRED 30 /* rest */\n\n#endif\n")],
     "BP_TIRED"),
    ("new family of values", "memory.h",
     [("/* bp_map_args.access */", "/* a new thing */\n#define BP_NAP_SHORT 0u\n"
       "#define BP_NAP_LONG 1u\n\n/* bp_map_args.access */")], "BP_NAP_SHORT, BP_NAP_LONG"),
    ("new kind of collective", "collective.h",
     [("/* bp_collective_op.reduction.", "#define BP_COLLECTIVE_BARRIER 10u /* no buffers */\n\n"
       "/* bp_collective_op.reduction.")], "BP_COLLECTIVE_BARRIER"),
    ("new reduction", "collective.h",
     [("\n\n#define BP_REDUCTION_BIT", "\n#define BP_REDUCTION_OR 5u\n\n"
       "#define BP_REDUCTION_BIT")], "BP_REDUCTION_OR"),
    ("member at the end of a row", "collective.h",
     [("} bp_collective_row;", "  uint64_t bytes_max; /* 0: no limit */\n} bp_collective_row;"),
      ("of the plugin. Required: all.", "of the plugin. Required: dtypes.")],
     "bp_collective_row.bytes_max"),
    ("slot at the end of the collective table", "collective.h",
     [("} bp_collective_api;", SLOT.format("comm_rest") + "} bp_collective_api;")],
     "bp_collective_api.comm_rest"),
    ("new macro", "types.h", [("#define BP_MAX_RANK 16u",
                               "#define BP_MAX_RANK 16u\n#define BP_TWICE(x) ((x)*2u)")],
     "BP_TWICE"),
    ("new include", "memory.h", [('#include "backplane/types.h"',
                                  '#include "backplane/types.h"\n#include <stddef.h>')],
     "memory.h: #include stddef.h"),
)

# These pass as they are.
HARMLESS = (
    ("prose of a slot", "memory.h",
     [("mem_alloc: device memory.", "mem_alloc: memory of the device.")]),
    ("prose added to a slot", "device.h",
     [("device_count: how many devices the instance has.",
       "device_count: how many devices the instance has. Most have one.")]),
    ("paragraph of prose below a slot's statements", "device.h",
     [("while it is open.\n   * Threads: any-thread. Blocks: no. Absent: the plugin is refused. */",
       "while it is open.\n   * Threads: any-thread. Blocks: no. Absent: the plugin is refused.\n"
       "   *\n   * Vendors keep what they know here. */")]),
    ("statements reflowed", "memory.h",
     [("* Errors: BP_INVALID_ARGUMENT for a handle that is not allocated.\n   * Threads: "
       "any-thread. Blocks: it may. Absent:", "* Errors: BP_INVALID_ARGUMENT for a handle that\n"
       "   * is not allocated. Threads:\n   *   any-thread.\n   * Blocks: it may.\n"
       "   * Absent:")]),
    ("statements in another order", "memory.h",
     [("ends memory of host_alloc. Threads: any-thread. Blocks: it may.",
       "ends memory of host_alloc. Blocks: it may. Threads: any-thread.")]),
    ("slot comment of another shape", "memory.h",
     [("  /* host_free (band PINNED): ends memory of host_alloc. Threads: any-thread. Blocks: it "
       "may. */", "  /*\n   * host_free (band PINNED): ends memory of host_alloc.\n"
       "   * Threads: any-thread.\n   * Blocks: it may.\n   */")]),
    ("empty line below a slot's comment", "memory.h",
     [("Blocks: it may. */\n  bp_status (*host_free)", "Blocks: it may. */\n\n"
                                                       "  bp_status (*host_free)")]),
    ("empty line below a struct's comment", "memory.h",
     [("Required: alignment_bytes.\n * Rules: beside each member. */\n",
       "Required: alignment_bytes.\n * Rules: beside each member. */\n\n")]),
    ("section comment before a slot", "memory.h",
     [("  /* mem_map (band MAP)", "  /* --- mapping --- */\n\n  /* mem_map (band MAP)")]),
    ("section comment between structs", "memory.h",
     [("/* bp_map_args.access */", "/* --- mapping --- */\n\n/* bp_map_args.access */")]),
    ("prose of a struct", "device.h", [("/* How a device is to be opened.",
                                        "/* The way in which a device is opened.")]),
    ("prose of a member", "device.h", [("/* as the vendor calls it */",
                                        "/* what the vendor prints on the box */")]),
    ("comment added to a member", "device.h", [("  bp_str vendor;\n",
                                                "  bp_str vendor; /* who made it */\n")]),
    ("unit that the name tells already", "types.h",
     [("offset_bytes;\n} bp_mem;", "offset_bytes; /* in bytes */\n} bp_mem;")]),
    ("comment moved above its member", "device.h",
     [("  bp_str driver; /* driver or library, with version */\n",
       "  /* driver or library, with version */\n  bp_str driver;\n")]),
    ("comments not aligned", "memory.h", [(ALLOC_BYTES, "  uint64_t bytes; /* > 0 */\n")]),
    ("prose of a constant", "memory.h", [("#define BP_MAP_READ_BIT 1u",
                                          "#define BP_MAP_READ_BIT 1u /* the host reads */")]),
    ("prose beside a rule", "device.h", [("/* bp_device_props.execution. Rules:",
                                          "/* How launches run. Rules:")]),
    ("comment over a run of constants", "memory.h", [("/* bp_map_args.access */",
                                                      "/* What bp_map_args.access is. */")]),
    ("empty line in a run of constants", "memory.h",
     [("#define BP_USAGE_IO 2u\n", "\n#define BP_USAGE_IO 2u\n")]),
    ("constants in another order", "memory.h",
     [("#define BP_USAGE_IO 2u\n#define BP_USAGE_COMM 3u\n",
       "#define BP_USAGE_COMM 3u\n#define BP_USAGE_IO 2u\n")]),
    ("constant in hexadecimal", "memory.h", [("#define BP_USAGE_IO 2u",
                                              "#define BP_USAGE_IO 0x2u")]),
    ("constant in parentheses", "memory.h", [("#define BP_USAGE_IO 2u",
                                              "#define BP_USAGE_IO (2u)")]),
    ("constant with a capital suffix", "memory.h", [("#define BP_USAGE_IO 2u",
                                                     "#define BP_USAGE_IO 2U")]),
    ("bit as a shift", "device.h", [("BP_DEVICE_HOST_MEMORY_BIT 4u",
                                     "BP_DEVICE_HOST_MEMORY_BIT (1u << 2)")]),
    ("bit by another spelling", "device.h", [("BP_FEATURE_MAP_BIT ((uint64_t)1 << 4)",
                                              "BP_FEATURE_MAP_BIT (UINT64_C(1) << 4)")]),
    ("constant aligned", "memory.h", [("#define BP_USAGE_IO 2u",
                                       "#define BP_USAGE_IO         2u")]),
    ("macro aligned", "types.h", [("#define BP_DTYPE_BIT(code) ((uint64_t)1 << (code))",
                                   "#define BP_DTYPE_BIT(code)   ((uint64_t)1  <<  (code))")]),
    ("macro over two lines", "types.h", [("#define BP_DTYPE_BIT(code) ((uint64_t)1 << (code))",
                                          "#define BP_DTYPE_BIT(code) \\\n"
                                          "  ((uint64_t)1 << (code))")]),
    ("directive with a space", "memory.h", [("#define BP_USAGE_IO 2u",
                                             "#  define BP_USAGE_IO 2u")]),
    ("prose of a file", "memory.h", [("The core pools: plugins see few",
                                      "The core has a pool: plugins see few")]),
    ("paragraph added to a file's comment", "memory.h",
     [("* The memory table.", "* Read device.h first; 3 pages of 40 bytes are enough.\n *\n"
                              " * The memory table.")]),
    ("licence line with a year", "memory.h", [("/* SPDX-License-Identifier: Apache-2.0\n",
                                               "/* SPDX-License-Identifier: Apache-2.0\n"
                                               " * Copyright 2026\n")]),
    ("comment at the end of a file", "memory.h", [("} bp_memory_api;\n\n#endif",
                                                   "} bp_memory_api;\n\n/* The end. */\n#endif")]),
    ("comment behind the include guard", "memory.h", [("} bp_memory_api;\n\n#endif\n",
                                                       "} bp_memory_api;\n\n"
                                                       "#endif /* BACKPLANE_MEMORY_H */\n")]),
    ("no newline at the end", "memory.h", [("} bp_memory_api;\n\n#endif\n",
                                            "} bp_memory_api;\n\n#endif")]),
    ("includes in another order", "device_api.h",
     [('#include "backplane/types.h"\n#include "backplane/version.h"\n',
       '#include "backplane/version.h"\n#include "backplane/types.h"\n')]),
    ("prose before the rules of a slot", "memory.h",
     [("mem_free: gives memory back.", "mem_free: ends an allocation.")]),
    ("prose before the rules of a struct", "kernel.h",
     [("/* One argument, input or output, as", "/* An argument of the kernel, as")]),
    ("prose below the rules of a struct", "kernel.h",
     [("of 0. */\ntypedef struct bp_launch_args", "of 0.\n *\n * Vendors keep what they know. */"
       "\ntypedef struct bp_launch_args")]),
    ("rules in a paragraph of their own", "types.h",
     [("Frozen. Rules: beside each member.", "Frozen.\n *\n * Rules: beside each member.")]),
    ("rule spelled as one", "memory.h", [("args.usage. Rules: a", "args.usage. Rule: a")]),
    ("rules of a member reflowed", "kernel.h",
     [("NULL\n                             for other arguments",
       "NULL for other\n                             arguments")]),
    ("ruled comment moved above its member", "memory.h",
     [("  uint64_t bytes; /* 0 is legal and does nothing */\n",
       "  /* 0 is legal and does nothing */\n  uint64_t bytes;\n")]),
    ("rules reflowed", "device_api.h", [("no size or version is compared for\n * equality",
                                         "no size or version\n * is compared for equality")]),
    ("star beside the name", "device.h", [("bp_device* device, bp_device_props* out_props",
                                           "bp_device *device, bp_device_props *out_props")]),
    ("const behind the type", "memory.h", [("const bp_fill_args* args",
                                            "bp_fill_args const* args")]),
    ("declaration over two lines", "memory.h",
     [("(*host_free)(bp_device* device, void* ptr);",
       "(*host_free)(bp_device* device,\n                         void* ptr);")]),
    ("one parameter renamed", "memory.h", [("(*host_free)(bp_device* device, void* ptr)",
                                            "(*host_free)(bp_device* device, void* memory)")]),
    ("tabs in place of spaces", "memory.h", [("  bp_mem dst;\n  bp_mem src;",
                                              "\tbp_mem\tdst ;\n\tbp_mem\tsrc ;")]),
    ("lines that end with a carriage return", "memory.h",
     [("  bp_mem dst;\n  bp_mem src;\n", "  bp_mem dst;\r\n  bp_mem src;\r\n")]),
    ("struct over fewer lines", "types.h", [("typedef struct bp_mem {\n  uint64_t handle;",
                                             "typedef struct bp_mem { uint64_t handle;")]),
    ("structs in another order", "types.h",
     [("/* A list of integers. Frozen. Lifetime: that of the struct that holds it. */\n"
       "typedef struct bp_i64_span {\n  const int64_t* ptr;\n  uint64_t count;\n} bp_i64_span;\n",
       ""),
      ("/* Text. Frozen.", "/* A list of integers. Frozen. Lifetime: that of the struct that holds "
       "it. */\ntypedef struct bp_i64_span {\n  const int64_t* ptr;\n  uint64_t count;\n"
       "} bp_i64_span;\n\n/* Text. Frozen.")]),
    ("C linkage by another spelling", "root.h",
     [(EXTERN_OPEN, EXTERN_OPEN.replace("#ifdef __cplusplus", "#if defined(__cplusplus)"))]),
    ("C linkage round a table too", "memory.h",
     [("typedef struct bp_memory_api {", EXTERN_OPEN + "typedef struct bp_memory_api {"),
      (MEMORY_END, MEMORY_END + "\n\n" + EXTERN_CLOSE)]),
    ("length told that is known", "types.h",
     [("  const int64_t* ptr;\n", "  const int64_t* ptr; /* length: count */\n")]),
    ("all required by its name", "memory.h",
     [("Required: all. Rules: beside each member. */\ntypedef struct bp_copy_args",
       "Required: bytes. Rules: beside each member. */\ntypedef struct bp_copy_args")]),
    ("letters beyond ASCII in prose", "memory.h",
     [("The core pools:", "The core pools (naïvely):")]),
)
