# SPDX-License-Identifier: Apache-2.0
"""Runs every pair of core and plugin generations: pairs.py BUILD ID=FOLDER...

FOLDER holds today's plugin ID with its manifest; the past and future ones are in BUILD/lib/abi. The
table goes to BUILD/reports/pairs.md and pairs.json. A pair that fails, or cannot be run, fails.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

GENERATIONS = ("past", "now", "future")
DEADLINE_S = 240


def abi_version(folder):
    """major.minor of a folder of headers."""
    text = (folder / "backplane" / "version.h").read_text()
    return ".".join(re.search(rf"#define BP_ABI_{part} (\d+)", text).group(1)
                    for part in ("MAJOR", "MINOR"))


def manifest_of(folder):
    """The one manifest in the folder of today's plugin."""
    found = list(folder.glob("*.backplane.json"))
    if len(found) != 1:
        raise SystemExit(f"{folder}: expected one manifest, found {len(found)}")
    return json.loads(found[0].read_text())


def prepare(build, plugins):
    """{(id, generation): (folder, manifest id)}; writes the manifests of past and future."""
    folders = {}
    for name, now in plugins.items():
        manifest = manifest_of(now)
        folders[name, "now"] = (now, manifest["id"])
        for generation in ("past", "future"):
            folder = build / "lib" / "abi" / generation / name
            version = abi_version(build / "generated" / "abi" / generation)
            text = json.dumps({**manifest, "abi_built": version}, indent=1)
            if folder.is_dir():
                (folder / f"libbackplane_{name}.backplane.json").write_text(text + "\n")
            folders[name, generation] = (folder, manifest["id"])
    return folders


def run_pair(build, core, name, generation, folder, plugin_id):
    """One cell of the table."""
    cell = {"core": core, "plugin": name, "plugin_generation": generation, "checks": 0,
            "failures": []}
    driver = build / "bin" / "abi" / f"abi_driver_{core}"
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("BACKPLANE_")}
    try:
        done = subprocess.run([str(driver), str(folder), plugin_id, generation],
                              capture_output=True, text=True, timeout=DEADLINE_S, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        cell["failures"] = [str(error)]
        return cell
    lines = done.stdout.splitlines()
    cell["failures"] = [line.removeprefix("FAIL ") for line in lines if line.startswith("FAIL ")]
    counted = [line for line in lines if line.startswith("checks ")]
    cell["checks"] = int(counted[-1].split()[1]) if counted else 0
    if done.returncode != 0 and not cell["failures"] or cell["checks"] == 0:
        cell["failures"].append(f"exit status {done.returncode}: {done.stderr[-3000:]}")
    return cell


def write_reports(build, cells):
    """pairs.json and pairs.md."""
    passed = sum(not cell["failures"] for cell in cells)
    report = {"passed": passed, "failed": len(cells) - passed, "total": len(cells),
              "pairs": [{**cell, "passed": not cell["failures"]} for cell in cells]}
    folder = build / "reports"
    folder.mkdir(exist_ok=True)
    (folder / "pairs.json").write_text(json.dumps(report, indent=1) + "\n")
    names = list(dict.fromkeys(cell["plugin"] for cell in cells))
    lines = ["# Core and plugin generations", "",
             "Each cell: checks that hold of those made, under the address sanitizer.", "",
             "| core | " + " | ".join(f"{n} {g}" for n in names for g in GENERATIONS) + " |",
             "|---" * (1 + len(names) * len(GENERATIONS)) + "|"]
    for core in GENERATIONS:
        row = {(c["plugin"], c["plugin_generation"]): c for c in cells if c["core"] == core}
        words = [f"{row[n, g]['checks'] - len(row[n, g]['failures'])} of {row[n, g]['checks']}"
                 for n in names for g in GENERATIONS]
        lines.append(f"| {core} | " + " | ".join(words) + " |")
    lines += ["", f"{passed} of {len(cells)} pairs pass."]
    (folder / "pairs.md").write_text("\n".join(lines) + "\n")
    return report, "\n".join(lines)


def main(build, *plugins):
    build = pathlib.Path(build)
    folders = prepare(build, {name: pathlib.Path(folder)
                              for name, folder in (text.split("=", 1) for text in plugins)})
    jobs = [(core, name, generation) for core in GENERATIONS
            for name in dict.fromkeys(name for name, _ in folders) for generation in GENERATIONS]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        cells = list(pool.map(lambda job: run_pair(build, *job, *folders[job[1], job[2]]), jobs))
    report, table = write_reports(build, cells)
    print(table)
    for cell in cells:
        for failure in cell["failures"]:
            print(f"core {cell['core']} x {cell['plugin']} {cell['plugin_generation']}: {failure}")
    return 0 if report["failed"] == 0 and report["total"] == 9 * len(plugins) > 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
