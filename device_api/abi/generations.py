# SPDX-License-Identifier: Apache-2.0
"""Writes simulated headers, an older and a newer ABI: generations.py OUT HEADER_DIR OPS_H...

OUT/past/backplane/*.h lack the last optional slot (its whole band), and the last optional member of
each versioned struct; OUT/future/backplane/*.h have more of everything. Core and plugins are built
against each, from the same sources, and every pair must work (tests/abi).

A source names members that the past does not have. So there they stay in name only, as objects
without size (bp_past): writing one does nothing, reading one gives zero, offsets and sizes are
those of a struct without them. This needs C++, which all sources that are built this way are.

The generated structs of attributes (OPS_H) change in the same way: the past lacks the last
attribute that has a default, and reads as that default what it lacks; the future has one more.
"""

import pathlib
import re
import sys

import describe
from header_reader import AbiError, read_headers

PAST_HEADER = """/* Made by generations.py. */
#ifndef BACKPLANE_PAST_H
#define BACKPLANE_PAST_H

#define BP_GENERATION_PAST 1

/* A member that this ABI does not have yet. */
template <class T>
struct bp_past {
  bp_past() = default;
  constexpr bp_past(T) {}
  constexpr operator T() const { return T{}; }
  char none[0];
};

/* An attribute that this ABI does not have yet: whoever reads it gets its default. */
template <class T, T Default>
struct bp_past_attribute {
  constexpr bp_past_attribute& operator=(T) { return *this; }
  constexpr operator T() const { return Default; }
  char none[0];
};

#endif
"""

FUTURE_HEADER = """/* Made by generations.py. */
#ifndef BACKPLANE_FUTURE_H
#define BACKPLANE_FUTURE_H

#include <cstdint>
#include <cstdlib>

#define BP_GENERATION_FUTURE 1

/* What appended members hold where nobody sets them, so that a reader of too much is seen. */
#define BP_FUTURE_NUMBER UINT64_C(0xf007f007f007f007)

/* What appended slots hold: nobody may call what it does not know. */
inline int32_t bp_future_trap() { std::abort(); }

"""

# Constants that are no codes.
LIMITS = ("BP_MAX_RANK", "BP_TIMEOUT_FOREVER", "BP_UID_BYTES_MAX")


def kept_count(struct):
    """How many members stay in the past: those that are required, and whole groups of slots."""
    members = struct["members"]
    sizes = [member["offset"] + member["size"] for member in members]
    count = len(members)
    if "slot" in members[-1]:
        groups = groups_of(members)
        while groups[count - 1] == groups[-1]:
            count -= 1
        kept = any(m["slot"]["required"] or m["slot"]["relied_on"] for m in members[count:])
        return len(members) if kept else count
    if len(members) == 2:
        return 2
    # The size stays a multiple of 8, so a pair of 32-bit members goes together.
    count -= 1
    while sizes[count - 1] % 8:
        count -= 1
    return count if sizes[count - 1] >= struct["required_bytes"] else len(members)


def groups_of(members):
    """For each member whom it comes and goes with: its band, its pair, or nobody."""
    slots = {member["name"]: member.get("slot") for member in members}
    leaders = {slot["pair"]: name for name, slot in slots.items() if slot and slot["pair"]}
    return [slot["band"] if slot and slot["band"] else leaders.get(name, name)
            for name, slot in slots.items()]


class Generation:
    """The texts of the headers, edited line by line so that line numbers stay valid."""

    def __init__(self, files):
        self.lines = {name: text.split("\n") for name, text in files}
        self.including = set()

    def replace(self, file, first, last, text):
        """What stands behind the semicolon of the last line stays: it may begin a comment."""
        behind = self.lines[file][last - 1].partition(";")[2]
        blank = [""] * (last - first)
        self.lines[file][first - 1:last] = [*blank, text + behind]

    def before(self, file, line, text):
        self.lines[file][line - 1] = text + "\n" + self.lines[file][line - 1]

    def define(self, file, name, value):
        for number, line in enumerate(self.lines[file], 1):
            if re.match(rf"#define {name}\b", line):
                self.lines[file][number - 1] = f"#define {name} {value}"
                return
        raise AbiError(f"{file}: no definition of {name}")

    def include(self, file, name):
        if file in self.including:
            return
        self.including.add(file)
        guard = next(number for number, line in enumerate(self.lines[file], 1)
                     if line.startswith("#define BACKPLANE_"))
        self.lines[file][guard - 1] += f'\n#include "backplane/{name}"'

    def write(self, folder, extra_name, extra):
        for name, lines in self.lines.items():
            describe.write_if_changed(folder / "backplane" / name, "\n".join(lines))
        describe.write_if_changed(folder / "backplane" / extra_name, extra)


def past_of(files, headers, description):
    """(generation, what it lacks)"""
    generation, gone = Generation(files), []
    described = {struct["name"]: struct for struct in description["structs"]}
    for struct in headers.structs:
        entry = described[struct.name]
        if entry["kind"] == "frozen":
            continue
        count = kept_count(entry)
        if count < len(struct.members):
            generation.include(struct.file, "past.h")
        for member in struct.members[count:]:
            gone.append((struct.file, struct.name, member.name))
            generation.replace(struct.file, member.first_line, member.last_line,
                               f"  bp_past<{member.type}> {member.name};")
    lost = {name for _, _, name in gone}
    for band in description["bands"]:
        if set(band["slots"]) <= lost:
            file = next(c["file"] for c in description["constants"] if c["name"] == band["bit"])
            generation.define(file, band["bit"], "((uint64_t)0)")
    version = description["version"]
    oldest = version["core_min"] & 0xffff
    generation.define("version.h", "BP_ABI_MINOR", max(version["minor"] - 1, oldest))
    return generation, [f"{struct}.{name}" for _, struct, name in gone]


def new_constants(description):
    """{name: value} of one more value in each group of constants: the next number, the next bit."""
    found = {}
    for constant in description["constants"]:
        if constant["kind"] == "version" or constant["name"] in LIMITS:
            continue
        words = constant["name"].split("_")
        prefix = "BP_STATUS" if constant["kind"] == "status" else "_".join(words[:2])
        is_bit = constant["kind"] in ("bit", "band")
        name = f"{prefix}_FUTURE_BIT" if is_bit else f"{prefix}_FUTURE"
        following = constant["value"] * 2 if is_bit else constant["value"] + 1
        found[name] = max(found.get(name, 0), following)
    return found


def future_of(files, headers, description):
    generation = Generation(files)
    described = {struct["name"]: struct for struct in description["structs"]}
    for struct in headers.structs:
        entry = described[struct.name]
        if entry["kind"] == "frozen":
            continue
        generation.before(struct.file, struct.end_line, appended_to(entry))
    for file in {struct.file for struct in headers.structs}:
        generation.include(file, "future.h")
    generation.define("version.h", "BP_ABI_MINOR", description["version"]["minor"] + 1)
    values = "".join(f"#define {name} {value}u{'ll' if value >> 31 else ''}\n"
                     for name, value in new_constants(description).items())
    return generation, FUTURE_HEADER + values + "\n#endif\n"


def appended_to(struct):
    """Tables get slots, out structs numbers that are zero unless set, the others numbers that are
    not zero."""
    if struct["role"] == "table":
        return ("  int32_t (*future_first)() = bp_future_trap;\n"
                "  int32_t (*future_second)() = bp_future_trap;")
    if struct["name"] == "bp_plugin":
        return "  const void* future_table;\n  uint64_t future_number;"
    if struct["role"] == "out":
        return "  uint64_t future_number;"
    return "  uint64_t future_number = BP_FUTURE_NUMBER;"


# --- attributes ---

ATTRIBUTES = "backplane/ops"
_ATTRIBUTE_STRUCT = re.compile(r"typedef struct (bp_attrs_\w+) \{\n(.*?)\} \1;\n", re.DOTALL)
_ATTRIBUTE = re.compile(r"  (int64_t|double) (\w+);\n\Z")


def attribute_structs(text):
    """[(name, type and name of its last attribute, that attribute's default)]; the latter two are
    None where it is required, or no number."""
    found = []
    for match in _ATTRIBUTE_STRUCT.finditer(text):
        name, members = match.groups()
        last = _ATTRIBUTE.search(members)
        defaults = re.search(rf"/\* All defaults([^*]*)\*/\nstatic inline {name} .*?\n\}}\n", text,
                             re.DOTALL)
        if defaults is None:
            raise AbiError(f"attributes.h: {name}: expected a function {name}_defaults, found none")
        required = last is None or re.search(rf"\b{last.group(2)}\b", defaults.group(1))
        value = last and re.search(rf"  result\.{last.group(2)} = (.*);\n", defaults.group())
        found.append((name, None, None) if required or not value
                     else (name, last.groups(), value.group(1)))
    if not found:
        raise AbiError("attributes.h: expected structs of attributes, found none")
    return found


def _without_layout(text, header):
    """No layout is asserted: it is what changes."""
    text = re.sub(r"^BP_OPS_ASSERT\(.*?\);\n", "", text, flags=re.DOTALL | re.MULTILINE)
    return text.replace('#include "backplane/types.h"',
                        f'#include "backplane/types.h"\n#include "backplane/{header}"', 1)


def past_attributes(text):
    """(the header, what it lacks)"""
    gone = []
    for name, last, value in attribute_structs(text):
        if last is None:
            continue
        old = f"  {last[0]} {last[1]};\n}} {name};"
        text = text.replace(old, f"  bp_past_attribute<{last[0]}, {value}> {last[1]};\n}} {name};")
        gone.append(f"{name}.{last[1]}")
    return _without_layout(text, "past.h"), gone


def future_attributes(text):
    for name, _, _ in attribute_structs(text):
        text = text.replace(f"}} {name};", "  int64_t future_number = static_cast<int64_t>("
                                           f"BP_FUTURE_NUMBER);\n}} {name};", 1)
    return _without_layout(text, "future.h")


def main(out, folder, *attribute_headers):
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    older, newer, lost = {}, {}, []
    try:
        for path in map(pathlib.Path, attribute_headers):
            text = describe.header_text(path)
            older[path.name], newer[path.name], gone = text, text, []
            if "typedef struct" in text:  # else these operators have no attributes
                older[path.name], gone = past_attributes(text)
                newer[path.name] = future_attributes(text)
            lost += gone
        files = describe.include_order(folder)
        headers = read_headers(files)
        description = describe.describe(folder)
        past, gone = past_of(files, headers, description)
        future, extra = future_of(files, headers, description)
    except AbiError as error:
        print(f"{folder}/{error}", file=sys.stderr)
        return 1
    past.write(out / "past", "past.h", PAST_HEADER)
    future.write(out / "future", "future.h", extra)
    for name in older:
        describe.write_if_changed(out / "past" / ATTRIBUTES / name, older[name])
        describe.write_if_changed(out / "future" / ATTRIBUTES / name, newer[name])
    describe.write_if_changed(out / "past" / "without.txt",
                              "".join(f"{name}\n" for name in gone + lost))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
