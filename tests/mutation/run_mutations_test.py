# SPDX-License-Identifier: Apache-2.0
"""The judge of the tests is judged: what the check of mutations.yaml refuses, and copying."""

import pathlib
import tempfile
import unittest

import run_mutations

GOOD = {"id": "one", "file": "core/a.cpp", "old": "  wait();\n  go();", "new": "  ;\n  go();",
        "why": "a dropped wait", "killed_by": ["a_test"]}


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "core").mkdir()
        (self.root / "core/a.cpp").write_text("{\n  wait();\n  go();\n}\n", encoding="utf-8")
        (self.root / "core/CMakeLists.txt").write_text("bp_add_test(a_test SOURCES a_test.cpp)\n"
                                                       "add_test(NAME b_test COMMAND b)\n",
                                                       encoding="utf-8")

    def problems(self, **changes):
        return run_mutations.check(self.root, [{**GOOD, **changes}])

    def test_good_defect_is_accepted(self):
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(killed_by=["a_test", "b_test"]), [])

    def test_text_that_is_gone_or_not_unique_is_refused(self):
        self.assertIn("stands 0 times", self.problems(old="  stop();", new="  ;")[0])
        self.assertIn("stands 2 times", self.problems(old="()", new="")[0])
        self.assertIn("there is no core/b.cpp", self.problems(file="core/b.cpp")[0])

    def test_more_or_less_than_one_line_is_refused(self):
        self.assertIn("changes 2 lines", self.problems(new="  ;\n  ;")[0])
        self.assertIn("changes 0 lines", self.problems(new=GOOD["old"])[0])

    def test_unknown_test_or_field_is_refused(self):
        self.assertIn("there is no test c_test", self.problems(killed_by=["c_test"])[0])
        self.assertIn("its fields are", self.problems(owner="me")[0])

    def test_same_id_twice_is_refused(self):
        self.assertIn("one: more than once", run_mutations.check(self.root, [GOOD, GOOD]))

    def test_applied_text_has_the_new_line(self):
        text = (self.root / "core/a.cpp").read_text(encoding="utf-8")
        self.assertEqual(run_mutations.apply(GOOD, text), "{\n  ;\n  go();\n}\n")

    def test_copy_follows_the_tree_and_leaves_builds_out(self):
        (self.root / "build").mkdir()
        (self.root / "build/big.o").write_text("", encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            run_mutations.copy_tree(self.root, copy)
            self.assertTrue((copy / "core/a.cpp").is_file())
            self.assertFalse((copy / "build").exists())
            (copy / "core/a.cpp").write_text("patched", encoding="utf-8")
            (copy / "core/left.cpp").write_text("", encoding="utf-8")
            run_mutations.copy_tree(self.root, copy)
            self.assertIn("wait();", (copy / "core/a.cpp").read_text(encoding="utf-8"))
            self.assertFalse((copy / "core/left.cpp").exists())

    def test_reports_count_survivors_as_failures(self):
        rows = [{"id": "a", "file": "f", "why": "w", "failed_tests": ["t"], "seconds": 1},
                {"id": "b", "file": "f", "why": "w", "failed_tests": [], "seconds": 1}]
        run_mutations.write_reports(self.root / "reports", rows)
        summary = run_mutations.json.loads((self.root / "reports/mutation.json").read_text("utf-8"))
        self.assertEqual((summary["passed"], summary["failed"], summary["total"]), (1, 1, 2))
        self.assertIn("**nothing**", (self.root / "reports/mutation.md").read_text("utf-8"))


if __name__ == "__main__":
    unittest.main()
