# SPDX-License-Identifier: Apache-2.0
"""What the speed tables say and how they end, on made-up figures: nothing is measured here."""

import contextlib
import io
import json
import pathlib
import statistics
import sys
import tempfile
import unittest

import against
import figures as measured
import model_speed
import op_cases
import ops_speed
import peer_child
import report
import sides


def figures_of(**values):
    figures = measured.Figures()
    for name, rounds in values.items():
        for value in rounds:
            figures.add(name, value)
    return figures


def status_of(*rows):
    with contextlib.redirect_stdout(io.StringIO()):
        return measured.exit_status(rows)


class SpeedTable(unittest.TestCase):
    def row(self, figures, limit=2.0):
        return report.row_of(figures, "a / b", "a", "b", limit)

    def test_within_the_target_is_met(self):
        row = self.row(figures_of(a=[2, 20, 3], b=[1, 10, 2]))
        self.assertEqual((row["status"], row["ratio"]), ("met", 2))
        self.assertEqual(status_of(row), 0)

    def test_a_missed_target_fails(self):
        row = self.row(figures_of(a=[2.1], b=[1]))
        self.assertEqual(row["status"], "MISSED")
        self.assertEqual(status_of(row), 1)

    def test_a_missed_lower_bound_fails(self):
        row = report.judged("a", 0.8, 0.9, at_least=True)
        self.assertEqual((row["status"], status_of(row)), ("MISSED", 1))

    def test_a_row_with_a_target_that_did_not_run_fails_and_says_why(self):
        figures = figures_of(a=[1])
        figures.lack("b", "no package torch")
        row = self.row(figures)
        self.assertEqual((row["status"], row["why"]), ("NOT RUN", "b: no package torch"))
        self.assertEqual(status_of(row), 1)

    def test_a_row_without_a_target_that_did_not_run_is_said(self):
        row = self.row(figures_of(a=[1]), limit=None)
        self.assertEqual((row["status"], row["why"]), ("NOT RUN", "b: no program printed it"))
        self.assertEqual(status_of(row), 0)

    def test_rounds_that_do_not_pair_are_refused(self):
        with self.assertRaises(ValueError):
            self.row(figures_of(a=[1, 1], b=[1]))


class TableOfTwoBuilds(unittest.TestCase):
    def row(self, new, old):
        return against.row_of("a", "a", figures_of(a=new), figures_of(a=old), True)

    def test_beyond_the_tolerance_is_slower_and_fails(self):
        row = self.row([1.1, 2.2, 3.3], [1, 2, 3])
        self.assertEqual((row["status"], status_of(row)), ("SLOWER", 1))

    def test_one_slow_round_of_three_is_not(self):
        row = self.row([1, 9, 1], [1, 1, 1])
        self.assertEqual((row["status"], status_of(row)), ("not slower", 0))

    def test_a_row_of_one_build_alone_fails(self):
        row = against.row_of("a", "a", figures_of(a=[1]), figures_of(), True)
        self.assertEqual((row["status"], status_of(row)), ("NOT RUN", 1))


class ProgramsOutput(unittest.TestCase):
    def keep(self, *repetitions, **row):
        figures = measured.Figures()
        times = repetitions or [{"real_time": 3, "cpu_time": 2}]
        measured.keep_rows([{"time_unit": "us"} | row | time for time in times], figures)
        return figures

    def test_the_wall_clock_is_taken_where_the_benchmark_says_so(self):
        self.assertEqual(self.keep(name="a").rounds, {"a": [2000]})
        self.assertEqual(self.keep(name="a/real_time").rounds, {"a": [3000]})
        self.assertEqual(self.keep(name="a/iterations:5/manual_time").rounds, {"a": [3000]})

    def test_the_quickest_repetition_counts_and_of_the_wall_clock_the_median(self):
        times = [{"real_time": real, "cpu_time": cpu} for real, cpu in ((9, 4), (5, 8), (7, 6))]
        self.assertEqual(self.keep(*times, name="a").rounds, {"a": [4000]})
        self.assertEqual(self.keep(*times, name="a/real_time").rounds, {"a": [7000]})

    def test_a_repetition_that_gave_up_is_told(self):
        times = [{"real_time": 3, "cpu_time": 2}, {"error_occurred": True, "error_message": "busy"}]
        self.assertEqual(self.keep(*times, name="a").lack_of("a"), "a: busy")

    def test_a_benchmark_that_gave_up_has_its_words_and_no_figure(self):
        figures = self.keep(name="a", error_occurred=True, error_message="no device")
        self.assertEqual((figures.rounds, figures.reasons), ({}, {"a": "no device"}))

    def test_another_library_than_the_asked_for_is_refused(self):
        measured.check_library("program", "/a/lib/libbackplane.so.0", "/a/lib")
        with self.assertRaises(SystemExit) as refused:
            measured.check_library("program", "/b/lib/libbackplane.so.0", "/a/lib")
        self.assertIn("expected that of /a/lib", str(refused.exception))


class Rounds:
    """A side with these medians, and without a name."""

    def __init__(self, *rounds):
        self.rounds = list(rounds)
        self.turns = 0

    def median(self):
        return statistics.median(self.rounds)

    def turn(self, seconds):
        self.rounds.append(self.next(len(self.rounds)) * seconds)
        self.turns += 1


class Race(unittest.TestCase):
    def test_nine_values_leave_out_one_at_each_end(self):
        self.assertEqual(sides.interval([9, 1, 2, 3, 4, 5, 6, 7, 100]), (5, 2, 9))

    def test_five_values_say_too_little(self):
        self.assertFalse(sides.is_narrow([1, 1, 1, 1, 1]))

    def test_a_ratio_is_the_others_time_by_ours_less_what_calls_cost(self):
        self.assertEqual(sides.ratios(Rounds(12, 22), Rounds(31, 41), 2, 1), [3, 2])

    def test_steady_sides_end_after_the_first_rounds(self):
        ours, other = Rounds(), Rounds()
        ours.next = other.next = lambda round_: 5
        self.assertTrue(sides.race([ours, other], 1))
        self.assertEqual((ours.turns, other.turns), (9, 9))

    def test_unsteady_sides_get_more_rounds_and_are_not_measured(self):
        ours, other = Rounds(), Rounds()
        ours.next, other.next = lambda round_: 1 + round_ % 3, lambda round_: 2
        self.assertFalse(sides.race([ours, other], 1))
        self.assertEqual(ours.turns, sides.ROUNDS[-1])
        row = ops_speed.judged("a", "b", sides.ratios(ours, other), 1.5, {})
        self.assertEqual((row["status"], status_of(row)), ("NOT MEASURED", 1))

    def test_a_ratio_that_is_unsteady_without_the_calls_gets_more_rounds(self):
        ours, other = Rounds(), Rounds()
        ours.name, other.name = "ours", "other"
        ours.next, other.next = lambda round_: 11 + round_ % 3 / 2, lambda round_: 12
        self.assertTrue(sides.race([ours, other], 1))
        ours.rounds.clear(), other.rounds.clear()
        self.assertFalse(sides.race([ours, other], 1, lacks={"ours": 10, "other": 10}))

    def test_a_wide_interval_above_the_target_is_met(self):
        row = ops_speed.judged("a", "b", [2, 3, 4, 5, 6, 7, 8, 9, 10], 0.9, {})
        self.assertEqual(row["status"], "met")

    def test_a_wide_interval_below_the_target_is_missed(self):
        row = ops_speed.judged("a", "b", [2, 3, 4, 5, 6, 7, 8, 9, 10], 9.5, {})
        self.assertEqual(row["status"], "MISSED")

    def test_ratios_that_are_to_be_at_most(self):
        for limit, status in ((1.5, "met"), (1.3, "MISSED")):
            row = model_speed.at_most("a", [14] * 9, [10] * 9, limit)
            self.assertEqual((row["ratio"], row["status"]), (1.4, status))
        self.assertIn("| 1.40 | 1.40 to 1.40 | ≤ 1.30 |", ops_speed.line_of(row))
        ours = [2, 3, 4, 5, 6, 7, 8, 9, 10]
        for limit, status in ((9, "met"), (5, "NOT MEASURED"), (2.5, "MISSED")):
            self.assertEqual(model_speed.at_most("a", ours, [1] * 9, limit)["status"], status)

    def test_sums_of_products_have_an_interval_too(self):
        steady = [(2, Rounds(*[10] * 9), Rounds(*[20] * 9)), (1, Rounds(*[5] * 18),
                                                               Rounds(*[10] * 18))]
        row = ops_speed.together("all", steady, 0.95)
        self.assertEqual((row["ratio"], row["low"], row["high"], row["status"]), (2, 2, 2, "met"))
        self.assertEqual((row["ns"], row["peer_ns"]), (25, 50))
        shaky = [(1, Rounds(*[1, 2, 3] * 3), Rounds(*[2] * 9))]
        self.assertEqual(ops_speed.together("all", shaky, 1.5)["status"], "NOT MEASURED")


class Profiles(unittest.TestCase):
    PROFILE = [{"kernel": "conv", "call_count": 53, "ns": 6000},
               {"kernel": "between steps", "call_count": 1, "ns": 2000}]

    def test_shares_stand_behind_the_table_and_in_its_json(self):
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
            folder = pathlib.Path(name)
            measured.write_table("T", "note", ("a",), ["| row |"], [{"status": "met"}], folder,
                                 "model_speed")
            model_speed.write_profiles({"net": self.PROFILE}, folder)
            text = (folder / "model_speed.md").read_text(encoding="utf-8")
            tables = json.loads((folder / "model_speed.json").read_text(encoding="utf-8"))
        self.assertIn("| row |", text)
        self.assertIn("| net | 8.0 | conv (53) 75%, between steps (1) 25% |", text)
        self.assertEqual(tables, {"rows": [{"status": "met"}], "profiles": {"net": self.PROFILE}})

    def test_a_part_is_printed_and_leaves_the_reports_alone(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            measured.write_table("T", "note", ("a",), ["| row |"], [{"status": "met"}], None, "t")
            model_speed.write_profiles({"net": self.PROFILE}, None)
        self.assertIn("| row |", printed.getvalue())
        self.assertIn("conv (53) 75%", printed.getvalue())
        self.assertIn("These are not all rows: reports/t stays as it was.", printed.getvalue())

    def test_inputs_are_given_in_their_own_types(self):
        import numpy
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "inputs.txt").write_text("ids ids.bin 1 3\nx x.bin 2\n")
            numpy.array([[1, 2, 3]], "int64").tofile(folder / "ids.bin")
            numpy.array([0.5, 1.5], "float32").tofile(folder / "x.bin")
            found = peer_child.read_inputs(folder, {"ids": "int64", "x": "float32"})
            self.assertEqual(found["ids"].tolist(), [[1, 2, 3]])
            self.assertEqual((found["x"].dtype, found["x"].tolist()), (numpy.float32, [0.5, 1.5]))


class Outputs(unittest.TestCase):
    """Against a program in place of ours that says what it is told to."""

    def compared(self, script, python="true"):
        with tempfile.TemporaryDirectory() as name:
            program = pathlib.Path(name) / "bin" / "backplane"
            program.parent.mkdir()
            program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            program.chmod(0o755)
            return ops_speed.compared("net", pathlib.Path(name), python, pathlib.Path("net"), 2)

    def test_right_ones_give_the_profile(self):
        self.assertEqual(self.compared("echo '{\"passed\": true, \"profile\": [1]}'"), ([1], None))

    def test_wrong_ones_fail_by_name(self):
        for error, words in (("0.25", "0.25 of the rms"), ("null", "infinity")):
            told = f"{{\"passed\": false, \"max_error\": {error}, \"profile\": []}}"
            _, row = self.compared(f"echo '{told}'; exit 1")
            self.assertEqual((row["title"], row["status"], status_of(row)), ("net", "WRONG", 1))
            self.assertIn(f"by up to {words} |", ops_speed.line_of(row))

    def test_what_cannot_be_compared_fails_too_and_says_why(self):
        _, row = self.compared("echo no kernel >&2; exit 5")
        self.assertEqual((row["status"], row["why"], status_of(row)),
                         ("NOT RUN", "backplane bench: no kernel", 1))
        _, row = self.compared("exit 0", "false")
        self.assertEqual((row["status"], row["why"]),
                         ("NOT RUN", "expected outputs: exit code 1"))


class Cases(unittest.TestCase):
    def test_resnet50_has_53_convolutions_of_23_kinds(self):
        found = op_cases.resnet50_convs()
        self.assertEqual((len(found), sum(found.values())), (23, 53))

    def test_bytes_are_those_of_inputs_and_outputs(self):
        case = op_cases.cases()["where, 1 MiB"]
        self.assertEqual(case.moved_bytes(), (1 + 4 + 4 + 4) * op_cases.MIB // 4)

    def test_weights_are_bytes_too_and_are_read_past_the_caches(self):
        case = op_cases.cases()["matmul 4 x 4096 x 4096, constant"]
        self.assertEqual(case.moved_bytes(), (4096 + 4 + 4) * 4096 * 4)
        self.assertTrue(case.streams())

    def test_the_time_beside_a_copy_is_that_of_the_whole_call(self):
        case = op_cases.cases()["add, 1 MiB"]
        row = ops_speed.share_of_copy(case, Rounds(*[20] * 9), Rounds(*[10] * 9))
        self.assertAlmostEqual(row["ratio"], 0.5)

    def test_what_is_much_quicker_than_a_copy_is_not_measured(self):
        case = op_cases.cases()["add, 1 MiB"]
        row = ops_speed.share_of_copy(case, Rounds(*[10] * 9), Rounds(*[14] * 9))
        self.assertEqual(row["status"], "met")
        row = ops_speed.share_of_copy(case, Rounds(*[10] * 9), Rounds(*[700] * 9))
        self.assertEqual(row["status"], "NOT MEASURED")

    def test_a_view_is_a_node_and_a_weight_a_constant(self):
        import numpy
        import onnx
        case = op_cases.Case("c", "Add", {"a": ("float32", [2, 3], 0), "b": ("float32", [3, 2], 0)},
                             [("float32", [2, 3])], None, views={"b": [1, 0]}, weights=("a",))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            op_cases.write(case, folder)
            graph = onnx.load(str(folder / "model.onnx")).graph
            listed = (folder / "inputs.txt").read_text(encoding="utf-8")
            onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
        self.assertEqual([list(node.input) for node in graph.node], [["b"], ["b_view", "a"]])
        self.assertEqual(listed, "b b.bin 3 2\n")
        numpy.testing.assert_array_equal(onnx.numpy_helper.to_array(graph.initializer[0]),
                                         op_cases.values_of(case)["a"])


if __name__ == "__main__":
    sys.exit(unittest.main())
