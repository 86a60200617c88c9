# SPDX-License-Identifier: Apache-2.0
"""The layout of the ABI as a real compiler has it.

A C program made from the description asserts each member's type and prints each member's place and
each constant's value; what it prints becomes the record that guard.py keeps.
"""

import pathlib
import subprocess
import tempfile

from header_reader import AbiError


def member_line(offset, size, name, type_name):
    """One member in a record; readable in a diff."""
    return f"{offset} {size} {name} {type_name}"


def program_of(description):
    """The C program that prints the layout."""
    lines = ["/* Made by layout.py. */", "#include <stddef.h>", "#include <stdio.h>", "",
             '#include "backplane/device_api.h"', "",
             "#define MEMBER(s, m, t) \\",
             "  printf(\"member %s %zu %zu %s %s\\n\", #s, offsetof(s, m), sizeof(((s*)0)->m), "
             "#m, t)", ""]
    for struct in description["structs"]:
        for member in struct["members"]:
            place = f"(({struct['name']}*)0)->{member['name']}"
            lines.append(f"_Static_assert(_Generic({place}, {member['type']}: 1, default: 0), "
                         f"\"{struct['name']}.{member['name']}\");")
    lines += ["", "int main(void) {"]
    for struct in description["structs"]:
        lines.append(f"  printf(\"struct {struct['name']} %zu\\n\", sizeof({struct['name']}));")
        lines += [f"  MEMBER({struct['name']}, {member['name']}, \"{member['type']}\");"
                  for member in struct["members"]]
    for constant in description["constants"]:
        name = constant["name"]
        lines.append(f"  printf(\"constant {name} %llu\\n\", (unsigned long long){name});")
    return "\n".join([*lines, "  return 0;", "}", ""])


def compiled_layout(description, include_folder, compiler):
    """What the compiler says: ({struct: (size, [member line])}, {constant: value})."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "layout.c")
        source.write_text(program_of(description))
        program = pathlib.Path(folder, "layout")
        # -Wpadded would be silent about what a comment promises, so holes are the reader's job.
        built = subprocess.run([compiler, "-std=c11", "-Wall", "-Werror", f"-I{include_folder}",
                                str(source), "-o", str(program)], capture_output=True, text=True)
        if built.returncode != 0:
            raise AbiError(f"the layout program does not compile:\n{built.stderr}")
        printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    structs, constants = {}, {}
    for line in printed.splitlines():
        kind, name, rest = line.split(" ", 2)
        if kind == "struct":
            structs[name] = (int(rest), [])
        elif kind == "member":
            structs[name][1].append(member_line(*rest.split(" ", 3)))
        else:
            constants[name] = int(rest)
    return structs, constants


def record_of(description, include_folder, compiler):
    """The compiler's layout with what only the comments say; AbiError if they differ."""
    structs, constants = compiled_layout(description, include_folder, compiler)
    record = {"structs": {}, "bands": {}, "constants": {}}
    for struct in description["structs"]:
        size, members = structs[struct["name"]]
        expected = [member_line(m["offset"], m["size"], m["name"], m["type"])
                    for m in struct["members"]]
        if (size, members) != (struct["size"], expected):
            raise AbiError(f"{struct['name']}: the compiler says {size} bytes and {members}, the "
                           f"description {struct['size']} and {expected}")
        record["structs"][struct["name"]] = {
            "kind": struct["kind"], "size": size, "required_bytes": struct["required_bytes"],
            "members": members}
    for band in description["bands"]:
        record["bands"][band["name"]] = {key: band[key] for key in ("value", "table", "slots")}
    for constant in description["constants"]:
        if constants[constant["name"]] != constant["value"]:
            raise AbiError(f"{constant['name']}: the compiler says {constants[constant['name']]}, "
                           f"the description {constant['value']}")
        if constant["kind"] != "version":
            record["constants"][constant["name"]] = constant["value"]
    record["types"] = {**description["aliases"],
                       **{name: entry["type"] for name, entry in
                          {**description["callbacks"], **description["functions"]}.items()}}
    return record
