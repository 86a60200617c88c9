# SPDX-License-Identifier: Apache-2.0
"""What the comments of the ABI headers state: thread classes, lifetimes, lengths, bands, roles.

Comments are part of the contract: a vendor who reads them must find the same answer for every slot
and every pointer, so a missing statement is an error just as a missing type would be.
"""

import re

from header_reader import SCALARS, AbiError

THREAD_CLASSES = ("any-thread", "object-exclusive", "stream-ordered", "init-only")
LIFETIMES = ("call", "object", "plugin", "process")

_KEYWORDS = re.compile(r"(?:^|(?<=\s))(Rules?|Errors|Ownership|Threads|Blocks|Absent)"
                       r"(?: \((band [A-Z0-9_]+|with \w+)\))?: ")
_HEAD = re.compile(r"(\w+)(?: \(band ([A-Z][A-Z0-9_]*)\))?: ")
_LIFETIME = re.compile(r"\blifetime:? (?:[^.;]*?)\b(call|object|plugin|process"
                       r"|that of the struct that holds it)\b", re.IGNORECASE)
_LENGTH = re.compile(r"\blength: ([^.;]+)")
_STRIDE = re.compile(r"\bstride: (\w+)")
_REQUIRED = re.compile(r"\bRequired: (\w+)\.")
_ALLOCATION = re.compile(r"\b((?:Allocated|Built|Static data)\b[^.]*)\.")
_STRUCT_LIFETIME = re.compile(r"\b((?:\w+: )?lifetime\b[^.]*)\.", re.IGNORECASE)
_CONTROL = re.compile(r"\bControl calls: ([\w, ]+)\.")
_RULES = re.compile(r"(?:^|(?<=\s))Rules?(?: that hold everywhere)?: ")
_RULES_END = re.compile(r"\n\n|(?:^|(?<=\s))(?:Errors|Ownership|Threads|Blocks|Absent|Required)"
                        r"(?: \([^)]*\))?: ")
# In a rule over members or constants: the words of each are a rule.
_BESIDE = re.compile(r"\bbeside each\b")

# What a comment states besides its tags: a prose that changes none of these may change.
_UNITS = re.compile(r"\b(bit|byte|element|nanosecond|microsecond|millisecond)s?\b|\b(seconds)\b"
                    r"|\b([KMG]i?B|ns|us|ms)\b|_(bytes|ns)\b")
_NUMBERS = re.compile(r"(?<![\w.])-?(?:0[xX][0-9a-fA-F]+|\d+)\b")
_TERMS = re.compile(r"\b(NULL|required|optional|power of two|multiple|contiguous|absent)\b")
_NAMES = re.compile(r"\bBP_[A-Z0-9_]+(?:\*\w*)?")
_SAME_UNIT = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "bytes": "byte"}

# How a versioned struct's comment tells who makes it and who reads it.
_ROLES = (("out", r"Allocated and zeroed by the core"),
          ("in", r"(Allocated|Built) by the core"),
          ("report", r"Allocated by the plugin"),
          ("static", r"Static data of the plugin"))


def fail(file, line, words):
    raise AbiError(f"{file}:{line}: {words}")


def role_of(struct):
    """table, or out, in, report, static as the comment says."""
    if struct.name.endswith("_api"):
        return "table"
    for role, pattern in _ROLES:
        if re.search(pattern, struct.comment):
            return role
    return fail(struct.file, struct.line,
                f"{struct.name}: expected a comment that says 'Allocated by the core', "
                f"'Allocated and zeroed by the core', 'Allocated by the plugin' or 'Static data of "
                f"the plugin'")


def required_member(struct):
    """The last member that is always there, by the comment's 'Required: member.'; None: none."""
    match = _REQUIRED.search(struct.comment)
    names = [member.name for member in struct.members]
    if match is None:
        fail(struct.file, struct.line,
             f"{struct.name}: expected 'Required: <the last member that is always there>.', "
             f"'Required: all.' or 'Required: none.'")
    word = match.group(1)
    if word in ("all", "none"):
        return names[-1] if word == "all" else None
    if word not in names:
        fail(struct.file, struct.line, f"{struct.name}: 'Required: {word}.' names no member")
    return word


def allocation_of(struct):
    """The sentence that says who makes the struct and who may keep it; None: a table, a value."""
    match = _ALLOCATION.search(struct.comment)
    return words_of(match.group(1)) if match else None


def struct_lifetimes(struct):
    """What the comment over a struct says of the lifetimes of its texts and pointers."""
    return [words_of(text) for text in _STRUCT_LIFETIME.findall(struct.comment)]


def words_of(text):
    """One spelling of a statement, however its lines are broken."""
    return " ".join(text.split()).rstrip(".")


def facts_of(comment, name=""):
    """{kind: [words]} of what prose must not change: units, numbers, codes, a few terms."""
    words = f"{name} {comment}"
    units = {next(filter(None, groups)) for groups in _UNITS.findall(words)}
    facts = {"units": sorted({_SAME_UNIT.get(unit, unit) for unit in units}),
             "numbers": sorted(set(_NUMBERS.findall(comment))),
             "codes": sorted(set(_NAMES.findall(comment))),
             "terms": sorted(set(_TERMS.findall(comment)))}
    return {kind: found for kind, found in facts.items() if found}


def rules_of(comment):
    """The rules of a comment: each runs from 'Rules: ' (or 'Rules that hold everywhere: ') to the
    next statement or empty line."""
    return [words_of(_RULES_END.split(text)[0]) for text in _RULES.split(comment)[1:]]


def rules_under(over, comment):
    """The rules of a member or a constant: all its words, where a rule of the comment over the
    struct or the run says 'beside each'."""
    if any(_BESIDE.search(rule) for rule in rules_of(over)):
        return [words_of(comment)] if comment else []
    return rules_of(comment)


def untagged(comment):
    """What a comment says before its first statement, and its rules: what facts are taken from."""
    return " ".join([_KEYWORDS.split(comment)[0], *rules_of(comment)])


def families_in(comments):
    """The families of constants that comments name: BP_COPY_*, BP_MAP_*_BIT."""
    text = " ".join(comment for found in comments.values() for comment in found)
    return sorted(set(re.findall(r"\bBP_[A-Z0-9_]+_\*(?:_BIT)?", text)))


def control_calls_in(comments):
    """The slots that a comment lists behind 'Control calls: '."""
    found = [match.group(1) for file in comments.values() for comment in file
             for match in [_CONTROL.search(comment)] if match]
    return [name.strip() for text in found for name in text.split(",")]


# --- pointers in structs ---

def lifetime_of(struct, member):
    for comment in (member.comment, struct.comment):
        match = _LIFETIME.search(comment)
        if match:
            word = match.group(1).lower()
            return word if word in LIFETIMES else "holder"
    return fail(struct.file, member.line,
                f"{struct.name}.{member.name}: expected 'lifetime: ' and one of "
                f"{', '.join(LIFETIMES)} in its comment or the struct's")


def _inferred_length(names, name):
    """The member that counts what `name` points to, by the naming rules of the headers."""
    if name == "ptr":
        return next((n for n in ("len", "count") if n in names), None)
    if name in ("sizes", "strides") and "rank" in names:
        return "rank"
    if name + "_bytes" in names:
        return name + "_bytes"
    counts = [n for n in names if n.endswith("_count")]
    return next((n for n in counts if name.startswith(n.removesuffix("count"))
                 or name == n.removesuffix("_count") + "s"), None)


def length_of(struct, member, pointee_kind):
    """What says how many elements a pointer has: an expression of members, words, or 'one'."""
    names = [other.name for other in struct.members]
    match = _LENGTH.search(member.comment)
    if match:
        return match.group(1).strip()
    length = _inferred_length(names, member.name)
    if length is None and pointee_kind == "versioned" and member.type.count("*") == 1:
        return "one"
    if length is None:
        fail(struct.file, member.line,
             f"{struct.name}.{member.name}: expected a member that counts it by name, or 'length: "
             f"<members or words>' in its comment")
    return length


def stride_of(struct, member):
    """Versioned elements grow, so whoever walks an array of them needs the distance (law 8)."""
    names = [other.name for other in struct.members]
    match = _STRIDE.search(member.comment)
    stride = match.group(1) if match else member.name.removesuffix("s") + "_stride_bytes"
    if stride not in names:
        fail(struct.file, member.line,
             f"{struct.name}.{member.name}: an array of versioned structs needs the member "
             f"{stride} or 'stride: <member>' in its comment")
    return stride


# --- slots ---

def tagged(file, line, what, comment):
    """({keyword: (qualifier, text)}, prose before the first). A statement runs to the next keyword
    or to an empty line; what follows an empty line is prose again."""
    pieces = _KEYWORDS.split(comment)
    found = {}
    for keyword, qualifier, text in zip(pieces[1::3], pieces[2::3], pieces[3::3]):
        keyword = "Rules" if keyword == "Rule" else keyword
        if keyword in found:
            fail(file, line, f"{what}: expected '{keyword}:' once, found it twice")
        found[keyword] = (qualifier, words_of(text.split("\n\n")[0]))
    return found, pieces[0]


def _sentences(struct, member):
    """{keyword: text} of a slot's comment, plus 'head', 'band' and 'with'."""
    what = f"{struct.name}.{member.name}"
    said, prose = tagged(struct.file, member.line, what, member.comment)
    head = _HEAD.match(prose)
    if head is None or head.group(1) != member.name:
        fail(struct.file, member.line,
             f"{what}: expected a comment above it that begins with '{member.name}: ' or "
             f"'{member.name} (band NAME): '")
    found = {"head": prose[head.end():].strip(), "band": head.group(2), "with": None}
    for keyword, (qualifier, text) in said.items():
        found[keyword] = text
        if qualifier and qualifier.startswith("with "):
            found["with"] = qualifier.removeprefix("with ")
    return found


def _thread_classes(struct, member, text):
    """'stream-ordered; object-exclusive on the event' has two classes; words may follow each."""
    classes = []
    for part in (text or "").split(";"):
        match = re.match(r"\s*([a-z]+-[a-z]+)\b", part)
        if match is None or match.group(1) not in THREAD_CLASSES:
            fail(struct.file, member.line,
                 f"{struct.name}.{member.name}: expected 'Threads: ' and one of "
                 f"{', '.join(THREAD_CLASSES)}, found '{part.strip()}'")
        classes.append(match.group(1))
    return classes


def _direction(struct, member, parameter, handles):
    """in, out, or object for a handle."""
    if parameter.name.startswith("out_"):
        if "*" not in parameter.type or parameter.type.startswith("const"):
            fail(struct.file, parameter.line,
                 f"{struct.name}.{member.name}: parameter {parameter.name}: expected a pointer to "
                 f"something that may be written, found '{parameter.type}'")
        return "out"
    base = parameter.type.removeprefix("const ").rstrip("*")
    if base in handles:
        return "object"
    if "*" in parameter.type and not parameter.type.startswith("const ") and base != "void":
        fail(struct.file, parameter.line,
             f"{struct.name}.{member.name}: parameter {parameter.name}: expected const, or a name "
             f"that begins with out_, found '{parameter.type}'")
    return "in"


def slot_of(struct, member, handles):
    """What a function pointer's comment states, checked but for what other slots cover."""
    said = _sentences(struct, member)
    directions = [_direction(struct, member, parameter, handles)
                  for parameter in member.parameters]
    makes = any(parameter.type.endswith("**") for parameter in member.parameters)
    if makes and "Ownership" not in said:
        fail(struct.file, member.line,
             f"{struct.name}.{member.name}: expected 'Ownership: ' and who ends what it makes")
    if "Blocks" not in said:
        fail(struct.file, member.line,
             f"{struct.name}.{member.name}: expected 'Blocks: ' and yes, no or when")
    absent = said.get("Absent")
    return {
        "table": struct.name,
        "name": member.name,
        "returns": member.type.split(" (*)")[0],
        "parameters": [{"name": p.name, "type": p.type, "direction": d}
                       for p, d in zip(member.parameters, directions)],
        "does": said["head"],
        "rules": [said["Rules"]] if "Rules" in said else [],
        "errors": said.get("Errors"),
        "ownership": said.get("Ownership"),
        "threads": _thread_classes(struct, member, said.get("Threads")),
        "threads_in_words": said.get("Threads"),
        "blocks": said["Blocks"],
        "may_block": not re.match(r"(no|it should not)\b", said["Blocks"]),
        "absent": absent,
        "band": said["band"],
        "pair": said["with"],
        "required": bool(absent) and ("refused" in absent or absent.startswith("never")),
        "relied_on": "required since" in (absent or ""),
    }


def check_coverage(struct, slots):
    """Every optional slot has an 'Absent', its own, its band's first slot's, or its pair's."""
    covered_by_pair = {slot["pair"] for slot in slots.values()}
    band = None
    seen = set()
    for name, slot in slots.items():
        line = next(m.line for m in struct.members if m.name == name)
        if slot["band"] != band:
            band = slot["band"]
            if band in seen:
                fail(struct.file, line, f"{struct.name}.{name}: the slots of band {band} do not "
                                        f"follow each other")
            seen.add(band)
            needs_own = True
        else:
            needs_own = band is None
        if needs_own and not slot["absent"] and name not in covered_by_pair:
            fail(struct.file, line,
                 f"{struct.name}.{name}: expected 'Absent: ' and what the core does without it")
        if slot["pair"] and slot["pair"] not in slots:
            fail(struct.file, line, f"{struct.name}.{name}: 'Absent (with {slot['pair']})' names "
                                    f"no slot of this struct")


def scalar_bytes(type_name, aliases):
    return SCALARS.get(aliases.get(type_name, type_name))
