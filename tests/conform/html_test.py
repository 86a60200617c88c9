#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page that bp-conform --html writes: its numbers are those of --json, it loads nothing, and
foreign text in it is text. Usage: html_test.py BP_CONFORM FAKES_FOLDER"""

import html.parser
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

CONFORM, FAKES = sys.argv[1:]
COUNTS = ("passed", "failed", "unsupported", "expected_failures", "total")
FOREIGN = "<script>alert('&amp;')</script>\"x"


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.counts, self.tags, self.links, self.texts, self.cell = {}, set(), [], [], None

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        self.links += [name for name in attrs if name in ("src", "href", "style", "onload")]
        if "data-count" in attrs:
            self.cell = (attrs["data-device"], attrs["data-part"], attrs["data-count"])

    def handle_data(self, data):
        self.texts.append(data)
        if self.cell is not None:
            self.counts[self.cell] = int(data)
            self.cell = None


def numbers(report):
    """{(device, part, count): number} of a JSON report."""
    found = {}
    for device in report["devices"]:
        parts = {name: part for name, part in device.items() if isinstance(part, dict)}
        for part, counts in {"all": device, **parts}.items():
            for name in COUNTS:
                found[device["device"], part, name] = counts[name]
    return found


class HtmlTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "card.html"
        result = subprocess.run(
            [CONFORM, f"{FAKES}/wrong_kernels", f"{FAKES}/sound", "--json", "--html", path,
             "--slowness", "6", "--level", "2", "--level", "3", "--filter", "L3.relu.f32",
             "--filter", "L2.fill", "--options", "wrong_kernels.device_fault=relu_negates",
             "--options", f"wrong_kernels.signal_file={FOREIGN}"],
            capture_output=True, text=True, check=False)
        assert result.returncode == 1, result.stderr
        cls.report = json.loads(result.stdout)
        cls.source = path.read_text(encoding="utf-8")
        cls.page = Page()
        cls.page.feed(cls.source)

    def test_numbers_are_those_of_the_json(self):
        expected = numbers(self.report)
        self.assertGreater(expected["wrong_kernels:0", "all", "failed"], 3)
        self.assertGreater(expected["sound:0", "level_2", "passed"], 3)
        self.assertEqual(self.page.counts, expected)

    def test_loads_nothing_and_runs_nothing(self):
        self.assertEqual(self.page.links, [])
        self.assertEqual(self.page.tags & {"script", "link", "img", "iframe", "object"}, set())
        self.assertNotIn("http", self.source)

    def test_failures_stand_there_with_words_and_the_command(self):
        text = " ".join(self.page.texts)
        for failure in self.report["devices"][0]["failures"]:
            for part in ("case", "words", "repeat"):
                self.assertIn(failure[part], text)

    def test_foreign_text_is_text(self):
        self.assertIn(FOREIGN, " ".join(self.page.texts))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
