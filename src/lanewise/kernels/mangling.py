"""Mangled names (Itanium C++ ABI) read back, as far as they tell about a kernel.

Only the function's name and its template arguments are read, its parameter types are not. A name that is cut off, or
has a construct which kernels do not use, gives what could be read up to there.
"""

from __future__ import annotations

import re

__all__ = ["demangled"]

# The template arguments that matter come early: types, then the tile. The rest are strides and thread maps.
_READ_AT_MOST = 800
# Of argument lists, pointers and functions: more than any name needs, and few enough for Python's stack.
_MOST_STEPS = 120
_NOTHING = "\0"
_SOURCE_NAME = re.compile(r"\d+")
_NUMBER = re.compile(r"n?\d+")
_SEQUENCE = re.compile(r"([0-9A-Z]*)_")
_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long",
    "x": "long long", "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float",
    "d": "double", "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_STANDARD = {
    "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream",
    "o": "std::ostream", "d": "std::iostream",
}  # fmt: skip
_QUALIFIED = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile", "r": " restrict"}
_UNARY = frozenset(("ad", "ng", "nt", "de", "co", "ps", "sZ", "sz", "st"))
_BINARY = frozenset(
    ("pl", "mi", "ml", "dv", "rm", "an", "or", "eo", "ls", "rs", "eq", "ne", "lt", "gt", "le", "ge", "aa", "oo")
)


class _Cut(Exception):  # noqa: N818 - no error: the name just ends here
    """The name ends, or cannot be read on; carries the text of what was open."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.text = text


def demangled(name: str) -> str:
    """The function's qualified name with its template arguments; `name` itself where nothing can be read."""
    try:
        return _Reader(name[2:_READ_AT_MOST]).encoding_name() or name
    except _Cut as cut:
        return cut.text or name


class _Reader:
    """A recursive descent over the mangled text, with the ABI's table of substitutions.

    The text ends in characters that nothing begins with, so that reading need not ask for the end.
    """

    def __init__(self, text: str) -> None:
        self.text = text + 4 * _NOTHING
        self.end = len(text)
        self.at = 0
        self.steps = 0
        self.seen: list[str] = []

    def take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _Cut
        self.at = match.end()
        return match

    def descend(self) -> None:
        """Stop at what nests deeper than any name does, or has more parts than are worth reading."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _Cut

    def encoding_name(self) -> str:
        self.descend()
        first = self.text[self.at]
        if first == "N":
            return self.nested_name()
        if first == "Z":
            return self.local_name()
        return self.unscoped_name()

    def nested_name(self) -> str:
        self.at += 1
        name = ""
        try:
            while self.text[self.at] in "rVK":
                self.at += 1
            while (sign := self.text[self.at]) != "E":
                if sign == "I":
                    name = self.with_arguments(name)
                elif sign == "S" and not name:
                    name = self.substitution()
                    continue
                else:
                    part = self.component(name)
                    name = f"{name}::{part}" if name and part else name or part
                if self.text[self.at] != "E":
                    self.seen.append(name)
        except _Cut as cut:
            if not cut.text.startswith(name):
                raise _Cut(f"{name}::{cut.text}" if name and cut.text else name or cut.text) from None
            raise
        self.at += 1
        return name

    def unscoped_name(self) -> str:
        if self.text[self.at] == "S" and self.text[self.at : self.at + 2] != "St":
            name = self.substitution()
        else:
            name = self.component("")
            if self.text[self.at] == "I":
                self.seen.append(name)
        return self.with_arguments(name) if self.text[self.at] == "I" else name

    def local_name(self) -> str:
        """``Z <function> E <entity>``: something declared within a function, mostly a lambda."""
        self.at += 1
        function = self.encoding_name()
        while self.text[self.at] != "E":
            self.type()
        self.at += 1
        entity = "" if self.text[self.at] == "s" else self.encoding_name()
        if self.text[self.at] == "_":
            self.at += 1
            self.take(_SOURCE_NAME)
        return f"{function}()::{entity}" if entity else function

    def component(self, scope: str) -> str:
        """One identifier of a qualified name."""
        sign = self.text[self.at]
        if sign == "L":
            self.at += 1
            sign = self.text[self.at]
        if sign.isdigit():
            return self.source_name()
        pair = self.text[self.at : self.at + 2]
        if pair == "St":
            self.at += 2
            return f"std::{self.component(scope)}"
        if pair == "Ul":
            return self.closure()
        self.at += 2
        if pair in ("C1", "C2", "C3", "D0", "D1", "D2"):
            return scope.rpartition("::")[2]
        if pair == "Ut":
            self.take(_SEQUENCE)
            return "{unnamed}"
        if pair == "cl":
            return "operator()"
        raise _Cut

    def source_name(self) -> str:
        length = int(self.take(_SOURCE_NAME)[0])
        name = self.text[self.at : self.at + length]
        self.at += length
        if self.at > self.end:
            raise _Cut(name.rstrip(_NOTHING))
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N_") else name

    def closure(self) -> str:
        self.at += 2
        types = []
        while self.text[self.at] != "E":
            types.append(self.type())
        self.at += 1
        number = self.take(_SEQUENCE)[1]
        parameters = "" if types == ["void"] else ", ".join(types)
        return f"{{lambda({parameters})#{int(number, 36) + 2 if number else 1}}}"

    def substitution(self) -> str:
        self.at += 1
        sign = self.text[self.at]
        if sign in _STANDARD:
            self.at += 1
            return _STANDARD[sign]
        if sign == "t":
            self.at += 1
            return f"std::{self.component('')}"
        number = self.take(_SEQUENCE)[1]
        index = int(number, 36) + 1 if number else 0
        if index >= len(self.seen):
            raise _Cut
        return self.seen[index]

    def with_arguments(self, name: str) -> str:
        """The template argument list that begins here, after `name`."""
        try:
            return f"{name}<{', '.join(self.argument_list())}>"
        except _Cut as cut:
            raise _Cut(f"{name}<{cut.text}") from None

    def argument_list(self) -> list[str]:
        self.at += 1
        self.descend()
        arguments: list[str] = []
        try:
            while self.text[self.at] != "E":
                if self.text[self.at] == "J":
                    arguments += self.argument_list()
                else:
                    arguments.append(self.argument())
        except _Cut as cut:
            raise _Cut(", ".join(filter(None, [*arguments, cut.text]))) from None
        self.at += 1
        return arguments

    def argument(self) -> str:
        sign = self.text[self.at]
        if sign == "L":
            return self.literal()
        if sign == "X":
            self.at += 1
            value = self.expression()
            self.at += 1
            return value
        if sign == "T" and self.text[self.at + 1] in ("n", "t", "y", "p"):
            return self.declared_argument()
        return self.type()

    def declared_argument(self) -> str:
        """C++20 states the parameter before an argument: ``Tn <type> <argument>``, ``Ty <argument>``."""
        typed = self.text[self.at : self.at + 2] == "Tn"
        self.at += 2
        if typed:
            self.type()
        return self.argument()

    def literal(self) -> str:
        self.at += 1
        if self.text[self.at : self.at + 2] == "_Z":
            self.at += 2
            name = self.encoding_name()
            while self.text[self.at] != "E":
                self.type()
            self.at += 1
            return f"&{name}"
        kind = self.type()
        end = self.text.find("E", self.at)
        if end < 0:
            raise _Cut
        value = self.text[self.at : end].replace("n", "-")
        self.at = end + 1
        if kind == "bool":
            return "true" if value == "1" else "false"
        return f"({kind}){value}" if "::" in kind else value

    def expression(self) -> str:
        self.descend()
        sign = self.text[self.at]
        if sign == "L":
            return self.literal()
        pair = self.text[self.at : self.at + 2]
        if sign == "T":
            return self.type()
        self.at += 2
        if pair in _UNARY:
            return self.type() if pair == "st" else self.expression()
        if pair in _BINARY:
            return f"{self.expression()} {pair} {self.expression()}"
        raise _Cut

    def type(self) -> str:
        sign = self.text[self.at]
        if sign in _BUILTIN:
            self.at += 1
            return _BUILTIN[sign]
        if sign in _QUALIFIED:
            self.at += 1
            self.descend()
            return self.remember(self.type() + _QUALIFIED[sign])
        if sign == "S":
            return self.substituted_type()
        if sign == "N":
            return self.remember(self.nested_name())
        if sign.isdigit():
            return self.remember(self.unscoped_name())
        return self.rare_type(sign)

    def remember(self, text: str) -> str:
        self.seen.append(text)
        return text

    def substituted_type(self) -> str:
        standard = self.text[self.at : self.at + 2] == "St"
        name = self.substitution()
        if self.text[self.at] == "I":
            if standard:
                self.seen.append(name)
            return self.remember(self.with_arguments(name))
        return self.remember(name) if standard else name

    def rare_type(self, sign: str) -> str:
        self.descend()
        if sign == "Z":
            return self.remember(self.local_name())
        if sign == "T":
            self.at += 1
            name = f"T{self.take(_SEQUENCE)[1]}"
            self.seen.append(name)
            return self.remember(self.with_arguments(name)) if self.text[self.at] == "I" else name
        if sign == "F":
            return self.function_type()
        if sign == "C":
            self.at += 1
            return self.remember(f"complex<{self.type()}>")
        if sign == "A":
            self.at += 1
            bound = self.take(_SEQUENCE)[1]
            return self.remember(f"{self.type()} [{bound}]")
        if sign == "U":
            self.at += 1
            self.source_name()
            return self.remember(self.type())
        if sign == "D":
            return self.extended_type()
        raise _Cut

    def function_type(self) -> str:
        self.at += 1
        types = []
        while self.text[self.at] != "E":
            types.append(self.type())
        self.at += 1
        return self.remember(f"{types[0]} ({', '.join(types[1:])})" if types else "()")

    def extended_type(self) -> str:
        """``D...``: half and small floats, bit-precise integers, vectors, nullptr."""
        pair = self.text[self.at : self.at + 2]
        self.at += 2
        if pair == "DF":
            bits = self.take(_NUMBER)[0]
            suffix = self.text[self.at]
            self.at += 1
            return "__bf16" if suffix == "b" else f"_Float{bits}"
        if pair in ("DB", "DU"):
            bits = self.take(_NUMBER)[0]
            self.at += 1
            return f"_BitInt({bits})"
        if pair == "Dv":
            count = self.take(_SEQUENCE)[1]
            return self.remember(f"{self.type()} __vector({count})")
        if pair == "Dp":
            return self.type()
        if pair in ("Dn", "Dh", "Da", "Dc", "Di", "Ds", "Du"):
            return {"Dn": "std::nullptr_t", "Dh": "half"}.get(pair, "auto")
        raise _Cut
