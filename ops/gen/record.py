# SPDX-License-Identifier: Apache-2.0
"""What is fixed for ever: the operators' ids, and the id, since, type and default of each argument
and attribute. ops/record.json holds it, and the build compares the rows with it.

    record.py ops/defs ops/record.json            fails where the record lacks something
    record.py --append ops/defs ops/record.json   adds what is new; never changes what is there
"""

import argparse
import json
import pathlib
import sys

import source

KINDS = ("inputs", "outputs", "attributes")


def read(path):
    """The recorded operators by name. Raises SourceError."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["operators"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise source.SourceError(f"{path}: not a record of operators: {error!r}") from None


def of(operators):
    """What a record of these operators says."""
    return {op.name: {"id": op.id, "inputs": [_argument(a) for a in op.inputs],
                      "outputs": [_argument(a) for a in op.outputs],
                      "attributes": [_attribute(a) for a in op.attributes]} for op in operators}


def _argument(argument):
    kind = argument.dtype or argument.type_var or f"attr:{argument.type_attr}"
    row = {"name": argument.name, "id": argument.id, "since": argument.since, "type": kind}
    row |= {key: True for key in ("optional", "variadic") if getattr(argument, key)}
    return row | ({"count": argument.count} if argument.count else {})


def _attribute(attribute):
    row = {"name": attribute.name, "id": attribute.id, "since": attribute.since,
           "type": attribute.type}
    return row if attribute.required else row | {"default": attribute.default}


def check(operators, recorded):
    """Raises SourceError where the rows contradict the record, which may lack some of them."""
    present = of(operators)
    newest = max((row["id"] for row in recorded.values()), default=0)
    for name, row in recorded.items():
        if name not in present:
            raise source.SourceError(f"operator '{name}': recorded with id {row['id']} and now "
                                     "missing; operators are never removed or renamed")
        _check_operator(name, row, present[name])
    for name, row in present.items():
        if name not in recorded and row["id"] < newest:
            raise source.SourceError(f"operator '{name}': id {row['id']} is below the newest "
                                     f"recorded one, {newest}; ids only grow")


def _check_operator(name, recorded, present):
    if recorded["id"] != present["id"]:
        raise source.SourceError(f"operator '{name}': id {present['id']}, recorded as "
                                 f"{recorded['id']}; an id is fixed for ever")
    version = max(item["since"] for kind in KINDS for item in recorded[kind])
    for kind in KINDS:
        _check_items(f"operator '{name}', {kind[:-1]}", recorded[kind], present[kind], version)


def _check_items(where, recorded, present, version):
    for index, old in enumerate(recorded):
        if index >= len(present):
            raise source.SourceError(f"{where} '{old['name']}': recorded with id {old['id']} and "
                                     "now missing; nothing is ever removed")
        for key in sorted(old.keys() | present[index].keys()):
            before, now = old.get(key, "none"), present[index].get(key, "none")
            if before != now or type(before) is not type(now):
                raise source.SourceError(f"{where} '{old['name']}': {key} is {now!r}, recorded as "
                                         f"{before!r}; what is recorded is fixed for ever")
    for new in present[len(recorded):]:
        if new["since"] <= version:
            raise source.SourceError(f"{where} '{new['name']}': since {new['since']} lies in the "
                                     f"past; version {version} is recorded, so it is since "
                                     f"{version + 1}")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--append", action="store_true", help="add what is new to the record")
    parser.add_argument("source", help="the folder of rows, ops/defs")
    parser.add_argument("record", type=pathlib.Path, help="ops/record.json")
    options = parser.parse_args(arguments)
    try:
        operators = source.read_folder(options.source)
        recorded = read(options.record)
        check(operators, recorded)
    except (source.SourceError, OSError) as error:
        print(f"record.py: {error}", file=sys.stderr)
        return 1
    present = of(operators)
    new = [name for name, row in present.items() if recorded.get(name) != row]
    if new and not options.append:
        print(f"record.py: not recorded yet: {', '.join(new)}; run ops/gen/record.py --append "
              f"{options.source} {options.record}", file=sys.stderr)
        return 1
    if new:
        write(options.record, present)
    return 0


def write(path, operators):
    """One line for each operator, so that a change shows as what it is."""
    lines = [f" {json.dumps(name)}: {json.dumps(row)}" for name, row in operators.items()]
    path.write_text('{"operators": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
