# SPDX-License-Identifier: Apache-2.0
"""What the speed table of collectives says, on made-up figures: nothing is measured here."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import costs  # noqa: E402
import held  # noqa: E402
import one_host  # noqa: E402
import ranks  # noqa: E402
import rounds as measured  # noqa: E402
import sums  # noqa: E402
import wired  # noqa: E402
from rounds import KIB, MIB  # noqa: E402

TWICE = ("≥ 2 × the other's speed", lambda ours, theirs: theirs >= 2 * ours)


def rounds_of(control, **figures):
    """Rounds with these figures by side, each of the same size. control: before the first, and
    behind each."""
    took = iter(control)
    rounds = measured.Rounds(lambda: next(took))
    turns = {name: iter(values) for name, values in figures.items()}
    is_warm = []

    def run_one():
        for name, values in turns.items():
            rounds.add((name, 4), next(values) if is_warm else 0)
        is_warm.append(True)

    rounds.run(run_one, len(control))
    return rounds


class SteadyRounds(unittest.TestCase):
    def setUp(self):
        self.most = measured.MOST_ROUNDS
        self.addCleanup(setattr, measured, "MOST_ROUNDS", self.most)

    def rounds(self, control, **figures):
        measured.MOST_ROUNDS = len(control) - 1
        return rounds_of(control, **figures)

    def test_rounds_in_which_a_copy_drifts_do_not_count(self):
        rounds = self.rounds([100, 114, 98, 117, 101, 101, 87], a=[1, 2, 3, 4, 5, 6])
        self.assertEqual(rounds.steady(), [0, 4])
        self.assertEqual(rounds.of(("a", 4)), [1, 5])

    def test_rounds_of_a_machine_that_is_slow_for_a_while_count(self):
        rounds = self.rounds([100, 100, 200, 200, 100], a=[1, 2, 3, 4])
        self.assertEqual(rounds.of(("a", 4)), [1, 3])

    def test_drift_in_the_last_round_is_seen(self):
        rounds = self.rounds([100, 100, 116], a=[1, 2])
        self.assertEqual(rounds.of(("a", 4)), [1])

    def test_too_few_rounds_are_said(self):
        rounds = self.rounds([100] * 9 + [200], a=range(9))
        self.assertIn("1 of 9 rounds were dropped", rounds.lack())
        self.assertEqual(self.rounds([100] * 10, a=range(9)).lack(), "")

    def test_nothing_is_said_where_more_than_half_were_dropped(self):
        half = self.rounds([100] * 10 + [200, 100] * 4 + [200], a=range(18))
        self.assertEqual((half.dropped(), half.count(), half.lack()), (9, 18, ""))
        more = self.rounds([100] * 10 + [200, 100] * 5, a=range(19))
        self.assertIn("10 of 19 rounds were dropped", more.lack())
        row = sums.rows_against(self.of_sums(more), "x", ["a"], lambda size: TWICE, "")[0]
        self.assertEqual(row["status"], "NOT RUN")
        self.assertIn("10 of 19 rounds were dropped", measured.line_of(row))

    @staticmethod
    def of_sums(rounds):
        made = sums.Sums({})
        made.rounds = rounds
        return made

    def test_rounds_go_on_until_no_more_than_half_are_dropped(self):
        took = iter([100, 200] * 5 + [100] * 100)
        rounds = measured.Rounds(lambda: next(took))
        rounds.run(lambda: rounds.add("a", 1), 9)
        self.assertEqual((len(rounds.steady()), rounds.count()), (10, 20))
        self.assertEqual(rounds.words(),
                         "20 rounds in turns, of which 10 were dropped and 10 count")

    def test_the_quicker_way_of_each_round_counts(self):
        rounds = self.rounds([100] * 4, a=[1, 5, 3], b=[2, 4, 9])
        self.assertEqual(measured.best_of(rounds, [("a", 4), ("b", 4)]), [1, 4, 3])


class Row(unittest.TestCase):
    def test_is_met_where_70_percent_of_the_rounds_meet_it(self):
        row = measured.row_of("x", TWICE, [1] * 10, [2] * 7 + [1] * 3)
        self.assertEqual((row["status"], row["share"], row["ratio"]), ("met", 0.7, 2))
        row = measured.row_of("x", TWICE, [1] * 10, [2] * 6 + [1] * 4)
        self.assertEqual((row["status"], row["share"]), ("MISSED", 0.6))

    def test_without_a_target_has_no_status(self):
        row = measured.row_of("x", ("", None), [1], [2])
        self.assertEqual((row["status"], row["required"]), ("", False))

    def test_that_did_not_run_says_why_on_one_line(self):
        row = measured.not_run("x", TWICE, "there is\nno tc")
        self.assertTrue(row["required"])
        self.assertEqual(measured.line_of(row).count("\n"), 0)
        self.assertIn("NOT RUN: there is no tc", measured.line_of(row))


class Targets(unittest.TestCase):
    def is_met(self, target, ours, theirs):
        return target[1](ours, theirs)

    def test_core_costs_a_microsecond_at_most(self):
        self.assertTrue(self.is_met(one_host.CORE_TARGET, 2000, 1000))
        self.assertFalse(self.is_met(one_host.CORE_TARGET, 2001, 1000))

    def test_gloo_over_tcp(self):
        self.assertTrue(self.is_met(wired.gloo_target(64 * KIB), 10, 20))
        self.assertFalse(self.is_met(wired.gloo_target(64 * KIB), 10, 19))
        self.assertTrue(self.is_met(wired.gloo_target(MIB), 10, 12))
        self.assertFalse(self.is_met(wired.gloo_target(MIB), 10, 11))

    def test_open_mpi_by_size(self):
        self.assertTrue(self.is_met(one_host.vader_target(2 * KIB), 3000, 1000))
        self.assertFalse(self.is_met(one_host.vader_target(4 * KIB), 3000, 1000))
        self.assertTrue(self.is_met(one_host.vader_target(16 * MIB), 100, 70))


class Wire(unittest.TestCase):
    def test_payload_that_went_another_way_is_an_error(self):
        wired.check_sent("gloo: host-0", 64, 64)
        with self.assertRaisesRegex(ranks.NoAnswer, "gloo: host-0 sent 63 bytes .* of 64"):
            wired.check_sent("gloo: host-0", 63, 64)

    def test_rows_say_why_there_is_no_wire(self):
        rows = sums.rows_against(None, wired.PEER, ranks.GLOO_WAYS, wired.gloo_target,
                                 "namespaces cannot be made")
        self.assertEqual(len(rows), len(sums.SIZES))
        self.assertEqual({(row["status"], row["required"]) for row in rows}, {("NOT RUN", True)})


class Costs(unittest.TestCase):
    def rows(self, enqueue_ns, record_ns, reasons=()):
        rounds = measured.Rounds(lambda: 100)
        figures = {title: enqueue_ns for title, *_ in costs.ENQUEUES}
        figures[costs.RECORD[0]] = record_ns
        rounds.run(lambda: [rounds.add(*one) for one in figures.items()], 10)
        return costs.rows_of(rounds, dict(reasons))

    def test_each_has_its_limit(self):
        statuses = [row["status"] for row in self.rows(50_000, 100)]
        self.assertEqual(statuses, ["met", "met", "", "met", "met"])
        statuses = [row["status"] for row in self.rows(50_001, 101)]
        self.assertEqual(statuses, ["MISSED", "MISSED", "", "MISSED", "MISSED"])

    def test_lines_have_no_peer(self):
        line = measured.line_of(self.rows(20_000, 80)[0])
        self.assertRegex(line, r"200 ms \|  \| ≤ 50 µs \| 100% \| 20.00 \|  \| met \|$")

    def test_a_side_that_is_missing_is_missed_in_its_rows(self):
        rows = self.rows(50_000, 100, {"xpu": "there is no xpu:0"})
        self.assertEqual([row["status"] for row in rows], ["met", "met", "NOT RUN", "met", "met"])
        self.assertIn("there is no xpu:0", measured.line_of(rows[2]))

    def test_that_did_not_run_is_required(self):
        rows = costs.rows_of(None, {"": "there is no npu:0"})
        self.assertEqual({row["status"] for row in rows}, {"NOT RUN"})
        self.assertEqual([row["required"] for row in rows], [True, True, False, True, True])


class HeldWire(unittest.TestCase):
    def rows(self, train, ring):
        rounds = measured.Rounds(lambda: 100)
        figures = {"broadcast": 100, "transfer": 90, "all_reduce": 101, "swap": 90,
                   "compute": 300, "communicate": 200, "train": train, "ring": ring}
        rounds.run(lambda: [rounds.add(*one) for one in figures.items()], 10)
        return held.rows_of(rounds, "")

    def test_link_memory_and_hidden_share(self):
        broadcast, all_reduce, ring, train = self.rows(360, held.SLOTS * held.CHUNK)
        self.assertEqual((broadcast["status"], all_reduce["status"]), ("met", "MISSED"))
        self.assertEqual((ring["status"], ring["ratio"]), ("met", held.SLOTS))
        self.assertEqual((train["status"], train["ratio"]), ("met", 0.7))
        self.assertEqual((train["ns"], train["peer_ns"]), (360, 500))

    def test_too_little_is_hidden_and_too_much_memory_taken(self):
        _, _, ring, train = self.rows(362, held.SLOTS * held.CHUNK + 1)
        self.assertEqual((ring["status"], train["status"]), ("MISSED", "MISSED"))

    def test_rows_say_why_there_is_no_wire(self):
        rows = held.rows_of(None, "there is no tc")
        self.assertEqual([row["status"] for row in rows], ["NOT RUN"] * 4)
        self.assertTrue(all(row["required"] for row in rows))


if __name__ == "__main__":
    unittest.main()
