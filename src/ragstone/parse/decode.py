"""Bytes to text, once, before anything looks at the text.

In order: byte order mark, UTF-16/32 by its zero bytes, strict UTF-8, ISO-2022 escapes,
the declared charset (HTML `meta`, XML declaration), UTF-8 with a few damaged bytes, and
then the legacy encodings by score. What reads as no text at all is refused: text that is
guessed wrong is worse than a file that says why it was left out.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass

from ragstone.errors import UnsupportedContent

# Enough characters to judge an encoding by; the whole file is still decoded strictly.
SAMPLE = 4_000

COMMON = 0.9
"""Share of characters that must be common ones where a text may as well be something else."""

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What a label means in practice: each is read as the superset that browsers use for it.
SUPERSETS = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
}
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_:.\-]{2,40})""", re.IGNORECASE)
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Text with the encoding it was read in; `damaged` counts characters that were lost."""

    text: str
    encoding: str
    damaged: int = 0


def decode(data: bytes, *, name: str = "", charset: str = "") -> Decoded:
    """The text in `data`, tidied by `tidy_characters`.

    `charset` is what a server said; it wins over what the text declares.

    Raises:
        UnsupportedContent: no encoding makes text of it.
    """
    decoded = _by_mark(data) or _by_zero_bytes(data) or _as_utf8(data) or _by_escapes(data)
    decoded = (
        decoded
        or _as_labelled(data, charset)
        or _as_declared(data)
        or _as_damaged_utf8(data)
        or _by_score(data)
    )
    if decoded is None or _looks_binary(decoded.text):
        raise UnsupportedContent("parse.binary", name=name)
    return Decoded(text=tidy_characters(decoded.text), encoding=decoded.encoding, damaged=decoded.damaged)


def _strict(data: bytes, encoding: str) -> Decoded | None:
    try:
        return Decoded(text=data.decode(encoding), encoding=encoding)
    except (UnicodeDecodeError, LookupError):
        return None


def _by_mark(data: bytes) -> Decoded | None:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            return Decoded(text=text, encoding=encoding, damaged=text.count("\ufffd"))
    return None


def _by_zero_bytes(data: bytes) -> Decoded | None:
    """UTF-16 or UTF-32 without a mark: its zero bytes stand at fixed places."""
    if b"\x00" not in data:
        return None
    head = data[: 4 * SAMPLE]
    places = [head[place::4].count(0) for place in range(4)]
    if len(data) % 4 == 0 and places[2] + places[3] > 0.9 * len(head) / 2 and places[0] * 4 < places[3]:
        return _strict(data, "utf-32-le")
    if len(data) % 4 == 0 and places[0] + places[1] > 0.9 * len(head) / 2 and places[3] * 4 < places[0]:
        return _strict(data, "utf-32-be")
    even, odd = places[0] + places[2], places[1] + places[3]
    if odd > 8 * even and odd > len(head) / 50:
        return _strict(data, "utf-16-le")
    if even > 8 * odd and even > len(head) / 50:
        return _strict(data, "utf-16-be")
    # Chinese and its like has zero bytes at its spaces and line ends only; bytes that are
    # something else would not make common characters nearly throughout.
    if len(data) % 2 == 0 and not (odd and even):
        decoded = _strict(data, "utf-16-le" if odd else "utf-16-be")
        if decoded and max(_gb_score(decoded.text), _big5_score(decoded.text)) > COMMON:
            return decoded
    return None


def _as_utf8(data: bytes) -> Decoded | None:
    # Pure ASCII with an escape sequence is ISO-2022, not UTF-8.
    return None if b"\x1b$" in data or b"\x1b(" in data else _strict(data, "utf-8")


def _by_escapes(data: bytes) -> Decoded | None:
    if b"\x1b" not in data:
        return None
    for encoding in ("iso2022_jp_2", "iso2022_kr", "utf-8"):
        if (decoded := _strict(data, encoding)) is not None:
            return decoded
    return None


def _as_declared(data: bytes) -> Decoded | None:
    head = data[:4096]
    if not head.lstrip().startswith(b"<") and b"<meta" not in head.lower():
        return None
    match = _DECLARED.search(head)
    return None if match is None else _as_labelled(data, match[1].decode("ascii"))


def _as_labelled(data: bytes, charset: str) -> Decoded | None:
    try:
        label = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return None
    if not label.startswith(("gb", "big5", "shift", "euc", "iso", "cp", "windows", "koi8", "mac", "ascii")):
        return None  # UTF-8 was tried; others are no charsets (rot13, base64)
    return _strict(data, SUPERSETS.get(label, label))


def _as_damaged_utf8(data: bytes) -> Decoded | None:
    """UTF-8 in which at most one character in twenty beyond ASCII is broken."""
    text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    good = len(re.findall(r"[^\x00-\x7f\ufffd]", text))
    if damaged * 20 > good:
        return None
    return Decoded(text=text, encoding="utf-8", damaged=damaged)


def _by_score(data: bytes) -> Decoded | None:
    """The legacy encoding in which the characters beyond ASCII look most like writing."""
    best, best_score = None, 0.5
    for encoding, score_of in _SCORES:
        decoded = _strict(data, encoding) or _nearly(data, encoding)
        if decoded is None:
            continue
        score = score_of(decoded.text) - (0.1 if decoded.damaged else 0.0)
        if score > best_score + 0.02:  # near-ties go to the one that stands first
            best, best_score = decoded, score
    return best or _strict(data, "cp1252")


def _nearly(data: bytes, encoding: str) -> Decoded | None:
    """`data` with at most one character in fifty lost, as in a file that was cut off."""
    text = data.decode(encoding, "replace")
    damaged = text.count("\ufffd")
    if damaged * 50 > len(re.findall(r"[^\x00-\x7f]", text)):
        return None
    return Decoded(text=text, encoding=encoding, damaged=damaged)


def _sample(text: str) -> list[tuple[str, str, str]]:
    """(before, character, after) of the first characters beyond ASCII."""
    found: list[tuple[str, str, str]] = []
    for match in re.finditer(r"[^\x00-\x7f]", text):
        place = match.start()
        found.append((text[place - 1 : place], match[0], text[place + 1 : place + 2]))
        if len(found) == SAMPLE:
            break
    return found


def _share(marks: list[float]) -> float:
    return sum(marks) / len(marks) if marks else 0.0


def _encodes(character: str, encoding: str) -> bytes:
    try:
        return character.encode(encoding)
    except UnicodeEncodeError:
        return b""


def _between_latin(before: str, after: str) -> bool:
    return before.isascii() and before.isalpha() and after.isascii() and after.isalpha()


def _gb_score(text: str) -> float:
    """Share of characters in GB 2312's punctuation and its 3,755 common characters."""

    def mark(before: str, character: str, after: str) -> float:
        code = _encodes(character, "gb2312")
        common = len(code) == 2 and (0xA1 <= code[0] <= 0xA3 or 0xB0 <= code[0] <= 0xD7)
        # A lone Chinese character inside a Latin word is an accented letter read wrongly.
        return float(common and not _between_latin(before, after))

    sample = _sample(text)
    hangul_like = [_encodes(character, "gb2312")[:1] <= b"\xc8" for _, character, _ in sample]
    # Korean bytes read as Chinese use only the first half of the common characters.
    if len(sample) >= 10 and all(hangul_like) and " " in text:
        return 0.55
    return _share([mark(*item) for item in sample])


def _big5_score(text: str) -> float:
    """Share of characters in Big5's punctuation and its 5,401 common characters."""

    def mark(character: str) -> float:
        code = _encodes(character, "big5")
        return float(len(code) == 2 and (0xA1 <= code[0] <= 0xA2 or 0xA4 <= code[0] <= 0xC6))

    return _share([mark(character) for _, character, _ in _sample(text)])


def _japanese_score(text: str) -> float:
    """Common characters, if a tenth of them or more is kana, as in any Japanese text."""
    sample = [character for _, character, _ in _sample(text)]
    kana = _share([float("\u3041" <= character <= "\u30fe") for character in sample])
    if kana < 0.1:
        return 0.0

    def mark(character: str) -> float:
        code = _encodes(character, "cp932")
        return float(len(code) == 2 and (0x81 <= code[0] <= 0x83 or 0x88 <= code[0] <= 0x98))

    # Chinese text holds next to no kana, so a match here outranks the Chinese reading.
    return _share([mark(character) for character in sample]) + 0.1


def _korean_score(text: str) -> float:
    return _share(
        [
            float("\uac00" <= character <= "\ud7a3" or character in "·…“”‘’「」『』〈〉《》")
            for _, character, _ in _sample(text)
        ]
    )


_COMMON_SIGNS = frozenset("«»„“”‘’‚‹›–—…•·€£§°©®™¡¿ªº´№\xa0")


def _script(character: str) -> str:
    """The first word of the character's name: LATIN, CYRILLIC, GREEK, ..."""
    return unicodedata.name(character, "").partition(" ")[0] if _is_letter(character) else ""


def _is_letter(character: str) -> bool:
    # Vowel signs of Thai and points of Hebrew are marks, and part of a word.
    return character.isalpha() or unicodedata.category(character or " ").startswith("M")


def _alphabet_score(text: str) -> float:
    """Share of letters that sit among letters of their own script, in the case words have."""

    def mark(before: str, character: str, after: str) -> float:
        if not _is_letter(character):
            return 0.6 if character in _COMMON_SIGNS else 0.0
        scripts = {_script(before), _script(character), _script(after)} - {""}
        if len(scripts) > 1:
            return 0.0
        if character.isupper() and before.islower():
            return 0.0  # wRONG cASE
        # Latin words are mostly ASCII; accented letters in a row are another script read wrongly.
        if "LATIN" in scripts and not before.isascii() and not after.isascii():
            return 0.3
        return 0.95

    return _share([mark(*item) for item in _sample(text)])


_SCORES = (
    ("gb18030", _gb_score),
    ("big5hkscs", _big5_score),
    ("cp932", _japanese_score),
    ("euc_jp", _japanese_score),
    ("cp949", _korean_score),
    ("cp1252", _alphabet_score),
    ("cp1255", _alphabet_score),  # before 1251: its holes are letters that Russian uses often
    ("cp1251", _alphabet_score),
    ("cp1250", _alphabet_score),
    ("cp1253", _alphabet_score),
    ("cp1256", _alphabet_score),
    ("cp874", _alphabet_score),
    ("koi8_r", _alphabet_score),
)


def _looks_binary(text: str) -> bool:
    controls = len(_CONTROLS.findall(text))
    return controls > 2 + len(text) / 500


# U+200C and U+200D shape Arabic and Indic writing and join emoji: there they stay.
_INVISIBLE = re.compile(
    "[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e001f]"
    "|(?<=[\u0000-\u05ff\u3000-\u9fff\uac00-\ud7a3\uff00-\uffef])[\u200c\u200d]"
    "|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0020-\U000e007f]+"
)
# Colours and movements of a terminal (ECMA-48), as logs hold them.
_TERMINAL = re.compile("\x1b\\[[0-?]{0,64}[ -/]{0,4}[@-~]")
_LINE_ENDS = re.compile("\r\n?|[\u0085\u2028\u2029\x0b\x0c]")


def tidy_characters(text: str) -> str:
    """`text` in NFC with `\\n` line ends, without control, zero-width and direction marks.

    A word that a soft hyphen or a zero-width space broke up is one word again, so that
    a search finds it.
    """
    if "\x1b" in text:
        text = _TERMINAL.sub("", text).replace("\x1b", "")
    if text.isascii() and "\r" not in text and not _CONTROLS.search(text):
        return text.replace("\x0b", "\n").replace("\x0c", "\n")
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", text))
