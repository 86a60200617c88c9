# SPDX-License-Identifier: Apache-2.0
"""Small rules on files: licence line, no notes to self, every kernel file in its list."""

import pathlib
import re

import tree

LICENCE = "SPDX-License-Identifier: Apache-2.0"
LICENSED = tree.C_FAMILY | {".py", ".sh", ".cmake", ".yaml", ".map"}
_KERNEL_OBJECT = re.compile(r"^(?:[a-z]+ )*const bp_kernel (k\w+)\b(?!\[)", re.MULTILINE)
NOTE = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def is_licensed(path):
    return path.suffix in LICENSED or path.name in ("CMakeLists.txt", "dev")


def check_licence(root, path):
    head = tree.read(root, path).splitlines()[:2]
    if any(LICENCE in line for line in head):
        return []
    return [f"{path}: the first line must say {LICENCE}"]


def check_notes(root, path):
    return [f"{path}:{number}: {match.group(1)}; finish it or write an issue"
            for number, line in enumerate(tree.read(root, path).splitlines(), 1)
            if (match := NOTE.search(line))]


def unlisted_in(kernel, listed):
    """What one kernel file defines that the list's code doesn't name: kernel objects, or, where it
    shows none, the file itself. A file with a header of its own is support code."""
    objects = _KERNEL_OBJECT.findall(tree.code_only(kernel.read_text(encoding="utf-8")))
    is_support = kernel.with_suffix(".hpp").exists() and not objects
    names = [] if is_support else objects or [kernel.stem]
    return [name for name in names if not re.search(rf"\b{name}\b", listed)]


def check_kernel_lists(root):
    """A kernel that its plugin's list doesn't name would be compiled and never offered."""
    problems = []
    for folder in sorted(pathlib.Path(root).glob("plugins/*/kernels")):
        lists = sorted(folder.glob("*list.cpp")) + sorted(folder.parent.glob("kernel_list.cpp"))
        listed = "\n".join(tree.code_only(file.read_text(encoding="utf-8")) for file in lists)
        for kernel in sorted(folder.glob("*.cpp")):
            if kernel not in lists and not kernel.stem.endswith("_test"):
                problems += [f"{kernel.relative_to(root)}: the plugin's kernel list doesn't name "
                             f"{name}" for name in unlisted_in(kernel, listed)]
    return problems


def check(root):
    problems = []
    for path in tree.all_files(root):
        if is_licensed(path):
            problems += check_licence(root, path) + check_notes(root, path)
    return problems + check_kernel_lists(root)
