# SPDX-License-Identifier: Apache-2.0
"""The guard's records, versions and errors: guard_test.py [CC]. Edits of the headers are
guard_edits_test.py's."""

import contextlib
import io
import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import expressions
import guard
import records

HERE = pathlib.Path(__file__).resolve().parent
COMPILER = "cc"
ADR = next(path for path in sorted((records.ROOT / "docs" / "adr").glob("0*.md"), reverse=True)
           ).relative_to(records.ROOT).as_posix()
BREAK = ("memory.h", "#define BP_USAGE_IO 2u", "#define BP_USAGE_IO 7u")
FIRST_LAYOUT_HASH = "fa5e23b535db8e4f98f6801ee83a0075ae8fdd2a524462d5ebbcd0baf5c5f8e7"
APPEND = ("memory.h", "#define BP_USAGE_COMM 3u",
          "#define BP_USAGE_COMM 3u\n#define BP_USAGE_SCRATCH 4u")


class OnACopy(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.headers = folder / "include"
        self.records = folder / "records"
        self.records.mkdir()
        shutil.copytree(HERE.parent / "include", self.headers)
        for record in HERE.glob("*.json"):
            shutil.copy(record, self.records)
        self.version = records.read(self.records).newest.version
        self.text = records.version_text(self.version)

    def judged(self, update=False, adr=None):
        return guard.run(self.headers, self.records, None, update, adr)[0]

    def refused(self, words, update=False, adr=None):
        """The guard's error, of one line, has these words."""
        with self.assertRaises(guard.AbiError) as caught:
            guard.run(self.headers, self.records, None, update, adr)
        self.assertIn(words, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def edit(self, header, old, new):
        path = self.headers / "backplane" / header
        content = path.read_text()
        self.assertEqual(content.count(old), 1, old)
        path.write_text(content.replace(old, new))

    def set_state(self, state):
        path = self.records / "records.json"
        index = json.loads(path.read_text())
        index["records"][-1]["state"] = state
        path.write_text(records.text_of(index))

    def raise_minor(self, core_min=False):
        """The next version; with core_min, one that loads no older plugin."""
        self.minor = (self.version & 0xffff) + 1
        path = self.headers / "backplane" / "version.h"
        text = re.sub(r"(#define BP_ABI_MINOR) \d+", rf"\1 {self.minor}", path.read_text())
        if core_min:
            text = re.sub(r"(#define BP_ABI_CORE_MIN) [^\n]*", r"\1 BP_ABI_CURRENT", text)
        path.write_text(text)


class Versions(OnACopy):
    def test_the_headers_as_they_are_pass(self):
        problems, note = guard.run(HERE.parent / "include", HERE, COMPILER)
        self.assertEqual(problems, [])
        self.assertIn("as recorded in layout-", note)

    def test_the_first_layout_is_the_one_that_was_released(self):
        record = (HERE / "layout-0.1.json").read_text()
        self.assertEqual(records.hash_of(record), FIRST_LAYOUT_HASH)

    def test_a_new_version_needs_a_record_and_keeps_to_the_old_one(self):
        self.raise_minor()
        self.edit(*APPEND)
        self.assertIn("does not have yet: BP_USAGE_SCRATCH", self.judged()[0])
        self.assertEqual(self.judged(update=True), [])
        self.assertEqual(self.judged(), [])
        self.edit(*BREAK)
        for update in (False, True):
            problems = self.judged(update)
            self.assertTrue(any(problem.startswith(f"against 0.{self.minor}: ")
                                for problem in problems), problems)

    def test_a_new_version_that_loads_old_plugins_breaks_nothing(self):
        self.raise_minor()
        self.edit(*BREAK)
        problems = self.judged(update=True, adr=ADR)
        self.assertIn(f"against {self.text}: BP_USAGE_IO was renumbered", problems[0])
        self.assertIn("needs an ADR", problems[-1])

    def test_a_raised_minimum_alone_lets_no_break_through(self):
        self.edit("version.h", "#define BP_ABI_CORE_MIN ", "#define BP_ABI_CORE_MIN 1000u + ")
        self.refused("expected a BP_ABI_CORE_MIN of at most")
        self.raise_minor(core_min=True)
        self.edit(*BREAK)
        problems = self.judged(update=True)
        self.assertTrue(any("BP_USAGE_IO was renumbered" in line for line in problems), problems)
        self.assertTrue(any("BP_ABI_CORE_MIN was" in line for line in problems), problems)
        self.assertIn("needs an ADR", self.judged()[-1])

    def test_a_break_passes_where_no_core_loads_the_old_version(self):
        self.raise_minor(core_min=True)
        self.edit(*BREAK)
        adr = self.records.parent / "adr.md"
        adr.write_text(f"# Headers 0.{self.minor}\n")
        root = self.enterContext(tempfile.TemporaryDirectory())
        self.addCleanup(setattr, records, "ROOT", records.ROOT)
        records.ROOT = pathlib.Path(root)
        name = "docs/adr/0099-a-break.md"
        self.refused("expected a file docs/adr/", update=True, adr=name)
        (records.ROOT / "docs" / "adr").mkdir(parents=True)
        (records.ROOT / name).write_text("# Something else\n")
        self.refused("expected the ADR of a break to name the version", update=True, adr=name)
        (records.ROOT / name).write_text(f"# Headers 0.{self.minor}\n")
        self.assertEqual(self.judged(update=True, adr=name), [])
        self.assertEqual(self.judged(), [])
        record = json.loads((self.records / f"contract-0.{self.minor}.json").read_text())
        self.assertEqual(record["breaks"]["adr"], name)
        self.assertIn("BP_USAGE_IO was renumbered from 2 to 7; add a new constant instead",
                      record["breaks"]["changes"])
        self.assertEqual(record["previous"]["version"], self.text)

    def test_versions_come_one_after_the_other(self):
        self.version += 1
        self.raise_minor()
        self.assertIn("the version after", self.judged()[0])

    def test_the_version_never_goes_back(self):
        self.raise_minor()
        self.assertEqual(self.judged(update=True), [])
        self.edit("version.h", f"BP_ABI_MINOR {self.minor}", f"BP_ABI_MINOR {self.minor - 1}")
        self.assertIn("the version never goes back", self.judged()[0])


class Records(OnACopy):
    def test_a_released_record_is_never_written(self):
        self.set_state("released")
        before = {path.name: path.read_text() for path in self.records.iterdir()}
        self.edit(*APPEND)
        for update in (False, True):
            self.assertIn(f"{self.text} is released", self.judged(update)[0])
            self.assertIn("Raise BP_ABI_MINOR to", self.judged(update)[0])
        self.edit(*BREAK)
        self.assertIn("needs an ADR", self.judged(update=True, adr=ADR)[-1])
        self.assertEqual({path.name: path.read_text() for path in self.records.iterdir()}, before)

    def test_an_open_version_that_was_taken_out_is_recorded_anew(self):
        self.raise_minor()
        header, old, new = APPEND
        self.edit(header, old, f"{new} /* Rules: once */")
        self.assertEqual(self.judged(update=True), [])
        self.edit(header, "Rules: once", "Rules: twice")
        self.assertIn("BP_USAGE_SCRATCH: the rule 'once' was changed to 'twice'",
                      self.judged(update=True)[0])
        for kind in ("layout", "contract"):
            (self.records / f"{kind}-0.{self.minor}.json").unlink()
        path = self.records / "records.json"
        index = json.loads(path.read_text())
        index["records"].pop()
        path.write_text(records.text_of(index))
        self.assertEqual(self.judged(update=True), [])
        self.assertEqual(self.judged(), [])

    def test_an_open_version_is_released_once(self):
        self.set_state("open")
        problems, note = guard.release(self.headers, self.records, None)
        self.assertEqual((problems, note), ([], f"{self.text} is released"))
        self.assertTrue(records.read(self.records).newest.is_released)

    def test_the_next_version_releases_the_one_before(self):
        self.set_state("open")
        self.raise_minor()
        self.assertEqual(self.judged(update=True), [])
        states = [entry.is_released for entry in records.read(self.records).entries]
        self.assertEqual(states, [True] * (len(states) - 1) + [False])

    def test_a_removed_record_is_missed(self):
        self.edit(*BREAK)
        for kind in ("layout", "contract"):
            path = self.records / f"{kind}-{self.text}.json"
            content = path.read_text()
            path.unlink()
            for update in (False, True):
                self.refused(f"{path.name}: expected this record, found none", update, ADR)
            path.write_text(content)

    def test_a_removed_index_is_missed(self):
        (self.records / "records.json").unlink()
        for update in (False, True):
            self.refused("records.json: expected this record, found none", update)

    def test_a_changed_record_is_noticed(self):
        path = self.records / f"layout-{self.text}.json"
        path.write_text(path.read_text().replace('"BP_USAGE_IO": 2', '"BP_USAGE_IO": 7'))
        self.edit(*BREAK)
        for update in (False, True):
            self.refused(f"{path.name}: expected the hash ", update)

    def test_a_record_that_is_not_listed_is_refused(self):
        path = self.records / "records.json"
        index = json.loads(path.read_text())
        if len(index["records"]) == 1:
            self.raise_minor()
            self.assertEqual(self.judged(update=True), [])
            index = json.loads(path.read_text())
        path.write_text(records.text_of({"records": index["records"][:-1]}))
        for update in (False, True):
            self.refused("expected a record that records.json lists", update)

    def test_an_older_record_cannot_be_exchanged_with_its_line(self):
        self.raise_minor()
        self.assertEqual(self.judged(update=True), [])
        path = self.records / f"layout-{self.text}.json"
        text = path.read_text().replace('"BP_USAGE_IO": 2', '"BP_USAGE_IO": 7')
        path.write_text(text)
        index = json.loads((self.records / "records.json").read_text())
        index["records"][-2]["layout"] = records.hash_of(text)
        (self.records / "records.json").write_text(records.text_of(index))
        self.refused("expected the hashes of the version before")

    def test_a_broken_index_is_one_line(self):
        for text, words in (("", "records.json:1: expected JSON"),
                            ("{}", "expected a list of records"),
                            ('{"records": []}', "expected a list of records"),
                            ('{"records": [3]}', "entry 1: expected contract, layout"),
                            ('{"records": [{"version": 1, "state": "open", "layout": "", '
                             '"contract": ""}]}', "expected a version like 0.1")):
            (self.records / "records.json").write_text(text)
            self.refused(words)

    def test_a_record_with_a_strange_name_is_refused(self):
        (self.records / "layout-old.json").write_text("{}")
        self.refused("layout-old.json")


class Unreadable(OnACopy):
    """What cannot be read is one line that names the file, and no traceback."""

    def written(self, content, header="memory.h"):
        (self.headers / "backplane" / header).write_bytes(content)

    def test_bytes_that_are_no_text(self):
        good = (self.headers / "backplane" / "memory.h").read_bytes()
        for content, words in (
                (good + b"\n/* \xff */\n", "expected UTF-8, found the byte 0xff"),
                (good + b"\x00", "found character 0x0"),
                (good.replace(b"  uint64_t", b"\x0c uint64_t"), "found character 0xc"),
                (b"", "memory.h:1: expected '#ifndef BACKPLANE_MEMORY_H' first"),
                (good[:-8], "memory.h:"), (good + good, "expected nothing behind"),
                (good.replace(b"*/", b"", 1), "memory.h:"),
                (good + b"/* no end", "expected a comment that ends")):
            self.written(content)
            self.refused(words)

    def test_each_header_cut_anywhere_is_one_line(self):
        for path in sorted((HERE.parent / "include" / "backplane").glob("*.h")):
            content = path.read_bytes()
            for part in range(1, 12):
                self.written(content[:len(content) * part // 12], path.name)
                with self.subTest(path.name, part=part):
                    self.refused(".h:")
            self.written(content, path.name)

    def test_expressions_that_are_none(self):
        for text in ("(", "1 +", "1 2", "09u", "1 << 64", "1 << -1", "9u ** 9u ** 9u", "'a'",
                     "sizeof(int)", "0x", "1.5", "2147483647 + 1", "(uint32_t)", "BP_LATER", "()",
                     "BP_DTYPE_BIT(BP_DTYPE_BIT(1", "1u/0u", "1uu", "lambda: 1", "__import__"):
            with self.subTest(text):
                self.edit("types.h", "#define BP_MAX_RANK 16u", f"#define BP_MAX_RANK {text}")
                self.refused("types.h:")
                self.edit("types.h", f"#define BP_MAX_RANK {text}", "#define BP_MAX_RANK 16u")

    def test_what_only_the_compiler_refuses(self):
        self.edit("types.h", "typedef struct bp_mem {\n", "typedef struct bp_mem {\n"
                                                          "  uint64_t register;\n")
        with self.assertRaises(guard.AbiError) as caught:
            guard.run(self.headers, self.records, COMPILER)
        self.assertRegex(str(caught.exception), r"^the compiler refuses the headers: types\.h:\d+")
        self.assertNotIn("\n", str(caught.exception))

    def test_no_compiler_and_no_headers(self):
        for arguments, words in (
                (["--cc", "no-such-compiler"], "'no-such-compiler' cannot be run"),
                (["--headers", str(self.records)], "expected headers, found none"),
                (["--records", str(self.headers)], "records.json: expected this record")):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.assertEqual(guard.main(arguments), 1)
            self.assertIn(words, out.getvalue())
            self.assertEqual(out.getvalue().count("\n"), 1)


class Expressions(unittest.TestCase):
    def test_values_and_types_are_those_of_c(self):
        for text, expected in (
                ("1", (1, "i32")), ("1u", (1, "u32")), ("0x80000000", (2**31, "u32")),
                ("2147483648", (2**31, "i64")), ("010", (8, "i32")), ("1ull", (1, "u64")),
                ("(uint64_t)1 << 40", (2**40, "u64")), ("1u << 31", (2**31, "u32")),
                ("~0u", (2**32 - 1, "u32")), ("-1", (-1, "i32")), ("0u - 1u", (2**32 - 1, "u32")),
                ("UINT64_MAX", (2**64 - 1, "u64")), ("UINT64_C(3)", (3, "u64")),
                ("1 + 2 * 3 << 1 | 1", (15, "i32")), ("(uint8_t)300", (44, "u8")),
                ("(uint8_t)1 + 1", (2, "i32")), ("1u + (int64_t)1", (2, "i64")),
                ("(int32_t)5", (5, "i32")), ("BP_TWICE(1 + 1)", (4, "u32")),
                ("BP_ONE << BP_ONE", (2, "u64"))):
            with self.subTest(text):
                found = expressions.evaluate(text, {"BP_ONE": (1, "u64")},
                                             {"BP_TWICE": (["x"], "((x)*2u)")}, "here")
                self.assertEqual(found, expected)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        COMPILER = sys.argv.pop(1)
    unittest.main()
