# SPDX-License-Identifier: Apache-2.0
"""No bare arithmetic on sizes that plugins, models or callers gave, where sizes are made.

A sum that overflows is a small number, and a kernel then runs without the room it was promised.
core/base/checked.hpp has what to use. Places where nothing can overflow are in size_arithmetic.txt,
one "path: code  # reason" per line; an entry that is no longer needed is an error too. Code that is
spread over several lines is compared as one line.
"""

import pathlib
import re

import tree

AREAS = ("core/", "ops/")
EXCEPTIONS = pathlib.Path("tests/lint/size_arithmetic.txt")

# Of an operator at a line's end or begin, the lines beside it belong to it. The style puts no space
# before the * of a pointer, and one after it, so a * of two operands has spaces on both sides or on
# none.
_OPERATOR = (r"(?:\s*(?<!\+)\+(?!\+)=?\s*|\s*<<=?\s*|\s*\*=\s*|\s+\*\s+|"
             r"(?<=[\w)\]])\*(?=[\w(]))")
_SIZE = (r"(?:(?:[\w.\[\]]|->|\(\))*(?:bytes|sizes)_?(?:\(\)|\[[^\]]*\])*|(?<![\w.>])size)")
_CAST = r"static_cast<[^<>()]*>\("
_ARITHMETIC = (re.compile(_SIZE + _OPERATOR),
               re.compile(_CAST + _SIZE + r"\)" + _OPERATOR),
               re.compile(_OPERATOR + r"[(*]*(?:" + _CAST + ")?" + _SIZE + r"(?![\w(:.]|->)"))


def bare_arithmetic(text):
    """{line number: the code from there to the arithmetic's end, as one line} of a C++ text."""
    code = tree.code_only(text)
    lines = code.splitlines()
    found = {}
    for match in (match for pattern in _ARITHMETIC for match in pattern.finditer(code)):
        first, last = tree.line_of(code, match.start()), tree.line_of(code, match.end())
        if last >= found.get(first, (0,))[0]:
            found[first] = (last, " ".join(" ".join(lines[first - 1:last]).split()))
    return {first: found[first][1] for first in sorted(found)}


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
        is_test = tree.is_test(path) or path.stem.startswith("fake_")
        if not name.startswith(AREAS) or is_test:
            continue
        for number, code in bare_arithmetic(tree.read(root, path)).items():
            allowed = {entry for entry in exceptions if entry[0] == name and entry[1] in code}
            used |= allowed
            if not allowed:
                problems.append(f"{path}:{number}: bare arithmetic on a size, expected "
                                f"core/base/checked.hpp: {code}")
    for path, code in sorted(exceptions - used):
        problems.append(f"{EXCEPTIONS}: '{path}: {code}' is not needed any more; remove it")
    return problems
