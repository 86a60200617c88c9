# SPDX-License-Identifier: Apache-2.0
"""Runs the source lints over a tree: run_lints.py ROOT. Exit 1 when one finds a problem."""

import pathlib
import sys

import abi_laws
import file_rules
import include_rules
import size_arithmetic
import size_limits
import tree
import vendor_words

LINTS = (include_rules, vendor_words, size_limits, size_arithmetic, file_rules, abi_laws)


def main(root):
    root = pathlib.Path(root)
    # A wrong folder has nothing to complain about: say so instead of passing.
    if not tree.c_family_files(root):
        print(f"run_lints: no sources below {root}")
        return 1
    failed = False
    for lint in LINTS:
        problems = lint.check(root)
        failed = failed or bool(problems)
        print(f"{lint.__name__}: {len(problems)} problems")
        print("".join(f"  {problem}\n" for problem in problems), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
