# SPDX-License-Identifier: Apache-2.0
"""A built plugin gives one symbol and takes none of ours: plugin_symbols.py LIBRARY...

Host services reach a plugin as a table, so a plugin that imports from the core, or finds it by a
fixed path, works only on the machine that built it.
"""

import sys

import elf

ENTRY = "bp_plugin_entry"


def check(library):
    """Problems of one elf.Library."""
    problems = []
    if library.exported != {ENTRY}:
        problems.append(f"exports {sorted(library.exported)}; expected {ENTRY} alone")
    imported = sorted(name for name in library.undefined if name.startswith(("bp_", "bpa_")))
    if imported:
        problems.append(f"imports {imported} from the core; host services come as a table")
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
