"""A batcher's rows as a scheduler's context: they stay in the host, and each prompt attends to its own."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from fake_decoder import write_fake_model
from fake_encoder import row_of, use_fake_encoders
from patience import PATIENCE_S
from scripted_host import until
from served_models import in_one_process, over_a_socket

from pipelines.base.errors import EngineError, RequestError
from pipelines.host.models.model import load_for_host
from pipelines.inference.backends.fake_decoder import fake_logits
from pipelines.loading.load import BuildError
from pipelines.repository.model_folders import scan
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput
from pipelines.wire.address import EngineAddress
from pipelines.wire.requests import Submit, TokenRequest
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.update_queue import UpdateQueue

GRAPH = """\
version: 1
task: completion
nodes:
  tokens: {type: tokenize, from: request.prompts, tokenizer: tokenizer.json}
  frames:
    type: batcher
    from: tokens
    body:
      hidden: {type: encoder, from: batch, path: encoder.fake}
  generated:
    type: scheduler
    from: {tokens: tokens, context: frames}
    max_sequences: 8
    max_step_tokens: 96
    cache: {memory_gb: 0.0000005}
    body:
      logits: {type: model, from: step, path: fake.json, device: fake}
      next: {type: sampler, from: logits}
  text: {type: detokenize, from: generated, tokenizer: tokenizer.json}
"""
PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10]]
VOCABULARY, NUM_TOKENS = 259, 6


def write(folder, graph=GRAPH, per_token=True, encoder_hidden_size=4):
    write_fake_model(folder, graph, encoder_hidden_size=encoder_hidden_size)
    (folder / "encoder.fake").write_text(json.dumps({"per_token": per_token}))


@pytest.fixture
def encoders(monkeypatch):
    return use_fake_encoders(monkeypatch)


@pytest.fixture(params=[in_one_process, over_a_socket], ids=["in process", "socket"])
def over(request, tmp_path, encoders):
    write(tmp_path / "translator")
    return lambda scene: request.param(scene, tmp_path)


def asked(prompts, n=1):
    sampling = {"max_tokens": NUM_TOKENS, "temperature": 0.0, "ignore_eos": True}
    return GenerationInput(prompts=[Prompt(ids=ids) for ids in prompts], n=n, sampling=sampling)


async def tokens_of(call):
    """The ids of each choice."""
    found = {}
    async for updates in call.updates():
        for choice, update in updates:
            found.setdefault(choice, []).extend(update.piece.token_ids)
    return [found[choice] for choice in sorted(found)]


async def ask(client, catalogue, prompts, n=1):
    call = catalogue.get("translator").open(asked(prompts, n), client)
    try:
        return await asyncio.wait_for(tokens_of(call), PATIENCE_S)
    finally:
        call.close()


def alone(prompt):
    """What the fake decoder gives after a prompt, over what the fake encoder gives for it."""
    frames = np.array([row_of(prompt[:end]) for end in range(1, len(prompt) + 1)])
    ids = list(prompt)
    for _ in range(NUM_TOKENS):
        ids.append(int(fake_logits([np.array(ids)], VOCABULARY, frames).argmax()))
    return ids[len(prompt) :]


def test_each_prompt_attends_to_its_own_rows_and_its_choices_share_them(over):
    async def scene(client, catalogue):
        answers = await asyncio.gather(
            ask(client, catalogue, PROMPTS), *(ask(client, catalogue, [ids], n=2) for ids in PROMPTS)
        )
        return answers, client.num_in_flight

    (together, *apart), in_flight = over(scene)
    wanted = [alone(ids) for ids in PROMPTS]
    assert together == wanted
    assert apart == [[tokens, tokens] for tokens in wanted]
    assert in_flight == 0


@pytest.mark.parametrize("lost", [False, True], ids=["closed", "worker lost"])
def test_rows_do_not_cross_to_the_worker_and_end_with_their_call(lost, tmp_path, encoders):
    write(tmp_path / "translator")

    async def scene(client, catalogue):
        replies, received, calls = [], client.received, client.host._calls

        def note(message):
            replies.extend(getattr(message, "outputs", []))
            received(message)

        client.received = note
        call = catalogue.get("translator").open(asked(PROMPTS), client)
        await tokens_of(call)
        (holding,) = calls
        lengths = [len(rows) for rows in holding.held]
        if lost:
            client._link.close()
        else:
            call.close()
            call.close()
        await until(lambda: not len(calls))
        return [tensor.name for tensor in replies], lengths

    assert in_one_process(scene, tmp_path) == (["lengths", "held"], [3, 1, 6])


@pytest.mark.parametrize("lost", [False, True], ids=["closed", "worker lost"])
def test_later_calls_use_the_rows_that_an_earlier_one_has_had_held(lost, tmp_path, encoders):
    write(tmp_path / "translator")

    async def scene(client, catalogue):
        pipeline, host_calls = catalogue.get("translator"), client.host._calls
        runs = [encoder.batches for encoder in encoders][-1]
        before, first = len(runs), pipeline.open(asked(PROMPTS[:1]), client)
        second, late = (pipeline.prepare(asked(PROMPTS[:1], 2), client, "", first) for _ in range(2))
        texts = [await asyncio.wait_for(tokens_of(first), PATIENCE_S)]
        second.start()
        texts.append(await asyncio.wait_for(tokens_of(second), PATIENCE_S))
        await until(lambda: len(host_calls) == 1)  # the rows
        if lost:
            client._link.close()
        else:
            first.close()
        await until(lambda: not len(host_calls))
        if not lost:
            late.start()
            with pytest.raises(EngineError, match="not held any more"):
                await asyncio.wait_for(tokens_of(late), PATIENCE_S)
        return texts, len(runs) - before

    wanted = alone(PROMPTS[0])
    assert in_one_process(scene, tmp_path) == ([[wanted], [wanted, wanted]], 1)


def test_rows_that_are_gone_are_an_error_of_the_request(over):
    async def scene(client, catalogue):
        queue = UpdateQueue()
        instance = next(model.instance_id for model in client.status.models)
        params = SamplingParams(max_tokens=2)
        address = EngineAddress("translator", instance, "generated")
        client.submit(Submit(address, TokenRequest([[1]], params), context=99), queue)
        with pytest.raises(EngineError, match="not held any more"):
            await asyncio.wait_for(queue.get(), PATIENCE_S)

    over(scene)


def test_more_rows_than_the_cache_holds_are_refused(over):
    async def scene(client, catalogue):
        with pytest.raises(RequestError, match="tokens and encoder states together"):
            await ask(client, catalogue, [list(range(1, 63))])
        return await ask(client, catalogue, [[1, 2]])

    assert over(scene) == [alone([1, 2])]


FRAMES = GRAPH[GRAPH.index("  frames:") : GRAPH.index("  generated:")]
ALONE = GRAPH.replace(FRAMES, "").replace("{tokens: tokens, context: frames}", "tokens")


@pytest.mark.parametrize(
    ("graph", "fake", "message"),
    [
        (ALONE, {}, "add `context:` to its inputs, a batcher"),
        (GRAPH, {"encoder_hidden_size": 0}, "attends to nothing but its own tokens"),
        (GRAPH, {"encoder_hidden_size": 5}, "gives rows of 4 numbers"),
        (GRAPH, {"per_token": False}, "must be a batcher whose body gives"),
    ],
)
def test_lines_that_do_not_fit_are_refused_when_they_are_loaded(graph, fake, message, tmp_path, encoders):
    write(tmp_path / "translator", graph, **fake)
    (model,) = scan(tmp_path)
    with pytest.raises(BuildError, match=message):
        load_for_host(model)
