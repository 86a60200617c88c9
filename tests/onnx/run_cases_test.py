# SPDX-License-Identifier: Apache-2.0
"""The judging of cases, on answers that are made up."""

import json
import pathlib
import sys
import tempfile
import unittest

import case_pool
import verdicts

# Answers as case_runner does; dies, hangs or ends early where the folder's name says so.
RUNNER = r"""
import os, sys, time
for line in sys.stdin:
    folder = line.strip()
    if "die" in folder: os.abort()
    if "hang" in folder: time.sleep(60)
    if "end" in folder: sys.exit(3)
    print(folder, "PASS", 1, 0, 0, 0, 1, 0, 0.5, "", sep="\t", flush=True)
"""


def case(name, op="Add", types=("FLOAT",), **more):
    nodes = [{"domain": more.pop("domain", ""), "op": op, "types": list(types)}]
    return {"name": name, "values": "", "opset": 20, "nodes": nodes, **more}


def answer(verdict="PASS", native=1, decomposed=0, fallback=0, here=1, elsewhere=0, widest=0.0):
    return case_pool.Answer(verdict, native, decomposed, fallback, 0, here, elsewhere, widest,
                            "words")


def excuse(pattern, widest=None):
    return verdicts.Excuse(pattern, widest, "so it is")


class PoolTest(unittest.TestCase):
    def run_pool(self, names, deadline=30):
        return case_pool.run([sys.executable, "-c", RUNNER], names, deadline=deadline)

    def test_crash_costs_one_case(self):
        names = [f"case{i}" for i in range(20)] + ["die1", "die2"] + [f"more{i}" for i in range(20)]
        answers = self.run_pool(names)
        self.assertEqual({n for n, a in answers.items() if a.verdict != "PASS"}, {"die1", "die2"})
        self.assertIn("SIGABRT", answers["die1"].words)
        self.assertEqual(len(answers), len(names))

    def test_hang_costs_one_case(self):
        answers = self.run_pool(["a", "hang", "b", "c"], deadline=1)
        self.assertEqual({n for n, a in answers.items() if a.verdict != "PASS"}, {"hang"})
        self.assertEqual((answers["hang"].verdict, answers["a"].widest), ("ERROR", 0.5))

    def test_early_end_is_a_crash(self):
        answers = self.run_pool(["end", "a"])
        self.assertEqual(answers["end"].verdict, "CRASH")
        self.assertIn("exit status 3", answers["end"].words)


class VerdictsTest(unittest.TestCase):
    def setUp(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ops.json"
            path.write_text(json.dumps({"operators": [
                {"types": [{"dtypes": ["f32", "f16"]}], "inputs": [], "outputs": [],
                 "onnx_operators": ["Add", "Sum"]}]}))
            self.operators = verdicts.Operators(path)

    def judge(self, cases, answers, denied=None, excuses=()):
        return verdicts.judge("x:0", cases, answers, denied, self.operators, excuses)

    def test_why_a_case_need_not_pass(self):
        for made, why in (
                (case("a"), ""), (case("a", "Sum", ["FLOAT16"]), ""),
                (case("a", "Mul"), "operators that are not ours: Mul"),
                (case("a", domain="ai.onnx.ml"), "operators that are not ours: ai.onnx.ml.Add"),
                (case("a", types=["DOUBLE"]), "Add is not for f64"),
                (case("a", types=["STRING"]), "types that are not ours: string"),
                (case("a") | {"opset": 5}, "operator set 5; 6 is the oldest that is read"),
                (case("a") | {"values": "texts"}, "not tensors: texts")):
            self.assertEqual(self.operators.lack(made), why)

    def test_refusals_are_for_what_we_lack(self):
        cases = [case("wrong"), case("refused"), case("unknown", "Mul"), case("excused")]
        table = self.judge(cases, {"wrong": answer("WRONG"), "refused": answer("REFUSED"),
                                   "unknown": answer("REFUSED"), "excused": answer("REFUSED")},
                           excuses=[excuse("exc.*")])
        self.assertEqual((table["passed"], table["failed"], table["refused"]), (0, 2, 2))
        self.assertEqual(verdicts.problems_of(table, {}),
                         ["x:0: wrong must pass: WRONG words",
                          "x:0: refused must pass: REFUSED words"])

    def test_nothing_excuses_crashes_hangs_and_other_errors(self):
        cases = [case("crash", "Mul"), case("error", "Mul"), case("wrong", "Mul"),
                 case("excused error")]
        table = self.judge(cases, {"crash": answer("CRASH"), "error": answer("ERROR"),
                                   "wrong": answer("WRONG"), "excused error": answer("ERROR")},
                           excuses=[excuse("crash|excused.*")])
        self.assertEqual((table["failed"], table["refused"]), (4, 0))
        self.assertEqual([row["reason"] for row in table["not_passed"]], ["must pass"] * 4)

    def test_wrong_values_are_excused_within_a_bound(self):
        errors = {"within": 12, "beyond": 12.1, "zeros": 1000, "other": float("inf")}
        excuses = [excuse(".*", widest=12.0)]
        table = self.judge([case(n) for n in errors],
                           {n: answer("WRONG", widest=w) for n, w in errors.items()},
                           excuses=excuses)
        self.assertEqual([row["case"] for row in table["not_passed"]
                          if row["reason"] == "so it is"], ["within"])
        table = self.judge([case("a")], {"a": answer("REFUSED")}, excuses=excuses)
        self.assertEqual(table["failed"], 1)
        table = self.judge([case("a")], {"a": answer("WRONG")}, excuses=[excuse("a")])
        self.assertEqual(table["failed"], 1)

    def test_excuse_of_what_passes_is_a_problem(self):
        table = self.judge([case("a"), case("b")], {"a": answer(), "b": answer("REFUSED")})
        self.assertEqual(verdicts.idle_excuses([excuse("a|b"), excuse("b"), excuse("c")], table),
                         ["excused.txt: 'c' excuses no case",
                          "excused.txt: 'a|b' excuses a, which passes"])

    def test_excuses_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "excused.txt"
            path.write_text("# PATTERN\na(b)?: refused: no: never\nc: 1.5 tolerances: rounded\n")
            self.assertEqual(verdicts.read_excuses(path),
                             [("a(b)?", None, "no: never"), ("c", 1.5, "rounded")])
            path.write_text("a: rounded\n")
            with self.assertRaises(ValueError):
                verdicts.read_excuses(path)
        self.assertGreater(len(verdicts.read_excuses()), 0)

    def test_ways_and_launches(self):
        cases = [case(n) for n in "abcde"]
        answers = {"a": answer(), "b": answer(decomposed=1), "c": answer(fallback=1, elsewhere=1),
                   "d": answer(native=0, here=0), "e": answer(elsewhere=1)}
        table = self.judge(cases, answers, denied=answers)
        self.assertEqual([table[w] for w in ("views only", "native", "decomposed", "fallback")],
                         [1, 2, 1, 1])
        self.assertEqual(table["passing_denied"], ["a", "b"])

    def test_floor_holds_for_what_was_tried(self):
        table = self.judge([case("a", "Mul")], {"a": answer("REFUSED")}, {"a": answer("REFUSED")})
        floor = {"x:0": ["a", "not tried"], "x:0 denied": ["a"]}
        self.assertEqual(verdicts.problems_of(table, floor),
                         ["x:0: a passed before",
                          "x:0: a passed with BACKPLANE_FALLBACK=deny before"])

    def test_floor_neither_shrinks_nor_names_what_is_no_case(self):
        names = [f"case{i}" for i in range(max(verdicts.LISTED.values()))]
        floor = {key: names[:count] for key, count in verdicts.LISTED.items()}
        self.assertEqual(verdicts.floor_problems(floor, names), [])
        changed = [*floor["cpu:0"][1:], "gone"]
        self.assertEqual(verdicts.floor_problems({**floor, "cpu:0": changed}, names),
                         ["floor.json: 'cpu:0' has gone, which is no case"])
        for listed in (floor["xpu:0 denied"][1:], floor["xpu:0 denied"] + names[-1:]):
            problem, = verdicts.floor_problems({**floor, "xpu:0 denied": listed}, names)
            self.assertIn(f"'xpu:0 denied' has {len(listed)} cases, LISTED", problem)
        self.assertEqual(len(verdicts.floor_problems({}, names)), len(verdicts.LISTED))

    def test_the_floor_is_whole(self):
        floor = json.loads((verdicts.HERE / "floor.json").read_text("utf-8"))
        self.assertEqual({key: len(set(names)) for key, names in floor.items()}, verdicts.LISTED)


if __name__ == "__main__":
    unittest.main()
