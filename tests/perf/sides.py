# SPDX-License-Identifier: Apache-2.0
"""Processes that are timed in turns: each makes ready, then runs for as long as it is told, while
the others wait. Ratios are of the same round, so that a change of the machine's speed falls on all
alike."""

import json
import math
import os
import pathlib
import re
import statistics
import subprocess

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
ROUNDS = (9, 15, 25, 41)  # more while an interval is too wide
WIDTH = 0.10  # of the interval round a ratio, to each side
CONFIDENCE = 0.95


class Absent(Exception):
    """The side cannot be measured; the text says why."""


class Side:
    """One process. `ready`: what it said of itself at first."""

    def __init__(self, name, command, threads):
        self.name = name
        environment = dict(os.environ, BACKPLANE_PLUGINS="cpu",  # as no peer loads another driver
                           **{v: str(threads) for v in THREAD_VARIABLES})
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=environment)
        self.rounds = []
        try:
            self.ready = self._answer()
        except Absent:
            self.close()
            raise

    def _answer(self):
        line = self.process.stdout.readline()
        try:
            answer = json.loads(line)
        except ValueError:
            self.process.kill()
            words = self.process.communicate()[1].strip().splitlines()
            raise Absent(f"{self.name}: {words[-1][:200] if words else 'no answer'}") from None
        if "absent" in answer:
            raise Absent(f"{self.name}: {answer['absent']}")
        return answer

    def turn(self, seconds):
        """The median of one round."""
        try:
            self.process.stdin.write(f"go {seconds}\n")
            self.process.stdin.flush()
        except OSError:
            raise Absent(f"{self.name}: the process ended") from None
        self.rounds.append(statistics.median(self._answer()["latency_ns"]))

    def median(self):
        return statistics.median(self.rounds)

    def peak_bytes(self):
        """The most memory that the program had until now. getrusage() would also tell of the
        process that started it, as it was between fork and exec."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return 1024 * int(re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)[1])

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def interval(values):
    """The median and an interval that holds the real one in 95 of 100 cases, whatever the values'
    distribution: the order statistics whose ranks a fair coin leaves so often."""
    values, count = sorted(values), len(values)
    outside, rank = 0.0, 0
    while True:
        outside += math.comb(count, rank) / 2 ** count
        if 2 * outside > 1 - CONFIDENCE or 2 * (rank + 1) >= count:
            break
        rank += 1
    if rank == 0:
        return statistics.median(values), 0.0, math.inf  # too few to say
    return statistics.median(values), values[rank - 1], values[count - rank]


def is_narrow(values):
    middle, low, high = interval(values)
    return low >= middle * (1 - WIDTH) and high <= middle * (1 + WIDTH)


def ratios(ours, other, lack_ours=0.0, lack_other=0.0):
    """How many times as quick ours is, by round. lack: what is not counted of each."""
    least = 1.0  # a nanosecond, where a call costs more than the work
    return [max(b - lack_other, least) / max(a - lack_ours, least)
            for a, b in zip(ours.rounds, other.rounds, strict=True)]


def race(sides, seconds, wanted=ROUNDS, lacks=None):
    """Rounds until each ratio to the first side is known well enough, or there were the most.
    Whether they are. lacks: by name of a side, what of its time is not counted."""
    ours, *others = sides

    def lack(side):
        return lacks.get(side.name, 0.0) if lacks else 0.0
    for rounds in wanted:
        while len(ours.rounds) < rounds:
            for side in sides:
                side.turn(seconds)
            sides = sides[1:] + sides[:1]  # whoever comes first meets another machine
        if all(is_narrow(ratios(ours, other, lack(ours), lack(other))) for other in others):
            return True
    return not others
