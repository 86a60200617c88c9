# SPDX-License-Identifier: Apache-2.0
"""Runs a fuzzer: run_fuzzer.py FUZZER ROOT OUT SECONDS. Fails at the first input that crashes,
hangs or leaks, which stays in OUT/found, and where less was tried than was meant to be; what
reached new code is kept in OUT/corpus, and the next run goes on from there."""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys

import make_seeds

MOST_SECONDS_EACH = 20
MOST_MIB = 3000
LINES_TOLD = 80

EXECUTED = r"number_of_executed_units: (\d+)"
EDGES = r"cov: (\d+)"


@dataclasses.dataclass(frozen=True)
class Meant:
    """What a run is meant to be."""
    corpus: str  # below the root
    most_bytes: int  # of an input
    fewest_each_second: int
    fewest_edges: int


MEANT = {
    # The first ten minutes tried 4,550 models in a second and reached 11,850 edges.
    "onnx_fuzzer": Meant("tests/fuzz/corpus", 65536, 100, 6000),
    # The first minute tried 7,900 inputs in a second and reached 3,900 edges.
    "wire_fuzzer": Meant("tests/fuzz/wire_corpus", 4096, 500, 3000),
}


def make_inputs(fuzzer, root, out):
    """Files to begin with, in out/seeds. Answers what libFuzzer is told of a dictionary."""
    if fuzzer.name == "onnx_fuzzer":
        make_seeds.main(root, out / "seeds")
        return [f"-dict={out}/seeds.dict"]
    (out / "seeds").mkdir(parents=True, exist_ok=True)
    subprocess.run([fuzzer], env=dict(os.environ, BP_FUZZ_SEEDS=str(out / "seeds")), check=True)
    return []


def files_in(folder):
    """How many the fuzzer finds there: it passes over those without bytes."""
    return sum(path.stat().st_size > 0 for path in folder.iterdir())


def last_number(pattern, output):
    found = re.findall(pattern, output, re.MULTILINE)
    return int(found[-1]) if found else 0


def problems_of(output, folders, seconds, meant):
    """What of the run was not as it was meant, by what the fuzzer printed. folders: {where it
    begins: how many files that has}."""
    problems = []
    for folder, count in folders.items():
        read = last_number(rf"INFO: +(\d+) files found in {re.escape(str(folder))}$", output)
        if read != count:
            problems.append(f"{read} of {count} files of {folder} were read")
    fewest = meant.fewest_each_second * seconds
    if last_number(EXECUTED, output) < fewest:
        problems.append(f"expected {fewest} inputs or more")
    if last_number(EDGES, output) < meant.fewest_edges:
        problems.append(f"expected {meant.fewest_edges} edges or more")
    return problems


def main(fuzzer, root, out, seconds):
    out, fuzzer = pathlib.Path(out), pathlib.Path(fuzzer)
    meant = MEANT[fuzzer.name]
    for name in ("corpus", "found"):
        (out / name).mkdir(parents=True, exist_ok=True)
    dictionary = make_inputs(fuzzer, root, out)
    folders = {folder: files_in(folder) for folder in
               (out / "corpus", out / "seeds", pathlib.Path(root) / meant.corpus)}
    command = [fuzzer, *map(str, folders), *dictionary,
               f"-max_total_time={seconds}", f"-timeout={MOST_SECONDS_EACH}",
               f"-rss_limit_mb={MOST_MIB}", f"-max_len={meant.most_bytes}", "-print_final_stats=1",
               f"-artifact_prefix={out}/found/"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", check=False)
    print(f"{fuzzer.name}: {last_number(EXECUTED, run.stdout)} inputs in {seconds} s, "
          f"{last_number(EDGES, run.stdout)} edges reached, {files_in(out / 'corpus')} inputs kept")
    if run.returncode != 0:
        print("\n".join(run.stdout.splitlines()[-LINES_TOLD:]))
        print(f"failed; the input is in {out}/found")
        return 1
    problems = problems_of(run.stdout, folders, int(seconds), meant)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
