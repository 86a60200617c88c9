# SPDX-License-Identifier: Apache-2.0
"""Where built programs and libraries look for others: search_paths.py BUILD_FOLDER.

An empty entry of a RUNPATH, or one that begins with neither $ORIGIN nor /, means the working
directory: whoever may write there would be loaded.
"""

import pathlib
import sys

import elf

FOLDERS = ("bin", "lib")


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def elf_files(build):
    found = []
    for folder in FOLDERS:
        for path in sorted((pathlib.Path(build) / folder).rglob("*")):
            if path.is_file() and not path.is_symlink() and is_elf(path):
                found.append(path)
    return found


def problems_of(path):
    return [f"{path}: search path '{entry}', expected one that begins with $ORIGIN or /"
            for entry in elf.search_paths(path)
            if not (entry == "$ORIGIN" or entry.startswith(("$ORIGIN/", "/")))]


def main(build):
    files = elf_files(build)
    if not files:
        print(f"search_paths: nothing is built below {build}")
        return 1
    problems = [problem for path in files for problem in problems_of(path)]
    print(f"search_paths: {len(files)} files, {len(problems)} problems")
    print("".join(f"  {problem}\n" for problem in problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
