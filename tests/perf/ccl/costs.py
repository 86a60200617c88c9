# SPDX-License-Identifier: Apache-2.0
"""What a caller pays whatever the others do: to enqueue behind work that is long in its stream, and
to have each operation recorded. There is nobody to compare with: a round is met by its time."""

import os
import statistics

import figures
import ranks
import rounds as measured
from rounds import KIB

ENQUEUE = ("enqueue of all_reduce sum f32 64 KiB on npu:0, behind kernels of 200 ms", 50_000)
CALLS = 5  # of a round, of which the middle one counts
RECORD = ("recording of an operation", 100)
RECORD_NAME = "two_clocks"  # of ccl_record_cost: as a group does it


def words_of(most_ns):
    return f"≤ {most_ns // 1000} µs" if most_ns >= 1000 else f"≤ {most_ns} ns"


def row_of(title, most_ns, took):
    """took: the rounds' figures, in ns."""
    share = sum(ns <= most_ns for ns in took) / len(took)
    return {"title": title, "target": words_of(most_ns), "ns": statistics.median(took),
            "rounds": len(took), "share": share, "required": True,
            "status": "met" if share >= measured.LEAST_SHARE else "MISSED"}


def rows_of(rounds, why):
    why = why or rounds.lack()
    return [measured.not_run(title, (words_of(most_ns), row_of), why) if why else
            row_of(title, most_ns, rounds.of(title)) for title, most_ns in (ENQUEUE, RECORD)]


def record_ns(program):
    """Of one round."""
    found = figures.Figures()
    figures.run_program(program, found, os.environ, only=[RECORD_NAME])
    if why := found.lack_of(RECORD_NAME):
        raise ranks.NoAnswer(why)
    return found.median(RECORD_NAME)


def measure(options, folder):
    """The rows, and what is to be said of them."""
    rounds, why = None, ""
    programs = options.build / "bin" / "perf"
    found, reasons = ranks.open_all([("npu", ranks.both(programs / "speed_npu"))], folder, {})
    with ranks.closing(found.values()):
        try:
            if reasons:
                raise ranks.NoAnswer("; ".join(reasons.values()))
            npu = found["npu"]
            rounds = measured.Rounds(
                lambda: npu.measure("memcpy", measured.CONTROL_BYTES, 8, ranks=(0,)))

            def run_one():
                rounds.add(ENQUEUE[0], npu.measure("enqueue", 64 * KIB, CALLS))
                rounds.add(RECORD[0], record_ns(programs / "ccl_record_cost"))

            rounds.run(run_one, options.rounds)
        except ranks.NoAnswer as error:
            why = str(error)
    words = f" {rounds.words()}" if rounds is not None else ""
    return rows_of(rounds, why), (
        f"What a caller pays:{words}; the slower rank's call, while kernels before it take 200 ms.")
