"""Plain text and Markdown. Text stays as it was written; Markdown keeps its marks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from typing import cast

from ragstone.errors import InvalidMetadata
from ragstone.metadata import MetadataValue, checked
from ragstone.parse.decode import Decoded
from ragstone.parse.outline import document, markdown_headings
from ragstone.types import Blob, Document, Remark


def parse_text(blob: Blob, decoded: Decoded) -> Document:
    """The text as it is; no headings, since a line that looks like one may be anything."""
    return document(blob, decoded.text.strip("\n"), media_type="text/plain", warnings=damage(blob, decoded))


def parse_markdown(blob: Blob, decoded: Decoded) -> Document:
    """Markdown without its front matter, which becomes metadata."""
    front, text = front_matter(decoded.text)
    text = text.strip("\n")
    headings = markdown_headings(text)
    title = front.pop("title", "")
    if not isinstance(title, str) or not title:
        title = next((heading.title for heading in headings if heading.level == 1), "")
    return document(
        blob,
        text,
        media_type="text/markdown",
        title=title,
        headings=headings,
        metadata=front,
        warnings=damage(blob, decoded),
    )


def damage(blob: Blob, decoded: Decoded) -> tuple[Remark, ...]:
    """A warning when characters were lost in decoding."""
    if not decoded.damaged:
        return ()
    values = {"name": blob.name, "count": decoded.damaged, "encoding": decoded.encoding}
    return (Remark(key="parse.damaged", values=values),)


_FRONT = re.compile(
    r"\A\s*(?:---[ \t]*\n(?P<yaml>.*?)\n(?:---|\.\.\.)|\+\+\+[ \t]*\n(?P<toml>.*?)\n\+\+\+)[ \t]*(?:\n|\Z)",
    re.DOTALL,
)


def front_matter(text: str) -> tuple[dict[str, MetadataValue], str]:
    """The metadata in front of Markdown (YAML between `---`, TOML between `+++`), and the text after it.

    Of YAML the flat part is read: scalars and lists of scalars. What is nested is left out.
    """
    match = _FRONT.match(text)
    if match is None:
        return {}, text
    if (toml := match["toml"]) is not None:
        try:
            found: Mapping[str, object] = tomllib.loads(toml)
        except tomllib.TOMLDecodeError:
            return {}, text
    else:
        found = _flat_yaml(match["yaml"])
        if not found:  # a rule, some text and another rule
            return {}, text
    return _storable(found), text[match.end() :]


def _storable(found: Mapping[str, object]) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for key, value in found.items():
        if isinstance(value, date) and not (isinstance(value, datetime) and value.tzinfo):
            value = value.isoformat()
        try:
            metadata.update(checked({key: value}))
        except InvalidMetadata:
            continue
    return metadata


_PAIR = re.compile(r"([^\s:#\-\[{\"'][^:\n]*?|\"[^\"\n]+\"|'[^'\n]+'):(?:[ \t]+(.*))?$")


def _flat_yaml(text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    key = ""
    for line in text.split("\n"):
        if pair := _PAIR.match(line.rstrip()):
            key, value = pair[1].strip("\"'"), (pair[2] or "").strip()
            found[key] = _yaml_value(value) if value else None
        elif item := re.match(r"\s*-[ \t]+(.*)$", line):
            listed = found.get(key)
            if listed is None and key:
                listed = found[key] = list[object]()
            if isinstance(listed, list):
                cast("list[object]", listed).append(_yaml_scalar(item[1].strip()))
    return {name: value for name, value in found.items() if value is not None}


def _yaml_value(value: str) -> object:
    if value.startswith("[") and value.endswith("]"):
        return [_yaml_scalar(item.strip()) for item in value[1:-1].split(",") if item.strip()]
    return None if value in ("|", ">", "|-", ">-", "{}", "[]", "~", "null") else _yaml_scalar(value)


def _yaml_scalar(value: str) -> str | int | float | bool:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    value = re.sub(r"\s+#.*$", "", value)
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if re.fullmatch(r"[+-]?(0|[1-9]\d{0,17})", value):
        return int(value)
    return float(value) if re.fullmatch(r"[+-]?\d+\.\d+", value) else value
