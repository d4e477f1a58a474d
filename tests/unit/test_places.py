"""Where people find a passage: page, slide, sheet and row, or section."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from making import blob, lines, pdf, shape, slides, workbook, zipped
from ragstone.cite import cite
from ragstone.clean import clean, edited
from ragstone.parse import wire
from ragstone.parse.router import parse
from ragstone.place import HeadingSpan, Layout, Layouts, PageSpan, Place, RowSpan
from ragstone.split import RecursiveSplitter
from ragstone.types import Document, Hit

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ODS = "application/vnd.oasis.opendocument.spreadsheet"


def read(name: str, data: bytes | str) -> Document:
    return clean(parse(blob(name, data)))


def place(document: Document, text: str, *, cut: int = 40) -> Place:
    """Where `text` stands, read through a passage that begins up to `cut` characters before it."""
    at = document.text.index(text)
    start, end = max(at - cut, 0), at + len(text)
    layout = Layouts(document.text, document.layout).of(start, end)
    return layout.place(at, end, text=document.text[start:end], offset=start)


def sheet_and_row(document: Document, text: str, *, cut: int = 40) -> tuple[str | None, int | None]:
    found = place(document, text, cut=cut)
    assert found.row == found.row_end
    return found.sheet, found.row


# --- spreadsheets ------------------------------------------------------------------


def cells(number: int, *values: str) -> str:
    inside = "".join(
        f'<c r="{chr(65 + index)}{number}" t="inlineStr"><is><t>{value}</t></is></c>'
        for index, value in enumerate(values)
        if value
    )
    return f'<row r="{number}">{inside}</row>'


@pytest.mark.parametrize("cut", [0, 7, 40, 1_000])
def test_rows_of_an_xlsx_have_the_numbers_that_excel_shows(cut: int) -> None:
    prices = [
        cells(2, "Prices of the ferry"),
        cells(4, "stop", "price"),
        cells(5, "Halm", "3.10"),
        cells(6, "Oster", "4.20"),
        cells(10, "Brae", "5.30"),
        cells(11, "Wick", "6.40"),
    ]
    dogs = [cells(1, "dog", "fare"), cells(2, "small", "free"), cells(3, "large", "1.10")]
    made = workbook(
        {
            "Prices": f"<sheetData>{''.join(prices)}</sheetData>",
            "Dogs!hidden": f"<sheetData>{''.join(dogs)}</sheetData>",
        }
    )
    document = read("fares.xlsx", made)
    assert [
        sheet_and_row(document, text, cut=cut)
        for text in ("of the ferry", "stop", "3.10", "Oster", "5.30", "Wick", "fare |", "small", "large")
    ] == [
        ("Prices", 2),
        ("Prices", 4),
        ("Prices", 5),
        ("Prices", 6),
        ("Prices", 10),
        ("Prices", 11),
        ("Dogs", 1),
        ("Dogs", 2),
        ("Dogs", 3),
    ]
    # The head that is repeated over the second block is not a row of its own there.
    again = document.text.index("| stop", document.text.index("Oster"))
    assert Layouts(document.text, document.layout).rows(again, again + 6) == ()


def test_a_row_that_is_written_as_a_block_is_one_row_of_all_its_lines() -> None:
    names, values = [f"n{index}" for index in range(26)], [f"v{index}" for index in range(26)]
    document = read(
        "wide.csv", "\n".join([",".join(names), ",".join(values), "", ",".join(values).replace("v", "w")])
    )
    assert [sheet_and_row(document, text)[1] for text in ("v0", "v25", "w0", "w25")] == [2, 2, 4, 4]


def test_rows_of_an_ods_count_those_that_the_file_says_repeat() -> None:
    def row(*values: str, times: int = 1) -> str:
        inside = "".join(f"<table:table-cell><text:p>{value}</text:p></table:table-cell>" for value in values)
        inside = inside or "<table:table-cell table:number-columns-repeated='4'/>"
        return f"<table:table-row table:number-rows-repeated='{times}'>{inside}</table:table-row>"

    body = (
        f"<table:table table:name='Ports'><table:table-header-rows>{row('port', 'depth')}"
        f"</table:table-header-rows>{row(times=300)}{row('Halm', '4 m', times=2)}{row('Oster', '9 m')}"
        f"{row('deep', '10 m', times=500)}{row('Brae', '7 m')}</table:table>"
    )
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    content = (
        f"<office:document-content {spaces}><office:body><office:spreadsheet>{body}</office:spreadsheet>"
        "</office:body></office:document-content>"
    )
    document = read("a.ods", zipped({"mimetype": ODS, "content.xml": content}))
    found = [sheet_and_row(document, text) for text in ("port", "Halm", "Oster", "Brae")]
    assert found == [("Ports", 1), ("Ports", 302), ("Ports", 304), ("Ports", 805)]


def test_rows_of_an_xlsb_have_the_numbers_of_their_records() -> None:
    def record(kind: int, content: bytes) -> bytes:
        return (
            bytes([kind & 127 | 128, kind >> 7] if kind > 127 else [kind]) + bytes([len(content)]) + content
        )

    def wide(value: str) -> bytes:
        return struct.pack("<I", len(value)) + value.encode("utf-16-le")

    def row(number: int, *values: str) -> bytes:
        held = (record(6, struct.pack("<II", column, 0) + wide(value)) for column, value in enumerate(values))
        return record(0, struct.pack("<I", number) + b"\0" * 12) + b"".join(held)

    relation = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" Type="x/worksheet" Target="worksheets/sheet1.bin"/></Relationships>'
    )
    rows = row(1, "port", "depth") + row(2, "Halm", "four") + row(6, "Oster", "nine")
    data = zipped(
        {
            "xl/workbook.bin": record(156, struct.pack("<II", 0, 1) + wide("r1") + wide("Ports")),
            "xl/_rels/workbook.bin.rels": relation,
            "xl/sharedStrings.bin": b"",
            "xl/styles.bin": b"",
            "xl/worksheets/sheet1.bin": rows,
        }
    )
    document = read("a.xlsb", data)
    found = [sheet_and_row(document, text) for text in ("port", "Halm", "Oster")]
    assert found == [("Ports", 2), ("Ports", 3), ("Ports", 7)]


def test_rows_of_an_xls_and_of_excel_2003_xml_have_their_own_numbers() -> None:
    def record(kind: int, content: bytes) -> bytes:
        return struct.pack("<HH", kind, len(content)) + content

    stream = record(0x0409, struct.pack("<HHH", 0x0400, 0x10, 0))
    for number, values in ((2, (b"port", b"depth")), (3, (b"Halm", b"four")), (7, (b"Oster", b"nine"))):
        for column, raw in enumerate(values):
            stream += record(0x0204, struct.pack("<HHHH", number, column, 0, len(raw)) + raw)
    old = read("a.xls", stream + record(0x000A, b""))
    assert [sheet_and_row(old, text)[1] for text in ("port", "Halm", "Oster")] == [3, 4, 8]

    def row(mark: str, *values: str) -> str:
        return f"<Row{mark}>{''.join(f'<Cell><Data>{value}</Data></Cell>' for value in values)}</Row>"

    rows = (
        row(" ss:Index='3'", "port", "depth") + row("", "Halm", "four") + row(" ss:Index='9'", "Oster", "n")
    )
    space = "urn:schemas-microsoft-com:office:spreadsheet"
    book = (
        f'<?xml version="1.0"?><Workbook xmlns="{space}" xmlns:ss="{space}">'
        f'<Worksheet ss:Name="Ports"><Table>{rows}</Table></Worksheet></Workbook>'
    )
    found = [sheet_and_row(read("b.xls", book), text) for text in ("port", "Halm", "Oster")]
    assert found == [("Ports", 3), ("Ports", 4), ("Ports", 9)]


def test_rows_of_a_csv_count_blank_lines_once_and_a_cell_of_two_lines_not_twice() -> None:
    table = read("a.csv", 'Ports\n\nport,note\nHalm,"deep\nand cold"\n\nOster,warm\n')
    found = [place(table, text).row for text in ("Ports", "port |", "Halm", "and cold", "Oster")]
    assert found == [1, 3, 4, 4, 6]
    plain = read("b.csv", "\n1,2,3\n4,5,6\n\n\n\n\n7,8,9\n")
    assert [place(plain, text).row for text in ("1,2", "4,5", "7,8")] == [2, 3, 8]


def test_rows_go_with_a_document_through_the_process_that_parses() -> None:
    document = parse(blob("a.csv", "port,depth\nHalm,4\n\nOster,9\n"))
    assert document.rows
    restored = wire.restore(blob("a.csv", ""), wire.describe(document), document.text.encode())
    assert restored.rows == document.rows
    with pytest.raises(wire.Broken):
        wire.restore(blob("a.csv", ""), {**wire.describe(document), "rows": [[1, 1, 0, 99]]}, b"short")


def test_rows_follow_edits_that_take_lines_away_or_join_them() -> None:
    text = "one\ntwo\nthree\nfour"
    document = Document(text=text, rows=(RowSpan(first=5, last=8, start=0, end=len(text)),))
    for edits, left in (
        ([(0, 3, "1")], {"1": 5, "two": 6, "four": 8}),
        ([(3, 7, "")], {"one": 5, "three": 7, "four": 8}),
        ([(0, 8, "")], {"three": 7, "four": 8}),
        ([(7, 8, " ")], {"one": 5, "two": 6, "three": 7, "four": 8}),
    ):
        after = edited(document, edits)
        assert {name: place(after, name, cut=0).row for name in left} == left


def test_rows_that_were_never_recorded_are_counted_as_far_as_that_is_certain() -> None:
    text = (
        "# Prices\n\nAll in euros\n\n| stop | price |\n| --- | --- |\n| Halm | 3 |\n| Oster | 4 |\n\n"
        "| stop | price |\n| --- | --- |\n| Brae | 5 |\n\n"
        "# Dogs (hidden)\n\n|  |  |\n| --- | --- |\n| small | 0 |"
    )
    dogs = text.index("# Dogs")
    headings = (
        HeadingSpan(path=("Prices",), start=0, end=dogs),
        HeadingSpan(path=("Dogs (hidden)",), start=dogs, end=len(text)),
    )
    document = Document(text=text, media_type=XLSX, headings=headings)
    found = [sheet_and_row(document, name) for name in ("All in", "stop", "Halm", "Oster", "Brae", "small")]
    assert found == [
        ("Prices", 1),
        ("Prices", 2),
        ("Prices", 3),
        ("Prices", 4),
        ("Prices", None),
        ("Dogs", 1),
    ]
    table = Document(text="| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |", media_type="text/csv")
    assert [place(table, name).row for name in ("a |", "1 |", "4 |")] == [1, 2, 3]
    assert place(Document(text=table.text, media_type="text/markdown"), "1 |") == Place()


# --- pages, slides, sections -------------------------------------------------------


def flowing() -> bytes:
    """Short pages of one text, which the splitter puts into one passage."""
    return pdf(
        [
            lines("The night ferry leaves Halm at 22:15 and takes", "two hours over the sound in summer."),
            lines("Dogs travel free of charge on the upper deck.", "Bicycles cost 4 euros."),
            lines("The harbour office opens at six in the morning."),
        ]
    )


def test_the_page_of_a_citation_is_that_of_its_quote_not_of_its_passage() -> None:
    document = read("ferry.pdf", flowing())
    (chunk,) = RecursiveSplitter()(document)
    assert (chunk.page, chunk.page_end) == (1, 1)  # as the splitter knows it
    layouts = Layouts(document.text, document.layout)
    (hit,) = [_hit(document, layouts)]
    assert (hit.page, hit.page_end) == (1, 3)
    cited = cite(
        "Dogs travel free of charge on the upper deck. [1] It opens at six in the morning. [1]", [hit]
    )
    assert [(citation.page, citation.place.page) for citation in cited.citations] == [(2, 2), (3, 3)]
    whole = hit.chunk.place()
    assert (whole.text("en"), whole.text("zh")) == ("pages 1–3", "第 1–3 页")


def _hit(document: Document, layouts: Layouts) -> Hit:
    (chunk,) = RecursiveSplitter()(document)
    return Hit(
        chunk=replace(chunk, layout=layouts.of(chunk.start, chunk.end)), uri=document.uri, title="Ferry"
    )


def test_a_presentation_has_slides_and_a_text_has_sections() -> None:
    deck = read("deck.pptx", slides([shape("Ferries"), shape("Dogs travel free")]))
    found = place(deck, "Dogs travel free", cut=4)
    assert (found.page, found.slide) == (2, 2)
    assert (found.text("en"), found.text("zh")) == ("slide 2", "第 2 张幻灯片")
    note = read("a.md", "# Ferry\n\nAbout.\n\n## Fares\n\nDogs travel free.\n")
    section = place(note, "Dogs travel free")
    assert section == Place(section=("Ferry", "Fares"))
    assert (section.text("en"), section.text("zh", "Ferry")) == ("section “Ferry › Fares”", "“Fares”一节")


def test_a_place_in_words() -> None:
    rows = Place(sheet="价目", row=3, row_end=9)
    assert rows.after("fares.xlsx", "en") == "fares.xlsx, sheet 价目, rows 3–9"
    assert rows.after("fares.xlsx", "zh") == "fares.xlsx，工作表“价目”，第 3–9 行"
    assert Place().after("note.txt", "en") == "note.txt"


def test_a_large_table_is_not_counted_anew_for_each_passage() -> None:
    text = "\n".join(f"| {number} |" for number in range(20_000))
    layout = Layout(rows=(RowSpan(first=1, last=20_000, start=0, end=len(text)),))
    layouts = Layouts(text, layout)
    at = text.index("| 19998 |")
    assert layouts.rows(at, at + 5) == (RowSpan(first=19_999, last=20_000, start=at, end=at + 5),)
    pages = Layouts(text, Layout(pages=tuple(PageSpan(number=n + 1, start=n, end=n + 1) for n in range(99))))
    assert [span.number for span in pages.of(7, 9).pages] == [8, 9]
