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
    """A side with these medians."""

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

    def test_a_wide_interval_above_the_target_is_met(self):
        row = ops_speed.judged("a", "b", [2, 3, 4, 5, 6, 7, 8, 9, 10], 0.9, {})
        self.assertEqual(row["status"], "met")


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

    def test_inputs_are_given_in_their_own_types(self):
        import numpy
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "inputs.txt").write_text("ids ids.bin 1 3\nx x.bin 2\n")
            numpy.array([[1, 2, 3]], "int64").tofile(folder / "ids.bin")
            numpy.array([0.5, 1.5], "float32").tofile(folder / "x.bin")
            model_speed.write_vectors(folder, folder / "v.npz")
            with numpy.load(folder / "v.npz") as found:
                self.assertEqual(sorted(found), ["in/ids", "in/x"])
                self.assertEqual(found["in/ids"].tolist(), [[1, 2, 3]])
                self.assertEqual((found["in/x"].dtype, found["in/x"].tolist()),
                                 (numpy.float32, [0.5, 1.5]))


class Cases(unittest.TestCase):
    def test_resnet50_has_53_convolutions_of_23_kinds(self):
        found = op_cases.resnet50_convs()
        self.assertEqual((len(found), sum(found.values())), (23, 53))

    def test_bytes_are_those_of_inputs_and_outputs(self):
        case = op_cases.cases()["where, 1 MiB"]
        self.assertEqual(case.moved_bytes(), (1 + 4 + 4 + 4) * op_cases.MIB // 4)


if __name__ == "__main__":
    sys.exit(unittest.main())
