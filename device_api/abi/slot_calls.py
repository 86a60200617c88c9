# SPDX-License-Identifier: Apache-2.0
"""Makes the core's calls from abi.json: slot_calls.py ABI_JSON SLOTS_HPP TABLES_HPP CALLS_HPP.

SLOTS_HPP has what the core must know of each slot, band and struct before it calls anything: names,
places in the tables, required ends. TABLES_HPP has the core's copies of the tables that bp_plugin
points to. CALLS_HPP has one typed call per slot of an open device. A slot or a table is added by
adding it to the headers.
"""

import json
import pathlib
import re
import sys

from describe import write_if_changed

KERNEL_STRUCT = "bp_kernel"
# Parameters whose names members of the tables have already.
PARAMETER_NAMES = {"stream": "stream_handle", "memory": "memory_handle"}
# The member of DeviceTables that has a table of the plugin.
TABLE_MEMBERS = {"device": "device_api"}
# The core's own side.
HOST_TABLE = "bp_host_api"
# The struct that a plugin fills with its tables.
PLUGIN_STRUCT = "bp_plugin"
# What its comment on a table says that a plugin may do work through.
WORK_WORDS = "a way to do work"
# What a slot takes first where there is no instance yet, and where no device is open.
BEFORE_AN_INSTANCE = "const bp_host_api*"
BEFORE_A_DEVICE = ("bp_instance*", BEFORE_AN_INSTANCE)
# What people call a band where its name alone would say too little.
FEATURE_WORDS = {"NATIVE": "native_streams"}

HEAD = """// SPDX-License-Identifier: Apache-2.0
//
// Made by device_api/abi/slot_calls.py from the headers of the plugin ABI. Not to be edited.
"""


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


class Slot:
    """One function of a table or of a kernel descriptor."""

    def __init__(self, struct, member):
        said = member["slot"]
        self.struct = struct["name"]
        self.table = self.struct.removeprefix("bp_").removesuffix("_api")
        self.name = member["name"]
        self.offset = member["offset"]
        self.band = said["band"]
        self.returns = said["returns"]
        self.parameters = said["parameters"]
        self.blocks = said["blocks"] or ""
        self.ownership = said["ownership"] or ""
        self.does = said["does"]
        self.in_kernel = self.struct == KERNEL_STRUCT
        self.control = said["is_control"]

    @property
    def native(self):
        """The plugin's function, as the members of DeviceTables have it."""
        return f"{TABLE_MEMBERS.get(self.table, self.table)}.{self.name}"

    @property
    def constant(self):
        return f"Slot::k{camel(self.name)}"

    def of_device(self):
        """Whether it is called on an open device; the others are the loader's."""
        return self.in_kernel or self.parameters[0]["type"] not in BEFORE_A_DEVICE

    def out(self):
        """The parameter that answers a new object, or None."""
        last = self.parameters[-1]
        if last["direction"] != "out":
            return None
        is_object = last["type"].endswith("**") or last["name"] == "out_handle"
        return last if is_object else None


def read_slots(description):
    slots = []
    for struct in description["structs"]:
        if struct["name"] == HOST_TABLE:
            continue
        slots += [Slot(struct, member) for member in struct["members"] if "slot" in member]
    names = [slot.name for slot in slots]
    for slot in slots:
        found = [name for name in names
                 if re.search(rf"\b{name}\b", slot.ownership) and slot.out() is not None]
        slot.ender = found[0] if found else None
    return slots


# --- slots.hpp ---

def behind(struct, member):
    """Where a member ends. Not as a number: simulated headers of other times use the same text."""
    return f"offsetof({struct}, {member}) + sizeof({struct}::{member})"


def required_end(struct):
    last = next((m["name"] for m in struct["members"]
                 if m["offset"] + m["size"] == struct["required_bytes"]), "flags")
    return behind(struct["name"], last)


def band_rows(description, slots, table):
    """Rows {name, word, bit, needs, begin, end, slots} of a table, required slots first."""
    groups = {}
    for slot in slots:
        if slot.struct == table:
            groups.setdefault(slot.band, []).append(slot)
    comments = {c["name"]: c["comment"] or "" for c in description["constants"]}
    rows = []
    for band, members in sorted(groups.items(), key=lambda item: item[0] is not None):
        # By name: headers of another time have the bit or not.
        bit = f"BP_FEATURE_{band}_BIT" if band else "0u"
        needs = re.search(r"needs (\w+)", comments.get(f"BP_FEATURE_{band}_BIT", ""))
        needed = f"BP_FEATURE_{needs.group(1)}_BIT" if needs else "0u"
        word = FEATURE_WORDS.get(band, band.lower()) if band else ""
        begin = f"offsetof({table}, {members[0].name})" if band else "8"
        end = behind(table, members[-1].name)
        names = " ".join(member.name for member in members)
        rows.append(f'    {{"{band or ""}", "{word}", {bit}, {needed}, {begin}, {end}, '
                    f'"{names}"}},')
    return rows


def write_slots(description, slots):
    text = [HEAD, "#ifndef BACKPLANE_GENERATED_SLOTS_HPP", "#define BACKPLANE_GENERATED_SLOTS_HPP",
            "", "#include <array>", "#include <cstddef>", "#include <cstdint>", "",
            '#include "backplane/device_api.h"', "", "namespace bp {", "",
            "/// Every function that a plugin gives: those of its tables, then what it exports.",
            "enum class Slot : uint16_t {"]
    exported = list(description["functions"])
    text += [f"  k{camel(name)}," for name in [slot.name for slot in slots] + exported]
    text += ["};", "", "struct SlotInfo {", "  const char* name;",
             "  bool is_control;  // runs against a deadline", "};", "",
             f"inline constexpr SlotInfo kSlots[{len(slots) + len(exported)}] = {{"]
    text += [f'    {{"{slot.name}", {str(slot.control).lower()}}},' for slot in slots]
    text += [f'    {{"{name}", true}},' for name in exported]
    text += ["};", "", "constexpr const SlotInfo& slot_info(Slot slot) {",
             "  return kSlots[static_cast<size_t>(slot)];", "}", "",
             "/// Slots that go together; they follow each other in their table.",
             "struct Band {", "  const char* name;  // empty: required",
             "  const char* word;  // as people call it",
             "  uint64_t bit;      // BP_FEATURE_*_BIT",
             "  uint64_t needs;    // bits without which this one counts as off",
             "  size_t begin;      // offsets; a band ends behind its last slot, not its table",
             "  size_t end;", "  const char* slots;  // names, with a space between", "};", "",
             "template <class Table>", "inline constexpr Band kBands[1] = {};", ""]
    tables = [s["name"] for s in description["structs"]
              if s["role"] == "table" and s["name"] != HOST_TABLE]
    for table in tables:
        text += ["template <>", f"inline constexpr Band kBands<{table}>[] = {{"]
        text += band_rows(description, slots, table) + ["};", ""]
    text += ["/// All bands that are no table's required part, in the order of their bits.",
             f"inline constexpr std::array<Band, {len(description['bands'])}> kFeatureBands = {{{{"]
    rows = [row for table in tables for row in band_rows(description, slots, table)
            if '{"",' not in row]
    values = {c["name"]: c["value"] for c in description["constants"]}
    text += sorted(rows, key=lambda row: values[re.search(r"BP_FEATURE_\w+_BIT", row).group()])
    text += ["}};", "",
             "/// Up to here a struct of this type is always there: its `Required:` statement.",
             "template <class Struct>", "inline constexpr size_t kRequiredBytes = sizeof(Struct);",
             ""]
    for struct in description["structs"]:
        if struct["kind"] == "versioned":
            text += ["template <>", f"inline constexpr size_t kRequiredBytes<{struct['name']}> = "
                                    f"{required_end(struct)};"]
    return "\n".join(text + ["", "}  // namespace bp", "", "#endif", ""])


# --- api_tables.hpp ---

class Table:
    """A table that bp_plugin points to."""

    def __init__(self, member, slots):
        self.struct = member["type"].removeprefix("const ").removesuffix("*")
        self.name = member["name"]
        self.member = TABLE_MEMBERS.get(self.name, self.name)
        self.is_required = member["comment"].startswith("required")
        self.offers_work = WORK_WORDS in member["comment"]
        own = [slot for slot in slots if slot.struct == self.struct]
        self.of_device = any(slot.of_device() for slot in own)
        self.has_bands = any(slot.band for slot in own)

    def row(self):
        # The type by its name: in simulated headers of the past the member has another one.
        read = (f"[](const bp_plugin& offered) -> const void* {{\n"
                f"       const {self.struct}* const table = offered.{self.name};\n"
                f"       return table;\n     }}")
        flags = f"{str(self.is_required).lower()}, {str(self.offers_work).lower()}"
        return (f'    {{"{self.name}",\n     {read},\n     sizeof({self.struct}), '
                f"kRequiredBytes<{self.struct}>, offsetof(ApiTables, {self.name}),\n     {flags}, "
                f"kBands<{self.struct}>}},")


def read_tables(description, slots):
    kinds = {struct["name"]: struct["role"] for struct in description["structs"]}
    plugin = next(s for s in description["structs"] if s["name"] == PLUGIN_STRUCT)
    tables = [Table(member, slots) for member in plugin["members"]
              if kinds.get(re.sub(r"^const |\*$", "", member["type"])) == "table"]
    named = {table.struct for table in tables}
    left = [name for name, role in kinds.items()
            if role == "table" and name not in named and name != HOST_TABLE]
    if left:
        raise SystemExit(f"{PLUGIN_STRUCT}: expected a pointer to each table, found none to "
                         f"{', '.join(left)}")
    return tables


def write_tables(tables):
    devices = [table for table in tables if table.of_device]
    banded = [table for table in devices if table.has_bands]
    announced = " | ".join(f"{table.name}.flags" for table in tables if table.has_bands)
    text = [HEAD, "#ifndef BACKPLANE_GENERATED_API_TABLES_HPP",
            "#define BACKPLANE_GENERATED_API_TABLES_HPP", "", "#include <span>", "",
            '#include "core/plugin/slots.hpp"', "", "namespace bp {", "",
            "/// The core's own copies of a plugin's tables: unknown bits masked, slots beyond the",
            "/// plugin's size and slots of bands that it does not announce are null, struct_size",
            "/// is the core's, also of tables that the plugin does not have.",
            "struct ApiTables {", *[f"  {t.struct} {t.name}{{}};" for t in tables], "",
            "  /// The bands of all tables (BP_FEATURE_*_BIT).",
            f"  uint64_t announced() const {{ return uint64_t{{0}} | {announced}; }}", "};", "",
            "struct TableInfo {", "  const char* name;",
            "  const void* (*of)(const bp_plugin& offered);  // null where the plugin has none",
            "  size_t bytes;", "  size_t required_bytes;", "  size_t offset;  // in ApiTables",
            "  bool is_required;", "  bool offers_work;  // a plugin needs one of these",
            "  std::span<const Band> bands;", "};", "",
            "/// In the order of bp_plugin.", "inline constexpr TableInfo kTables[] = {",
            *[table.row() for table in tables], "};", "",
            "/// The tables of an open device: the plugin's slots, and those that stand in for "
            "them.",
            "struct DeviceTables {", *[f"  {t.struct} {t.member}{{}};" for t in devices],
            *[f"  {t.struct} emulated_{t.name}{{}};" for t in banded], "",
            "  /// Takes the plugin's.", "  void take(const ApiTables& tables) {",
            *[f"    {t.member} = tables.{t.name};" for t in devices], "  }",
            "  /// Calls visit(&table) for each table of the plugin's that has bands.",
            "  template <class Visit>", "  void for_each_with_bands(Visit visit) {",
            *[f"    visit(&{t.member});" for t in banded], "  }", "};", "",
            "}  // namespace bp", "", "#endif", ""]
    return "\n".join(text)


# --- slot_calls.hpp ---

def is_struct_input(parameter):
    return re.fullmatch(r"const bp_\w+\*", parameter["type"]) and parameter["direction"] == "in" \
        and parameter["type"] not in ("const bp_kernel*", "const bp_kernel_plan*")


def own_parameters(slot):
    """The slot's parameters as its typed call has them: the device is the table's own."""
    return [{**p, "name": PARAMETER_NAMES.get(p["name"], p["name"])} for p in slot.parameters
            if p["type"] != "bp_device*"]


def declaration(parameter):
    if is_struct_input(parameter):
        return f"{parameter['type'].removesuffix('*')}& {parameter['name']}"
    return f"{parameter['type']} {parameter['name']}"


def passed(parameter, device):
    if parameter["type"] == "bp_device*":
        return device
    name = PARAMETER_NAMES.get(parameter["name"], parameter["name"])
    return ("&" if is_struct_input(parameter) else "") + name


def call_struct(slot):
    """The control call as a value that holds all it reads and writes."""
    fields, arguments = [f"  decltype({slot.struct}::{slot.name}) function;"], []
    for p in slot.parameters:
        type_name, prefix = p["type"], ""
        is_void = type_name.startswith(("void", "const void"))
        if p["direction"] == "out" or (type_name.startswith("const bp_") and
                                       type_name != "const bp_host_api*"
                                       and type_name.endswith("*") and not is_void):
            type_name, prefix = type_name.removeprefix("const ")[:-1], "&"
        fields.append(f"  {type_name} {p['name']};")
        arguments.append(prefix + p["name"])
    return [f"struct {camel(slot.name)}Call {{", *fields,
            f"  bp_status operator()() {{ return function({', '.join(arguments)}); }}", "};", ""]


def control_body(slot):
    """Statements that make the call of a control slot and leave `status`."""
    values = [slot.native]
    for p in slot.parameters:
        name = PARAMETER_NAMES.get(p["name"], p["name"])
        if p["type"] == "bp_device*":
            values.append("device")
        elif p["direction"] == "out":
            values.append("{}" if p["type"].endswith("**") else f"*{name}")
        else:
            values.append(name)
    lines = [f"{camel(slot.name)}Call call{{{', '.join(values)}}};"]
    if any(p["name"] == "timeout_ns" for p in slot.parameters):
        lines.append(f"const bp_status status = gate->wait({slot.constant}, &call, timeout_ns);")
    else:
        lines.append(f"const bp_status status = gate->control({slot.constant}, &call);")
    for p in slot.parameters:
        if p["direction"] == "out":
            lines.append(f"*{p['name']} = call.{p['name']};")
    return lines


def native_call(slot, names):
    """Statements that call the plugin and leave `status`."""
    query = re.sub(r"_(sync|destroy)$", "_query", slot.name)
    polled = slot.name.endswith("_sync") or slot.blocks.startswith("until")
    lines = []
    if slot.control:
        if polled and query != slot.name and query in names:
            argument = PARAMETER_NAMES.get(slot.parameters[0]["name"], slot.parameters[0]["name"])
            timeout = "timeout_ns" if slot.name.endswith("_sync") else "gate->timeout_ns()"
            ask = f"[&] {{ return {query}({argument}); }}"
            if slot.name.endswith("_sync"):
                lines += [f"if (const auto asked = gate->ask({ask}, {timeout})) return *asked;"]
            else:
                lines += [f"gate->ask_if_one_at_a_time({ask}, {timeout});"]
        return lines + control_body(slot)
    arguments = ", ".join(passed(p, "device") for p in slot.parameters)
    holder = f"descriptor.{slot.name}" if slot.in_kernel else slot.native
    call = f"{holder}({arguments})"
    if slot.returns == "void":
        call = f"({call}, BP_OK)"
    kernel = ", &descriptor" if slot.in_kernel else ""
    return lines + [f"const bp_status status = gate->call({slot.constant}, "
                    f"[&] {{ return {call}; }}{kernel});"]


def typed_call(slot, slots):
    names = {s.name for s in slots}
    parameters = [declaration(p) for p in own_parameters(slot)]
    if slot.in_kernel and "const bp_kernel* kernel" in parameters:
        parameters.remove("const bp_kernel* kernel")
        parameters.insert(0, "const bp_kernel* original")
    if slot.in_kernel:
        parameters.insert(0, "const bp_kernel& descriptor")
    does = slot.does.split(". ")[0]
    lines = [f"  /// {slot.name}: {does}{'' if does.endswith(('.', '?')) else '.'}",
             f"  bp_status {slot.name}({', '.join(parameters)}) const {{"]
    body = []
    if slot.band:
        arguments = ", ".join(passed(p, "emulation") for p in slot.parameters)
        body += [f"if (emulated_{slot.table}.{slot.name} != nullptr) {{",
                 f"  return emulated_{slot.table}.{slot.name}({arguments});", "}",
                 f"if ({slot.native} == nullptr) return gate->absent({slot.constant});"]
    ended = next((s for s in slots if s.ender == slot.name and tracked(s)), None)
    if ended:
        own = own_parameters(slot)
        value = own[0]["name"] if own else "device"
        body.append(f"gate->forget(LiveKind::{live_kind(ended)}, live_value({value}));")
    inner = native_call(slot, names)
    if slot.in_kernel:
        inner = [line.replace(", kernel,", ", original,") for line in inner]
    if slot.out() is not None and not slot.in_kernel:
        body += making(slot, inner)
    else:
        body += inner + ["return status;"]
    if body[-1] == "return status;" and body[-2].startswith("const bp_status status = "):
        body[-2:] = [body[-2].replace("const bp_status status =", "return")]
    return lines + [f"    {line}" for line in body] + ["  }", ""]


def tracked(slot):
    """Objects of which no two may be alike. A mapping may lie where another one does."""
    return slot.out() is not None and not slot.in_kernel and slot.name != "mem_map" \
        and slot.parameters[0]["type"] != BEFORE_AN_INSTANCE and slot.ender is not None


def live_kind(slot):
    return f"k{camel(slot.ender)}"


def making(slot, inner):
    out = slot.out()["name"]
    lines = [f"const auto make = [&]() -> bp_status {{", *[f"  {line}" for line in inner],
             "  return status;", "};"]
    arguments = ", ".join(p["name"] for p in own_parameters(slot))
    lines += ["const auto defect = [&] {",
              f"  return answer_defect(SlotTag<{slot.constant}>(), *this, {arguments});", "};"]
    giver = f"[&] {{ {slot.ender}(*{out}); }}" if slot.ender else "[] {}"
    if tracked(slot):
        lines.append(f"return gate->make_live({slot.constant}, LiveKind::{live_kind(slot)}, {out}, "
                     f"make, defect, {giver});")
    else:
        lines.append(f"return gate->make({slot.constant}, {out}, make, defect, {giver});")
    return lines


def write_calls(slots):
    kinds = sorted({live_kind(slot) for slot in slots if tracked(slot)})
    text = [HEAD, "#ifndef BACKPLANE_GENERATED_SLOT_CALLS_HPP",
            "#define BACKPLANE_GENERATED_SLOT_CALLS_HPP", "",
            '#include "core/device/slot_tables.hpp"', "", "namespace bp {", "",
            "// Control calls as values that hold all that they read and write.", ""]
    for slot in slots:
        if slot.control and slot.of_device():
            text += call_struct(slot)
    text += ["/// One open device as the core calls it. Each call finds its object (plugin's or",
             "/// the emulation's), keeps one-call-at-a-time devices in turn, turns what is thrown",
             "/// into a status, ends at a deadline where it is a control call, and checks the",
             "/// answer. The words of a failure are left as a report of this thread.",
             "struct DeviceTable : SlotTables {"]
    for slot in slots:
        if slot.of_device():
            text += typed_call(slot, slots)
    return "\n".join(text[:-1] + ["};", "", "}  // namespace bp", "", "#endif", ""]), kinds


def main(abi_json, slots_out, tables_out, calls_out):
    description = json.loads(pathlib.Path(abi_json).read_text())
    slots = read_slots(description)
    calls, kinds = write_calls(slots)
    text = write_slots(description, slots)
    enum = ("/// Objects of a plugin that the core counts, by the slot that ends them.\n"
            "enum class LiveKind : uint16_t {" + ", ".join(kinds + ["kCount"]) + "};\n\n")
    before = "/// Slots that go together"
    write_if_changed(pathlib.Path(slots_out), text.replace(before, enum + before))
    write_if_changed(pathlib.Path(tables_out), write_tables(read_tables(description, slots)))
    write_if_changed(pathlib.Path(calls_out), calls)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
