"""HTML to Markdown: the main content with headings, lists, tables and code; no page furniture."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Literal, TypeAlias

from selectolax.lexbor import LexborHTMLParser, LexborNode

from ragstone.parse.decode import Decoded, tidy_characters
from ragstone.parse.outline import Outline, document, table
from ragstone.parse.text import damage
from ragstone.types import Blob, Document

_NEVER = frozenset({
    "head", "script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas",
    "audio", "video", "map", "button", "select", "textarea", "input", "datalist", "dialog",
})  # fmt: skip
_FURNITURE = frozenset({"nav", "footer", "aside", "menu"})
_FURNITURE_ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "complementary"})
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5",
    "h6", "header", "hr", "html", "legend", "li", "main", "menu", "nav", "ol", "p", "pre", "section",
    "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", "caption",
})  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN = re.compile(r"(display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_CJK = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_BROKEN_LINE = re.compile(f"(?<=[{_CJK}])[ \t]*\n[ \t]*(?=[{_CJK}])")
_SELF_CLOSED = re.compile(r"<(title|script|style|textarea|iframe|a|div|span|p)(\s[^<>]*)?/>", re.IGNORECASE)

MAX_SPAN = 50
"""Columns or rows one table cell may cover; a page can claim a million."""

Walk: TypeAlias = Iterator[tuple[Literal["open", "close", "text"], LexborNode]]


def parse_html(blob: Blob, decoded: Decoded) -> Document:
    """The page's main content; the whole page where that finds nothing."""
    source = decoded.text
    if source.lstrip().startswith("<?xml"):
        source = _SELF_CLOSED.sub(r"<\1\2></\1>", source)
    page = LexborHTMLParser(source)
    root = page.body or page.root
    outline, page_title = Outline(), _title(page)
    if root is not None:
        _Writer(outline).write(_main(root), furniture=False)
        if not outline.text.strip():
            _Writer(outline).write(root, furniture=True)
    first = next((heading.title for heading in outline.headings if heading.level == 1), "")
    if outline.text.strip() and page_title and not _says_title(first, page_title):
        outline.begin_with(page_title)
    return document(
        blob,
        outline.text,
        media_type="text/html",
        title=first or page_title,
        headings=outline.headings,
        metadata=_metadata(page),
        warnings=damage(blob, decoded),
    )


def _title(page: LexborHTMLParser) -> str:
    node = page.css_first("head > title", default=None)
    return " ".join(tidy_characters(node.text()).split()) if node is not None else ""


def _says_title(first: str, page_title: str) -> bool:
    """Whether the page's title is its first heading, perhaps with the name of the site after it."""
    rest = page_title.removeprefix(first) if first else page_title
    return not rest or (bool(first) and rest.lstrip()[:1] in tuple("|·•-–—_:»"))


def _metadata(page: LexborHTMLParser) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("author", "description"):
        node = page.css_first(f'meta[name="{name}"]', default=None)
        content = node.attributes.get("content") if node is not None else None
        if content and content.strip():
            found[name] = tidy_characters(" ".join(content.split()))[:2000]
    return found


def _main(root: LexborNode) -> LexborNode:
    """The element that holds the content, if one is marked and holds a good part of the text."""
    marked = root.css("main, [role=main]") or root.css("article")
    if len(marked) != 1:
        return root
    whole, inside = _length(root), _length(marked[0])
    return marked[0] if inside >= 0.4 * whole else root


def _length(root: LexborNode) -> int:
    return sum(len((node.text_content or "").strip()) for event, node in _walk(root) if event == "text")


def _walk(root: LexborNode, *, furniture: bool = False) -> Walk:
    """Open and close events of what is to be read, in order; without recursion, pages nest deeply."""
    node: LexborNode | None = root
    while node is not None:
        if node.is_text_node:
            yield "text", node
        elif node.is_element_node and (node.mem_id == root.mem_id or not _dropped(node, furniture)):
            yield "open", node
            if (child := node.first_child) is not None:
                node = child
                continue
            yield "close", node
        while node is not None:
            if node.mem_id == root.mem_id:
                return
            if node.next is not None:
                node = node.next
                break
            node = node.parent
            if node is not None:
                yield "close", node


def _dropped(node: LexborNode, furniture: bool) -> bool:
    tag = node.tag or ""
    if tag in _NEVER:
        return True
    if furniture:
        return False
    if tag in _FURNITURE or (tag == "header" and _is_page_header(node)):
        return True
    attributes = node.attributes
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    role, style = attributes.get("role") or "", attributes.get("style") or ""
    return role in _FURNITURE_ROLES or bool(style and _HIDDEN.search(style))


def _is_page_header(node: LexborNode) -> bool:
    """A header with the site's menu or name, not one that holds the article's title."""
    return node.css_first("nav", default=None) is not None or node.css_first("h1, h2", default=None) is None


class _Writer:
    """Turns the events of one element into blocks of an outline."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._line: list[str] = []
        self._pre = 0
        self._lists: list[int] = []  # -1 for bullets, else the next number
        self._item = ""  # the mark of the list item that is being written
        self._between = "\n\n"

    def write(self, root: LexborNode, *, furniture: bool) -> None:
        skip_until = 0
        for event, node in _walk(root, furniture=furniture):
            if skip_until:
                skip_until = 0 if event == "close" and node.mem_id == skip_until else skip_until
            elif event == "text":
                self._line.append(node.text_content or "")
            elif event == "open":
                if node.tag == "table" and _is_data(node):
                    self._flush()
                    self._outline.block(_table(node, furniture))
                    skip_until = node.mem_id
                else:
                    self._open(node)
            else:
                self._close(node.tag or "")
        self._flush()

    def _open(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "br":
            self._line.append("\v")  # a line end that collapsing keeps
        elif tag == "code" and not self._pre:
            self._line.append("`")
        if tag not in _BLOCKS:
            return
        self._flush()
        if tag == "pre":
            self._pre += 1
        elif tag in ("ul", "ol"):
            start = node.attributes.get("start") or "1"
            self._lists.append(
                -1 if tag == "ul" else int(start) if start.isdecimal() and len(start) < 9 else 1
            )
        elif tag == "li":
            self._start_item()

    def _start_item(self) -> None:
        number = self._lists[-1] if self._lists else -1
        depth = min(max(len(self._lists) - 1, 0), 8)
        self._item = "  " * depth + ("- " if number < 0 else f"{number}. ")
        if number >= 0:
            self._lists[-1] = number + 1

    def _close(self, tag: str) -> None:
        if tag == "code" and not self._pre:
            self._line.append("`")
        if tag not in _BLOCKS:
            return
        if tag in _HEADINGS:
            title = self._text().replace("\n", " ")
            self._outline.heading(_HEADINGS[tag], re.sub(r"\s*[#¶]$", "", title))  # a link to itself
            return
        self._flush()
        if tag == "pre":
            self._pre = max(self._pre - 1, 0)
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
            self._item = ""

    def _text(self) -> str:
        text, self._line = "".join(self._line), []
        return inline(text)

    def _flush(self) -> None:
        """Write what has gathered as one block."""
        if self._pre:
            code, self._line = "".join(self._line).replace("\v", "\n").expandtabs(4), []
            code = textwrap.dedent(tidy_characters(code)).strip("\n")
            if code.strip():
                fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
                self._outline.block(f"{fence}\n{code}\n{fence}")
            return
        text = self._text()
        if not text:
            return
        in_list = bool(self._lists)
        self._outline.block(self._item + text, gap="\n" if in_list and self._between == "\n" else "\n\n")
        self._between = "\n" if in_list else "\n\n"
        self._item = "  " * len(self._lists) if in_list else ""


def inline(text: str) -> str:
    """Text as a browser shows it: runs of white space are one space, `\\v` is a line end."""
    text = _BROKEN_LINE.sub("", text)
    lines = (" ".join(line.split()) for line in text.split("\v"))
    return tidy_characters("\n".join(line for line in lines if line)).replace("``", "")


def _is_data(node: LexborNode) -> bool:
    """Not a table that only places things on the page: headings or other tables in unmarked cells."""
    if node.css_first("th, caption, thead", default=None) is not None:
        return True
    return node.css_first("td table, td h1, td h2, td h3, td pre, td p + p + p", default=None) is None


def _table(node: LexborNode, furniture: bool) -> str:
    """The table as Markdown. A cell that covers rows stands in each; nested tables become text."""
    grid, depth = _Grid(), 0
    for event, part in _walk(node, furniture=furniture):
        tag = part.tag or ""
        if event == "text":
            grid.add(part.text_content or "")
        elif tag == "table":
            depth += 1 if event == "open" else -1
        elif depth == 1 and tag in ("tr", "td", "th", "caption"):
            grid.open(part) if event == "open" else grid.close(tag)
        elif tag in _BLOCKS or tag == "br":
            grid.add(" ")
    return f"{grid.caption}\n\n{table(grid.rows)}".strip()


class _Grid:
    """Rows of a table as its cells open and close."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.caption = ""
        self._cell: list[str] | None = None
        self._span = (1, 1)
        self._waiting: dict[int, tuple[int, str]] = {}  # column -> rows left, text

    def add(self, text: str) -> None:
        if self._cell is not None:
            self._cell.append(text)

    def open(self, node: LexborNode) -> None:
        if node.tag == "tr":
            self.rows.append([])
        else:
            self._cell, self._span = [], (_span(node, "rowspan"), _span(node, "colspan"))

    def close(self, tag: str) -> None:
        if self._cell is None or tag == "tr":
            return
        text, self._cell = inline("".join(self._cell)).replace("\n", " "), None
        if tag == "caption":
            self.caption = text
        elif self.rows:
            _place(self.rows[-1], self._waiting, text, self._span)


def _place(row: list[str], waiting: dict[int, tuple[int, str]], text: str, span: tuple[int, int]) -> None:
    """Add a cell to `row`, after the cells that reach down from rows above (column -> rows left, text)."""
    while (above := waiting.get(len(row))) is not None:
        _wait(waiting, len(row), above[0] - 1, above[1])
        row.append(above[1])
    for column in range(span[1]):
        _wait(waiting, len(row), span[0] - 1, text if column == 0 else "")
        row.append(text if column == 0 else "")


def _wait(waiting: dict[int, tuple[int, str]], column: int, rows: int, text: str) -> None:
    if rows > 0:
        waiting[column] = (rows, text)
    else:
        waiting.pop(column, None)


def _span(node: LexborNode, name: str) -> int:
    value = node.attributes.get(name) or "1"
    return min(max(int(value), 1), MAX_SPAN) if value.isdecimal() and len(value) < 9 else 1
