# SPDX-License-Identifier: Apache-2.0
"""The layout of the ABI, as a record that guard.py keeps, and its proof by a real compiler.

The record comes from the description. A C program made from it asserts each member's type and
prints each member's place and each constant's value and type: where the compiler disagrees with the
description, the headers are not what they seem.
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
             "#m, t)",
             "#define CONSTANT(c) \\",
             "  printf(\"constant %s %llu %c%zu\\n\", #c, (unsigned long long)(c), "
             "(c) * 0 - 1 > 0 ? 'u' : 'i', sizeof(c) * 8)", ""]
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
    lines += [f"  CONSTANT({constant['name']});" for constant in description["constants"]]
    return "\n".join([*lines, "  return 0;", "}", ""])


def _printed(description, include_folder, compiler):
    """What the program prints; AbiError if it cannot be built."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "layout.c")
        source.write_text(program_of(description))
        program = pathlib.Path(folder, "layout")
        command = [compiler, "-std=c11", "-Wall", "-Werror", f"-I{include_folder}", str(source),
                   "-o", str(program)]
        try:
            # -Wpadded would be silent about what a comment promises, so holes are the reader's job.
            built = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            raise AbiError(f"expected a C compiler, found that '{compiler}' cannot be run: "
                           f"{error.strerror}") from error
        if built.returncode != 0:
            first = next((line for line in built.stderr.splitlines() if "error:" in line),
                         built.stderr.strip().partition("\n")[0])
            place = first.replace(f"{include_folder}/backplane/", "")
            raise AbiError(f"the compiler refuses the headers: {place}")
        return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


def compiled_layout(description, include_folder, compiler):
    """What the compiler says: ({struct: (size, [member line])}, {constant: (value, type)})."""
    structs, constants = {}, {}
    for line in _printed(description, include_folder, compiler).splitlines():
        kind, name, rest = line.split(" ", 2)
        if kind == "struct":
            structs[name] = (int(rest), [])
        elif kind == "member":
            structs[name][1].append(member_line(*rest.split(" ", 3)))
        else:
            value, type_name = rest.split(" ")
            constants[name] = (int(value), type_name)
    return structs, constants


def prove(description, include_folder, compiler):
    """AbiError where the compiler has another layout than the description."""
    structs, constants = compiled_layout(description, include_folder, compiler)
    for struct in description["structs"]:
        expected = (struct["size"], [member_line(m["offset"], m["size"], m["name"], m["type"])
                                     for m in struct["members"]])
        if structs[struct["name"]] != expected:
            raise AbiError(f"{struct['name']}: the compiler says {structs[struct['name']]}, the "
                           f"description {expected}")
    for constant in description["constants"]:
        expected = (constant["value"] % 2**64, constant["type"])
        if constants[constant["name"]] != expected:
            raise AbiError(f"{constant['name']}: the compiler says {constants[constant['name']]}, "
                           f"the description {expected}")


def record_of(description):
    """The layout that the headers have by their description."""
    functions = {**description["callbacks"], **description["functions"]}
    return {
        "structs": {s["name"]: {"kind": s["kind"], "size": s["size"],
                                "required_bytes": s["required_bytes"],
                                "members": [member_line(m["offset"], m["size"], m["name"],
                                                        m["type"]) for m in s["members"]]}
                    for s in description["structs"]},
        "bands": {band["name"]: {key: band[key] for key in ("value", "table", "slots")}
                  for band in description["bands"]},
        "constants": {c["name"]: c["value"] for c in description["constants"]
                      if c["kind"] != "version"},
        "types": {**description["aliases"],
                  **{name: entry["type"] for name, entry in functions.items()}},
    }
