"""A hub behind a proxy, and one whose certificate is of an authority that the system does not know."""

from __future__ import annotations

import os
import socket
import socketserver
import ssl
import subprocess
import sys
import threading

import pytest
from fake_hub import FakeHub
from hub_rig import NAME, HubRig, content
from patience import PATIENCE_S

from pipelines.hub.base.environment import HubEnvironment
from pipelines.hub.base.errors import HubError

FILES = {"tiny-Q4_K_M.gguf": content(300_000)}
THEIRS = f"from huggingface_hub import snapshot_download; print(snapshot_download({NAME!r}))"


class Proxy(socketserver.ThreadingTCPServer):
    """Tunnels what CONNECT asks for; `seen` are the first lines of all requests."""

    daemon_threads = allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.seen: list[str] = []
        self.url = f"http://user:secret@127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class _Tunnel(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        line = self.rfile.readline().decode()
        headers = b"".join(iter(self.rfile.readline, b"\r\n")).decode().lower()
        self.server.seen.append(line.strip())
        if not line.startswith("CONNECT ") or "proxy-authorization: basic dxnlcjpzzwnyzxq=" not in headers:
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        host, _, port = line.split()[1].partition(":")
        with socket.create_connection((host, int(port))) as other:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_copy, args=(other, self.connection), daemon=True)
            back.start()
            _copy(self.connection, other)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """The certificate of an authority, and one of 127.0.0.1 and localhost that it signed, with its key."""
    folder = tmp_path_factory.mktemp("tls")
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority",
        "req -newkey rsa:2048 -nodes -keyout hub.key -out hub.csr -subj /CN=hub",
        "x509 -req -in hub.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out hub.pem -extfile names",
    ):
        done = subprocess.run(["openssl", *command.split()], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"openssl makes no certificate: {done.stderr[-200:]}")
    return folder


@pytest.fixture
def secure(authority, tmp_path, monkeypatch):
    """A rig of a hub over TLS; no variable of this machine's network counts."""
    for name in ("no_proxy", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority / "hub.pem", authority / "hub.key")
    with FakeHub({NAME: FILES}, tls=tls) as hub:
        yield HubRig(hub, tmp_path)


def test_an_unknown_authority_is_not_trusted(secure):
    with pytest.raises(HubError, match="certificate verify failed|CERTIFICATE_VERIFY_FAILED"):
        secure.pull()
    assert secure.hub.log == []


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_private_authority(secure, authority, monkeypatch, variable):
    monkeypatch.setenv(variable, str(authority / "ca.pem"))
    variables = {**secure.hub.environment(secure.folder), variable: str(authority / "ca.pem")}
    secure.environment = HubEnvironment.read(secure.folder / "braid", variables)
    assert (secure.pull() / "tiny-Q4_K_M.gguf").read_bytes() == FILES["tiny-Q4_K_M.gguf"]


def test_authorities_that_are_none(secure, authority):
    missing = {**secure.hub.environment(secure.folder), "REQUESTS_CA_BUNDLE": "/nowhere.pem"}
    with pytest.raises(HubError, match="there is no such file"):
        HubEnvironment.read(secure.folder / "braid", missing)
    secure.change(authorities=authority / "names")
    with pytest.raises(HubError, match="holds no certificates"):
        secure.pull()


def test_a_proxy_sees_no_more_than_the_hosts(secure, authority, monkeypatch):
    proxy = Proxy()
    secure.change(authorities=authority / "ca.pem", token="hf_good")
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    assert (secure.pull() / "tiny-Q4_K_M.gguf").is_file()
    port = secure.hub.port
    assert {*proxy.seen} == {f"CONNECT {host}:{port} HTTP/1.1" for host in ("127.0.0.1", "localhost")} or (
        {*proxy.seen} == {f"CONNECT {host}:{port} HTTP/1.0" for host in ("127.0.0.1", "localhost")}
    )
    num_seen = len(proxy.seen)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    secure.pull(local="direct")
    assert len(proxy.seen) == num_seen
    monkeypatch.delenv("NO_PROXY")
    proxy.shutdown()
    proxy.server_close()
    secure.pull(local="cached")
    assert "cannot be reached" in secure.events[-1].message


@pytest.mark.breadth
def test_huggingface_hub_by_the_same_variables(secure, authority):
    """The same proxy and authority serve both programs, and so does the cache."""
    proxy = Proxy()
    names = {"HTTPS_PROXY": proxy.url, "REQUESTS_CA_BUNDLE": str(authority / "ca.pem")}
    names["SSL_CERT_FILE"] = names["REQUESTS_CA_BUNDLE"]
    variables = {**os.environ, **secure.hub.environment(secure.folder), **names}
    del variables["no_proxy"]
    run = subprocess.run(
        [sys.executable, "-c", THEIRS], env=variables, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stderr
    assert proxy.seen
    num_contents = len(secure.hub.asked("/cdn/"))
    secure.environment = HubEnvironment.read(secure.folder / "braid", {**variables, "no_proxy": "*"})
    secure.pull()
    assert len(secure.hub.asked("/cdn/")) == num_contents
