# SPDX-License-Identifier: Apache-2.0
"""Rounds of measurement, which of them count, and the rows that are made of them.

A copy of memory is timed at the beginning of each round: rounds in which it takes 15 % more or
less than in the others do not count. The ratio of a round is that of its figures, a row's is the
median of those, and a row is met where 70 % of the rounds meet it.
"""

import collections
import statistics

ROUNDS = 15
LEAST_ROUNDS = 9
MOST_ROUNDS = 45  # until as many as are asked for count
MOST_DRIFT = 0.15
LEAST_SHARE = 0.7  # of rounds that meet a target
CONTROL_BYTES = 8 << 20
KIB, MIB = 1 << 10, 1 << 20


def words_of(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


class Rounds:
    """Figures by key, one of each round."""

    def __init__(self, control):
        """control: gives the time of a copy of memory."""
        self.take_control = control
        self.control = []
        self.figures = collections.defaultdict(list)

    def add(self, key, figure):
        self.figures[key].append(figure)

    def run(self, run_one, count):
        """Until so many count; run_one adds a figure for each key."""
        run_one()  # warms up, and finds how often each is repeated
        self.figures.clear()
        while len(self.control) < MOST_ROUNDS and len(self.steady()) < count:
            self.control.append(self.take_control())
            run_one()

    def steady(self):
        """The rounds that count."""
        if not self.control:
            return []
        middle = statistics.median(self.control)
        return [i for i, took in enumerate(self.control)
                if abs(took / middle - 1) <= MOST_DRIFT]

    def of(self, key):
        return [self.figures[key][i] for i in self.steady()]

    def lack(self):
        """"", or why these are too few."""
        found = len(self.steady())
        if found >= LEAST_ROUNDS:
            return ""
        return (f"a copy of memory took as long as in most rounds in {found} of "
                f"{len(self.control)} only")

    def words(self):
        return f"{len(self.control)} rounds in turns, of which {len(self.steady())} count"


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
