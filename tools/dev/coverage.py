# SPDX-License-Identifier: Apache-2.0
"""Line and branch coverage of the core's foundations, from a build of the preset coverage whose
tests have run. Prints a table and writes reports/coverage.{md,json}, with every line that makes an
error and that no test has reached.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

FOLDERS = ("core/plugin", "core/emulation", "core/memory", "core/runtime", "core/dispatch")
_TEST = re.compile(r"(_test|_test_support)\.\w+$|/fake_\w+\.\w+$")
_ERROR = re.compile(r"\bStatus\(BP_|\bfail\(|\brefuse\(|\.fail\(|\bfailure\(|return BP_[A-Z]")


def run_gcov(build, source_root):
    """{file: {line: [hits, branches taken, branches]}} summed over all objects."""
    files = collections.defaultdict(dict)
    objects = sorted(str(p) for p in build.rglob("*.gcda"))
    for start in range(0, len(objects), 40):
        done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities",
                               *objects[start:start + 40]],
                              capture_output=True, text=True, cwd=build, check=True)
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                add_document(json.loads(line), source_root, files)
    return files


def add_document(document, source_root, files):
    folder = pathlib.Path(document["current_working_directory"])
    for entry in document["files"]:
        path = (folder / entry["file"]).resolve()
        if not path.is_relative_to(source_root):
            continue
        name = path.relative_to(source_root).as_posix()
        if not name.startswith(tuple(f + "/" for f in FOLDERS)) or _TEST.search(name):
            continue
        lines = files[name]
        for line in entry["lines"]:
            # Exceptional edges of every call would drown the branches that somebody wrote.
            branches = [b for b in line["branches"] if not b["throw"]]
            taken = {i for i, b in enumerate(branches) if b["count"] > 0}
            known = lines.setdefault(line["line_number"], [0, set(), 0])
            known[0] += line["count"]
            known[1] |= taken
            known[2] = max(known[2], len(branches))


def summarise(files, source_root):
    rows, unreached = [], []
    for folder in FOLDERS:
        counts = [0, 0, 0, 0]  # lines, hit, branches, taken
        for name in sorted(n for n in files if n.startswith(folder + "/")):
            text = (source_root / name).read_text(encoding="utf-8").splitlines()
            for number, (hits, taken, branches) in sorted(files[name].items()):
                counts[0] += 1
                counts[1] += hits > 0
                counts[2] += branches
                counts[3] += len(taken)
                if hits == 0 and number <= len(text) and _ERROR.search(text[number - 1]):
                    unreached.append(f"{name}:{number}: {text[number - 1].strip()}")
        share = lambda part, whole: 100.0 * part / whole if whole else 0.0
        rows.append({"folder": folder, "lines": counts[0], "branches": counts[2],
                     "line_percent": share(counts[1], counts[0]),
                     "branch_percent": share(counts[3], counts[2])})
    return rows, unreached


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    source = arguments.source.resolve()
    files = run_gcov(arguments.build.resolve(), source)
    if not files:
        print("no coverage data: run the tests of a coverage build first", file=sys.stderr)
        return 1
    rows, unreached = summarise(files, source)
    lines = ["| folder | lines | covered | branches | taken |", "|---|---|---|---|---|"]
    lines += [f"| {r['folder']} | {r['lines']} | {r['line_percent']:.1f} % | {r['branches']} | "
              f"{r['branch_percent']:.1f} % |" for r in rows]
    table = "\n".join(lines)
    body = "\n".join(f"- {line}" for line in unreached)
    reports = arguments.build / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    (reports / "coverage.md").write_text(
        f"# Coverage\n\n{table}\n\n## Error paths that no test reaches\n\n{body}\n",
        encoding="utf-8")
    (reports / "coverage.json").write_text(
        json.dumps({"folders": rows, "unreached_errors": unreached}, indent=1), encoding="utf-8")
    print(table)
    print(f"{len(unreached)} error paths that no test reaches: {reports}/coverage.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
