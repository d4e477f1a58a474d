"""Encrypted files opened with the passwords that were given. Runs inside a worker process.

PDF by PDFium, Office files by msoffcrypto; what comes out is the same file without
encryption, so that no parser needs to know. Members of a ZIP are opened in archive.py.
Nothing is guessed: without a password the parsers say that one is needed.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

from ragstone.errors import PasswordRequired
from ragstone.types import Blob

_passwords: ContextVar[tuple[str, ...]] = ContextVar("ragstone_passwords", default=())

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@contextmanager
def using(passwords: Sequence[str]) -> Generator[None, None, None]:
    """Files are opened with these inside."""
    token = _passwords.set(tuple(passwords))
    try:
        yield
    finally:
        _passwords.reset(token)


def passwords() -> tuple[str, ...]:
    """What files may be opened with here."""
    return _passwords.get()


def unlocked(blob: Blob) -> Blob:
    """`blob` without its encryption; itself where it has none or no password was given.

    Raises:
        PasswordRequired: it is encrypted, and none of the passwords opens it.
    """
    if not passwords():
        return blob
    if b"%PDF-" in blob.data[:1024]:
        return _pdf(blob)
    return _office(blob) if blob.data.startswith(_OLE) else blob


def wrong(blob: Blob) -> PasswordRequired:
    """None of the passwords opens this file."""
    return PasswordRequired("parse.password_wrong", name=blob.name, count=len(passwords()))


def _pdf(blob: Blob) -> Blob:
    import pypdfium2
    import pypdfium2.raw as raw

    if b"/Encrypt" not in blob.data:
        return blob
    for password in (None, *passwords()):
        try:
            pdf: Any = pypdfium2.PdfDocument(blob.data, password=password)
        except pypdfium2.PdfiumError as error:
            if cast("int", error.err_code) != raw.FPDF_ERR_PASSWORD:  # pyright: ignore[reportUnknownMemberType]
                return blob  # damaged: what is wrong is said where it is parsed
            continue
        try:
            if password is None:
                return blob
            plain = io.BytesIO()
            pdf.save(plain, flags=raw.FPDF_REMOVE_SECURITY)
        finally:
            pdf.close()
        return replace(blob, data=plain.getvalue())
    raise wrong(blob)


def _office(blob: Blob) -> Blob:
    """Word, Excel and PowerPoint, those of before 2007 too."""
    import msoffcrypto
    from msoffcrypto import exceptions

    open_file = cast("Callable[[io.BytesIO], Any]", msoffcrypto.OfficeFile)  # pyright: ignore[reportUnknownMemberType]
    try:
        file = open_file(io.BytesIO(blob.data))
        if not file.is_encrypted():
            return blob
    except (exceptions.FileFormatError, exceptions.ParseError, exceptions.DecryptionError, OSError):
        return blob  # no such file, or a damaged one: the parser says which
    for password in passwords():
        plain = io.BytesIO()
        try:
            # Files of before 2007 always check the password.
            file.load_key(password, **({"verify_password": True} if file.format == "ooxml" else {}))
            file.decrypt(plain)
        except (exceptions.InvalidKeyError, exceptions.DecryptionError):
            continue
        return replace(blob, data=plain.getvalue())
    raise wrong(blob)
