# SPDX-License-Identifier: Apache-2.0
"""ONNX's own cases through the public API, on each device; reports/onnx.{md,json}.

run_cases.py --build BUILD --runner PROGRAM --plugins FOLDER --every DEVICE=N...: every Nth case on
that device. A device other than the host is tried with BACKPLANE_FALLBACK=deny first, and what does
not pass so is tried again with fallbacks. What passed before (floor.json) must pass: --update adds
what passes now and drops nothing (LISTED in verdicts.py grows with it). --only PATTERN: these
cases, without the floor and the report.
Exit status 77 (skipped) without the onnx package.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import time

import case_pool
import verdicts

HOST = "cpu:0"  # has nothing to fall back to
FLOOR = verdicts.HERE / "floor.json"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--runner", required=True)
    parser.add_argument("--plugins", required=True)
    parser.add_argument("--every", action="append", required=True, metavar="DEVICE=N")
    parser.add_argument("--may-be-absent", action="append", default=[], metavar="DEVICE")
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("--update", action="store_true")
    return parser.parse_args()


class Run:
    def __init__(self, args):
        self.args = args
        self.folder = args.build / "onnx_cases"
        self.index = json.loads((self.folder / "index.json").read_text("utf-8"))
        self.operators = verdicts.Operators(args.build / "generated/ops/ops.json")
        self.excuses = verdicts.read_excuses()

    def cases(self, every):
        """Of each kind of case some, in an order that does not depend on what else there is."""
        return [c for c in self.index[::every] if re.search(self.args.only, c["name"])]

    def ask(self, device, fallback, cases):
        asked = [c["name"] for c in cases if not c["values"]]
        command = [self.args.runner, device, self.args.plugins, f"BACKPLANE_FALLBACK={fallback}"]
        answers = case_pool.run(command, [self.folder / n for n in asked])
        return {c["name"]: answers.get(self.folder / c["name"]) or
                case_pool.failure("REFUSED", c["values"]) for c in cases}

    def device(self, device, every):
        cases = self.cases(every)
        if device == HOST:
            answers, denied = self.ask(device, "warn", cases), None
        else:
            denied = self.ask(device, "deny", cases)
            again = [c for c in cases if denied[c["name"]].verdict != "PASS"]
            answers = {**denied, **self.ask(device, "allow", again)}
        return verdicts.judge(device, cases, answers, denied, self.operators, self.excuses)


def read_floor():
    return json.loads(FLOOR.read_text("utf-8")) if FLOOR.is_file() else {}


def update_floor(tables):
    floor = read_floor()
    for table in tables:
        for kind, passing in (("", "passing"), ("denied", "passing_denied")):
            if kind and table["denied"] is None:
                continue
            key = f"{table['device']} {kind}".strip()
            floor[key] = sorted(set(floor.get(key, [])) | set(table[passing]))
    FLOOR.write_text(json.dumps(floor, indent=0) + "\n", encoding="utf-8")


def main():
    try:
        import make_cases
        import onnx  # noqa: F401
        import onnx.numpy_helper  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}; tools/requirements-test.txt has the package")
        return 77
    args = parse()
    make_cases.main(args.build / "onnx_cases")
    run = Run(args)
    tables, sampled, problems = [], {}, []
    for text in args.every:
        device, every = text.rsplit("=", 1)
        started = time.time()
        try:
            table = run.device(device, int(every))
        except case_pool.DeviceAbsent as error:
            print(f"{device}: NOT RUN: {error}")
            if device not in args.may_be_absent or "BP_REQUIRE_DEVICES" in os.environ:
                problems.append(f"{device} is not here")
            continue
        print(f"{device}: {table['total']} cases in {time.time() - started:.0f} s")
        tables.append(table)
        sampled[device] = int(every)
        problems += verdicts.problems_of(table, {} if args.only else read_floor())
        if device == HOST and int(every) == 1 and not args.only:
            problems += verdicts.idle_excuses(run.excuses, table)
    if args.update:
        update_floor(tables)
    if not args.only:
        problems += verdicts.floor_problems(read_floor(), [c["name"] for c in run.index])
    if args.only:
        print("\n".join(f"{t['device']} {r['case']}: {r['verdict']} {r['reason']}: {r['words']}"
                        for t in tables for r in t["not_passed"]))
    else:
        print("\n".join(verdicts.write_reports(tables, sampled, args.build / "reports")))
    print("\n".join(problems))
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
