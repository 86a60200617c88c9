# SPDX-License-Identifier: Apache-2.0
"""Compiles every public C header alone, as C11, C++17 and C++20, with each named compiler.

A plugin author may use any of these, and may include any one header first. The last line is
"N passed, N failed"; the exit status is 1 when one failed.
"""

import argparse
import pathlib
import subprocess
import sys

LANGUAGES = (("c", "c11"), ("c++", "c++17"), ("c++", "c++20"))
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"]


def compile_alone(compiler, language, standard, header, include_folders):
    """Error text of the compiler, empty when the header compiles."""
    # Including from a source keeps "pragma once in main file" and unused-static noise away.
    source = f'#include "{header}"\n'
    command = [compiler, "-x", language, f"-std={standard}", "-fsyntax-only", *WARNINGS]
    command += [f"-I{folder}" for folder in include_folders] + ["-"]
    result = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    return "" if result.returncode == 0 else result.stderr or f"exit {result.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", action="append", required=True)
    parser.add_argument("folders", nargs="+", help="include folders; those that exist are checked")
    options = parser.parse_args()
    folders = [pathlib.Path(f).resolve() for f in options.folders if pathlib.Path(f).is_dir()]
    passed = failed = 0
    for header in sorted(h for folder in folders for h in folder.rglob("*.h")):
        for compiler in options.compiler:
            for language, standard in LANGUAGES:
                error = compile_alone(compiler, language, standard, header, folders)
                passed, failed = passed + (not error), failed + bool(error)
                if error:
                    print(f"{header} with {compiler} as {standard}:\n{error}")
    # Nothing checked is a broken check, not a success.
    failed += passed + failed == 0
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
