# SPDX-License-Identifier: Apache-2.0
"""Writes the type stub of the extension: write_stub.py core.pattern OUTPUT. PYTHONPATH names the
package.

The extension has a dtype called bool, which would stand for Python's type of that name in the stub.
"""

import pathlib
import re
import sys

from nanobind import stubgen

import backplane._core


def corrected(line):
    if "def " in line:
        return re.sub(r"(?<!\.)\bbool\b", "builtins.bool", line)
    # The extension's classes, which have no bases in the stub, are final.
    return re.sub(r"^(?=class \w+:)", "@final\n", line)


def stub_text(pattern_file):
    generator = stubgen.StubGen(
        module=backplane._core, patterns=stubgen.load_pattern_file(pattern_file), quiet=True
    )
    generator.put(backplane._core)
    return "".join(map(corrected, generator.get().splitlines(keepends=True)))


def main(pattern_file, output):
    text = "# SPDX-License-Identifier: Apache-2.0\n" + stub_text(pattern_file)
    pathlib.Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
