# SPDX-License-Identifier: Apache-2.0
"""Vendor words stay inside their plugin.

A vendor's name in shared code means that the abstraction has leaked. The few places that must
name one (codes of module kinds, an image of another system's constants) are in vendor_words.txt,
one "path: word  # reason" per line; an entry that is no longer needed is an error too.
"""

import pathlib
import re

import tree

WORDS = ("cuda", "hip", "nccl", "rccl", "rocm", "opencl", "warp", "cudnn", "cublas", "nvidia",
         "pocl", "onednn", "dnnl")
SUFFIXES = tree.C_FAMILY | {".yaml", ".py", ".in"}
AREAS = ("device_api", "core", "ops", "ccl", "sdk", "python", "tests", "docs", "plugins")
EXCEPTIONS = pathlib.Path("tests/lint/vendor_words.txt")
# The lints must name the words in order to find them.
SELF = pathlib.Path("tests/lint")

_WORD = re.compile(r"(?<![a-z])(" + "|".join(WORDS) + r")(?![a-z])")


def words_in(line):
    """Vendor words of one line; cudaStream, CUDA_STREAM and bp_cuda_x all count, chip doesn't."""
    separated = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", line).lower()
    return set(_WORD.findall(separated))


def may_name_vendors(path):
    """A plugin names its own vendor; pages and lints name whom they please."""
    in_plugin = path.parts[0] == "plugins" and len(path.parts) > 2
    return in_plugin or SELF in path.parents


def read_exceptions(root):
    """({(path, word)}, problems) of the committed list."""
    file = pathlib.Path(root) / EXCEPTIONS
    entries, problems = set(), []
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+): (\w+)\s+# \S.*", line)
        if match:
            entries.add((match.group(1), match.group(2)))
        else:
            problems.append(f"{EXCEPTIONS}:{number}: expected 'path: word  # reason', "
                            f"found: {line}")
    return entries, problems


def check(root):
    exceptions, problems = read_exceptions(root)
    used = set()
    for path in tree.all_files(root):
        if path.suffix not in SUFFIXES or path.parts[0] not in AREAS or may_name_vendors(path):
            continue
        for number, line in enumerate(tree.read(root, path).splitlines(), 1):
            for word in sorted(words_in(line)):
                if (path.as_posix(), word) in exceptions:
                    used.add((path.as_posix(), word))
                else:
                    problems.append(f"{path}:{number}: vendor word '{word}'")
    for path, word in sorted(exceptions - used):
        problems.append(f"{EXCEPTIONS}: '{path}: {word}' is not needed any more; remove it")
    return problems
