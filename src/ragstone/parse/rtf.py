"""RTF to Markdown: paragraphs, headings, lists, tables and notes, in the encodings of its fonts.

A reader of its own, since xberg 1.3.9 writes emphasis marks into words, mixes up headers
with text and turns characters beyond the first 65,536 into question marks. Left out are
headers, footers, hidden and deleted text, pictures and field codes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ragstone.errors import CorruptContent, UnsupportedContent
from ragstone.parse.decode import decode, tidy_characters
from ragstone.parse.outline import MAX_HEADING, Outline, document, table
from ragstone.parse.trust import is_misread_latin
from ragstone.types import Blob, Document

MEDIA_TYPE = "application/rtf"
MAX_GROUPS = 10_000

_TOKEN = re.compile(
    rb"\\(?P<word>[A-Za-z]{1,32})(?P<number>-?\d{1,10})?\x20?|\\'(?P<hex>[0-9A-Fa-f]{2})|\\(?P<sign>[^A-Za-z])"
    rb"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+",
    re.DOTALL,
)
# Windows character sets of fonts and their code pages.
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5hkscs",
    161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 254: "cp437", 255: "cp850", 2: "symbol",
}  # fmt: skip
_PAGES = {
    "cp936": "gb18030",
    "cp950": "big5hkscs",
    "cp65001": "utf-8",
    "cp10000": "mac_roman",
    "cp1361": "johab",
}
_SKIPPED = frozenset({
    "colortbl", "pict", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf",
    "fldinst", "objdata", "nonshppict", "shprslt", "xe", "tc", "rxe", "upr", "themedata", "datastore",
    "colorschememapping", "latentstyles", "listtable", "listoverridetable", "rsidtbl", "generator", "pntxta",
    "pntxtb", "atnid", "atnref", "atntime", "atndate", "template", "filetbl", "revtbl", "bkmkstart",
    "bkmkend",
    "datafield", "sp", "ftnsep", "ftnsepc", "ftncn", "aftnsep", "aftnsepc", "aftncn", "do", "private",
    "operator",
    "keywords", "comment", "doccomm", "manager", "company", "category", "subject", "hlinkbase", "creatim",
    "revtim", "printim", "buptim", "falt", "panose", "fontemb", "userprops", "pnseclvl", "background",
})  # fmt: skip
_KEPT_STARRED = frozenset({"shpinst", "shptxt", "ud", "annotation", "footnote", "nesttableprops"})
_OLD_PAGES = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
# Words that begin a group, and where its text goes.
_TARGETS = {
    "fonttbl": "fonttbl", "stylesheet": "stylesheet", "info": "info", "listtext": "mark", "pntext": "mark",
    "shptxt": "body", "nesttableprops": "skip",
}  # fmt: skip
_SIGNS = {
    "tab": "\t", "line": "\n", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
    "emdash": "—",
    "endash": "–", "bullet": "•", "emspace": " ", "enspace": " ", "qmspace": " ", "softline": "\n",
}  # fmt: skip
_ENDS = frozenset({"par", "sect", "page", "cell", "row", "nestcell", "nestrow"})
_HEADING_NAME = re.compile(
    r"\s*(?:heading|标题|标题 |überschrift|titre|título)\s*([1-6])\s*;?\s*", re.IGNORECASE
)


class Token(NamedTuple):
    """A word or sign with its number (`word`), or bytes of text (`data`)."""

    word: str
    number: int | None
    data: bytes


@dataclass(slots=True)
class _Group:
    """What a brace saves and restores."""

    target: str = "body"
    page: str = ""
    skip: int = 1  # bytes that stand in for each \\u
    hidden: bool = False
    before: str = "body"  # the target outside a group that is skipped


@dataclass(slots=True)
class _Paragraph:
    level: int = 0
    in_table: bool = False


@dataclass(slots=True)
class _Style:
    number: int = 0
    level: int = 0
    name: list[str] = field(default_factory=list[str])


def parse_rtf(blob: Blob) -> Document:
    """The text of an RTF file.

    Raises:
        CorruptContent: nested without end.
        NoText: it holds pictures only, or nothing.
    """
    reader = _read(blob, blob.data)
    return document(
        blob,
        reader.outline.text,
        media_type=MEDIA_TYPE,
        title=reader.info("title")
        or next((item.title for item in reader.outline.headings if item.level == 1), ""),
        headings=reader.outline.headings,
        metadata={"author": reader.info("author")} if reader.info("author") else {},
    )


def read_rtf(blob: Blob, data: bytes) -> str:
    """The text of RTF that came inside another file."""
    return _read(blob, data).outline.text


def _read(blob: Blob, data: bytes) -> _Reader:
    reader = _Reader(blob, "")
    reader.read(data)
    if is_misread_latin(reader.outline.text):
        # Its fonts name no character set, or the wrong one: let the bytes speak.
        try:
            page = decode(bytes(reader.raw), name=blob.name).encoding
        except UnsupportedContent:
            return reader
        reader = _Reader(blob, page)
        reader.read(data)
    return reader


def tokens(data: bytes) -> Iterator[Token]:
    """The words and texts of RTF; the bytes after `\\bin` are passed over."""
    place = 0
    while (match := _TOKEN.match(data, place)) is not None:
        place = match.end()
        kind = match.lastgroup
        if match["word"]:
            word, number = match["word"].decode().lower(), int(match["number"]) if match["number"] else None
            if word == "bin":
                place += max(number or 0, 0)
            yield Token(word, number, b"")
        elif kind == "hex":
            yield Token("'", None, bytes([int(match["hex"], 16)]))
        elif kind == "sign" and match["sign"] in (b"\\", b"{", b"}"):
            yield Token("", None, match["sign"])  # may be the second half of a character
        elif kind in ("sign", "brace"):
            yield Token(match[kind].decode("latin-1"), -1 if kind == "brace" else None, b"")
        elif kind == "text":
            yield Token("", None, match["text"])


class _Reader:
    def __init__(self, blob: Blob, page: str) -> None:
        self._blob, self._forced = blob, page
        self.outline = Outline()
        self.raw = bytearray()
        self._page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._styles: dict[int, int] = {}
        self._font, self._style = 0, _Style()
        self._group, self._groups = _Group(), list[_Group]()
        self._paragraph = _Paragraph()
        self._bytes, self._text = bytearray(), list[str]()
        self._to_skip = 0
        self._starred = False
        self._mark = ""  # of a list item
        self._cells, self._rows = list[str](), list[list[str]]()
        self._cell = list[str]()
        self._asides: list[tuple[str, list[str]]] = []  # notes and comments, with their text
        self._info: dict[str, list[str]] = {}
        self._in_list = False

    def info(self, name: str) -> str:
        return tidy_characters(" ".join(_joined(self._info.get(name, [])).split()))

    def read(self, data: bytes) -> None:
        for token in tokens(data):
            if token.data:
                self._add_bytes(token.data)
            elif token.number == -1 and token.word in "{}":
                self._brace(token.word)
            else:
                self._flush_bytes()
                self._word(token.word, token.number)
        self._flush_bytes()
        self._end_paragraph()
        self._end_table()
        for mark, parts in self._asides:
            text = tidy_characters(" ".join(_joined(parts).split()))
            self.outline.block(f"{mark} {text}" if text else "")

    # --- groups

    def _brace(self, brace: str) -> None:
        self._flush_bytes()
        self._to_skip = 0
        if brace == "{":
            self._groups.append(self._group)
            self._group = replace(self._group)
            if len(self._groups) > MAX_GROUPS:
                raise CorruptContent(
                    "parse.corrupt", name=self._blob.name, found="RTF", reason="nested too deeply"
                )
        elif self._groups:
            ended, self._group = self._group, self._groups.pop()
            if ended.target == "style" and self._group.target == "stylesheet":
                self._end_style()
        self._starred = False

    def _open(self, word: str) -> bool:
        """Whether `word` says where the text of this group goes."""
        group, starred = self._group, self._starred
        self._starred = False
        if group.target == "skip":
            if word == "ud":  # the same again in Unicode, inside a group that is skipped
                group.target = group.before
            return True
        if word in _SKIPPED or (starred and word not in _KEPT_STARRED):
            group.target, group.before = "skip", group.target
        elif word in _TARGETS:
            group.target = _TARGETS[word]
            self._mark = "" if group.target == "mark" else self._mark
        elif word in ("footnote", "annotation"):
            self._open_aside(word)
        elif word in ("title", "author") and group.target == "info":
            group.target = f"info {word}"
        else:
            return word == "ud"
        return True

    def _open_aside(self, word: str) -> None:
        """A note or comment: gathered apart, and written at the end."""
        self._group.target = f"aside {len(self._asides)}"
        if word == "annotation":
            self._asides.append((">", []))
            return
        mark = f"[^{sum(1 for before, _ in self._asides if before != '>') + 1}]"
        self._asides.append((f"{mark}:", []))
        self._text.append(mark)

    # --- words

    def _word(self, word: str, number: int | None) -> None:
        if word == "*":
            self._starred = True
            return
        if self._open(word):
            return
        if self._group.target in ("fonttbl", "stylesheet", "style"):
            self._define(word, number)
        elif word == "u":
            self._unicode(number or 0)
        elif word in _SIGNS or (len(word) == 1 and not word.isalnum()):
            self._sign(word)
        elif word in _ENDS:
            if self._group.target == "body":
                self._end(word)
            else:
                self._emit(" ")
        else:
            self._set(word, number)

    def _set(self, word: str, number: int | None) -> None:
        if word in ("f", "plain"):
            self._group.page = self._fonts.get(number or 0, "")
            self._group.hidden = self._group.hidden and word == "f"
        elif word in ("v", "deleted", "htmlrtf"):
            self._group.hidden = number != 0
        elif word == "uc":
            self._group.skip = max(number or 0, 0)
        elif word == "pard":
            self._paragraph = _Paragraph()
        elif word == "intbl":
            self._paragraph.in_table = True
        elif word == "s":
            self._paragraph.level = self._styles.get(number or 0, 0)
        elif word == "outlinelevel":
            self._paragraph.level = (number or 0) + 1 if (number or 0) < 6 else 0
        elif word == "ansicpg" and number:
            self._page = _page(number)
        else:
            self._page = _OLD_PAGES.get(word, self._page)

    def _define(self, word: str, number: int | None) -> None:
        """A word inside the table of fonts or of styles."""
        if self._group.target == "fonttbl":
            if word == "f":
                self._font = number or 0
            elif word == "fcharset" and number in _CHARSETS:
                self._fonts[self._font] = _CHARSETS[number]
            elif word == "cpg" and number:
                self._fonts[self._font] = _page(number)
            return
        if self._group.target == "stylesheet":
            self._group.target, self._style = "style", _Style()
        if word == "s":
            self._style.number = number or 0
        elif word == "outlinelevel" and number is not None and number < 6:
            self._style.level = number + 1
        elif word in ("cs", "ts", "ds"):
            self._style.number = -1

    def _end_style(self) -> None:
        named = _HEADING_NAME.fullmatch(_joined(self._style.name))
        level = int(named[1]) if named is not None else self._style.level
        if level and self._style.number >= 0:
            self._styles[self._style.number] = level
        self._style = _Style()

    def _sign(self, word: str) -> None:
        if word in _SIGNS:
            self._emit(_SIGNS[word])
        elif word in ("~", "_"):
            self._emit(" " if word == "~" else "-")
        elif word in ("\r", "\n") and self._group.target == "body":
            self._end("par")

    # --- text

    def _unicode(self, number: int) -> None:
        code = number & 0xFFFF
        # Signs of symbol fonts stand in the private area; what they show is a mark.
        self._emit("•" if 0xF000 <= code <= 0xF0FF else chr(code))
        self._to_skip = self._group.skip

    def _add_bytes(self, data: bytes) -> None:
        if self._to_skip:
            passed = min(self._to_skip, len(data))
            self._to_skip -= passed
            data = data[passed:]
        self._bytes += data

    def _flush_bytes(self) -> None:
        data, self._bytes = bytes(self._bytes), bytearray()
        if not data:
            return
        if self._group.target == "stylesheet":
            self._group.target, self._style = "style", _Style()
        if data.isascii() and self._group.page != "symbol":
            self._emit(data.decode("ascii"))
            return
        self.raw += data
        page = self._group.page
        if page == "symbol":
            self._emit("".join("•" if byte > 0x7F else chr(byte) for byte in data))
            return
        try:
            self._emit(data.decode(self._forced or page or self._page))
        except (UnicodeDecodeError, LookupError):
            self._emit(data.decode(self._page, "replace"))

    def _emit(self, text: str) -> None:
        target = self._group.target
        if target == "skip" or self._group.hidden:
            return
        if target == "body":
            self._text.append(text)
        elif target == "mark":
            self._mark += text
        elif target == "style":
            self._style.name.append(text)
        elif target.startswith("aside "):
            self._asides[int(target[6:])][1].append(text)
        elif target.startswith("info "):
            self._info.setdefault(target[5:], []).append(text)

    # --- blocks

    def _end(self, word: str) -> None:
        if word in ("cell", "row"):
            self._end_cell(word)
        elif word == "nestcell" or (word != "nestrow" and self._paragraph.in_table):
            self._cell.append(self._take_mark() + _joined(self._text))
            self._text = []
        else:
            self._end_paragraph()

    def _end_cell(self, word: str) -> None:
        text = self._take_mark() + _joined(self._text)
        self._text = []
        if word == "cell":
            self._cells.append(" ".join([*self._cell, text]))
            self._cell = []
        else:
            if text.strip():
                self._cells.append(text)
            self._rows.append([tidy_characters(cell) for cell in self._cells])
            self._cells = []

    def _end_paragraph(self) -> None:
        text = tidy_characters(_joined(self._text)).strip()
        self._text = []
        mark = self._take_mark()
        if not text:
            return
        self._end_table()
        if self._paragraph.level and len(text) <= MAX_HEADING:
            self.outline.heading(self._paragraph.level, text)
        else:
            self.outline.block(mark + text, gap="\n" if mark and self._in_list else "\n\n")
        self._in_list = bool(mark)

    def _take_mark(self) -> str:
        """The list mark that stands before a paragraph, as Markdown writes it."""
        mark, self._mark = tidy_characters(self._mark).strip(), ""
        if not mark:
            return ""
        return f"{mark} " if any(sign.isalnum() for sign in mark) else "- "

    def _end_table(self) -> None:
        if self._cells or self._cell:
            self._rows.append(
                [tidy_characters(cell) for cell in (*self._cells, " ".join(self._cell)) if cell]
            )
        rows, self._rows, self._cells, self._cell = self._rows, [], [], []
        if rows:
            self.outline.block(table(rows))
            self._in_list = False


def _page(number: int) -> str:
    name = _PAGES.get(f"cp{number}", f"cp{number}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


def _joined(parts: list[str]) -> str:
    """Text from parts in which the halves of one character may stand apart."""
    text = "".join(parts)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
