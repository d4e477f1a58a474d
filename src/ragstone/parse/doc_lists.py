"""The lists of a DOC file ([MS-DOC] 2.9.131 and 2.9.147): which are numbered, and the next number."""

from __future__ import annotations

import struct

_BULLET, _NO_NUMBER = 23, 255


class ListNumbers:
    """Counts list items as it is asked for their marks.

    `lists` and `overrides` are PlfLst and PlfLfo; the levels of the lists follow PlfLst in
    the table stream `tables`, in which it begins at `start`.
    """

    def __init__(self, lists: bytes, overrides: bytes, tables: bytes, start: int) -> None:
        self._counts: dict[int, dict[int, int]] = {}
        self._levels: dict[int, list[tuple[int, int]]] = {}  # list -> (first number, form) of its levels
        self._list_of: list[int] = []
        try:
            self._read_levels(lists, tables, start + len(lists))
            (count,) = struct.unpack_from("<I", overrides)
            self._list_of = [
                struct.unpack_from("<i", overrides, 4 + 16 * index)[0] for index in range(min(count, 5000))
            ]
        except (struct.error, IndexError):
            return  # a file without lists, or with damaged ones: items get plain marks

    def _read_levels(self, lists: bytes, tables: bytes, place: int) -> None:
        for index in range(struct.unpack_from("<H", lists)[0]):
            head = 2 + 28 * index
            (list_id,) = struct.unpack_from("<i", lists, head)
            levels: list[tuple[int, int]] = []
            for _ in range(1 if lists[head + 26] & 1 else 9):
                first, form = struct.unpack_from("<iB", tables, place)
                levels.append((first, form))
                place += 28 + tables[place + 24] + tables[place + 25]
                place += 2 + 2 * struct.unpack_from("<H", tables, place)[0]
            self._levels[list_id] = levels

    def mark(self, override: int, level: int) -> str:
        """`- ` or `3. ` with its indent; `override` counts from 1."""
        level = min(level, 8)
        list_id = self._list_of[override - 1] if 0 < override <= len(self._list_of) else 0
        levels = self._levels.get(list_id, [])
        first, form = levels[level] if level < len(levels) else (1, _BULLET)
        indent = "  " * level
        if form in (_BULLET, _NO_NUMBER):
            return f"{indent}- "
        counts = self._counts.setdefault(list_id, {})
        counts[level] = counts.get(level, first - 1) + 1
        for deeper in [item for item in counts if item > level]:
            del counts[deeper]
        return f"{indent}{counts[level]}. "
