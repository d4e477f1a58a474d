"""JSON, JSON Lines and notebooks as text that can be read and searched, every value with its keys.

A record becomes a block of `key: value` lines under the path that leads to it
(`shop > items > 2`), so that a block that is found alone still says what it is about.
Lists of small, alike records become tables. Numbers stay as they are written; a key that
stands twice keeps both values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias, cast

from ragstone.parse.decode import Decoded, tidy_characters
from ragstone.parse.outline import Outline, document, markdown_headings
from ragstone.parse.tables import MAX_COLUMNS, write_table
from ragstone.parse.text import damage
from ragstone.types import Blob, Document, Remark

Pairs: TypeAlias = tuple[tuple[str, "Tree"], ...]
Tree: TypeAlias = "str | Pairs | list[Tree]"
"""Scalars as text; an object as a tuple of pairs; an array as a list."""

NAMES = frozenset({"json", "jsonl", "ndjson", "geojson", "ipynb", "jsonld", "har", "webmanifest"})
MAX_DEPTH = 200
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


def parse_json(blob: Blob, decoded: Decoded, *, named: bool) -> Document | None:
    """The document, or None where the text is no JSON. `named`: its file name says that it is.

    Of JSON Lines that are named so, lines that are no JSON stay as they are, with a remark.
    """
    text = decoded.text.strip()
    if text[:1] not in ("{", "[") and not named:
        return None
    warnings = list(damage(blob, decoded))
    outline = Outline()
    tree = load(text)
    if tree is not None:
        if (cells := _notebook_cells(tree)) is not None:
            return _notebook(blob, cells)
        write_tree(outline, tree)
        media_type = "application/json"
    else:
        records, broken = _lines(text)
        if not records or (broken and (not named or len(broken) > len(records))):
            return None
        write_tree(outline, records)
        for line in broken:
            outline.block(line)
        if broken:
            warnings.append(Remark(key="parse.json_lines", values={"name": blob.name, "count": len(broken)}))
        media_type = "application/x-ndjson"
    return document(blob, outline.text, media_type=media_type, warnings=warnings)


def load(text: str) -> Tree | None:
    """JSON as a tree with its numbers as written; None where it is none, or nests too deeply."""
    try:
        value: object = json.loads(
            text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=tuple
        )
        return _tidied(value, 0)
    except (ValueError, RecursionError):
        return None


def _tidied(value: object, depth: int) -> Tree:
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, str):
        return tidy_characters(value.encode("utf-8", "replace").decode("utf-8"))
    if isinstance(value, tuple):  # an object; the hook gives an empty one as ()
        pairs = cast("tuple[tuple[str, object], ...]", value)
        return tuple((tidy_characters(key), _tidied(item, depth + 1)) for key, item in pairs)
    if isinstance(value, list):
        return [_tidied(item, depth + 1) for item in cast("list[object]", value)]
    return str(value).lower() if isinstance(value, bool) else ""


def _lines(text: str) -> tuple[list[Tree], list[str]]:
    records: list[Tree] = []
    broken: list[str] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        tree = load(line) if line.lstrip()[:1] in ("{", "[") else None
        if tree is None:
            broken.append(line)
        else:
            records.append(tree)
    return records, broken


def write_tree(outline: Outline, tree: Tree, path: tuple[str, ...] = ()) -> None:
    """Blocks of a tree, in its order; nests at most `MAX_DEPTH` deep."""
    if isinstance(tree, str):
        outline.block(f"{_path(path)}: {tree}" if path else tree)
    elif isinstance(tree, tuple):
        _write_record(outline, tree, path)
    else:
        _write_list(outline, tree, path)


def _write_record(outline: Outline, record: Pairs, path: tuple[str, ...]) -> None:
    """Its plain values first, then what is nested; in order where a key comes twice."""
    parts = [(key, value, _flat(value)) for key, value in record]
    if len(dict(record)) == len(record):
        parts.sort(key=lambda part: part[2] is None)
    lines: list[str] = []
    for key, value, flat in parts:
        if flat is None:
            _write_lines(outline, lines, path)
            lines = []
            write_tree(outline, value, (*path, key))
        elif flat:
            lines.append(f"{key}: {flat}")
    _write_lines(outline, lines, path)


def _write_lines(outline: Outline, lines: list[str], path: tuple[str, ...]) -> None:
    if lines:
        outline.block("\n".join([_path(path), *lines] if path else lines))


def _write_list(outline: Outline, items: Sequence[Tree], path: tuple[str, ...]) -> None:
    if (columns := _columns(items)) is not None:
        if path:
            outline.block(_path(path))
        rows = [[dict(cast("Pairs", item)).get(name, "") for name in columns] for item in items]
        write_table(outline, columns, cast("list[list[str]]", rows))
        return
    if all(isinstance(item, str) for item in items):  # long ones; short ones stand beside their key
        _write_lines(outline, [f"- {item}" for item in items], path)
        return
    for number, item in enumerate(items, 1):
        write_tree(outline, item, (*path, str(number)))


def _columns(items: Sequence[Tree]) -> list[str] | None:
    """The names of a table that `items` make: records of short values with much the same keys."""
    if len(items) < 2:
        return None
    names: dict[str, None] = {}
    filled = 0
    for item in items:
        if not isinstance(item, tuple) or len(dict(item)) != len(item):
            return None
        for key, value in item:
            if not isinstance(value, str) or len(value) > 200:
                return None
            names[key] = None
        filled += len(item)
        if len(names) > MAX_COLUMNS:
            return None
    return list(names) if names and filled * 2 >= len(names) * len(items) else None


def _flat(value: Tree) -> str | None:
    """A value that fits on the line of its key: a scalar, or a short list of scalars."""
    if isinstance(value, str):
        return value.strip("\n")
    if not value:
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        items = cast("list[str]", value)
        short = all(len(item) <= 100 and not item.rstrip().endswith(_SENTENCE_ENDS) for item in items)
        return ", ".join(items) if short and sum(map(len, items)) <= 500 else None
    return None


def _path(path: tuple[str, ...]) -> str:
    return " > ".join(" ".join(part.split())[:200] for part in path)


# --- notebooks ---------------------------------------------------------------------


def _notebook_cells(tree: Tree) -> list[Tree] | None:
    if not isinstance(tree, tuple):
        return None
    fields = dict(tree)
    cells = fields.get("cells")
    return cells if isinstance(cells, list) and "nbformat" in fields else None


def _notebook(blob: Blob, cells: list[Tree]) -> Document:
    """The cells of a Jupyter notebook: prose as Markdown, code and its printed output in fences."""
    outline = Outline()
    for cell in cells:
        fields = dict(cell) if isinstance(cell, tuple) else {}
        source = _joined(fields.get("source", ""))
        if fields.get("cell_type") == "code":
            outline.block(f"```\n{source}\n```" if source.strip() else "")
            for output in cast("list[Tree]", fields.get("outputs") or []):
                shown = _output(output)
                outline.block(f"```\n{shown}\n```" if shown.strip() else "")
        else:
            outline.block(source)
    headings = markdown_headings(outline.text)
    title = next((heading.title for heading in headings if heading.level == 1), "")
    return document(blob, outline.text, media_type="application/x-ipynb+json", title=title, headings=headings)


def _output(output: Tree) -> str:
    fields = dict(output) if isinstance(output, tuple) else {}
    if "ename" in fields:
        return f"{_joined(fields['ename'])}: {_joined(fields.get('evalue', ''))}"
    data = fields.get("data")
    shown = dict(data).get("text/plain", "") if isinstance(data, tuple) else fields.get("text", "")
    return _joined(shown)[:20_000]


def _joined(source: Tree) -> str:
    parts = source if isinstance(source, list) else [source]
    return "".join(part for part in parts if isinstance(part, str))
