# SPDX-License-Identifier: Apache-2.0
"""The speed table of collectives: all_reduce of two ranks, in turns with Open MPI and Gloo.

Ranks are processes, each on a processor of its own. In every round each side runs each size once;
the ratio of a round is that of its figures, and a row's is the median of those. A row is met where
70 % of the rounds meet it. A copy of memory is timed at the beginning of each round: rounds
in which it takes 15 % more or less than in the others do not count, and a table with too few rounds
says NOT RUN. Writes reports/ccl_speed.{md,json} into the build folder. Exits 1 where a target is
missed or could not be measured.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import figures as measured  # noqa: E402
import ranks  # noqa: E402

ROUNDS = 15
LEAST_ROUNDS = 9
MOST_ROUNDS = 45  # until as many as are asked for count
MOST_DRIFT = 0.15
LEAST_SHARE = 0.7  # of rounds that meet a target
KIB, MIB = 1 << 10, 1 << 20
SIZES = (4, 256, 2 * KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
CONTROL_BYTES = 8 * MIB
ROUND_NS = 12e6  # about what each side takes for each size of a round


def words_of(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def title_of(size, peer):
    return f"all_reduce sum f32 {words_of(size)}, against {peer}"


def vader_target(size):
    """What the row says, and whether a round's (ours, theirs) in ns meets it."""
    if size <= 2 * KIB:
        return "≤ Open MPI + 2 µs", lambda ours, theirs: ours <= theirs + 2000
    share = 0.9 if size <= 4 * MIB else 0.7
    return f"≥ {share} × Open MPI's speed", lambda ours, theirs: theirs >= share * ours


def gloo_target(size):
    least = {4 * KIB: 20, MIB: 4}.get(size)
    if least is None:
        return "", None
    return f"≥ {least} × Gloo's speed", lambda ours, theirs: theirs >= least * ours


def open_sides(programs, folder):
    """The sides by name, and why the others are not there."""
    found, reasons = {}, {}
    for name, source, compiler, libraries in (
            ("mpi", "speed_mpi.cpp", "mpicxx", ()),
            ("gloo", "speed_gloo.cpp", "g++", ("-lgloo", "-lpthread"))):
        why = ranks.build_peer(source, programs / f"speed_{name}", compiler, libraries)
        if why:
            reasons[name] = why
    both = lambda program, *more: [[programs / program, None, str(rank), *more]
                                    for rank in (0, 1)]
    commands = {"backplane": both("speed_backplane")}
    if "mpi" not in reasons:
        commands["mpi"] = [["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
                            "-np", "2", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl",
                            "self,vader", programs / "speed_mpi", None]]
    for algorithm in ("ring", "bcube") if "gloo" not in reasons else ():
        (pathlib.Path(folder) / f"gloo_{algorithm}.store").mkdir()
        commands[f"gloo_{algorithm}"] = both("speed_gloo", algorithm, "127.0.0.1")
    for name, command in commands.items():
        try:
            found[name] = ranks.Side(name, command, folder)
        except ranks.NoAnswer as error:
            reasons[name.split("_")[0]] = str(error)
    return found, reasons


class Rounds:
    """Nanoseconds by (side, size), one of each round, and those of the control."""

    def __init__(self, found):
        self.found = found
        self.control = []
        self.times = {(name, size): [] for name in found for size in SIZES}
        self.iterations = {}

    def run_one(self):
        self.control.append(self.found["backplane"].measure("memcpy", CONTROL_BYTES, 8, ranks=(0,)))
        for size in SIZES:
            for name, side in self.found.items():
                count = self.iterations.get((name, size), 4)
                took = side.measure("all_reduce", size, count)
                self.times[name, size].append(took)
                self.iterations[name, size] = max(4, min(20000, int(ROUND_NS / took)))

    def steady(self):
        """The rounds that count."""
        middle = statistics.median(self.control)
        return [i for i, took in enumerate(self.control)
                if abs(took / middle - 1) <= MOST_DRIFT]

    def of(self, name, size, counted):
        return [self.times[name, size][i] for i in counted]


def measure(found, round_count):
    rounds = Rounds(found)
    rounds.run_one()  # finds how often each is repeated
    rounds.control.clear()
    for values in rounds.times.values():
        values.clear()
    while len(rounds.control) < MOST_ROUNDS:
        rounds.run_one()
        if len(rounds.control) >= round_count and len(rounds.steady()) >= round_count:
            break
    return rounds


def row_of(size, peer, target, ours, theirs):
    """Of the rounds' figures of both sides; theirs: a list for each of the peer's ways."""
    best = [min(each) for each in zip(*theirs)]
    words, is_met = target(size)
    row = {"title": title_of(size, peer),
           "ratio": statistics.median(b / a for a, b in zip(ours, best)),
           "target": words, "ns": statistics.median(ours), "peer_ns": statistics.median(best),
           "rounds": len(ours), "status": "", "required": is_met is not None}
    if is_met is None:
        return row
    share = sum(is_met(a, b) for a, b in zip(ours, best)) / len(ours)
    row["share"] = share
    row["status"] = "met" if share >= LEAST_SHARE else "MISSED"
    return row


def table(rounds, reasons):
    counted = rounds.steady()
    rows = []
    for peer, target in (("Open MPI", vader_target), ("Gloo", gloo_target)):
        stem = {"Open MPI": "mpi", "Gloo": "gloo"}[peer]
        ways = [name for name in rounds.found if name.split("_")[0] == stem]
        for size in SIZES:
            why = reasons.get(stem, "")
            if not why and len(counted) < LEAST_ROUNDS:
                why = (f"a copy of memory took as long as in most rounds in {len(counted)} of "
                       f"{len(rounds.control)} only")
            if why:
                rows.append({"title": title_of(size, peer), "status": "NOT RUN", "why": why,
                             "required": target(size)[1] is not None})
                continue
            rows.append(row_of(size, peer, target, rounds.of("backplane", size, counted),
                               [rounds.of(way, size, counted) for way in ways]))
    return rows


def write_reports(rows, rounds, folder):
    lines = []
    for row in rows:
        if row["status"] == "NOT RUN":
            lines.append(f"| {row['title']} | | | | | | NOT RUN: {row['why']} |")
            continue
        share = f"{row['share']:.0%}" if "share" in row else ""
        lines.append(f"| {row['title']} | {row['ratio']:.2f} | {row['target']} | {share} | "
                     f"{row['ns'] / 1000:,.2f} | {row['peer_ns'] / 1000:,.2f} | {row['status']} |")
    note = (f"Two ranks on one host, each a process on its own processor; {len(rounds.control)} "
            f"rounds in turns, of which {len(rounds.steady())} count. Open MPI: pml ob1, btl "
            "vader. Gloo: the better of ring and bcube in each round. Speed: their time over ours, "
            "the median of the rounds' ratios.")
    measured.write_table("Speed of collectives", note,
                         ("what", "speed", "target", "rounds that meet it", "µs", "peer, µs", ""),
                         lines, rows, folder, "ccl_speed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    if arguments.rounds < LEAST_ROUNDS:
        raise SystemExit(f"--rounds: expected {LEAST_ROUNDS} or more, found {arguments.rounds}")
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("two ranks need two processors, found one")
    with tempfile.TemporaryDirectory() as folder:
        found, reasons = open_sides(arguments.build / "bin" / "perf", folder)
        if "backplane" not in found:
            raise SystemExit(reasons["backplane"])
        try:
            rounds = measure(found, arguments.rounds)
        finally:
            for side in found.values():
                side.close()
    rows = table(rounds, reasons)
    write_reports(rows, rounds, arguments.build / "reports")
    return measured.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
