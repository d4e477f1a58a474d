"""Encrypted files opened with a given password, inside a parser process."""

from __future__ import annotations

import hashlib
import io
import random
import zipfile
from collections.abc import AsyncIterator

import pytest

from making import docx, encrypted_zip, lines, paragraph, pdf, pdf_file, zipped
from ragstone.errors import PasswordRequired
from ragstone.parse.sandbox import ParserPool
from ragstone.types import Blob, LoadFailure

pytestmark = pytest.mark.anyio

SECRET = "geheim-密码"
TEXT = "The parcel leaves Halm on Monday."


TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName='
    '"/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'wordprocessingml.document.main+xml"/></Types>'
)


def encrypted_docx(password: str) -> bytes:
    from msoffcrypto.format.ooxml import OOXMLFile

    with zipfile.ZipFile(io.BytesIO(docx(paragraph(TEXT)))) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    # The library writes packages of less than 4,096 bytes wrongly.
    parts["word/media/noise.bin"] = random.Random(1).randbytes(8_000)
    data = io.BytesIO()
    OOXMLFile(io.BytesIO(zipped({**parts, "[Content_Types].xml": TYPES}))).encrypt(password, data)
    return data.getvalue()


def encrypted_pdf(password: str) -> bytes:
    """RC4 with 40 bits, by Algorithms 1 to 4 of ISO 32000-1, 7.6."""
    padding = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
    padded, number, identity = (password.encode() + padding)[:32], b"\xfc\xff\xff\xff", b"ragstone"
    owner = rc4(md5(padded)[:5], padded)
    key = md5(padded + owner + number + identity)[:5]
    stream = rc4(md5(key + (3).to_bytes(3, "little") + bytes(2))[:10], lines(TEXT).encode())
    objects = [
        b"<< /Type /Catalog /Pages 4 0 R >>",
        b"<< /Type /Page /Parent 4 0 R /MediaBox [0 0 595 842] /Contents 3 0 R"
        b" /Resources << /Font << /F 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>"
        % (owner.hex().encode(), rc4(key, padding).hex().encode()),
    ]
    trailer = f"/Root 1 0 R /Encrypt 6 0 R /ID [<{identity.hex()}> <{identity.hex()}>]"
    return pdf_file(objects, trailer)


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def rc4(key: bytes, data: bytes) -> bytes:
    state, place = list(range(256)), 0
    for index in range(256):
        place = (place + state[index] + key[index % len(key)]) % 256
        state[index], state[place] = state[place], state[index]
    out, first, second = bytearray(), 0, 0
    for byte in data:
        first = (first + 1) % 256
        second = (second + state[first]) % 256
        state[first], state[second] = state[second], state[first]
        out.append(byte ^ state[(state[first] + state[second]) % 256])
    return bytes(out)


def blob(name: str, data: bytes) -> Blob:
    return Blob(uri=f"file:///{name}", name=name, data=data)


@pytest.fixture
async def pool() -> AsyncIterator[ParserPool]:
    pool = ParserPool(workers=1, passwords=["wrong one", SECRET, "geheim"])
    yield pool
    await pool.aclose()


async def test_an_office_file_opens_with_its_password_only(pool: ParserPool) -> None:
    locked = blob("a.docx", encrypted_docx(SECRET))
    assert (await pool(locked)).text == TEXT
    with pytest.raises(PasswordRequired) as caught:
        await pool(blob("b.docx", encrypted_docx("another")))
    assert caught.value.key == "parse.password_wrong"
    assert SECRET not in f"{caught.value} {caught.value.text('zh')} {caught.value.values}"


async def test_a_pdf_opens_with_its_password_only(pool: ParserPool) -> None:
    document = await pool(blob("a.pdf", encrypted_pdf("geheim")))
    assert TEXT in document.text
    assert document.boxes
    with pytest.raises(PasswordRequired) as caught:
        await pool(blob("b.pdf", encrypted_pdf("another")))
    assert caught.value.key == "parse.password_wrong"
    assert "%PDF" not in str(caught.value)


async def test_members_of_a_zip_open_with_the_password(pool: ParserPool) -> None:
    (member,) = [item async for item in pool.unpack(blob("a.zip", encrypted_zip(SECRET, TEXT)))]
    assert isinstance(member, Blob)
    assert member.data.decode() == TEXT
    (member,) = [item async for item in pool.unpack(blob("b.zip", encrypted_zip("another", TEXT)))]
    assert isinstance(member, LoadFailure)
    assert member.error.key == "parse.password_wrong"


async def test_files_without_encryption_stay_as_they_are(pool: ParserPool) -> None:
    assert TEXT in (await pool(blob("a.pdf", pdf([lines(TEXT)])))).text
    assert (await pool(blob("a.docx", docx(paragraph(TEXT))))).text == TEXT


async def test_without_a_password_the_status_says_what_to_do() -> None:
    pool = ParserPool(workers=1)
    try:
        with pytest.raises(PasswordRequired, match="--password-file"):
            await pool(blob("a.docx", encrypted_docx(SECRET)))
    finally:
        await pool.aclose()
