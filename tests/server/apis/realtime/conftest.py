from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from realtime_rig import Socket, one_word_each_second
from speech_rig import Script, SpeechPipeline


@pytest.fixture
def live(make_rig) -> Callable[..., Any]:
    """Runs a scenario with a connected socket of a new application; `live.rig` has its services."""

    def live(
        scenario: Callable[[Socket], Awaitable[Any]],
        path: str = "/v1/realtime",
        script: Script = one_word_each_second,
        settings: dict[str, Any] | None = None,
        **headers: str,
    ) -> Any:
        live.pipeline = SpeechPipeline(script)
        live.rig = make_rig(live.pipeline, **(settings or {}))

        async def whole(client: Any) -> Any:
            async with Socket(live.rig.app, path, **headers) as socket:
                return await scenario(socket)

        return live.rig.run(whole)

    return live
