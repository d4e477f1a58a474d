"""Metadata: what may stand beside a text, and the check at the edge.

Metadata is flat. A value is a string, a whole number, a float, a truth value, an
aware datetime, or a list of values of one of these types. A dotted name is simply a
key that contains dots.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from typing import NoReturn, TypeAlias, TypeVar, cast

from ragstone.errors import InvalidMetadata, InvalidQuery, ReadOnly

V = TypeVar("V")

Scalar: TypeAlias = str | int | float | bool | datetime
MetadataValue: TypeAlias = Scalar | tuple[Scalar, ...]
Metadata: TypeAlias = Mapping[str, MetadataValue]

MAX_KEYS = 200
MAX_VALUE_LENGTH = 32_768


class Fixed(dict[str, V]):
    """A dict that cannot be changed: the value that holds it may be shared among tasks, and cached."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ReadOnly("core.read_only")

    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Fixed[V]], tuple[dict[str, V]]]:
        return Fixed, (dict(self),)

    def __deepcopy__(self, memo: dict[int, object]) -> Fixed[V]:
        return Fixed(deepcopy(dict(self), memo))

    def __repr__(self) -> str:
        return repr(dict(self))


def checked(metadata: Mapping[str, object]) -> Fixed[MetadataValue]:
    """A copy of `metadata` in which every value can be stored, filtered and sent as JSON.

    It cannot be changed. Lists become tuples, datetimes become UTC, NUL characters are dropped from text.
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
    return Fixed(result)


MAX_TOP_K = 1_000


def digest(*parts: str | bytes, size: int = 12) -> str:
    """A stable name for content: `size` bytes of BLAKE2b over the parts, as hex."""
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def checked_top_k(top_k: object, limit: int = MAX_TOP_K) -> int:
    """`top_k` if it is a whole number from 1 to `limit`; else `InvalidQuery`."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= limit:
        raise InvalidQuery("core.top_k", value=top_k, limit=limit)
    return top_k


def checked_texts(texts: Sequence[str], name: str = "texts") -> Sequence[str]:
    """`texts` if it is a list of texts; one text alone is a list of its letters, which nobody means."""
    if isinstance(texts, (str, bytes)) or not all(isinstance(text, str) for text in texts):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidQuery("core.list_of_texts", name=name, value=repr(texts)[:80])
    return texts


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
