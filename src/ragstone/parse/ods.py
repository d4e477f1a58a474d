"""ODS: every sheet under its name, cells with the text that they show."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ragstone.parse.decode import tidy_characters
from ragstone.parse.odf import odf_properties, refuse_encrypted
from ragstone.parse.outline import Outline, document
from ragstone.parse.package import Package, attribute, local
from ragstone.parse.tables import Numbered, without_end, write_sheet
from ragstone.parse.xlsx import hidden_remark
from ragstone.place import HIDDEN_MARK
from ragstone.types import Blob, Document

MEDIA_TYPE = "application/vnd.oasis.opendocument.spreadsheet"
MAX_REPEATED = 200
"""How often a cell or row with text is written when the file says that it repeats; empty ones never are."""

_WRAPPERS = frozenset({"table-header-rows", "table-rows", "table-row-group"})
"""Elements that hold rows."""


def parse_ods(blob: Blob, package: Package) -> Document:
    """The text of a spreadsheet.

    Raises:
        PasswordRequired, CorruptContent, ContentTooLarge, NoText
    """
    refuse_encrypted(blob, package)
    outline = Outline()
    hidden: list[str] = []
    invisible = _invisible_styles(package)
    # office:document-content > office:body > office:spreadsheet > table:table
    for sheet in package.children("content.xml", depth=4):
        rows = without_end(_rows(sheet)) if local(sheet) == "table" else []
        if not rows:
            continue
        name, is_hidden = attribute(sheet, "name"), attribute(sheet, "style-name") in invisible
        outline.heading(1, f"{name}{HIDDEN_MARK}" if is_hidden else name)
        hidden += [name] if is_hidden else []
        write_sheet(outline, rows)
    title, metadata = odf_properties(package)
    return document(
        blob,
        outline.text,
        media_type=MEDIA_TYPE,
        title=title,
        headings=outline.headings,
        rows=outline.rows,
        metadata=metadata,
        warnings=hidden_remark(blob, hidden),
    )


def _invisible_styles(package: Package) -> set[str]:
    found: set[str] = set()
    for style in package.children("content.xml", depth=3):
        if local(style) == "style" and any(attribute(item, "display") == "false" for item in style):
            found.add(attribute(style, "name"))
    return found


def _rows(sheet: Element) -> list[Numbered]:
    rows: list[Numbered] = []
    number = 1
    open_elements = list(reversed(list(sheet)))
    while open_elements:
        element = open_elements.pop()
        if local(element) in _WRAPPERS:
            open_elements += reversed(list(element))
        elif local(element) == "table-row":
            row = _row(element)
            said = _times(element, "number-rows-repeated")
            rows += [(number + place, row) for place in range(min(said, MAX_REPEATED) if any(row) else 1)]
            number += said
    return rows


def _row(element: Element) -> list[str]:
    row: list[str] = []
    gap = 0
    for cell in element:
        if local(cell) not in ("table-cell", "covered-table-cell"):
            continue
        text = "\n".join(_text(item) for item in cell if local(item) in ("p", "h"))
        notes = [" ".join(map(_text, item)) for item in cell if local(item) == "annotation"]
        text = tidy_characters(" ".join([text, *(f"({note.strip()})" for note in notes if note.strip())]))
        if not text.strip():
            said = attribute(cell, "number-columns-repeated")
            gap += int(said) if said.isdecimal() and len(said) < 7 else 1
            continue
        if gap + len(row) > 16_384:
            break
        row += [""] * gap + [text.strip()] * min(_times(cell, "number-columns-repeated"), MAX_REPEATED)
        gap = 0
    return row


def _times(element: Element, name: str) -> int:
    """How often the file says that a cell or row stands there."""
    said = attribute(element, name)
    return max(int(said), 1) if said.isdecimal() and len(said) < 9 else 1


def _text(paragraph: Element) -> str:
    """Text of a paragraph with its spaces and line ends; recursion ends where spans do."""
    parts = [paragraph.text or ""]
    for item in paragraph:
        tag = local(item)
        if tag == "s":
            parts.append(" ")
        elif tag in ("tab", "line-break"):
            parts.append("\t" if tag == "tab" else "\n")
        elif tag != "annotation":
            parts.append(_text(item))
        parts.append(item.tail or "")
    return "".join(parts)
