# SPDX-License-Identifier: Apache-2.0
"""What a caller pays whatever the others do: to enqueue behind work that is long in its stream, and
to have each operation recorded. There is nobody to compare with: a round is met by its time."""

import os
import statistics

import figures
import ranks
import rounds as measured
from rounds import KIB

MOST_ENQUEUE_NS = 50_000
ENQUEUE = "enqueue of all_reduce sum f32 64 KiB"
ENQUEUES = (  # title, most, side, command
    (f"{ENQUEUE} on npu:0, native, behind kernels of 200 ms", MOST_ENQUEUE_NS, "npu", "enqueue"),
    (f"{ENQUEUE} on npu:0, staged, behind kernels of 200 ms", MOST_ENQUEUE_NS, "staged",
     "enqueue_staged"),
    # Without a limit: pinned memory of OpenCL is mapped, which waits for the driver's threads, and
    # these are busy with the kernels where the device is this host's processors.
    (f"{ENQUEUE} on xpu:0, staged, behind kernels of 200 ms", None, "xpu", "enqueue_staged"),
    (f"{ENQUEUE} on cpu:0, behind one that waits 200 ms", MOST_ENQUEUE_NS, "staged",
     "enqueue_host"))
CALLS = 5  # of a round, of which the middle one counts
RECORD = ("recording of an operation", 100)
RECORD_NAME = "two_clocks"  # of ccl_record_cost: as a group does it


def words_of(most_ns):
    if most_ns is None:
        return ""
    return f"≤ {most_ns // 1000} µs" if most_ns >= 1000 else f"≤ {most_ns} ns"


def row_of(title, most_ns, took):
    """took: the rounds' figures, in ns. most_ns None: there is no limit."""
    row = {"title": title, "target": words_of(most_ns), "ns": statistics.median(took),
           "rounds": len(took), "status": "", "required": most_ns is not None}
    if most_ns is None:
        return row
    row["share"] = sum(ns <= most_ns for ns in took) / len(took)
    row["status"] = "met" if row["share"] >= measured.LEAST_SHARE else "MISSED"
    return row


def rows_of(rounds, reasons):
    """reasons: why sides are not there, by name."""
    rows = []
    for title, most_ns, side, _ in (*ENQUEUES, (*RECORD, "npu", "")):
        why = reasons.get(side, "") or reasons.get("", "") or rounds.lack()
        rows.append(measured.not_run(title, (words_of(most_ns), most_ns), why) if why else
                    row_of(title, most_ns, rounds.of(title)))
    return rows


def record_ns(program):
    """Of one round."""
    found = figures.Figures()
    figures.run_program(program, found, os.environ, only=[RECORD_NAME])
    if why := found.lack_of(RECORD_NAME):
        raise ranks.NoAnswer(why)
    return found.median(RECORD_NAME)


def measure(options, folder):
    """The rows, and what is to be said of them."""
    rounds = None
    programs = options.build / "bin" / "perf"
    found, reasons = ranks.open_all(
        [("npu", ranks.both(programs / "speed_npu")),
         ("staged", ranks.both(programs / "speed_enqueue", "npu:0")),
         ("xpu", ranks.both(programs / "speed_enqueue", "xpu:0"))], folder, {})
    with ranks.closing(found.values()):
        try:
            if "npu" in reasons:
                raise ranks.NoAnswer(reasons["npu"])
            rounds = measured.Rounds(lambda: measured.copy_time(found["npu"]))

            def run_one():
                for title, most_ns, side, command in ENQUEUES:
                    if side in reasons:
                        continue
                    try:
                        rounds.add(title, found[side].measure(command, 64 * KIB, CALLS))
                    except ranks.NoAnswer as error:
                        if most_ns is not None:
                            raise
                        reasons[side] = str(error)  # its row alone does without
                rounds.add(RECORD[0], record_ns(programs / "ccl_record_cost"))

            rounds.run(run_one, options.rounds)
        except ranks.NoAnswer as error:
            reasons[""] = str(error)  # of all of them
    words = f" {rounds.words()}" if rounds is not None else ""
    return rows_of(rounds, reasons), (
        f"What a caller pays:{words}; the slower rank's call where it is native, else that of the "
        "rank on the device that is named, whose peer is on the other one.")
