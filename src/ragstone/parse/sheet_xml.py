"""Excel 2003 XML, which many programs write under the name .xls: sheets and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ragstone.errors import CorruptContent
from ragstone.parse.decode import Decoded, tidy_characters
from ragstone.parse.outline import Outline, document
from ragstone.parse.package import attribute, child, local
from ragstone.parse.tables import Numbered, write_sheet
from ragstone.parse.text import damage
from ragstone.parse.xlsx import MAX_COLUMN
from ragstone.types import Blob, Document

MEDIA_TYPE = "application/vnd.ms-excel"
_NAMESPACE = "urn:schemas-microsoft-com:office:spreadsheet"


def is_sheet_xml(text: str) -> bool:
    return _NAMESPACE in text[:4000] and "Workbook" in text[:4000]


def parse_sheet_xml(blob: Blob, decoded: Decoded) -> Document:
    """The text of a workbook; values as they are stored, since its formats stand elsewhere.

    Raises:
        CorruptContent: not well-formed, or it declares entities.
        NoText: all its sheets are empty.
    """
    text = decoded.text.lstrip()
    start = text.find("<", text.find("?>") + 2 if text.startswith("<?xml") else 0)
    try:
        if "<!DOCTYPE" in text[:4096] or "<!ENTITY" in text:
            raise ValueError("its XML declares entities")
        book = ElementTree.fromstring(text[start:])
    except (ElementTree.ParseError, ValueError) as error:
        raise CorruptContent("parse.corrupt", name=blob.name, found="XLS", reason=str(error)) from error
    outline = Outline()
    blank = True
    for sheet in book:
        table = child(sheet, "Table")
        rows = list(_rows(table)) if table is not None else []
        if any(any(row) for _, row in rows):
            blank = False
            outline.heading(1, tidy_characters(attribute(sheet, "Name")))
            write_sheet(outline, rows)
    return document(
        blob,
        "" if blank else outline.text,
        media_type=MEDIA_TYPE,
        headings=outline.headings,
        rows=outline.rows,
        warnings=damage(blob, decoded),
    )


def _rows(table: Element) -> Iterator[Numbered]:
    last = 0
    for element in table:
        if local(element) == "Row":
            said = attribute(element, "Index")
            last = int(said) if said.isdecimal() and len(said) < 9 else last + 1
            yield last, _row(element)


def _row(element: Element) -> list[str]:
    row: list[str] = []
    for cell in element:
        if local(cell) != "Cell":
            continue
        place, data = attribute(cell, "Index"), child(cell, "Data")
        if place.isdecimal() and len(row) < int(place[:6]) <= MAX_COLUMN:
            row += [""] * (int(place) - 1 - len(row))
        value = "" if data is None else tidy_characters("".join(data.itertext()))
        if attribute(data, "Type") == "DateTime":
            value = value.removesuffix("T00:00:00.000").replace("T", " ").removesuffix(".000")
        across = attribute(cell, "MergeAcross")
        row += [value] + [""] * (min(int(across[:4]), 50) if across.isdecimal() else 0)
    return row
