"""PPT (PowerPoint 97 to 2003, [MS-PPT]): slides in order with titles, text, tables and notes.

Read from its records, since xberg 1.3.9 scatters the cells of tables and puts the notes
of all slides at the end, away from what they explain.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from ragstone.errors import PasswordRequired
from ragstone.parse.decode import tidy_characters
from ragstone.parse.ole import Container
from ragstone.parse.outline import Outline, document, table
from ragstone.types import Blob, Document, PageSpan, Remark

MEDIA_TYPE = "application/vnd.ms-powerpoint"
MAX_DEPTH = 60

_NOTES_ATOM, _LIST, _PERSIST = 1009, 4080, 1011
_HEADER, _CHARS, _BYTES, _STYLES, _STYLES_9, _OUTLINE_REF = 3999, 4000, 4008, 4001, 4012, 3998
_USER_EDIT, _DIRECTORY = 4085, 6002
_GROUP, _SHAPE, _TEXTBOX, _CHILD_ANCHOR, _OPTIONS = 0xF003, 0xF004, 0xF00D, 0xF00F, (0xF00B, 0xF121, 0xF122)
_SLIDE_SETTINGS = 1017
_TITLES = (0, 6)
_TABLE_PROPERTY = 0x039F
# Sizes of what follows the mask of a paragraph's style, in order.
_PARAGRAPH_FIELDS = (
    (0xF, 2), (0x80, 2), (0x10, 2), (0x40, 2), (0x20, 4), (0x800, 2), (0x1000, 2), (0x2000, 2), (0x4000, 2),
    (0x100, 2), (0x400, 2), (0x8000, 2), (0x100000, -1), (0x10000, 2), (0xE0000, 2), (0x200000, 2),
)  # fmt: skip
_TAG_DATA, _HAS_SCHEME = 5003, 0x2000000


@dataclass(slots=True)
class _Record:
    """A record; a container (`version` 15) holds others."""

    kind: int
    version: int
    instance: int
    data: bytes

    def __iter__(self) -> Iterator[_Record]:
        return _records(self.data) if self.version == 15 else iter(())

    def find(self, kind: int) -> _Record | None:
        return next((item for item in self if item.kind == kind), None)

    def walk(self, depth: int = 0) -> Iterator[_Record]:
        for item in self:
            yield item
            if depth < MAX_DEPTH:
                yield from item.walk(depth + 1)


@dataclass(slots=True)
class _Text:
    """Text of one box: its role, paragraphs end with carriage returns."""

    role: int = 4
    text: str = ""
    styles: bytes = b""
    numbered: list[bool] = field(default_factory=list[bool])  # for each run of paragraphs of one style


@dataclass(slots=True)
class _Entry:
    """A slide of the list in the document: where it is, and the texts of its placeholders."""

    persist_id: int
    slide_id: int
    texts: list[_Text] = field(default_factory=list[_Text])


def parse_ppt(blob: Blob, container: Container) -> Document:
    """The text of a presentation.

    Raises:
        PasswordRequired, CorruptContent, NoText
    """
    try:
        return _Reader(blob, container).read()
    except (struct.error, IndexError) as error:
        raise container.corrupt(error or type(error).__name__) from error


class _Reader:
    def __init__(self, blob: Blob, container: Container) -> None:
        self._blob, self._container = blob, container
        self._data = container.read("PowerPoint Document")
        self.outline = Outline()
        self._places, self._document = self._directory()

    def read(self) -> Document:
        main = self._at(self._document)
        if main is None:
            main = next((item for item in _records(self._data) if item.kind == 1000), None)
        if main is None:
            raise self._container.corrupt("no document record")
        slides = self._entries(main, 0)
        notes = self._notes(main)
        pages: list[PageSpan] = []
        hidden: list[str] = []
        for number, entry in enumerate(slides, 1):
            start = self.outline.length
            slide = self._at(entry.persist_id)
            if slide is not None:
                settings = slide.find(_SLIDE_SETTINGS)
                if settings is not None and len(settings.data) > 10 and settings.data[10] & 4:
                    hidden.append(str(number))
                self._slide(slide, entry.texts)
            else:
                self._boxes(entry.texts)
            for line in notes.get(entry.slide_id, []):
                self.outline.block(f"> {line}", gap="\n\n")
            if self.outline.length > start:
                pages.append(PageSpan(number=number, start=start, end=self.outline.length))
        return self._document_of(pages, hidden)

    def _document_of(self, pages: list[PageSpan], hidden: list[str]) -> Document:
        values = {"name": self._blob.name, "slides": ", ".join(hidden)[:200]}
        return document(
            self._blob,
            self.outline.text,
            media_type=MEDIA_TYPE,
            title=next((heading.title for heading in self.outline.headings), ""),
            headings=self.outline.headings,
            pages=pages,
            warnings=[Remark(key="parse.hidden_slides", values=values)] if hidden else [],
        )

    def _directory(self) -> tuple[dict[int, int], int]:
        """Persist id -> place of its record, and the id of the document; the newest save wins."""
        user = self._container.read("Current User")
        place = struct.unpack_from("<I", user, 16)[0] if len(user) >= 20 else 0
        places: dict[int, int] = {}
        main, seen = 0, set[int]()
        while place and place not in seen and place + 8 < len(self._data):
            seen.add(place)
            edit = _record(self._data, place)
            if edit.kind != _USER_EDIT:
                break
            if len(edit.data) >= 32 and struct.unpack_from("<I", edit.data, 28)[0]:
                raise PasswordRequired("parse.password", name=self._blob.name)
            place, directory, document_id = struct.unpack_from("<III", edit.data, 8)
            main = main or document_id
            for persist_id, offset in _persisted(_record(self._data, directory)):
                places.setdefault(persist_id, offset)
        return places, main

    def _at(self, persist_id: int) -> _Record | None:
        place = self._places.get(persist_id)
        return None if place is None or place + 8 > len(self._data) else _record(self._data, place)

    def _entries(self, main: _Record, instance: int) -> list[_Entry]:
        found: list[_Entry] = []
        for item in main:
            if item.kind != _LIST or item.instance != instance:
                continue
            for part in item:
                if part.kind == _PERSIST:
                    persist_id, _, _, slide_id = struct.unpack_from("<IIiI", part.data)
                    found.append(_Entry(persist_id, slide_id))
                elif found:
                    _gather(part, found[-1].texts)
        return found

    def _notes(self, main: _Record) -> dict[int, list[str]]:
        """Slide id -> lines of its notes."""
        found: dict[int, list[str]] = {}
        for entry in self._entries(main, 2):
            page = self._at(entry.persist_id)
            atom = page.find(_NOTES_ATOM) if page is not None else None
            if page is None or atom is None:
                continue
            texts = [text for shape in page.walk() if shape.kind == _TEXTBOX for text in _texts(shape)]
            lines = [line for text in texts + entry.texts if text.role == 2 for line in _lines(text.text)]
            found.setdefault(struct.unpack_from("<I", atom.data)[0], []).extend(lines)
        return found

    # --- one slide

    def _slide(self, slide: _Record, listed: list[_Text]) -> None:
        boxes: list[_Text | list[list[str]]] = []
        _shapes(slide, listed, boxes, 0)
        used = [box.text for box in boxes if isinstance(box, _Text)]
        boxes += [text for text in listed if text.text not in used]
        self._boxes(boxes)

    def _boxes(self, boxes: list[_Text | list[list[str]]] | list[_Text]) -> None:
        ordered = sorted(boxes, key=lambda box: not (isinstance(box, _Text) and box.role in _TITLES))
        for box in ordered:
            if isinstance(box, list):
                self.outline.block(table(box))
            elif box.role in _TITLES:
                self.outline.heading(1, " ".join(_lines(box.text)))
            else:
                self.outline.block("\n".join(_numbered(box)))


def _shapes(record: _Record, listed: list[_Text], boxes: list[_Text | list[list[str]]], depth: int) -> None:
    """Texts and tables of the shapes below `record`, in order."""
    for item in record:
        if item.kind == _GROUP and (grid := _grid(item)):
            boxes.append(grid)
        elif item.kind == _TEXTBOX:
            boxes += _texts(item, listed)
            if boxes and isinstance(boxes[-1], _Text):
                boxes[-1].numbered = _numbered_runs(record)
        elif depth < MAX_DEPTH:
            _shapes(item, listed, boxes, depth + 1)


def _texts(textbox: _Record, listed: list[_Text] | None = None) -> list[_Text]:
    found: list[_Text] = []
    for item in textbox:
        if item.kind == _OUTLINE_REF and listed is not None:
            (index,) = struct.unpack_from("<I", item.data)
            if index < len(listed):
                found.append(listed[index])
        else:
            _gather(item, found)
    return [text for text in found if text.text.strip() and set(text.text.strip()) != {"*"}]


def _gather(item: _Record, texts: list[_Text]) -> None:
    """Add a record of text to the box that its header began."""
    if item.kind == _HEADER:
        texts.append(_Text(role=struct.unpack_from("<I", item.data)[0]))
    elif item.kind in (_CHARS, _BYTES):
        if not texts or texts[-1].text:
            texts.append(_Text())
        texts[-1].text = item.data.decode("utf-16-le" if item.kind == _CHARS else "latin-1", "replace")
    elif item.kind == _STYLES and texts:
        texts[-1].styles = item.data


def _grid(group: _Record) -> list[list[str]]:
    """The cells of a group that is a table, by where they stand; nothing for other groups."""
    shapes = [item for item in group if item.kind == _SHAPE]
    if not shapes or not _is_table(shapes[0]):
        return []
    cells: dict[tuple[int, int], str] = {}
    for shape in shapes[1:]:
        anchor, box = shape.find(_CHILD_ANCHOR), shape.find(_TEXTBOX)
        if anchor is not None and len(anchor.data) >= 8 and box is not None:
            left, top = struct.unpack_from("<ii", anchor.data)
            cells[top, left] = " ".join(line for text in _texts(box) for line in _lines(text.text))
    columns = sorted({left for _, left in cells})
    return [[cells.get((top, left), "") for left in columns] for top in sorted({top for top, _ in cells})]


def _is_table(shape: _Record) -> bool:
    for item in shape:
        if item.kind in _OPTIONS:
            for index in range(item.instance):
                name, value = struct.unpack_from("<HI", item.data, 6 * index)
                if name & 0x3FFF == _TABLE_PROPERTY:
                    return bool(value & 1)
    return False


def _lines(text: str) -> list[str]:
    lines = (tidy_characters(line.replace("\x0b", " ")).strip() for line in text.split("\r"))
    return [line for line in lines if line]


# --- numbers in front of paragraphs --------------------------------------------------


def _numbered_runs(shape: _Record) -> list[bool]:
    """Whether PowerPoint numbers the paragraphs of each run; stands in a list beside the text."""
    for item in shape.walk():
        if item.kind == _TAG_DATA:
            for part in _records(item.data):
                if part.kind == _STYLES_9:
                    return list(_auto_numbers(part.data))
    return []


def _auto_numbers(data: bytes) -> Iterator[bool]:
    place = 0
    while place + 4 <= len(data):
        (mask,) = struct.unpack_from("<I", data, place)
        place += 4 + (2 if mask & 0x800000 else 0) + (2 if mask & 0x1000000 else 0)
        if mask & _HAS_SCHEME:
            # Four bytes; LibreOffice, which leaves out the field before, writes two.
            place += 4 if mask & 0x1000000 else 2
        place += 8
        yield bool(mask & _HAS_SCHEME)


def _numbered(box: _Text) -> list[str]:
    """The lines of a box; of paragraphs that PowerPoint numbers, with their numbers."""
    if not any(box.numbered):
        return _lines(box.text)
    ends = list(_run_ends(box.styles, len(box.text) + 1))
    lines: list[str] = []
    place, number = 0, 0
    for raw in box.text.split("\r"):
        run = next((index for index, end in enumerate(ends) if place < end), len(ends))
        counted = run < len(box.numbered) and box.numbered[run]
        number = number + 1 if counted else 0
        lines += [f"{number}. {line}" if counted else line for line in _lines(raw)]
        place += len(raw) + 1
    return lines


def _run_ends(styles: bytes, length: int) -> Iterator[int]:
    """Where each run of paragraphs of one style ends."""
    place, end = 0, 0
    while end < length and place + 10 <= len(styles):
        count, _, mask = struct.unpack_from("<IHI", styles, place)
        place, end = place + 10, end + count
        yield end
        for bits, size in _PARAGRAPH_FIELDS:
            if mask & bits:
                if size < 0:
                    size = 2 + 4 * struct.unpack_from("<H", styles, place)[0]
                place += size


# --- records -------------------------------------------------------------------------


def _record(data: bytes, place: int) -> _Record:
    head, kind, length = struct.unpack_from("<HHI", data, place)
    return _Record(kind, head & 15, head >> 4, data[place + 8 : place + 8 + length])


def _records(data: bytes) -> Iterator[_Record]:
    place = 0
    while place + 8 <= len(data):
        record = _record(data, place)
        yield record
        place += 8 + struct.unpack_from("<I", data, place + 4)[0]


def _persisted(directory: _Record) -> Iterator[tuple[int, int]]:
    if directory.kind != _DIRECTORY:
        return
    place = 0
    while place + 4 <= len(directory.data):
        (head,) = struct.unpack_from("<I", directory.data, place)
        first, count = head & 0xFFFFF, head >> 20
        place += 4
        for offset in struct.unpack_from(f"<{count}I", directory.data, place):
            yield first, offset
            first += 1
        place += 4 * count
