# SPDX-License-Identifier: Apache-2.0
"""Keeps released layouts: guard.py [--update] [--headers DIR] [--records DIR] [--cc CC].

layout-<major>.<minor>.json is the layout of that version of the ABI. The guard compares the headers
with the record of every version that a core still loads (BP_ABI_CORE_MIN and newer): appending is
all that passes. `--update` writes the record of the headers' own version, after the same check.
"""

import argparse
import json
import pathlib
import re
import sys

import describe
import layout
from header_reader import AbiError

HERE = pathlib.Path(__file__).resolve().parent
UPDATE = "python3 device_api/abi/guard.py --update"
REMEDY = ("A break needs an ADR, a higher BP_ABI_MINOR, and BP_ABI_CORE_MIN raised to it "
          "(version.h); else undo it and append.")


def version_text(number):
    return f"{number >> 16}.{number & 0xffff}"


# --- comparison ---

def _parse(line):
    offset, size, name, type_name = line.split(" ", 3)
    return name, (int(offset), int(size), type_name)


def _member_problem(name, was, now):
    """What became of one member; None: nothing."""
    if now is None:
        return f"{name} was removed or renamed; leave it where it is"
    if now[2] != was[2]:
        how = "widened" if now[1] > was[1] else "retyped"
        return f"{name} was {how} from '{was[2]}' to '{now[2]}'; append a new member instead"
    if now[0] != was[0]:
        return (f"{name} moved from offset {was[0]} to {now[0]}: something was inserted, widened "
                f"or reordered before it; append at the end instead")
    return None


def compare_struct(name, old, new):
    if new is None:
        return [f"{name} was removed; leave it"]
    if new["kind"] != old["kind"]:
        return [f"{name} was {old['kind']} and is {new['kind']} now; make a new struct"]
    if old["kind"] == "frozen" and new != old:
        return [f"{name} is frozen, and its members or size changed; make a new struct"]
    now = dict(_parse(line) for line in new["members"])
    found = []
    for line in old["members"]:
        member, was = _parse(line)
        problem = _member_problem(f"{name}.{member}", was, now.get(member))
        if problem:
            found.append(problem)
    if not found and new["required_bytes"] != old["required_bytes"]:
        found.append(f"{name}: its required part was {old['required_bytes']} bytes and is "
                     f"{new['required_bytes']} now; what is appended is optional (an 'Absent: ' "
                     f"without 'refused', or 'Required: <the last released required member>.')")
    return found


def compare_band(name, old, new):
    if new is None:
        return [f"band {name} was removed; leave it"]
    if new["value"] != old["value"] or new["table"] != old["table"]:
        return [f"band {name} was bit {old['value']} of {old['table']} and is bit "
                f"{new['value']} of {new['table']} now; make a new band"]
    if new["slots"] != old["slots"]:
        changed = sorted(set(old["slots"]) ^ set(new["slots"])) or new["slots"]
        return [f"band {name}: its members changed ({', '.join(changed)}); a band is fixed at "
                f"release, make a new band with a bit of its own"]
    return []


def compare(old, new):
    """Why `new` breaks what was built against `old`; empty: it only appends."""
    found = []
    for name, struct in old["structs"].items():
        found += compare_struct(name, struct, new["structs"].get(name))
    for name, band in old["bands"].items():
        found += compare_band(name, band, new["bands"].get(name))
    for name, value in old["constants"].items():
        now = new["constants"].get(name)
        if now is None:
            found.append(f"{name} was removed; leave it")
        elif now != value:
            found.append(f"{name} was renumbered from {value} to {now}; add a new constant instead")
    for name, spelling in old["types"].items():
        now = new["types"].get(name)
        if now != spelling:
            found.append(f"{name} was '{spelling}' and is '{now}' now; add a new one instead")
    return found


def additions(old, new):
    """What `new` has and `old` has not, one line each."""
    found = []
    for name, struct in new["structs"].items():
        known = old["structs"].get(name, {"members": []})["members"]
        if name not in old["structs"]:
            found.append(f"struct {name}")
        else:
            found += [f"{name}.{_parse(line)[0]}" for line in struct["members"]
                      if line not in known]
    for kind in ("bands", "constants", "types"):
        found += [name for name in new[kind] if name not in old[kind]]
    return found


# --- records ---

def read_records(folder):
    """{version number: record}"""
    records = {}
    for path in sorted(folder.glob("layout-*.json")):
        match = re.fullmatch(r"layout-(\d+)\.(\d+)\.json", path.name)
        if match is None:
            raise AbiError(f"{path}: expected a name like layout-0.1.json")
        records[int(match.group(1)) << 16 | int(match.group(2))] = json.loads(path.read_text())
    return records


def check(record, version, core_min, records):
    """Problems of the headers' record, each a line; empty: nothing released changed."""
    problems = []
    for number, old in records.items():
        if number > version:
            problems.append(f"there is a record of {version_text(number)}, but the headers are "
                            f"{version_text(version)}; the version never goes back")
        elif number >= core_min:
            problems += [f"against {version_text(number)}: {problem}"
                         for problem in compare(old, record)]
    return problems


def run(headers, records_folder, compiler, update):
    """(problems, note)"""
    description = describe.describe(headers / "backplane")
    record = layout.record_of(description, headers, compiler)
    version = description["version"]["major"] << 16 | description["version"]["minor"]
    records = read_records(records_folder)
    problems = check(record, version, description["version"]["core_min"], records)
    if problems:
        return [*problems, REMEDY], ""
    path = records_folder / f"layout-{version_text(version)}.json"
    if update:
        describe.write_if_changed(path, json.dumps(record, indent=1) + "\n")
        return [], f"{path.name} is the layout of the headers"
    known = records.get(version, {"structs": {}, "bands": {}, "constants": {}, "types": {}})
    if record != known:
        new = ", ".join(additions(known, record)) or "a statement"
        return [f"{path.name} does not have yet: {new}. Record it with: {UPDATE}"], ""
    return [], f"{len(record['structs'])} structs and {len(record['constants'])} constants are as "\
               f"recorded in {path.name}"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--headers", type=pathlib.Path, default=HERE.parent / "include")
    parser.add_argument("--records", type=pathlib.Path, default=HERE)
    parser.add_argument("--cc", default="cc")
    chosen = parser.parse_args(arguments)
    try:
        problems, note = run(chosen.headers, chosen.records, chosen.cc, chosen.update)
    except AbiError as error:
        problems, note = [str(error)], ""
    print("\n".join(problems) or note)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
