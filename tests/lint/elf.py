# SPDX-License-Identifier: Apache-2.0
"""What readelf (binutils, which every compiler brings) says about a shared library."""

import dataclasses
import re
import subprocess


@dataclasses.dataclass
class Library:
    """Dynamic view of one library: names as written, without symbol versions. `hidden`: what is in
    it and not for others, which only a library that is not stripped tells."""
    exported: set
    undefined: set
    needed: list
    search_paths: list
    hidden: set = dataclasses.field(default_factory=set)
    is_stripped: bool = False


def _readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, str(path)], check=True, text=True,
                          capture_output=True).stdout


def search_paths(path):
    """The entries of RPATH and RUNPATH, also empty ones; none of a file that is not dynamic."""
    texts = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", _readelf("--dynamic", path))
    return [entry for text in texts for entry in text.split(":")]


def thread_local_bytes(path):
    """How much of each thread the library takes."""
    found = re.search(r"^\s*TLS\s+(?:0x[0-9a-f]+\s+){4}0x([0-9a-f]+)", _readelf("--segments", path),
                      re.MULTILINE)
    return int(found.group(1), 16) if found else 0


def _symbols(option, path):
    """(kind, binding, section, name) of each."""
    for line in _readelf(option, path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].endswith(":") or not fields[0][:-1].isdigit():
            continue
        yield fields[3], fields[4], fields[6], fields[7].split("@")[0]


def inspect(path):
    exported, undefined = set(), set()
    for kind, binding, section, name in _symbols("--dyn-syms", path):
        if section == "UND":
            undefined.add(name)
        elif binding != "LOCAL" and kind != "SECTION" and section != "ABS":
            exported.add(name)
    hidden = {name for kind, _, section, name in _symbols("--syms", path)
              if section != "UND" and kind in ("FUNC", "OBJECT") and name not in exported}
    is_stripped = not re.search(r"\s\.symtab\s", _readelf("--sections", path))
    dynamic = _readelf("--dynamic", path)
    return Library(exported, undefined, re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic),
                   search_paths(path), hidden, is_stripped)
