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
    print(folder, "PASS", 1, 0, 0, 0, 1, 0, "", sep="\t", flush=True)
"""


def case(name, op="Add", types=("FLOAT",), **more):
    nodes = [{"domain": more.pop("domain", ""), "op": op, "types": list(types)}]
    return {"name": name, "values": "", "opset": 20, "nodes": nodes, **more}


def answer(verdict="PASS", native=1, decomposed=0, fallback=0, here=1, elsewhere=0):
    return case_pool.Answer(verdict, native, decomposed, fallback, 0, here, elsewhere, "words")


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

    def test_wrong_values_fail_whatever_refusals_need_not(self):
        cases = [case("wrong"), case("refused"), case("unknown", "Mul"), case("excused")]
        table = self.judge(cases, {"wrong": answer("WRONG"), "refused": answer("REFUSED"),
                                   "unknown": answer("REFUSED"), "excused": answer("REFUSED")},
                           excuses=[("exc.*", "so it is")])
        self.assertEqual((table["passed"], table["failed"], table["refused"]), (0, 1, 3))
        self.assertEqual(verdicts.problems_of(table, {}),
                         ["x:0: wrong must pass: WRONG words",
                          "x:0: refused must pass: REFUSED words"])

    def test_wrong_values_and_crashes_need_an_excuse(self):
        cases = [case("wrong", "Mul"), case("crash"), case("random")]
        table = self.judge(cases, {"wrong": answer("WRONG"), "crash": answer("CRASH"),
                                   "random": answer("WRONG")},
                           excuses=[("crash|random", "so it is")])
        self.assertEqual((table["failed"], table["refused"]), (2, 1))
        self.assertEqual(verdicts.problems_of(table, {}),
                         ["x:0: wrong must pass: WRONG words", "x:0: crash must pass: CRASH words"])

    def test_excuse_of_what_passes_is_a_problem(self):
        table = self.judge([case("a"), case("b")], {"a": answer(), "b": answer("REFUSED")})
        self.assertEqual(verdicts.idle_excuses([("a|c", "no"), ("b", "yes")], table),
                         ["excused.txt: 'a|c' excuses no case"])

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
        names = [f"case{i}" for i in range(1300)]
        floor = {"cpu:0": names, "npu:0 denied": names[:900], "xpu:0 denied": names[:900]}
        self.assertEqual(verdicts.floor_problems(floor, names), [])
        self.assertEqual(verdicts.floor_problems({**floor, "cpu:0": names[1:] + ["gone"]}, names),
                         ["floor.json: 'cpu:0' has gone, which is no case"])
        self.assertEqual(verdicts.floor_problems({**floor, "xpu:0 denied": names[:899]}, names),
                         ["floor.json: 'xpu:0 denied' has 899 cases, expected 900 or more"])
        self.assertEqual(len(verdicts.floor_problems({}, names)), 3)


if __name__ == "__main__":
    unittest.main()
