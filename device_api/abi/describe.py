# SPDX-License-Identifier: Apache-2.0
"""Turns the ABI headers into abi.json: describe.py OUT HEADER_DIR.

The description has every struct, member, slot, band and constant with what the comments state about
it. Layout guard, truncation tests and the simulated generations are made from it, so a header that
cannot be read, or that leaves a statement out, fails the build with its place.
"""

import json
import pathlib
import sys

import statements
from header_reader import POINTER_BYTES, AbiError, read_headers
from statements import fail

MAX_BY_VALUE_BYTES = 16


class Description:
    """Builds the description from what the headers say, struct by struct."""

    def __init__(self, headers):
        self.headers = headers
        defined = {struct.name for struct in headers.structs}
        self.handles = {name: comment for name, comment in headers.opaque.items()
                        if name not in defined}
        self.kinds = {struct.name: self.kind_of(struct) for struct in headers.structs}
        self.sizes = {}
        self.has_pointers = {}
        self.constants = self.evaluate_constants()
        self.bands = {}

    @staticmethod
    def kind_of(struct):
        if "Frozen." in struct.comment:
            return "frozen"
        head = [(member.name, member.type) for member in struct.members[:2]]
        if head != [("struct_size", "uint32_t"), ("flags", "uint32_t")]:
            fail(struct.file, struct.line,
                 f"{struct.name}: expected 'uint32_t struct_size; uint32_t flags;' first, or "
                 f"'Frozen.' in its comment")
        return "versioned"

    # --- constants ---

    @staticmethod
    def constant_kind(constant):
        if constant.name.startswith("BP_ABI_"):
            return "version"
        if constant.name.startswith("BP_FEATURE_"):
            return "band"
        if constant.name.endswith("_BIT"):
            return "bit"
        return "status" if constant.file == "status.h" else "value"

    def evaluate_constants(self):
        values, found, used = {}, [], {}
        for constant in self.headers.constants:
            where = f"{constant.file}:{constant.line}: {constant.name}"
            if constant.name in values:
                raise AbiError(f"{where}: expected one definition, found a second")
            value = statements.evaluate(constant.expression, values, self.headers.macros, where)
            values[constant.name] = value
            kind = self.constant_kind(constant)
            if kind != "version" and (constant.run, value) in used:
                raise AbiError(f"{where}: expected a value of its own, found {value}, which is "
                               f"{used[constant.run, value]}'s")
            used[constant.run, value] = constant.name
            if kind in ("bit", "band") and (value <= 0 or value & (value - 1)):
                raise AbiError(f"{where}: expected a single bit, found {value}")
            found.append({"name": constant.name, "value": value, "kind": kind,
                          "group": constant.group, "comment": constant.comment,
                          "file": constant.file})
        return found

    # --- types ---

    def pointee(self, type_name):
        return type_name.removeprefix("const ").split("*")[0].split(" ")[0]

    def check_known(self, file, line, what, type_name):
        base = self.pointee(type_name)
        known = (base in ("void", "char") or base in self.kinds or base in self.handles
                 or base in self.headers.callbacks
                 or statements.scalar_bytes(base, self.headers.aliases))
        if not known:
            fail(file, line, f"{what}: expected a type that these headers define, found '{base}'")
        if base == "void" and "*" not in type_name:
            fail(file, line, f"{what}: expected a type with a size, found 'void'")

    def bytes_of(self, file, line, what, type_name):
        """Size of a member or a parameter of this type."""
        self.check_known(file, line, what, type_name)
        if "*" in type_name or type_name in self.headers.callbacks:
            return POINTER_BYTES
        scalar = statements.scalar_bytes(type_name, self.headers.aliases)
        if scalar:
            return scalar
        if self.kinds.get(type_name) != "frozen":
            fail(file, line, f"{what}: expected a pointer, since '{type_name}' is not frozen and "
                             f"may grow")
        if type_name not in self.sizes:
            fail(file, line, f"{what}: expected '{type_name}' to be defined before")
        return self.sizes[type_name]

    def alignment_of(self, type_name):
        if type_name in self.sizes:
            return 8
        return statements.scalar_bytes(type_name, self.headers.aliases) or POINTER_BYTES

    def check_signature(self, file, function, what):
        for parameter in function.parameters:
            size = self.bytes_of(file, parameter.line, f"{what}: parameter {parameter.name}",
                                 parameter.type)
            if size > MAX_BY_VALUE_BYTES:
                fail(file, parameter.line,
                     f"{what}: parameter {parameter.name}: expected a pointer, since "
                     f"'{parameter.type}' has {size} bytes (at most {MAX_BY_VALUE_BYTES} by value)")
        result = function.type.split(" (")[0]
        if result != "void":
            self.bytes_of(file, function.line, f"{what}: result", result)

    # --- structs ---

    def describe_pointer(self, struct, member, entry):
        base = self.pointee(member.type)
        if "*" in member.type and base in self.handles:
            entry["lifetime"] = "object"
            return
        entry["lifetime"] = statements.lifetime_of(struct, member)
        if "*" not in member.type:
            return
        kind = self.kinds.get(base)
        entry["length"] = statements.length_of(struct, member, kind)
        array = entry["length"] != "one" and member.type.count("*") == 1
        if array and kind == "versioned":
            entry["stride"] = statements.stride_of(struct, member)

    def describe_member(self, struct, member, offset):
        what = f"{struct.name}.{member.name}"
        entry = {"name": member.name, "type": member.type, "offset": offset}
        if member.parameters is not None:
            self.check_signature(struct.file, member, what)
            entry["size"] = POINTER_BYTES
            entry["slot"] = statements.slot_of(struct, member, self.handles)
        else:
            entry["size"] = self.bytes_of(struct.file, member.line, what, member.type)
            if "*" in member.type or self.has_pointers.get(member.type):
                self.describe_pointer(struct, member, entry)
        entry["comment"] = member.comment
        if offset % min(self.alignment_of(member.type), 8):
            fail(struct.file, member.line,
                 f"{what}: expected no hole before it, found one at offset {offset}")
        return entry

    def check_bands(self, struct, members):
        flags = struct.members[1].comment if len(struct.members) > 1 else ""
        for member in members:
            band = member.get("slot", {}).get("band")
            if band is None:
                continue
            bit = f"BP_FEATURE_{band}_BIT"
            line = next(m.line for m in struct.members if m.name == member["name"])
            constant = next((c for c in self.constants if c["name"] == bit), None)
            if constant is None:
                fail(struct.file, line, f"{struct.name}.{member['name']}: expected the constant "
                                        f"{bit} for its band")
            if bit not in flags:
                fail(struct.file, struct.members[1].line,
                     f"{struct.name}.flags: expected {bit} in its comment 'bands: ...'")
            entry = self.bands.setdefault(
                band, {"name": band, "bit": bit, "value": constant["value"],
                       "table": struct.name, "slots": []})
            if entry["table"] != struct.name:
                fail(struct.file, line, f"{struct.name}.{member['name']}: band {band} is "
                                        f"{entry['table']}'s")
            entry["slots"].append(member["name"])

    def required_end(self, struct, members, role):
        """Bytes that are always there: the head, required slots, what 'Required:' names."""
        ends = {member["name"]: member["offset"] + member["size"] for member in members}
        required = [ends[m["name"]] for m in members if m.get("slot", {}).get("required")]
        has_slots = any("slot" in member for member in members)
        if role != "table" and not has_slots:
            name = statements.required_member(struct)
            if name:
                required.append(ends[name])
        return max(required, default=8)

    def describe_struct(self, struct):
        kind = self.kinds[struct.name]
        members, offset = [], 0
        names = set()
        for member in struct.members:
            if member.name in names:
                fail(struct.file, member.line, f"{struct.name}.{member.name}: expected a new name")
            names.add(member.name)
            members.append(self.describe_member(struct, member, offset))
            offset += members[-1]["size"]
        if offset % 8:
            fail(struct.file, struct.line,
                 f"{struct.name}: expected a size that is a multiple of 8, found {offset} (add "
                 f"'uint32_t reserved; /* 0 */')")
        self.sizes[struct.name] = offset
        self.has_pointers[struct.name] = any("lifetime" in m or "slot" in m for m in members)
        slots = {m["name"]: m["slot"] for m in members if "slot" in m}
        statements.check_coverage(struct, slots)
        role = "value" if kind == "frozen" else statements.role_of(struct)
        self.check_bands(struct, members)
        required = offset if kind == "frozen" else self.required_end(struct, members, role)
        return {"name": struct.name, "kind": kind, "role": role, "file": struct.file,
                "size": offset, "required_bytes": required, "comment": struct.comment,
                "members": members}

    def check_bands_have_slots(self):
        used = {band["bit"] for band in self.bands.values()}
        for constant in self.headers.constants:
            if self.constant_kind(constant) == "band" and constant.name not in used:
                fail(constant.file, constant.line,
                     f"{constant.name}: expected slots of that band ('slot (band NAME): ...'), "
                     f"found none")

    def describe(self):
        structs = [self.describe_struct(struct) for struct in self.headers.structs]
        self.check_bands_have_slots()
        for name, function in {**self.headers.callbacks, **self.headers.functions}.items():
            self.check_signature(function.file, function, name)
        values = {constant["name"]: constant["value"] for constant in self.constants}
        version = {name.removeprefix("BP_ABI_").lower(): values.get(name)
                   for name in ("BP_ABI_MAJOR", "BP_ABI_MINOR", "BP_ABI_CORE_MIN")}
        if None in version.values():
            raise AbiError("version.h:1: expected BP_ABI_MAJOR, BP_ABI_MINOR and BP_ABI_CORE_MIN")
        callbacks = {name: {"type": c.type, "comment": c.comment}
                     for name, c in self.headers.callbacks.items()}
        functions = {name: {"type": f.type, "comment": f.comment}
                     for name, f in self.headers.functions.items()}
        return {"version": version, "structs": structs, "bands": list(self.bands.values()),
                "constants": self.constants, "handles": self.handles,
                "aliases": self.headers.aliases, "callbacks": callbacks, "functions": functions}


def include_order(folder):
    """[(name, text)] of the headers, each after those that it includes."""
    texts = {path.name: path.read_text() for path in sorted(folder.glob("*.h"))}
    if not texts:
        raise AbiError(f"{folder}: expected headers, found none")
    ordered = []

    def add(name):
        if name in ordered or name not in texts:
            return
        for line in texts[name].splitlines():
            if line.startswith('#include "backplane/'):
                add(line.split("/")[1].rstrip('"'))
        ordered.append(name)

    for name in texts:
        add(name)
    return [(name, texts[name]) for name in ordered]


def describe(folder):
    """The description of the headers in a folder; AbiError says what is wrong with them."""
    return Description(read_headers(include_order(pathlib.Path(folder)))).describe()


def write_if_changed(path, text):
    """So that what depends on a file whose content stays the same is not made again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(out, folder):
    try:
        description = describe(folder)
    except AbiError as error:
        print(f"{pathlib.Path(folder)}/{error}", file=sys.stderr)
        return 1
    write_if_changed(pathlib.Path(out), json.dumps(description, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
