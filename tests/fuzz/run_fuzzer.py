# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzzer: run_fuzzer.py FUZZER ROOT OUT SECONDS. Fails at the first input that crashes,
hangs or leaks, which stays in OUT/found; what reached new code is kept in OUT/corpus, and the next
run goes on from there."""

import pathlib
import re
import subprocess
import sys

import make_seeds

MOST_SECONDS_EACH = 20
MOST_MIB = 3000
MOST_BYTES = 65536
LINES_TOLD = 80


def main(fuzzer, root, out, seconds):
    out = pathlib.Path(out)
    for name in ("corpus", "found"):
        (out / name).mkdir(parents=True, exist_ok=True)
    make_seeds.main(root, out / "seeds")
    command = [fuzzer, str(out / "corpus"), str(out / "seeds"),
               str(pathlib.Path(root) / "tests/fuzz/corpus"),
               f"-max_total_time={seconds}", f"-timeout={MOST_SECONDS_EACH}",
               f"-rss_limit_mb={MOST_MIB}", f"-max_len={MOST_BYTES}", "-print_final_stats=1",
               f"-artifact_prefix={out}/found/", f"-dict={out}/seeds.dict"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", check=False)
    executed = re.search(r"number_of_executed_units: (\d+)", run.stdout)
    reached = re.findall(r"cov: (\d+)", run.stdout)
    kept = len(list((out / "corpus").iterdir()))
    print(f"fuzz: {executed.group(1) if executed else 'no'} models in {seconds} s, "
          f"{reached[-1] if reached else 'no'} edges reached, {kept} models kept")
    if run.returncode != 0:
        print("\n".join(run.stdout.splitlines()[-LINES_TOLD:]))
        print(f"failed; the model is in {out}/found")
    return 0 if run.returncode == 0 and executed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
