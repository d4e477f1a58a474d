"""Pictures: their text is read by OCR where the extra is installed, else they say what is missing."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from ragstone.errors import ContentTooLarge, CorruptContent, NoText, install_command
from ragstone.parse import ocr
from ragstone.parse.outline import document
from ragstone.types import Blob, Document, PageSpan, Remark

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_PIXELS = 100_000_000
MAX_FRAMES = 500

_MAGIC = (
    (b"\x89PNG", "PNG"), (b"\xff\xd8\xff", "JPEG"), (b"GIF8", "GIF"), (b"BM", "BMP"),
    (b"II*\x00", "TIFF"), (b"MM\x00*", "TIFF"), (b"\x00\x00\x01\x00", "ICO"), (b"8BPS", "PSD"),
)  # fmt: skip
MEDIA_TYPES = {
    "PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "BMP": "image/bmp", "TIFF": "image/tiff",
    "WebP": "image/webp",
}  # fmt: skip


def picture_type(data: bytes) -> str:
    """PNG, JPEG, ... by the first bytes; empty for what is no picture."""
    if data[8:12] == b"WEBP" and data.startswith(b"RIFF"):
        return "WebP"
    if data[4:12] in (b"ftypheic", b"ftypavif", b"ftypmif1"):
        return "HEIC"
    found = next((name for magic, name in _MAGIC if data.startswith(magic)), "")
    # A text may begin with BM.
    return "" if found == "BMP" and b"\x00" not in data[:64] else found


def parse_picture(blob: Blob, found: str) -> Document:
    """The text in a picture, one page a frame of a TIFF.

    Raises:
        NoText: no text in it; or OCR is not installed, or does not read this type.
        CorruptContent, ContentTooLarge: as they say.
    """
    if found not in MEDIA_TYPES:
        raise NoText("parse.image_kind", name=blob.name, found=found)
    if not ocr.installed():
        raise NoText("parse.image", name=blob.name, found=found, command=install_command("ocr"))
    parts: list[str] = []
    spans: list[PageSpan] = []
    start = 0
    for number, frame in enumerate(_frames(blob, found), 1):
        text = "\n\n".join(filter(None, (ocr.read(tile) for tile in ocr.tiles(frame))))
        part = f"{text}\n\n" if text else ""
        spans.append(PageSpan(number=number, start=start, end=start + len(part)))
        parts.append(part)
        start += len(part)
    text = "".join(parts)
    if not text.strip():
        raise NoText("parse.picture_empty", name=blob.name, found=found)
    pages = ", ".join(str(span.number) for span in spans[:20]) + (" ..." if len(spans) > 20 else "")
    remark = Remark(key="parse.read_by_ocr", values={"name": blob.name, "pages": pages})
    return document(blob, text, media_type=MEDIA_TYPES[found], pages=spans, warnings=(remark,))


def _frames(blob: Blob, found: str) -> Iterator[NDArray[np.uint8]]:
    """Each frame as the picture was taken: turned as its EXIF says, on white where it is transparent."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own limit lies below ours
            picture: Any = Image.open(io.BytesIO(blob.data), formats=[found.upper()])
            if picture.width * picture.height > MAX_PIXELS:
                raise ContentTooLarge("parse.picture_large", name=blob.name, limit=MAX_PIXELS // 1_000_000)
            count = min(cast("int", getattr(picture, "n_frames", 1)), MAX_FRAMES) if found == "TIFF" else 1
            for index in range(count):
                picture.seek(index)
                if picture.width * picture.height > MAX_PIXELS:
                    raise ContentTooLarge(
                        "parse.picture_large", name=blob.name, limit=MAX_PIXELS // 1_000_000
                    )
                ocr.progress(index, count)
                yield _pixels(picture)
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CorruptContent("parse.corrupt", name=blob.name, found=found, reason=reason) from error


def _pixels(picture: Any) -> NDArray[np.uint8]:
    import numpy as np
    from PIL import Image, ImageOps

    turned: Any = ImageOps.exif_transpose(picture)
    if str(turned.mode).startswith(("I", "F")):  # 16 bits and more: stretched to what is there
        values: Any = np.asarray(turned, dtype=np.float64)
        low, high = float(values.min()), float(values.max())
        grey = ((values - low) * (255.0 / ((high - low) or 1.0))).astype(np.uint8)
        return np.stack([grey] * 3, axis=-1)
    if "A" in turned.mode or "transparency" in turned.info:
        layered: Any = turned.convert("RGBA")
        turned = Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered)
    return np.asarray(turned.convert("RGB"), dtype=np.uint8)
