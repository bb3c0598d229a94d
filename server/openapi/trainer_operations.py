"""The operations by which trainers have a server's memory, or a moment without steps: vLLM's."""

from __future__ import annotations

from server.openapi.operation import GETS, GUARDED, JSON, LEVEL, Operation
from server.openapi.schemas import Schema

MODE: dict[str, Schema] = {"mode": {"type": "string", "enum": ["abort", "wait", "keep"]}}
PAUSE: dict[str, Schema] = {
    **MODE,
    "clear_cache": {"type": "boolean"},
    "wait_for_inflight_requests": {"type": "boolean"},
}

TRAINER_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/sleep": {
        "POST": Operation(
            "Unload every model, once its calls have ended",
            "models",
            reply=JSON,
            query={**LEVEL, **MODE},
            errors=(*GETS, 400),
        )
    },
    "/wake_up": {"POST": Operation("Load what was put to sleep", "models", reply=JSON, errors=(*GETS, 404))},
    "/is_sleeping": {
        "GET": Operation("Whether the server was put to sleep", "models", reply=JSON, errors=GUARDED)
    },
    "/pause": {
        "POST": Operation(
            "Generate nothing until `/resume`", "models", reply=JSON, query=PAUSE, errors=(*GETS, 400)
        )
    },
    "/resume": {"POST": Operation("Generate again", "models", reply=JSON, errors=GETS)},
    "/is_paused": {"GET": Operation("Whether the server is paused", "models", reply=JSON, errors=GUARDED)},
}
