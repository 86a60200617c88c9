# SPDX-License-Identifier: Apache-2.0
"""A built plugin gives one symbol and takes none of ours: plugin_symbols.py LIBRARY...

Host services reach a plugin as a table, so a plugin that imports from the core, or finds it by a
fixed path, works only on the machine that built it. Nor is anything in it that plugins are judged
by: the oracle, which interprets definitions, and whatever else stands in ops/.
"""

import re
import sys

import elf

ENTRY = "bp_plugin_entry"
# Of the operators, their expressions, the reader, the oracle and the kit, as compilers write them.
JUDGES = re.compile(r"_ZNK?2bp(3ops|4expr|4onnx|7conform|8evaluate|12OracleTensor)")


def check(library):
    """Problems of one elf.Library."""
    problems = []
    if library.exported != {ENTRY}:
        problems.append(f"exports {sorted(library.exported)}; expected {ENTRY} alone")
    imported = sorted(name for name in library.undefined if name.startswith(("bp_", "bpa_")))
    if imported:
        problems.append(f"imports {imported} from the core; host services come as a table")
    if library.is_stripped:
        problems.append("is stripped (it has no .symtab): what it holds cannot be told")
    judges = sorted(name for name in library.hidden if JUDGES.match(name))
    if judges:
        problems.append(f"holds {len(judges)} functions of ops/ or the kit, as {judges[0]}")
    if any(name.startswith("libbackplane.so") for name in library.needed):
        problems.append("is linked with libbackplane.so")
    for path in library.search_paths:
        if path != "$ORIGIN" and not path.startswith("$ORIGIN/"):
            problems.append(f"has the search path '{path}'; only $ORIGIN moves with the plugin")
    return problems


def main(paths):
    if not paths:
        print("plugin_symbols: no plugin given")
        return 1
    failed = False
    for path in paths:
        problems = check(elf.inspect(path))
        failed = failed or bool(problems)
        print(f"{path}: {len(problems)} problems")
        print("".join(f"  {problem}\n" for problem in problems), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
