# SPDX-License-Identifier: Apache-2.0
"""The guard against edits of the real headers: guard_test.py [CC].

Each edit is made on a copy of the headers. It is found by a pattern without comments, on members
that are released and so never change; a pattern that fits nowhere fails the test.
"""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import guard

HERE = pathlib.Path(__file__).resolve().parent
COMPILER = "cc"

SLOT = ("\n  /* {name}: sample. Errors: none. Threads: any-thread. Blocks: no.\n"
        "   * Absent: nothing. */\n  bp_status (*{name})(bp_device* device);\n")
BAND_SLOT = ("\n  /* mem_shine (band SHINE): sample. Threads: any-thread. Blocks: no.\n"
             "   * Absent: it stays dull. */\n  bp_status (*mem_shine)(bp_device* device);\n")
STRUCT = ("/* Allocated by the core. Required: none. */\ntypedef struct bp_sample_args {\n"
          "  uint32_t struct_size;\n  uint32_t flags;\n} bp_sample_args;\n\n")


def at_end_of(struct, text):
    """Puts text before the closing brace of a struct."""
    return (rf"(typedef struct {struct} \{{.*?)(\}} {struct};)",
            lambda m: m.group(1) + text + m.group(2))


def member(struct, pattern, replacement):
    """Replaces the first text that fits inside a struct."""
    def edit(match):
        text, count = re.subn(pattern, replacement, match.group(0), count=1, flags=re.DOTALL)
        return text if count else None
    return (rf"typedef struct {struct} \{{.*?\}} {struct};", edit)


def text(pattern, replacement):
    return (pattern, lambda m: m.expand(replacement))


def swap_first_two(struct, first, second):
    return member(struct, rf"({first}.*?;)(.*?)({second}.*?;)", r"\3\2\1")


# (name, header, [edit]); these pass once they are recorded.
APPENDS = (
    ("member at the end", "memory.h", [at_end_of("bp_copy_args", "  uint64_t hint;\n"),
                                       text(r"Required: all\. \*/(?=\ntypedef struct bp_copy_args)",
                                            "Required: bytes. */")]),
    ("slot at the end", "device.h", [at_end_of("bp_device_api", SLOT.format(name="device_nap"))]),
    ("band at the end", "memory.h",
     [at_end_of("bp_memory_api", BAND_SLOT),
      text(r"(BP_FEATURE_MAP_BIT) \*/", r"\1, BP_FEATURE_SHINE_BIT */"),
      text(r"(#include \"backplane/types.h\"\n)",
           r"\1\n/* a band */\n#define BP_FEATURE_SHINE_BIT ((uint64_t)1 << 40)\n")]),
    ("new struct", "stream.h", [text(r"(/\* A function on the host)", STRUCT + r"\1")]),
    ("new enum value", "memory.h", [text(r"(#define BP_USAGE_COMM 3u)",
                                         r"\1\n#define BP_USAGE_SCRATCH 4u")]),
    ("new flag bit", "device.h", [text(r"(#define BP_DEVICE_HOST_MEMORY_BIT 4u)",
                                       r"\1\n#define BP_DEVICE_SHINY_BIT 8u")]),
    ("new status", "status.h", [text(r"(#define BP_INTERNAL 14[^\n]*)",
                                     r"\1\n#define BP_TIRED 15")]),
    ("new host service", "host.h", [at_end_of("bp_host_api", SLOT.format(name="nod"))]),
)

# (name, header, [edit], words of the refusal); each must name the culprit.
BREAKS = (
    ("members reordered", "memory.h",
     [swap_first_two("bp_alloc_args", "uint64_t bytes", "uint64_t alignment_bytes")],
     "bp_alloc_args.bytes moved from offset 8 to 16"),
    ("slots reordered", "device.h",
     [member("bp_device_api", r"(/\* device_count: .*?\);\n)(\s*)(/\* device_open: .*?\);\n)",
             r"\3\2\1")],
     "bp_device_api.device_count moved"),
    ("member retyped", "memory.h",
     [member("bp_copy_args", r"uint64_t bytes;", "int64_t bytes;")],
     "bp_copy_args.bytes was retyped from 'uint64_t' to 'int64_t'"),
    ("slot's parameter retyped", "stream.h",
     [member("bp_stream_api", r"uint64_t timeout_ns", "int64_t timeout_ns")],
     "bp_stream_api.stream_sync was retyped"),
    ("member inserted", "memory.h",
     [member("bp_copy_args", r"bp_mem dst;", "uint64_t before;\n  bp_mem dst;")],
     "bp_copy_args.dst moved from offset 16 to 24"),
    ("slot inserted", "device.h",
     [member("bp_device_api", r"\n  /\* device_open:",
             SLOT.format(name="device_nap") + r"\n  /* device_open:")],
     "bp_device_api.device_open moved"),
    ("member removed", "device.h",
     [member("bp_device_props", r"  bp_str vendor;\n", "")],
     "bp_device_props.vendor was removed or renamed"),
    ("member renamed", "device.h",
     [member("bp_device_props", r"bp_str vendor;", "bp_str maker;")],
     "bp_device_props.vendor was removed or renamed"),
    ("last slot removed", "device.h",
     [member("bp_device_api", r"  /\* device_props: .*?\);\n", "")],
     "bp_device_api.device_props was removed"),
    ("member widened", "device.h",
     [member("bp_device_props", r"uint32_t execution;(.*?)uint32_t compute_unit_count;",
             r"uint64_t execution;\1uint64_t compute_unit_count;")],
     "bp_device_props.execution was widened from 'uint32_t' to 'uint64_t'"),
    ("enum value renumbered", "memory.h",
     [text(r"#define BP_USAGE_IO 2u", "#define BP_USAGE_IO 7u")],
     "BP_USAGE_IO was renumbered from 2 to 7"),
    ("status renumbered", "status.h",
     [text(r"#define BP_INTERNAL 14", "#define BP_INTERNAL 15")],
     "BP_INTERNAL was renumbered from 14 to 15"),
    ("constant removed", "memory.h", [text(r"#define BP_USAGE_COMM 3u\n", "")],
     "BP_USAGE_COMM was removed"),
    ("frozen struct grown", "types.h", [at_end_of("bp_mem", "  uint64_t device;\n")],
     "bp_mem is frozen"),
    ("frozen struct thawed", "kernel.h",
     [text(r"Frozen\. Layout", "Layout"),
      text(r"(typedef struct bp_fault_word \{\n)",
           r"\1  uint32_t struct_size;\n  uint32_t flags;\n"),
      text(r"(Layout of the 32 bytes behind)",
           r"Allocated and zeroed by the core. Required: all. \1")],
     "bp_fault_word was frozen and is versioned now"),
    ("slot taken out of a band", "memory.h",
     [member("bp_memory_api", r"mem_unmap \(band MAP\): (.*?) \*/",
             r"mem_unmap: \1 Absent: none. */")],
     "band MAP: its members changed (mem_unmap)"),
    ("band grown", "memory.h",
     [at_end_of("bp_memory_api", BAND_SLOT.replace("SHINE", "MAP"))],
     "band MAP: its members changed (mem_shine)"),
    ("band's bit moved", "device.h",
     [text(r"(#define BP_FEATURE_MAP_BIT \(\(uint64_t\)1 << )4\)", r"\g<1>44)")],
     "band MAP was bit 16 of bp_memory_api and is bit 17592186044416"),
    ("slot required that was optional", "memory.h",
     [member("bp_memory_api", r"Absent: copies from a staged pattern",
             "Absent: the plugin is refused")],
     "bp_memory_api: its required part was 32 bytes and is 40 now"),
    ("appended member required", "memory.h", [at_end_of("bp_copy_args", "  uint64_t hint;\n")],
     "bp_copy_args: its required part was 56 bytes and is 64 now"),
    ("alias retyped", "status.h",
     [text(r"typedef int32_t bp_status;", "typedef uint32_t bp_status;")],
     "bp_status was 'int32_t' and is 'uint32_t' now"),
    ("entry point changed", "root.h",
     [text(r"bp_plugin_entry\(uint32_t core_abi, ", "bp_plugin_entry(uint64_t core_abi, ")],
     "bp_plugin_entry was 'int32_t (uint32_t, bp_plugin*)'"),
    ("version taken back", "version.h",
     [text(r"#define BP_ABI_MINOR \d+", "#define BP_ABI_MINOR 0")],
     "the version never goes back"),
)

# Refused before any comparison, since such a layout must not exist.
UNREADABLE = (
    ("hole", "memory.h", [member("bp_copy_args", r"uint32_t reserved;[^\n]*\n", "")],
     "bp_copy_args.dst: expected no hole before it"),
    ("size no multiple of 8", "memory.h",
     [member("bp_map_args", r"uint32_t reserved;[^\n]*\n", "")],
     "bp_map_args: expected a size that is a multiple of 8"),
    ("no flags", "memory.h", [member("bp_copy_args", r"uint32_t flags;", "uint32_t bits;")],
     "bp_copy_args: expected 'uint32_t struct_size; uint32_t flags;' first"),
)


class OnACopy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.headers = pathlib.Path(folder.name, "include")
        self.records = pathlib.Path(folder.name, "records")
        shutil.copytree(HERE.parent / "include", self.headers)
        shutil.copytree(HERE, self.records, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        self.assertEqual(self.run_guard(update=True)[0], [], "the headers as they are")

    def run_guard(self, update=False):
        return guard.run(self.headers, self.records, COMPILER, update)

    def edit(self, header, edits):
        path = self.headers / "backplane" / header
        content = path.read_text()
        for pattern, replace in edits:
            match = re.search(pattern, content, re.DOTALL)
            self.assertIsNotNone(match, f"{header} has nothing like {pattern}")
            replaced = replace(match)
            self.assertIsNotNone(replaced, f"{header}: nothing to replace in {match.group()[:60]}")
            content = content[:match.start()] + replaced + content[match.end():]
        path.write_text(content)


class Guard(OnACopy):
    def test_the_headers_as_they_are_pass(self):
        problems, note = self.run_guard()
        self.assertEqual(problems, [])
        self.assertIn("as recorded in layout-", note)


def append_test(header, edits):
    def test(self):
        self.edit(header, edits)
        problems, _ = self.run_guard()
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(guard.UPDATE, problems[0], "what to do stands in the message")
        self.assertIn("does not have yet: ", problems[0])
        self.assertEqual(self.run_guard(update=True)[0], [])
        self.assertEqual(self.run_guard()[0], [])
    return test


def break_test(header, edits, words):
    def test(self):
        self.edit(header, edits)
        for update in (False, True):
            problems, _ = self.run_guard(update)
            self.assertTrue(any(words in problem for problem in problems), problems)
            self.assertIn("needs an ADR", problems[-1])
    return test


def unreadable_test(header, edits, words):
    def test(self):
        self.edit(header, edits)
        with self.assertRaises(guard.AbiError) as caught:
            self.run_guard()
        self.assertIn(words, str(caught.exception))
    return test


def add_tests():
    for kind, make, cases in (("append", append_test, APPENDS), ("break", break_test, BREAKS),
                              ("unreadable", unreadable_test, UNREADABLE)):
        for name, *case in cases:
            setattr(Guard, f"test_{kind}_{name.replace(' ', '_')}", make(*case))


class Versions(OnACopy):
    def raise_minor(self, core_min=None):
        edits = [(r"#define BP_ABI_MINOR (\d+)",
                  lambda m: f"#define BP_ABI_MINOR {int(m.group(1)) + 1}")]
        if core_min:
            edits.append((r"#define BP_ABI_CORE_MIN [^\n]*",
                          lambda m: "#define BP_ABI_CORE_MIN BP_ABI_CURRENT"))
        self.edit("version.h", edits)

    def test_a_new_version_needs_a_record_and_keeps_to_the_old_one(self):
        self.raise_minor()
        self.assertIn("does not have yet", self.run_guard()[0][0])
        self.assertEqual(self.run_guard(update=True)[0], [])
        self.assertGreaterEqual(len(list(self.records.glob("layout-*.json"))), 2)
        self.edit("memory.h", BREAKS[0][2])
        problems, _ = self.run_guard()
        self.assertTrue(any(problem.startswith("against 0.1: ") for problem in problems), problems)

    def test_a_break_passes_where_no_core_loads_the_old_version(self):
        self.edit("memory.h", BREAKS[0][2])
        self.raise_minor(core_min=True)
        self.assertEqual(self.run_guard(update=True)[0], [])
        self.assertEqual(self.run_guard()[0], [])

    def test_a_record_with_a_strange_name_is_refused(self):
        (self.records / "layout-old.json").write_text("{}")
        with self.assertRaises(guard.AbiError):
            self.run_guard()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        COMPILER = sys.argv.pop(1)
    add_tests()
    unittest.main()
