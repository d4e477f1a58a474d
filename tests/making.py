"""Small documents made by hand, for tests of loading and parsing."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from ragstone.types import Blob


def blob(name: str, data: bytes | str, **fields: object) -> Blob:
    content = data.encode() if isinstance(data, str) else data
    return Blob(uri=f"file:///made/{name}", name=name, data=content, **fields)  # pyright: ignore


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


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
    return _pdf_file(objects, f"/Root {catalog} 0 R /Info {info} 0 R")


def _pdf_file(objects: Sequence[bytes], trailer: str) -> bytes:
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
