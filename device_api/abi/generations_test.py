# SPDX-License-Identifier: Apache-2.0
"""What the simulated past lacks and the simulated future has."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import describe
import generations
from header_reader import read_headers

# As ops/gen makes it.
ATTRIBUTES = """#include "backplane/types.h"

#define BP_OPS_ASSERT(condition, text) static_assert(condition, text)
""" + "".join(f"""
typedef struct bp_attrs_{op} {{
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  /* a value */
  {type_name} {name};
}} bp_attrs_{op};

BP_OPS_ASSERT(offsetof(bp_attrs_{op}, {name}) == 8,
              "bp_attrs_{op}.{name} moved");

/* All defaults{note}. */
static inline bp_attrs_{op} bp_attrs_{op}_defaults(void) {{
  bp_attrs_{op} result;
  {default}
  return result;
}}
""" for op, type_name, name, note, default in (
    ("softmax", "int64_t", "axis", "", "result.axis = -1;"),
    ("cast", "int64_t", "to", "; to must be set", "result.to = 0;"),
    ("transpose", "bp_i64_span", "perm", "", "result.perm.ptr = NULL;")))
HEADERS = pathlib.Path(__file__).resolve().parent.parent / "include" / "backplane"


def slot(band=None, pair=None, required=False, relied_on=False):
    return {"band": band, "pair": pair, "required": required, "relied_on": relied_on}


def struct(required_bytes, *members):
    """members: (name, size) or (name, size, slot); the head is there already."""
    entry = {"name": "bp_sample", "role": "in", "required_bytes": required_bytes, "members": []}
    offset = 0
    for name, size, *rest in (("struct_size", 4), ("flags", 4), *members):
        entry["members"].append({"name": name, "offset": offset, "size": size,
                                 **({"slot": rest[0]} if rest else {})})
        offset += size
    return entry


class KeptCount(unittest.TestCase):
    def kept(self, entry):
        return [member["name"] for member in
                entry["members"][:generations.kept_count(entry)]][2:]

    def test_the_last_member_goes(self):
        self.assertEqual(self.kept(struct(8, ("a", 8), ("b", 8))), ["a"])

    def test_a_pair_of_halves_goes_together(self):
        self.assertEqual(self.kept(struct(8, ("a", 8), ("b", 4), ("reserved", 4))), ["a"])

    def test_a_required_member_stays(self):
        self.assertEqual(self.kept(struct(24, ("a", 8), ("b", 8))), ["a", "b"])

    def test_half_of_a_pair_is_not_kept_if_the_other_is_required(self):
        self.assertEqual(self.kept(struct(20, ("a", 8), ("b", 4), ("c", 4))), ["a", "b", "c"])

    def test_a_head_alone_stays(self):
        self.assertEqual(generations.kept_count(struct(8)), 2)

    def test_the_last_slot_goes_alone(self):
        entry = struct(8, ("a", 8, slot()), ("b", 8, slot()))
        self.assertEqual(self.kept(entry), ["a"])

    def test_a_band_goes_whole(self):
        entry = struct(8, ("a", 8, slot("ONE")), ("b", 8, slot("TWO")), ("c", 8, slot("TWO")))
        self.assertEqual(self.kept(entry), ["a"])

    def test_a_pair_of_slots_goes_whole(self):
        entry = struct(8, ("a", 8, slot()), ("make", 8, slot(pair="end")), ("end", 8, slot()))
        self.assertEqual(self.kept(entry), ["a"])

    def test_required_slots_stay(self):
        self.assertEqual(self.kept(struct(16, ("a", 8, slot(required=True)))), ["a"])

    def test_a_pair_that_plugins_rely_on_stays(self):
        entry = struct(8, ("make", 8, slot(pair="end", relied_on=True)), ("end", 8, slot()))
        self.assertEqual(self.kept(entry), ["make", "end"])


class RealHeaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = describe.include_order(HEADERS)
        cls.headers = read_headers(cls.files)
        cls.abi = describe.describe(HEADERS)
        cls.structs = {entry["name"]: entry for entry in cls.abi["structs"]}

    def test_the_past_lacks_what_is_optional_and_last(self):
        _, gone = generations.past_of(self.files, self.headers, self.abi)
        self.assertGreater(len(gone), 8)
        for name in gone:
            owner, member = name.split(".")
            entry = next(m for m in self.structs[owner]["members"] if m["name"] == member)
            self.assertFalse(entry.get("slot", {}).get("required"), name)
            if "slot" not in entry:
                self.assertGreaterEqual(entry["offset"], self.structs[owner]["required_bytes"])
        for table in ("bp_memory_api", "bp_stream_api"):
            self.assertIn(table, {name.split(".")[0] for name in gone})

    def test_the_past_knows_no_bit_of_a_lost_band(self):
        past, gone = generations.past_of(self.files, self.headers, self.abi)
        text = "\n".join(past.lines["device.h"])
        for band in self.abi["bands"]:
            lost = f"{band['table']}.{band['slots'][0]}" in gone
            self.assertEqual(f"#define {band['bit']} ((uint64_t)0)" in text, lost, band["name"])

    def test_every_versioned_struct_grows_in_the_future(self):
        future, extra = generations.future_of(self.files, self.headers, self.abi)
        text = "\n".join("\n".join(lines) for lines in future.lines.values())
        versioned = [entry for entry in self.abi["structs"] if entry["kind"] == "versioned"]
        appended = text.count("future_number") + text.count("future_first")
        self.assertEqual(appended, len(versioned))
        self.assertIn("#define BP_STATUS_FUTURE 15u", extra)
        minor = self.abi["version"]["minor"] + 1
        self.assertIn(f"#define BP_ABI_MINOR {minor}", text)

    def test_new_values_are_nobody_elses(self):
        new = generations.new_constants(self.abi)
        for constant in self.abi["constants"]:
            if constant["kind"] == "band":
                self.assertNotEqual(constant["value"], new["BP_FEATURE_FUTURE_BIT"])
            if constant["name"].startswith("BP_COPY_"):
                self.assertNotEqual(constant["value"], new["BP_COPY_FUTURE"])

    def test_the_script_writes_both_and_fails_on_no_headers(self):
        with tempfile.TemporaryDirectory() as folder:
            attributes = pathlib.Path(folder, "attributes.h")
            attributes.write_text(ATTRIBUTES)
            self.assertEqual(generations.main(folder, HEADERS, attributes), 0)
            for name in ("past/backplane/past.h", "future/backplane/future.h", "past/without.txt",
                         "past/backplane/memory.h", "future/backplane/root.h",
                         "past/backplane/ops/attributes.h", "future/backplane/ops/attributes.h"):
                self.assertTrue(pathlib.Path(folder, name).is_file(), name)
            self.assertIn("bp_attrs_softmax.axis\n",
                          pathlib.Path(folder, "past", "without.txt").read_text())
            with contextlib.redirect_stderr(io.StringIO()) as words:
                nothing = pathlib.Path(folder, "nothing")
                self.assertEqual(generations.main(folder, nothing, attributes), 1)
            self.assertIn("expected headers, found none", words.getvalue())

    def test_the_pairs_start_at_the_oldest_version_that_loads(self):
        past, _ = generations.past_of(self.files, self.headers, self.abi)
        minor = max(self.abi["version"]["minor"] - 1, self.abi["version"]["core_min"] & 0xffff)
        self.assertIn(f"#define BP_ABI_MINOR {minor}", "\n".join(past.lines["version.h"]))


class Attributes(unittest.TestCase):
    def test_the_past_lacks_the_last_one_with_a_default(self):
        text, gone = generations.past_attributes(ATTRIBUTES)
        self.assertEqual(gone, ["bp_attrs_softmax.axis"])
        self.assertIn("bp_past_attribute<int64_t, -1> axis;\n} bp_attrs_softmax;", text)
        self.assertIn("  int64_t to;\n} bp_attrs_cast;", text, "a required one stays")
        self.assertIn("  bp_i64_span perm;\n} bp_attrs_transpose;", text, "no number")
        self.assertNotIn("BP_OPS_ASSERT(offsetof", text)
        self.assertIn('#include "backplane/past.h"', text)

    def test_the_future_has_one_more_in_each(self):
        text = generations.future_attributes(ATTRIBUTES)
        self.assertEqual(text.count("future_number"), 3)

    def test_a_header_that_has_none_is_refused(self):
        for text in ("", ATTRIBUTES.replace("/* All defaults. */", "")):
            with self.assertRaises(generations.AbiError):
                generations.past_attributes(text)


if __name__ == "__main__":
    unittest.main()
