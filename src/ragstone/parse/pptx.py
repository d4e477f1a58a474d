"""PPTX: slide by slide, its title as heading, then text, tables, charts, notes and comments.

A slide is a page. Read straight from its XML: xberg 1.3.9 leaves out speaker notes and
loses which table a cell belongs to. Shapes come in the order of the file, which is what a
screen reader follows; groups are opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ragstone.parse.decode import tidy_characters
from ragstone.parse.math import formula
from ragstone.parse.office_properties import properties
from ragstone.parse.outline import Outline, document, table
from ragstone.parse.package import Package, attribute, child, each, local
from ragstone.parse.xlsx import relations
from ragstone.types import Blob, Document, PageSpan, Remark

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"

_TITLES = ("title", "ctrTitle")
_NO_CONTENT = frozenset({"sldNum", "dt", "ftr", "hdr", "sldImg"})
_PLAIN_TITLES = frozenset({"powerpoint presentation", "powerpoint 演示文稿", "slide 1", "幻灯片 1"})


def parse_pptx(blob: Blob, package: Package) -> Document:
    """The text of a presentation.

    Raises:
        CorruptContent, ContentTooLarge: as for every package.
        NoText: its slides hold pictures only.
    """
    outline = Outline()
    pages: list[PageSpan] = []
    hidden: list[str] = []
    authors = _authors(package)
    for number, part in enumerate(_slides(package), 1):
        start = outline.length
        slide = package.xml(part)
        if slide is None:
            continue
        if attribute(slide, "show") == "0":
            hidden.append(str(number))
        _Slide(package, part, outline, authors).write(slide)
        if outline.length > start:
            pages.append(PageSpan(number=number, start=start, end=outline.length))
    title, metadata = properties(package)
    if title.casefold() in _PLAIN_TITLES:
        title = ""
    first = next((heading.title for heading in outline.headings), "")
    warnings: list[Remark] = []
    if hidden:
        values = {"name": blob.name, "slides": ", ".join(hidden)[:200]}
        warnings.append(Remark(key="parse.hidden_slides", values=values))
    return document(
        blob,
        outline.text,
        media_type=MEDIA_TYPE,
        title=title or first,
        headings=outline.headings,
        pages=pages,
        metadata=metadata,
        warnings=warnings,
    )


def _slides(package: Package) -> Iterator[str]:
    """Parts of the slides in the order of the show; by number where the list is damaged."""
    main = "ppt/presentation.xml"
    targets = relations(package, main)
    found: list[str] = []
    for item in each(child(package.xml(main), "sldIdLst")):
        # `id` and `r:id` differ in their namespace only.
        relation = next((value for key, value in item.attrib.items() if key.endswith("}id")), "")
        part = targets.get(relation, ("", ""))[1]
        if part in package.names:
            found.append(part)
    if found:
        return iter(found)
    parts = [name for name in package.names if name.startswith("ppt/slides/slide") and name.endswith(".xml")]
    return iter(sorted(parts, key=lambda name: (len(name), name)))


def _authors(package: Package) -> dict[str, str]:
    return {
        attribute(item, "id"): attribute(item, "name")
        for part in ("ppt/commentAuthors.xml", "ppt/authors.xml")
        for item in package.items(part)
    }


class _Slide:
    """Writes one slide with all that belongs to it."""

    def __init__(self, package: Package, part: str, outline: Outline, authors: dict[str, str]) -> None:
        self._package, self._outline, self._authors = package, outline, authors
        self._relations = relations(package, part)

    def write(self, slide: Element) -> None:
        tree = child(slide, "cSld", "spTree")
        shapes = list(_shapes(tree)) if tree is not None else []
        # The title may stand anywhere in the file, but it is read first.
        shapes.sort(key=lambda shape: _placeholder(shape) not in _TITLES)
        for shape in shapes:
            self._shape(shape)
        for kind, part in self._relations.values():
            if kind == "notesSlide":
                self._notes(part)
            elif kind == "comments":
                self._comments(part)

    def _shape(self, shape: Element) -> None:
        role = _placeholder(shape)
        if role in _NO_CONTENT:
            return
        if (grid := next((item for item in shape.iter() if local(item) == "tbl"), None)) is not None:
            self._outline.block(table(_rows(grid)))
            return
        if local(shape) == "graphicFrame":
            self._graphic(shape)
        body = child(shape, "txBody")
        lines = list(_paragraphs(body)) if body is not None else []
        if role in _TITLES:
            self._outline.heading(1, " ".join(text for _, text in lines))
            return
        listed = role in ("body", "") and sum(1 for _, text in lines if text) > 1
        text = "\n".join(f"{'  ' * level}- {line}" if listed else line for level, line in lines if line)
        self._outline.block(text)

    def _graphic(self, shape: Element) -> None:
        """Text of a chart or of SmartArt, which stand in parts of their own."""
        for item in shape.iter():
            for key, value in item.attrib.items():
                kind, part = self._relations.get(value, ("", "")) if "}" in key else ("", "")
                if kind == "chart":
                    self._outline.block(_chart(self._package.xml(part)))
                elif kind == "diagramData":
                    self._outline.block(_diagram(self._package.xml(part)))

    def _notes(self, part: str) -> None:
        root = self._package.xml(part)
        tree = child(root, "cSld", "spTree")
        for shape in _shapes(tree) if tree is not None else ():
            body = child(shape, "txBody")
            if body is not None and _placeholder(shape) not in _NO_CONTENT:
                lines = (text for _, text in _paragraphs(body) if text)
                self._outline.block("\n".join(f"> {line}" for line in lines))

    def _comments(self, part: str) -> None:
        for item in self._package.items(part):
            text = " ".join(
                " ".join((found.text or "") for found in item.iter() if local(found) in ("text", "t")).split()
            )
            author = self._authors.get(attribute(item, "authorId"), "")
            if text:
                self._outline.block(tidy_characters(f"> {author}: {text}" if author else f"> {text}"))


def _shapes(tree: Element) -> Iterator[Element]:
    """Shapes in order with groups opened; of two forms of one shape the newer. Without recursion."""
    waiting = list(reversed(list(tree)))
    while waiting:
        item = waiting.pop()
        tag = local(item)
        if tag == "grpSp":
            waiting += reversed(list(item))
        elif tag == "AlternateContent":
            choice, fallback = child(item, "Choice"), child(item, "Fallback")
            chosen = choice if choice is not None else fallback
            waiting += reversed(list(chosen)) if chosen is not None else []
        elif tag in ("sp", "graphicFrame", "cxnSp"):
            yield item


def _placeholder(shape: Element) -> str:
    """`title`, `body`, ...; empty for a shape of its own."""
    for item in shape:
        if local(item).startswith("nv"):
            mark = child(item, "nvPr", "ph")
            return "" if mark is None else attribute(mark, "type") or "body"
    return ""


def _paragraphs(body: Element) -> Iterator[tuple[int, str]]:
    """(level, text) of the paragraphs; a number that is typed by the program is written out."""
    numbers: dict[int, int] = {}
    for item in body:
        if local(item) != "p":
            continue
        settings = child(item, "pPr")
        said = attribute(settings, "lvl")
        level = min(int(said), 8) if said.isdecimal() else 0
        text = _inline(item)
        counted = child(settings, "buAutoNum")
        if counted is not None and text:
            start = attribute(counted, "startAt")
            numbers[level] = numbers.get(level, int(start) - 1 if start.isdecimal() else 0) + 1
            text = f"{numbers[level]}. {text}"
        elif text:
            numbers.pop(level, None)
        yield level, text


def _inline(paragraph: Element) -> str:
    parts: list[str] = []
    for item in paragraph.iter():
        tag = local(item)
        if tag == "t" and "math" not in item.tag:
            parts.append(item.text or "")
        elif tag == "br":
            parts.append("\n")
        elif tag == "oMath":
            parts.append(formula(item))
    return tidy_characters("".join(parts)).replace("\n", " ").strip()


def _rows(grid: Element) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in grid:
        if local(row) != "tr":
            continue
        cells: list[str] = []
        for cell in row:
            if local(cell) != "tc":
                continue
            body = child(cell, "txBody")
            text = " ".join(text for _, text in _paragraphs(body)) if body is not None else ""
            if attribute(cell, "vMerge") in ("1", "true") and rows and len(cells) < len(rows[-1]):
                text = rows[-1][len(cells)]
            cells.append(text)
        rows.append(cells)
    return rows


def _chart(root: Element | None) -> str:
    """Title of a chart, and the values it was drawn from as a table."""
    chart = child(root, "chart")
    if chart is None:
        return ""
    title = " ".join(filter(None, map(_inline, _found(child(chart, "title"), "p"))))
    columns: list[list[str]] = []
    for series in _found(child(chart, "plotArea"), "ser"):
        names = _points(child(series, "cat")) or _points(child(series, "xVal"))
        values = _points(child(series, "val")) or _points(child(series, "yVal"))
        columns = columns or [["", *names]]
        columns.append([" ".join(_points(child(series, "tx"))), *values])
    height = max(map(len, columns), default=0)
    rows = [[column[index] if index < len(column) else "" for column in columns] for index in range(height)]
    return f"{title}\n\n{table(rows)}".strip()


def _found(root: Element | None, name: str) -> Iterator[Element]:
    return (item for item in (root.iter() if root is not None else ()) if local(item) == name)


def _points(root: Element | None) -> list[str]:
    return [tidy_characters(item.text or "") for item in _found(root, "v")]


def _diagram(root: Element | None) -> str:
    lines = [" ".join(filter(None, map(_inline, _found(item, "p")))) for item in _found(root, "pt")]
    return "\n".join(f"- {line}" for line in lines if line)
