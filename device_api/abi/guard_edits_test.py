# SPDX-License-Identifier: Apache-2.0
"""The guard against edits of the real headers, kept as data: what breaks the contract is refused by
name, what is appended passes once it is recorded, what is harmless passes as it is."""

import json
import pathlib
import re
import shutil
import tempfile
import unittest

import contract
import describe
import edits_of_form
import guard
from edits_of_collectives import COLLECTIVES
from edits_of_rules import RULES
from edits_of_words import WORDS
from edits_that_pass import APPENDED, HARMLESS

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parent / "include" / "backplane"
BREAKING = (edits_of_form.LAYOUT + edits_of_form.VALUES + edits_of_form.FORM + WORDS + RULES
            + COLLECTIVES)
# It says where the rules are, and is none.
BESIDE = re.compile(r"beside each \w+")


def ruled(record):
    """The things of a contract that have rules of their own."""
    entries = {**record["headers"], **record["structs"]}
    for name, struct in record["structs"].items():
        entries |= {f"{name}.{member}": rest for member, rest in struct.get("members", {}).items()}
    for kind in ("slots", "functions", "constants", "runs"):
        entries |= record[kind]
    return {name for name, entry in entries.items()
            if any(not BESIDE.fullmatch(rule) for rule in entry.get("rules", []))}


class Edits(unittest.TestCase):
    """Each edit on a copy of the headers, whose version is open for what is appended."""

    @classmethod
    def setUpClass(cls):
        cls.texts = {path.name: describe.header_text(path) for path in HEADERS.glob("*.h")}
        version = describe.describe(HEADERS)["version"]
        cls.numbers = {"{minor}": str(version["minor"]),
                       "{core_min}": str(version["core_min"] & 0xffff)}

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for record in HERE.glob("*.json"):
            shutil.copy(record, self.folder)
        index = json.loads((self.folder / "records.json").read_text())
        index["records"][-1]["state"] = "open"
        (self.folder / "records.json").write_text(json.dumps(index))

    def numbered(self, text):
        for mark, number in self.numbers.items():
            text = text.replace(mark, number)
        return text

    def edited(self, header, texts):
        """The description of the headers after an edit; AbiError if it cannot be made."""
        content = self.texts[header]
        for old, new in texts:
            old = self.numbered(old)
            self.assertTrue(old in content, f"{header} does not have the text '{old}'")
            content = content.replace(old, new, 1)
        self.assertNotEqual(content, self.texts[header], "the edit changes nothing")
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**self.texts, header: content}.items():
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            return describe.describe(folder)

    def judged(self, header, texts, *updates):
        """The problems of an edit for each way of asking, without and with --update."""
        try:
            description = self.edited(header, texts)
            return [guard.judge(description, self.folder, update)[0] for update in updates]
        except guard.AbiError as error:
            self.assertEqual(str(error).count("\n"), 0, "one line")
            return [[str(error)]] * len(updates)

    def records_text(self):
        return {path.name: path.read_text() for path in self.folder.iterdir()}

    def test_there_are_enough_of_them(self):
        names = [row[0] for row in BREAKING + APPENDED + HARMLESS]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(len(BREAKING), 550)
        self.assertGreaterEqual(len(APPENDED) + len(HARMLESS), 50)

    def test_each_thing_with_a_rule_has_an_edit_of_it(self):
        edited = {row[3].partition(": the rule")[0] for row in BREAKING}
        for thing in sorted(ruled(contract.contract_of(describe.describe(HEADERS)))):
            with self.subTest(thing):
                self.assertIn(thing, edited)

    def test_what_breaks_is_refused_by_name(self):
        before = self.records_text()
        for name, header, texts, words in BREAKING:
            with self.subTest(name):
                for problems in self.judged(header, texts, False, True):
                    self.assertIn(words, "\n".join(problems))
        self.assertEqual(self.records_text(), before, "no record was written")

    def test_what_is_appended_passes_once_it_is_recorded(self):
        for name, header, texts, words in APPENDED:
            with self.subTest(name):
                self.setUp()
                asked, updated, again = self.judged(header, texts, False, True, False)
                self.assertEqual(len(asked), 1, asked)
                self.assertIn("does not have yet: ", asked[0])
                self.assertIn(words, asked[0])
                self.assertIn(guard.UPDATE, asked[0], "what to do stands in the message")
                self.assertEqual((updated, again), ([], []))

    def test_what_is_harmless_passes(self):
        for name, header, texts in HARMLESS:
            with self.subTest(name):
                self.assertEqual(self.judged(header, texts, False), [[]])


if __name__ == "__main__":
    unittest.main()
