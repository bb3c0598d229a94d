"""Calls with adapters: the weights of a few are in memory, calls take turns, and no adapter answers for another."""

from __future__ import annotations

import asyncio

import pytest
from patience import PATIENCE_S, until
from peft_adapters import write_adapted_model, write_adapter
from served_models import in_one_process

from pipelines.errors import ModelNotFound, NotFound, RequestError
from pipelines.tasks import GenerationInput, Prompt

NAMES = ("a", "b", "c", "d", "e")


async def tokens(client, catalogue, name, max_tokens=6):
    """What a request for a name generates."""
    sampling = {"max_tokens": max_tokens, "temperature": 0.0, "ignore_eos": True}
    request = GenerationInput(prompts=[Prompt("this is the prompt of all")], sampling=sampling)
    call = catalogue.get(name).open(request, client)
    found = []
    try:
        async for batch in call.updates():
            found += [token for _, update in batch for token in update.piece.token_ids]
    finally:
        call.close()
    return found


def test_each_adapter_answers_for_itself(tmp_path):
    write_adapted_model(tmp_path / "models" / "m", *NAMES)

    async def scene(client, catalogue):
        alone = {name: await tokens(client, catalogue, name) for name in ("m", *NAMES)}
        together = await asyncio.gather(
            *[tokens(client, catalogue, name) for _ in range(3) for name in ("m", *NAMES)]
        )
        engine = client.host._instances.current("m").model.stepped["generated"]
        counts = engine.counts()
        return alone, together, counts

    alone, together, counts = in_one_process(scene, tmp_path / "models")
    assert len({tuple(each) for each in alone.values()}) == 6
    assert together == [*alone.values()] * 3
    assert counts.running == counts.waiting == 0
