"""Text in pictures by RapidOCR (PP-OCRv6), whose weights lie in its package: nothing is downloaded.

The engine finds lines and reads each one upright or turned; here they are put into reading
order and joined to paragraphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ragstone import trace
from ragstone.parse.decode import tidy_characters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONG_SIDE = 2_000
"""Pixels to which the engine shrinks a picture; a rendered page gets as many."""

MAX_DPI = 200
MAX_PAGES = 500
"""Pages of one document read by OCR. At 3 to 10 s a page this is about an hour."""

MEMORY = 2_000_000_000
"""Bytes of address space that the engine takes beyond what other parsers need."""

_Box: TypeAlias = "list[tuple[float, float]]"


def installed() -> bool:
    """Whether `ragstone[ocr]` is there."""
    return find_spec("rapidocr") is not None and find_spec("onnxruntime") is not None


def progress(done: int, pages: int) -> None:
    """Say that a page comes: the time limit counts anew, and the memory limit is that of OCR."""
    trace.page(done, pages)


def read(pixels: NDArray[np.uint8]) -> str:
    """The text of an RGB picture of shape (height, width, 3), in reading order; empty if there is none."""
    picture = pixels[:, :, ::-1]  # the engine was trained on BGR
    boxes, texts = _lines(picture)
    turn = _turn(picture, boxes)
    if turn >= 2:  # upside down: what was read is nothing
        picture = picture[::-1, ::-1]
        boxes, texts = _lines(picture)
        turn -= 2
    width = pixels.shape[1]
    lines = [
        _Line.of([(y, width - x) if turn else (x, y) for x, y in box], text)
        for box, text in zip(boxes, texts, strict=True)
    ]
    return tidy_characters(_written(lines)).strip() if lines else ""


def _lines(picture: Any) -> tuple[list[_Box], list[str]]:
    """The corners of each line that is found, and its text.

    The engine's own look at which way up a line is turns some upright ones around, so it
    is asked for the page as a whole, in `_turn`.
    """
    import numpy as np

    # Every flag each time: the engine keeps those of the call before.
    result = _engine()(np.ascontiguousarray(picture), use_det=True, use_cls=False, use_rec=True)
    if result.boxes is None or not result.txts:
        return [], []
    boxes = [[(float(x), float(y)) for x, y in box] for box in result.boxes]
    return boxes, list(cast("Sequence[str]", result.txts))


def tiles(pixels: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    """A tall picture (a long screenshot) in pieces that stay legible, cut where a row is empty."""
    height, width = pixels.shape[:2]
    limit = max(2 * width, LONG_SIDE)
    start = 0
    while height - start > limit:
        search = pixels[start + limit * 3 // 4 : start + limit].astype("int16")
        contrast = search.max(axis=(1, 2)) - search.min(axis=(1, 2))
        cut = start + limit * 3 // 4 + int(len(contrast) - 1 - contrast[::-1].argmin())
        yield pixels[start:cut]
        start = cut
        progress(start, height)
    yield pixels[start:]


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    one = {f"EngineConfig.onnxruntime.{name}_op_num_threads": 1 for name in ("intra", "inter")}
    return RapidOCR(params={"Global.log_level": "critical", **one})


# --- which way up --------------------------------------------------------------------


def _turn(picture: Any, boxes: list[_Box]) -> int:
    """Which way a page lies: 0 upright, 1 turned to the right; 2 and 3 the same upside down.

    Most lines say if it lies on its side, and the five longest if it stands on its head.
    """
    import numpy as np

    sizes = [_extent(box) for box in boxes]
    upright = sum(right - left for left, top, right, bottom in sizes if right - left >= bottom - top)
    lying = sum(bottom - top for left, top, right, bottom in sizes if right - left < bottom - top)
    side = lying > upright
    longest = sorted(sizes, key=lambda size: max(size[2] - size[0], size[3] - size[1]))[-5:]
    flipped = 0
    for left, top, right, bottom in longest:
        crop = picture[max(int(top), 0) : int(bottom) + 1, max(int(left), 0) : int(right) + 1]
        if crop.size:
            crop = np.ascontiguousarray(np.rot90(crop) if side else crop)
            found = _engine()(crop, use_det=False, use_cls=True, use_rec=False).cls_res
            flipped += bool(found) and found[0][0] == "180"
    return int(side) + (2 if flipped * 2 > len(longest) else 0)


def _extent(points: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return min(xs), min(ys), max(xs), max(ys)


# --- reading order -------------------------------------------------------------------


@dataclass(slots=True)
class _Line:
    text: str
    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]], text: str) -> _Line:
        return cls(text, *_extent(points))

    @property
    def height(self) -> float:
        return max(self.bottom - self.top, 1.0)


def _written(lines: list[_Line]) -> str:
    return "\n\n".join(_paragraphs(column) for column in _columns(lines, 0))


def _columns(lines: list[_Line], depth: int) -> Iterator[list[_Line]]:
    """Blocks in reading order: cut between columns of running text, else at the widest empty band."""
    if len(lines) < 8 or depth > 12:
        yield lines
        return
    height = median(line.height for line in lines)
    if gap := _gap(lines, horizontal=True, least=height):
        left = [line for line in lines if line.right <= gap]
        right = [line for line in lines if line.right > gap]
        if all(_is_running_text(side, height) for side in (left, right)):
            yield from _columns(left, depth + 1)
            yield from _columns(right, depth + 1)
            return
    if gap := _gap(lines, horizontal=False, least=height / 2):
        yield from _columns([line for line in lines if line.bottom <= gap], depth + 1)
        yield from _columns([line for line in lines if line.bottom > gap], depth + 1)
        return
    yield lines


def _is_running_text(lines: list[_Line], height: float) -> bool:
    """Lines, not the cells of a table: several, and long ones."""
    return len(lines) >= 4 and median(line.right - line.left for line in lines) > 8 * height


def _gap(lines: list[_Line], *, horizontal: bool, least: float) -> float:
    """The middle of the widest band that no line crosses; 0.0 when none is `least` wide."""
    ends = sorted((line.left, line.right) if horizontal else (line.top, line.bottom) for line in lines)
    best, place, reach = least, 0.0, ends[0][1]
    for start, end in ends[1:]:
        if start - reach > best:
            best, place = start - reach, (start + reach) / 2
        reach = max(reach, end)
    return place


def _paragraphs(lines: list[_Line]) -> str:
    rows: list[list[_Line]] = []
    for line in sorted(lines, key=lambda line: (line.top + line.bottom) / 2):
        middle = (line.top + line.bottom) / 2
        if rows and rows[-1][0].top < middle < rows[-1][0].bottom:
            rows[-1].append(line)
        else:
            rows.append([line])
    edge = max((line.right for line in lines), default=0.0)
    text, last = "", None
    for row in rows:
        row.sort(key=lambda line: line.left)
        words = " ".join(line.text.strip() for line in row)
        if last is not None:
            text += _break(last, row[0], text, words, edge)
        text += words
        last = row[-1]
    return text


def _break(before: _Line, after: _Line, text: str, words: str, edge: float) -> str:
    """Between two rows: a new paragraph, a new line, or nothing in a Chinese line that was full."""
    if after.top - before.bottom > 1.2 * min(before.height, after.height):
        return "\n\n"
    full = before.right > edge - 1.5 * before.height
    return "" if full and _is_cjk(text[-1:]) and _is_cjk(words[:1]) else "\n"


def _is_cjk(character: str) -> bool:
    return (
        "\u2e80" <= character <= "\u9fff"
        or "\uf900" <= character <= "\ufaff"
        or "\uff00" <= character <= "\uffef"
    )
