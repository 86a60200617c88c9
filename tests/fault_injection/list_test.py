# SPDX-License-Identifier: Apache-2.0
"""Every function of the application API is swept by the fault tests: list_test.py SOURCE_ROOT.

Exempt are those that hold no resource and answer from what is there already.
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "tests" / "api"))
import api_headers  # noqa: E402

EXEMPT = {
    "bpa_version": "a literal",
    "bpa_status_name": "a literal",
    "bpa_last_error": "read after every failure of the sweep",
    "bpa_last_error_op": "a text that is there already, as bpa_last_error's",
    "bpa_ccl_store_create_tcp": "its server, a thread of this process, meets the faults as well, "
                                "and then the client's error is that of a lost server",
}


class ListTest(unittest.TestCase):

    def setUp(self):
        functions, _ = api_headers.read(ROOT / "core" / "api" / "include")
        self.declared = {function.name for function in functions}
        calls = ROOT / "tests" / "fault_injection" / "calls"
        text = "".join(path.read_text(encoding="utf-8") for path in sorted(calls.glob("*.cpp")))
        self.called = set(re.findall(r"\bbpa_\w+(?=\()", text))
        world = (ROOT / "tests" / "fault_injection" / "world.cpp").read_text(encoding="utf-8")
        self.called |= set(re.findall(r"\bbpa_\w+(?=\()", world))

    def test_every_function_is_called_or_exempt(self):
        self.assertEqual(sorted(self.declared - self.called - EXEMPT.keys()), [])

    def test_exemptions_are_needed_and_exist(self):
        self.assertEqual(sorted(EXEMPT.keys() - self.declared), [])


if __name__ == "__main__":
    unittest.main()
