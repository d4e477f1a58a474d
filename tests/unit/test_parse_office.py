"""Slides, RTF, DOC, MSG and what is shared by them: awkward ones of every kind, through the router."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from making import blob, shape, slides
from ragstone.errors import CorruptContent, NoText, ParserFailed, PasswordRequired
from ragstone.parse import plugins
from ragstone.parse.msg import uncompressed
from ragstone.parse.router import parse
from ragstone.parse.trust import doubts
from ragstone.types import Blob, Document


def text_of(name: str, data: bytes | str) -> str:
    return parse(blob(name, data)).text


# --- PPTX --------------------------------------------------------------------------


def table_shape(*rows: tuple[str, ...]) -> str:
    def one(value: str) -> str:
        return f"<a:tc><a:txBody><a:p><a:r><a:t>{value}</a:t></a:r></a:p></a:txBody></a:tc>"

    lines = "".join(f"<a:tr>{''.join(map(one, row))}</a:tr>" for row in rows)
    return f"<p:graphicFrame><a:graphic><a:tbl>{lines}</a:tbl></a:graphic></p:graphicFrame>"


def test_slides_in_the_order_of_the_show_with_title_table_group_and_notes() -> None:
    first = shape("正文") + table_shape(("指标", "值"), ("转化|率", "3%")) + shape("标题一", role="title")
    second = f"<p:grpSp><p:grpSpPr/>{shape('内层')}<p:grpSp>{shape('更内')}</p:grpSp></p:grpSp>" + shape(
        "9", role="sldNum"
    )
    document = parse(blob("a.pptx", slides([first, second], notes={1: "备注\n第二行"}, hidden=[2])))
    assert document.text == (
        "# 标题一\n\n正文\n\n| 指标 | 值 |\n| --- | --- |\n| 转化\\|率 | 3% |\n\n> 备注\n> 第二行\n"
        "\n内层\n\n更内"
    )
    assert [page.number for page in document.pages] == [1, 2]
    assert document.text[document.pages[1].start : document.pages[1].end].strip() == "内层\n\n更内"
    assert document.title == "标题一"
    assert "2" in document.warnings[0].text("en")


def test_lists_keep_their_levels_and_line_breaks_do_not_glue_words() -> None:
    body = shape("eins\nzwei", role="body").replace("</a:r></a:p>", "<a:br/><a:t>x</a:t></a:r></a:p>", 1)
    assert text_of("a.pptx", slides([body])) == "- eins x\n- zwei"


def test_slides_without_text_are_no_text() -> None:
    with pytest.raises(NoText):
        text_of("a.pptx", slides(["<p:pic/>", ""]))


def test_a_cut_off_slide_is_damaged() -> None:
    with pytest.raises(CorruptContent):
        text_of("a.pptx", slides(["<p:sp><p:txBody>"]))


# --- RTF ---------------------------------------------------------------------------

FONTS = r"{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset128 B;}{\f2\fcharset134 C;}{\f3\fcharset204 D;}}"


def rtf(body: str | bytes, *, head: str = r"\ansi\ansicpg1252") -> bytes:
    inside = body if isinstance(body, bytes) else body.encode("latin-1")
    return b"{\\rtf1" + head.encode() + FONTS.encode() + inside + b"}"


def quoted(text: str, encoding: str) -> str:
    return "".join(f"\\'{byte:02x}" for byte in text.encode(encoding))


@pytest.mark.parametrize(
    ("font", "encoding", "text"),
    [
        (1, "cp932", "こんにちは表示ソ"),
        (2, "gbk", "中文内容"),
        (3, "cp1251", "Привет"),
        (0, "cp1252", "Grüße €"),
    ],
)
def test_bytes_are_read_by_the_character_set_of_their_font(font: int, encoding: str, text: str) -> None:
    assert text_of("a.rtf", rtf(rf"\f{font} {quoted(text, encoding)}\par")) == text
    raw = f"\\f{font} ".encode() + text.encode(encoding).replace(b"\\", b"\\\\") + b"\\par"
    assert text_of("a.rtf", rtf(raw)) == text


def test_chinese_in_a_western_font_is_found_by_its_bytes() -> None:
    text = "合同编号为空的情况下，系统应当拒绝保存并且提示用户填写完整的信息。"
    assert text_of("a.rtf", rtf(rf"\f0 {quoted(text, 'gbk')}\par")) == text


def test_unicode_with_substitutes_pairs_and_signs() -> None:
    body = r"\uc1 \u20013?\u-10179\'3f\u-8704? \uc2\u8364\'80\'80x\uc0\u241 \~a\_b\emdash\{c\}\\\par"
    assert text_of("a.rtf", rtf(body)) == "中😀 €xñ a-b—{c}\\"


def test_headings_lists_tables_notes_and_what_is_left_out() -> None:
    body = (
        r"{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 heading 1;}{\*\cs5 heading 2;}}{\info{\title "
        r"T}{\author A}}"
        r"{\header kopf}{\*\unknown weg}{\pict 89504e47}"
        r"\pard\s1 Eins\par\pard\plain Text{\footnote Notiz} mit {\field{\*\fldinst HYPERLINK x}"
        r"{\fldrslt Link}}{\v geheim}\par"
        r"{\listtext 1.\tab}Punkt\par{\listtext\'b7\tab}Kugel\par"
        r"\trowd\cellx1\cellx2\pard\intbl a\par b\cell c\cell\row\pard\intbl d\cell\cell\row\pard "
        r"Ende\par\bin4 {}{}."
    )
    document = parse(blob("a.rtf", rtf(body)))
    assert document.text == (
        "# Eins\n\nText[^1] mit Link\n\n1. Punkt\n- Kugel\n\n| a b | c |\n| --- | --- |\n| d |  |\n"
        "\nEnde\n\n.\n\n[^1]: Notiz"
    )
    assert (document.title, document.metadata["author"]) == ("T", "A")


@pytest.mark.parametrize("body", ["{" * 100 + "tief", r"\par offen {\b ", r"text\u", r"text\'4"])
def test_rtf_that_is_cut_off_gives_what_is_there(body: str) -> None:
    assert ("tief" if "tief" in body else "offen" if "offen" in body else "text") in text_of(
        "a.rtf", rtf(body)[:-1]
    )


def test_endless_groups_are_refused() -> None:
    with pytest.raises(CorruptContent):
        text_of("a.rtf", rtf("{" * 20_000))


def test_rtf_without_text() -> None:
    with pytest.raises(NoText):
        text_of("a.rtf", rtf(r"{\pict ffd8}\par"))


# --- containers ----------------------------------------------------------------------


def container(streams: Mapping[str, bytes]) -> bytes:
    """A compound file of 512-byte sectors whose streams stand in the root, padded over the "
    "small-stream limit."""
    padded = {name: data + b"\0" * max(0, 4096 - len(data)) for name, data in streams.items()}
    sectors: list[bytes] = []
    table: list[int] = []

    def place(data: bytes) -> int:
        start = len(sectors)
        count = -(-len(data) // 512)
        for index in range(count):
            sectors.append(data[512 * index : 512 * index + 512].ljust(512, b"\0"))
            table.append(start + index + 1 if index + 1 < count else 0xFFFFFFFE)
        return start

    def entry(name: str, kind: int, start: int, size: int, right: int = -1, child: int = -1) -> bytes:
        raw = name.encode("utf-16-le") + b"\0\0"
        head = raw.ljust(64, b"\0") + struct.pack("<HBBiii", len(raw), kind, 1, -1, right, child)
        return head + b"\0" * 36 + struct.pack("<IQ", start & 0xFFFFFFFF, size)

    names = sorted(padded, key=lambda name: (len(name), name.upper()))
    starts = {name: place(padded[name]) for name in names}
    directory = entry("Root Entry", 5, -2, 0, child=1)
    for index, name in enumerate(names, 1):
        right = index + 1 if index < len(names) else -1
        directory += entry(name, 2, starts[name], len(padded[name]), right=right)
    first = place(directory)
    allocation = len(sectors)
    count = -(-(len(sectors) + 2) // 128)
    table += [0xFFFFFFFD] * count
    raw_table = struct.pack(f"<{len(table)}I", *table).ljust(512 * count, b"\xff")
    head = (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
        + b"\0" * 16
        + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6)
        + b"\0" * 6
    )
    head += struct.pack("<IIIIIIIII", 0, count, first, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    places = [allocation + index for index in range(count)]
    head += struct.pack(f"<{count}I", *places) + b"\xff" * (4 * (109 - count))
    return head + b"".join(sectors) + raw_table


def doc(text: str, *, paragraphs: Mapping[int, bytes] | None = None, flags: int = 0x200) -> bytes:
    """A Word 97 file: one piece of 16-bit characters; what the n-th paragraph is (style, changes) by n."""
    raw = text.encode("utf-16-le")
    start = 1024
    ends: list[int] = [start]
    for index in range(0, len(raw), 2):
        if raw[index : index + 2] in (b"\r\0", b"\x07\0", b"\x0c\0"):
            ends.append(start + index + 2)
    page = bytearray(512)
    struct.pack_into(f"<{len(ends)}I", page, 0, *ends)
    free = 510
    for index in range(len(ends) - 1):
        kind = (paragraphs or {}).get(index)
        if kind is not None:
            kind = kind + b"\0" * (len(kind) % 2)
            size = 2 + len(kind)
            free -= size
            page[free : free + size] = bytes([0, len(kind) // 2]) + kind
            page[4 * len(ends) + 13 * index] = free // 2
    page[511] = len(ends) - 1
    body = raw.ljust(-(-len(raw) // 512) * 512, b"\0")
    piece = struct.pack("<II", 0, len(text)) + b"\0\0" + struct.pack("<I", start) + b"\0\0"
    pieces = b"\x02" + struct.pack("<I", len(piece)) + piece
    index_of_pages = struct.pack("<III", start, ends[-1], (start + len(body)) // 512)
    head = bytearray(1024)
    struct.pack_into("<HH", head, 0, 0xA5EC, 0xC1)
    struct.pack_into("<H", head, 0x0A, flags)
    struct.pack_into("<i", head, 0x4C, len(text))
    struct.pack_into("<II", head, 0x1A2, 0, len(pieces))
    struct.pack_into("<II", head, 0x102, len(pieces), len(index_of_pages))
    return container({"WordDocument": bytes(head) + body + bytes(page), "1Table": pieces + index_of_pages})


IN_TABLE, ROW_END = b"\x16\x24\x01", b"\x16\x24\x01\x17\x24\x01"


def test_doc_with_heading_table_field_and_pairs() -> None:
    text = "第一章 概述\r正文😀 \x13HYPERLINK x\x14链接\x15。\r甲\x07乙\x07\x07丙\x07丁\x07\x07结束\x0b行\r"
    kinds = {0: b"\x01\0", 2: b"\0\0" + IN_TABLE, 3: b"\0\0" + IN_TABLE, 4: b"\0\0" + ROW_END}
    kinds |= {5: kinds[2], 6: kinds[3], 7: kinds[4]}
    document = parse(blob("a.doc", doc(text, paragraphs=kinds)))
    assert document.text == (
        "# 第一章 概述\n\n正文😀 链接。\n\n| 甲 | 乙 |\n| --- | --- |\n| 丙 | 丁 |\n\n结束\n行"
    )
    assert document.title == "第一章 概述"


def test_an_encrypted_doc_asks_for_its_password() -> None:
    with pytest.raises(PasswordRequired):
        parse(blob("a.doc", doc("geheim\r", flags=0x300)))
    with pytest.raises(PasswordRequired):
        parse(blob("a.xlsx", container({"EncryptedPackage": b"x", "EncryptionInfo": b"y"})))


def test_a_doc_that_is_cut_off_is_damaged() -> None:
    whole = doc("Text " * 4000 + "\r")
    with pytest.raises(CorruptContent):
        parse(blob("a.doc", whole[:20_000]))


def test_a_doc_whose_bytes_are_no_text_is_refused() -> None:
    noise = "".join(chr(0x3400 + (n * 7919) % 0x1900) for n in range(500))
    with pytest.raises(CorruptContent, match="not writing"):
        parse(blob("a.doc", doc(noise + "\r")))


def atom(kind: int, content: bytes, *, version: int = 0, instance: int = 0) -> bytes:
    """A record of a PPT; `version` 15 holds others."""
    return struct.pack("<HHI", instance << 4 | version, kind, len(content)) + content


def ppt(title: str, box: str, note: str, *, encrypted: bool = False) -> bytes:
    """One slide whose title stands in the outline, with a text box and a note."""
    listed = atom(1011, struct.pack("<IIiII", 2, 0, 1, 256, 0)) + atom(3999, struct.pack("<I", 0))
    listed += atom(4000, title.encode("utf-16-le"))
    notes = atom(1011, struct.pack("<IIiII", 3, 0, 0, 300, 0))
    main = atom(1000, atom(4080, listed, version=15) + atom(4080, notes, version=15, instance=2), version=15)
    reference = atom(0xF00D, atom(3998, struct.pack("<I", 0)), version=15)
    text = atom(0xF00D, atom(3999, struct.pack("<I", 4)) + atom(4008, box.encode("latin-1")), version=15)
    shapes = b"".join(atom(0xF004, shape, version=15) for shape in (text, reference))
    slide = atom(1006, atom(1036, atom(0xF003, shapes, version=15), version=15), version=15)
    words = atom(3999, struct.pack("<I", 2)) + atom(4000, note.encode("utf-16-le"))
    page = atom(1008, atom(1009, struct.pack("<I", 256)) + atom(0xF00D, words, version=15), version=15)
    places = [0, len(main), len(main) + len(slide)]
    stream = main + slide + page
    directory = atom(6002, struct.pack("<IIII", 3 << 20 | 1, *places))
    last = struct.pack("<IIIII", 0, 0, 0, len(stream), 1) + struct.pack("<III", 4, 0, int(encrypted))
    edit = len(stream) + len(directory)
    user = b"\0" * 16 + struct.pack("<I", edit)
    return container({"PowerPoint Document": stream + directory + atom(4085, last), "Current User": user})


def test_ppt_slide_with_title_first_text_and_note() -> None:
    document = parse(blob("a.ppt", ppt("标题😀", "eins\rzwei\x0bdrei", "备注一\r备注二")))
    assert document.text == "# 标题😀\n\neins\nzwei drei\n\n> 备注一\n\n> 备注二"
    assert (document.title, document.pages[0].number) == ("标题😀", 1)


def test_an_encrypted_ppt_asks_for_its_password() -> None:
    with pytest.raises(PasswordRequired):
        parse(blob("a.ppt", ppt("t", "b", "n", encrypted=True)))


def message(properties: Mapping[str, bytes], *, page: int = 0) -> bytes:
    numbers = b"\0" * 32 + (struct.pack("<IIQ", 0x3FFD0003, 6, page) if page else b"")
    sent = (datetime(2024, 5, 1, 8, tzinfo=UTC) - datetime(1601, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )
    numbers += struct.pack("<IIQ", 0x00390040, 6, 10 * sent)
    return container(
        {f"__substg1.0_{name}": data for name, data in properties.items()}
        | {"__properties_version1.0": numbers}
    )


def test_msg_in_its_code_page_with_head_and_body() -> None:
    data = message(
        {
            "0037001E": "会议通知".encode("gbk"),
            "0C1A001E": "张三".encode("gbk"),
            "0C1F001E": b"zhang@example.com",
            "0E04001E": "李四".encode("gbk"),
            "1000001E": "明天下午三点开会。\r\n请准时".encode("gbk"),
        },
        page=936,
    )
    document = parse(blob("a.msg", data))
    assert document.text == (
        "# 会议通知\n\nFrom: 张三 <zhang@example.com>\nTo: 李四\nDate: 2024-05-01 08:00 UTC\n\n"
        "明天下午三点开会。\n请准时"
    )
    assert document.title == "会议通知"


def test_msg_with_an_html_body_only() -> None:
    html = b"<html><body><p>Hallo <b>Welt</b></p></body></html>"
    assert text_of("a.msg", message({"0037001F": "S".encode("utf-16-le"), "10130102": html})).endswith(
        "\n\nHallo Welt"
    )


def test_compressed_rtf() -> None:
    # Literal bytes and one reference to 10 bytes before.
    body = (
        bytes([0b00000000])
        + b"{\\rtf1 a"
        + bytes([0b00000010])
        + b"b"
        + struct.pack(">H", ((207 + 9 - 9) % 4096) << 4 | 1)
    )
    head = struct.pack("<II", len(body) + 12, 12) + b"LZFu" + b"\0\0\0\0"
    assert uncompressed(head + body) == b"{\\rtf1 ab{\\r"
    assert uncompressed(b"LZFu") == b""
    plain = struct.pack("<II", 20, 5) + b"MELA\0\0\0\0{\\rt}"
    assert uncompressed(plain) == b"{\\rt}"


# --- trust ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "普通的中文文本，包含标点和数字 123。" * 5,
        "Müllers größte Bäckerei — “süß” & 5 % • ½",
        "ÀÉÎÕÜ",
        "😀👨‍👩‍👧🤠" * 20,
        "ᠮᠣᠩᠭᠣᠯ ภาษาไทย हिन्दी العربية",
        "Icon \ue001 in a long line of ordinary words that go on and on and on and on",
        "\uf0a8 ja \uf0a8 nein \uf0fe egal",
        "\U0001faea\U0001fae9 \U0001faea",
        "漢字と仮名、한국어 문장, 龍龜鬱",
    ],
)
def test_writing_is_trusted(text: str) -> None:
    assert doubts(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "\ufffd" * 30 + "text",
        "\uf041\uf042\uf043 \uf044\uf045\uf046",
        "\ue000\ue001\ue002 \ue003\ue004 abc",
        "".join(chr(0x3400 + (n * 7919) % 0x1900) for n in range(300)),
        "中文内容是什么样子的呢".encode("gbk").decode("latin-1"),
    ],
)
def test_garbage_is_not(text: str) -> None:
    assert doubts(text) is not None


# --- plugins -------------------------------------------------------------------------


class Upper:
    def accepts(self, blob: Blob) -> bool:
        return blob.data.startswith(b"UP:")

    def parse(self, blob: Blob) -> Document:
        if b"break" in blob.data:
            raise KeyError("inner")
        return Document(text=blob.data[3:].decode().upper(), title=blob.name)


class Entry:
    """What `importlib.metadata` gives for an installed plugin."""

    def __init__(self, name: str, target: object) -> None:
        self.name, self._target = name, target

    def load(self) -> object:
        if isinstance(self._target, Exception):
            raise self._target
        return self._target


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    entries: list[Entry] = []
    monkeypatch.setattr(plugins, "_entries", lambda: tuple(entries))
    yield entries
    plugins._load.cache_clear()


def test_a_plugin_is_asked_first_and_others_go_on_as_before(installed: list[Entry]) -> None:
    installed.append(Entry("upper", Upper))
    assert text_of("a.txt", "UP:hallo") == "HALLO"
    assert text_of("a.txt", "hallo") == "hallo"


@pytest.mark.parametrize("target", [ModuleNotFoundError("no module"), object(), Upper])
def test_a_broken_plugin_gives_a_status_that_names_it(installed: list[Entry], target: object) -> None:
    installed.append(Entry("upper", target))
    with pytest.raises(ParserFailed, match="upper"):
        text_of("a.txt", "UP:break")
