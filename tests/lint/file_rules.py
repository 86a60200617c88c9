# SPDX-License-Identifier: Apache-2.0
"""Small rules on files: licence line, no notes to self, every kernel file in its list, no test
that lists devices by hand without saying why."""

import pathlib
import re

import tree

LICENCE = "SPDX-License-Identifier: Apache-2.0"
LICENSED = tree.C_FAMILY | {".py", ".sh", ".cmake", ".yaml", ".map"}
_KERNEL_OBJECT = re.compile(r"^(?:[a-z]+ )*const(?:expr)? bp_kernel (k\w+)\b", re.MULTILINE)
_OFFER = re.compile(r"\bBP_SDK_KERNELS\(\s*(\w+)\s*,\s*(\w+)\s*\)")
_KERNELS_ARGUMENT = re.compile(r"\bKERNELS\b([^A-Z)]*)")
NOTE = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
_DEVICE_LIST = re.compile(r"^INSTANTIATE_TEST_SUITE_P\([^;]*?\bValues\(([^)]*)\)", re.MULTILINE)


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


def kernel_problems(kernel, listed, built):
    """What is wrong with one file of a kernels folder. `listed`: the file names in KERNELS;
    `built`: the text of the plugin's CMakeLists.txt."""
    code = tree.code_only(kernel.read_text(encoding="utf-8"))
    offers = _OFFER.findall(code)
    problems = [f"defines {name}, which its BP_SDK_KERNELS does not offer"
                for name in _KERNEL_OBJECT.findall(code) if name not in {o[1] for o in offers}]
    if offers and kernel.name not in listed:
        problems.append("offers kernels and is not in KERNELS of the plugin's CMakeLists.txt")
    elif kernel.name not in listed and not re.search(rf"/{re.escape(kernel.name)}\b", built):
        problems.append("is not in the plugin's CMakeLists.txt")
    return problems


def check_kernel_lists(root):
    """A kernel that its plugin doesn't list would never be offered."""
    problems = []
    for folder in sorted(pathlib.Path(root).glob("plugins/*/kernels")):
        build_file = folder.parent / "CMakeLists.txt"
        built = build_file.read_text(encoding="utf-8") if build_file.is_file() else ""
        built = re.sub(r"#.*", "", built)
        listed = {pathlib.PurePath(word).name for part in _KERNELS_ARGUMENT.findall(built)
                  for word in part.split()}
        for kernel in sorted(folder.glob("*.cpp")):
            if not kernel.stem.endswith("_test"):
                problems += [f"{kernel.relative_to(root)}: {problem}"
                             for problem in kernel_problems(kernel, listed, built)]
    return problems


def check_device_lists(root, path):
    """A suite that names several plugins' devices would pass over a new plugin: it takes
    tests::device_names(), or a comment before it says why these."""
    text = tree.read(root, path)
    problems = []
    for match in _DEVICE_LIST.finditer(text):
        plugins = set(re.findall(r'"(\w+):\d+"', match.group(1)))
        before = text[:match.start()].splitlines()[-1:]
        if len(plugins) > 1 and not (before and before[0].startswith("//")):
            number = text.count("\n", 0, match.start()) + 1
            problems.append(f"{path}:{number}: devices listed by hand: take device_names(), or say "
                            "why in a comment on the line before")
    return problems


def check(root):
    problems = []
    for path in tree.all_files(root):
        if is_licensed(path):
            problems += check_licence(root, path) + check_notes(root, path)
        if path.suffix == ".cpp" and path.parts[0] == "tests":
            problems += check_device_lists(root, path)
    return problems + check_kernel_lists(root)
