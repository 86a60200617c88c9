# SPDX-License-Identifier: Apache-2.0
"""Makes struct_table.hpp from the ABI's description: struct_table.py OUT ABI_JSON.

The truncation tests walk it, so that a struct or member that is appended to the headers is tested,
or missed by name, without anyone remembering it.
"""

import json
import pathlib
import sys

HEAD = """// SPDX-License-Identifier: Apache-2.0
//
// Made by struct_table.py: the versioned structs of the ABI.
#ifndef BACKPLANE_TESTS_ABI_STRUCT_TABLE_HPP
#define BACKPLANE_TESTS_ABI_STRUCT_TABLE_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backplane/device_api.h"

namespace bp::abi {

struct StructInfo {
  std::string_view name;
  std::string_view role;  // table, in, out, report, static
  uint32_t bytes;
  uint32_t required_bytes;
};

struct SlotInfo {
  std::string_view table;
  std::string_view name;
  uint32_t offset;
  bool is_required;
  std::string_view band;  // empty: none
};

"""


def optional_names(struct):
    """The members that a side may not know: 'struct.member', a band as 'struct.band NAME'."""
    names = []
    for member in struct["members"][2:]:
        slot = member.get("slot")
        optional = member["offset"] >= struct["required_bytes"] if slot is None \
            else not slot["required"]
        if not optional or member["name"].startswith("reserved"):
            continue
        name = f"band {slot['band']}" if slot and slot["band"] else member["name"]
        names.append(f"{struct['name']}.{name}")
    return list(dict.fromkeys(names))


def table_of(description):
    """The header's text."""
    structs = [s for s in description["structs"] if s["kind"] == "versioned"]
    rows = [f"    {{\"{s['name']}\", \"{s['role']}\", {s['size']}, {s['required_bytes']}}},\n"
            for s in structs]
    bands = description["bands"]
    slots = [f"    {{\"{s['name']}\", \"{m['name']}\", {m['offset']}, "
             f"{str(m['slot']['required']).lower()}, \"{m['slot']['band'] or ''}\"}},\n"
             for s in structs if s["role"] == "table" for m in s["members"] if "slot" in m]
    names = [f"    \"{name}\",\n" for struct in structs for name in optional_names(struct)]
    places = [f"template <>\ninline constexpr size_t kPlaceOf<{s['name']}> = {i};\n"
              for i, s in enumerate(structs)]
    return (HEAD + "inline constexpr StructInfo kStructs[] = {\n" + "".join(rows) + "};\n\n"
            "/// Where a versioned struct stands in kStructs; one that is not there has no place.\n"
            "template <class T>\nextern const size_t kPlaceOf;\n" + "".join(places) + "\n"
            "inline constexpr SlotInfo kSlots[] = {\n" + "".join(slots) + "};\n\n"
            f"inline constexpr uint32_t kBandBits = {sum(b['value'] for b in bands)};\n\n"
            "/// What a side may not know; zero there means what such a side would do.\n"
            "inline constexpr std::string_view kOptionalMembers[] = {\n" + "".join(names) + "};\n\n"
            "}  // namespace bp::abi\n\n#endif\n")


def main(out, abi_json):
    text = table_of(json.loads(pathlib.Path(abi_json).read_text()))
    path = pathlib.Path(out)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
