# SPDX-License-Identifier: Apache-2.0
"""The benchmark programs' figures: one value per round and name, and what kept a name from having
one."""

import json
import os
import pathlib
import statistics
import subprocess

SCALE = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
SUFFIXES = ("real_time", "manual_time")
REPETITIONS = 5
FAILED = ("MISSED", "SLOWER", "NOT MEASURED", "WRONG")


class Figures:
    """Nanoseconds per iteration by benchmark name."""

    def __init__(self):
        self.rounds = {}
        self.reasons = {}  # of names without a figure
        self.counters = {}

    def add(self, name, nanoseconds):
        self.rounds.setdefault(name, []).append(nanoseconds)

    def lack(self, name, reason):
        self.reasons[name] = reason

    def lack_of(self, *names):
        """"" if all have figures, or why the first does not."""
        for name in names:
            if name in self.reasons:
                return f"{name}: {self.reasons[name]}"
            if name not in self.rounds:
                return f"{name}: no program printed it"
        return ""

    def median(self, name):
        return statistics.median(self.rounds[name])

    def ratio(self, name, unit):
        """The median of the rounds' ratios: within a round both meet the same machine, which may
        be twice as fast in the next one."""
        return ratio_of(self.rounds[name], self.rounds[unit])


def ratio_of(values, units):
    return statistics.median(a / b for a, b in zip(values, units, strict=True))


def plain_name(name):
    """The benchmark's own name, and whether its figure is the wall clock's: what computes on the
    calling thread alone is measured in that thread's processor time, which others do not add to."""
    parts = name.split("/")
    wall = any(part in SUFFIXES for part in parts)
    return "/".join(p for p in parts if p not in SUFFIXES and not p.startswith("iterations:")), wall


def run_program(path, figures, environment, library=None, only=None):
    """One round of a program. library: the folder whose libbackplane.so it must measure; only: the
    names that are kept, by default all."""
    if library is not None:
        environment = dict(environment, LD_LIBRARY_PATH=str(library))
    command = [path, "--benchmark_format=json", "--benchmark_min_time=0.01",
               f"--benchmark_repetitions={REPETITIONS}",
               "--benchmark_enable_random_interleaving=true"]
    if only is not None:
        command.append("--benchmark_filter=^(" + "|".join(only) + ")(/|$)")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{path} exits with {done.returncode}: {done.stderr.strip()[-400:]}")
    report = json.loads(done.stdout)
    if library is not None:
        check_library(path, report["context"].get("library", ""), library)
    keep_rows(report["benchmarks"], figures)


def check_library(program, found, folder):
    if pathlib.Path(os.path.realpath(found)).parent != pathlib.Path(os.path.realpath(folder)):
        raise SystemExit(f"{program} measured {found or 'no libbackplane.so'}, expected that of "
                         f"{folder}")


def keep_rows(rows, figures):
    """One figure for the repetitions of each benchmark. Another program on the same processor core
    halves the speed of this one for milliseconds at a time, and can only ever add: so the quickest
    counts of what one thread computes, here as for the peers. Of what is measured by the wall
    clock, where threads wait for each other, it is the median."""
    repetitions = {}
    for row in rows:
        if row.get("run_type") == "aggregate":
            continue
        name, wall = plain_name(row["name"])
        if row.get("error_occurred"):
            figures.lack(name, row.get("error_message", "failed without words"))
            continue
        time = row["real_time" if wall else "cpu_time"] * SCALE[row["time_unit"]]
        repetitions.setdefault((name, wall), []).append(time)
        if "peak_ratio" in row:
            figures.counters[name] = row["peak_ratio"]
    for (name, wall), times in repetitions.items():
        figures.add(name, statistics.median(times) if wall else min(times))


def write_table(title, note, header, lines, rows, folder, stem):
    """FOLDER/STEM.{md,json}, and on the terminal; without a folder, of rows that are
    not all, there alone."""
    text = "\n".join([f"# {title}", "", note, "", "| " + " | ".join(header) + " |",
                      "|" + "---|" * len(header), *lines]) + "\n"
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stem}.md").write_text(text, encoding="utf-8")
        (folder / f"{stem}.json").write_text(json.dumps({"rows": rows}, indent=1), encoding="utf-8")
    print(text, end="", flush=True)
    if folder is None:
        print(f"\nThese are not all rows: reports/{stem} stays as it was.", flush=True)


def exit_status(rows):
    """1 if a target is missed or a row that has one did not run; says which."""
    bad = [row for row in rows if row["status"] in FAILED
           or (row["status"] == "NOT RUN" and row["required"])]
    for row in bad:
        print(f"{row['status']}: {row['title']}")
    return 1 if bad else 0
