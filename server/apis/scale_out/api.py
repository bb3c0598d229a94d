"""vLLM's paths for other servers and trainers: a prompt is rendered by one and generated from by another."""

from __future__ import annotations

from server.apis.scale_out.render_endpoint import RenderChatEndpoint, RenderCompletionEndpoint
from server.apis.scale_out.sleep_endpoints import (
    IsPausedEndpoint,
    IsSleepingEndpoint,
    PauseEndpoint,
    ResumeEndpoint,
    SleepEndpoint,
    WakeUpEndpoint,
)
from server.apis.scale_out.tokens_endpoint import AbortRequestsEndpoint, GenerateTokensEndpoint
from server.services.api import Api

API = Api(
    "scale_out",
    root={
        "/v1/chat/completions/render": RenderChatEndpoint,
        "/v1/completions/render": RenderCompletionEndpoint,
        "/inference/v1/generate": GenerateTokensEndpoint,
        "/inference/v1/abort_requests": AbortRequestsEndpoint,
        "/sleep": SleepEndpoint,
        "/wake_up": WakeUpEndpoint,
        "/is_sleeping": IsSleepingEndpoint,
        "/pause": PauseEndpoint,
        "/resume": ResumeEndpoint,
        "/is_paused": IsPausedEndpoint,
    },
)
