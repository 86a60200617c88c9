# SPDX-License-Identifier: Apache-2.0
"""Rounds of measurement, which of them count, and the rows that are made of them.

A copy of memory is timed before each round and behind it: a round is dropped where one takes 15 %
more than the other, for then the machine has changed between the figures that the round compares. A
machine that is slow for all of a round is slow for both sides: such rounds count. Where more than
half of the rounds are dropped the machine is too unsteady to say anything: all rows are NOT RUN.
The ratio of a round is that of its figures, a row's is the median of those, and a row is met where
70 % of the rounds meet it.
"""

import collections
import statistics

ROUNDS = 15
LEAST_ROUNDS = 9
MOST_ROUNDS = 45  # until as many as are asked for count, and no more than that are dropped
MOST_DRIFT = 0.15
MOST_DROPPED = 0.5  # of the rounds
LEAST_SHARE = 0.7  # of rounds that meet a target
CONTROL_BYTES = 8 << 20
KIB, MIB = 1 << 10, 1 << 20


def words_of(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def copy_time(side):
    """The median of a few: a copy that others on the machine disturb for a moment says nothing of
    the round beside it."""
    return statistics.median(side.measure("memcpy", CONTROL_BYTES, 8, ranks=(0,))
                             for _ in range(5))


class Rounds:
    """Figures by key, one of each round."""

    def __init__(self, control):
        """control: gives the time of a copy of memory."""
        self.take_control = control
        self.control = []  # one more than there are rounds: behind one is before the next
        self.figures = collections.defaultdict(list)

    def add(self, key, figure):
        self.figures[key].append(figure)

    def run(self, run_one, count):
        """Until so many count; run_one adds a figure for each key."""
        run_one()  # warms up, and finds how often each is repeated
        self.figures.clear()
        self.control.append(self.take_control())
        while self.count() < MOST_ROUNDS and (len(self.steady()) < count or self.drops_too_many()):
            run_one()
            self.control.append(self.take_control())

    def count(self):
        return max(0, len(self.control) - 1)

    def steady(self):
        """The rounds that count."""
        return [i for i, beside in enumerate(zip(self.control, self.control[1:]))
                if max(beside) <= (1 + MOST_DRIFT) * min(beside)]

    def dropped(self):
        """How many do not."""
        return self.count() - len(self.steady())

    def drops_too_many(self):
        return self.dropped() > MOST_DROPPED * self.count()

    def of(self, key):
        return [self.figures[key][i] for i in self.steady()]

    def lack(self):
        """"", or why these are too few."""
        if len(self.steady()) >= LEAST_ROUNDS and not self.drops_too_many():
            return ""
        return (f"{self.dropped()} of {self.count()} rounds were dropped: of the copies of "
                f"memory before and behind one took {MOST_DRIFT:.0%} more than the other")

    def words(self):
        return (f"{self.count()} rounds in turns, of which {self.dropped()} were dropped and "
                f"{len(self.steady())} count")


def not_run(title, target, why):
    return {"title": title, "target": target[0], "status": "NOT RUN",
            "why": " ".join(why.split()), "required": target[1] is not None}


def row_of(title, target, ours, theirs, ratio=lambda ours, theirs: theirs / ours, peer_ns=float):
    """Of the rounds' figures, ours in ns. target: its words, and whether a round's (ours, theirs)
    meets it, or None. peer_ns: what of theirs are ns."""
    words, is_met = target
    row = {"title": title, "ratio": statistics.median(map(ratio, ours, theirs)), "target": words,
           "ns": statistics.median(ours), "peer_ns": statistics.median(map(peer_ns, theirs)),
           "rounds": len(ours), "status": "", "required": is_met is not None}
    if is_met is None:
        return row
    row["share"] = sum(map(is_met, ours, theirs)) / len(ours)
    row["status"] = "met" if row["share"] >= LEAST_SHARE else "MISSED"
    return row


def best_of(rounds, keys):
    """Each round's quickest."""
    return [min(figures) for figures in zip(*(rounds.of(key) for key in keys))]


def line_of(row):
    if row["status"] == "NOT RUN":
        return f"| {row['title']} | | {row['target']} | | | | NOT RUN: {row['why']} |"
    share = f"{row['share']:.0%}" if "share" in row else ""
    ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
    ours, theirs = (f"{row[key] / 1000:,.2f}" if key in row else "" for key in ("ns", "peer_ns"))
    return (f"| {row['title']} | {ratio} | {row['target']} | {share} | {ours} | "
            f"{theirs} | {row['status']} |")
