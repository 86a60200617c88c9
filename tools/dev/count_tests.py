# SPDX-License-Identifier: Apache-2.0
"""Counts test cases in a ctest JUnit report: prints "PASSED FAILED".

ctest knows programs, a reader wants cases. A GoogleTest program prints its own sums at its end;
any other test counts as one case. A program that died before its sums counts as one failure.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (\d+) tests?, listed below", re.MULTILINE)


def count_case(case):
    """Cases (passed, failed) of one ctest entry."""
    output = case.findtext("system-out") or ""
    passed = sum(int(count) for count in PASSED.findall(output)[-1:])
    failed = sum(int(count) for count in FAILED.findall(output)[-1:])
    if case.get("status") == "run":
        return max(passed, 1), 0
    return passed, max(failed, 1)


def main(path):
    try:
        cases = ElementTree.parse(path).getroot().findall("testcase")
    except (OSError, ElementTree.ParseError) as error:
        print(f"count_tests: {path}: {error}", file=sys.stderr)
        cases = []
    # No report or an empty one means that the tests did not run.
    counts = [count_case(case) for case in cases] or [(0, 1)]
    print(sum(count[0] for count in counts), sum(count[1] for count in counts))


if __name__ == "__main__":
    main(sys.argv[1])
