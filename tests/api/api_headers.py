# SPDX-License-Identifier: Apache-2.0
"""Reads the C application headers: their functions with parameters, and their structs with members.

The subset is the one that the headers are written in: one declaration a line or two, no macros but
BPA_API. What does not fit is an error, so that nothing is left out unseen.
"""

import dataclasses
import pathlib
import re


@dataclasses.dataclass
class Variable:
    type: str
    name: str


@dataclasses.dataclass
class Function:
    result: str
    name: str
    parameters: list


class HeaderError(Exception):
    pass


def _code(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)


def _variable(text):
    match = re.fullmatch(r"\s*(.+?)(\w+)\s*", text, flags=re.DOTALL)
    if match is None:
        raise HeaderError(f"no type and name in '{text}'")
    return Variable(re.sub(r"\s+", " ", match.group(1)).strip(), match.group(2))


def _function(text):
    match = re.fullmatch(r"\s*(.+?)\b(bpa_\w+)\s*\((.*)\)\s*", text, flags=re.DOTALL)
    if match is None:
        raise HeaderError(f"no function in '{text}'")
    parameters = match.group(3).strip()
    variables = [] if parameters == "void" else [_variable(p) for p in parameters.split(",")]
    return Function(re.sub(r"\s+", " ", match.group(1)).strip(), match.group(2), variables)


def read(folder):
    """(functions in order, members by struct name) of all headers below the folder."""
    functions, structs = [], {}
    for path in sorted(pathlib.Path(folder).rglob("*.h")):
        code = _code(path.read_text(encoding="utf-8"))
        declared = re.findall(r"\bBPA_API\b([^;]*);", code)
        functions += [_function(text) for text in declared]
        for name, body in re.findall(r"typedef struct (bpa_\w+) \{(.*?)\} \1;", code, re.DOTALL):
            structs[name] = [_variable(member) for member in body.split(";") if member.strip()]
    if not functions or not structs:
        raise HeaderError(f"{folder} declares no functions or no structs")
    return functions, structs
