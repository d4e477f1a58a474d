"""Parsers of other packages, found by their entry points.

A package names them in the group `ragstone.parsers`. Each is an object, or a class that
makes one without arguments, with `accepts(blob) -> bool` and `parse(blob) -> Document`.
It is asked before the parsers of this package, and runs in the same sandboxed process.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

from ragstone.errors import ParserFailed, RagstoneError
from ragstone.types import Blob, Document

GROUP = "ragstone.parsers"


class ParserPlugin(Protocol):
    """What an entry point of the group gives."""

    def accepts(self, blob: Blob) -> bool:
        """Whether `parse` should read it; decides quickly, by content."""
        ...

    def parse(self, blob: Blob) -> Document:
        """The document. Raises a `ContentError` for what is wrong with the file."""
        ...


def parse_by_plugin(blob: Blob) -> Document | None:
    """What the first plugin that accepts `blob` makes of it; None when none does.

    Raises:
        ParserFailed: a plugin cannot be loaded or breaks; names it and what it said.
    """
    for name, plugin in _plugins(blob):
        try:
            if plugin.accepts(blob):
                return plugin.parse(blob)
        except RagstoneError:
            raise
        except Exception as error:
            raise _failed(blob, name, error) from error
    return None


def installed() -> bool:
    """Whether any package brings a parser."""
    return bool(_entries())


def _plugins(blob: Blob) -> Iterator[tuple[str, ParserPlugin]]:
    for entry in _entries():
        try:
            loaded = _load(entry)
        except Exception as error:
            raise _failed(blob, entry.name, error) from error
        yield entry.name, loaded


@cache
def _entries() -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: entry.name))


@cache
def _load(entry: EntryPoint) -> ParserPlugin:
    found = entry.load()
    plugin = found() if inspect.isclass(found) else found
    for method in ("accepts", "parse"):
        if not callable(getattr(plugin, method, None)):
            raise TypeError(f"no method {method}(blob)")
    return cast("ParserPlugin", plugin)


def _failed(blob: Blob, plugin: str, error: Exception) -> ParserFailed:
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return ParserFailed("parse.plugin", name=blob.name, plugin=plugin, reason=reason)
