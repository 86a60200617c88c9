# SPDX-License-Identifier: Apache-2.0
"""Golden points as C++, for the conformance kit: embed.py OUTPUT FILE..."""

import pathlib
import sys

TOP = """\
// SPDX-License-Identifier: Apache-2.0
//
// Generated from ops/truth/golden; edits are lost.
#include "sdk/conform/kernels/golden.hpp"

namespace bp::conform {
namespace {

constexpr GoldenLine kLines[] = {
"""
BOTTOM = """\
};

}  // namespace

std::span<const GoldenLine> golden_lines() { return kLines; }

}  // namespace bp::conform
"""


def main(output, *files):
    rows = []
    for name in files:
        for line in pathlib.Path(name).read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                op, dtypes, sizes, values = line.split("\t", 3)
                values = values.replace("\t", "\\t")
                rows.append(f'    {{"{op}", "{dtypes}", "{sizes}",\n     "{values}"}},\n')
    text = TOP + "".join(rows) + BOTTOM
    path = pathlib.Path(output)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
