# SPDX-License-Identifier: Apache-2.0
"""Who may include whom (design, part 1), and that core names no operator and no plugin.

An area is the part of the tree a file belongs to. For each area there is the set of areas it may
include; what is not in the tree is either the standard library, a library of the project or a
vendor's header. Unit tests beside the code and tests/ may include anything.
"""

import pathlib
import re

import tree

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)

# Header-only or linked libraries that core and ops may use.
CORE_LIBRARIES = ("fmt/", "nlohmann/", "boost/")
# Applications also parse command lines and archives.
APPLICATION_LIBRARIES = CORE_LIBRARIES + ("CLI/", "zip.h")
# What the operating system gives; core keeps it to one file per module by review.
SYSTEM = ("sys/", "unistd.h", "dlfcn.h", "fcntl.h", "pthread.h", "poll.h", "link.h", "elf.h",
          "sched.h", "linux/", "cxxabi.h", "arpa/", "net/", "netinet/")

# The core's folders by rank: each includes only what stands before it, and itself.
CORE_RANKS = ("base", "op", "plugin", "device", "emulation", "memory", "runtime", "transfer",
              "graph", "passes", "dispatch", "plan", "execute")
_CORE = {"device_api"} | {f"core/{rank}" for rank in CORE_RANKS}
# What of ccl/ knows nothing of devices; its root says what an operation is.
_CCL_BASE = {"device_api", "core/base", "ccl"}
_CCL = {"ccl"} | {f"ccl/{folder}" for folder in ("schedule", "store", "watch", "engine", "bridge",
                                                 "group", "launch")}
RULES = {
    "device_api": {"device_api"},
    "core/api": _CORE | _CCL | {"core/api", "ccl/dist", "ops", "generated"},
    # doctor tries kernels as the conformance kit does (docs/adr/0024).
    "core/cli": _CORE | _CCL | {"core/api", "core/cli", "ops", "generated", "sdk/conform"},
    "ops": _CORE | {"ops", "ops/expr", "generated"},
    "ops/expr": {"ops/expr"},
    "ccl": _CORE | {"ccl"},
    "ccl/schedule": _CCL_BASE | {"ccl/schedule"},
    "ccl/store": _CCL_BASE | {"ccl/store"},
    "ccl/launch": _CCL_BASE | {"ccl/launch", "ccl/store"},
    "ccl/watch": _CCL_BASE | {"ccl/watch"},
    # An engine's library is opened as a plugin's is, and its peers prove what a store's clients do.
    "ccl/engine": _CCL_BASE | {"ccl/engine", "ccl/engine/abi", "ccl/store", "core/plugin"},
    "ccl/engine/abi": {"device_api"},
    "ccl/engine/ucx": {"ccl/engine/abi", "ccl/engine/ucx"},
    "ccl/bridge": _CORE | {"ccl", "ccl/bridge"},
    "ccl/group": _CORE | _CCL,
    "ccl/dist": _CORE | _CCL | {"ccl/dist"},
    "sdk": {"device_api", "sdk", "generated"},
    "sdk/conform": _CORE | {"ops", "ops/expr", "sdk", "sdk/conform", "generated"},
    "docs": {"device_api", "core/api", "docs", "generated"},
    "python": {"device_api", "core/api", "python", "generated"},
}
for _i, _rank in enumerate(CORE_RANKS):
    RULES[f"core/{_rank}"] = {"device_api"} | {f"core/{name}" for name in CORE_RANKS[:_i + 1]}
SPECIFIC = ("ops/expr", "sdk/conform", "ccl/engine/abi", "ccl/engine/ucx")
# Operators whose names are everyday words, here keys of manifests and options.
EVERYDAY_WORDS = {"min", "max", "constant"}
# Two plugins share code for chips of one kind.
SHARED_PLUGIN_CODE = {"plugins/cuda": "plugins/gpu_common", "plugins/rocm": "plugins/gpu_common"}


def area_of(path):
    """The area of a file given by its path from the root."""
    text = path.as_posix()
    for area in SPECIFIC:
        if text.startswith(area + "/"):
            return area
    if path.parts[0] in ("core", "plugins", "ccl") and len(path.parts) > 2:
        return "/".join(path.parts[:2])
    return path.parts[0]


def resolve(root, including, name):
    """Area of an included header, or None when the tree doesn't have it."""
    root = pathlib.Path(root)
    candidates = [including.parent / name, pathlib.Path(name)]
    candidates += [pathlib.Path(folder) / name
                   for folder in ("device_api/include", "core/api/include", "sdk/include")]
    candidates += [pathlib.Path(*including.parts[:2]) / "include" / name,
                   pathlib.Path(*including.parts[:2]) / name]
    for candidate in candidates:
        normal = pathlib.Path(*_without_dots(candidate.parts))
        if (root / normal).is_file():
            return area_of(normal)
    if name.startswith("core/"):
        return area_of(pathlib.Path(name))  # made at build time, for that rank
    return "generated" if name.startswith("backplane/") else None


def _without_dots(parts):
    result = []
    for part in parts:
        if part == ".." and result:
            result.pop()
        elif part not in (".", ".."):
            result.append(part)
    return result


def _is_standard(name):
    return re.fullmatch(r"[a-z_]+(\.h)?", name) is not None and name not in SYSTEM


def _may_use_outside(area, name):
    """Whether an area may include a header that the tree doesn't have."""
    if area == "device_api":
        return name in ("stddef.h", "stdint.h")
    if area.startswith("plugins/"):
        return True
    if area == "sdk" and name == "unistd.h":  # where there is one: a fork is seen by nothing else
        return True
    if area in ("ops/expr", "sdk", "ccl/engine/abi"):
        return _is_standard(name)
    if area == "ccl/engine/ucx":
        return _is_standard(name) or name.startswith(("ucp/", "ucs/") + SYSTEM)
    if area == "python":
        return _is_standard(name) or name.startswith(("nanobind/", "Python.h") + SYSTEM)
    is_application = area in ("core/cli", "docs", "sdk/conform")
    libraries = APPLICATION_LIBRARIES if is_application else CORE_LIBRARIES
    return _is_standard(name) or name.startswith(libraries) or name.startswith(SYSTEM)


def check_file(root, path):
    area = area_of(path)
    text = tree.code_only(tree.read(root, path), keep_strings=True)
    allowed = RULES.get(area)
    if area.startswith("plugins/"):
        allowed = {"device_api", "sdk", "generated", area, SHARED_PLUGIN_CODE.get(area, area)}
    if allowed is None:
        return [f"{path}: no include rule covers this folder; add it to include_rules.py"]
    problems = []
    for match in _INCLUDE.finditer(text):
        name = match.group(2)
        target = resolve(root, path, name)
        fine = _may_use_outside(area, name) if target is None else target in allowed
        if not fine:
            problems.append(f"{path}:{tree.line_of(text, match.start())}: {area} may not include "
                            f"{name} ({target or 'outside the tree'})")
    return problems


# "class X;" in a namespace, also on that one's line, and "class X*" anywhere. Indented ones are
# members.
_KIND = r"(?:class|struct|union|enum(?: class)?)"
_DECLARATION = re.compile(rf"^(?:namespace [\w:]+ \{{ *)*{_KIND} (\w+)(?: : [\w:]+)?;|"
                          rf"\b{_KIND} (\w+) ?[*&]", re.MULTILINE)


def _definitions(root):
    """Name of each class or struct that a header of the core defines -> its folder's rank."""
    found = {}
    for rank, folder in enumerate(CORE_RANKS + ("api", "cli")):
        for path in sorted((pathlib.Path(root) / "core" / folder).glob("*.hpp")):
            text = tree.code_only(path.read_text(encoding="utf-8"))
            for name in re.findall(rf"^{_KIND} (\w+)[^;{{()]*\{{", text, re.MULTILINE):
                found.setdefault(name, rank)
    return found


def check_forward_declarations(root):
    """A forward declaration of what a later rank defines is an arrow that climbs."""
    ranks = _definitions(root)
    problems = []
    for path in tree.c_family_files(root):
        if path.parts[0] != "core" or path.parts[1] not in CORE_RANKS or tree.is_test(path):
            continue
        own = CORE_RANKS.index(path.parts[1])
        text = tree.code_only(tree.read(root, path))
        for match in _DECLARATION.finditer(text):
            name = match.group(1) or match.group(2)
            if ranks.get(name, own) > own:
                problems.append(f"{path}:{tree.line_of(text, match.start())}: core/{path.parts[1]} "
                                f"may not declare {name}, which a later rank defines")
    return problems


def check_core_names(root, path, names):
    """Core strings that are exactly an operator's or a plugin's name."""
    if path.parts[0] != "core" or path.parts[1] in ("api", "cli"):
        return []
    text = tree.code_only(tree.read(root, path), keep_strings=True)
    return [f"{path}:{tree.line_of(text, match.start())}: core names \"{match.group(1)}\""
            for match in re.finditer(r'"(\w+)(?::\d+)?"', text) if match.group(1) in names]


def check(root):
    """All breaches below root, one line each."""
    plugins = {path.name for path in pathlib.Path(root).glob("plugins/*") if path.is_dir()}
    names = plugins | declared_operators(root) - EVERYDAY_WORDS
    problems = []
    for path in tree.c_family_files(root):
        if tree.is_test(path):
            continue
        problems += check_file(root, path) + check_core_names(root, path, names)
    return problems + check_forward_declarations(root)


def declared_operators(root):
    """Operator names in the operator source, without a YAML reader: "- op: conv"."""
    names = set()
    for path in sorted((pathlib.Path(root) / "ops").glob("**/*.yaml")):
        names |= set(re.findall(r"^\s*-\s*\{?\s*op:\s*(\w+)", path.read_text(encoding="utf-8"),
                                re.MULTILINE))
    return names
