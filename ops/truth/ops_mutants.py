# SPDX-License-Identifier: Apache-2.0
"""Whether the outside functions notice wrong definitions: ops_mutants.py TRUTH_RUNNER LIST. Mutants
(mutants.hpp, one seed) must be killed: differ from the outside function at some point. LIST names
those that compute the same, with the reason; they may be one in ten."""

import pathlib
import sys

import elementwise
import points
import reductions
from formats import FLOATS
from oracle import Oracle

SEED = 12
EACH = 5  # of every text of every row
FEWEST = 100
MOST_EQUIVALENT = 0.1


def class_of(dtype):
    if dtype == "bool":
        return "bool"
    return "float" if dtype in FLOATS else {"i": "signed", "u": "unsigned"}[dtype[0]]


class Judge:
    """Compares; keeps what is expected of each row and dtype."""

    def __init__(self, oracle):
        self._oracle = oracle
        rows = oracle.rows()
        self._rows = {row["op"]: row for row in rows["rows"]}
        self._reductions = {row["op"]: row for row in rows["reductions"]}
        self._trials = {}

    def is_killed(self, mutant):
        op = mutant["op"]
        row = self._rows.get(op) or self._reductions[op]
        return any(self._differs(mutant, *trial) for dtype in row["dtypes"]
                   if class_of(dtype) == mutant["kind"] for trial in self._trials_of(op, dtype))

    def _differs(self, mutant, dtypes, inputs, attributes, expected):
        given = {key: mutant[key] for key in ("kind", "part", "text")}
        found = self._oracle.evaluate(mutant["op"], dtypes, inputs, attributes, given)
        return not expected.agrees(found).all()

    def _trials_of(self, op, dtype):
        if (op, dtype) not in self._trials:
            make = self._make_row if op in self._rows else self._make_reduction
            self._trials[op, dtype] = list(make(op, dtype))
        return self._trials[op, dtype]

    def _make_row(self, op, dtype):
        row = self._rows[op]
        dtypes = elementwise.dtypes_of(row, dtype)
        inputs = points.tuples(dtypes)
        for settings in elementwise.settings_of(row):
            expected = elementwise.expect(row, dtype, inputs, settings)
            yield dtypes, inputs, settings, expected

    def _make_reduction(self, op, dtype):
        for length in points.REDUCED:
            inputs = points.matrix(dtype, length)
            expected = reductions.expect(op, dtype, inputs)
            yield [dtype], [inputs], {"axes": [1], "keepdims": 0}, expected


def read_equivalent(path):
    """{(operator, class, part, text): reason}. A line each, with tabs between."""
    listed = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            *key, reason = (word.strip() for word in line.split("\t"))
            listed[tuple(key)] = reason
    return listed


def key_of(mutant):
    return tuple(mutant[key] for key in ("op", "kind", "part", "text"))


def main(path, list_path):
    listed = read_equivalent(list_path)
    killed, equivalent, survived = [], [], []
    with Oracle(path) as oracle:
        judge = Judge(oracle)
        for mutant in oracle.mutants(SEED, EACH):
            if judge.is_killed(mutant):
                killed.append(key_of(mutant))
            else:
                (equivalent if key_of(mutant) in listed else survived).append(key_of(mutant))
    for key in survived:
        print("survived: " + "\t".join(key))
    stale = sorted(set(listed) - set(equivalent))
    for key in stale:
        print("listed as equivalent, and no such mutant is left: " + "\t".join(key))
    total = len(killed) + len(equivalent) + len(survived)
    print(f"mutants: {total} of definitions: {len(killed)} killed, {len(equivalent)} equivalent, "
          f"{len(survived)} survived")
    if total < FEWEST or len(equivalent) > MOST_EQUIVALENT * total:
        print(f"expected at least {FEWEST}, at most {MOST_EQUIVALENT:.0%} of them equivalent")
        return 1
    return 1 if survived or stale else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
