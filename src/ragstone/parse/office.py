"""ODT, ODP and EPUB through xberg.

Only the types whose every document in the acceptance set xberg reads right go this way;
the others have readers of their own.
"""

from __future__ import annotations

import asyncio
import re

from ragstone.errors import CorruptContent
from ragstone.parse.decode import tidy_characters
from ragstone.parse.odf import refuse_encrypted
from ragstone.parse.outline import document, markdown_headings
from ragstone.parse.package import Package
from ragstone.types import Blob, Document

MEDIA_TYPES = {
    "ODT": "application/vnd.oasis.opendocument.text",
    "ODP": "application/vnd.oasis.opendocument.presentation",
    "EPUB": "application/epub+zip",
}

_ESCAPED = re.compile(r"\\([*_`~<>\[\]()!.+{}&-])")
_PICTURE = re.compile(r"!\[[^\[\]\n]*\]\([^()\n]*\)")


def parse_office(blob: Blob, package: Package) -> Document:
    """The text of a package of one of `MEDIA_TYPES`, which `package.found` names.

    Raises:
        PasswordRequired, CorruptContent, ContentTooLarge, NoText
    """
    refuse_encrypted(blob, package)
    package.check_size()
    content, title = _extract(blob, package.found)
    text = _ESCAPED.sub(r"\1", _PICTURE.sub("", tidy_characters(content))).strip()
    headings = markdown_headings(text)
    first = next((heading.title for heading in headings if heading.level == 1), "")
    return document(
        blob, text, media_type=MEDIA_TYPES[package.found], title=title or first, headings=headings
    )


def _extract(blob: Blob, found: str) -> tuple[str, str]:
    """xberg's Markdown and title. It has its own event loop: this runs in a worker process."""
    import xberg

    config = xberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        output_format="markdown",
        escape_markdown=False,
        max_archive_depth=0,
    )
    source = xberg.ExtractInput(kind="bytes", bytes=blob.data, mime_type=MEDIA_TYPES[found])

    async def extract() -> xberg.ExtractionResult:
        return await xberg.extract(source, config)

    try:
        result = asyncio.run(extract())
    except (xberg.XbergError, RuntimeError) as error:
        raise CorruptContent("parse.corrupt", name=blob.name, found=found, reason=_short(error)) from error
    if not result.results:
        reason = _short(result.errors[0].message) if result.errors else "no content"
        raise CorruptContent("parse.corrupt", name=blob.name, found=found, reason=reason)
    read = result.results[0]
    return read.content, read.metadata.title or ""


def _short(reason: object) -> str:
    return " ".join(str(reason).split())[:200]
