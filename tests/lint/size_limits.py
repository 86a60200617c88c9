# SPDX-License-Identifier: Apache-2.0
"""Sizes: files, functions, nesting, lines.

Functions of C and C++ are found by their braces, which is right for formatted code and needs no
compiler; Python functions are found by Python's own parser.
"""

import ast
import re

import tree

SOURCE_LINES = 600
HEADER_LINES = 400
FUNCTION_LINES = 60
NESTING_LEVELS = 4
COLUMNS = 100
SCRIPTS = {".py", ".sh", ".cmake"}

_CONTROL = re.compile(r"^(if|for|while|switch|do|else|try|catch)\b")
_NOT_FUNCTION = re.compile(r"^(namespace|class|struct|union|enum|extern\b[^(]*$|if|for|while|switch"
                           r"|do|else|try|catch|return|case|default)\b")
# After the parameter list may come qualifiers, a trailing return type, a constraint.
_FUNCTION_END = re.compile(r"\)\s*(const|noexcept(\s*\([^()]*\))?|override|final|mutable|&&?|\s"
                           r"|->\s*[\w:<>,*&\s]+)*$")
_LAMBDA_END = re.compile(r"\]\s*(\([^{}]*\))?\s*(mutable|noexcept|\s|->\s*[\w:<>,*&\s]+)*$")


def _is_function(chunk, enclosing):
    if any(kind == "function" for kind, _, _ in enclosing) or _NOT_FUNCTION.match(chunk):
        return False
    return bool(_FUNCTION_END.search(chunk) and "(" in chunk)


def _kind_of(chunk, enclosing):
    if _is_function(chunk, enclosing):
        return "function"
    inside = any(kind == "function" for kind, _, _ in enclosing)
    if inside and (_CONTROL.match(chunk) or _LAMBDA_END.search(chunk)):
        return "nested"
    return "other"


def functions_of(text):
    """(first line, lines, deepest nesting, head) of each function in C-family text."""
    code = tree.code_only(text)
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)),
                  code, flags=re.MULTILINE)
    found, stack, start, deepest, parentheses = [], [], 0, 0, 0
    for offset, letter in enumerate(code):
        if letter == "{":
            chunk = code[start:offset]
            first = start + len(chunk) - len(chunk.lstrip())
            stack.append((_kind_of(chunk.strip(), stack), first, parentheses))
            levels = sum(kind == "nested" for kind, _, _ in stack)
            deepest = 0 if stack[-1][0] == "function" else max(deepest, levels)
            parentheses = 0
        elif letter == "}" and stack:
            kind, first, parentheses = stack.pop()
            if kind == "function":
                head = " ".join(code[first:offset].split("{")[0].split())
                found.append((tree.line_of(code, first), code.count("\n", first, offset) + 1,
                              deepest, head))
        elif letter in "()":
            parentheses += 1 if letter == "(" else -1
        # The semicolons of a for statement belong to it.
        if letter in "{}" or (letter == ";" and parentheses == 0):
            start = offset + 1
    return found


def check_functions(root, path):
    problems = []
    for line, lines, nesting, head in functions_of(tree.read(root, path)):
        if lines > FUNCTION_LINES:
            problems.append(f"{path}:{line}: function of {lines} lines, at most {FUNCTION_LINES}: "
                            f"{head[-60:]}")
        if nesting > NESTING_LEVELS:
            problems.append(f"{path}:{line}: {nesting} nesting levels, at most {NESTING_LEVELS}: "
                            f"{head[-60:]}")
    return problems


def check_python_functions(root, path):
    problems = []
    for node in ast.walk(ast.parse(tree.read(root, path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES:
                problems.append(f"{path}:{node.lineno}: function of {lines} lines, at most "
                                f"{FUNCTION_LINES}: {node.name}")
    return problems


def check_file(root, path):
    lines = tree.read(root, path).splitlines()
    limit = HEADER_LINES if path.suffix in tree.HEADERS else SOURCE_LINES
    problems = []
    if len(lines) > limit:
        problems.append(f"{path}: {len(lines)} lines, at most {limit}")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS and "://" not in line:
            problems.append(f"{path}:{number}: {len(line)} columns, at most {COLUMNS}")
    return problems


def check(root):
    problems = []
    for path in tree.all_files(root):
        if path.suffix in tree.C_FAMILY:
            problems += check_file(root, path) + check_functions(root, path)
        elif path.suffix in SCRIPTS or path.name == "CMakeLists.txt":
            problems += check_file(root, path)
            if path.suffix == ".py":
                problems += check_python_functions(root, path)
    return problems
