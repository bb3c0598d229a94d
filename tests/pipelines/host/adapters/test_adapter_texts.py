"""Texts to embed with adapters, in one process: each name has its own vectors, and few adapters are in memory."""

from __future__ import annotations

import asyncio
import random

import pytest
from fake_encoder import FAKE_BATCHER, use_fake_encoders, write_fake_encoder
from patience import until
from peft_adapters import write_adapter
from served_models import in_one_process

from pipelines.base.errors import NotFound, RequestError
from pipelines.host.models.model import load_for_host
from pipelines.loading.load import BuildError
from pipelines.repository.model_folders import scan
from pipelines.values.tasks import PoolingInput, Prompt

LINE = "path: encoder.fake"
ADAPTED = f"{LINE}, adapters: {{folder: adapters, max_loaded: 2, max_rank: 4}}"
GRAPH = FAKE_BATCHER.replace(LINE, ADAPTED)
NAMES = ("a", "b", "c")
TEXTS = ["some text", "other", "some text"]


@pytest.fixture
def encoders(monkeypatch):
    """Those that were opened."""
    return use_fake_encoders(monkeypatch)


@pytest.fixture
def model(tmp_path, encoders):
    """The folder of an encoder with three adapters, of which two are in memory."""
    model = write_fake_encoder(tmp_path / "models" / "m", GRAPH, num_linears=1)
    for seed, name in enumerate(NAMES):
        write_adapter(model / "adapters" / name, seed)
    return model


async def vectors(client, catalogue, name):
    call = catalogue.get(name).open(PoolingInput(prompts=[Prompt(text) for text in TEXTS]), client)
    try:
        return (await call.answer()).values.tolist()
    finally:
        call.close()


def test_each_name_has_its_own_vectors_and_adapters_take_turns(model, encoders):
    async def scene(client, catalogue):
        alone = {name: await vectors(client, catalogue, name) for name in ("m", *NAMES)}
        names = ["m", *NAMES, "m:b"] * 20
        random.Random(0).shuffle(names)
        together = await asyncio.gather(*[vectors(client, catalogue, name) for name in names])
        return alone, list(zip(names, together, strict=True)), client.host._requests._coming

    alone, together, coming = in_one_process(scene, model.parent)
    assert len({str(embedding) for embedding in alone.values()}) == 4
    assert all(embedding == alone[name.rpartition(":")[2]] for name, embedding in together)
    assert len(encoders[-1].adapters) <= 2
    assert not coming


def test_changed_files_are_loaded_anew_and_broken_ones_refused_by_name(model, encoders):
    write_adapter(model / "adapters" / "wide", rank=5)

    async def scene(client, catalogue):
        before = await vectors(client, catalogue, "a")
        write_adapter(model / "adapters" / "a", 8)
        assert await vectors(client, catalogue, "a") == before  # it is in memory
        await client.load_adapter("a", "a", None, True)
        after = await vectors(client, catalogue, "a")
        with pytest.raises(RequestError, match="The adapter `wide` cannot be used: .* rank 5"):
            catalogue.get("wide")
        write_adapter(model / "adapters" / "b", 9)
        with pytest.raises(RequestError, match="The adapter `b` cannot be used: its files were changed"):
            await vectors(client, catalogue, "b")
        number = next(iter(encoders[-1].adapters))
        await client.unload_adapter("a")
        with pytest.raises(NotFound):
            catalogue.get("a")
        await until(lambda: number not in encoders[-1].adapters)
        return before, after

    before, after = in_one_process(scene, model.parent)
    assert before != after


def test_two_lines_with_adapters_are_refused(model, encoders):
    second = GRAPH[GRAPH.index("  rows:") :].replace("rows:", "more:")
    merged = "  both: {type: merge, from: {texts: rows, images: more}}\n"
    (model / "graph.yaml").write_text(GRAPH + second + merged)
    [folder] = scan(model.parent)
    with pytest.raises(BuildError, match="`rows` has `adapters` already, and one line of a graph may"):
        load_for_host(folder)
