"""Beam search from a request to its choices, both ends of the wire in one process."""

import asyncio
import json

import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model
from test_pipeline import asking, read, serving

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput
from pipelines.wire.sampling_params import Beams

GRAPH = FAKE_GRAPH.replace("from: logits}", "from: logits, defaults: generation_config.json}")
DEFAULTS = {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.1, "max_new_tokens": 9}
PROMPTS = [Prompt(text="one"), Prompt(ids=[1, 2, 3])]


@pytest.fixture
def models(tmp_path):
    """A model whose own wishes are all about drawing tokens, but for one."""
    (write_fake_model(tmp_path / "tiny", GRAPH) / "generation_config.json").write_text(json.dumps(DEFAULTS))
    return tmp_path


def test_each_choice_comes_whole_at_the_end(models):
    request = GenerationInput(prompts=PROMPTS, n=2, sampling={"beams": Beams(3), "ignore_eos": True})
    with asking(models) as ask:
        pieces = ask(request)
    assert sorted(pieces) == [0, 1, 2, 3]
    assert [len(updates) for updates in pieces.values()] == [1] * 4
    assert {(update.piece.finish, update.piece.num_tokens) for (update,) in pieces.values()} == {
        ("length", 9)
    }
    assert len({update.content for (update,) in pieces.values()}) == 4


def test_what_beams_cannot_honour_is_refused_by_its_name(models):
    with asking(models) as ask, pytest.raises(RequestError) as caught:
        ask(GenerationInput(prompts=PROMPTS, sampling={"beams": Beams(2), "top_p": 0.5}))
    assert caught.value.field == "top_p"


def test_a_closed_call_ends_the_search(models):
    async def run():
        async with serving(models) as (client, catalogue):
            sampling = {"beams": Beams(4), "max_tokens": 1000}
            call = catalogue.get("tiny").open(GenerationInput(prompts=PROMPTS, sampling=sampling), client)
            await asyncio.sleep(0.05)
            call.close()
            again = GenerationInput(prompts=PROMPTS, sampling={"beams": Beams(2)})
            pieces = await read(catalogue.get("tiny").open(again, client))
            return client.num_in_flight, pieces

    in_flight, pieces = asyncio.run(run())
    assert (in_flight, sorted(pieces)) == (0, [0, 1])
