# SPDX-License-Identifier: Apache-2.0
"""Reads the ABI headers' restricted subset of C into plain data.

The subset is small on purpose: what this reader refuses has no fixed layout, or is no C, and does
not belong into a plugin ABI. It knows syntax only; statements.py reads what the comments say.
"""

import dataclasses
import re

SCALARS = {"uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4,
           "uint64_t": 8, "int64_t": 8, "float": 4, "double": 8}
POINTER_BYTES = 8

# What may stand under a condition, and nothing else: an ABI has no members that depend on it.
_PLATFORM = {"#ifdef __cplusplus": "__cplusplus", "#if defined(__cplusplus)": "__cplusplus",
             "#ifdef _WIN32": "_WIN32", "#if defined(_WIN32)": "_WIN32"}
_EXPORT = re.compile(r"#define BP_EXPORT (.+?) #else #define BP_EXPORT (.+)")

_TOKEN = re.compile(r"(?P<comment>/\*.*?\*/)|(?P<open_comment>/\*)|(?P<line_comment>//)"
                    r"|(?P<directive>^[ \t]*\#(?:(?!/\*)[^\n])*)"
                    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>\d\w*)|(?P<text>\"[^\"\n]*\")"
                    r"|(?P<mark>\.\.\.|[^\s\w])", re.DOTALL | re.MULTILINE)


class AbiError(Exception):
    """A header that cannot be read; the text says where, what was expected and what was found."""


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    line: int
    last_line: int


@dataclasses.dataclass
class Declaration:
    """A member, a parameter or a function: `type` is spelt in one way, without its name."""
    name: str
    type: str
    line: int
    parameters: list = None  # of a function or function pointer
    comment: str = ""
    file: str = ""
    first_line: int = 0  # of a member: its type's
    last_line: int = 0   # of a member: its semicolon's
    linkage: str = ""    # of an exported function: C or C++


@dataclasses.dataclass
class Struct:
    name: str
    members: list
    comment: str
    file: str
    line: int
    end_line: int  # of its closing brace


@dataclasses.dataclass
class Constant:
    name: str
    expression: str
    comment: str
    group: str  # the comment over the run of definitions it stands in
    run: int    # which run
    file: str
    line: int


@dataclasses.dataclass
class Headers:
    structs: list = dataclasses.field(default_factory=list)
    opaque: dict = dataclasses.field(default_factory=dict)      # name: comment
    aliases: dict = dataclasses.field(default_factory=dict)     # name: scalar type
    alias_comments: dict = dataclasses.field(default_factory=dict)  # name: comment
    callbacks: dict = dataclasses.field(default_factory=dict)   # name: Declaration
    functions: dict = dataclasses.field(default_factory=dict)   # name: Declaration
    constants: list = dataclasses.field(default_factory=list)
    macros: dict = dataclasses.field(default_factory=dict)      # name: (parameters, body)
    includes: dict = dataclasses.field(default_factory=dict)    # file: [what it includes]
    defined: dict = dataclasses.field(default_factory=dict)     # name: "file:line"
    comments: dict = dataclasses.field(default_factory=dict)    # file: [all its comments]
    attached: dict = dataclasses.field(default_factory=dict)    # file: {those of a thing in it}
    guards: dict = dataclasses.field(default_factory=dict)      # include guard: file
    export: list = dataclasses.field(default_factory=list)      # what BP_EXPORT is: [_WIN32, else]

    def define(self, name, file, line):
        """A name has one meaning in all headers."""
        if name in self.defined:
            raise AbiError(f"{file}:{line}: {name}: expected one definition, found a second "
                           f"(the first: {self.defined[name]})")
        self.defined[name] = f"{file}:{line}"


def comment_text(raw):
    """The words of a comment: each paragraph on one line, an empty line between two."""
    lines = [re.sub(r"^\s*\*(?=\s|$)", "", line).strip() for line in raw[2:-2].split("\n")]
    paragraphs = re.split(r"\n\n+", "\n".join(lines).strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class _Reader:
    """Recursive descent over the tokens of one file."""

    def __init__(self, name, text, headers):
        self.name = name
        self.headers = headers
        # Continued lines become one, and keep their number of newlines for the line numbers.
        self.continued = {}  # line: how many follow that are part of it
        spliced = re.sub(r"((?:[^\n]*\\\n)+)([^\n]*)\n", self._splice, text)
        self.tokens = self._tokens(spliced)
        self.at = 0
        self.run = 0
        self.in_c_block = False
        self.headers.includes[name] = []
        self.headers.attached[name] = set()

    def _splice(self, match):
        continued = match.group(1)
        self.continued[1 + match.string.count("\n", 0, match.start())] = continued.count("\n")
        return continued.replace("\\\n", " ") + match.group(2) + "\n" * (continued.count("\n") + 1)

    def fail(self, line, words):
        raise AbiError(f"{self.name}:{line}: {words}")

    def _tokens(self, text):
        tokens, end, line = [], 0, 1
        for match in _TOKEN.finditer(text):
            line += text.count("\n", end, match.start())
            end = match.start()
            last = line + match.group().count("\n")
            if match.lastgroup == "open_comment":
                self.fail(line, "expected a comment that ends, found '/*' without '*/'")
            if match.lastgroup == "line_comment":
                self.fail(line, "expected a comment of the form /* */, found //")
            words = match.group().strip()
            if match.lastgroup == "directive":
                words = "#" + " ".join(words[1:].split())
            tokens.append(Token(match.lastgroup, words, line, last))
        last = 1 + text.count("\n")
        tokens.append(Token("end", "the end of the file", last, last))
        return tokens

    def peek(self, skip_comments=True):
        at = self.at
        while skip_comments and self.tokens[at].kind == "comment":
            at += 1
        return self.tokens[at]

    def next(self):
        while self.tokens[self.at].kind == "comment":
            self.at += 1
        token = self.tokens[self.at]
        self.at += 1
        return token

    def expect(self, text):
        token = self.next()
        if token.text != text:
            self.fail(token.line, f"expected '{text}', found '{token.text}'")
        return token

    def word(self, what):
        token = self.next()
        if token.kind != "word":
            self.fail(token.line, f"expected {what}, found '{token.text}'")
        return token

    def leading_comment(self, gap=False):
        """The comment that ends right above (or before) the next token; with `gap`, empty lines
        may stand between."""
        at = self.at
        while self.tokens[at].kind == "comment":
            at += 1
        if at == 0 or self.tokens[at - 1].kind != "comment":
            return ""
        comment = self.tokens[at - 1]
        # On the line of the declaration before, it belongs to that one.
        beside = at >= 2 and self.tokens[at - 2].last_line == comment.line
        close = gap or self.tokens[at].line - comment.last_line <= 1
        return comment_text(comment.text) if close and not beside else ""

    def trailing_comment(self, line):
        """The comment that begins on the line where a declaration ends."""
        token = self.tokens[self.at]
        if token.kind == "comment" and token.line == line:
            self.at += 1
            return comment_text(token.text)
        return ""

    def attach(self, *comments):
        """Notes that these comments are a declaration's, and not the file's."""
        self.headers.attached[self.name].update(comments)

    # --- top level ---

    def read(self):
        self.open_file()
        last_line, group = -1, ""
        while self.peek().text != "#endif":
            above = self.leading_comment()
            token = self.peek()
            if token.kind != "directive":
                self.declaration(self.leading_comment(gap=True))
                last_line = -1
                continue
            self.next()
            if not token.text.startswith("#define"):
                self.directive(token)
                last_line = -1
                continue
            if above or token.line != last_line + 1:
                self.run += 1
                group = above
            own = self.trailing_comment(token.line)
            self.definition(token, own, group)
            last_line = self.tokens[self.at - 1].last_line
            last_line += self.continued.get(last_line, 0)
        self.close_file()

    def open_file(self):
        """The include guard; its name holds the file's, so no two headers have the same."""
        self.headers.comments[self.name] = [comment_text(token.text) for token in self.tokens
                                            if token.kind == "comment"]
        stem = self.name.rpartition("/")[2].removesuffix(".h").upper()
        wanted = rf"BACKPLANE_(?:[A-Z]+_)*{stem}_H"
        token = self.next()
        match = re.fullmatch(rf"#ifndef ({wanted})", token.text)
        if match is None:
            self.fail(token.line, f"expected '#ifndef BACKPLANE_{stem}_H' first, found "
                                  f"'{token.text}'")
        guard = match.group(1)
        token = self.next()
        if token.text != f"#define {guard}":
            self.fail(token.line, f"expected '#define {guard}', found '{token.text}'")
        if guard in self.headers.guards:
            self.fail(token.line, f"expected an include guard of its own, found {guard}, which is "
                                  f"{self.headers.guards[guard]}'s")
        self.headers.guards[guard] = self.name

    def close_file(self):
        self.next()
        token = self.peek()
        if token.kind != "end":
            self.fail(token.line, f"expected nothing behind the include guard's #endif, found "
                                  f"'{token.text}'")
        if self.in_c_block:
            self.fail(token.line, "expected a '}' that ends the extern \"C\"")

    def directive(self, token):
        text = token.text
        match = re.fullmatch(r'#include (<std(?:int|def)\.h>|"backplane/[a-z_0-9/]+\.h")', text)
        if match:
            self.headers.includes[self.name].append(match.group(1).strip('<>"'))
        elif text in _PLATFORM:
            self.platform_block(token, _PLATFORM[text])
        else:
            self.fail(token.line, f"expected an include of a standard or ABI header, a guard or "
                                  f"#define, found '{text}'")

    def platform_block(self, first, condition):
        """extern "C" and the export attribute: neither changes what crosses."""
        words = []
        while (token := self.next()).text != "#endif":
            if token.kind == "end":
                self.fail(first.line, f"expected an #endif for '{first.text}'")
            words.append(token.text)
        found = " ".join(words)
        if condition == "__cplusplus":
            wanted = "}" if self.in_c_block else 'extern "C" {'
            if found != wanted:
                self.fail(first.line, f"expected '{wanted}' under '{first.text}', found '{found}'")
            self.in_c_block = not self.in_c_block
            return
        match = _EXPORT.fullmatch(found)
        if match is None:
            self.fail(first.line, f"expected two definitions of BP_EXPORT under '{first.text}', "
                                  f"found '{found}'")
        self.headers.define("BP_EXPORT", self.name, first.line)
        self.headers.export = [" ".join(text.split()) for text in match.groups()]

    def definition(self, token, own, group):
        match = re.fullmatch(r"#define\s+(\w+)(\(([\w, ]*)\))?(?:\s+(.*))?", token.text)
        if match is None:
            self.fail(token.line, f"expected '#define NAME value', found '{token.text}'")
        name, is_function, parameters, body = match.groups()
        if not re.fullmatch(r"BP_[A-Z][A-Z0-9_]*", name):
            self.fail(token.line, f"expected a name in capitals that begins with BP_, "
                                  f"found '{name}'")
        if not body:
            self.fail(token.line, f"{name}: expected a value")
        self.headers.define(name, self.name, token.line)
        if is_function:
            self.headers.macros[name] = ([p.strip() for p in parameters.split(",")],
                                         " ".join(body.split()))
            return
        self.attach(own, group)
        self.headers.constants.append(
            Constant(name, " ".join(body.split()), own, group, self.run, self.name, token.line))

    def declaration(self, above):
        first = self.peek()
        if first.text == "typedef":
            self.next()
            if self.peek().text == "struct":
                return self.struct(above, is_typedef=True)
            return self.typedef(above)
        if first.text == "struct":
            return self.struct(above, is_typedef=False)
        if first.text == "BP_EXPORT":
            self.next()
            function = self.function(self.type_name("a type"))
            self.attach(above)
            function.comment, function.file = above, self.name
            function.linkage = "C" if self.in_c_block else "C++"
            self.headers.define(function.name, self.name, function.line)
            self.headers.functions[function.name] = function
            return None
        return self.fail(first.line, f"expected a typedef, a struct, an exported function or a "
                                     f"directive, found '{first.text}'")

    def typedef(self, above):
        base = self.type_name("a type")
        self.attach(above)
        if self.peek().text == "(":
            callback = self.function_pointer(base)
            self.expect(";")
            callback.comment, callback.file = above, self.name
            self.headers.define(callback.name, self.name, callback.line)
            self.headers.callbacks[callback.name] = callback
            return
        name = self.word("a name")
        self.expect(";")
        if base not in SCALARS:
            self.fail(name.line, f"typedef {name.text}: expected a fixed-width type, found "
                                 f"'{base}'")
        self.headers.define(name.text, self.name, name.line)
        self.headers.aliases[name.text] = base
        self.headers.alias_comments[name.text] = above

    def struct(self, above, is_typedef):
        line = self.expect("struct").line
        tag = self.word("the struct's name").text
        if self.peek().text != "{":
            if is_typedef:
                self.expect(tag)
            end = self.expect(";")
            if not is_typedef:
                self.fail(line, f"struct {tag}: expected a typedef or members")
            if tag not in self.headers.opaque:
                self.headers.define(tag, self.name, line)
            self.headers.opaque[tag] = self.trailing_comment(end.last_line)
            return
        self.expect("{")
        self.attach(above)
        members = []
        while self.peek().text != "}":
            members.append(self.member())
        end_line = self.expect("}").line
        if is_typedef:
            self.expect(tag)
        self.expect(";")
        self.define_struct(tag, line, is_typedef)
        self.headers.structs.append(Struct(tag, members, above, self.name, line, end_line))

    def define_struct(self, tag, line, is_typedef):
        """C names a struct's type by a typedef, here or in a declaration before."""
        if is_typedef:
            self.headers.define(tag, self.name, line)
        elif tag not in self.headers.opaque:
            self.fail(line, f"struct {tag}: expected 'typedef struct {tag} {tag};' before it")
        elif any(struct.name == tag for struct in self.headers.structs):
            self.fail(line, f"{tag}: expected one definition, found a second")

    def member(self):
        above = self.leading_comment()
        distant = self.leading_comment(gap=True)
        start = self.peek()
        if start.kind == "directive":
            self.fail(start.line, f"expected a member, found '{start.text}' inside a struct")
        base = self.type_name("a member's type")
        if self.peek().text == "(":
            member = self.function_pointer(base)
            above = distant
        else:
            name = self.word("a member's name")
            member = Declaration(name.text, base, name.line)
        self.end_of_member(member)
        end = self.expect(";")
        member.first_line, member.last_line = start.line, end.last_line
        beside = self.trailing_comment(end.last_line)
        self.attach(above, beside)
        member.comment = " ".join(filter(None, (above, beside)))
        return member

    def end_of_member(self, member):
        token = self.peek()
        if token.text == ":":
            self.fail(token.line, f"member {member.name}: expected ';', found a bitfield")
        if token.text == "[":
            self.fail(token.line, f"member {member.name}: expected ';', found an array (use a "
                                  f"pointer and a count)")
        if token.text == ",":
            self.fail(token.line, f"member {member.name}: expected ';', one member a line")

    def type_name(self, what):
        """One spelling for each type: 'const bp_str*', 'const bp_kernel* const*'."""
        parts = []
        token = self.word(what)
        if token.text == "const":
            parts.append("const ")
            token = self.word(what)
        if token.text in ("struct", "enum", "union"):
            self.fail(token.line, f"expected {what} by its typedef name, found '{token.text}'")
        base = token.text
        if not (base in SCALARS or base in ("void", "char") or base.startswith("bp_")):
            self.fail(token.line, f"expected a fixed-width type or a bp_ type, found '{base}'")
        parts.append(base)
        if self.peek().text == "const" and parts[0] != "const ":
            self.next()
            parts.insert(0, "const ")
        while self.peek().text in ("*", "const"):
            mark = self.next().text
            parts.append("*" if mark == "*" else " const")
        spelling = "".join(parts)
        if spelling.endswith(" const"):
            self.fail(token.line, f"expected no const behind the last '*' of '{spelling}'")
        if base == "char" and "*" not in spelling:
            self.fail(token.line, f"expected int8_t or uint8_t, found '{spelling}'")
        return spelling

    def function_pointer(self, result):
        self.expect("(")
        self.expect("*")
        name = self.word("a function's name")
        self.expect(")")
        return self.signature(name, result, " (*)")

    def function(self, result):
        function = self.signature(self.word("a function's name"), result, " ")
        self.expect(";")
        return function

    def signature(self, name, result, mark):
        self.expect("(")
        parameters = []
        while True:
            if self.peek().text == "...":
                self.fail(name.line, f"{name.text}: expected named parameters, found '...'")
            base = self.type_name(f"a parameter's type in {name.text}")
            word = self.peek()
            if word.kind != "word":
                self.fail(word.line, f"{name.text}: expected a name for the parameter of type "
                                     f"'{base}'")
            self.next()
            parameters.append(Declaration(word.text, base, word.line))
            separator = self.next()
            if separator.text == ")":
                break
            if separator.text != ",":
                self.fail(separator.line, f"{name.text}: expected ',' or ')', "
                                          f"found '{separator.text}'")
        spelling = f"{result}{mark}({', '.join(p.type for p in parameters)})"
        return Declaration(name.text, spelling, name.line, parameters)


def read_headers(files):
    """Headers from [(name, text)]; raises AbiError at the first thing that is not in the subset."""
    headers = Headers()
    for name, text in files:
        reader = _Reader(name, text, headers)
        reader.read()
        for constant in headers.constants:
            if constant.file == name:
                constant.run = f"{name}:{constant.run}"
    return headers
