# SPDX-License-Identifier: Apache-2.0
"""The description of the real headers, and headers that must be refused with their place."""

import pathlib
import tempfile
import unittest

import describe
from header_reader import AbiError

HEADERS = pathlib.Path(__file__).resolve().parent.parent / "include" / "backplane"

# A whole small ABI: one handle, one table with a band, one args struct, one frozen struct.
GOOD = """/* SPDX */
#ifndef BACKPLANE_SAMPLE_H
#define BACKPLANE_SAMPLE_H

#include <stdint.h>

#define BP_ABI_MAJOR 0
#define BP_ABI_MINOR 1
#define BP_ABI_VERSION(major, minor) ((uint32_t)(major)*65536u + (uint32_t)(minor))
#define BP_ABI_CORE_MIN BP_ABI_VERSION(0, 1)

typedef int32_t bp_status;
typedef struct bp_thing bp_thing; /* made by thing_make */

/* Bands. */
#define BP_FEATURE_SPIN_BIT ((uint64_t)1 << 3)

/* bp_spin_args.kind */
#define BP_SPIN_LEFT 0u
#define BP_SPIN_RIGHT 1u

/* Text. Frozen. Lifetime: that of the struct that holds it. */
typedef struct bp_text {
  const char* ptr;
  uint64_t len;
} bp_text;

/* Allocated by the core, read during the call. Required: kind. */
typedef struct bp_spin_args {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t kind;     /* BP_SPIN_* */
  uint32_t count;
  const bp_text* names; /* length: count; lifetime: call */
} bp_spin_args;

typedef struct bp_thing_api {
  uint32_t struct_size;
  uint32_t flags; /* bands: BP_FEATURE_SPIN_BIT */

  /* thing_make: makes one.
   * Ownership: thing_end. Threads: any-thread. Blocks: no. Absent: the plugin is refused. */
  bp_status (*thing_make)(bp_thing** out_thing);

  /* thing_spin (band SPIN): turns it.
   * Errors: BP_UNSUPPORTED. Threads: stream-ordered; object-exclusive on the thing. Blocks: no.
   * Absent: it stays as it is. */
  bp_status (*thing_spin)(bp_thing* thing, const bp_spin_args* args);

  /* thing_stop (band SPIN): ends the turning. Threads: any-thread. Blocks: yes. */
  bp_status (*thing_stop)(bp_thing* thing);
} bp_thing_api;

#endif
"""


def describe_text(text):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "sample.h").write_text(text)
        return describe.describe(folder)


# (name, text of GOOD, what stands there instead, words of the error)
BAD = (
    ("bool", "uint32_t kind; ", "bool kind; ", "expected a fixed-width type"),
    ("long", "uint64_t len;", "long len;", "a fixed-width type or a bp_ type, found 'long'"),
    ("size_t", "uint64_t len;", "size_t len;", "found 'size_t'"),
    ("enum field", "uint32_t kind; ", "enum bp_kind kind; ", "found 'enum'"),
    ("bitfield", "uint32_t kind; ", "uint32_t kind : 3; ", "found a bitfield"),
    ("array", "uint32_t kind; ", "uint32_t kind[2]; ", "found an array"),
    ("two members in one line", "uint32_t kind; ", "uint32_t kind, other; ", "one member a line"),
    ("varargs", "(bp_thing* thing);", "(bp_thing* thing, ...);", "found '...'"),
    ("parameter without a name", "(bp_thing* thing);", "(bp_thing*);", "expected a name"),
    ("versioned struct by value in a struct", "uint32_t count;\n",
     "uint32_t count;\n  bp_thing_api api;\n", "'bp_thing_api' is not frozen and may grow"),
    ("frozen struct over 16 bytes by value", "  uint64_t len;\n} bp_text;",
     "  uint64_t len;\n  uint64_t more;\n} bp_text;\ntypedef void (*bp_cry)(bp_text text);",
     "at most 16 by value"),
    ("conditional member", "uint32_t kind; ", "\n#if defined(X)\n  uint32_t kind;\n#endif\n",
     "found '#if defined(X)'"),
    ("unknown type", "bp_thing** out_thing", "bp_think** out_thing", "found 'bp_think'"),
    ("no struct_size", "uint32_t struct_size;\n  uint32_t flags;\n  uint32_t kind;",
     "uint32_t flags;\n  uint32_t struct_size;\n  uint32_t kind;", "first, or 'Frozen.'"),
    ("flags of 64 bits", "uint32_t flags; /* bands", "uint64_t flags; /* bands",
     "expected 'uint32_t struct_size; uint32_t flags;' first"),
    ("no thread class", "Threads: any-thread. Blocks: no. Absent", "Blocks: no. Absent",
     "bp_thing_api.thing_make: expected 'Threads: '"),
    ("unknown thread class", "Threads: stream-ordered;", "Threads: whenever;",
     "found 'whenever'"),
    ("no word on blocking", " Blocks: yes.", "", "bp_thing_api.thing_stop: expected 'Blocks: '"),
    ("no word on absence", " Absent: the plugin is refused.", "",
     "bp_thing_api.thing_make: expected 'Absent: '"),
    ("no absence for a band", "   * Absent: it stays as it is. */", "   */",
     "bp_thing_api.thing_spin: expected 'Absent: '"),
    ("no owner of what is made", "Ownership: thing_end. ", "", "expected 'Ownership: '"),
    ("comment of another slot", "/* thing_stop (band", "/* thing_halt (band",
     "begins with 'thing_stop: '"),
    ("band without a bit", "#define BP_FEATURE_SPIN_BIT ", "#define BP_FEATURE_SPUN_BIT ",
     "expected the constant BP_FEATURE_SPIN_BIT"),
    ("bit without a band", "#define BP_FEATURE_SPIN_BIT ((uint64_t)1 << 3)",
     "#define BP_FEATURE_SPIN_BIT ((uint64_t)1 << 3)\n"
     "#define BP_FEATURE_HOP_BIT ((uint64_t)1 << 4)",
     "BP_FEATURE_HOP_BIT: expected slots of that band"),
    ("band that the flags do not name", "/* bands: BP_FEATURE_SPIN_BIT */", "/* bands: */",
     "bp_thing_api.flags: expected BP_FEATURE_SPIN_BIT"),
    ("split band", "  /* thing_stop (band SPIN)",
     "  /* thing_hop: hops. Threads: any-thread. Blocks: no. Absent: it stays. */\n"
     "  bp_status (*thing_hop)(bp_thing* thing);\n\n  /* thing_stop (band SPIN)",
     "the slots of band SPIN do not follow each other"),
    ("no lifetime", "length: count; lifetime: call", "length: count",
     "bp_spin_args.names: expected 'lifetime: '"),
    ("no length", "length: count; lifetime: call", "lifetime: call",
     "bp_spin_args.names: expected a member that counts it"),
    ("array of versioned structs without a stride", "const bp_text* names; /* length: count;",
     "const bp_spin_args* names; /* length: count;", "needs the member name_stride_bytes"),
    ("no role", "Allocated by the core, read during the call. Required", "Required",
     "bp_spin_args: expected a comment that says"),
    ("no required part", " Required: kind.", "", "bp_spin_args: expected 'Required: "),
    ("required part that is no member", "Required: kind.", "Required: sort.", "names no member"),
    ("hole", "uint32_t count;\n", "", "bp_spin_args.names: expected no hole before it"),
    ("size that is no multiple of 8",
     "  const bp_text* names; /* length: count; lifetime: call */\n",
     "  uint32_t last;\n", "expected a size that is a multiple of 8"),
    ("out parameter without out_", "bp_thing** out_thing", "uint32_t* thing",
     "expected const, or a name that begins with out_"),
    ("const out parameter", "bp_thing** out_thing", "const uint32_t* out_thing",
     "expected a pointer to something that may be written"),
    ("one value twice", "#define BP_SPIN_RIGHT 1u", "#define BP_SPIN_RIGHT 0u",
     "found 0, which is BP_SPIN_LEFT's"),
    ("band of two bits", "((uint64_t)1 << 3)", "3u", "expected a single bit, found 3"),
    ("constant that is no integer", "#define BP_SPIN_LEFT 0u", "#define BP_SPIN_LEFT left",
     "expected an integer"),
    ("name without BP_", "#define BP_SPIN_LEFT 0u", "#define SPIN_LEFT 0u", "begins with BP_"),
    ("C++ comment", "/* Bands. */", "// Bands.", "expected a comment of the form /* */"),
    ("C++ include", "#include <stdint.h>", "#include <cstdint>", "found '#include <cstdint>'"),
    ("wide alias", "typedef int32_t bp_status;", "typedef double_t bp_status;",
     "expected a fixed-width type"),
    ("no version", "#define BP_ABI_MINOR 1\n", "", "expected BP_ABI_MAJOR"),
    ("cut off", "} bp_thing_api;", "", "found '#endif'"),
)


class Refused(unittest.TestCase):
    def test_the_sample_is_read(self):
        self.assertEqual(len(describe_text(GOOD)["structs"]), 3)

    def test_each_bad_header_is_refused_with_its_place(self):
        for name, old, new, words in BAD:
            with self.subTest(name):
                self.assertEqual(GOOD.count(old), 1, "the edit must fit one place")
                with self.assertRaises(AbiError) as caught:
                    describe_text(GOOD.replace(old, new))
                self.assertIn(words, str(caught.exception))
                self.assertRegex(str(caught.exception), r"^(sample|version)\.h:\d+: \w+")

    def test_an_empty_folder_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(AbiError):
            describe.describe(folder)

    def test_the_line_is_the_line_of_the_defect(self):
        text = GOOD.replace("uint32_t kind; ", "bool kind; ")
        line = 1 + text[:text.index("bool kind")].count("\n")
        with self.assertRaisesRegex(AbiError, rf"^sample\.h:{line}: "):
            describe_text(text)


class Described(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.abi = describe.describe(HEADERS)
        cls.structs = {struct["name"]: struct for struct in cls.abi["structs"]}

    def member(self, struct, name):
        return next(m for m in self.structs[struct]["members"] if m["name"] == name)

    def test_slots_carry_their_statements(self):
        slot = self.member("bp_memory_api", "mem_map")["slot"]
        self.assertEqual(slot["band"], "MAP")
        self.assertEqual(slot["threads"], ["any-thread"])
        self.assertEqual([p["direction"] for p in slot["parameters"]], ["object", "in", "out"])
        self.assertIn("BP_INVALID_ARGUMENT", slot["errors"])
        self.assertIn("staged copy", slot["absent"])
        self.assertFalse(slot["required"])
        self.assertTrue(self.member("bp_memory_api", "mem_copy")["slot"]["required"])

    def test_slots_carry_what_a_typed_call_needs(self):
        slot = self.member("bp_device_api", "device_open")["slot"]
        self.assertEqual((slot["table"], slot["name"]), ("bp_device_api", "device_open"))
        self.assertEqual([(p["name"], p["direction"], p["struct"], p["handle"])
                          for p in slot["parameters"]],
                         [("instance", "object", None, "bp_instance"),
                          ("args", "in", "bp_open_args", None),
                          ("out_device", "out", None, "bp_device")])
        self.assertTrue(slot["may_block"])
        self.assertFalse(self.member("bp_device_api", "device_props")["slot"]["may_block"])

    def test_structs_carry_allocator_and_required_member(self):
        found = {name: (self.structs[name]["allocator"], self.structs[name]["is_zeroed"],
                        self.structs[name]["required_member"])
                 for name in ("bp_copy_args", "bp_device_props", "bp_report_info", "bp_arg_rule",
                              "bp_memory_api")}
        self.assertEqual(found, {"bp_copy_args": ("core", False, "bytes"),
                                 "bp_device_props": ("core", True, "alignment_bytes"),
                                 "bp_report_info": ("plugin", False, "message"),
                                 "bp_arg_rule": ("plugin", False, None),
                                 "bp_memory_api": (None, False, None)})

    def test_pointers_carry_lifetime_length_and_stride(self):
        args = self.member("bp_kernel_query", "args")
        self.assertEqual((args["lifetime"], args["length"], args["stride"]),
                         ("call", "input_count + output_count", "arg_stride_bytes"))
        self.assertEqual(self.member("bp_str", "ptr")["length"], "len")
        self.assertEqual(self.member("bp_plugin", "root")["length"], "one")
        self.assertEqual(self.member("bp_launch_args", "stream")["lifetime"], "object")
        comms = self.member("bp_comm_abort_args", "comms")
        self.assertEqual((comms["lifetime"], comms["length"]), ("call", "comm_count"),
                         "an array of objects is not an object")

    def test_roles_and_required_parts(self):
        roles = {name: struct["role"] for name, struct in self.structs.items()}
        self.assertEqual(roles["bp_memory_api"], "table")
        self.assertEqual(roles["bp_device_props"], "out")
        self.assertEqual(roles["bp_copy_args"], "in")
        self.assertEqual(roles["bp_report_info"], "report")
        self.assertEqual(roles["bp_tensor"], "value")
        self.assertEqual(self.structs["bp_memory_api"]["required_bytes"],
                         self.member("bp_memory_api", "mem_copy")["offset"] + 8)

    def test_bands_are_whole(self):
        bands = {band["name"]: band for band in self.abi["bands"]}
        self.assertEqual(bands["PINNED"]["slots"], ["host_alloc", "host_free"])
        self.assertEqual(bands["ASYNC"]["value"], 1)
        self.assertEqual(len(bands["ASYNC"]["slots"]), 12)

    def test_rules_stand_with_their_thing(self):
        constants = {constant["name"]: constant["rules"] for constant in self.abi["constants"]}
        self.assertEqual(self.structs["bp_str"]["rules"], ["UTF-8, not terminated"])
        self.assertEqual(self.member("bp_open_args", "index")["rules"], ["0 to device_count - 1"],
                         "the struct says 'beside each member'")
        self.assertEqual(self.member("bp_device_props", "name")["rules"], [], "prose")
        self.assertEqual(self.member("bp_device_props", "memory_bytes")["rules"],
                         ["all memory of the device"])
        self.assertEqual(self.member("bp_host_api", "log")["slot"]["rules"],
                         ["one line. level: BP_LOG_*"])
        self.assertEqual(constants["BP_OUT_OF_MEMORY"], ["trim, then retry once"])
        self.assertEqual(constants["BP_STRIDES_NON_NEGATIVE"],
                         ["anything but negative strides; 0 repeats"], "behind a continued line")
        self.assertEqual(self.abi["runs"]["BP_USAGE_*"], ["a hint"])
        self.assertEqual(len(self.abi["alias_rules"]["bp_status"]), 1)
        self.assertEqual(self.abi["headers"]["memory.h"]["rules"], [])
        self.assertEqual(len(self.abi["headers"]["device_api.h"]["rules"]), 4)

    def test_constants_have_the_compilers_values(self):
        values = {constant["name"]: constant["value"] for constant in self.abi["constants"]}
        self.assertEqual(values["BP_TIMEOUT_FOREVER"], 2**64 - 1)
        self.assertEqual(values["BP_FEATURE_MAP_BIT"], 16)
        self.assertEqual(values["BP_STRIDES_INNER_DENSE"], 1, "its definition spans lines")
        self.assertEqual(values["BP_DEVICE_LOST"], 10)


if __name__ == "__main__":
    unittest.main()
