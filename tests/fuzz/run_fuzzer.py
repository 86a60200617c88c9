# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzzer: run_fuzzer.py FUZZER ROOT OUT SECONDS. Fails at the first input that crashes,
hangs or leaks, which stays in OUT/found, and where less was tried than was meant to be; what
reached new code is kept in OUT/corpus, and the next run goes on from there."""

import pathlib
import re
import subprocess
import sys

import make_seeds

MOST_SECONDS_EACH = 20
MOST_MIB = 3000
MOST_BYTES = 65536
LINES_TOLD = 80
# The first ten minutes tried 4,550 models in a second and reached 11,850 edges.
FEWEST_EACH_SECOND = 100
FEWEST_EDGES = 6000

EXECUTED = r"number_of_executed_units: (\d+)"
EDGES = r"cov: (\d+)"


def files_in(folder):
    """How many the fuzzer finds there: it passes over those without bytes."""
    return sum(path.stat().st_size > 0 for path in folder.iterdir())


def last_number(pattern, output):
    found = re.findall(pattern, output, re.MULTILINE)
    return int(found[-1]) if found else 0


def problems_of(output, folders, seconds):
    """What of the run was not as it was meant, by what the fuzzer printed. folders: {where it
    begins: how many files that has}."""
    problems = []
    for folder, count in folders.items():
        read = last_number(rf"INFO: +(\d+) files found in {re.escape(str(folder))}$", output)
        if read != count:
            problems.append(f"{read} of {count} files of {folder} were read")
    fewest = FEWEST_EACH_SECOND * seconds
    if last_number(EXECUTED, output) < fewest:
        problems.append(f"expected {fewest} models or more")
    if last_number(EDGES, output) < FEWEST_EDGES:
        problems.append(f"expected {FEWEST_EDGES} edges or more")
    return problems


def main(fuzzer, root, out, seconds):
    out = pathlib.Path(out)
    for name in ("corpus", "found"):
        (out / name).mkdir(parents=True, exist_ok=True)
    make_seeds.main(root, out / "seeds")
    folders = {folder: files_in(folder) for folder in
               (out / "corpus", out / "seeds", pathlib.Path(root) / "tests/fuzz/corpus")}
    command = [fuzzer, *map(str, folders),
               f"-max_total_time={seconds}", f"-timeout={MOST_SECONDS_EACH}",
               f"-rss_limit_mb={MOST_MIB}", f"-max_len={MOST_BYTES}", "-print_final_stats=1",
               f"-artifact_prefix={out}/found/", f"-dict={out}/seeds.dict"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", check=False)
    print(f"fuzz: {last_number(EXECUTED, run.stdout)} models in {seconds} s, "
          f"{last_number(EDGES, run.stdout)} edges reached, {files_in(out / 'corpus')} models kept")
    if run.returncode != 0:
        print("\n".join(run.stdout.splitlines()[-LINES_TOLD:]))
        print(f"failed; the model is in {out}/found")
        return 1
    problems = problems_of(run.stdout, folders, int(seconds))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
