# SPDX-License-Identifier: Apache-2.0
"""The records of the ABI's versions: files that are only ever added.

records.json lists every version, oldest first, with the hashes of its two records; each contract
record holds the hashes of the version before. So a record that is changed, missing or not listed is
found, and to change one unseen would mean to change all that came later. A version is open until it
is released, or until the next one is recorded: while it is open, --update adds to its records.
"""

import dataclasses
import hashlib
import json
import pathlib
import re

from header_reader import AbiError

INDEX = "records.json"
ROOT = pathlib.Path(__file__).resolve().parents[2]
RESTORE = "records are never changed or removed; restore it"


@dataclasses.dataclass
class Entry:
    version: int
    is_released: bool
    hashes: dict  # {"layout": sha256, "contract": sha256}
    record: dict  # {"layout": ..., "contract": ...}


@dataclasses.dataclass
class Kept:
    folder: pathlib.Path
    entries: list

    @property
    def newest(self):
        return self.entries[-1]


def version_text(number):
    return f"{number >> 16}.{number & 0xffff}"


def version_number(text, where):
    match = re.fullmatch(r"(\d+)\.(\d+)", text) if isinstance(text, str) else None
    if match is None:
        raise AbiError(f"{where}: expected a version like 0.1, found '{text}'")
    return int(match.group(1)) << 16 | int(match.group(2))


def text_of(value):
    return json.dumps(value, indent=1) + "\n"


def hash_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path):
    """(text, value) of a JSON file; AbiError says what is wrong with it."""
    try:
        text = path.read_bytes().decode("utf-8")
        return text, json.loads(text)
    except FileNotFoundError as error:
        raise AbiError(f"{path.name}: expected this record, found none; {RESTORE}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        line = getattr(error, "lineno", 1)
        raise AbiError(f"{path.name}:{line}: expected JSON, found {error}; {RESTORE}") from error


def _entry(folder, listed, number):
    """One line of the index with the records that it names."""
    where = f"{INDEX}: entry {number}"
    keys = {"version", "state", "layout", "contract"}
    if not isinstance(listed, dict) or set(listed) != keys:
        raise AbiError(f"{where}: expected {', '.join(sorted(keys))}, found '{listed}'")
    if listed["state"] not in ("open", "released"):
        raise AbiError(f"{where}: expected the state open or released, found '{listed['state']}'")
    version = version_number(listed["version"], where)
    record, hashes = {}, {}
    for kind in ("layout", "contract"):
        path = folder / f"{kind}-{version_text(version)}.json"
        text, record[kind] = _read(path)
        hashes[kind] = hash_of(text)
        if hashes[kind] != listed[kind]:
            raise AbiError(f"{path.name}: expected the hash {listed[kind]}, found {hashes[kind]}; "
                           f"{RESTORE}")
    return Entry(version, listed["state"] == "released", hashes, record)


def _check_chain(entries):
    for before, after in zip([None, *entries], entries):
        name = f"contract-{version_text(after.version)}.json"
        wanted = before and {"version": version_text(before.version), **before.hashes}
        if after.record["contract"].get("previous") != wanted:
            raise AbiError(f"{name}: expected the hashes of the version before, {wanted}, found "
                           f"{after.record['contract'].get('previous')}; {RESTORE}")
        if before and before.version >= after.version:
            raise AbiError(f"{INDEX}: expected versions that rise, found "
                           f"{version_text(after.version)} behind {version_text(before.version)}")
        if before and not before.is_released:
            raise AbiError(f"{INDEX}: expected {version_text(before.version)} to be released, "
                           f"since there is {version_text(after.version)}")


def read(folder):
    """All records, checked against their hashes."""
    _, index = _read(folder / INDEX)
    listed = index.get("records") if isinstance(index, dict) else None
    if not isinstance(listed, list) or not listed:
        raise AbiError(f"{INDEX}: expected a list of records, found none; {RESTORE}")
    entries = [_entry(folder, entry, number) for number, entry in enumerate(listed, 1)]
    _check_chain(entries)
    known = {f"{kind}-{version_text(entry.version)}.json" for entry in entries
             for kind in ("layout", "contract")}
    for path in sorted([*folder.glob("layout-*"), *folder.glob("contract-*")]):
        if path.name not in known:
            raise AbiError(f"{path.name}: expected a record that {INDEX} lists; a record gets "
                           f"there by --update")
    return Kept(folder, entries)


def _write_index(kept):
    listed = [{"version": version_text(entry.version),
               "state": "released" if entry.is_released else "open", **entry.hashes}
              for entry in kept.entries]
    (kept.folder / INDEX).write_text(text_of({"records": listed}))


def _check_adr(adr, version):
    path = ROOT / adr
    if not re.fullmatch(r"docs/adr/\d{4}-[a-z0-9-]+\.md", adr) or not path.is_file():
        raise AbiError(f"--adr {adr}: expected a file docs/adr/<number>-<words>.md")
    if version_text(version) not in path.read_text():
        raise AbiError(f"{adr}: expected the ADR of a break to name the version "
                       f"{version_text(version)}")


def write(kept, version, record, breaks, adr):
    """Adds a version, or adds to the open one; a released record is never touched."""
    entries = kept.entries
    if version == kept.newest.version:
        if kept.newest.is_released:
            raise AbiError(f"{version_text(version)} is released; {RESTORE}")
        old = kept.newest.record["contract"]
        previous, broken = old["previous"], old["breaks"]
        entries = entries[:-1]
    else:
        before = kept.newest
        before.is_released = True
        previous = {"version": version_text(before.version), **before.hashes}
        broken = None
        if breaks:
            _check_adr(adr, version)
            broken = {"adr": adr, "changes": breaks}
    contract = {"version": version_text(version), "previous": previous, "breaks": broken,
                **record["contract"]}
    texts = {"layout": text_of(record["layout"]), "contract": text_of(contract)}
    for kind, text in texts.items():
        (kept.folder / f"{kind}-{version_text(version)}.json").write_text(text)
    hashes = {kind: hash_of(text) for kind, text in texts.items()}
    kept.entries = [*entries, Entry(version, False, hashes, record)]
    _write_index(kept)


def close(kept):
    """Releases the newest version."""
    kept.newest.is_released = True
    _write_index(kept)
