# SPDX-License-Identifier: Apache-2.0
"""What small calls cost beside NumPy's: interleaved, medians, in nanoseconds."""

import statistics
import subprocess
import sys
import time

import numpy as np

import backplane as bp

ROUNDS = 51
CALLS = 2000


def measure(pairs):
    """pairs: name, ours, NumPy's. Each round times every one of them."""
    spent = {name: ([], []) for name, _, _ in pairs}
    for round_index in range(ROUNDS + 2):
        for name, *calls in pairs:
            for call, found in zip(calls, spent[name]):
                begin = time.perf_counter_ns()
                for _ in range(CALLS):
                    call()
                if round_index >= 2:  # the first ones warm up
                    found.append((time.perf_counter_ns() - begin) / CALLS)
    return {name: [statistics.median(found) for found in both] for name, both in spent.items()}


def import_ms(module):
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return statistics.median(
        1e3 * float(subprocess.check_output([sys.executable, "-P", "-c", code])) for _ in range(11)
    )


def main():
    a, b = bp.asarray([1.0]), bp.asarray([2.0])
    x, y = np.array([1.0], np.float32), np.array([2.0], np.float32)
    pairs = [
        ("nothing", lambda: None, lambda: None),
        ("a + b", lambda: a + b, lambda: x + y),
        ("a + 1.0", lambda: a + 1.0, lambda: x + 1.0),
        ("a[0]", lambda: a[0], lambda: x[0]),
        ("a[:1]", lambda: a[:1], lambda: x[:1]),
        ("a.shape", lambda: a.shape, lambda: x.shape),
        ("asarray(x)", lambda: bp.asarray(x), lambda: np.array(x)),
        ("a.numpy()", lambda: a.numpy(), lambda: np.array(x)),
    ]
    found = measure(pairs)
    empty = found["nothing"]
    for name, (ours, numpys) in found.items():
        ratio = (ours - empty[0]) / (numpys - empty[1]) if name != "nothing" else 1
        print(f"{name:12} {ours:8.0f} ns   NumPy {numpys:8.0f} ns   ratio without loop {ratio:.2f}")
    print(f"import       {import_ms('backplane'):8.1f} ms   NumPy {import_ms('numpy'):8.1f} ms")


if __name__ == "__main__":
    main()
