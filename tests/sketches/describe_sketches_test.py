# SPDX-License-Identifier: Apache-2.0
"""The sketched headers obey the style of the released ones, and stay out of what is released.

The same reader that makes abi.json reads them, together with the released headers that they
include; none of their structs may turn up in the layout record.
"""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKETCHES = ROOT / "tests" / "sketches" / "include" / "backplane" / "sketch"
sys.path.insert(0, str(ROOT / "device_api" / "abi"))

import describe  # noqa: E402  (it stands in the folder named above)


class SketchedHeaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            for header in (ROOT / "device_api" / "include" / "backplane").glob("*.h"):
                shutil.copy(header, folder)
            for header in SKETCHES.glob("*.h"):
                shutil.copy(header, folder)
            cls.description = describe.describe(folder)
        cls.names = {header.name for header in SKETCHES.glob("*.h")}
        cls.structs = [s for s in cls.description["structs"] if s["file"] in cls.names]

    def test_every_sketch_has_a_table_whose_slots_say_everything(self):
        tables = {s["file"]: s for s in self.structs if s["role"] == "table"}
        self.assertEqual(set(tables), self.names)
        for table in tables.values():
            for member in table["members"]:
                if "slot" in member:
                    self.assertTrue(member["slot"]["threads"], member["name"])

    def test_no_struct_is_in_the_layout_record(self):
        for record in (ROOT / "device_api" / "abi").glob("layout-*.json"):
            text = json.dumps(json.loads(record.read_text()))
            for struct in self.structs:
                self.assertNotIn(f'"{struct["name"]}"', text)

    def test_nothing_of_them_is_installed(self):
        released = ROOT / "device_api" / "include"
        self.assertFalse([header for header in released.rglob("*.h") if header.name in self.names])


if __name__ == "__main__":
    unittest.main()
