"""Numbers of spreadsheets as their cells show them: percent, decimals, currency, dates.

Two things differ from the screen, for the sake of search: there are no thousands
separators, and dates are `2024-05-01` unless the format itself spells out 年 and 月.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 14: "yyyy-mm-dd", 15: "yyyy-mm-dd", 16: "mm-dd", 17: "yyyy-mm", 18: "h:mm", 19: "h:mm:ss",
    20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0", 38: "#,##0", 39: "#,##0.00",
    40: "#,##0.00", 44: "#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss", 48: "0.0E+0", 49: "@",
    27: "yyyy-mm", 28: "mm-dd", 29: "mm-dd", 30: "mm-dd", 31: 'yyyy"年"m"月"d"日"', 32: "h:mm", 33: "h:mm:ss",
    34: "h:mm", 35: "h:mm:ss", 36: "yyyy-mm", 50: "yyyy-mm", 51: "mm-dd", 52: "yyyy-mm", 53: "mm-dd",
    54: "mm-dd", 55: "h:mm", 56: "h:mm:ss", 57: "yyyy-mm", 58: "mm-dd",
}  # fmt: skip
"""Number formats without a code in the file (ECMA-376 part 1, 18.8.30); those that follow the
country of the reader's computer are given in their plainest form."""

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|_.|\*.|\[(?P<bracket>[^\]]*)\]'
    r"|(?P<ampm>AM/PM|A/P|上午/下午)|(?P<general>General)|(?P<date>[yYmMdDhHsSeEbBgG]+)(?![+-])|(?P<exp>[eE][+-]0*)"
    r"|(?P<digits>[0#?][0#?,]*(?:\.[0#?]*)?|\.[0#?]+)|(?P<percent>%)|(?P<text>@)|(?P<other>.)",
    re.DOTALL,
)
_ELAPSED = re.compile(r"[hms]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str
    value: str


Formatter = Callable[[float], str]


def general(value: float) -> str:
    """A number as a cell without a format shows it, with up to 15 digits."""
    if math.isfinite(value) and abs(value) < 1e21 and value == int(value):
        return str(int(value))
    return format(value, ".15g")


@lru_cache(maxsize=2000)
def formatter(code: str, *, since_1904: bool = False) -> Formatter:
    """What turns a number into the text that a cell with this format code shows."""
    sections = _sections(code)
    if any(piece.kind == "date" or _is_elapsed(piece) for piece in sections[0]):
        return _date_formatter(sections[0], since_1904)
    shown = [_number_formatter(section) if section else None for section in sections]
    positive = shown[0] or general
    negative = shown[1] if len(shown) > 1 else None
    zero = (shown[2] if len(shown) > 2 else None) or positive

    def show(value: float) -> str:
        if value < 0 and negative is not None:
            return negative(-value)
        return positive(value) if value else zero(value)

    return show


def _sections(code: str) -> list[list[_Piece]]:
    sections: list[list[_Piece]] = [[]]
    for match in _TOKEN.finditer(code[:1000]):
        kind, value = match.lastgroup or "", match[0]
        if kind == "other" and value == ";":
            sections.append([])
        elif kind in ("quoted", "escaped", "other"):
            literal = match[kind]
            # "General" sections of other languages (通用格式, Standard) are letters without quotes.
            sections[-1].append(_Piece("literal", literal))
        elif kind == "bracket" and value.startswith("[$"):
            sections[-1].append(_Piece("literal", match[kind][1:].partition("-")[0]))
        elif kind == "bracket":
            sections[-1].append(_Piece("bracket", match[kind]))
        elif kind:
            sections[-1].append(_Piece(kind, value))
    return sections


def _is_elapsed(piece: _Piece) -> bool:
    return piece.kind == "bracket" and bool(_ELAPSED.fullmatch(piece.value))


def _number_formatter(pieces: list[_Piece]) -> Formatter:
    kinds = {piece.kind for piece in pieces}
    literals = "".join(piece.value for piece in pieces if piece.kind == "literal")
    places = [index for index, piece in enumerate(pieces) if piece.kind == "digits"]
    if kinds & {"general", "text"} or "/" in literals or len(places) > 1:
        return general  # also fractions, and digits spread over several places as in telephone numbers
    if not places:
        # A format that shows words in place of the number.
        return (lambda _: literals.strip()) if literals.strip() else general
    shown = [piece.value if piece.kind in ("literal", "percent") else "" for piece in pieces]
    before, after = "".join(shown[: places[0]]).lstrip(), "".join(shown[places[0] :]).rstrip()
    digits = _digits(pieces[places[0]].value, scientific="exp" in kinds)
    factor = 100 if "percent" in kinds else 1
    return lambda value: f"{before}{digits(value * factor)}{after}"


def _digits(code: str, *, scientific: bool) -> Formatter:
    whole, _, decimals = code.partition(".")
    divisor = 1000 ** (len(whole) - len(whole.rstrip(",")))
    form = f".{min(len(decimals), 30)}{'E' if scientific else 'f'}"
    optional = len(decimals) - len(decimals.rstrip("#?"))
    width = whole.replace(",", "").count("0")

    def show(value: float) -> str:
        # Excel rounds halves away from zero; the nudge undoes what binary fractions lose.
        text = format(value / divisor * (1 + 1e-15), form)
        if scientific:
            return text
        if optional and "." in text:
            text = (text[: len(text) - optional] + text[len(text) - optional :].rstrip("0")).rstrip(".")
        if width > 1:
            sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
            text = sign + text.zfill(width + len(text) - len(text.partition(".")[0]))
        return text

    return show


# --- dates -------------------------------------------------------------------------


def date_of(value: float, *, since_1904: bool = False) -> datetime | None:
    """The date of a serial number; None where it is none."""
    if not 0 <= value < 2_958_466:  # the year 10000
        return None
    if since_1904:
        start = datetime(1904, 1, 1)
    else:  # 1900 has a 29th of February there, so that days before March 1900 are off by one
        start = datetime(1899, 12, 30) if value >= 60 else datetime(1899, 12, 31)
    return start + timedelta(seconds=round(value * 86_400, 3))


def _date_formatter(pieces: list[_Piece], since_1904: bool) -> Formatter:
    if any(_is_elapsed(piece) for piece in pieces):
        return _elapsed
    letters = "".join(piece.value for piece in pieces if piece.kind == "date").lower()
    chinese = any(piece.kind == "literal" and piece.value in ("年", "月") for piece in pieces)
    form = _date_form(letters)

    def show(value: float) -> str:
        moment = date_of(value, since_1904=since_1904)
        if moment is None:
            return general(value)
        if chinese:
            return _chinese(pieces, moment)
        if "S" in form and moment.microsecond >= 500_000:
            moment += timedelta(seconds=1)
        return moment.strftime(form)

    return show


def _elapsed(value: float) -> str:
    """Hours that may be more than a day."""
    if not math.isfinite(value):
        return general(value)
    seconds = round(value * 86_400)
    hours, rest = divmod(abs(seconds), 3600)
    return f"{'-' if seconds < 0 else ''}{hours}:{rest // 60:02}:{rest % 60:02}"


def _date_form(letters: str) -> str:
    """What of a moment is shown, for `strftime`: `m` beside hours or seconds alone means minutes."""
    time = ("%H:%M:%S" if "s" in letters else "%H:%M") if "h" in letters or "s" in letters else ""
    if "d" in letters:
        date = "%Y-%m-%d"
    elif "y" in letters:
        date = "%Y-%m" if "m" in letters and not time else "%Y-%m-%d" if time else "%Y"
    else:
        date = "" if time else "%Y-%m-%d"
    return f"{date} {time}".strip()


def _chinese(pieces: list[_Piece], moment: datetime) -> str:
    parts: list[str] = []
    seen_hour = False
    for piece in pieces:
        letter = piece.value[0].lower()
        if piece.kind != "date":
            parts.append(piece.value if piece.kind == "literal" else "")
        elif letter == "y":
            parts.append(f"{moment.year}")
        elif letter == "m":
            parts.append(f"{moment.minute:02}" if seen_hour else f"{moment.month}")
        elif letter in "dhs":
            value = {"d": moment.day, "h": moment.hour, "s": moment.second}[letter]
            parts.append(f"{value:02}" if len(piece.value) > 1 and letter != "d" else f"{value}")
        seen_hour = seen_hour or letter == "h"
    return "".join(parts)
