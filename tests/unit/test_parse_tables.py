"""Delimited files and spreadsheets: awkward ones of every kind, through the router."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import pytest

from making import blob, workbook, zipped
from ragstone.errors import ContentError, CorruptContent, NoText
from ragstone.parse.number_format import formatter
from ragstone.parse.router import parse


def text_of(name: str, data: bytes | str) -> str:
    return parse(blob(name, data)).text


# --- delimited files ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", "城市,人口\n北京,2189\n上海,2487\n".encode("gb18030")),
        ("a.csv", "城市,人口\n北京,2189\n上海,2487\n".encode("utf-8-sig")),
        ("a.csv", "城市\t人口\r\n北京\t2189\r\n上海\t2487".encode("utf-16")),
        ("a.csv", "城市;人口\n北京;2189\n上海;2487\n"),
        ("a.psv", "城市|人口\n北京|2189\n上海|2487\n"),
        ("a.csv", "sep=;\n城市;人口\n北京;2189\n上海;2487\n"),
        ("a.tsv", "城市\t人口\n\n北京\t2189\n\n上海\t2487\n\n"),
        ("a.xls", "城市\t人口\n北京\t2189\n上海\t2487\n".encode("gbk")),
    ],
)
def test_delimiter_and_encoding_are_found_by_content(name: str, data: bytes | str) -> None:
    assert text_of(name, data) == "| 城市 | 人口 |\n| --- | --- |\n| 北京 | 2189 |\n| 上海 | 2487 |"


def test_german_cells_keep_quotes_line_ends_delimiters_and_decimal_commas() -> None:
    data = 'Name;Preis;Notiz\n"Maß; groß";1.234,50;"sagte ""ja""\nund ging"\nB;2,00;x|y\n'
    assert text_of("a.csv", data).split("\n")[2:] == [
        '| Maß; groß | 1.234,50 | sagte "ja" und ging |',
        "| B | 2,00 | x\\|y |",
    ]


def test_lines_above_a_table_and_years_over_columns() -> None:
    data = "季度报告\n\n项目,2022,2023\n收入,1,2\n"
    assert (
        text_of("a.csv", data) == "季度报告\n\n| 项目 | 2022 | 2023 |\n| --- | --- | --- |\n| 收入 | 1 | 2 |"
    )


def test_c15_rows_of_other_lengths_lose_nothing() -> None:
    assert text_of("a.csv", "a,b\n1\n1,2,3\n") == (
        "| a | b |  |\n| --- | --- | --- |\n| 1 |  |  |\n| 1 | 2 | 3 |"
    )


def test_a_quotation_mark_that_is_never_closed_swallows_no_rows() -> None:
    rows = "".join(f"{n},5 pipes,x\n" if n != 50 else f'{n},"5 pipe,x\n' for n in range(1, 1000))
    text = text_of("a.csv", f"no,name,note\n{rows}")
    assert len(text.split("\n")) == 1001
    assert "| 999 | 5" in text


@pytest.mark.parametrize(
    "data", ["1,2\n3,4\n", "2024-01-01;3,4\n2024-01-02;5,6\n", "just a line\nand another\n"]
)
def test_without_column_names_or_delimiter_the_text_stays(data: str) -> None:
    assert text_of("a.csv", data) == data.strip()


@pytest.mark.parametrize("name", ["a.txt", "notes"])
def test_prose_with_commas_is_no_table(name: str) -> None:
    prose = (
        "Dear, Sir, all\n"
        + "First, we met, and talked.\nThen, after that, we left.\nLater, we wrote, and called.\n"
    )
    assert text_of(name, prose) == prose.strip()


def test_a_table_with_many_columns_names_each_value() -> None:
    names = [f"spalte{n}" for n in range(40)]
    text = text_of("a.csv", ",".join(names) + "\n" + ",".join("w" + n for n in names) + "\n")
    assert text.split("\n")[7] == "spalte7: wspalte7"


def test_only_a_head_is_still_text() -> None:
    assert text_of("a.csv", "name,price\n") == "| name | price |\n| --- | --- |"


def test_blank_rows_only_is_no_text() -> None:
    with pytest.raises(NoText):
        text_of("a.csv", "\n\n  \n")


# --- XLSX --------------------------------------------------------------------------


def sheet(rows: str, after: str = "") -> str:
    return f"<sheetData>{rows}</sheetData>{after}"


def cells(number: int, *values: str) -> str:
    inside = "".join(
        f'<c r="{chr(65 + index)}{number}" t="inlineStr"><is><t>{value}</t></is></c>'
        for index, value in enumerate(values)
        if value
    )
    return f'<row r="{number}">{inside}</row>'


def test_sheets_are_headings_and_a_hidden_one_is_marked() -> None:
    document = parse(
        blob(
            "b.xlsx", workbook({"一": sheet(cells(1, "甲", "乙")), "二!hidden": sheet(cells(1, "丙", "丁"))})
        )
    )
    assert [span.path for span in document.headings] == [("一",), ("二 (hidden)",)]
    assert "| 丙 | 丁 |" in document.text
    assert "二" in document.warnings[0].text("zh")
    assert document.title == "b.xlsx"


def test_title_rows_gaps_and_continued_tables() -> None:
    rows = [
        cells(1, "", "年度报告"),
        cells(3, "", "年", "数"),
        *(
            f'<row r="{n}"><c r="B{n}"><v>{2000 + n}</v></c><c r="C{n}"><v>{n}.5</v></c></row>'
            for n in (4, 5)
        ),
        '<row r="900"><c r="B900"><v>2900</v></c><c r="C900"><v>1</v></c></row>',
    ]
    text = text_of("b.xlsx", workbook({"S": sheet("".join(rows))}))
    assert text == (
        "# S\n\n年度报告\n\n| 年 | 数 |\n| --- | --- |\n| 2004 | 4.5 |\n| 2005 | 5.5 |\n\n"
        "| 年 | 数 |\n| --- | --- |\n| 2900 | 1 |"
    )


def test_merged_cells_stand_in_each_row_and_once_in_a_line() -> None:
    rows = (
        cells(1, "组", "名", "值")
        + cells(2, "甲", "a", "x")
        + cells(3, "", "b", "y")
        + cells(4, "宽", "", "z")
    )
    merged = '<mergeCells><mergeCell ref="A2:A3"/><mergeCell ref="A4:B4"/></mergeCells>'
    text = text_of("b.xlsx", workbook({"S": sheet(rows, merged)}))
    assert text.split("\n")[4:] == ["| 甲 | a | x |", "| 甲 | b | y |", "| 宽 |  | z |"]


def test_formulas_by_value_errors_booleans_and_shared_strings() -> None:
    row = (
        '<row r="1"><c r="A1"><f>1+1</f><v>2</v></c><c r="B1" t="e"><v>#N/A</v></c><c r="C1" t="b">'
        "<v>1</v></c>"
        '<c r="D1" t="s"><v>0</v></c><c r="E1" t="str"><f>A</f><v>so_x000D_\nit</v></c><c r="F1" '
        't="s"><v>99</v></c></row>'
    )
    strings = "<si><r><t>两</t></r><r><t>段</t></r><rPh><t>liang</t></rPh></si>"
    text = text_of("b.xlsx", workbook({"S": sheet(row)}, strings=strings))
    assert text.split("\n")[-1] == "| 2 | #N/A | TRUE | 两段 | so it |"


def test_cells_far_away_cost_nothing() -> None:
    rows = cells(1, "a") + '<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>'
    assert text_of("b.xlsx", workbook({"S": sheet(rows)})) == "# S\n\na\n\n7"


def test_c15_long_sheets_are_read_whole() -> None:
    rows = cells(1, "no", "name") + "".join(cells(n, str(n), f"行{n}") for n in range(2, 5000))
    text = text_of("b.xlsx", workbook({"S": sheet(rows)}))
    assert text.count("\n|") == 5000
    assert text.endswith("| 4999 | 行4999 |")


def test_empty_sheets_are_no_text() -> None:
    with pytest.raises(NoText):
        text_of("b.xlsx", workbook({"S": sheet(""), "T": sheet('<row r="1"><c r="A1" s="1"/></row>')}))


def test_a_cut_off_workbook_is_damaged() -> None:
    data = workbook({"S": sheet(cells(1, "a", "b"))})
    with pytest.raises(CorruptContent):
        text_of("b.xlsx", data[: len(data) // 2])
    with pytest.raises(CorruptContent):
        text_of("b.xlsx", workbook({"S": "<sheetData><row><c"}))


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("0%", 0.25, "25%"),
        ("0.00%", 0.0256, "2.56%"),
        ("#,##0.00", -1599.99, "-1599.99"),
        ("#,##0", 1234567, "1234567"),
        ('"¥"#,##0.00', 12.5, "¥12.50"),
        ("[$€-407] #,##0.0", 2.25, "€ 2.3"),
        ("$#,##0.00;[Red]($#,##0.00)", -3, "($3.00)"),
        ("000000", 42, "000042"),
        ("0.00E+00", 12345, "1.23E+04"),
        ("# ?/?", 2.5, "2.5"),
        ("General", 0.1 + 0.2, "0.3"),
        ("@", 110101199001.0, "110101199001"),
        ("0.0#", 1.5, "1.5"),
        ("0,", 12000, "12"),
        ("000-0000", 1234567, "1234567"),
        ("yyyy-mm-dd", 45413, "2024-05-01"),
        ("m/d/yy h:mm", 45413.5, "2024-05-01 12:00"),
        ('yyyy"年"m"月"d"日"', 45413, "2024年5月1日"),
        ("mmm-yy", 45413, "2024-05"),
        ("h:mm:ss AM/PM", 0.75, "18:00:00"),
        ("[h]:mm", 1.5, "36:00:00"),
        ("yyyy", -1, "-1"),
        ("yyyy", 1e300, "1e+300"),
        (';;;"hidden"', 5, "5"),
        ('"yes";"no"', 1, "yes"),
        ("General", float("nan"), "nan"),
        ("[h]:mm", float("inf"), "inf"),
        ("0.00", float("-inf"), "-inf"),
    ],
)
def test_numbers_as_shown(code: str, value: float, shown: str) -> None:
    assert formatter(code)(value) == shown


def test_dates_since_1904() -> None:
    assert formatter("yyyy-mm-dd", since_1904=True)(43951) == "2024-05-01"


# --- ODS ---------------------------------------------------------------------------


def ods(body: str) -> bytes:
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text", "style")
    )
    content = (
        f"<office:document-content {spaces}><office:automatic-styles><style:style style:name='h'>"
        "<style:table-properties table:display='false'/></style:style></office:automatic-styles>"
        f"<office:body><office:spreadsheet>{body}</office:spreadsheet></office:body></office:document-content>"
    )
    return zipped({"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": content})


def test_ods_shows_cells_and_does_not_blow_up_repeated_ones() -> None:
    body = (
        "<table:table table:name='甲'><table:table-header-rows><table:table-row>"
        "<table:table-cell><text:p>名</text:p></table:table-cell><table:table-cell><text:p>比例</text:p></table:table-cell>"
        "</table:table-row></table:table-header-rows><table:table-row><table:table-cell><text:p>a<text:s/>b</text:p>"
        "</table:table-cell><table:table-cell office:value='0.025'><text:p>2.5%</text:p></table:table-cell>"
        "<table:table-cell table:number-columns-repeated='16382'/></table:table-row>"
        "<table:table-row table:number-rows-repeated='1048574'><table:table-cell "
        "table:number-columns-repeated='16384'/>"
        "</table:table-row></table:table>"
        "<table:table table:name='乙' table:style-name='h'><table:table-row><table:table-cell>"
        "<text:p>x</text:p>"
        "</table:table-cell></table:table-row></table:table>"
    )
    document = parse(blob("a.ods", ods(body)))
    assert document.text == ("# 甲\n\n| 名 | 比例 |\n| --- | --- |\n| a b | 2.5% |\n\n# 乙 (hidden)\n\nx")
    assert document.warnings


# --- XLSB --------------------------------------------------------------------------


def record(kind: int, content: bytes) -> bytes:
    head = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
    size, length = len(content), b""
    while True:
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if not size:
            return head + length + content


def wide(value: str) -> bytes:
    return struct.pack("<I", len(value)) + value.encode("utf-16-le")


def xlsb(cells_of_a_row: bytes) -> bytes:
    relation = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1"'
        ' Type="x/worksheet" Target="worksheets/sheet1.bin"/></Relationships>'
    )
    styles = record(44, struct.pack("<H", 200) + wide("0.0%")) + record(617, b"\x02\0\0\0")
    styles += record(47, struct.pack("<HH", 0, 0)) + record(47, struct.pack("<HH", 0, 200)) + record(618, b"")
    return zipped(
        {
            "xl/workbook.bin": record(156, struct.pack("<II", 1, 1) + wide("r1") + wide("表")),
            "xl/_rels/workbook.bin.rels": relation,
            "xl/sharedStrings.bin": record(19, b"\0" + wide("共享")),
            "xl/styles.bin": styles,
            "xl/worksheets/sheet1.bin": record(0, struct.pack("<I", 0) + b"\0" * 12) + cells_of_a_row,
        }
    )


def test_xlsb_cells_of_every_kind() -> None:
    def cell(kind: int, column: int, value: bytes, style: int = 0) -> bytes:
        return record(kind, struct.pack("<II", column, style) + value)

    row = (
        cell(7, 0, struct.pack("<I", 0)) + cell(6, 1, wide("直接")) + cell(5, 2, struct.pack("<d", 0.125), 1)
    )
    row += cell(2, 3, struct.pack("<i", 42 << 2 | 2)) + cell(2, 4, struct.pack("<i", 1234 << 2 | 3))
    row += cell(4, 5, b"\1") + cell(3, 6, b"\x2a")
    document = parse(blob("a.xlsb", xlsb(row)))
    assert document.text.split("\n")[-1] == "| 共享 | 直接 | 12.5% | 42 | 12.34 | TRUE | #N/A |"
    assert document.headings[0].path == ("表 (hidden)",)


def test_a_cut_off_xlsb_is_damaged() -> None:
    with pytest.raises(CorruptContent):
        parse(blob("a.xlsb", xlsb(record(6, struct.pack("<II", 0, 0) + wide("abc"))[:-3])))


# --- XLS ---------------------------------------------------------------------------


def xls(rows: Sequence[Sequence[str | float]]) -> bytes:
    """Excel 4: one sheet as one stream of records, without a container."""
    out = io.BytesIO()

    def write(kind: int, content: bytes) -> None:
        out.write(struct.pack("<HH", kind, len(content)) + content)

    write(0x0409, struct.pack("<HHH", 0x0400, 0x10, 0))
    write(0x0042, struct.pack("<H", 936))
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            place = struct.pack("<HHH", number, column, 0)
            if isinstance(value, str):
                raw = value.encode("gb18030")
                write(0x0204, place + struct.pack("<H", len(raw)) + raw)
            else:
                write(0x0203, place + struct.pack("<d", value))
    write(0x000A, b"")
    return out.getvalue()


def test_xls_of_before_containers_is_read_by_its_code_page() -> None:
    text = text_of("a.xls", xls([["城市", "人口"], ["北京", 2189.5], ["上海", 2487.0]]))
    assert text.endswith("| 城市 | 人口 |\n| --- | --- |\n| 北京 | 2189.5 |\n| 上海 | 2487 |")


def test_excel_2003_xml_under_the_name_xls() -> None:
    rows = "<Row><Cell><Data ss:Type='String'>名</Data></Cell><Cell ss:Index='3'><Data>日</Data></Cell></Row>"
    rows += "<Row><Cell><Data ss:Type='Number'>1.5</Data></Cell><Cell/><Cell>"
    rows += "<Data ss:Type='DateTime'>2024-05-01T00:00:00.000</Data></Cell></Row>"
    book = (
        '<?xml version="1.0" encoding="gbk"?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet"'
        ' xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet">'
        f'<Worksheet ss:Name="表"><Table>{rows}</Table></Worksheet></Workbook>'
    )
    assert text_of("a.xls", book.encode("gbk")) == "# 表\n\n| 名 | 日 |\n| --- | --- |\n| 1.5 | 2024-05-01 |"
    with pytest.raises(CorruptContent):
        text_of("a.xls", book.encode("gbk")[:-30])


def test_a_container_that_is_cut_off_is_damaged() -> None:
    with pytest.raises(ContentError):
        parse(blob("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600))
