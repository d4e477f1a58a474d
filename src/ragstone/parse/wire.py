"""How the parser pool and its workers talk: frames of a JSON header and a body of bytes.

No pickle: what comes back was made by a process that has just read a hostile file, so it
is data with a checked shape and nothing that runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, BinaryIO, TypeAlias, cast

from ragstone import errors
from ragstone.errors import ContentError, MissingExtra, RagstoneError
from ragstone.parse.outline import PARSER_REVISION
from ragstone.types import (
    MEMBER_MARK,
    Blob,
    Box,
    Document,
    HeadingSpan,
    LoadFailure,
    PageSpan,
    Remark,
    RowSpan,
    digest,
)

Header: TypeAlias = dict[str, Any]

MAX_HEADER = 64 * 1024 * 1024


class Broken(Exception):
    """The other side sent what is no frame."""


class Ended(Broken):
    """The other side closed the pipe."""


def send(stream: BinaryIO, header: Mapping[str, object], body: bytes = b"") -> None:
    """Write one frame: 4 bytes length, the JSON header (which says the body's length), the body."""
    encoded = json.dumps({**header, "body": len(body)}).encode("ascii")
    _write(stream, len(encoded).to_bytes(4, "big") + encoded)
    _write(stream, body)


def receive(stream: BinaryIO, *, max_body: int) -> tuple[Header, bytes]:
    """Read one frame.

    Raises:
        Broken: end of stream, a header that is no JSON object, or one that is too long.
    """
    length = int.from_bytes(_read(stream, 4), "big")
    if length > MAX_HEADER:
        raise Broken("the header is too long")
    try:
        header = json.loads(_read(stream, length))
        size = header["body"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise Broken("the header is no JSON object") from error
    if not isinstance(header, dict) or not isinstance(size, int) or not 0 <= size <= max_body:
        raise Broken("the answer is too long")
    return cast("Header", header), _read(stream, size)


def _write(stream: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[stream.write(view) or 0 :]


def _read(stream: BinaryIO, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = cast("Callable[[memoryview], int | None]", stream.readinto)(view)  # type: ignore[attr-defined]
        if not count:
            raise Ended("the stream ended")
        view = view[count:]
    return bytes(data)


# --- documents ---------------------------------------------------------------------


def describe(document: Document) -> Header:
    """Everything of a parsed document but its text, uri and revision, as JSON."""
    return {
        "title": document.title,
        "media_type": document.media_type,
        "pages": [[span.number, span.start, span.end] for span in document.pages],
        "headings": [[list(span.path), span.start, span.end] for span in document.headings],
        "metadata": {key: _plain(value) for key, value in document.metadata.items()},
        "warnings": [[remark.key, dict(remark.values)] for remark in document.warnings],
        "rows": [[span.first, span.last, span.start, span.end] for span in document.rows],
        "boxes": [[box.page, box.start, box.end, box.x0, box.y0, box.x1, box.y1] for box in document.boxes],
    }


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    return [_plain(item) for item in cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def restore(blob: Blob, header: Header, body: bytes) -> Document:
    """The document that `describe` described, of `blob`.

    Raises:
        Broken: it does not have the shape of one.
    """
    try:
        text = body.decode("utf-8")
        pages = tuple(PageSpan(number=_int(n), start=_int(s), end=_int(e)) for n, s, e in header["pages"])
        headings = tuple(
            HeadingSpan(path=tuple(map(_str, path)), start=_int(start), end=_int(end))
            for path, start, end in header["headings"]
        )
        boxes = tuple(map(_box, header["boxes"]))
        rows = tuple(
            RowSpan(first=_int(first), last=_int(last), start=_int(start), end=_int(end))
            for first, last, start, end in header["rows"]
        )
        if any(not 0 <= span.start <= span.end <= len(text) for span in (*pages, *headings, *boxes, *rows)):
            raise Broken("a span lies outside the text")
        metadata = {_str(key): _value(value) for key, value in header["metadata"].items()}
        return Document(
            text=text,
            uri=blob.uri,
            title=_str(header["title"]),
            media_type=_str(header["media_type"]),
            revision=digest(blob.content_hash, PARSER_REVISION),
            pages=pages,
            headings=headings,
            metadata={**metadata, **blob.metadata},
            warnings=tuple(_remark(key, values) for key, values in header["warnings"]),
            boxes=boxes,
            rows=rows,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RagstoneError) as error:
        raise Broken("the answer is no document") from error


def _box(row: Any) -> Box:
    page, start, end, *corners = row
    x0, y0, x1, y1 = (float(_number(corner)) for corner in corners)
    return Box(page=_int(page), start=_int(start), end=_int(end), x0=x0, y0=y0, x1=x1, y1=y1)


def _number(value: object) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(type(value).__name__)
    return value


def _remark(key: object, values: Mapping[object, object]) -> Remark:
    remark = Remark(
        key=_str(key),
        values={
            _str(name): value if isinstance(value, int) else _str(value) for name, value in values.items()
        },
    )
    remark.text("en")  # KeyError when there is no such message
    return remark


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(type(value).__name__)
    return value


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(type(value).__name__)
    return value


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return datetime.fromisoformat(_str(cast("Header", value)["time"]))
    return [_value(item) for item in cast("list[object]", value)] if isinstance(value, list) else value


# --- members of containers -------------------------------------------------------------


def describe_member(member: Blob | LoadFailure) -> Header:
    """A member of a container, or why it could not be read; its bytes are the body."""
    header: Header = {"uri": member.uri, "name": member.name}
    if isinstance(member, LoadFailure):
        return {**header, "failure": describe_error(member.error)}
    modified = None if member.modified is None else member.modified.isoformat()
    container = str(member.metadata.get("container", ""))
    return {**header, "media_type": member.media_type, "modified": modified, "container": container}


def restore_member(blob: Blob, header: Header, body: bytes) -> Blob | LoadFailure:
    """The member of `blob` that `describe_member` described.

    Raises:
        Broken: it does not have the shape of one, or claims to lie elsewhere.
    """
    try:
        uri, name = _str(header["uri"]), _str(header["name"])
        if not uri.startswith(blob.uri + MEMBER_MARK):
            raise Broken("a member lies outside its container")
        if "failure" in header:
            return LoadFailure(uri=uri, name=name, error=restore_error(header["failure"], name=name))
        modified = header["modified"]
        return Blob(
            uri=uri,
            name=name,
            data=body,
            media_type=_str(header["media_type"]),
            modified=None if modified is None else datetime.fromisoformat(_str(modified)),
            metadata={**blob.metadata, "container": _str(header["container"])},
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Broken("the answer is no member") from error


# --- errors ------------------------------------------------------------------------


def describe_error(error: RagstoneError) -> Header:
    values = {
        name: value if isinstance(value, (str, int, float)) else str(value)
        for name, value in error.values.items()
    }
    return {"error": type(error).__name__, "key": error.key, "values": values}


def restore_error(header: Header, *, name: str) -> RagstoneError:
    """The error that `describe_error` described; `name` is the file's, whatever the worker says.

    Raises:
        Broken: no error that a parser may raise.
    """
    kind = getattr(errors, str(header.get("error")), None)
    if not isinstance(kind, type) or not issubclass(kind, (ContentError, MissingExtra)):
        raise Broken("the answer is no error")
    try:
        values = {str(key): value for key, value in header["values"].items()}
        return kind(_str(header["key"]), **{**values, "name": name})
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise Broken("the answer is no error") from error
