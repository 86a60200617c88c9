# SPDX-License-Identifier: Apache-2.0
"""docs/abi_laws.md: every law has a row, and every row names a test that exists or says why not."""

import pathlib
import re

PAGE = "docs/abi_laws.md"
LAWS = range(1, 16)
_ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|$")
_TEST = re.compile(r"^`([^`]+)` `([^`]+)`$")


def check_holder(root, place, holder):
    if holder.startswith("reviewed: ") and len(holder) > len("reviewed: "):
        return []
    match = _TEST.match(holder)
    if not match:
        return [f"{place}: expected `file` `test` or 'reviewed: why', found '{holder}'"]
    file = root / match.group(1)
    if not file.is_file():
        return [f"{place}: there is no file {match.group(1)}"]
    if match.group(2) not in file.read_text(encoding="utf-8"):
        return [f"{place}: {match.group(1)} has no {match.group(2)}"]
    return []


def check(root):
    root = pathlib.Path(root)
    page = root / PAGE
    if not page.exists():
        return [f"{PAGE}: missing"]
    problems, seen = [], set()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        match = _ROW.match(line)
        if match:
            seen.add(int(match.group(1)))
            problems += check_holder(root, f"{PAGE}:{number}", match.group(3).strip())
    return problems + [f"{PAGE}: law {law} has no row" for law in LAWS if law not in seen]
