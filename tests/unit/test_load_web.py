"""Pages of the web as a stream of blobs, from a real server on the loopback (A13)."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from ragstone.errors import InputError
from ragstone.load.guard import is_public
from ragstone.load.robots import Robots, read_robots
from ragstone.load.sitemap import Unreadable, read_sitemap
from ragstone.load.web import Cursor, WebLoader, may_have_login
from ragstone.parse.router import parse
from ragstone.types import Blob, Document, LoadFailure, Unchanged
from web_site import Page, Site, running_site

pytestmark = pytest.mark.anyio


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as running:
        yield running


async def load(source: str, **options: Any) -> list[Blob | LoadFailure | Unchanged]:
    loader = WebLoader(**{"allow_private": True, **options})
    try:
        with anyio.fail_after(30):
            return [item async for item in loader(source)]
    finally:
        await loader.aclose()


async def text_of(blob: Blob) -> str:
    return (await anyio.to_thread.run_sync(parse, blob)).text


async def failure(source: str, **options: Any) -> LoadFailure:
    (item,) = await load(source, **options)
    assert isinstance(item, LoadFailure)
    assert item.error.text("zh") != str(item.error)
    return item


async def test_a_page_is_read_and_names_its_program(site: Site) -> None:
    """A13: a URL loader."""
    site.html("/docs/a%20b.html?page=2", "The ferry leaves at 22:15.")
    (blob,) = await load(f"{site.url}/docs/a b.html?page=2#part")
    assert isinstance(blob, Blob)
    assert (blob.uri, blob.name) == (f"{site.url}/docs/a%20b.html?page=2", "a b.html")
    assert (await text_of(blob)) == "The ferry leaves at 22:15."
    assert site.asked[-1][1]["user-agent"] == "Ragstone"


async def test_the_charset_of_the_header_is_used_where_the_page_names_none(site: Site) -> None:
    text = "渡輪晚上十點離開"
    body = f"<html><body><p>{text}</p></body></html>".encode("big5")
    site.pages["/p"] = Page(body=body, headers={"Content-Type": "text/html; charset=Big5"})
    (blob,) = await load(f"{site.url}/p")
    assert isinstance(blob, Blob)
    assert (await text_of(blob)) == text


async def test_robots_txt_is_kept_to_with_its_delay(site: Site) -> None:
    robots = b"User-agent: *\nDisallow: /\n\nUser-agent: ragstone\nDisallow: /private\nCrawl-delay: 7\n"
    site.pages["/robots.txt"] = Page(body=robots)
    site.html("/a", "a")
    site.html("/b", "b")
    site.html("/private/c", "c")
    site.sitemap("/sitemap.xml", f"{site.url}/a", f"{site.url}/b", f"{site.url}/private/c")
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    found = await load(f"{site.url}/sitemap.xml", sleep=sleep)
    assert [type(item) for item in found] == [Blob, Blob, LoadFailure]
    assert found[2].error.key == "load.robots"  # type: ignore[union-attr]
    assert "/private/c" not in site.paths()
    assert len(waits) == 2
    assert all(6 < seconds <= 7 for seconds in waits)


async def test_a_server_whose_robots_txt_fails_is_left_alone(site: Site) -> None:
    site.pages["/robots.txt"] = Page(status=503)
    site.html("/a", "a")
    assert (await failure(f"{site.url}/a")).error.key == "load.robots"


async def test_a_server_that_does_not_give_its_robots_txt_is_asked_for_it_once(site: Site) -> None:
    site.pages["/robots.txt"] = Page(body=b"User-agent", stall=100)
    pages = [f"{site.url}/{name}" for name in "abc"]
    async with aclosing(WebLoader(allow_private=True, step_seconds=0.3)) as loader:
        found = [item for page in pages async for item in loader(page)]
    assert [item.error.key for item in found if isinstance(item, LoadFailure)] == ["load.slow"] * 3
    assert [path for path, _ in site.asked] == ["/robots.txt"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/a/b", False),
        ("/a/page", True),
        ("/x.pdf", False),
        ("/x.pdf?q", True),
        ("/", True),
        ("/%7Eme", False),
    ],
)
def test_the_longest_rule_of_robots_txt_wins(path: str, allowed: bool) -> None:
    rules = (
        "User-agent: Other\nUser-agent: *\nDisallow: /a\nAllow: /a/page\nDisallow: /*.pdf$\nDisallow: /~me"
    )
    assert read_robots(rules, "Ragstone").allows(f"https://example.org{path}") is allowed
    assert read_robots("nonsense\nDisallow: /", "Ragstone") == Robots()


async def test_redirects_are_followed_and_each_is_judged(site: Site) -> None:
    site.html("/end", "here")
    site.pages["/start"] = Page(status=302, headers={"Location": "/end"})
    site.pages["/loop"] = Page(status=301, headers={"Location": "/loop"})
    site.pages["/file"] = Page(status=302, headers={"Location": "file:///etc/passwd"})
    site.pages["/robots.txt"] = Page(body=b"User-agent: *\nDisallow: /closed")
    site.pages["/sly"] = Page(status=302, headers={"Location": "/closed"})
    (blob,) = await load(f"{site.url}/start")
    assert isinstance(blob, Blob)
    assert (blob.uri, blob.name) == (f"{site.url}/start", "end")
    for path, key in (("/loop", "load.redirects"), ("/file", "load.redirect"), ("/sly", "load.robots")):
        assert (await failure(site.url + path)).error.key == key


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0"]
)
async def test_addresses_inside_the_network_are_refused_however_they_are_written(
    host: str, site: Site
) -> None:
    site.html("/a", "a")
    port = site.url.rpartition(":")[2]
    refused = await failure(f"http://{host}:{port}/a", allow_private=False)
    assert refused.error.key == "load.private"
    assert site.asked == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True), ("2606:2800::1", True), ("10.0.0.1", False), ("169.254.169.254", False),
        ("100.100.100.200", False), ("168.63.129.16", False), ("fe80::1%lo", False), ("fd00:ec2::254", False),
        ("::ffff:10.0.0.1", False), ("2002:7f00:1::", False), ("224.0.0.9", False),
        ("64:ff9b::7f00:1", False), ("0.0.0.0", False), ("::", False), ("255.255.255.255", False),
    ],
)  # fmt: skip
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize("source", ["ftp://example.org/a", "https://", "http://[bad/", "javascript:alert(1)"])
async def test_what_is_no_address_of_the_web_is_refused(source: str) -> None:
    with pytest.raises(InputError):
        await load(source)


async def test_proxies_of_the_environment_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    site.html("/a", "a")
    assert isinstance((await load(f"{site.url}/a"))[0], Blob)


async def test_a_password_in_an_address_goes_to_its_server_and_nowhere_else(site: Site) -> None:
    site.html("/a?token=hidden&page=1", "a")
    address = site.url.replace("//", "//me:secret@") + "/a?token=hidden&page=1"
    (blob,) = await load(address)
    assert isinstance(blob, Blob)
    assert blob.uri == f"{site.url}/a?page=1"
    assert site.asked[-1][1]["authorization"] == "Basic bWU6c2VjcmV0"
    missing = await failure(site.url.replace("//", "//me:secret@") + "/none?token=hidden")
    shown = f"{missing} {missing.error} {missing.error.text('zh')}"
    assert "secret" not in shown
    assert "hidden" not in shown


async def test_a_password_goes_with_all_pages_of_a_sitemap_but_to_no_other_server(site: Site) -> None:
    site.html("/a", "a")
    site.sitemap("/sitemap.xml", f"{site.url}/a")
    await load(site.url.replace("//", "//me:secret@") + "/sitemap.xml")
    assert site.asked[-1][0] == "/a"
    assert site.asked[-1][1]["authorization"] == "Basic bWU6c2VjcmV0"
    with running_site() as other:
        other.html("/b", "b")
        site.pages["/away"] = Page(status=302, headers={"Location": f"{other.url}/b"})
        await load(site.url.replace("//", "//me:secret@") + "/away")
        assert [headers.get("authorization") for _, headers in other.asked] == [None, None]


@pytest.mark.parametrize(
    ("to", "goes"), [("https://a.org/x", True), ("http://a.org/x", False), ("https://b.org/x", False)]
)
def test_a_password_given_for_an_encrypted_address_is_not_sent_in_the_clear(to: str, goes: bool) -> None:
    assert may_have_login(to, "https://me:secret@a.org/") is goes
    assert may_have_login("https://a.org/", "http://me:secret@a.org/")


async def test_strange_headers_do_not_end_a_run(site: Site) -> None:
    dates = ("Mon, 01 Jan 2024 00:00:00 +99999999999999", "Fri, 31 Dec 9999 23:59:59 -1200",
             "Mon, 01 Jan 99999999999999999999 00:00:00 GMT")  # fmt: skip
    for date in dates:
        site.pages["/date"] = Page(body=b"x", headers={"Last-Modified": date, "ETag": '"\xe9"'})
        (blob,) = await load(f"{site.url}/date")
        assert isinstance(blob, Blob)
        assert (blob.modified, dict(blob.metadata)) == (None, {})


async def test_a_redirect_written_in_utf_8_is_followed(site: Site) -> None:
    site.html("/%E9%A1%B5?q=%E9%A1%B5", "found")
    site.pages["/a"] = Page(status=302, headers={"Location": "/页?q=页".encode().decode("latin-1")})
    assert isinstance((await load(f"{site.url}/a"))[0], Blob)
    assert site.paths()[-1] == "/%E9%A1%B5?q=%E9%A1%B5"


async def test_answers_to_questions_that_were_not_asked_are_failures(site: Site) -> None:
    """304 without a version asked about would be an unchanged document that is not there."""
    for status in (206, 304):
        site.pages["/a"] = Page(status=status, body=b"part" if status == 206 else b"")
        assert (await failure(f"{site.url}/a")).error.values["status"] == status


async def test_what_is_too_large_is_refused_while_it_comes(site: Site) -> None:
    site.pages["/large"] = Page(body=b"x" * 2_000)
    packed = gzip.compress(b"0" * 10_000_000)
    site.pages["/bomb"] = Page(body=packed, headers={"Content-Encoding": "gzip"})
    site.pages["/good"] = Page(body=gzip.compress(b"text"), headers={"Content-Encoding": "gzip"})
    site.pages["/cut"] = Page(body=gzip.compress(b"text" * 99)[:-9], headers={"Content-Encoding": "gzip"})
    two = gzip.compress(b"one, ") + gzip.compress(b"two")
    site.pages["/two"] = Page(body=two, headers={"Content-Encoding": "gzip"})
    site.pages["/odd"] = Page(body=b"x", headers={"Content-Encoding": "br"})
    assert (await failure(f"{site.url}/large", max_bytes=1_000)).error.key == "load.web_large"
    assert (await failure(f"{site.url}/bomb", max_bytes=1_000_000)).error.key == "load.web_large"
    assert (await load(f"{site.url}/good"))[0].data == b"text"  # type: ignore[union-attr]
    assert (await load(f"{site.url}/two"))[0].data == b"one, two"  # type: ignore[union-attr]
    assert (await failure(f"{site.url}/cut")).error.key == "load.unreachable"
    assert (await failure(f"{site.url}/odd")).error.key == "load.encoding"


async def test_what_does_not_come_ends_in_a_sentence(site: Site) -> None:
    site.pages["/slow"] = Page(body=b"x", stall=True)
    site.pages["/empty"] = Page()
    assert (await failure(f"{site.url}/slow", step_seconds=0.2)).error.key == "load.slow"
    assert (await failure(f"{site.url}/none")).error.values["status"] == 404
    assert (await failure(f"{site.url}/empty")).error.key == "load.empty"
    assert (await failure("http://127.0.0.1:9/")).error.key == "load.unreachable"
    assert (await failure("http://no-such-host.invalid/")).error.key == "load.unreachable"


async def test_a_page_that_has_not_changed_is_not_sent_again(site: Site) -> None:
    site.html("/a", "a", etag='"one"')
    (blob,) = await load(f"{site.url}/a")
    assert isinstance(blob, Blob)
    assert blob.metadata["etag"] == '"one"'
    document = Document(text="a", uri=blob.uri, metadata=blob.metadata)

    async def known(uri: str) -> Cursor | None:
        return Cursor.of(document) if uri == document.uri else None

    assert await load(f"{site.url}/a", known=known) == [Unchanged(uri=blob.uri, name="a")]
    site.html("/a", "b", etag='"two"')
    assert isinstance((await load(f"{site.url}/a", known=known))[0], Blob)


async def test_a_sitemap_gives_its_pages_and_those_of_its_sitemaps(site: Site) -> None:
    for path in ("/docs/a", "/docs/b", "/other"):
        site.html(path, path + f'<a href="{site.url}/docs/linked">')
    listed = (f"{site.url}/docs/more.xml.gz", "http://[nonsense")
    index = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in listed)
    index = f"<sitemapindex>{index}</sitemapindex>"
    site.pages["/docs/sitemap.xml"] = Page(body=index.encode())
    site.sitemap("/docs/more.xml.gz", f"{site.url}/docs/a", f"{site.url}/docs/b", f"{site.url}/docs/a",
                 f"{site.url}/other", "https://example.org/docs/", "nonsense")  # fmt: skip
    plain = site.pages["/docs/more.xml.gz"].body
    site.pages["/docs/more.xml.gz"] = Page(body=gzip.compress(plain))
    found = await load(f"{site.url}/docs/sitemap.xml")
    assert [item.uri for item in found] == [f"{site.url}/docs/a", f"{site.url}/docs/b"]
    assert "/docs/linked" not in site.paths()
    cut = await load(f"{site.url}/docs/sitemap.xml", max_pages=1)
    assert [type(item) for item in cut] == [Blob, LoadFailure]
    assert cut[1].error.key == "load.sitemap_many"  # type: ignore[union-attr]


async def test_a_sitemap_with_entities_or_damage_is_refused(site: Site) -> None:
    site.pages["/a.xml"] = Page(body=b"<!DOCTYPE x><urlset><url><loc>&a;</loc></url></urlset>")
    site.pages["/b.xml"] = Page(body=b"<urlset><url>")
    for path in ("/a.xml", "/b.xml"):
        assert (await failure(site.url + path)).error.key == "load.sitemap"


def test_a_small_sitemap_that_unpacks_to_much_fills_no_memory() -> None:
    packed = gzip.compress(b"<urlset>" + b"<a/>" * 1_000_000 + b"</urlset>")
    tracemalloc.start()
    try:
        assert read_sitemap(packed).pages == ()
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        b"<urlset>" + b"<a>" * 100_000,
        '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE x><urlset/>'.encode("utf-16"),
    ],
)
def test_a_sitemap_that_is_deep_or_hides_a_document_type_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match=r"nested|document type"):
        read_sitemap(data)
