"""Pictures and scans: read by OCR where it is installed, else with the reason."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

from making import blob, lines, pdf
from ragstone.errors import ContentTooLarge, CorruptContent, NoText
from ragstone.parse import ocr, picture
from ragstone.parse.ocr import _Line, _written
from ragstone.parse.router import parse
from ragstone.parse.sandbox import ParserPool

needs_ocr = pytest.mark.skipif(not ocr.installed(), reason="ragstone[ocr] is not installed")
needs_pillow = pytest.mark.skipif(find_spec("PIL") is None, reason="Pillow is not installed")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def rendered(*text: str, rotate: int = 0):
    """A small picture of a page with these lines: OCR takes seconds."""
    import pypdfium2
    from PIL import Image

    made = pypdfium2.PdfDocument(pdf([lines(*text, size=20)]))
    page = made[0].render(scale=1).to_pil().crop((50, 20, 290, 220))
    made.close()
    assert isinstance(page, Image.Image)
    return page.rotate(rotate, expand=True)


def saved(image: object, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)  # type: ignore[attr-defined]
    return buffer.getvalue()


def test_without_the_extra_a_picture_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "installed", lambda: False)
    for name, data, key in (
        ("a.png", PNG, "parse.image"),
        ("a.pdf", pdf(["", ""], picture=True), "parse.scan"),
    ):
        with pytest.raises(NoText, match=r"pip install .*\[ocr\]") as caught:
            parse(blob(name, data))
        assert caught.value.key == key
        assert "[ocr]" in caught.value.text("zh")


@needs_ocr
@pytest.mark.anyio
async def test_a_scan_in_a_pdf_is_read_page_by_page_in_the_sandbox() -> None:
    import pypdfium2

    made = pypdfium2.PdfDocument(saved(rendered("Scanned words", rotate=90), "PDF", resolution=72))
    made.import_pages(pypdfium2.PdfDocument(pdf([lines("Typed words here")])))
    buffer = io.BytesIO()
    made.save(buffer)
    pool = ParserPool(workers=1)
    document = await pool(blob("a.pdf", buffer.getvalue()))
    await pool.aclose()
    first, second = document.pages
    assert "Scanned words" in document.text[first.start : first.end]
    assert "Typed words here" in document.text[second.start : second.end]
    (remark,) = document.warnings
    assert (remark.key, remark.values["pages"]) == ("parse.read_by_ocr", "1")


@needs_ocr
def test_each_frame_of_a_tiff_is_a_page() -> None:
    data = saved(rendered("First frame"), "TIFF", save_all=True, append_images=[rendered("Second frame")])
    document = parse(blob("a.tif", data))
    first, second = (document.text[page.start : page.end] for page in document.pages)
    assert "First frame" in first
    assert "Second frame" in second
    assert document.media_type == "image/tiff"
    assert [remark.key for remark in document.warnings] == ["parse.read_by_ocr"]


@needs_ocr
def test_a_picture_without_text_holds_none() -> None:
    from PIL import Image

    with pytest.raises(NoText) as caught:
        parse(blob("a.png", saved(Image.new("RGBA", (60, 40), (0, 90, 0, 128)), "PNG")))
    assert caught.value.key == "parse.picture_empty"


@needs_ocr
def test_damaged_and_huge_pictures_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorruptContent):
        parse(blob("a.png", PNG))
    good = saved(rendered("words"), "PNG")
    with pytest.raises(CorruptContent):
        parse(blob("a.png", good[: len(good) // 2]))
    monkeypatch.setattr(picture, "MAX_PIXELS", 1_000)
    with pytest.raises(ContentTooLarge):
        parse(blob("a.png", good))


@pytest.mark.parametrize(("large", "text"), [(True, "read from the picture"), (False, "Stamped 2026")])
def test_a_stamp_on_a_scan_is_not_its_text(monkeypatch: pytest.MonkeyPatch, large: bool, text: str) -> None:
    monkeypatch.setattr(ocr, "installed", lambda: True)
    monkeypatch.setattr(ocr, "read", lambda pixels: "read from the picture")
    shrink = "" if large else "0.2 0 0 0.2 0 0 cm "
    document = parse(blob("a.pdf", pdf([lines("Stamped 2026") + f" {shrink}"], picture=True)))
    assert text in document.text


# --- reading order -------------------------------------------------------------------


def placed(*texts: tuple[str, float, float, float]) -> list[_Line]:
    return [_Line(text, left, top, left + width, top + 20) for text, left, top, width in texts]


def column(left: float, words: Sequence[str], top: float = 100) -> list[_Line]:
    return placed(*((word, left, top + 30 * number, 300) for number, word in enumerate(words)))


def test_two_columns_are_read_one_after_the_other() -> None:
    page = [
        *placed(("Title", 50, 20, 700)),
        *column(50, ["a1", "a2", "a3", "a4", "a5"]),
        *column(450, ["b1", "b2", "b3", "b4", "b5"]),
    ]
    assert _written(page).split() == ["Title", "a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3", "b4", "b5"]


def test_the_cells_of_a_table_stay_in_their_row() -> None:
    cells = [
        (f"{name}{row}", 50 + 200 * at, 100 + 30 * row, 60)
        for row in range(6)
        for at, name in enumerate("abc")
    ]
    assert _written(placed(*cells)).splitlines()[1] == "a1 b1 c1"


def test_chinese_lines_that_are_full_are_joined() -> None:
    page = placed(("蒸汽涡轮由安装在", 50, 100, 300), ("驱动轴上。", 50, 130, 200), ("另一段", 50, 220, 100))
    assert _written(page) == "蒸汽涡轮由安装在驱动轴上。\n\n另一段"
