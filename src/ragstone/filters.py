"""Metadata filters: text to a tree, and what the tree means (pure).

    filter   := clause ("and" clause)*
    clause   := key "==" value
    key      := identifier with dots, or quoted
    value    := quoted text, number, true, false

Two-valued logic: a row without the key does not satisfy `==`. Numbers compare as
numbers (1 == 1.0), a truth value is never a number, a number is never text. On a list
the comparison holds if any element satisfies it. Text compares by code point, so case
and accents count.

Quoted text stands in single or double quotes; a backslash escapes the quote, itself,
and makes `\\n`, `\\r` and `\\t`. Keywords are read in any case. A key that is one of
the words `and or not in nin is null true false` must be quoted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from ragstone.errors import InvalidFilter
from ragstone.metadata import Metadata, Scalar

MAX_FILTER_LENGTH = 4_000
MAX_CLAUSES = 200
MAX_DEPTH = 250
MAX_KEY_LENGTH = 512


@dataclass(frozen=True, slots=True)
class Equal:
    key: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class And:
    left: Filter
    right: Filter


Filter: TypeAlias = Equal | And


def both(left: Filter | None, right: Filter | None) -> Filter | None:
    """The filter that holds where both hold; None stands for no restriction."""
    if left is None or right is None:
        return left if right is None else right
    return And(left, right)


def parse(text: str) -> Filter:
    """The tree that `text` describes.

    Raises:
        InvalidFilter: blank, over 4,000 characters or 200 clauses, or not of the
            language above. The error says the column (from 1) and what was expected.
    """
    if len(text) > MAX_FILTER_LENGTH:
        raise InvalidFilter("filter.too_long", length=len(text), limit=MAX_FILTER_LENGTH)
    if not text.strip():
        raise InvalidFilter("filter.blank")
    return checked_filter(_Parser(list(_tokens(text))).filter())


def checked_filter(filter: Filter) -> Filter:
    """`filter` if it is small enough to be evaluated anywhere; else `InvalidFilter`.

    Trees built in code meet the same limits as those read from text: 200 clauses, a
    depth of 250, keys of 512 characters.
    """
    clauses = 0
    pending: list[tuple[Filter, int]] = [(filter, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidFilter("filter.too_deep", limit=MAX_DEPTH)
        match node:
            case And(left, right):
                pending += [(right, depth + 1), (left, depth + 1)]
            case Equal(key, _):
                clauses += 1
                if len(key) > MAX_KEY_LENGTH:
                    raise InvalidFilter("filter.key_too_long", length=len(key), limit=MAX_KEY_LENGTH)
        if clauses > MAX_CLAUSES:
            raise InvalidFilter("filter.too_many", limit=MAX_CLAUSES)
    return filter


def matches(filter: Filter, metadata: Metadata) -> bool:
    """Whether a row with this metadata satisfies the filter."""
    match filter:
        case Equal(key, value):
            held = metadata.get(key)
            if held is None:
                return False
            items = held if isinstance(held, tuple) else (held,)
            return any(_equal(item, value) for item in items)
        case And(left, right):
            return matches(left, metadata) and matches(right, metadata)


def kind(value: Scalar) -> Literal["bool", "number", "text", "datetime"]:
    """The type two values must share to be compared at all."""
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "text"
        case datetime():
            return "datetime"


def _equal(left: Scalar, right: Scalar) -> bool:
    return kind(left) == kind(right) and left == right


# --- reading -----------------------------------------------------------------------

_RESERVED = frozenset({"and", "or", "not", "in", "nin", "is", "null", "true", "false"})
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII)
_WORD = re.compile(r"[^\W\d][\w-]*(?:\.[\w-]+)*")
_SPACE = re.compile(r"\s+")

_Type: TypeAlias = Literal["word", "text", "number", "==", "end"]


@dataclass(frozen=True, slots=True)
class _Token:
    type: _Type
    column: int
    source: str
    value: str | int | float = ""

    @property
    def keyword(self) -> str:
        """The reserved word this is, in lower case, or an empty string."""
        word = self.source.lower() if self.type == "word" else ""
        return word if word in _RESERVED else ""


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
    if text.startswith("==", at):
        return _Token("==", column, "==")
    if word := _WORD.match(text, at):
        return _Token("word", column, word[0], word[0])
    if number := _NUMBER.match(text, at):
        return _Token("number", column, number[0], _number(number[0], column))
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
    value = int(source) if source.lstrip("+-").isdigit() else float(source)
    if (isinstance(value, int) and abs(value) >= 2**63) or not math.isfinite(value):
        raise InvalidFilter("filter.number", column=column, found=_shown(source))
    return value


class _Parser:
    """Reads tokens by recursive descent, one method a rule of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def filter(self) -> Filter:
        result = self._clause()
        while self._peek.keyword == "and":
            self._next()
            result = And(result, self._clause())
        if self._peek.type != "end":
            raise _expected("filter.expected_and", self._peek)
        return result

    def _clause(self) -> Filter:
        key = self._next()
        if key.type not in ("word", "text") or key.keyword:
            raise _expected("filter.expected_key", key)
        operator = self._next()
        if operator.type != "==":
            raise _expected("filter.expected_operator", operator)
        return Equal(str(key.value), self._scalar())

    def _scalar(self) -> Scalar:
        token = self._next()
        if token.keyword in ("true", "false"):
            return token.keyword == "true"
        if token.type not in ("text", "number"):
            raise _expected("filter.expected_value", token)
        return token.value

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
