"""Values as PostgreSQL's JSON and every client can hold them (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def plain_text(text: str) -> str:
    """`text` with a replacement character for each NUL and each half of a surrogate pair."""
    if text.isascii() and "\0" not in text:
        return text
    clean = text.replace("\0", REPLACEMENT)
    try:
        clean.encode()
    except UnicodeEncodeError:
        # Halves that stand side by side are the character they were meant to be.
        return clean.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return clean


def plain(value: object) -> object:
    """`value` of mappings, sequences, texts, numbers and None; NaN is None, what else there is its text."""
    match value:
        case str():
            return plain_text(value)
        case bool() | int() | None:
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            items = cast("Mapping[object, object]", value)
            return {plain_text(str(name)): plain(item) for name, item in items.items()}
        case Sequence() if not isinstance(value, (bytes, bytearray)):
            return [plain(item) for item in cast("Sequence[object]", value)]
        case _:
            return plain_text(str(value))
