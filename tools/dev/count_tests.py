# SPDX-License-Identifier: Apache-2.0
"""Counts test cases in a ctest JUnit report: prints "PASSED FAILED SKIPPED".

ctest knows programs, a reader wants cases. A GoogleTest program prints its own sums at its end;
any other test counts as one case. A program that died before its sums counts as one failure.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

_PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.MULTILINE)
_FAILED = re.compile(r"^\[  FAILED  \] (\d+) tests?, listed below", re.MULTILINE)
_SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) tests?, listed below", re.MULTILINE)


def _last(pattern, text, otherwise):
    """A test that starts GoogleTest programs shows their sums too: its own come last."""
    found = pattern.findall(text)
    return int(found[-1]) if found else otherwise


def is_skipped(case):
    """A test that could not start is reported as skipped too, but with other words."""
    reason = case.find("skipped")
    return reason is not None and reason.get("message", "").startswith("SKIP_")


def count_case(case):
    """Cases (passed, failed, skipped) of one ctest entry."""
    if is_skipped(case):
        return 0, 0, 1
    output = case.findtext("system-out") or ""
    skipped = _last(_SKIPPED, output, 0)
    if case.get("status") == "run":
        return _last(_PASSED, output, 1), 0, skipped
    return _last(_PASSED, output, 0), max(_last(_FAILED, output, 1), 1), skipped


def count_report(path):
    """Sums over a report. None, or an empty one, means that no test ran: a failure."""
    try:
        cases = ElementTree.parse(path).getroot().findall("testcase")
    except (OSError, ElementTree.ParseError) as error:
        print(f"count_tests: {path}: {error}", file=sys.stderr)
        cases = []
    counts = [count_case(case) for case in cases] or [(0, 1, 0)]
    return tuple(sum(column) for column in zip(*counts))


if __name__ == "__main__":
    print(*count_report(sys.argv[1]))
