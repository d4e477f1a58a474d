"""Bytes to text: every encoding that documents come in, and nothing that is no text."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import UnsupportedContent
from ragstone.parse.decode import decode, tidy_characters

CHINESE = "合同编号：二〇二四。甲方应当在三十日内付款，逾期按日计息。"
TRADITIONAL = "圖書館的開放時間為每日上午九時，請攜帶證件。"
JAPANESE = "この資料は、来週の会議のためのものです。"
KOREAN = "회의는 다음 주 월요일 오전에 시작합니다."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (CHINESE, "utf-8"),
        (CHINESE, "gbk"),
        (CHINESE, "gb18030"),
        ("评审", "gbk"),
        ("会议通过了设计方案", "gb2312"),
        ("a" * 20_000 + CHINESE, "gbk"),
        ("镕囧嫑 也在其中，" + CHINESE, "gbk"),
        ("𠮷野家的菜单和价格", "gb18030"),
        (TRADITIONAL, "big5"),
        ("你好嗎", "big5"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (JAPANESE, "iso2022_jp"),
        (KOREAN, "cp949"),
        ("Grüße aus Köln, naïve Café-Gäste", "cp1252"),
        ("“smart quotes” and a dash – here", "cp1252"),
        ("GRÖßE", "cp1252"),
        ("Zażółć gęślą jaźń", "cp1250"),
        ("Москва — столица, это я помню", "cp1251"),
        ("Москва столица, это я помню", "koi8_r"),
        ("Αυτό είναι ένα έγγραφο", "cp1253"),
        ("המסמך הזה עוסק בתכנון", "cp1255"),
        ("plain words and 数字", "utf-16-le"),
        ("plain words and 数字", "utf-16-be"),
        ("plain words and more", "utf-32-le"),
        ("plain words and more", "utf-32-be"),
    ],
)
def test_text_is_read_in_the_encoding_it_was_written_in(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))
    assert decoded.text == text
    assert decoded.damaged == 0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_is_no_text(encoding: str) -> None:
    assert decode(f"编号,名称\n{CHINESE}".encode(encoding)).text.startswith("编号")


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [("gb2312", "gbk"), ("utf-8", "gbk"), ("big5", "big5"), ("shift_jis", "cp932"), ("nonsense", "gbk")],
)
def test_a_declared_charset_is_believed_only_where_it_fits(declared: str, encoding: str) -> None:
    body = {"big5": TRADITIONAL, "cp932": JAPANESE}.get(encoding, CHINESE)
    page = f'<html><head><meta charset="{declared}"></head><p>{body}</p>'
    assert body in decode(page.encode(encoding)).text


def test_utf_8_that_says_it_is_gb2312_is_utf_8() -> None:
    page = f'<meta http-equiv="Content-Type" content="text/html; charset=gb2312"><p>{CHINESE}</p>'
    assert CHINESE in decode(page.encode()).text


@pytest.mark.parametrize("encoding", ["utf-8", "gbk"])
def test_a_damaged_byte_costs_one_character(encoding: str) -> None:
    data = bytearray((f"{CHINESE}\n" * 20).encode(encoding))
    data[300:301] = b"\xff"
    decoded = decode(bytes(data))
    assert 1 <= decoded.damaged <= 3
    assert CHINESE in decoded.text


@pytest.mark.parametrize(
    "data",
    [
        random.Random(1).randbytes(5_000),
        bytes(range(256)) * 10,
        b"\x00" * 1_000,
        b"text\x00\x01\x02\x03" * 100,
    ],
)
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedContent):
        decode(data, name="thing.bin")


def test_an_odd_zero_byte_does_not_make_a_text_binary() -> None:
    assert decode(b"good text\x00 goes on " * 1 + b"and on " * 200).text.startswith("good text goes on")


@pytest.mark.parametrize(
    ("raw", "tidy"),
    [
        ("co\u00adoperation", "cooperation"),
        ("搜\u200b索\ufeff引擎", "搜索引擎"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("e\u0301te\u0301", "été"),
        ("safe\u202etxt.exe", "safetxt.exe"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("中\u200d文", "中文"),
        ("a\U000e0068\U000e0069b", "ab"),
        ("nul\x00 bell\x07", "nul bell"),
        ("tab\tstays", "tab\tstays"),
    ],
)
def test_invisible_characters_do_not_break_words(raw: str, tidy: str) -> None:
    assert tidy_characters(raw) == tidy


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=400))
def test_any_bytes_give_clean_text_or_a_refusal(data: bytes) -> None:
    try:
        text = decode(data).text
    except UnsupportedContent:
        return
    assert "\x00" not in text
    assert "\r" not in text
    text.encode("utf-8")


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_tidying_twice_changes_nothing_more(text: str) -> None:
    once = tidy_characters(text)
    assert tidy_characters(once) == once
