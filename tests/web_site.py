"""A web site that is a real HTTP server on the loopback, with answers as they are told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, kw_only=True)
class Page:
    """One answer; an `etag` that the client names again is answered with 304."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    etag: str = ""
    stall: bool = False
    """No end of the body before the site closes."""


@dataclass(kw_only=True)
class Site:
    """Pages by path (with query); what was asked for, in order."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict[str, Page])
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    closed: threading.Event = field(default_factory=threading.Event)

    def paths(self) -> list[str]:
        """The paths asked for, without robots.txt."""
        return [path for path, _ in self.asked if path != "/robots.txt"]

    def html(self, path: str, text: str, **more: object) -> None:
        headers = {"Content-Type": "text/html; charset=utf-8"}
        self.pages[path] = Page(body=f"<html><body><p>{text}</p>".encode(), headers=headers, **more)  # type: ignore[arg-type]

    def sitemap(self, path: str, *urls: str) -> None:
        items = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
        self.pages[path] = Page(
            body=f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{items}</urlset>'.encode()
        )


@contextmanager
def running_site() -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            page = site.pages.get(self.path, Page(status=404))
            if page.etag and self.headers.get("If-None-Match") == page.etag:
                page = Page(status=304, etag=page.etag)
            self.send_response(page.status)
            for name, value in {**({"ETag": page.etag} if page.etag else {}), **page.headers}.items():
                self.send_header(name, value)
            if page.status != 304:
                self.send_header("Content-Length", str(len(page.body) + page.stall))
            self.end_headers()
            self.wfile.write(page.body)
            self.wfile.flush()
            if page.stall:
                site.closed.wait(30)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Site(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.closed.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
