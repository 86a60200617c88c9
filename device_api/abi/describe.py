# SPDX-License-Identifier: Apache-2.0
"""Turns the ABI headers into abi.json: describe.py OUT HEADER_DIR.

The description has every struct, member, slot, band and constant with what the comments state about
it. Layout guard, truncation tests and the simulated generations are made from it, so a header that
cannot be read, or that leaves a statement out, fails the build with its place.
"""

import json
import pathlib
import re
import sys

import expressions
import statements
from header_reader import POINTER_BYTES, AbiError, read_headers
from statements import fail

MAX_BY_VALUE_BYTES = 16
MAX_DTYPE = 63  # a set of dtypes is one uint64_t
ENTRY = "bp_plugin_entry"
VERSION_CONSTANTS = ("BP_ABI_MAJOR", "BP_ABI_MINOR", "BP_ABI_CURRENT", "BP_ABI_CORE_MIN")
# Who allocates a struct, by its role.
ALLOCATORS = {"in": "core", "out": "core", "report": "plugin", "static": "plugin"}


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
        self.families = statements.families_in(headers.comments)
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
        if constant.name in VERSION_CONSTANTS:
            return "version"
        if constant.name.startswith("BP_FEATURE_"):
            return "band"
        if constant.name.endswith("_BIT"):
            return "bit"
        return "status" if constant.file == "status.h" else "value"

    def family_of(self, constant, kind):
        """Constants of one family are codes of one thing, so their values differ, wherever they
        stand. A comment names a family (BP_COPY_*, BP_MAP_*_BIT); else it is the file's constants
        with the same first words."""
        if kind == "status":
            return "statuses"
        named = [family for family in self.families
                 if re.fullmatch(family.replace("*", r"\w+"), constant.name)
                 and family.endswith("_BIT") == (kind in ("bit", "band"))]
        prefix = "_".join(constant.name.split("_")[:2])
        return max(named, key=len, default=f"{constant.file} {prefix} {kind}")

    def check_value(self, where, constant, kind, value, used):
        if kind == "version":
            return
        for group in (constant.run, self.family_of(constant, kind)):
            if (group, value) in used:
                raise AbiError(f"{where}: expected a value of its own, found {value}, which is "
                               f"{used[group, value]}'s")
            used[group, value] = constant.name
        if kind in ("bit", "band") and (value <= 0 or value & (value - 1)):
            raise AbiError(f"{where}: expected a single bit, found {value}")
        if constant.name.startswith("BP_DTYPE_") and not 0 <= value <= MAX_DTYPE:
            raise AbiError(f"{where}: expected a dtype code from 0 to {MAX_DTYPE}, found {value}")

    def evaluate_constants(self):
        values, found, used = {}, [], {}
        for constant in self.headers.constants:
            where = f"{constant.file}:{constant.line}: {constant.name}"
            kind = self.constant_kind(constant)
            value, type_name = values[constant.name] = expressions.evaluate(
                constant.expression, values, self.headers.macros, where)
            self.check_value(where, constant, kind, value, used)
            found.append({"name": constant.name, "value": value, "type": type_name, "kind": kind,
                          "group": constant.group, "comment": constant.comment,
                          "rules": statements.rules_under(constant.group, constant.comment),
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
        if member.type.count("*") == 1 and base in self.handles:
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
        if "slot" not in entry:
            entry["rules"] = statements.rules_under(struct.comment, member.comment)
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
        plain = kind == "versioned" and role != "table" and not slots
        self.check_bands(struct, members)
        required = offset if kind == "frozen" else self.required_end(struct, members, role)
        return {"name": struct.name, "kind": kind, "role": role, "file": struct.file,
                "size": offset, "required_bytes": required, "comment": struct.comment,
                "required_member": statements.required_member(struct) if plain else None,
                "allocator": ALLOCATORS.get(role), "is_zeroed": role == "out",
                "allocation": statements.allocation_of(struct),
                "lifetimes": statements.struct_lifetimes(struct),
                "rules": statements.rules_of(struct.comment), "members": members}

    def check_bands_have_slots(self):
        used = {band["bit"] for band in self.bands.values()}
        for constant in self.headers.constants:
            if self.constant_kind(constant) == "band" and constant.name not in used:
                fail(constant.file, constant.line,
                     f"{constant.name}: expected slots of that band ('slot (band NAME): ...'), "
                     f"found none")

    def check_functions(self):
        for name, function in {**self.headers.callbacks, **self.headers.functions}.items():
            self.check_signature(function.file, function, name)
        for name, function in self.headers.functions.items():
            if name != ENTRY:
                fail(function.file, function.line,
                     f"{name}: expected {ENTRY} to be the only exported symbol, found another")

    def describe_function(self, function):
        said, _ = statements.tagged(function.file, function.line, function.name, function.comment)
        _, rules = said.pop("Rules", (None, None))
        return {"type": function.type, "comment": function.comment, "file": function.file,
                "linkage": function.linkage,
                "parameters": [{"name": p.name, "type": p.type} for p in function.parameters],
                "rules": [rules] if rules else [],
                "statements": {keyword: text for keyword, (_, text) in said.items()}}

    def annotate_parameters(self, structs):
        """Tells of each slot's parameter what it is, for those who generate calls."""
        for slot in all_slots(structs):
            for parameter in slot["parameters"]:
                base = self.pointee(parameter["type"])
                parameter["struct"] = base if base in self.kinds else None
                parameter["handle"] = base if base in self.handles else None

    def mark_control_calls(self, structs):
        """Tells of each slot whether the core gives it a deadline."""
        for slot in all_slots(structs):
            slot["is_control"] = False
        slots = {slot["name"]: slot for slot in all_slots(structs)}
        for name in statements.control_calls_in(self.headers.comments):
            if name not in slots:
                raise AbiError(f"device_api.h:1: Control calls: expected names of slots, found "
                               f"'{name}'")
            slots[name]["is_control"] = True

    def version(self):
        values = {constant["name"]: constant["value"] for constant in self.constants}
        needed = ("BP_ABI_MAJOR", "BP_ABI_MINOR", "BP_ABI_CORE_MIN")
        missing = [name for name in needed if name not in values]
        if missing:
            raise AbiError(f"version.h:1: expected BP_ABI_MAJOR, BP_ABI_MINOR and BP_ABI_CORE_MIN, "
                           f"found no {missing[0]}")
        current = values["BP_ABI_MAJOR"] << 16 | values["BP_ABI_MINOR"]
        if values.get("BP_ABI_CURRENT", current) != current:
            raise AbiError(f"version.h:1: expected BP_ABI_CURRENT to be {current}, of BP_ABI_MAJOR "
                           f"and BP_ABI_MINOR, found {values['BP_ABI_CURRENT']}")
        if values["BP_ABI_CORE_MIN"] > current:
            raise AbiError(f"version.h:1: expected a BP_ABI_CORE_MIN of at most {current}, "
                           f"BP_ABI_CURRENT, found {values['BP_ABI_CORE_MIN']}")
        return {name.removeprefix("BP_ABI_").lower(): values[name] for name in needed}

    def headers_of(self):
        """Each header with what it includes and defines, and the rules in comments of its own."""
        own = {}
        for name, place in self.headers.defined.items():
            own.setdefault(place.split(":")[0], []).append(name)
        return {file: {"includes": sorted(includes), "defines": sorted(own.get(file, [])),
                       "rules": [rule for comment in self.headers.comments[file]
                                 if comment not in self.headers.attached[file]
                                 for rule in statements.rules_of(comment)]}
                for file, includes in self.headers.includes.items()}

    def runs_of(self):
        """The rules in the comments over runs of constants, by what their names begin with."""
        groups = {}
        for constant in self.headers.constants:
            words = constant.name.split("_")
            name = ("the status codes" if self.constant_kind(constant) == "status" else
                    "_".join(words[:2]) + "_*" * (len(words) > 2))
            groups.setdefault(name, {})[constant.run] = constant.group
        return {name: [rule for comment in runs.values() for rule in statements.rules_of(comment)]
                for name, runs in groups.items()}

    def describe(self):
        structs = [self.describe_struct(struct) for struct in self.headers.structs]
        self.check_bands_have_slots()
        self.check_functions()
        self.annotate_parameters(structs)
        self.mark_control_calls(structs)
        macros = {name: f"({', '.join(parameters)}) {body}"
                  for name, (parameters, body) in self.headers.macros.items()}
        return {"version": self.version(), "structs": structs, "bands": list(self.bands.values()),
                "constants": self.constants, "macros": macros, "handles": self.handles,
                "aliases": self.headers.aliases, "runs": self.runs_of(),
                "alias_rules": {name: statements.rules_of(comment)
                                for name, comment in self.headers.alias_comments.items()},
                "callbacks": {name: self.describe_function(function)
                              for name, function in self.headers.callbacks.items()},
                "functions": {name: self.describe_function(function)
                              for name, function in self.headers.functions.items()},
                "export": self.headers.export, "headers": self.headers_of()}


def all_slots(structs):
    """Every function pointer of these structs."""
    return [member["slot"] for struct in structs for member in struct["members"]
            if "slot" in member]


def header_text(path):
    """A header's text; AbiError for bytes that are no text."""
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = 1 + content[:error.start].count(b"\n")
        raise AbiError(f"{path.name}:{line}: expected UTF-8, found the byte "
                       f"0x{content[error.start]:02x}") from error
    text = text.replace("\r\n", "\n")
    control = re.search(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f]", text)
    if control:
        line = 1 + text.count("\n", 0, control.start())
        raise AbiError(f"{path.name}:{line}: expected printable text and plain spaces, found "
                       f"character {ord(control.group()):#x}")
    return text


def include_order(folder):
    """[(name, text)] of the headers, each after those that it includes."""
    texts = {path.name: header_text(path) for path in sorted(folder.glob("*.h"))}
    if not texts:
        raise AbiError(f"{folder}: expected headers, found none")
    ordered = []

    def add(name, path):
        if name in ordered:
            return
        for number, line in enumerate(texts[name].split("\n"), 1):
            match = re.match(r'\s*#\s*include\s+"backplane/([^"]*)"', line)
            if match is None:
                continue
            inner, place = match.group(1), f"{name}:{number}"
            if inner not in texts:
                raise AbiError(f"{place}: expected a header of this folder, found "
                               f"'backplane/{inner}'")
            if inner in (*path, name):
                raise AbiError(f"{place}: expected headers that do not include each other, found "
                               f"{' -> '.join([*path, name, inner])}")
            add(inner, [*path, name])
        ordered.append(name)

    for name in texts:
        add(name, [])
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
