"""The text of a filter to its tree (pure).

    filter  := all ("or" all)*
    all     := clause ("and" clause)*
    clause  := "not" clause | "(" filter ")" | key test
    test    := ("==" | "!=" | "<" | "<=" | ">" | ">=") value
             | ["not"] "in" list | "nin" list | "is" ["not"] "null"
    list    := "[" [value ("," value)*] "]"
    key     := identifier with dots, or quoted
    value   := quoted text, number, true, false, 2024-05-31, 2024-05-31T08:30:00+08:00

`&&` and `||` are `and` and `or`. `!=` is exactly `not ... ==`, `not in` exactly
`not ... in`, `is null` exactly "the row has no such key". Chains lean to the left.

Quoted text stands in single or double quotes; a backslash escapes the quote, itself,
and makes `\\n`, `\\r` and `\\t`. Quoted text is always text, never a time. A day is its
first moment in UTC; a time of day needs its zone (`Z` or `+08:00`). Keywords are read in any
case. A key that is one of the words `and or not in nin is null true false` must be quoted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from ragstone.errors import InvalidFilter
from ragstone.filters.tree import (
    MAX_CLAUSES,
    And,
    Compare,
    Equal,
    Filter,
    In,
    Not,
    Or,
    Present,
    checked_filter,
)
from ragstone.metadata import Scalar, holdable

MAX_FILTER_LENGTH = 4_000
MAX_NESTING = 40
"""Parentheses and `not` within each other: with 200 clauses the tree stays within its depth."""


def parse(text: str) -> Filter:
    """The tree that `text` describes.

    Raises:
        InvalidFilter: blank, over 4,000 characters, 200 clauses or 40 levels, or not of the
            language above. The error says the column (from 1) and what was expected.
    """
    if len(text) > MAX_FILTER_LENGTH:
        raise InvalidFilter("filter.too_long", length=len(text), limit=MAX_FILTER_LENGTH)
    if not text.strip():
        raise InvalidFilter("filter.blank")
    return checked_filter(_Parser(list(_tokens(text))).filter())


_RESERVED = frozenset({"and", "or", "not", "in", "nin", "is", "null", "true", "false"})
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_SIGN = re.compile(r"==|!=|<=|>=|<|>|&&|\|\||[()\[\],]")
# 5L is a whole number as Java writes it.
_NUMBER = re.compile(r"[+-]?(?:\d+[lL]|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt][\d:.]*(?:[Zz]|[+-][\d:]+)?)?(?![\w.:+-])", re.ASCII)
_WORD = re.compile(r"[^\W\d][\w-]*(?:\.[\w-]+)*")
_SPACE = re.compile(r"\s+")

_Type: TypeAlias = Literal["word", "text", "value", "sign", "end"]


@dataclass(frozen=True, slots=True)
class _Token:
    type: _Type
    column: int
    source: str
    value: Scalar = ""

    @property
    def keyword(self) -> str:
        """The reserved word or sign this is, in lower case, or an empty string."""
        match self.type:
            case "word":
                word = self.source.lower()
                return word if word in _RESERVED else ""
            case "sign":
                return {"&&": "and", "||": "or"}.get(self.source, self.source)
            case _:
                return ""


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        if space := _SPACE.match(text, at):
            at = space.end()
            continue
        token = _token(text, at)
        yield token
        at += len(token.source)
    yield _Token("end", len(text) + 1, "")


def _token(text: str, at: int) -> _Token:
    column = at + 1
    if text[at] in "'\"":
        return _quoted(text, at)
    if sign := _SIGN.match(text, at):
        return _Token("sign", column, sign[0])
    if word := _WORD.match(text, at):
        return _Token("word", column, word[0], word[0])
    if time := _TIME.match(text, at):
        return _Token("value", column, time[0], _time(time[0], column))
    if number := _NUMBER.match(text, at):
        return _Token("value", column, number[0], _number(number[0], column))
    raise InvalidFilter("filter.unexpected", column=column, found=_shown(text[at:]))


def _quoted(text: str, at: int) -> _Token:
    quote, parts, here = text[at], list[str](), at + 1
    while here < len(text) and text[here] != quote:
        if text[here] == "\\":
            here += 1
            escaped = text[here : here + 1]
            if escaped and escaped not in _ESCAPES:
                raise InvalidFilter("filter.escape", column=here, found="\\" + escaped)
            parts.append(_ESCAPES.get(escaped, ""))
        else:
            parts.append(text[here])
        here += 1
    if here >= len(text):
        raise InvalidFilter("filter.unclosed", column=at + 1, quote=quote)
    return _Token("text", at + 1, text[at : here + 1], "".join(parts))


def _number(source: str, column: int) -> int | float:
    digits = source.rstrip("lL")
    value = int(digits) if digits.lstrip("+-").isdigit() else float(digits)
    if (isinstance(value, int) and abs(value) >= 2**63) or not math.isfinite(value):
        raise InvalidFilter("filter.number", column=column, found=_shown(source))
    return value


def _time(source: str, column: int) -> datetime:
    try:
        moment = datetime.fromisoformat(source.upper())
    except ValueError:
        raise InvalidFilter("filter.time", column=column, found=_shown(source)) from None
    if len(source) == len("2024-05-31"):
        moment = moment.replace(tzinfo=UTC)
    if not holdable(moment):
        raise InvalidFilter("filter.time", column=column, found=_shown(source))
    return moment.astimezone(UTC)


class _Parser:
    """Reads tokens by recursive descent, one method a rule of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._level = self._clauses = 0

    def filter(self) -> Filter:
        result = self._any()
        if self._peek.type != "end":
            raise _expected("filter.expected_and", self._peek)
        return result

    def _any(self) -> Filter:
        result = self._all()
        while self._takes("or"):
            result = Or(result, self._all())
        return result

    def _all(self) -> Filter:
        result = self._clause()
        while self._takes("and"):
            result = And(result, self._clause())
        return result

    def _clause(self) -> Filter:
        token = self._peek
        if token.keyword not in ("not", "("):
            return self._test()
        self._level += 1
        if self._level > MAX_NESTING:
            raise InvalidFilter("filter.nested", column=token.column, limit=MAX_NESTING)
        if self._takes("not"):
            result: Filter = Not(self._clause())
        else:
            self._next()
            result = self._any()
            if not self._takes(")"):
                raise _expected("filter.expected_close", self._peek)
        self._level -= 1
        return result

    def _test(self) -> Filter:
        token = self._next()
        if token.type not in ("word", "text") or token.keyword:
            raise _expected("filter.expected_key", token)
        self._clauses += 1
        if self._clauses > MAX_CLAUSES:
            raise InvalidFilter("filter.too_many_at", column=token.column, limit=MAX_CLAUSES)
        key, operator = str(token.value), self._next()
        match operator.keyword:
            case "==":
                return Equal(key, self._value())
            case "!=":
                return Not(Equal(key, self._value()))
            case "<" | "<=" | ">" | ">=":
                return Compare(key, operator.keyword, self._value())
            case "in":
                return In(key, self._list())
            case "nin":
                return Not(In(key, self._list()))
            case "not" if self._takes("in"):
                return Not(In(key, self._list()))
            case "is":
                return self._null(key)
            case _:
                raise _expected("filter.expected_operator", operator)

    def _null(self, key: str) -> Filter:
        present = self._takes("not")
        if not self._takes("null"):
            raise _expected("filter.expected_null", self._peek)
        return Present(key) if present else Not(Present(key))

    def _list(self) -> tuple[Scalar, ...]:
        if not self._takes("["):
            raise _expected("filter.expected_list", self._peek)
        values: list[Scalar] = []
        if self._takes("]"):
            return ()
        while True:
            values.append(self._value())
            if self._takes("]"):
                return tuple(values)
            if not self._takes(","):
                raise _expected("filter.expected_comma", self._peek)

    def _value(self) -> Scalar:
        token = self._next()
        if token.keyword in ("true", "false"):
            return token.keyword == "true"
        if token.type not in ("text", "value"):
            raise _expected("filter.expected_value", token)
        return token.value

    def _takes(self, keyword: str) -> bool:
        """Step over the next token if it is this keyword."""
        found = self._peek.keyword == keyword
        if found:
            self._next()
        return found

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._peek
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token


def _expected(key: str, token: _Token) -> InvalidFilter:
    if token.type == "end":
        return InvalidFilter("filter.ended", column=token.column)
    return InvalidFilter(key, column=token.column, found=_shown(token.source))


def _shown(source: str) -> str:
    return source if len(source) <= 20 else source[:20] + "…"
