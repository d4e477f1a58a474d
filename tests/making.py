"""Small documents made by hand, for tests of loading and parsing."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from ragstone.types import Blob


def blob(name: str, data: bytes | str, **fields: object) -> Blob:
    content = data.encode() if isinstance(data, str) else data
    return Blob(uri=f"file:///made/{name}", name=name, data=content, **fields)  # pyright: ignore


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    """The same parts always make the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def compound(streams: Mapping[str, bytes]) -> bytes:
    """A compound file (OLE) with these streams by path. Zeros fill them up to 4,096 bytes: shorter
    ones would stand in sectors of another kind."""
    streams = {path: data.ljust(4096, b"\x00") for path, data in streams.items()}
    folders = (path.split("/")[:depth] for path in streams for depth in range(1, path.count("/") + 2))
    paths = sorted({"/".join(folder) for folder in folders})
    kids = {
        parent: [path for path in paths if path.rpartition("/")[0] == parent and path != parent]
        for parent in ["", *paths]
    }
    number = {"": 0} | {path: index for index, path in enumerate(paths, 1)}
    after = {path: right for some in kids.values() for path, right in pairwise(some)}
    end, free = 0xFFFFFFFE, 0xFFFFFFFF
    table, sectors = [0xFFFFFFFD], bytearray(512)  # the first sector is the allocation table

    def put(data: bytes) -> int:
        count = -(-len(data) // 512)
        first = len(table)
        table.extend([*range(first + 1, first + count), end])
        assert len(table) <= 128, "one sector of allocations is all there is"
        sectors.extend(data.ljust(count * 512, b"\x00"))
        return first if count else end

    directory = b""
    for path in ["", *paths]:
        name = (path.rpartition("/")[2] or "Root Entry").encode("utf-16-le")
        kind = 5 if not path else 2 if path in streams else 1
        data = streams.get(path, b"")
        first_kid = number[kids[path][0]] if kids[path] else free
        directory += name.ljust(64, b"\x00") + struct.pack(
            "<HBBIII36xIQ", len(name) + 2, kind, 1, free, number.get(after.get(path, "?"), free), first_kid,
            put(data) if data else end, len(data),
        )  # fmt: skip
    start = put(directory)
    allocation = struct.pack(f"<{len(table)}I", *table).ljust(512, b"\xff")
    head = struct.pack(
        "<8s16xHHHHH6xIIIIIIIIII", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6,
        0, 1, start, 0, 4096, end, 0, end, 0, 0,
    )  # fmt: skip
    return head.ljust(512, b"\xff") + allocation + sectors[512:]


# --- PDF ---------------------------------------------------------------------------


def pdf(pages: Sequence[str], *, title: str = "", rotate: int = 0, picture: bool = False) -> bytes:
    """A PDF with one stream of drawing commands a page; `lines` writes them for plain text."""
    objects: list[bytes] = []

    def add(content: str | bytes) -> int:
        objects.append(content if isinstance(content, bytes) else content.encode("latin-1"))
        return len(objects)

    font = add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    image = add(
        b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8"
        b" /Length 1 >>\nstream\n\x00\nendstream"
    )
    parent = len(objects) + 2 * len(pages) + 1
    kids: list[int] = []
    for commands in pages:
        stream = commands + (" q 500 0 0 700 0 0 cm /I Do Q" if picture else "")
        content = add(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        kids.append(
            add(
                f"<< /Type /Page /Parent {parent} 0 R /MediaBox [0 0 595 842] /Rotate {rotate}"
                f" /Contents {content} 0 R"
                f" /Resources << /Font << /F {font} 0 R >> /XObject << /I {image} 0 R >> >> >>"
            )
        )
    add(f"<< /Type /Pages /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] /Count {len(kids)} >>")
    catalog = add(f"<< /Type /Catalog /Pages {parent} 0 R >>")
    info = add(f"<< /Title ({title}) >>")
    return pdf_file(objects, f"/Root {catalog} 0 R /Info {info} 0 R")


def pdf_file(objects: Sequence[bytes], trailer: str) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        trailer.encode(),
        start,
    )
    return bytes(out)


def lines(*text: str, size: int = 12, turned: bool = False) -> str:
    """Drawing commands for lines of Latin text, from the top; `turned` draws them at 90 degrees."""
    commands: list[str] = []
    for index, line in enumerate(text):
        shown = line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        place = f"0 1 -1 0 {100 + 24 * index} 100" if turned else f"1 0 0 1 72 {760 - 24 * index}"
        commands.append(f"BT /F {size} Tf {place} Tm ({shown}) Tj ET")
    return " ".join(commands)


# --- DOCX --------------------------------------------------------------------------

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_M = "http://schemas.openxmlformats.org/officeDocument/2006/math"

STYLES = f"""<w:styles xmlns:w="{_W}">
<w:style w:type="paragraph" w:styleId="1"><w:name w:val="heading 1"/></w:style>
<w:style w:type="paragraph" w:styleId="2"><w:name w:val="heading 2"/></w:style>
<w:style w:type="paragraph" w:styleId="Mine"><w:name w:val="My Section"/><w:basedOn w:val="2"/></w:style>
<w:style w:type="paragraph" w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>
</w:styles>"""

NUMBERING = f"""<w:numbering xmlns:w="{_W}">
<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="decimal"/></w:lvl>
<w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
<w:num w:numId="7"><w:abstractNumId w:val="0"/></w:num></w:numbering>"""


def paragraph(text: str = "", *, style: str = "", properties: str = "", inside: str = "") -> str:
    chosen = f'<w:pStyle w:val="{style}"/>' if style else ""
    run = f'<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r>' if text else ""
    return f"<w:p><w:pPr>{chosen}{properties}</w:pPr>{run}{inside}</w:p>"


def list_item(text: str, level: int = 0) -> str:
    return paragraph(text, properties=f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="7"/></w:numPr>')


def row(*cells: str) -> str:
    return "<w:tr>" + "".join(cells) + "</w:tr>"


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"


def docx(body: str, **parts: str) -> bytes:
    """A DOCX with `body` in it; further parts of `word/` by name (`footnotes`, `comments`, ...)."""
    document = f'<w:document xmlns:w="{_W}" xmlns:m="{_M}"><w:body>{body}</w:body></w:document>'
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
        ' Target="word/document.xml"/></Relationships>'
    )
    content = {"_rels/.rels": relations, "word/document.xml": document}
    content |= {"word/styles.xml": STYLES, "word/numbering.xml": NUMBERING}
    content |= {f"word/{name}.xml": part.replace("<w:", "<w:", 1) for name, part in parts.items()}
    return zipped(content)


def part(tag: str, inside: str) -> str:
    """A part such as `footnotes` with its namespace."""
    return f'<w:{tag} xmlns:w="{_W}">{inside}</w:{tag}>'


# --- XLSX and PPTX -----------------------------------------------------------------

_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_P = "http://schemas.openxmlformats.org/presentationml/2006/main"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"


def relations(targets: Mapping[str, tuple[str, str]]) -> str:
    """A `.rels` part: id -> (last word of the type, target)."""
    inside = "".join(
        f'<Relationship Id="{name}" Type="{_R}/{kind}" Target="{target}"/>'
        for name, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{inside}</Relationships>'


def workbook(sheets: Mapping[str, str], *, strings: str = "") -> bytes:
    """An XLSX; sheet name (with `!hidden` for a hidden one) -> what stands inside `<worksheet>`."""
    listed = "".join(
        f'<sheet name="{name.partition("!")[0]}" sheetId="{number}" r:id="r{number}"'
        f"{' state=' + chr(34) + 'hidden' + chr(34) if '!' in name else ''}/>"
        for number, name in enumerate(sheets, 1)
    )
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{_S}" xmlns:r="{_R}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(
            {
                f"r{number}": ("worksheet", f"worksheets/sheet{number}.xml")
                for number in range(1, len(sheets) + 1)
            }
        ),
        "xl/sharedStrings.xml": f'<sst xmlns="{_S}">{strings}</sst>',
        "xl/styles.xml": f'<styleSheet xmlns="{_S}"><cellXfs><xf numFmtId="0"/></cellXfs></styleSheet>',
    }
    for number, inside in enumerate(sheets.values(), 1):
        parts[f"xl/worksheets/sheet{number}.xml"] = f'<worksheet xmlns="{_S}">{inside}</worksheet>'
    return zipped(parts)


def shape(text: str, *, role: str = "", level: int = 0) -> str:
    """A shape of a slide; `\\n` parts paragraphs."""
    mark = f'<p:ph type="{role}"/>' if role else ""
    paragraphs = "".join(
        f'<a:p><a:pPr lvl="{level}"/><a:r><a:t>{escape(line)}</a:t></a:r></a:p>' for line in text.split("\n")
    )
    return f"<p:sp><p:nvSpPr><p:nvPr>{mark}</p:nvPr></p:nvSpPr><p:txBody>{paragraphs}</p:txBody></p:sp>"


def slides(
    bodies: Sequence[str], *, notes: Mapping[int, str] | None = None, hidden: Sequence[int] = ()
) -> bytes:
    """A PPTX with the shapes of each slide, and notes by slide number."""
    spaces = f'xmlns:p="{_P}" xmlns:a="{_A}" xmlns:r="{_R}"'
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="s{n}"/>' for n in range(1, len(bodies) + 1))
    parts = {
        "ppt/presentation.xml": f"<p:show {spaces}><p:sldIdLst>{listed}</p:sldIdLst></p:show>",
        "ppt/_rels/presentation.xml.rels": relations(
            # The order of the file names is not the order of the show.
            {f"s{n}": ("slide", f"slides/slide{len(bodies) + 1 - n}.xml") for n in range(1, len(bodies) + 1)}
        ),
    }
    for number, body in enumerate(bodies, 1):
        name = f"slide{len(bodies) + 1 - number}.xml"
        show = ' show="0"' if number in hidden else ""
        parts[f"ppt/slides/{name}"] = (
            f"<p:sld {spaces}{show}><p:cSld><p:spTree>{body}</p:spTree></p:cSld></p:sld>"
        )
        if notes and number in notes:
            parts[f"ppt/slides/_rels/{name}.rels"] = relations(
                {"n": ("notesSlide", f"../notesSlides/n{number}.xml")}
            )
            parts[f"ppt/notesSlides/n{number}.xml"] = (
                f"<p:notes {spaces}><p:cSld><p:spTree>{shape(notes[number], role='body')}"
                f"{shape('7', role='sldNum')}"
                "</p:spTree></p:cSld></p:notes>"
            )
    return zipped(parts)


def encrypted_zip(password: str, text: str = "The parcel leaves.") -> bytes:
    """ZipCrypto, which the standard library reads and does not write (APPNOTE 6.1)."""
    table = [_crc32_step(index) for index in range(256)]
    keys = [0x12345678, 0x23456789, 0x34567890]

    def turn(byte: int) -> None:
        keys[0] = table[(keys[0] ^ byte) & 0xFF] ^ keys[0] >> 8
        keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = table[(keys[2] ^ keys[1] >> 24) & 0xFF] ^ keys[2] >> 8

    def hide(byte: int) -> int:
        key = (keys[2] & 0xFFFF) | 2
        hidden = byte ^ (key * (key ^ 1) >> 8 & 0xFF)
        turn(byte)
        return hidden

    for byte in password.encode():
        turn(byte)
    content, name = text.encode(), b"note.txt"
    crc = zlib.crc32(content)
    body = bytes(hide(byte) for byte in bytes(11) + bytes([crc >> 24]) + content)
    fixed = (
        (20).to_bytes(2, "little") + (1).to_bytes(2, "little") + bytes(2) + bytes(2) + b"\x21\x5a"
        + crc.to_bytes(4, "little") + len(body).to_bytes(4, "little") + len(content).to_bytes(4, "little")
        + len(name).to_bytes(2, "little") + bytes(2)
    )  # fmt: skip
    local = b"PK\x03\x04" + fixed + name + body
    central = b"PK\x01\x02" + (20).to_bytes(2, "little") + fixed + bytes(14) + name
    end = b"PK\x05\x06" + bytes(4) + b"\x01\x00\x01\x00"
    return (
        local
        + central
        + end
        + len(central).to_bytes(4, "little")
        + len(local).to_bytes(4, "little")
        + bytes(2)
    )


def _crc32_step(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
    return value
