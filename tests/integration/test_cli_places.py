"""Pages, sheets, rows and sections as the command line shows them."""

from __future__ import annotations

import uuid
from pathlib import Path

from command_line import CommandLine

from making import lines, pdf, workbook

QUOTE = "Dogs travel free of charge on the upper deck."


def row(number: int, *values: str) -> str:
    held = "".join(
        f'<c r="{chr(65 + column)}{number}" t="inlineStr"><is><t>{value}</t></is></c>'
        for column, value in enumerate(values)
    )
    return f'<row r="{number}">{held}</row>'


def test_pages_rows_and_sections_are_shown_and_stand_in_json(ragstone: CommandLine, tmp_path: Path) -> None:
    base = f"b-{uuid.uuid4().hex[:8]}"
    ferry, fares, note = tmp_path / "ferry.pdf", tmp_path / "fares.xlsx", tmp_path / "note.md"
    ferry.write_bytes(pdf([lines("The night ferry leaves at 22:15", "and takes two hours."), lines(QUOTE)]))
    rows = row(3, "stop", "price") + row(4, "Halm", "three euros") + row(8, "Zandvoort", "four euros")
    fares.write_bytes(workbook({"Prices": f"<sheetData>{rows}</sheetData>"}))
    note.write_text("---\ntitle: Harbour\n---\n# Opening\n\nThe lighthouse opens at six.\n")
    ragstone("add", ferry, fares, note, "--base", base)

    answer = ragstone("ask", "Do dogs travel free of charge?", "--base", base, "--json").json
    citation = next(one for one in answer["citations"] if one["quote"] == QUOTE)
    assert (citation["page"], citation["page_end"], citation["place"]["page"]) == (2, 2, 2)
    told = ragstone("ask", "Do dogs travel free of charge?", "--base", base, COLUMNS="300").out
    assert "ferry.pdf, page 2" in told
    hits = ragstone("search", "dogs travel", "--base", base, "--json").json["hits"]
    hit = next(hit for hit in hits if hit["title"] == "ferry.pdf")
    assert (hit["page"], hit["page_end"]) == (1, 2)
    assert "ferry.pdf, pages 1–2" in ragstone("search", "dogs travel", "--base", base, COLUMNS="300").out
    (chunk,) = ragstone("show", "ferry.pdf", "--base", base, "--chunks", "--json").json["chunks"]
    assert (chunk["page"], chunk["page_end"]) == (1, 2)

    answer = ragstone("ask", "What is the price of Zandvoort?", "--base", base, "--json").json
    citation = next(one for one in answer["citations"] if "Zandvoort" in one["quote"])
    assert {name: citation["place"][name] for name in ("sheet", "row")} == {"sheet": "Prices", "row": 8}
    chinese = ragstone(
        "search", "Zandvoort four euros", "--base", base, RAGSTONE_LANG="zh", COLUMNS="300"
    ).out
    assert "fares.xlsx，工作表“Prices”，第 3–8 行" in chinese
    sections = ragstone("search", "lighthouse opens", "--base", base, COLUMNS="300").out
    assert "Harbour, section “Opening”" in sections
