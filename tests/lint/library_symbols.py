# SPDX-License-Identifier: Apache-2.0
"""libbackplane.so exports exactly what its headers declare: library_symbols.py LIBRARY FOLDER...

A symbol too many becomes something that users depend on; one too few is a broken promise.
Thread-local variables lie at fixed places of a thread, of which the C library keeps 512 bytes for
all that is loaded late: a library that takes more cannot be loaded by a program that runs.
"""

import pathlib
import re
import sys

import elf
import tree

# A function's name stands directly before its parameters; a function pointer's has ")" between.
_DECLARED = re.compile(r"\b(bpa_\w+)\s*\(")


def declared_functions(text):
    code = tree.code_only(text)
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", code, flags=re.MULTILINE)
    # An inline function lives in its user, not in the library.
    code = re.sub(r"\bstatic\s+inline\b[^{;]*\{.*?^\}", "", code, flags=re.MULTILINE | re.DOTALL)
    return set(_DECLARED.findall(code))


def compare(exported, declared):
    problems = [f"{name} is exported and in no header" for name in sorted(exported - declared)]
    problems += [f"{name} is declared and not exported" for name in sorted(declared - exported)]
    if not declared:
        problems.append("the headers declare no function")
    return problems


_MOST_THREAD_LOCAL_BYTES = 320


def check_thread_locals(taken):
    if taken <= _MOST_THREAD_LOCAL_BYTES:
        return []
    return [f"{taken} bytes of thread-local variables, expected at most {_MOST_THREAD_LOCAL_BYTES}"]


def main(library, folders):
    declared = set()
    for folder in folders:
        for header in sorted(pathlib.Path(folder).rglob("*.h")):
            declared |= declared_functions(header.read_text(encoding="utf-8"))
    problems = compare(elf.inspect(library).exported, declared)
    problems += check_thread_locals(elf.thread_local_bytes(library))
    print(f"{library}: {len(declared)} functions declared, {len(problems)} problems")
    print("".join(f"  {problem}\n" for problem in problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
