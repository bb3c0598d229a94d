"""Images by URL: what is allowed, which address is dialled, and what bounds the bytes and their time."""

from __future__ import annotations

import asyncio
import gzip
import os
from contextlib import asynccontextmanager

import pytest
from patience import PATIENCE_S

from pipelines.base.errors import FetchFailed, Overloaded, RequestError
from pipelines.values.tasks import ImageInput
from server.media.addresses import is_public
from server.media.fetching import MAX_REQUESTS, MediaFetcher
from server.media.sources import MediaSources

WHERE = "messages.0.content.1"
MAX_BYTES = 10_000
PUBLIC = "93.184.215.14"


def reply(body=b"", status="200 OK", length=None, **headers):
    length = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def server_of(*replies, drip_s=None):
    """A server that sends one reply per connection, the last one again and again; yields (port, requests)."""
    requests, waiting = [], list(replies)

    async def answer(reader, writer):
        try:
            requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            data = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            for piece in [data] if drip_s is None else [data[i : i + 1] for i in range(len(data))]:
                writer.write(piece)
                await writer.drain()
                if drip_s is not None:
                    await asyncio.sleep(drip_s)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], requests
    finally:
        server.close()


class Network:
    """Hosts whose addresses a test chooses; every address leads to the server of the test."""

    def __init__(self, port, *addresses):
        self.port = port
        self.addresses = list(addresses)
        self.dialled = []

    async def resolve(self, host, port):
        return [self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]]

    async def dial(self, address, port, tls_name):
        self.dialled.append((address, port, tls_name))
        return await asyncio.open_connection("127.0.0.1", self.port)


def fetch(
    url,
    *replies,
    addresses=(PUBLIC,),
    drip_s=None,
    timeout_s=PATIENCE_S,
    hosts=("pictures.test",),
    max_all=MAX_BYTES,
):
    """(bytes, requests, dialled) of an image."""

    async def scene():
        async with server_of(*(replies or [reply()]), drip_s=drip_s) as (port, requests):
            network = Network(port, *addresses)
            fetcher = MediaFetcher(
                MediaSources(hosts), max_all, network.resolve, network.dial, timeout_s=timeout_s
            )
            try:
                fetched = await fetcher.fetch([ImageInput(url, "image_url", WHERE)], MAX_BYTES)
            except Exception as error:
                return error, requests, network.dialled
            return fetched[url], requests, network.dialled

    return asyncio.run(scene())


def refused(*args, kind=RequestError, **more):
    """The text of the refusal, and what was dialled before it."""
    error, _, dialled = fetch(*args, **more)
    assert type(error) is kind, error
    assert error.field == WHERE
    return error.message, dialled


def test_the_checked_address_is_dialled_with_the_host_in_the_request_and_the_certificate():
    data, requests, dialled = fetch("https://pictures.test/a%20b.png?x=1", reply(b"bytes"))
    assert data == b"bytes"
    assert dialled == [(PUBLIC, 443, "pictures.test")]
    assert requests[0].startswith("GET /a%20b.png?x=1 HTTP/1.1\r\nHost: pictures.test\r\n")
    assert fetch("http://Pictures.test/", reply(b"b"))[2] == [(PUBLIC, 80, None)]
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert fetch("http://pictures.test/", chunked)[0] == b"abcde"
    assert fetch("http://pictures.test/", b"HTTP/1.1 200 OK\r\n\r\nto the end")[0] == b"to the end"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "http://other.test/a",
            "from one of the allowed domains: [pictures.test]. Input URL domain: other.test",
        ),
        ("http://pictures.test.other.test/a", "Input URL domain: pictures.test.other.test"),
        ("http://pictures.test:8080/a", "Input URL domain: pictures.test:8080"),
        ("http://127.0.0.1/a", "Input URL domain: 127.0.0.1"),
        ("http://pictures.test./a", "Input URL domain: pictures.test."),
        ("http://pictures.test@other.test/a", "the URL is not valid"),
        ("http://other.test\\@pictures.test/a", "the URL is not valid"),
        ("http://pictures.test/a b", "the URL is not valid"),
        ("http://pictures.test/ä", "the URL is not valid"),
        ("http://pictures.test:x/", "the URL is not valid"),
        ("http://[", "the URL is not valid"),
        ("http:///a", "the URL is not valid"),
    ],
)
def test_hosts_that_are_not_allowed_are_never_dialled(url, words):
    message, dialled = refused(url)
    assert words in message
    assert dialled == []


def test_without_hosts_nothing_is_fetched():
    message, dialled = refused("http://pictures.test/", hosts=())
    assert "fetches nothing from the network" in message
    assert dialled == []


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "192.88.99.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "fec0::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:93.184.215.14", "::7f00:1", "64:ff9b::7f00:1", "64:ff9b:1::1"),
        *("2002:7f00:1::", "2001:0:7f00:1::", "no address"),
    ],
)
def test_addresses_within_a_network_are_not_public(address):
    assert not is_public(address)
    message, dialled = refused("http://pictures.test/", addresses=(address,))
    assert "has an address that is not public" in message
    assert dialled == []


@pytest.mark.parametrize("address", [PUBLIC, "1.1.1.1", "2606:4700:4700::1111"])
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)


def test_a_host_that_is_named_as_private_may_have_any_address_on_its_port_alone():
    async def scene():
        async with server_of(reply(b"inner")) as (port, _):
            fetcher = MediaFetcher(MediaSources((), (f"127.0.0.1:{port}",)), MAX_BYTES)
            url = f"http://127.0.0.1:{port}/"
            assert await fetcher.fetch([ImageInput(url, "image_url", WHERE)], MAX_BYTES) == {url: b"inner"}
            with pytest.raises(RequestError, match="Input URL domain: 127.0.0.1"):
                await fetcher.fetch([ImageInput("http://127.0.0.1/", "image_url", WHERE)], MAX_BYTES)

    asyncio.run(scene())


def to(location, status="302 Found"):
    return reply(b"elsewhere", status, Location=location)


def test_a_redirect_is_checked_as_the_first_url_is():
    data, requests, dialled = fetch("http://pictures.test/a", to("/b"), reply(b"bytes"))
    assert (data, len(dialled)) == (b"bytes", 2)
    assert requests[1].startswith("GET /b ")
    for location in ("http://127.0.0.1/", "//169.254.169.254/latest/meta-data", "https://other.test/"):
        message, dialled = refused("http://pictures.test/a", to(location))
        assert "from one of the allowed domains" in message
        assert len(dialled) == 1
    for location in ("file:///etc/passwd", "data:,x", "gopher://pictures.test/"):
        message, _ = refused("http://pictures.test/a", to(location))
        assert "redirects to what is no HTTP URL" in message
    message, dialled = refused("http://pictures.test/a", to("/a"), kind=FetchFailed)
    assert "more than 5 redirects" in message
    assert len(dialled) == 6


def test_a_name_whose_address_changes_is_checked_each_time_and_dialled_as_checked():
    message, dialled = refused("http://pictures.test/a", to("/b"), addresses=(PUBLIC, "127.0.0.1"))
    assert "has an address that is not public" in message
    assert dialled == [(PUBLIC, 80, None)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (reply(b"x" * (MAX_BYTES + 1)), "the file has more than 0.01 MB"),
        (reply(b"x", length=10**12), "the file has more than 0.01 MB"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3 * MAX_BYTES, "the file has more than 0.01 MB"),
        (reply(b"x" * 100, length=200), "ended before the whole file"),
        (reply(b"x", length="-5"), "is no HTTP"),
        (reply(b"x", length="1\r\nContent-Length: 2"), "is no HTTP"),
        (reply(gzip.compress(bytes(10**6)), Content_Encoding="gzip"), "the file is compressed"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Long: 1\r\n" * 20_000, "head of the reply is too long"),
        (b"\x16\x03\x01 no HTTP at all\r\n\r\n", "is no HTTP"),
        (b"", "ended before the whole file"),
        (reply(status="404 Not Found"), "Failed to fetch media from URL: HTTP 404 error"),
        (reply(status="500 No"), "HTTP 500 error"),
        (reply(status="302 Found"), "HTTP 302 error"),
    ],
)
def test_replies_that_are_no_file_within_the_bound(data, words):
    assert words in refused("http://pictures.test/", data, kind=FetchFailed)[0]


def test_the_files_of_a_request_have_one_bound_together():
    assert (
        "more than 5e-05 MB"
        in refused("http://pictures.test/", reply(b"x" * 60), kind=FetchFailed, max_all=50)[0]
    )


def test_a_reply_that_drips_ends_at_the_deadline():
    url = "http://pictures.test/"
    for data in (reply(b"x" * 5_000), b"HTTP/1.1 200 OK\r\nX: " + b"y" * 5_000):
        message, _ = refused(url, data, drip_s=0.01, timeout_s=0.2, kind=FetchFailed)
        assert "it took more than 0.2 s" in message


def test_hosts_without_an_address_or_an_answer():
    async def nowhere(*args):
        raise OSError("no such host: internal details")

    async def scene(**ways):
        fetcher = MediaFetcher(MediaSources(("pictures.test",)), MAX_BYTES, **ways)
        with pytest.raises(FetchFailed, match="^Failed to fetch media from URL: the host cannot be reached$"):
            await fetcher.fetch([ImageInput("http://pictures.test/", "image_url", WHERE)], MAX_BYTES)

    asyncio.run(scene(resolve=nowhere))
    asyncio.run(scene(resolve=Network(0, PUBLIC).resolve, dial=nowhere))


def test_requests_beyond_the_places_are_overload():
    async def scene():
        over = asyncio.Event()

        async def late(*args):
            await over.wait()
            raise OSError

        fetcher = MediaFetcher(
            MediaSources(("pictures.test",)), MAX_BYTES, resolve=late, timeout_s=PATIENCE_S
        )
        images = [ImageInput("http://pictures.test/", "image_url", WHERE)]
        first = [asyncio.create_task(fetcher.fetch(images, MAX_BYTES)) for _ in range(MAX_REQUESTS)]
        await asyncio.sleep(0)
        fetcher._timeout_s = 0.01
        with pytest.raises(Overloaded, match="too many requests fetch images"):
            await fetcher.fetch(images, MAX_BYTES)
        over.set()
        for result in await asyncio.gather(*first, return_exceptions=True):
            assert isinstance(result, FetchFailed)

    asyncio.run(scene())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shown" / "below").mkdir(parents=True)
    (tmp_path / "shown" / "below" / "a b.png").write_bytes(b"bytes")
    (tmp_path / "shown" / "long.png").write_bytes(bytes(MAX_BYTES + 1))
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "shown2").mkdir()
    (tmp_path / "shown2" / "secret").write_bytes(b"secret")
    (tmp_path / "shown" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "shown" / "folder_out").symlink_to(tmp_path)
    (tmp_path / "shown" / "in").symlink_to(tmp_path / "shown" / "below" / "a b.png")
    (tmp_path / "shown" / "round").symlink_to(tmp_path / "shown" / "round")
    os.mkfifo(tmp_path / "shown" / "pipe")
    return tmp_path / "shown"


def read(folder, path):
    return MediaSources(folder=folder).read_file(path, MAX_BYTES, WHERE)


def test_files_below_the_folder_are_read(folder):
    assert read(folder, f"file://{folder}/below/a%20b.png") == b"bytes"
    assert read(folder, f"file://localhost{folder}/in") == b"bytes"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("file://{}/out", "must be a subpath"),
        ("file://{}/folder_out/secret", "must be a subpath"),
        ("file://{}/../secret", "must be a subpath"),
        ("file://{}/%2e%2e/secret", "must be a subpath"),
        ("file://{}/below/../../shown2/secret", "must be a subpath"),
        ("file://{}2/secret", "must be a subpath"),
        ("file:///etc/passwd", "must be a subpath"),
        ("file:///no/such/file", "must be a subpath"),
        ("file://other.test{}/in", "must be a subpath"),
        ("file:{}/%00", "not valid"),
        ("file://{}", "no such file"),
        ("file://{}/missing", "no such file"),
        ("file://{}/pipe", "no such file"),
        ("file://{}/round", "no such file|not valid"),
        ("file://{}/long.png", "more than 0.01 MB"),
    ],
)
def test_other_files_are_refused(folder, path, words):
    with pytest.raises(RequestError, match=words) as refusal:
        read(folder, path.format(folder))
    assert refusal.value.field == WHERE
    with pytest.raises(RequestError, match="Cannot load local files without"):
        read(None, path.format(folder))
