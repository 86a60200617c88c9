# SPDX-License-Identifier: Apache-2.0
"""Keeps what is released: guard.py [--update [--adr FILE] | --release] [--headers DIR]
[--records DIR] [--cc CC].

Each version of the ABI has two records, layout-<version>.json (structs, bands, values) and
contract-<version>.json (words, names, what is required), and an entry in records.json with the
hashes of both. The guard compares the headers with the newest records: appending is all that passes
within a version, and a new version that breaks the one before names the ADR which says so.
"""

import argparse
import json
import pathlib
import sys

import contract
import describe
import layout
import records
from header_reader import AbiError

HERE = pathlib.Path(__file__).resolve().parent
UPDATE = "python3 device_api/abi/guard.py --update"
REMEDY = ("A break needs an ADR, a higher BP_ABI_MINOR, and BP_ABI_CORE_MIN raised to it "
          "(version.h), recorded with --update --adr docs/adr/<file>.md; else undo it and append.")

version_text = records.version_text


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


# --- the headers against the records ---

def all_changes(old, new):
    """Why the headers break what was built against `old`."""
    return compare(old["layout"], new["layout"]) + contract.changes(old["contract"],
                                                                    new["contract"])


def all_additions(old, new):
    """What the headers have and `old` has not."""
    return list(dict.fromkeys(additions(old["layout"], new["layout"])
                              + contract.additions(old["contract"], new["contract"])))


def _core_min_change(old, new):
    was, now = old["contract"]["core_min"], new["contract"]["core_min"]
    if was == now:
        return []
    return [f"BP_ABI_CORE_MIN was {version_text(was)} and is {version_text(now)} now: plugins that "
            f"loaded are refused, or refused ones load"]


def check(new, version, kept):
    """(problems, breaks): problems are lines; breaks are what a new version may do with an ADR."""
    newest = kept.newest
    if version < newest.version:
        return [f"there is a record of {version_text(newest.version)}, but the headers are "
                f"{version_text(version)}; the version never goes back"], []
    found = all_changes(newest.record, new) + _core_min_change(newest.record, new)
    where = f"against {version_text(newest.version)}: "
    if version == newest.version:
        return [where + line for line in found], []
    if version not in (newest.version + 1, ((newest.version >> 16) + 1) << 16):
        return [f"the headers are {version_text(version)}; the version after "
                f"{version_text(newest.version)} is {version_text(newest.version + 1)}"], []
    if found and new["contract"]["core_min"] != version:
        return [where + line for line in found], []
    return [], found


def run(headers, folder, compiler, update=False, adr=None):
    """(problems, note) of the headers. Without a compiler the description's layout is believed."""
    description = describe.describe(headers / "backplane")
    if compiler:
        layout.prove(description, headers, compiler)
    return judge(description, folder, update, adr)


def judge(description, folder, update=False, adr=None):
    """(problems, note) of a description against the records."""
    new = {"layout": layout.record_of(description), "contract": contract.contract_of(description)}
    version = description["version"]["major"] << 16 | description["version"]["minor"]
    kept = records.read(folder)
    problems, breaks = check(new, version, kept)
    if problems:
        return [*problems, REMEDY], ""
    if breaks and not (adr and update):
        return [*(f"{version_text(version)} breaks {version_text(kept.newest.version)}: {line}"
                  for line in breaks), REMEDY], ""
    found = all_additions(kept.newest.record, new)
    if version == kept.newest.version and not found:
        return [], (f"{len(new['layout']['structs'])} structs, {len(new['contract']['slots'])} "
                    f"slots and {len(new['layout']['constants'])} constants are as recorded in "
                    f"layout-{version_text(version)}.json and its contract")
    if version == kept.newest.version and kept.newest.is_released:
        return [f"{version_text(version)} is released, and its records do not have: "
                f"{', '.join(found)}. Raise BP_ABI_MINOR to {(version & 0xffff) + 1} (version.h) "
                f"and record the new version with: {UPDATE}"], ""
    if not update:
        what = ", ".join(found) or "this version"
        return [f"layout-{version_text(version)}.json does not have yet: {what}. Record it with: "
                f"{UPDATE}"], ""
    records.write(kept, version, new, breaks, adr)
    return [], f"{version_text(version)} is recorded as the headers are"


def release(headers, folder, compiler):
    """(problems, note): closes the version of the headers."""
    problems, note = run(headers, folder, compiler)
    if problems:
        return problems, note
    kept = records.read(folder)
    records.close(kept)
    return [], f"{version_text(kept.newest.version)} is released"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true", help="record what was appended")
    parser.add_argument("--adr", help="with --update: the ADR of a version that breaks the last")
    parser.add_argument("--release", action="store_true", help="close the headers' version")
    parser.add_argument("--headers", type=pathlib.Path, default=HERE.parent / "include")
    parser.add_argument("--records", type=pathlib.Path, default=HERE)
    parser.add_argument("--cc", default="cc")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.release:
            problems, note = release(chosen.headers, chosen.records, chosen.cc)
        else:
            problems, note = run(chosen.headers, chosen.records, chosen.cc, chosen.update,
                                 chosen.adr)
    except AbiError as error:
        problems, note = [str(error)], ""
    print("\n".join(problems) or note)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
