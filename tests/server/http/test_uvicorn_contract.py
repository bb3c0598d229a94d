"""What the HTTP layer relies on inside uvicorn, websockets and httptools: another version must keep it.

Where this fails after an upgrade, read what changed in the class that it names, and in the file of ours that it
names whether that still holds; then write the new names, or the new digest, here.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import httptools
import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Close, Frame
from websockets.server import ServerProtocol
from websockets.streams import StreamReader

from server.http.bounded_protocol import BoundedProtocol, new_parser
from server.http.bounded_socket import BoundedSocket
from server.http.close_delimited import CloseDelimitedCycle
from server.http.one_write import LateContinueCycle, OneWriteCycle

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Relied:
    """What is relied on: `methods` with their parameters, `attributes` that the class sets on itself, and
    `source`, the digest of its code; "": it may be any.  `look`: what of ours to look at.
    """

    methods: dict[str, str]
    attributes: frozenset[str]
    source: str
    look: str


CONTRACT = {
    RequestResponseCycle: Relied(
        {"send": "self, message", "receive": "self"},
        frozenset(
            [
                "scope",
                "transport",
                "message_event",
                "disconnected",
                "keep_alive",
                "waiting_for_100_continue",
                "more_body",
                "response_started",
                "response_complete",
                "chunked_encoding",
                "expected_content_length",
            ]
        ),
        "ca92fd2c885a2885",
        "server/http/one_write.py and close_delimited.py: their cycles become the class of uvicorn's",
    ),
    HttpToolsProtocol: Relied(
        {
            "__init__": "self, config, server_state, app_state, _loop",
            "connection_made": "self, transport",
            "connection_lost": "self, exc",
            "shutdown": "self",
            "data_received": "self, data",
            "on_message_begin": "self",
            "on_url": "self, url",
            "on_header": "self, name, value",
            "on_headers_complete": "self",
            "on_body": "self, body",
            "on_message_complete": "self",
            "on_response_complete": "self",
            "handle_websocket_upgrade": "self",
            "_should_upgrade": "self",
            "_unset_keepalive_if_required": "self",
        },
        frozenset(
            [
                "loop",
                "logger",
                "parser",
                "transport",
                "flow",
                "pipeline",
                "scope",
                "headers",
                "url",
                "expect_100_continue",
                "cycle",
            ]
        ),
        "7803929290cb172a",
        "server/http/bounded_protocol.py: it replaces how bytes are read, and counts on what the rest does",
    ),
    FlowControl: Relied(
        {"resume_reading": "self"},
        frozenset({"read_paused"}),
        "c65dd06c78e3ca65",
        "server/http/bounded_protocol.py: `flow` says whether a client is held back",
    ),
    WebSocketsSansIOProtocol: Relied(
        {
            "__init__": "self, config, server_state, app_state, _loop",
            "connection_lost": "self, exc",
            "data_received": "self, data",
            "handle_connect": "self, event",
            "handle_cont": "self, event",
            "handle_ping": "self",
            "handle_parser_exception": "self",
            "keepalive_timeout": "self",
            "send_receive_event_to_app": "self",
            "receive": "self",
            "send": "self, message",
        },
        frozenset(
            [
                "loop",
                "logger",
                "transport",
                "conn",
                "scope",
                "queue",
                "frames",
                "response",
                "writable",
                "close_timer",
                "close_sent",
                "disconnected",
                "handshake_initiated",
                "handshake_complete",
            ]
        ),
        "51c38e3722463fc5",
        "server/http/bounded_socket.py: it bounds fragments, and what a client lets pile up",
    ),
    ServerProtocol: Relied(
        {"fail": "self, code, reason", "data_to_send": "self"},
        frozenset({"reader", "close_sent", "logger"}),
        "",
        "server/http/bounded_socket.py: `conn`, the state of a WebSocket",
    ),
}
OURS = {
    BoundedProtocol: HttpToolsProtocol,
    BoundedSocket: WebSocketsSansIOProtocol,
    CloseDelimitedCycle: RequestResponseCycle,
    OneWriteCycle: RequestResponseCycle,
    LateContinueCycle: RequestResponseCycle,
}


def said(cls, what):
    package = cls.__module__.partition(".")[0]
    return f"{package} {version(package)}: {cls.__name__} {what}; look at {CONTRACT[cls].look}"


@pytest.mark.parametrize("cls", CONTRACT, ids=lambda cls: cls.__name__)
def test_methods_have_the_parameters_with_which_they_are_called(cls):
    for name, expected in CONTRACT[cls].methods.items():
        method = getattr(cls, name, None)
        assert method is not None, said(cls, f"has no {name}")
        given = ", ".join(inspect.signature(method).parameters)
        assert given == expected, said(cls, f"has {name}({given}), not {name}({expected})")


@pytest.mark.parametrize("cls", CONTRACT, ids=lambda cls: cls.__name__)
def test_attributes_are_set(cls):
    there = {name for part in cls.__mro__[:-1] for name in names_set(part)}
    missing = CONTRACT[cls].attributes - there
    assert not missing, said(cls, f"sets no {', '.join(sorted(missing))}")


@pytest.mark.parametrize(
    "cls", [each for each in CONTRACT if CONTRACT[each].source], ids=lambda cls: cls.__name__
)
def test_the_code_is_that_which_was_read(cls):
    found = hashlib.blake2b(inspect.getsource(cls).encode(), digest_size=8).hexdigest()
    assert found == CONTRACT[cls].source, said(cls, f"has other code, of digest {found}")


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_what_our_classes_use_of_theirs_is_in_the_contract(cls):
    base = OURS[cls]
    own = {name for part in cls.__mro__ if part.__module__.startswith("server.") for name in vars(part)}
    own |= {name for name in names_set(cls) if name not in names_set(base)}
    relied = CONTRACT[base].attributes | CONTRACT[base].methods.keys()
    unlisted = names_used(cls) - own - relied
    assert not unlisted, f"{cls.__name__} uses {', '.join(sorted(unlisted))} of {base.__name__}: list it here"
    overridden = {name for name in vars(cls) if name in vars(base) and not name.startswith("__")}
    assert overridden - {"__init__"} <= CONTRACT[base].methods.keys()


@pytest.mark.parametrize("cls", [OneWriteCycle, LateContinueCycle, CloseDelimitedCycle])
def test_a_cycle_can_become_one_of_ours(cls):
    cycle = RequestResponseCycle(*[None] * len(list(inspect.signature(RequestResponseCycle).parameters)))
    cls.replace(cycle)
    assert type(cycle) is cls, said(RequestResponseCycle, "cannot become another class")


def test_statuses_have_lines_of_bytes():
    for status in (400, 408, 414, 431):
        assert STATUS_LINE[status].startswith(b"HTTP/1.1 %d " % status)
        assert STATUS_LINE[status].endswith(b"\r\n")


def test_frames_and_closes_say_what_they_hold():
    assert {"data", "fin"} <= {*inspect.signature(Frame).parameters}
    assert {"code", "reason"} <= {*inspect.signature(Close).parameters}
    assert isinstance(StreamReader().buffer, bytearray)


class Callbacks:
    """What a parser calls; `on_url` raises what it is made with."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault

    def on_url(self, url: bytes) -> None:
        if self.fault is not None:
            raise self.fault


def test_the_parser_hands_on_what_a_callback_raises():
    fault = ValueError("too long")
    with pytest.raises(httptools.HttpParserError) as caught:
        new_parser(Callbacks(fault)).feed_data(b"GET / HTTP/1.1\r\n\r\n")
    assert caught.value.__context__ is fault, (
        "httptools: BoundedProtocol.data_received reads the refusal there"
    )


def test_the_parser_stops_at_an_upgrade_and_says_where():
    head = b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    parser = new_parser(Callbacks())
    with pytest.raises(httptools.HttpParserUpgrade) as caught:
        parser.feed_data(head + b"rest")
    assert caught.value.args[0] == len(head), (
        "httptools: BoundedProtocol._upgrade reads what follows from there"
    )
    assert (parser.get_method(), parser.get_http_version(), parser.should_upgrade()) == (b"GET", "1.1", True)


def names_set(cls):
    """Names that the code of a class gives a value on `self`."""
    stores = (
        node for node in ast.walk(tree_of(cls)) if isinstance(node, ast.Attribute) and is_self(node.value)
    )
    return {node.attr for node in stores if isinstance(node.ctx, ast.Store)}


def names_used(cls):
    """Names that the code of a class reads or calls on `self` and `super()`."""
    loads = (node for node in ast.walk(tree_of(cls)) if isinstance(node, ast.Attribute))
    return {node.attr for node in loads if is_self(node.value) or is_super(node.value)} - {"__class__"}


def tree_of(cls):
    return ast.parse(inspect.getsource(cls))


def is_self(node):
    return isinstance(node, ast.Name) and node.id == "self"


def is_super(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
