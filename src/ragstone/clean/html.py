"""Tags out of a text that still has them, such as a field of a JSON file or a database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from ragstone.clean.edits import Edit, edited, revised
from ragstone.types import Document

_BLOCKS = (
    "address|article|aside|blockquote|br|center|dd|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]"
    "|head|header|hr|html|body|li|main|nav|ol|option|p|pre|section|table|tbody|td|tfoot|th|thead|title|tr|ul"
)
_INLINE = (
    "a|abbr|b|big|button|cite|code|del|dfn|em|font|i|iframe|img|input|ins|kbd|label|link|mark|meta|object|q|s"
    "|samp|select|small|span|strike|strong|sub|sup|svg|time|tt|u|var|video|wbr"
)
# No tag is longer; without a limit an unclosed `<p ` would be read to the end, again and again.
_REST = r"(?:\s[^<>]{0,2000})?/?>"
_MARKUP = re.compile(
    r"<(?P<silent>script|style|template|noscript)\b[^<>]{0,2000}>.*?</(?P=silent)\s*>"
    r"|<!--.*?-->|<!doctype[^<>]{0,2000}>"
    rf"|\s*</?(?P<block>{_BLOCKS}){_REST}\s*"
    rf"|</?(?:{_INLINE}){_REST}"
    r"|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",
    re.IGNORECASE | re.DOTALL,
)
_HALF = re.compile("[\ud800-\udfff\x00]")


@revised("html_to_text/1")
def html_to_text(document: Document) -> Document:
    """Takes HTML tags, comments, scripts and styles away and writes entities as characters.

    Only what HTML knows is a tag: `a < b` and `List<String>` stay. Blocks end a line.
    """
    if "<" not in document.text and "&" not in document.text:
        return document
    return edited(document, _edits(document.text))


def _edits(text: str) -> Iterator[Edit]:
    for match in _MARKUP.finditer(text):
        found = match.group()
        if found.startswith("&"):
            new = _HALF.sub("\ufffd", unescape(found))
        elif match["block"]:
            cell = match["block"].lower() in ("td", "th")
            new = " " if cell else "\n"
        else:
            new = ""
        yield match.start(), match.end(), new
