# SPDX-License-Identifier: Apache-2.0
"""The sums of the tables that tests write beside their verdicts: one line for each.

table_totals.py BUILD SINCE: the *.json in BUILD/reports that are not older than SINCE (seconds of
the epoch), since an older one is of another run. A table says passed, failed and total itself, or
is a list of devices that do. A file that says neither is no table, and left out.
"""

import json
import pathlib
import sys


def _sum_of(report):
    """(passed, failed, total), or None."""
    if all(isinstance(report.get(key), int) for key in ("passed", "failed", "total")):
        return report["passed"], report["failed"], report["total"]
    if not isinstance(report.get("devices"), list):
        return None
    passed = failed = total = 0
    for device in report["devices"]:
        for mode in ("native", "emulated"):
            counts = device.get(mode, {})
            passed += counts.get("passed", 0)
            failed += counts.get("failed", 0)
            total += counts.get("total", 0)
    return passed, failed, total


def lines(build, since):
    """The text for each table, by name."""
    build = pathlib.Path(build)
    result = []
    for path in sorted((build / "reports").glob("*.json")):
        if path.stat().st_mtime < since:
            continue
        name = f"{build.name} {path.stem}"
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            result.append(f"{name}: cannot be read: {error}")
            continue
        sums = _sum_of(report) if isinstance(report, dict) else None
        if sums is not None:
            passed, failed, total = sums
            rest = total - passed - failed
            more = f", {rest} unsupported or excused" if rest else ""
            if report.get("told_by_producer"):
                more += f", {report['told_by_producer']} decided before their consumer"
            result.append(f"{name}: {passed} passed, {failed} failed{more}, {total} in all")
    return result


if __name__ == "__main__":
    print("\n".join(lines(sys.argv[1], float(sys.argv[2]))))
