# SPDX-License-Identifier: Apache-2.0
"""The speed table of collectives, of two ranks that are processes, in turns with others.

In every round each side runs each size once; rounds.py says which rounds count and when a row is
met. Writes reports/ccl_speed.{md,json} into the build folder. Exits 1 where a target is missed or
could not be measured.
"""

import argparse
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import costs  # noqa: E402
import figures  # noqa: E402
import held  # noqa: E402
import one_host  # noqa: E402
import rounds  # noqa: E402
import wired  # noqa: E402

PARTS = {"one_host": one_host, "wired": wired, "held": held, "costs": costs}
NOTE = ("Two ranks, each a process. Speed: their time over ours, the median of the rounds' ratios; "
        "rounds are dropped where of the copies of memory before and behind one takes 15 % more "
        "than the other, and where these are more than half nothing is said: NOT RUN.")
HEADER = ("what", "speed", "target", "rounds that meet it", "µs", "peer, µs", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=rounds.ROUNDS)
    parser.add_argument("--oneccl-venv", type=pathlib.Path,
                        help="has the packages of oneccl-requirements.txt")
    parser.add_argument("--only", choices=PARTS, action="append",
                        help="this part of the table, on the terminal alone")
    arguments = parser.parse_args()
    if arguments.rounds < rounds.LEAST_ROUNDS:
        raise SystemExit(
            f"--rounds: expected {rounds.LEAST_ROUNDS} or more, found {arguments.rounds}")
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("two ranks need two processors, found one")
    # Ranks on other hosts start elsewhere.
    arguments.build = arguments.build.resolve()
    if arguments.oneccl_venv is not None:
        arguments.oneccl_venv = arguments.oneccl_venv.resolve()
    rows, notes = [], [NOTE]
    for name in arguments.only or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            of_part, note = PARTS[name].measure(arguments, folder)
        rows += of_part
        notes.append(note)
    figures.write_table("Speed of collectives", "\n".join(notes), HEADER,
                        [rounds.line_of(row) for row in rows], rows,
                        None if arguments.only else arguments.build / "reports", "ccl_speed")
    return figures.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
