# SPDX-License-Identifier: Apache-2.0
"""all_reduce of two ranks by several libraries, in turns: sizes, repetitions, their figures."""

import rounds as measured
from rounds import KIB, MIB

SIZES = (4, 256, 2 * KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
ROUND_NS = 12e6  # about what each side takes for each size of a round
MOST = 20000  # repetitions


def title_of(size, peer):
    return f"all_reduce sum f32 {measured.words_of(size)}, {peer}"


class Sums:
    """Of sides by name, the first of which is ours; figures by (name, size)."""

    fewest = 4  # repetitions

    def __init__(self, sides, sizes=SIZES):
        self.sides = sides
        self.sizes = sizes
        self.iterations = {}
        self.rounds = measured.Rounds(
            lambda: measured.copy_time(next(iter(sides.values()))))

    def measure(self, name, size):
        return self.measure_as(name, self.sides[name], "all_reduce", size)

    def measure_as(self, name, side, command, size):
        count = self.iterations.get((name, size), self.fewest)
        took = side.measure(command, size, count)
        self.rounds.add((name, size), took)
        self.iterations[name, size] = max(self.fewest, min(MOST, int(ROUND_NS / took)))
        return count

    def run_one(self):
        for size in self.sizes:
            for name in self.sides:
                self.measure(name, size)

    def run(self, count):
        self.rounds.run(self.run_one, count)


def rows_against(sums, peer, ways, target_of, why):
    """Against the quicker of the peer's ways in each round. why: why the peer is not there, or
    "". sums: None where nothing was measured."""
    rows = []
    for size in SIZES:
        title, target = title_of(size, peer), target_of(size)
        why = why or sums.rounds.lack()
        if why:
            rows.append(measured.not_run(title, target, why))
        else:
            rows.append(measured.row_of(
                title, target, sums.rounds.of(("backplane", size)),
                measured.best_of(sums.rounds, [(way, size) for way in ways])))
    return rows
