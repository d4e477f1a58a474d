"""What readers wrote on the pages of a PDF: notes, typed text, remarks on marked words."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ragstone.parse.decode import tidy_characters

MAX_NOTES = 200
"""Notes of one page that are read."""
_LONGEST = 40_000  # bytes of one note


def notes(page: Any) -> Iterator[str]:
    """The notes on a page of pypdfium2, in the order of the file; links and form fields are none."""
    # The library comes without type stubs; what leaves this module is typed.
    raw: Any = import_module("pypdfium2.raw")
    kinds = {
        raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_HIGHLIGHT, raw.FPDF_ANNOT_UNDERLINE,
        raw.FPDF_ANNOT_SQUIGGLY, raw.FPDF_ANNOT_STRIKEOUT, raw.FPDF_ANNOT_CARET,
    }  # fmt: skip
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), MAX_NOTES)):
        annotation: Any = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            if raw.FPDFAnnot_GetSubtype(annotation) in kinds and (text := _contents(annotation)):
                yield text
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _contents(annotation: Any) -> str:
    raw: Any = import_module("pypdfium2.raw")
    size = min(raw.FPDFAnnot_GetStringValue(annotation, b"Contents", None, 0), _LONGEST)
    buffer = ctypes.create_string_buffer(size + 2)
    raw.FPDFAnnot_GetStringValue(
        annotation, b"Contents", ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size
    )
    return tidy_characters(buffer.raw[:size].decode("utf-16-le", "replace").rstrip("\x00")).strip()
