"""Random events: every fault has its error event, and no socket is closed by them."""

from __future__ import annotations

import json
import logging
import os
import random
from copy import deepcopy
from typing import Any

import pytest
from realtime_rig import COMMIT, FINAL, UPDATE, append, spoken

NUM_EVENTS = int(os.environ.get("BRAID_SOCKET_EVENTS", "1500"))
BATCH = 50
PIECE = append(spoken(0.05))
SESSION = {"type": "transcription", "audio": {"input": {"turn_detection": None, "format": {"rate": 16_000}}}}
EVENTS: list[dict[str, Any]] = [
    *(UPDATE, COMMIT, FINAL, PIECE),
    {"type": "session.update", "session": SESSION},
    {"type": "transcription_session.update", "session": {"turn_detection": {"type": "server_vad"}}},
    {"type": "input_audio_buffer.clear", "event_id": "x"},
    {"type": "conversation.item.create", "item": {}},
]
VALUES = [None, True, 0, -1, 1e300, 2**70, "", "x", "\ud83d", "\x00", [], [[]], {}, {"type": "x"}, "=" * 5]
FAULTS = {"server_error", "processing_error"}
"""What an event for a fault of the server would have."""


def fields(value: Any) -> list[tuple[dict[str, Any], str]]:
    """All (object, name) pairs within."""
    if not isinstance(value, dict):
        return []
    return [(value, name) for name in value] + [pair for each in value.values() for pair in fields(each)]


def mutated(chance: random.Random) -> str | bytes:
    event = deepcopy(chance.choice(EVENTS))
    for _ in range(chance.randrange(3)):
        if pairs := fields(event):
            owner, name = chance.choice(pairs)
            match chance.randrange(3):
                case 0:
                    owner[name] = deepcopy(chance.choice(VALUES))
                case 1:
                    del owner[name]
                case 2:
                    owner[chance.choice(["type", "audio", "session", "final", "x"])] = deepcopy(
                        chance.choice(VALUES)
                    )
    text = json.dumps(event)
    if chance.random() < 0.2:
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice(["", "\x00", '"', "{", "[" * 70, "é"]) + text[at + 1 :]
    return text.encode() if chance.random() < 0.05 else text


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/realtime?intent=transcription"])
def test_random_events(live, caplog, path):
    """A rate of a client's own choice shows that it still listens."""
    caplog.set_level(logging.ERROR)
    chance = random.Random(path)
    answer = {"type": "no.such.event", "event_id": "last"}

    async def scenario(socket):
        for start in range(0, NUM_EVENTS, BATCH):
            batch = [mutated(chance) for _ in range(BATCH)]
            socket.say(*batch, answer)
            while True:
                event = await socket.event()
                fault = event.get("error")
                codes = {event.get("code"), fault.get("type") if isinstance(fault, dict) else None}
                assert not codes & FAULTS, (start, event)
                if "no.such.event" in str(fault):
                    break

    live(scenario, path)
    assert not caplog.records
    assert live.rig.services.admission.num_inside == 0
