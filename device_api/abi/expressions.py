# SPDX-License-Identifier: Apache-2.0
"""The value and the type of an integer constant expression of the ABI headers, by the rules of C.

The type matters as much as the value: a flag that turns from unsigned to signed, or from 64 to 32
bits, changes what a vendor's code computes with it.
"""

import re

from header_reader import AbiError

_TOKEN = re.compile(r"\s*(?:(?P<number>(?:0[xX][0-9a-fA-F]+|\d+))(?P<suffix>[uUlL]*)\b"
                    r"|(?P<word>[A-Za-z_]\w*)|(?P<mark><<|>>|[-+*|&^~()]))")
_PRECEDENCE = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6}
_LIMITS = {"INT32_MAX": (2**31 - 1, "i32"), "UINT32_MAX": (2**32 - 1, "u32"),
           "INT64_MAX": (2**63 - 1, "i64"), "UINT64_MAX": (2**64 - 1, "u64"),
           "INT32_MIN": (-2**31, "i32"), "INT64_MIN": (-2**63, "i64")}
_SUFFIXES = {"": "i", "u": "u", "l": "il", "ll": "il", "ul": "ul", "lu": "ul", "ull": "ul",
             "llu": "ul"}
_EXPANSIONS = 8


def _fits(value, kind):
    bits = int(kind[1:])
    low, high = (-2**(bits - 1), 2**(bits - 1)) if kind[0] == "i" else (0, 2**bits)
    return low <= value < high


def _wrapped(value, kind, where):
    """The value in that type; an unsigned one wraps, a signed one must not overflow."""
    if kind[0] == "u":
        return value % 2**int(kind[1:]), kind
    if not _fits(value, kind):
        raise AbiError(f"{where}: expected an integer that its type holds, found {value}")
    return value, kind


def _common(left, right):
    """The type of both after the usual arithmetic conversions."""
    bits = max(32, int(left[1:]), int(right[1:]))
    widest = [kind for kind in (left, right) if int(kind[1:]) == bits]
    return f"{'u' if any(kind[0] == 'u' for kind in widest) else 'i'}{bits}"


class _Parser:
    def __init__(self, text, values, where):
        self.values = values
        self.where = where
        self.text = text
        self.tokens = self._tokens(text)
        self.at = 0

    def fail(self):
        raise AbiError(f"{self.where}: expected an integer, found '{self.text}'")

    def _tokens(self, text):
        tokens, at, text = [], 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                self.fail()
            tokens.append((match.lastgroup if match["number"] is None else "number", match))
            at = match.end()
        return tokens

    def peek(self):
        if self.at == len(self.tokens):
            return None
        return self.tokens[self.at][1].group().strip()

    def take(self):
        if self.at == len(self.tokens):
            self.fail()
        self.at += 1
        return self.tokens[self.at - 1]

    def number(self, match):
        digits, suffix = match["number"], match["suffix"].lower()
        if suffix not in _SUFFIXES:
            self.fail()
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
        if octal and not re.fullmatch("[0-7]+", digits):
            self.fail()
        value = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if octal else 10)
        rank = _SUFFIXES[suffix]
        sizes = ("64",) if "l" in rank else ("32", "64")
        signs = "u" if rank[0] == "u" else "iu" if digits[0] == "0" else "i"
        for bits in sizes:
            for sign in signs:
                if _fits(value, sign + bits):
                    return value, sign + bits
        return self.fail()

    def cast(self):
        """The type that stands in parentheses here; None: no cast."""
        texts = [match.group().strip() for _, match in self.tokens[self.at:self.at + 2]]
        match = re.fullmatch(r"(u?)int(8|16|32|64)_t", texts[0]) if len(texts) == 2 else None
        if match is None or texts[1] != ")":
            return None
        self.at += 2
        return ("u" if match[1] else "i") + match[2]

    def unary(self):
        kind, match = self.take()
        word = match.group().strip()
        if kind == "number":
            return self.number(match)
        if kind == "word":
            if re.fullmatch(r"U?INT(32|64)_C", word) and self.peek() == "(":
                value, _ = self.unary()
                return _wrapped(value, word[0].lower() + re.sub(r"\D", "", word), self.where)
            if word in _LIMITS:
                return _LIMITS[word]
            return self.values[word] if word in self.values else self.fail()
        if word == "(":
            kind = self.cast()
            if kind:
                return _wrapped(self.unary()[0] % 2**64 if kind[0] == "u" else self.unary()[0],
                                kind, self.where)
            result = self.binary(1)
            if self.take()[1].group().strip() != ")":
                self.fail()
            return result
        if word in ("-", "+", "~"):
            value, kind = self.unary()
            kind = _common(kind, "i32")
            return _wrapped({"-": -value, "+": value, "~": ~value}[word], kind, self.where)
        return self.fail()

    def binary(self, lowest):
        left = self.unary()
        while _PRECEDENCE.get(self.peek(), 0) >= lowest:
            mark = self.take()[1].group().strip()
            left = self.apply(mark, left, self.binary(_PRECEDENCE[mark] + 1))
        return left

    def apply(self, mark, left, right):
        if mark in ("<<", ">>"):
            kind = _common(left[1], "i32")
            if not 0 <= right[0] < int(kind[1:]):
                raise AbiError(f"{self.where}: expected a shift within {kind[1:]} bits, "
                               f"found {right[0]}")
            value = left[0] << right[0] if mark == "<<" else left[0] >> right[0]
            return _wrapped(value, kind, self.where)
        kind = _common(left[1], right[1])
        a, b = left[0], right[0]
        value = {"|": a | b, "^": a ^ b, "&": a & b, "+": a + b, "-": a - b, "*": a * b}[mark]
        return _wrapped(value, kind, self.where)

    def whole(self):
        result = self.binary(1)
        if self.at != len(self.tokens):
            self.fail()
        return result


def _expanded(expression, macros):
    """The expression without calls of the headers' own macros."""
    for _ in range(_EXPANSIONS):
        call = re.search(r"\b(BP_\w+)\s*\(([^()]*)\)", expression)
        if call is None or call.group(1) not in macros:
            break
        parameters, body = macros[call.group(1)]
        arguments = dict(zip(parameters, (text.strip() for text in call.group(2).split(","))))
        body = re.sub(r"[A-Za-z_]\w*", lambda m: arguments.get(m.group(), m.group()), body)
        expression = expression.replace(call.group(), f"({body})")
    return expression


def evaluate(expression, values, macros, where):
    """(value, type) of an expression; `values` has those of the names before it. A type is u or i
    and its bits: u32."""
    return _Parser(_expanded(expression, macros), values, where).whole()
