# SPDX-License-Identifier: Apache-2.0
"""What the headers promise besides their layout: the words of the contract, as a record.

contract_of() takes from the description what must not change: who allocates, which members and
slots are required, the names of parameters in their order, the tagged statements, the rules of each
thing, units and numbers of comments, macros, types of constants, what each header includes and
defines. changes() says why one contract breaks another, but for what the layout record says already
(removed and retyped things); additions() says what is new. Prose is in neither.
"""

import os

import statements

_SHOWN = 80   # characters of a rule in a message,
_BEFORE = 25  # and of these, what stands before the first change


def _member_of(member):
    kept = {key: member[key] for key in ("lifetime", "length", "stride") if key in member}
    facts = statements.facts_of(member["comment"], member["name"])
    return {**kept, **({"states": facts} if facts else {}), "rules": member["rules"]}


def _slot_of(slot):
    said = {"Threads": slot["threads_in_words"], "Blocks": slot["blocks"],
            "Ownership": slot["ownership"], "Errors": slot["errors"], "Absent": slot["absent"]}
    return {"parameters": [f"{p['direction']} {p['name']}" for p in slot["parameters"]],
            "types": [p["type"] for p in slot["parameters"]],
            "band": slot["band"], "pair": slot["pair"], "required": slot["required"],
            "relied_on": slot["relied_on"], "control": slot["is_control"],
            "statements": {keyword: text for keyword, text in said.items() if text},
            "rules": slot["rules"],
            "states": statements.facts_of(" ".join([slot["does"], *slot["rules"]]))}


def _struct_of(struct):
    members = {member["name"]: _member_of(member) for member in struct["members"]
               if "slot" not in member}
    return {"kind": struct["kind"], "role": struct["role"], "allocation": struct["allocation"],
            "lifetimes": struct["lifetimes"], "rules": struct["rules"],
            "required": struct["required_member"] or struct["required_bytes"], "members": members}


def _function_of(function):
    return {"linkage": function["linkage"],
            "parameters": [f"in {p['name']}" for p in function["parameters"]],
            "types": [p["type"] for p in function["parameters"]],
            "statements": function["statements"], "rules": function["rules"],
            "states": statements.facts_of(statements.untagged(function["comment"]))}


def contract_of(description):
    """The promises of a description, without its prose."""
    slots = {f"{struct['name']}.{member['name']}": _slot_of(member["slot"])
             for struct in description["structs"] for member in struct["members"]
             if "slot" in member}
    functions = {**description["callbacks"], **description["functions"]}
    return {
        "core_min": description["version"]["core_min"],
        "headers": description["headers"],
        "export": description["export"],
        "structs": {s["name"]: _struct_of(s) for s in description["structs"]},
        "slots": slots,
        "functions": {name: _function_of(function) for name, function in functions.items()},
        "handles": {name: statements.words_of(comment)
                    for name, comment in description["handles"].items()},
        "constants": {c["name"]: {"type": c["type"], "states": statements.facts_of(c["comment"]),
                                  "rules": c["rules"]} for c in description["constants"]},
        "runs": {name: {"rules": rules} for name, rules in description["runs"].items()},
        "aliases": {name: {"rules": rules} for name, rules in description["alias_rules"].items()},
        "macros": description["macros"],
    }


# --- comparison ---

def _changed(what, was, now):
    return f"{what} was {_quoted(was)} and is {_quoted(now)} now"


def _quoted(value):
    if isinstance(value, list):
        return f"'{', '.join(map(str, value))}'" if value else "nothing"
    return "nothing" if value in (None, "") else f"'{value}'"


def _facts(what, old, new):
    """Units, numbers and terms stay; a comment may name more codes (a new bit, a new band)."""
    found = []
    for kind in ("units", "numbers", "codes", "terms"):
        was, now = old.get(kind, []), new.get(kind, [])
        if kind == "codes":
            now = [word for word in now if word in was]
        if was != now:
            found.append(_changed(f"{what}: its comment's {kind}", was, now))
    return found


def _rules(what, old, new):
    """Rules stay with their thing, word by word. Records of 0.1 keep those of headers only."""
    if "rules" not in old:
        return []
    gone = [rule for rule in old["rules"] if rule not in new["rules"]]
    fresh = [rule for rule in new["rules"] if rule not in old["rules"]]
    if len(gone) == len(fresh) == 1:
        same = len(os.path.commonprefix([*gone, *fresh]))
        at = gone[0].rfind(" ", 0, max(same - _BEFORE, 0)) + 1
        return [f"{what}: the rule '{gone[0][at:at + _SHOWN]}' was changed to "
                f"'{fresh[0][at:at + _SHOWN]}'"]
    return ([f"{what}: the rule '{rule[:_SHOWN]}' was changed or removed" for rule in gone]
            + [f"{what}: there is a new rule, '{rule[:_SHOWN]}'" for rule in fresh])


def _parameters(what, old, new):
    """Swapped parameters of one type compile and are wrong; one that got a new name is the same
    parameter, but two of one type cannot be told from a swap."""
    if old["types"] != new["types"]:
        return []  # the layout says so
    pairs = [(was.split(" "), now.split(" "), kind) for was, now, kind in
             zip(old["parameters"], new["parameters"], old["types"])]
    renamed = [(was[1], now[1], kind) for was, now, kind in pairs if was[1] != now[1]]
    kinds = [kind for _, _, kind in renamed]
    names = [was[1] for was, _, _ in pairs]
    moved = any(now in names for _, now, _ in renamed) or len(kinds) != len(set(kinds))
    directions = [was[0] for was, _, _ in pairs] != [now[0] for _, now, _ in pairs]
    if moved or directions:
        return [_changed(f"{what}: the order of its parameters", old["parameters"],
                         new["parameters"])]
    return []


def _statements(what, old, new):
    return [_changed(f"{what}: '{keyword}:'", old.get(keyword), new.get(keyword))
            for keyword in dict.fromkeys([*old, *new]) if old.get(keyword) != new.get(keyword)]


def _slot(what, old, new):
    found = _parameters(what, old, new) + _statements(what, old["statements"], new["statements"])
    for key, words in (("band", "band"), ("pair", "pair"), ("control", "being a control call")):
        # A record of before there were control calls says nothing of them.
        if (old.get(key) or None) != (new[key] or None):
            found.append(_changed(f"{what}: its {words}", old.get(key), new[key]))
    if old["required"] != new["required"]:
        words = ("is required and was optional" if new["required"]
                 else "is optional and was required")
        found.append(f"{what} {words}; the required set never changes")
    if old["relied_on"] and not new["relied_on"]:
        found.append(f"{what} was required since a version that plugins rely on, and is not now")
    return found + _rules(what, old, new) + _facts(what, old["states"], new["states"])


def _struct(name, old, new):
    found = [_changed(f"{name}: its {words}", old[key], new[key])
             for key, words in (("role", "role"), ("allocation", "allocation"),
                                ("lifetimes", "lifetimes"), ("required", "'Required:'"))
             if old[key] != new[key] and not isinstance(old[key], int)]
    found += _rules(name, old, new)
    for member, was in old["members"].items():
        now = new["members"].get(member)
        if now is None:
            continue  # the layout says so
        what = f"{name}.{member}"
        found += [_changed(f"{what}: its {key}", was.get(key), now.get(key))
                  for key in ("lifetime", "length", "stride") if was.get(key) != now.get(key)]
        found += _rules(what, was, now)
        found += _facts(what, was.get("states", {}), now.get("states", {}))
    return found


def _function(name, old, new):
    found = [] if old["linkage"] == new["linkage"] else [
        _changed(f"{name}: its linkage", old["linkage"], new["linkage"])]
    return (found + _parameters(name, old, new)
            + _statements(name, old["statements"], new["statements"]) + _rules(name, old, new)
            + _facts(name, old["states"], new["states"]))


def _given(headers, file):
    """The names that an includer of a header gets."""
    files, waiting = [], [file]
    while waiting:
        current = waiting.pop()
        if current in headers and current not in files:
            files.append(current)
            waiting += [include.removeprefix("backplane/")
                        for include in headers[current]["includes"]]
    return {name for current in files for name in headers[current]["defines"]}


def _header(name, old, new):
    if name not in new:
        return [f"{name} was removed or renamed; leave it"]
    gone = [include for include in old[name]["includes"] if include not in new[name]["includes"]]
    found = [f"{name} no longer includes {', '.join(gone)}; whoever includes {name} relies on it"
             ] if gone else []
    still = {name for header in new.values() for name in header["defines"]}
    lost = sorted((_given(old, name) - _given(new, name)) & still)
    if lost and not gone:
        found.append(f"{name} no longer gives {', '.join(lost[:4])}"
                     f"{f' and {len(lost) - 4} more' if len(lost) > 4 else ''}")
    return found + _rules(name, old[name], new[name])


def _constant(name, old, new):
    found = [] if old["type"] == new["type"] else [_changed(f"{name}: its type", old["type"],
                                                            new["type"])]
    return found + _rules(name, old, new) + _facts(name, old["states"], new["states"])


def changes(old, new):
    """Why `new` breaks what was built against `old`; empty: it only adds."""
    found = []
    for kind, compare in (("structs", _struct), ("slots", _slot), ("functions", _function),
                          ("constants", _constant), ("runs", _rules), ("aliases", _rules)):
        for name, was in old.get(kind, {}).items():
            if name in new[kind]:
                found += compare(name, was, new[kind][name])
    # The layout has no constants of the version.
    found += [f"{name} was removed; leave it" for name in old["constants"]
              if name.startswith("BP_ABI_") and name not in new["constants"]]
    for name in old["headers"]:
        found += _header(name, old["headers"], new["headers"])
    for kind in ("macros", "handles"):
        found += [_changed(name, was, new[kind].get(name)) for name, was in old[kind].items()
                  if new[kind].get(name) != was]
    if old["export"] != new["export"]:
        found.append(_changed("BP_EXPORT", old["export"], new["export"]))
    return found


def additions(old, new):
    """What `new` promises and `old` does not know."""
    found = [name for kind in ("structs", "slots", "functions", "constants", "macros", "handles",
                               "headers") for name in new[kind] if name not in old[kind]]
    found += [f"{name}.{member}" for name, struct in new["structs"].items()
              if name in old["structs"] for member in struct["members"]
              if member not in old["structs"][name]["members"]]
    for name, header in new["headers"].items():
        known = old["headers"].get(name, header)["includes"]
        found += [f"{name}: #include {include}" for include in header["includes"]
                  if include not in known]
    return found
