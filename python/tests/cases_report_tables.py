# SPDX-License-Identifier: Apache-2.0
"""The report of cases_report.py as JSON, which is whole, and as tables to read."""

import collections
import json

from function_calls import NO_TENSOR

OUTCOMES = ("passed", "failed", "skipped", "not run")


def write(report, cases, calls, stem):
    """STEM.json and STEM.md. cases: (file, name) -> row; calls: case -> (function, device) ->
    count."""
    report = whole(report, cases, calls)
    stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text("\n".join(lines_of(report)) + "\n", encoding="utf-8")


def whole(report, cases, calls):
    """The report with its sums: files and cases by name, functions in the standard's order."""
    counts = collections.Counter(row["outcome"] for row in cases.values())
    files = collections.defaultdict(collections.Counter)
    for (file, _), row in cases.items():
        files[file][row["outcome"]] += 1
        files[file]["seconds"] += row["seconds"]
    functions = _functions(report["standard"], cases, calls)
    return {
        **_numbers(counts),
        "total": len(cases),
        **{key: report[key] for key in ("deselected", "exit_status", "seconds", "head", "python")},
        "versions": report["versions"],
        "devices": _devices(report, cases, functions),
        "files": [
            {"file": file, **_numbers(files[file]), "seconds": round(files[file]["seconds"], 2)}
            for file in sorted(files)
        ],
        "files_not_run": report["left_out"],
        "native": report["native"],
        "functions": functions,
        "cases": [
            {"case": f"{file}::{name}", **row, "seconds": round(row["seconds"], 3)}
            for (file, name), row in sorted(cases.items())
        ],
    }


def _numbers(counts):
    return {outcome.replace(" ", "_"): counts[outcome] for outcome in OUTCOMES}


def _functions(standard, cases, calls):
    """[{"function", "devices": {device: {"passed": tests, ..., "calls": number}}}]"""
    found = {name: {} for name in standard}
    for case in sorted(case for case in calls if case in cases):
        for (name, device), count in calls[case].items():
            cell = found[name].setdefault(device, collections.Counter())
            cell[cases[case]["outcome"]] += 1
            cell["calls"] += count
    return [
        {
            "function": name,
            "devices": {
                device: {**_numbers(cell), "calls": cell["calls"]}
                for device, cell in sorted(cells.items())
            },
        }
        for name, cells in found.items()
    ]


def _devices(report, cases, functions):
    rows = []
    for name in report["devices"]:
        ran = [row for row in cases.values() if row["device"] == name]
        counts = collections.Counter(row["outcome"] for row in ran)
        called = [f["devices"][name]["calls"] for f in functions if name in f["devices"]]
        took_part = bool(called) or counts["passed"] + counts["failed"] > 0
        reason = ""
        if name not in report["present"]:
            reason = "no such device here"
        elif not took_part:
            reason = "no case of this run takes it"
        state = "NOT RUN" if reason else "ran"
        rows.append({"device": name, "state": state, "reason": reason, **_numbers(counts)})
        rows[-1] |= {"functions": len(called), "calls": sum(called)}
    return rows


def lines_of(report):
    """The page."""
    versions = [f"{name} {v or 'absent'}" for name, v in report["versions"].items()]
    lines = ["# Python: cases", "", _sums(report), ""]
    lines += [f"Python {report['python']}, {', '.join(versions)}.", ""]
    lines += ["| device | | passed | failed | skipped | not run | functions | calls |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for row in report["devices"]:
        state = f"NOT RUN: {row['reason']}" if row["reason"] else row["state"]
        cells = [row["device"], state, *_cells(row), row["functions"], row["calls"]]
        lines.append(_line(cells))
    lines += ["", "Of cases with a device in their name, and of functions of the array API."]
    lines += ["", "| file | passed | failed | skipped | not run | s |", "|---|---|---|---|---|---|"]
    lines += [_line([r["file"], *_cells(r), f"{r['seconds']:.1f}"]) for r in report["files"]]
    lines += [_line([file, "NOT RUN", "", "", "", ""]) for file in report["files_not_run"]]
    bad = [row for row in report["cases"] if row["outcome"] != "passed"]
    if bad:
        lines += ["", "## Not passed", "", "| case | | why |", "|---|---|---|"]
        lines += [_line([row["case"], row["outcome"], row["reason"]]) for row in bad]
    return lines + ["", "## Functions of the array API", "", *_function_lines(report)]


def _sums(report):
    words = [f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped"]
    words.append(f"{report['not_run']} not run, {report['total']} in all")
    if report["deselected"]:
        words.append(f"{report['deselected']} left out by the command line")
    words.append(f"exit status {report['exit_status']}, in {report['seconds']:.0f} s")
    words.append(f"commit {report['head'] or 'unknown'}")
    return ", ".join(words) + "."


def _function_lines(report):
    """A line for each function: native where, and how many tests called it on each device."""
    heads = [*(row["device"] for row in report["devices"]), NO_TENSOR]
    native = {kind: set(names) for kind, names in report["native"].items()}
    told = [f"{kind} computes {len(names)} itself" for kind, names in native.items()]
    lines = [
        f"Of {len(report['functions'])} functions {', '.join(told)}, by the lists of "
        "array_api/native_*.txt. The others: tests that passed of those that called the function "
        "on that device, and how often. A test that fails counts for all functions it called.",
        "",
        _line(["function", "native", *heads]),
        "|---" * (2 + len(heads)) + "|",
    ]
    for row in report["functions"]:
        kinds = " ".join(kind for kind, names in native.items() if row["function"] in names)
        cells = [_cell(row["devices"], device) for device in heads]
        lines.append(_line([row["function"], kinds, *cells]))
    return lines


def _cell(cells, device):
    found = cells.get(device)
    if found is None:
        return "" if device == NO_TENSOR or list(cells) == [NO_TENSOR] else "NOT RUN"
    tests = sum(found[outcome.replace(" ", "_")] for outcome in OUTCOMES)
    return f"{found['passed']} of {tests}, {found['calls']} calls"


def _cells(row):
    return [row[outcome.replace(" ", "_")] for outcome in OUTCOMES]


def _line(cells):
    words = [" ".join(str(cell).split()).replace("|", "\\|") for cell in cells]
    return "| " + " | ".join(words) + " |"
