# SPDX-License-Identifier: Apache-2.0
"""Runs the fault table of collectives: every row of table.csv that belongs to the suite.

    run_faults.py FAULT_RANK REPORTS quick|full|cycles [--only TEXT] [--cycles N]

A row is a fault at a place on so many ranks of a layout. Ranks of "one host" and "two hosts" send
each other messages; of "native" all devices are linked, of "island" two of three, of "two islands"
those of each host. With `cycles` there are N cycles of a rank that dies and a group without it, as
at the end of the others. The results go to REPORTS/ccl_faults.{md,json}, or ccl_faults_full,
ccl_faults_cycles. Where two hosts cannot be made, which takes root and the kernel's namespaces,
their rows are NOT RUN, and the exit code is 77.
"""

import argparse
import csv
import json
import pathlib
import sys
import tempfile
import time

from cycles import run_cycles
from fault_hosts import ThisHost, Wire
from fault_job import DEVICES, Job
from fault_ranks import Wrong
from faults import FAULTS, Late, Scene, variables_of

TABLE = pathlib.Path(__file__).with_name("table.csv")
LAYOUTS = {  # numbers of ranks, and their devices
    "one host": ((2, 3, 4), DEVICES),
    "two hosts": ((2, 3, 4), DEVICES),
    "native": ((2, 3, 4), ("npu:0",) * 4),
    "island": ((3,), ("npu:0", "npu:0", "cpu:0")),
    "two islands": ((4,), ("npu:0",) * 4),
}
LINKED = ("native", "island", "two islands")
WIRED = ("two hosts", "two islands")
LINE_COUNT = 58  # of the table
PLACES = ("joining", "idle", "short sum", "8 MiB sum")  # of each fault; some have more
NOT_RUN = 77
MOST_TRIES = 3
ANEW = ("store killed", "port taken")  # faults of no group: the ranks make another one


def read_table():
    """Every cell as {fault, place, layout, ranks, suite, why}; suite "": it does not apply."""
    with open(TABLE, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    if len(lines) != LINE_COUNT:
        raise SystemExit(f"{TABLE}: expected {LINE_COUNT} lines, found {len(lines)}")
    cells = []
    for line in lines:
        if line["fault"] not in FAULTS:
            raise SystemExit(f"{TABLE}: no fault {line['fault']!r}")
        row = [cell_of(line, layout, ranks)
               for layout, (counts, _) in LAYOUTS.items() for ranks in counts]
        suites = {cell["suite"] for cell in row}
        if "full" in suites and "quick" not in suites:
            raise SystemExit(f"{TABLE}: {line['fault']}, {line['place']} is in no quick row")
        cells += row
    found = [(line["fault"], line["place"]) for line in lines]
    missing = {(fault, place) for fault in FAULTS for place in PLACES} - set(found)
    if missing or len(set(found)) < len(found):
        raise SystemExit(f"{TABLE}: expected each line once, and also {sorted(missing)}")
    return cells


def cell_of(line, layout, ranks):
    where = f"{layout} {ranks}"
    why = line["why not linked" if layout in LINKED else "why not"]
    suite = line[where]
    if suite not in ("quick", "full", "-"):
        raise SystemExit(f"{TABLE}: expected quick, full or -, found {suite!r} at {where}")
    if suite == "-" and not why:
        raise SystemExit(f"{TABLE}: {line['fault']}, {line['place']}, {where}: no reason")
    return {"fault": line["fault"], "place": line["place"], "layout": layout, "ranks": ranks,
            "suite": suite.strip("-"), "why": why if suite == "-" else ""}


def name_of(cell):
    return f"{cell['fault']}, {cell['place']}, {cell['ranks']} ranks, {cell['layout']}"


def hosts_of(cell, wire, this_host):
    """Those of the ranks: the second host has the smaller half."""
    if cell["layout"] not in WIRED:
        return [this_host] * cell["ranks"]
    there = cell["ranks"] // 2
    return [wire.hosts[0]] * (cell["ranks"] - there) + [wire.hosts[1]] * there


def run_cell(program, cell, wire, this_host):
    """Fills in what came of it. One that was right and late is run again: the best try counts, for
    a machine that others use may be slow for a second."""
    for attempt in range(1, MOST_TRIES + 1):
        is_late = try_cell(program, cell, wire, this_host)
        cell["tries"] = attempt
        if not is_late:
            return


def try_cell(program, cell, wire, this_host):
    """True: it was late, and nothing else is wrong."""
    begin = time.monotonic()
    is_late = False
    cell.pop("logs", None)
    job = None
    is_wired = cell["layout"] in WIRED
    cell["outcome"] = "failed"
    with tempfile.TemporaryDirectory(prefix="bp_ccl_faults_") as folder:
        try:
            job = Job(program, hosts_of(cell, wire, this_host), folder,
                      LAYOUTS[cell["layout"]][1],
                      variables_of(cell) if cell["layout"] in LINKED else {})
            job.warm_up()
            scene = Scene(job, wire if is_wired else None, cell["place"])
            FAULTS[cell["fault"]](scene)
            cell["rebuilt"] = job.rebuilt_count
            if cell["place"] != "joining" and cell["fault"] not in ANEW and not job.rebuilt_count:
                raise Wrong("no group was rebuilt")
            survivors = [rank for rank in job.ranks if rank.process.poll() is None]
            job.check_possessions([rank for rank in survivors if rank not in scene.closed])
            job.end(survivors)
            cell.update(outcome="passed", slowest_ms=round(scene.slowest_ms),
                        bound_ms=scene.bound_ms, words=scene.words)
        except Wrong as wrong:
            is_late = isinstance(wrong, Late)
            cell["words"] = str(wrong)
            if job is not None:
                cell["logs"] = job.logs()
        finally:
            if job is not None:
                job.discard()
            if is_wired:
                wire.mend()
    cell["seconds"] = round(time.monotonic() - begin, 1)
    return is_late


def write_report(path, cells, took_s):
    run = [cell for cell in cells if cell.get("outcome") in ("passed", "failed")]
    failed = sum(cell["outcome"] == "failed" for cell in run)
    path.parent.mkdir(parents=True, exist_ok=True)
    totals = {"passed": len(run) - failed, "failed": failed, "total": len(cells),
              "seconds": round(took_s)}
    path.with_suffix(".json").write_text(json.dumps({**totals, "rows": cells}, indent=1) + "\n")
    lines = ["# Faults of collectives", "",
             "What happens to a rank, where, and how the others end: within the bound, naming the "
             "rank, with nothing", "left behind and a right sum in the group that they rebuild, or "
             "join where they have none.", "The end is the one that came nearest to its bound, in "
             "the last try: what is right but late has", f"up to {MOST_TRIES} tries.",
             "Ranks of one host and of two hosts send each other messages. Linked are the devices "
             "of all ranks:", "native; of two of three: island; of each host: two islands.", "",
             f"{totals['passed']} of {len(cells)} rows pass, {failed} fail; the others say why "
             f"they are not run. It took {totals['seconds']} s.", "",
             "| fault | place | layout | ranks | outcome | tries | end, ms | bound, ms | "
             "rebuilt | words |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for cell in cells:
        words = (cell.get("words") or cell["why"]).replace("|", "/").replace("\n", " ")
        lines.append(f"| {cell['fault']} | {cell['place']} | {cell['layout']} | {cell['ranks']} | "
                     f"{cell['outcome']} | {cell.get('tries', '')} | "
                     f"{cell.get('slowest_ms', '')} | "
                     f"{cell.get('bound_ms', '')} | {cell.get('rebuilt', '')} | {words} |")
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


def make_wire(cells):
    """Two hosts, or None and why there are none."""
    if all(cell["layout"] not in WIRED for cell in cells):
        return None, ""
    try:
        return Wire(), ""
    except (OSError, Wrong) as error:
        return None, str(error)


def tell(cell):
    took = f"{cell['seconds']} s"
    if cell["outcome"] == "passed":
        print(f"passed   {name_of(cell)} ({took})", flush=True)
    else:
        print(f"FAILED   {name_of(cell)} ({took}): {cell['words']}\n{cell.get('logs', '')}",
              flush=True)


def run_cells(program, cells):
    """True: all were run."""
    wire, why = make_wire(cells)
    this_host = ThisHost()
    try:
        for cell in cells:
            if cell["layout"] in WIRED and wire is None:
                cell.update(outcome="not run", words=why)
                print(f"NOT RUN  {name_of(cell)}: {why}", flush=True)
                continue
            run_cell(program, cell, wire, this_host)
            tell(cell)
    finally:
        if wire is not None:
            wire.close()
    return not why


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("reports", type=pathlib.Path)
    parser.add_argument("suite", choices=("quick", "full", "cycles"))
    parser.add_argument("--only", default="", help="rows whose name has this text")
    parser.add_argument("--cycles", type=int, default=0)
    return parser.parse_args()


def main():
    begin = time.monotonic()
    arguments = read_arguments()
    program = arguments.program.resolve()
    cells = read_table()
    chosen = [cell for cell in cells
              if cell["suite"] == arguments.suite and arguments.only in name_of(cell)]
    if not chosen and not arguments.cycles:
        raise SystemExit(f"no row of {arguments.suite} has {arguments.only!r} in its name")
    is_whole = run_cells(program, chosen)
    if arguments.cycles:
        chosen.append(run_cycles(program, arguments.cycles))
        tell(chosen[-1])
    if not arguments.only:
        for cell in cells:
            if not cell["suite"]:
                cell["outcome"] = "does not apply"
        rest = [cell for cell in cells if not cell["suite"] and arguments.suite != "cycles"]
        suffix = {"quick": "", "full": "_full", "cycles": "_cycles"}[arguments.suite]
        write_report(arguments.reports / f"ccl_faults{suffix}", chosen + rest,
                     time.monotonic() - begin)
    failed = sum(cell["outcome"] == "failed" for cell in chosen)
    print(f"{len(chosen) - failed} of {len(chosen)} rows passed or not run, {failed} failed, "
          f"in {time.monotonic() - begin:.0f} s")
    if failed:
        return 1
    return 0 if is_whole else NOT_RUN


if __name__ == "__main__":
    sys.exit(main())
