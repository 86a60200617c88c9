# SPDX-License-Identifier: Apache-2.0
"""Shows why the tests of a ctest JUnit report failed, so that nobody looks through their output.

Of a GoogleTest program: each case that failed, from its first failure on. Of any other test, and of
a program that died: the end of its output.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

import count_tests

_MOST_LINES = 24  # of a case
_LAST_LINES = 40  # of a test that has none
_FAILURE = re.compile(r": Failure$")
_FAILED_CASE = re.compile(r"^\[  FAILED  \] \S+\.\S+.* \(\d+ ms\)$")


def failures_of(output):
    """Lines, a list for each failed case; none where no case says that it failed."""
    found, current = [], []
    for line in output.splitlines():
        if current or _FAILURE.search(line):
            current.append(line)
        if _FAILED_CASE.match(line):
            found.append(current or [line])
            current = []
        elif line.startswith("[       OK ]"):
            current = []
    return found


def shown(lines):
    """Its first and its last lines where there are too many."""
    if len(lines) <= _MOST_LINES:
        return lines
    half = _MOST_LINES // 2
    return [*lines[:half], f"... {len(lines) - 2 * half} lines ...", *lines[-half:]]


def report(path):
    """The text; empty where nothing failed."""
    text = []
    for case in ElementTree.parse(path).getroot().findall("testcase"):
        if case.get("status") == "run" or count_tests.is_skipped(case):
            continue
        output = case.findtext("system-out") or ""
        why = [line for lines in failures_of(output) for line in shown(lines)]
        text.append(f"{case.get('name')} ({float(case.get('time') or 0):.1f} s):")
        text += [f"  {line}" for line in why or output.splitlines()[-_LAST_LINES:]]
    return "\n".join(text)


if __name__ == "__main__":
    try:
        told = report(sys.argv[1])
    except (OSError, ElementTree.ParseError) as error:
        told = f"list_failures: {sys.argv[1]}: {error}"
    if told:
        print(told)
