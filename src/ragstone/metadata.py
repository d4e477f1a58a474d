"""Metadata: what may stand beside a text, and the check at the edge.

Metadata is flat. A value is a string, a whole number, a float, a truth value, an
aware datetime, or a list of values of one of these types. A dotted name is simply a
key that contains dots.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import TypeAlias, cast

from ragstone.errors import InvalidMetadata

Scalar: TypeAlias = str | int | float | bool | datetime
MetadataValue: TypeAlias = Scalar | tuple[Scalar, ...]
Metadata: TypeAlias = Mapping[str, MetadataValue]

MAX_KEYS = 200
MAX_VALUE_LENGTH = 32_768


def checked(metadata: Mapping[str, object]) -> dict[str, MetadataValue]:
    """A copy of `metadata` in which every value can be stored, filtered and sent as JSON.

    Lists become tuples, datetimes become UTC, NUL characters are dropped from text.
    `None` values are left out: a key without a value is a key that is not there.

    Raises:
        InvalidMetadata: a blank key, a nested or mixed list, NaN or infinity, a naive
            datetime, a value of another type, or too much of anything. The error names
            the key.
    """
    if len(metadata) > MAX_KEYS:
        raise InvalidMetadata("core.metadata_too_many", count=len(metadata), limit=MAX_KEYS)
    result: dict[str, MetadataValue] = {}
    for key, value in metadata.items():
        if not isinstance(key, str) or not key.strip() or "\x00" in key:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidMetadata("core.metadata_key", name=repr(key))
        if value is not None:
            result[key] = _checked_value(key, value)
    return result


def storable(text: str) -> bool:
    """Whether a database can hold `text`: no NUL and no half of a surrogate pair."""
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def holdable(value: Scalar) -> bool:
    """Whether metadata can hold exactly this value, so that a comparison with it can mean something."""
    match value:
        case bool():
            return True
        case int():
            return abs(value) < 2**63
        case float():
            return math.isfinite(value)
        case str():
            return storable(value)
        case datetime():
            return _in_utc(value) is not None


def _in_utc(moment: datetime) -> datetime | None:
    """The moment in UTC; None without a zone, or where UTC is outside the years 1 to 9999."""
    if moment.utcoffset() is None:
        return None
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return None


def _checked_value(key: str, value: object) -> MetadataValue:
    if not isinstance(value, (list, tuple, set, frozenset)):
        return _checked_scalar(key, value)
    items = cast("Collection[object]", value)
    if isinstance(value, (set, frozenset)):
        items = sorted(items, key=repr)
    checked_items = tuple(_checked_scalar(key, item) for item in items)
    if len({_kind(item) for item in checked_items}) > 1:
        raise InvalidMetadata("core.metadata_mixed", name=key)
    return checked_items


def _checked_scalar(key: str, value: object) -> Scalar:
    match value:
        case bool():
            return value
        case int() if abs(value) < 2**63:
            return value
        case float() if math.isfinite(value):
            return value
        case str() if len(value) <= MAX_VALUE_LENGTH:
            return value.replace("\x00", "")
        case str():
            raise InvalidMetadata("core.metadata_long", name=key, length=len(value), limit=MAX_VALUE_LENGTH)
        case datetime() if (moment := _in_utc(value)) is not None:
            return moment
        case _:
            raise InvalidMetadata("core.metadata_value", name=key, value=repr(value)[:80])


def _kind(value: Scalar) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, (int, float)) else type(value).__name__
