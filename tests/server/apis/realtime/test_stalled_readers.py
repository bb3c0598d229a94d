"""A client of a spoken conversation that stops reading, on a real socket: no sound is made ahead without end, and a
deadline frees all.
"""

from __future__ import annotations

import json
import socket
import time

import pytest
from fake_decoder import write_fake_model
from patience import PATIENCE_S
from raw_server import RawServer
from voice_models import write_voice

pytest.importorskip("websockets")  # of the extra `audio`

from test_sockets import upgrade
from websockets.frames import Frame, Opcode

from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from pipelines.worker.composed_call import ComposedCall
from server.app import create_app
from server.base.settings import Settings
from server.connect import make_services

GRAPH = """\
version: 1
task: chat
nodes:
  answer: {type: graph, graph: tiny, from: request}
  reply: {type: speak, graph: voice, from: answer, longest: 40}
"""
ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
EVENTS = ({"type": "conversation.item.create", "item": ITEM}, {"type": "response.create"})
MOST_AHEAD = 2000
"""Sentences that fill what the kernel and the server hold for a socket, by far."""


def until(condition):
    ends_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends_s
        time.sleep(0.02)


def is_idle(services):
    """Whether no engine has a request, or a block of one."""
    engines = [engine for each in services.client.host._instances for engine in each.model.engines.values()]
    return not any(each.running or each.waiting or each.blocks_used for each in (e.counts() for e in engines))


@pytest.fixture
def asked(monkeypatch):
    """What lines have asked, by the models."""
    ask, models = ComposedCall.ask, []

    async def noted(self, line, graph, request):
        models.append(graph.name)
        return await ask(self, line, graph, request)

    monkeypatch.setattr(ComposedCall, "ask", noted)
    return models


def test_a_client_that_stops_reading_sound_is_given_up(tmp_path, asked):
    write_fake_model(tmp_path / "tiny", max_context=1 << 20)
    (tmp_path / "voice").mkdir()
    write_voice(tmp_path / "voice")
    write_fake_model(tmp_path / "endless", GRAPH)
    services = make_services(Settings(responses_store=False), InProcessClient(ModelSource(tmp_path)))
    pings = {"ws_ping_interval": 1.0, "ws_ping_timeout": 2.0}
    with RawServer(create_app(services), **pings) as server:
        until(lambda: {card.state for card in services.catalogue.cards()} == {"ready"})
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(upgrade(path="/v1/realtime?model=endless"))
            assert client.recv(1024).startswith(b"HTTP/1.1 101 ")
            for event in EVENTS:
                client.sendall(Frame(Opcode.TEXT, json.dumps(event).encode()).serialize(mask=True))
            until(lambda: "voice" in asked)
            until(lambda: is_idle(services) and not services.admission.num_inside)
        assert 0 < asked.count("voice") < MOST_AHEAD
        assert services.client.host._instances  # the engine lives on
