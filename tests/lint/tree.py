# SPDX-License-Identifier: Apache-2.0
"""The source tree as the lints see it: which files there are, and C++ text without comments.

Works without git, so that an unpacked archive is checked like a clone.
"""

import pathlib
import re

SKIPPED_FOLDERS = {"build", "__pycache__"}
C_FAMILY = {".c", ".cpp", ".h", ".hpp"}
HEADERS = {".h", ".hpp"}


def all_files(root):
    """Every file below root as a path relative to it; hidden and build folders left out."""
    found = []
    for path in pathlib.Path(root).rglob("*"):
        relative = path.relative_to(root)
        hidden = any(part.startswith(".") for part in relative.parts[:-1])
        if not hidden and not SKIPPED_FOLDERS & set(relative.parts) and path.is_file():
            found.append(relative)
    return sorted(found)


def c_family_files(root):
    return [path for path in all_files(root) if path.suffix in C_FAMILY]


def is_test(path):
    return path.stem.endswith(("_test", "_test_support")) or path.parts[0] == "tests"


def read(root, path):
    return (pathlib.Path(root) / path).read_text(encoding="utf-8")


_NOT_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    # A quote after a digit separates digits (1'000) and opens nothing.
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


def code_only(text, keep_strings=False):
    """text with comments blanked, and strings too unless kept; line numbers stay."""
    def blank(match):
        piece = match.group(0)
        if piece.startswith("/"):
            return re.sub(r"[^\n]", " ", piece)
        return piece if keep_strings else re.sub(r"[^\n\"']", " ", piece)
    return _NOT_CODE.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1
