"""Parser plugins as installed packages, and large sheets, in the real worker processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from making import blob, workbook
from ragstone.errors import ParserFailed
from ragstone.parse.sandbox import ParserPool

pytestmark = pytest.mark.anyio

GOOD = """
from ragstone.types import Document

class Reversed:
    def accepts(self, blob):
        return blob.data.startswith(b"REV:")

    def parse(self, blob):
        return Document(text=blob.data[4:].decode()[::-1], uri=blob.uri, title=blob.name)
"""


@pytest.fixture
async def pool() -> AsyncIterator[ParserPool]:
    pool = ParserPool(workers=1, timeout=60)
    with anyio.fail_after(120):
        yield pool
    await pool.aclose()


def install(folder: Path, code: str) -> None:
    """What pip leaves behind for a package with one parser."""
    (folder / "made_plugin.py").write_text(code)
    about = folder / "made_plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: made-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ragstone.parsers]\nreversed = made_plugin:Reversed\n")


async def test_a15_an_installed_plugin_is_used_by_the_workers(
    pool: ParserPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, GOOD)
    monkeypatch.syspath_prepend(tmp_path)
    assert (await pool(blob("a.txt", b"REV:abc"))).text == "cba"
    assert (await pool(blob("a.txt", b"abc"))).text == "abc"


async def test_a_broken_plugin_is_named_and_the_worker_goes_on(
    pool: ParserPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):
        with pytest.raises(ParserFailed, match=r"reversed.*no_such_module") as caught:
            await pool(blob("a.txt", b"abc"))
        assert caught.value.key == "parse.plugin"


async def test_a_sheet_of_40_000_rows_is_read_within_the_limits(pool: ParserPool) -> None:
    def cells(number: int, kind: str, value: str) -> str:
        inside = "".join(
            f'<c r="{chr(65 + n)}{number}"{kind}>{value.format(number * n)}</c>' for n in range(10)
        )
        return f'<row r="{number}">{inside}</row>'

    head = cells(1, ' t="inlineStr"', "<is><t>列{}</t></is>")
    rows = "".join(cells(number, "", "<v>{}</v>") for number in range(2, 40_002))
    sheet = f"<sheetData>{head}{rows}</sheetData>"
    document = await pool(blob("a.xlsx", workbook({"S": sheet})))
    assert document.text.count("\n| ") == 40_002  # with the line below the head
    assert document.text.endswith("| 320008 | 360009 |")
