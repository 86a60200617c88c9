# SPDX-License-Identifier: Apache-2.0
"""No bare arithmetic on sizes that plugins, models or callers gave, where memory is laid out.

A sum that overflows is a small number, and a kernel then runs without the room it was promised.
core/base/checked.hpp has what to use. Places where nothing can overflow are in size_arithmetic.txt,
one "path: code  # reason" per line; an entry that is no longer needed is an error too.
"""

import pathlib
import re

import tree

AREAS = ("core/memory", "core/plan", "core/transfer",
         "core/dispatch/planned_kernel.cpp")
EXCEPTIONS = pathlib.Path("tests/lint/size_arithmetic.txt")

# The style puts spaces round operators of two operands, and none before the * of a pointer.
_OPERATOR = r"\s+(?:\+|\*|<<)\s+"
_SIZE = r"(?:[\w.\[\]]|->|\(\))*(?:bytes|sizes)_?(?:\(\)|\[[^\]]*\])*"
_LEFT = re.compile(_SIZE + _OPERATOR)
_RIGHT = re.compile(_OPERATOR + r"[(]*" + _SIZE + r"(?![\w(:])")


def is_bare(line):
    return bool(_LEFT.search(line) or _RIGHT.search(line))


def read_exceptions(root):
    """({(path, code)}, problems) of the committed list."""
    file = pathlib.Path(root) / EXCEPTIONS
    entries, problems = set(), []
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+): (\S.*?)\s+# \S.*", line)
        if match:
            entries.add((match.group(1), match.group(2)))
        else:
            problems.append(f"{EXCEPTIONS}:{number}: expected 'path: code  # reason', "
                            f"found: {line}")
    return entries, problems


def check(root):
    exceptions, problems = read_exceptions(root)
    used = set()
    for path in tree.c_family_files(root):
        name = path.as_posix()
        if not name.startswith(AREAS) or tree.is_test(path):
            continue
        for number, line in enumerate(tree.code_only(tree.read(root, path)).splitlines(), 1):
            if not is_bare(line):
                continue
            allowed = {entry for entry in exceptions if entry[0] == name and entry[1] in line}
            used |= allowed
            if not allowed:
                problems.append(f"{path}:{number}: bare arithmetic on a size, expected "
                                f"core/base/checked.hpp: {line.strip()}")
    for path, code in sorted(exceptions - used):
        problems.append(f"{EXCEPTIONS}: '{path}: {code}' is not needed any more; remove it")
    return problems
