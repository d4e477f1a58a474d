"""Pages of the web as a stream of blobs: one page, or the pages that a sitemap lists.

The links of a page are not followed. robots.txt is kept to, under the name `Ragstone`,
crawl-delay included. Addresses inside a network are refused unless `allow_private`
(see guard.py). Proxies of the environment are not used: a proxy resolves names itself,
so that nothing could be said about the address that is reached.

A user name and password in an address are sent to that server only; they, and what looks
secret in a query, are in no uri, message or log. A page whose document is stored is asked
for with its ETag and Last-Modified; on 304 it is `Unchanged`.
"""

from __future__ import annotations

import base64
import string
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import anyio
import anyio.to_thread

from ragstone.address import request_url, shown, stored_url
from ragstone.errors import ContentError, ContentTooLarge, InputError, MissingExtra, NoText
from ragstone.load.files import MAX_BYTES
from ragstone.load.robots import MAX_BYTES as MAX_ROBOTS
from ragstone.load.robots import NOTHING, Robots, read_robots
from ragstone.load.sitemap import Sitemap, Unreadable, is_sitemap, read_sitemap
from ragstone.metadata import Metadata
from ragstone.types import Blob, Document, LoadFailure, Unchanged

if TYPE_CHECKING:
    from httpcore2 import AsyncConnectionPool

AGENT = "Ragstone"
MAX_REDIRECTS = 5
MAX_PAGES = 1_000
STEP_SECONDS = 20.0
"""For the connection, and between two pieces of an answer."""
TOTAL_SECONDS = 120.0
"""For a whole answer, however steadily it drips."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """What a page said about its version when it was stored: headers to ask with."""

    etag: str = ""
    modified: datetime | None = None

    @classmethod
    def of(cls, document: Document) -> Cursor | None:
        """The cursor in a document's metadata; None where there is none."""
        etag, modified = document.metadata.get("etag", ""), document.metadata.get("last_modified")
        if not isinstance(etag, str) or not (etag or modified):
            return None
        return cls(etag=etag, modified=modified if isinstance(modified, datetime) else None)

    def headers(self) -> dict[str, str]:
        asked = {"If-None-Match": self.etag} if self.etag else {}
        if self.modified is not None:
            asked["If-Modified-Since"] = format_datetime(self.modified.astimezone(UTC), usegmt=True)
        return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class WebListing:
    """The uris of the pages at an address, whether they are all, and whether a sitemap lists them."""

    uris: frozenset[str]
    whole: bool
    sitemap: bool


@dataclass(frozen=True, slots=True)
class _Page:
    status: int
    url: str
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)


class WebLoader:
    """A `Loader` of http and https addresses.

    `known` gives the cursor of a page that need not be sent again. `max_bytes` counts after
    unpacking, `max_pages` for one sitemap. Used within one event loop.
    """

    def __init__(
        self,
        *,
        max_bytes: int = MAX_BYTES,
        max_pages: int = MAX_PAGES,
        allow_private: bool = False,
        step_seconds: float = STEP_SECONDS,
        total_seconds: float = TOTAL_SECONDS,
        known: Callable[[str], Awaitable[Cursor | None]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._max_bytes, self._max_pages = max_bytes, max_pages
        self._allow_private = allow_private
        self._step, self._total = step_seconds, total_seconds
        self._known, self._sleep = known, sleep
        self._pool: AsyncConnectionPool | None = None
        self._robots: dict[str, Robots | ContentError] = {}
        self._asked: dict[str, float] = {}

    async def __call__(self, source: str) -> AsyncGenerator[Blob | LoadFailure | Unchanged, None]:
        """The page at `source`; where that is a sitemap, the pages it lists below its own folder.

        A page that cannot be had is a LoadFailure; the stream goes on.

        Raises:
            InputError: not an address of the web. MissingExtra: httpx2 is not installed.
        """
        first = await self._load(source)
        if not isinstance(first, Blob) or not is_sitemap(first.data):
            yield first
            return
        async with aclosing(self._listed(source, first)) as pages:
            async for page in pages:
                yield page if isinstance(page, LoadFailure) else await self._load(page, listed_in=source)

    async def listing(self, source: str) -> WebListing:
        """What `source` lists now, without reading the pages. Raises as a call does."""
        first = await self._load(source)
        if isinstance(first, LoadFailure):
            return WebListing(uris=frozenset(), whole=False, sitemap=False)
        if not isinstance(first, Blob) or not is_sitemap(first.data):
            return WebListing(uris=frozenset({stored_url(source)}), whole=True, sitemap=False)
        pages = [page async for page in self._listed(source, first)]
        return WebListing(
            uris=frozenset(stored_url(page) for page in pages if isinstance(page, str)),
            whole=not any(isinstance(page, LoadFailure) for page in pages),
            sitemap=True,
        )

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    # --- sitemaps ----------------------------------------------------------------

    async def _listed(self, source: str, first: Blob) -> AsyncGenerator[str | LoadFailure, None]:
        """Addresses of pages, of an index those of all its sitemaps; others than below it are left out."""
        folder = request_url(source).rpartition("/")[0] + "/"
        count = 0
        async with aclosing(self._sitemaps(source, first)) as sitemaps:
            async for sitemap in sitemaps:
                if isinstance(sitemap, LoadFailure):
                    yield sitemap
                    continue
                for page in _below(sitemap.pages, folder):
                    count += 1
                    if count > self._max_pages:
                        yield _failure(
                            source,
                            ContentTooLarge("load.sitemap_many", url=shown(source), limit=self._max_pages),
                        )
                        return
                    yield page

    async def _sitemaps(self, source: str, first: Blob) -> AsyncGenerator[Sitemap | LoadFailure, None]:
        root = await self._sitemap(source, first)
        yield root
        host = urlsplit(request_url(source)).netloc
        for url in root.sitemaps[: self._max_pages] if isinstance(root, Sitemap) else ():
            if _host(url) != host:
                continue
            found = await self._load(url, listed_in=source)
            if isinstance(found, Blob):
                yield await self._sitemap(url, found)
            else:
                yield found if isinstance(found, LoadFailure) else _bad_sitemap(url, "HTTP 304")

    async def _sitemap(self, url: str, blob: Blob) -> Sitemap | LoadFailure:
        try:
            return await anyio.to_thread.run_sync(read_sitemap, blob.data)
        except Unreadable as error:
            return _bad_sitemap(url, " ".join(str(error).split())[:200])

    # --- one page ----------------------------------------------------------------

    async def _load(self, url: str, *, listed_in: str = "") -> Blob | LoadFailure | Unchanged:
        try:
            uri = stored_url(url)
        except ValueError as error:
            raise InputError("load.web_address", url=shown(url)) from error
        try:
            known = await self._known(uri) if self._known is not None else None
            home = url if _login(url) or not listed_in else listed_in
            page = await self._fetch(url, known.headers() if known is not None else {}, home)
        except ContentError as error:
            return LoadFailure(uri=uri, name=shown(uri), error=error)
        name = PurePosixPath(unquote(urlsplit(page.url).path)).name or urlsplit(page.url).netloc
        if page.status == 304:
            return Unchanged(uri=uri, name=name)
        if not page.body:
            return LoadFailure(uri=uri, name=name, error=NoText("load.empty", name=name))
        media_type, modified = page.headers.get("content-type", ""), page.headers.get("last-modified", "")
        blob = Blob(uri=uri, name=name, data=page.body, media_type=media_type, modified=_moment(modified))
        return replace(blob, metadata=_cursor_metadata(page.headers, blob.content_hash))

    async def _fetch(self, url: str, headers: Mapping[str, str], home: str) -> _Page:
        """The answer at the end of all redirects; each of them is judged like the first address.

        The user name and password in `home` go to its server.
        """
        address, login = request_url(url), _login(home)
        for _ in range(MAX_REDIRECTS + 1):
            robots = await self._rules(address)
            if not robots.allows(address):
                raise ContentError("load.robots", url=shown(address))
            await self._wait_for_turn(address, robots.delay)
            own = login if may_have_login(address, home) else {}
            page = await self._request(address, {**headers, **own}, self._max_bytes)
            if page.status not in _REDIRECTS or "location" not in page.headers:
                return _good(page, asked_for_change=bool(headers))
            try:
                address = request_url(urljoin(address, _location(page)))
            except ValueError as error:
                raise ContentError("load.redirect", url=shown(address)) from error
        raise ContentError("load.redirects", url=shown(url), limit=MAX_REDIRECTS)

    async def _rules(self, address: str) -> Robots:
        """The robots.txt of the address's server, asked for once.

        A server that does not answer is not asked again: each page of its would wait as long.
        """
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(address))
        if origin not in self._robots:
            try:
                self._robots[origin] = await self._read_rules(f"{origin}/robots.txt")
            except ContentError as error:
                self._robots[origin] = error
        found = self._robots[origin]
        if isinstance(found, ContentError):
            raise type(found)(found.key, **found.values)
        return found

    async def _read_rules(self, address: str) -> Robots:
        for _ in range(MAX_REDIRECTS + 1):
            page = await self._request(address, {}, MAX_ROBOTS, cut=True)
            if page.status in _REDIRECTS and "location" in page.headers:
                try:
                    address = request_url(urljoin(address, _location(page)))
                except ValueError:
                    break
                continue
            if page.status >= 500 or page.status == 429:
                return NOTHING
            return read_robots(page.body.decode("utf-8", "replace"), AGENT) if page.status < 300 else Robots()
        return Robots()

    async def _wait_for_turn(self, address: str, delay: float) -> None:
        host, now = urlsplit(address).netloc, anyio.current_time()
        left = self._asked.get(host, now - delay) + delay - now
        if left > 0:
            await self._sleep(left)
        self._asked[host] = anyio.current_time()

    async def _request(self, url: str, headers: Mapping[str, str], limit: int, *, cut: bool = False) -> _Page:
        """One answer, without following it; its body unpacked, `cut` at `limit` or refused beyond."""
        pool = await self._open()
        from httpcore2 import NetworkError, ProtocolError, TimeoutException

        from ragstone.load.guard import Forbidden

        asked = {"User-Agent": AGENT, "Accept": "*/*", "Accept-Encoding": "gzip", **headers}
        seconds = dict.fromkeys(("connect", "read", "write", "pool"), self._step)
        try:
            with anyio.fail_after(self._total):
                async with pool.stream(
                    "GET",
                    url,
                    headers={"Host": urlsplit(url).netloc, **asked},
                    extensions={"timeout": seconds},
                ) as response:
                    found = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in response.headers}
                    body = b""
                    if 200 <= response.status < 300:
                        body = await _body(response.aiter_stream(), found, url, limit, cut=cut)
                    return _Page(response.status, url, found, body)
        except Forbidden as error:
            raise ContentError("load.private", url=shown(url)) from error
        except (TimeoutError, TimeoutException) as error:
            raise ContentError("load.slow", url=shown(url)) from error
        except (NetworkError, ProtocolError, OSError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ContentError("load.unreachable", url=shown(url), reason=reason) from error

    async def _open(self) -> AsyncConnectionPool:
        if self._pool is None:
            try:
                from httpcore2 import AsyncConnectionPool, default_ssl_context

                from ragstone.load.guard import GuardedBackend
            except ImportError as error:
                extra = MissingExtra("core.missing_extra", feature="Reading addresses", extra="web")
                raise extra from error
            context = await anyio.to_thread.run_sync(default_ssl_context)  # reads the disk
            backend = GuardedBackend(allow_private=self._allow_private)
            self._pool = AsyncConnectionPool(context, max_connections=4, network_backend=backend)
        return self._pool


def _good(page: _Page, *, asked_for_change: bool) -> _Page:
    # No part of a page is asked for, and "not modified" answers nothing where there was no such question.
    good = (200 <= page.status < 300 and page.status != 206) or (page.status == 304 and asked_for_change)
    if not good:
        raise ContentError("load.http_status", url=shown(page.url), status=page.status)
    return page


def _location(page: _Page) -> str:
    """Where a redirect leads; servers write UTF-8 there, which headers are not read as."""
    raw = page.headers["location"].encode("latin-1")
    return quote(raw, safe=string.punctuation + " ")


def may_have_login(address: str, home: str) -> bool:
    """Whether `address` is of the server of `home`, and not asked without the encryption of `home`."""
    asked, given = urlsplit(address), urlsplit(request_url(home))
    return asked.netloc == given.netloc and asked.scheme in (given.scheme, "https")


async def _body(
    pieces: AsyncIterable[bytes], headers: Mapping[str, str], url: str, limit: int, *, cut: bool
) -> bytes:
    """The bytes, unpacked while they come: a bomb is refused at the limit, not after it."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip"):
        raise ContentError("load.encoding", url=shown(url), encoding=encoding[:40])
    unpacker = _Gzip() if "gzip" in encoding else None
    data = bytearray()
    async for piece in pieces:
        try:
            data += piece if unpacker is None else unpacker.unpack(piece, limit + 1 - len(data))
        except zlib.error as error:
            raise ContentError("load.unreachable", url=shown(url), reason=str(error)) from error
        if len(data) > limit:
            if cut:
                return bytes(data[:limit])
            raise ContentTooLarge("load.web_large", url=shown(url), limit=limit)
    if unpacker is not None and not unpacker.ended:
        raise ContentError("load.unreachable", url=shown(url), reason="the answer is cut off")
    return bytes(data)


class _Gzip:
    """Unpacks gzip piece by piece; one answer may be several of its files in a row (RFC 1952, 2.2)."""

    def __init__(self) -> None:
        self._member: Any = None

    @property
    def ended(self) -> bool:
        return self._member is None

    def unpack(self, piece: bytes, limit: int) -> bytes:
        """At most `limit` bytes of what comes out; what is beyond is given up."""
        found = bytearray()
        while piece and len(found) < limit:
            if self._member is None:
                self._member = zlib.decompressobj(31)
            found += self._member.decompress(piece, limit - len(found))
            piece = b""
            if self._member.eof:
                piece, self._member = self._member.unused_data, None
        return bytes(found)


def _below(pages: tuple[str, ...], folder: str) -> list[str]:
    """The pages whose address begins with `folder`, each once."""
    found: dict[str, str] = {}
    for page in pages:
        try:
            address = request_url(page)
        except ValueError:
            continue
        if address.startswith(folder):
            found.setdefault(address, page)
    return list(found.values())


def _failure(url: str, error: ContentError) -> LoadFailure:
    return LoadFailure(uri=stored_url(url), name=shown(url), error=error)


def _bad_sitemap(url: str, reason: str) -> LoadFailure:
    return _failure(url, ContentError("load.sitemap", url=shown(url), reason=reason))


def _host(url: str) -> str:
    """Host and port as they are written in a sitemap; nothing where it is no address."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _login(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return {}
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _moment(header: str) -> datetime | None:
    """A date of HTTP, in UTC; None for what is none, or is beyond the years that Python knows."""
    try:
        found = parsedate_to_datetime(header)
        return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _cursor_metadata(headers: Mapping[str, str], content_hash: str) -> Metadata:
    """What `Cursor.of` reads later; the hash says whether the stored text is of this content."""
    etag, modified = headers.get("etag", "")[:500], _moment(headers.get("last-modified", ""))
    found: dict[str, str | datetime] = {}
    if etag and etag.isascii() and etag.isprintable():
        found["etag"] = etag
    if modified is not None:
        found["last_modified"] = modified
    return {**found, "sha256": content_hash} if found else {}
