"""Named blocks of SQL, read from .sql files. No other code builds SQL text.

A file holds blocks, each begun by a line such as

    -- name: search_vector

and ended by the next such line or the end of the file. Values are bound (`%(name)s`);
a percent sign that is meant literally is written `%%` in a block that binds values.
Where an integer must stand in the text itself (a dimension, a model id), the block
has a `{placeholder}` for `SQL.format(model_id=Literal(7))`; literal braces in such a
block are doubled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import LiteralString, cast

from psycopg.sql import SQL

_HEADER = re.compile(r"^--[ \t]*name:[ \t]*(\S*)[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--.*$", re.MULTILINE)


class Queries(Mapping[str, SQL]):
    """The blocks of every .sql file in a folder, by name.

    Look names up when a module is imported (`SEARCH = QUERIES["search_vector"]`): a
    name that does not exist then fails at import, not at the first search.
    """

    def __init__(self, blocks: Mapping[str, str]) -> None:
        # The text comes from files of this package, so it is as trustworthy as a literal.
        self._blocks = {name: SQL(cast(LiteralString, text)) for name, text in blocks.items()}

    @classmethod
    def load(cls, folder: Traversable) -> Queries:
        """Read every .sql file of `folder`, such as `files("ragstone.store") / "sql"`.

        Raises ValueError for a file without blocks, SQL before the first block, an
        empty block or a name that stands twice.
        """
        blocks: dict[str, str] = {}
        found = sorted(
            (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
        )
        for file in found:
            for name, text in _split(file.name, file.read_text(encoding="utf-8")):
                if name in blocks:
                    raise ValueError(f"{file.name}: the SQL block {name!r} exists twice")
                blocks[name] = text
        return cls(blocks)

    def __getitem__(self, name: str) -> SQL:
        try:
            return self._blocks[name]
        except KeyError:
            raise KeyError(f"no SQL block {name!r}; there are {', '.join(sorted(self._blocks))}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)


def _split(file: str, text: str) -> Iterator[tuple[str, str]]:
    head, *parts = _HEADER.split(text)
    if _COMMENT.sub("", head).strip():
        raise ValueError(f"{file}: SQL stands before the first `-- name:` line")
    if not parts:
        raise ValueError(f"{file}: no `-- name:` line")
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        # Comment lines leave: a percent sign in one would be read as a placeholder.
        sql = _COMMENT.sub("", body).strip().rstrip(";")
        if not name.isidentifier() or not sql:
            raise ValueError(f"{file}: the SQL block {name!r} has no proper name or is empty")
        yield name, sql
