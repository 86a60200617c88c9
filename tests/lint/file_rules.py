# SPDX-License-Identifier: Apache-2.0
"""Small rules on files: licence line, no notes to self, every kernel file in its list."""

import pathlib
import re

import tree

LICENCE = "SPDX-License-Identifier: Apache-2.0"
LICENSED = tree.C_FAMILY | {".py", ".sh", ".cmake", ".yaml", ".map"}
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


def check_kernel_lists(root):
    """A kernel file that its plugin's list doesn't name would be compiled and never offered."""
    problems = []
    for folder in sorted(pathlib.Path(root).glob("plugins/*/kernels")):
        plugin = folder.parent
        lists = sorted(plugin.glob("kernel_list.*")) + sorted(folder.glob("kernel_list.*"))
        text = "\n".join(file.read_text(encoding="utf-8") for file in lists)
        for kernel in sorted(folder.glob("*.cpp")):
            own = kernel.stem == "kernel_list" or kernel.stem.endswith("_test")
            if not own and not re.search(rf"(?<![a-z0-9]){kernel.stem}(?![a-z0-9])", text):
                problems.append(f"{kernel.relative_to(root)}: kernel_list of "
                                f"{plugin.relative_to(root)} doesn't name {kernel.stem}")
    return problems


def check(root):
    problems = []
    for path in tree.all_files(root):
        if is_licensed(path):
            problems += check_licence(root, path) + check_notes(root, path)
    return problems + check_kernel_lists(root)
