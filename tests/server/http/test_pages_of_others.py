"""What a web page of another site may make a browser do to a server without keys: nothing."""

from __future__ import annotations

import json

import pytest
from raw_server import RawServer, request
from whole_document import described_operations

from server.http.origins import is_loopback

FOREIGN = {"origin": "http://evil.example"}
OPERATIONS = [
    (method, path.replace("{", "").replace("}", "")) for method, path in described_operations(below=("/v1",))
]
CHANGING = [one for one in OPERATIONS if one[0] not in ("GET", "HEAD")]
UNLOAD = "/models/unload"


def asked(rig, operations, **headers):
    """Operation → the status of a request for it, sent as a form sends it: without a preflight."""
    sent = {"content-type": "text/plain", **headers}

    async def scenario(client):
        return {
            (method, path): (await client.ask(method, path, body=b"{}", headers=sent)).status
            for method, path in operations
        }

    return rig.run(scenario)


def test_a_page_of_another_site_changes_nothing(rig):
    statuses = asked(rig, CHANGING, **FOREIGN)
    assert len(statuses) > 40
    assert {one for one, status in statuses.items() if status != 403} == set()
    assert rig.services.client.num_resets == 0


def test_programs_send_no_origin(rig):
    assert 403 not in asked(rig, OPERATIONS).values()


def test_reading_is_left_to_the_browser(rig):
    """Links from other pages lead here; scripts of theirs see no reply, since it has no CORS header."""
    answer = rig.get("/status", **FOREIGN)
    assert answer.status == 200
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8000", "EVIL.example.", "1.2.3.4.nip.io"])
def test_a_name_of_another_site_is_refused(rig, name):
    """Its own pages may read what they are answered: the browser takes the server for their site."""
    assert set(asked(rig, OPERATIONS, host=name).values()) == {403}
    refused = rig.get("/v1/models", host=name)
    assert refused.error["type"] == "PermissionDeniedError"
    assert "BRAID_ALLOWED_HOSTS" in refused.error["message"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "localhost",
            "localhost:8000",
            "127.0.0.1:8000",
            "[::1]:8000",
            "[::1]",
            "192.168.1.5",
            "10.0.0.7:80",
        ),
        *("braid", "braid:8000", "api.localhost", "printer.local", "host.docker.internal", "Localhost."),
    ],
)
def test_names_that_no_site_has_are_served(rig, name):
    assert rig.get("/v1/models", host=name).status == 200


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({}, 403),
        ({"host": "localhost"}, 403),
        ({"host": "::1"}, 403),
        ({"host": "0.0.0.0"}, 200),
        ({"allowed_hosts": ("llm.example",)}, 200),
        ({"allowed_hosts": ("*",)}, 200),
        ({"cors_origins": ("https://llm.example",)}, 200),
        ({"cors_origins": ("*",)}, 200),
    ],
)
def test_names_are_bounded_where_only_this_machine_is_served(make_rig, settings, status):
    assert make_rig(**settings).get("/v1/models", host="llm.example").status == status


def test_a_key_is_what_no_page_has(make_rig):
    rig = make_rig(api_keys=("one",))
    sent = {"host": "llm.example", "origin": "https://chat.example", "authorization": "Bearer one"}
    assert rig.post("/reset_prefix_cache", {}, **sent).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://test"}, 200),
        ({"origin": "http://localhost:3000"}, 200),
        ({"origin": "https://localhost"}, 200),
        ({"origin": "http://127.0.0.1:5173"}, 200),
        ({"origin": "http://[::1]:5173"}, 200),
        ({"origin": "http://0.0.0.0:5173"}, 200),
        ({"origin": "app://obsidian.md"}, 200),
        ({"origin": "file://"}, 200),
        ({"origin": "tauri://localhost"}, 200),
        ({"origin": "vscode-webview://abc"}, 200),
        ({"origin": "https://llm.example", "x-forwarded-host": "llm.example"}, 200),
        ({"origin": "https://llm.example", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "https://llm.example", "sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://llm.example", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"origin": "http://localhost:80@evil.example"}, 403),
        ({"origin": "http://127.0.0.1.evil.example"}, 403),
        ({"origin": "chrome-extension://abc"}, 403),
        ({"origin": "http://test.evil.example"}, 403),
    ],
)
def test_origins_of_this_machine_and_this_server_pass(rig, headers, status):
    assert rig.post("/reset_prefix_cache", {}, **headers).status == status


@pytest.mark.parametrize("allowed", ["http://evil.example", "*"])
def test_origins_can_be_allowed(make_rig, allowed):
    assert make_rig(cors_origins=(allowed,)).post("/reset_prefix_cache", {}, **FOREIGN).status == 200


def test_over_a_socket(make_rig):
    """The form of a page of another site, and a page whose name leads here."""
    body = json.dumps({"model": "tiny"}).encode()
    with RawServer(make_rig().app) as server:
        posted = request(
            "Origin: http://evil.example", "Connection: close", method="POST", path=UNLOAD, body=body
        )
        assert server.talk(posted).startswith(b"HTTP/1.1 403")
        named = request("Connection: close", path="/v1/models").replace(b"Host: x", b"Host: evil.example")
        assert server.talk(named).startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize(
    ("address", "is_so"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
    ],
)
def test_loopback_addresses(address, is_so):
    assert is_loopback(address) is is_so
