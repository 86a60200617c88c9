# SPDX-License-Identifier: Apache-2.0
"""Are the tests worth their name? Plants one defect at a time into a copy of the tree.

mutations.yaml holds hand-made defects of the core and the kit, one changed line each. For each of
them this builds the tests that are expected to notice it, runs those, and, if none fails, all the
others that the file names. The verdicts go to BUILD/reports/mutation.{md,json}. --check only makes
sure that every defect still applies: its old text must stand in its file exactly once.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

import yaml

FOLDER = pathlib.Path(__file__).resolve().parent
FIELDS = {"id", "file", "old", "new", "why", "killed_by"}
# Copied from the build that asks, so that the compiler's cache knows most of the work.
CACHE_VARIABLES = ("CMAKE_BUILD_TYPE", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER",
                   "CMAKE_C_FLAGS_RELEASE", "CMAKE_CXX_FLAGS_RELEASE", "BACKPLANE_PYTHON",
                   "BP_USE_CCACHE")
NOT_COPIED = ("build", ".git", ".venv", ".cache", "__pycache__")
TEST_TIMEOUT_SECONDS = 300


class DefectError(Exception):
    """A defect that can't be judged."""


def changed_lines(defect):
    old, new = defect["old"].splitlines(), defect["new"].splitlines()
    return sum(a != b for a, b in zip(old, new)) + abs(len(old) - len(new))


def apply(defect, text):
    """The file's text with the defect in it."""
    count = text.count(defect["old"])
    if count != 1:
        raise DefectError(f"{defect['id']}: its old text stands {count} times in {defect['file']}")
    return text.replace(defect["old"], defect["new"])


def test_names(root):
    """Every test that the tree's CMake files define."""
    text = "".join(path.read_text(encoding="utf-8")
                   for folder in ("ccl", "core", "ops", "plugins", "sdk", "tests")
                   for path in sorted((root / folder).rglob("CMakeLists.txt")))
    words = text.replace("(", " ").replace(")", " ").split()
    return {after for before, after in zip(words, words[1:]) if before in ("bp_add_test", "NAME")}


def check(root, defects):
    """What is wrong with the list of defects, one sentence each."""
    problems = []
    known_tests = test_names(root)
    ids = [defect.get("id") for defect in defects]
    problems += [f"{one}: more than once" for one in sorted(set(ids)) if ids.count(one) > 1]
    for defect in defects:
        if set(defect) != FIELDS:
            problems.append(f"{defect.get('id')}: its fields are {sorted(defect)}, "
                            f"expected {sorted(FIELDS)}")
            continue
        if changed_lines(defect) != 1:
            problems.append(f"{defect['id']}: changes {changed_lines(defect)} lines, expected 1")
        problems += [f"{defect['id']}: there is no test {name}"
                     for name in defect["killed_by"] if name not in known_tests]
        path = root / defect["file"]
        try:
            if not path.is_file():
                raise DefectError(f"{defect['id']}: there is no {defect['file']}")
            apply(defect, path.read_text(encoding="utf-8"))
        except DefectError as error:
            problems.append(str(error))
    return problems


def files_of(root):
    """The paths of a tree's files from its root, builds left out."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in NOT_COPIED]
        yield from (pathlib.Path(folder, name).relative_to(root) for name in files)


def copy_tree(root, scratch):
    """Brings the copy up to date; unchanged files keep their time, so little is built anew."""
    wanted = set(files_of(root))
    for path in sorted(wanted):
        source, target = root / path, scratch / path
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    for path in set(files_of(scratch)) - wanted:
        (scratch / path).unlink()


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)


def must_run(command, what):
    result = run(command)
    if result.returncode != 0:
        raise DefectError(f"{what} failed:\n{result.stdout[-4000:]}")


def cached_values(build):
    """CACHE_VARIABLES, and where packages were found, as -D arguments."""
    arguments = []
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        entry = re.match(r"(\w+):(\w+)=(.*)$", line)
        if entry is None:
            continue
        name, kind, value = entry.groups()
        is_package = name.endswith("_DIR") and kind in ("PATH", "UNINITIALIZED")
        if name in CACHE_VARIABLES or is_package:
            arguments.append(f"-D{name}={value}")
    return arguments


class Scratch:
    """The copy of the tree and its build."""

    def __init__(self, root, build):
        self.source = build / "mutation"
        # As deep below the sources as any other build, so that the compiler's cache sees the same
        # relative paths.
        self.build = self.source / "build" / "mutation"
        copy_tree(root, self.source)
        # Each source by itself: a defect costs the compile time of its file alone, and the
        # compiler's cache knows the others from the last time.
        must_run(["cmake", "-G", "Ninja", "-S", str(self.source), "-B", str(self.build),
                  "-DBP_UNITY=OFF", *cached_values(build)], "cmake")

    def build_tests(self, names):
        must_run(["ninja", "-C", str(self.build), *names], "building " + ", ".join(names))

    def failing(self, names):
        """Which of these tests fail. The first failure of a program ends it."""
        report = self.build / "mutation.xml"
        report.unlink(missing_ok=True)
        run(["ctest", "--test-dir", str(self.build), "-R", "^(" + "|".join(names) + ")$",
             "--timeout", str(TEST_TIMEOUT_SECONDS), "--no-tests=error",
             "--output-junit", str(report)],
            env={**os.environ, "GTEST_FAIL_FAST": "1"})
        if not report.is_file():
            raise DefectError("ctest ran none of " + ", ".join(names))
        cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
        return [case.get("name") for case in cases if case.get("status") == "fail"]

    def verdict(self, defect, all_tests):
        """Names of the tests that notice the defect; none: it survived."""
        path = self.source / defect["file"]
        sound = path.read_text(encoding="utf-8")
        path.write_text(apply(defect, sound), encoding="utf-8")
        try:
            others = [name for name in all_tests if name not in defect["killed_by"]]
            for names in (defect["killed_by"], others):
                self.build_tests(names)
                failed = self.failing(names)
                if failed:
                    return failed
            return []
        finally:
            path.write_text(sound, encoding="utf-8")


def write_reports(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    killed = sum(bool(row["failed_tests"]) for row in rows)
    summary = {"passed": killed, "failed": len(rows) - killed, "total": len(rows), "defects": rows}
    (folder / "mutation.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    lines = ["# Hand-made defects of the core and the kit", "",
             f"{killed} of {len(rows)} are noticed by the tests.", "",
             "| defect | file | what it is | noticed by | s |", "|---|---|---|---|---|"]
    lines += [f"| {row['id']} | {row['file']} | {row['why']} | "
              f"{', '.join(row['failed_tests']) or '**nothing**'} | {row['seconds']} |"
              for row in rows]
    (folder / "mutation.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def judge(root, build, defects):
    scratch = Scratch(root, build)
    all_tests = sorted({name for defect in defects for name in defect["killed_by"]})
    scratch.build_tests(all_tests)
    failed = scratch.failing(all_tests)
    if failed:
        raise DefectError("without any defect these fail: " + ", ".join(failed))
    rows = []
    for defect in defects:
        begin = time.monotonic()
        failed = scratch.verdict(defect, all_tests)
        rows.append({"id": defect["id"], "file": defect["file"], "why": defect["why"],
                     "failed_tests": failed, "seconds": round(time.monotonic() - begin)})
        print(f"{defect['id']}: {'killed by ' + ', '.join(failed) if failed else 'SURVIVED'}",
              flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only see that all defects apply")
    parser.add_argument("--only", default="", help="ids, separated by commas; no report is written")
    parser.add_argument("root", type=pathlib.Path, help="the source tree")
    parser.add_argument("build", type=pathlib.Path, nargs="?", help="a configured build of it")
    arguments = parser.parse_args()
    defects = yaml.safe_load((FOLDER / "mutations.yaml").read_text(encoding="utf-8"))
    problems = check(arguments.root, defects)
    if problems or arguments.check:
        print("\n".join(problems or [f"{len(defects)} defects apply"]))
        return 1 if problems else 0
    if arguments.build is None:
        parser.error("a build folder is needed to judge defects")
    only = set(filter(None, arguments.only.split(",")))
    chosen = [defect for defect in defects if not only or defect["id"] in only]
    try:
        rows = judge(arguments.root.resolve(), arguments.build.resolve(), chosen)
    except DefectError as error:
        print(error)
        return 1
    if not only:
        write_reports(arguments.build / "reports", rows)
    return 0 if rows and all(row["failed_tests"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
