"""PDF page by page: Markdown by LiteParse, checked against the plain text PDFium gives.

LiteParse finds headings, tables and columns but loses words on some pages (rotated text,
vertical writing); PDFium's plain text has every word and no structure. So each page takes
the Markdown where it holds what the plain text holds, and the plain text where not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ragstone.errors import CorruptContent, NoText, PasswordRequired, install_command
from ragstone.parse import ocr
from ragstone.parse.boxes import Block, located
from ragstone.parse.decode import tidy_characters
from ragstone.parse.outline import MAX_HEADING, Heading, document, markdown_headings
from ragstone.parse.pdf_notes import notes
from ragstone.types import Blob, Box, Document, PageSpan, Remark

if TYPE_CHECKING:
    from liteparse.types import AnnotationRect, LayoutBlock

AGREEMENT = 0.97
"""The share of a page's words that its Markdown must hold to be taken. Of 1,000 pages measured
those that read well lie at 0.98 and above, those with turned or vertical text below 0.97."""

GARBLED = 0.3
"""The share of characters without meaning above which a document is refused."""


STAMP = 80
"""Letters on a page that is one large picture below which they are taken for a stamp on a scan."""


@dataclass(slots=True)
class _Page:
    """One page: its plain text (None when PDFium could not load it), if it shows a picture, or is one."""

    plain: str | None
    picture: bool
    scan: bool = False
    markdown: str = ""
    blocks: list[Block] = field(default_factory=list[Block])
    notes: list[str] = field(default_factory=list[str])

    def text(self) -> str:
        """The better reading, then as quotes the notes that it does not show."""
        text = self.plain or ""
        if self.plain is None or (self.markdown and _agreement(self.plain, self.markdown) >= AGREEMENT):
            text = self.markdown
        shown = _squashed(text) if self.notes else ""
        unseen = ["> " + " ".join(note.split()) for note in self.notes if _squashed(note) not in shown]
        return "\n\n".join(filter(None, [text, *unseen]))


def parse_pdf(blob: Blob) -> Document:
    """Text, pages and headings of a PDF.

    Raises:
        PasswordRequired: it opens with a password only.
        CorruptContent: neither reader can open it, or what they read is not text.
        NoText: it has no text layer.
    """
    pages, title = _read_plain(blob)
    _add_markdown(blob, pages)
    texts = [page.text() for page in pages]
    by_ocr = _read_scanned(blob, texts, _unread(pages, texts))
    if not any(map(_says_something, texts)):
        if any(page.picture for page in pages) and not ocr.installed():
            raise NoText("parse.scan", name=blob.name, pages=len(pages), command=install_command("ocr"))
        if all(page.plain is None for page in pages):
            raise CorruptContent("parse.corrupt", name=blob.name, found="PDF", reason="no readable page")
        raise NoText("parse.no_text", name=blob.name)
    _refuse_garbled(blob, texts)
    text, spans, headings = _joined(texts)
    first = next((heading.title for heading in headings if heading.level == 1), "")
    return document(
        blob,
        text,
        media_type="application/pdf",
        title=title or first,
        headings=headings,
        pages=spans,
        warnings=[*_warnings(blob, pages, texts), *by_ocr],
        boxes=sorted(_boxes(pages, texts, spans), key=lambda box: (box.start, box.end)),
    )


def _boxes(pages: Sequence[_Page], texts: Sequence[str], spans: Sequence[PageSpan]) -> Iterator[Box]:
    for page, text, span in zip(pages, texts, spans, strict=True):
        yield from located(text, page.blocks, page=span.number, offset=span.start)


# --- the two readers ---------------------------------------------------------------


def _read_plain(blob: Blob) -> tuple[list[_Page], str]:
    """Every page as PDFium reads it, and the title in the file's metadata."""
    # Both libraries come without type stubs; what leaves this function is typed.
    import pypdfium2
    import pypdfium2.raw as raw

    try:
        pdf: Any = pypdfium2.PdfDocument(blob.data)
    except pypdfium2.PdfiumError as error:
        # PDFium may report the error of an earlier file; only an encrypted one has this key.
        code = cast("int | None", error.err_code)  # pyright: ignore[reportUnknownMemberType]
        if code == raw.FPDF_ERR_PASSWORD and b"/Encrypt" in blob.data:
            raise PasswordRequired("parse.password", name=blob.name) from error
        raise CorruptContent(
            "parse.corrupt", name=blob.name, found="PDF", reason=str(error).rstrip(".")
        ) from error
    try:
        pages: list[_Page] = []
        for index in range(len(pdf)):
            try:
                page: Any = pdf[index]
                plain = cast("str", page.get_textpage().get_text_range())
                pictures = list(page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3))
                scan = any(_covers(picture.get_bounds(), page.get_size()) for picture in pictures)
            except pypdfium2.PdfiumError:
                pages.append(_Page(None, picture=False))
            else:
                read = _Page(_tidy_plain(plain), picture=bool(pictures), scan=scan, notes=list(notes(page)))
                pages.append(read)
        return pages, _sane_title(cast("str", pdf.get_metadata_value("Title")))
    finally:
        pdf.close()


def _covers(bounds: tuple[float, float, float, float], size: tuple[float, float]) -> bool:
    """Whether a picture takes most of its page."""
    left, bottom, right, top = bounds
    return (right - left) * (top - bottom) > 0.6 * size[0] * size[1]


def _add_markdown(blob: Blob, pages: list[_Page]) -> None:
    from liteparse.parser import LiteParse
    from liteparse.types import ParseError

    reader = LiteParse(
        ocr_enabled=False,
        output_format="markdown",
        quiet=True,
        num_workers=1,
        image_mode="off",
        extract_links=False,
        extract_blocks=True,
        continue_on_page_error=True,
        keep_headers_footers=True,
    )
    try:
        read = reader.parse(blob.data).pages
    except ParseError:
        return  # the plain text stands alone
    for page in read:
        if 0 < page.page_num <= len(pages):
            kept = pages[page.page_num - 1]
            kept.markdown = _tidy_markdown(page.markdown, kept.plain or "")
            kept.blocks = [piece for block in page.blocks or () for piece in _pieces(block)]


def _pieces(block: LayoutBlock) -> Iterator[Block]:
    """A block with its region; of a table a row each, where the cells say where they are."""
    for row in [block.header or [], *(block.rows or [])]:
        text = " ".join(cell.text for cell in row)
        cells = [cell.bbox for cell in row if cell.bbox]
        if cells:
            yield Block(text, _around(cells))
    if block.bbox and (text := block.text or "\n".join(block.lines or ())):
        yield Block(text, _around([block.bbox]))


def _around(regions: Sequence[AnnotationRect]) -> tuple[float, float, float, float]:
    return (
        min(region.x for region in regions),
        min(region.y for region in regions),
        max(region.x + region.width for region in regions),
        max(region.y + region.height for region in regions),
    )


# --- plain text --------------------------------------------------------------------

_HYPHEN_AT_LINE_END = re.compile("[\ufffe\x02](\r?\n)?")


def _tidy_plain(text: str) -> str:
    # PDFium marks a hyphen that only broke a word at the line's end.
    text = _HYPHEN_AT_LINE_END.sub("", text)
    lines = (line.rstrip() for line in tidy_characters(text).split("\n"))
    return "\n".join(lines).strip("\n")


_EMPTY_FENCE = re.compile(r"^```\w*\n\s*\n?```$", re.MULTILINE)
_ESCAPED = re.compile(r"\\([*_`~<>\[\]()!.+{}-])")
_CJK = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_CJK_LINE_END = re.compile(f"([^\n]{{0,2}}[{_CJK}])\n([{_CJK}][^\n]{{0,2}})")


# LiteParse writes typewriter signs for these; the words that hold them get their own back.
_TYPED = str.maketrans({"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "−": "-"})
_TYPOGRAPHIC = re.compile(r"[\w‘’“”„‚−]*\w[‘’“”„‚−]+\w*|[‘’“”„‚−]+\w+")


def _tidy_markdown(markdown: str, plain: str) -> str:
    """LiteParse's Markdown without escapes, empty fences, and spaces where a Chinese line was broken."""
    text = _EMPTY_FENCE.sub("", tidy_characters(markdown))
    text = _ESCAPED.sub(r"\1", text)
    for match in _CJK_LINE_END.finditer(plain):
        text = text.replace(f"{match[1]} {match[2]}", match[1] + match[2])
    for word in sorted(set(_TYPOGRAPHIC.findall(plain)), key=len, reverse=True):
        text = text.replace(word.translate(_TYPED), word)
    return text.strip()


def _squashed(text: str) -> str:
    """What both readers must agree on: letters and digits, without marks, spaces and case."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text))).casefold()


def _agreement(plain: str, markdown: str) -> float:
    """The share of the words of `plain` that stand in `markdown`, wherever the layout put them.

    Writing without spaces is cut into pieces of four characters.
    """
    whole = _squashed(markdown)
    pieces: list[str] = []
    for word in map(_squashed, plain.split()):
        size = len(word) if word.isascii() and len(word) <= 12 else 4
        pieces += [word[start : start + size] for start in range(0, len(word), size or 1)]
    return sum(piece in whole for piece in pieces) / len(pieces) if pieces else 1.0


# --- scanned pages -------------------------------------------------------------------


def _unread(pages: Sequence[_Page], texts: Sequence[str]) -> list[int]:
    """Pages, from 0, that show a picture instead of text, or whose text is no text.

    What scanning programs stamp on a picture of a page is not its text either.
    """
    return [
        index
        for index, (page, text) in enumerate(zip(pages, texts, strict=True))
        if (page.picture and not _says_something(text))
        or (page.scan and len(_squashed(text)) < STAMP)
        or _is_garbled(text)
    ]


def _read_scanned(blob: Blob, texts: list[str], unread: Sequence[int]) -> list[Remark]:
    """Fill in the text of these pages by OCR, where it is installed; a remark says which they are."""
    if not unread or not ocr.installed():
        return []
    import pypdfium2

    read: list[int] = []
    pdf: Any = pypdfium2.PdfDocument(blob.data)
    try:
        for done, index in enumerate(unread[: ocr.MAX_PAGES]):
            ocr.progress(done, min(len(unread), ocr.MAX_PAGES))
            try:
                text = ocr.read(_rendered(pdf[index]))
            except pypdfium2.PdfiumError:
                continue
            if len(text) > len(texts[index]) or _is_garbled(texts[index]):
                texts[index] = text or texts[index]
                read.append(index + 1)
    finally:
        pdf.close()
    return [Remark(key="parse.read_by_ocr", values=_page_values(blob, read))] if read else []


def _rendered(page: Any) -> Any:
    width, height = cast("tuple[float, float]", page.get_size())
    scale = min(ocr.MAX_DPI / 72, ocr.LONG_SIDE / max(width, height, 1.0))
    return page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False).to_numpy()[:, :, :3]


# --- judging -----------------------------------------------------------------------


def _says_something(text: str) -> bool:
    return any(character.isalnum() for character in text)


# Blocks of scripts so rare that two of them in one text are a broken font table.
_RARE = ((0x1400, 0x167F), (0x1680, 0x169F), (0x1700, 0x177F), (0x1900, 0x194F), (0x1950, 0x197F),
         (0x1980, 0x19DF), (0x1A00, 0x1AAF), (0x1B00, 0x1B7F), (0x1C00, 0x1C7F), (0xA000, 0xA4FF),
         (0xA500, 0xA63F), (0xA840, 0xA87F))  # fmt: skip


def _refuse_garbled(blob: Blob, texts: Sequence[str]) -> None:
    if _is_garbled(sample := "".join("".join(text.split()) for text in texts)[:50_000]):
        raise CorruptContent("parse.garbled", name=blob.name, sample=repr(sample[:12]))


def _is_garbled(text: str) -> bool:
    sample = "".join(text.split())
    bad = sum(map(_is_meaningless, sample)) + 6 * len(re.findall(r"\(cid:\d+\)", sample))
    rare = [block for character in sample for block in _RARE if block[0] <= ord(character) <= block[1]]
    mixed = len(set(rare)) > 1 and len(rare) > len(sample) / 2
    return mixed or bad > GARBLED * len(sample)


def _is_meaningless(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in ("Co", "Cn", "Cc", "Cs")


_BY_ITSELF = re.compile(
    r"\(?(untitled|anonymous|无标题|document|文档|book|slide|powerpoint presentation)\)?[\s\w]{0,15}"
    r"|.*\.(docx?|dotx?|pptx?|xlsx?|pdf|indd|tex|dvi|qxd|html?|odt|txt|exe|tmp|ps|fm|wpd|rtf|p65)",
    re.IGNORECASE,
)


def _sane_title(title: str) -> str:
    """The title of the metadata, unless it is what a program put there by itself."""
    title = " ".join(tidy_characters(title).split())
    title = re.sub(r"^Microsoft (Word|PowerPoint|Excel) - ", "", title)
    if len(title) > MAX_HEADING or not _says_something(title) or any(map(_is_meaningless, title)):
        return ""
    return "" if _BY_ITSELF.fullmatch(title) else title


def _warnings(blob: Blob, pages: Sequence[_Page], texts: Sequence[str]) -> Iterator[Remark]:
    numbered = list(enumerate(zip(pages, texts, strict=True), 1))
    damaged = [number for number, (page, text) in numbered if page.plain is None and not text]
    pictures = [number for number, (page, text) in numbered if page.picture and not _says_something(text)]
    for key, numbers in (("parse.pages_damaged", damaged), ("parse.pages_without_text", pictures)):
        if numbers:
            yield Remark(key=key, values=_page_values(blob, numbers))


def _page_values(blob: Blob, numbers: Sequence[int]) -> dict[str, str | int]:
    shown = ", ".join(map(str, numbers[:20])) + (" ..." if len(numbers) > 20 else "")
    return {"name": blob.name, "pages": shown}


def _joined(texts: Sequence[str]) -> tuple[str, list[PageSpan], list[Heading]]:
    """Pages with a blank line between them; a page's span ends where the next page starts."""
    parts: list[str] = []
    spans: list[PageSpan] = []
    headings: list[Heading] = []
    start = 0
    for number, text in enumerate(texts, 1):
        part = f"{text}\n\n" if text and number < len(texts) else text
        headings += markdown_headings(text, offset=start)
        spans.append(PageSpan(number=number, start=start, end=start + len(part)))
        parts.append(part)
        start += len(part)
    return "".join(parts), spans, headings
