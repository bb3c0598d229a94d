"""Calls with adapters, in one process: few are in memory, calls take turns, none is answered by another's."""

from __future__ import annotations

import asyncio
import json
import random
import shutil

import pytest
from patience import until
from peft_adapters import ADAPTED_GRAPH, write_adapted_model, write_adapter
from served_models import in_one_process

from pipelines.base.errors import BraidError, ModelNotFound, NotFound, RequestError
from pipelines.values.tasks import GenerationInput, Prompt

NAMES = ("a", "b", "c", "d", "e")
LOGITS = "      logits: {type: model, from: step,"
DRAFT = "{type: draft, from: step, path: draft.json, device: fake, num_draft_tokens: 3, adaptive: false}"
DRAFTED_GRAPH = ADAPTED_GRAPH.replace(
    LOGITS, f"      drafted: {DRAFT}\n" + LOGITS.replace("from: step", "from: drafted")
)


@pytest.fixture
def model(tmp_path):
    """The folder of a model with five adapters, of which three are in memory."""
    return write_adapted_model(tmp_path / "models" / "m", *NAMES)


def in_scene(scene, model):
    return in_one_process(scene, model.parent)


async def ask(client, catalogue, name, max_tokens=6):
    """What a request for a name generates, and how many tokens of its prompt were cached."""
    sampling = {"max_tokens": max_tokens, "temperature": 0.0, "ignore_eos": True}
    request = GenerationInput(prompts=[Prompt("this is the prompt of all")], sampling=sampling)
    call, token_ids, num_cached = catalogue.get(name).open(request, client), [], 0
    try:
        async for batch in call.updates():
            for _, update in batch:
                token_ids += update.piece.token_ids
                num_cached += update.piece.num_cached
    finally:
        call.close()
    return token_ids, num_cached


async def tokens(client, catalogue, name, max_tokens=6):
    return (await ask(client, catalogue, name, max_tokens))[0]


def engine_of(client):
    return client.host._instances.current("m").model.stepped["generated"]


def held(client):
    """The numbers of the adapters in memory."""
    return set(client.host._instances.current("m").model.bodies["generated"].sessions[-1].adapters)


def names(catalogue):
    return [adapter.name for card in catalogue.cards() for adapter in card.adapters]


def test_each_adapter_answers_for_itself_under_both_names(model):
    async def scene(client, catalogue):
        alone = {name: await tokens(client, catalogue, name) for name in ("m", *NAMES)}
        together = await asyncio.gather(
            *[tokens(client, catalogue, name) for _ in range(3) for name in ("m", *NAMES)]
        )
        other = await tokens(client, catalogue, "m:b")
        return alone, together, other, engine_of(client).counts(), held(client)

    alone, together, other, counts, numbers = in_scene(scene, model)
    assert len({tuple(text) for text in alone.values()}) == 6
    assert together == [*alone.values()] * 3
    assert other == alone["b"]
    assert counts.running == counts.waiting == 0
    assert len(numbers) == 3


def test_guesses_of_the_bases_draft_change_no_adapters_text(model):
    drafted = write_adapted_model(model.parent / "drafted", "like-a", "like-b", graph=DRAFTED_GRAPH)
    (drafted / "draft.json").write_text(json.dumps({"vocab_size": 259, "dissent": 0.3}))

    async def scene(client, catalogue):
        plain = await asyncio.gather(*[tokens(client, catalogue, name, 40) for name in ("m", "a", "b")])
        names = ("drafted", "like-a", "like-b")
        guessed = await asyncio.gather(*[tokens(client, catalogue, name, 40) for name in names])
        return plain, guessed, client.host._instances.current("drafted").model.stepped["generated"].counts()

    plain, guessed, counts = in_scene(scene, model)
    assert guessed == plain
    assert len({tuple(text) for text in plain}) == 3
    assert counts.accepted_tokens > 0
    assert counts.draft_tokens > counts.accepted_tokens


def test_no_cached_token_is_of_another_name_or_load(model):
    async def scene(client, catalogue):
        hits = [(await ask(client, catalogue, name))[1] for name in ("m", "a", "b", "a", "m")]
        await client.load_adapter("a", "a", None, True)
        same = (await ask(client, catalogue, "a"))[1]
        write_adapter(model / "adapters" / "a", seed=99)
        await client.load_adapter("a", "a", None, True)
        return hits, same, (await ask(client, catalogue, "a"))[1]

    cached_counts, same, other = in_scene(scene, model)
    assert cached_counts[:3] == [0, 0, 0]
    assert min(cached_counts[3:]) > 0
    assert (same, other) == (0, 0), "loads of the same files, and of others"


def test_a_look_finds_what_is_new_changed_and_gone(model):
    async def scene(client, catalogue):
        before = {name: await tokens(client, catalogue, name) for name in NAMES}
        write_adapter(model / "adapters" / "new", 77)
        write_adapter(model / "adapters" / "a", 78)
        shutil.rmtree(model / "adapters" / "c")
        instance = catalogue.status("m").instance_id
        assert await client.rescan()
        assert names(catalogue) == ["a", "b", "d", "e", "new"]
        assert catalogue.status("m").instance_id == instance  # the model itself is not loaded again
        after = {name: await tokens(client, catalogue, name) for name in ("a", "b", "new")}
        with pytest.raises(ModelNotFound, match="`c` does not exist"):
            catalogue.get("c")
        assert not await client.rescan()
        return before, after

    before, after = in_scene(scene, model)
    assert after["b"] == before["b"]
    assert after["a"] != before["a"]
    assert len({tuple(text) for text in after.values()}) == 3


def test_clients_load_and_unload(model):
    (model / "adapters" / "more").mkdir()
    write_adapter(model / "adapters" / "more" / "x", 5)
    write_adapter(model / "aside", 6)
    (model / "adapters" / "link").symlink_to(model / "aside")
    (model / "adapters" / "half").mkdir()
    for file in (model / "aside").iterdir():  # its weights are a link
        (model / "adapters" / "half" / file.name).symlink_to(file)

    async def scene(client, catalogue):
        running = asyncio.create_task(tokens(client, catalogue, "a", 300))
        await until(lambda: held(client))
        number = next(iter(held(client)))
        await client.unload_adapter("a")
        with pytest.raises(ModelNotFound):
            catalogue.get("a")
        assert number in held(client)
        assert len(await running) == 300
        await until(lambda: number not in held(client))
        await client.rescan()
        assert "a" not in names(catalogue)
        await client.load_adapter("x", "more/x", None, False)
        await client.load_adapter("a", str(model / "adapters" / "a"), "m", False)
        assert {"a", "x"} < {*names(catalogue)}
        assert len(await tokens(client, catalogue, "x")) == 6
        refused = {}
        assert {"link", "half"}.isdisjoint(names(catalogue))
        for name, path in (
            ("x", "more/x"),
            ("m", "more/x"),
            ("up", "../aside"),
            ("out", "/etc"),
            ("own", "."),
            ("other", "link"),
            ("halved", "half"),
            ("no", "none"),
            ("two,names", "more/x"),
            ("two\nlines", "more/x"),
        ):
            with pytest.raises(BraidError) as caught:
                await client.load_adapter(name, path, None, False)
            refused[name] = caught.value
        with pytest.raises(NotFound, match="The lora adapter 'none' cannot be found."):
            await client.unload_adapter("none")
        return refused

    refused = in_scene(scene, model)
    assert "'x' has already been loaded" in refused["x"].message
    assert "conflicts with a served base model" in refused["m"].message
    for name in ("up", "out", "own", "other"):
        assert "below that of the model's adapters" in refused[name].message, name
    assert "a link leads out of the folder of adapters" in refused["halved"].message
    assert "no comma" in refused["two,names"].message
    assert "printable" in refused["two\nlines"].message
    assert isinstance(refused["no"], NotFound)
    assert refused["no"].message == "Loading lora no failed: No adapter found for none"


def test_what_cannot_be_used_is_refused_by_name_and_the_base_serves(model):
    write_adapter(model / "adapters" / "dora", use_dora=True)
    write_adapter(model / "adapters" / "wide", rank=9)
    write_adapter(model / "adapters" / "m", 9)

    async def scene(client, catalogue):
        [card] = catalogue.cards()
        errors = {}
        for name in ("dora", "wide"):
            with pytest.raises(RequestError) as caught:
                catalogue.get(name)
            errors[name] = caught.value.message
        return card, errors, await tokens(client, catalogue, "m"), await tokens(client, catalogue, "a")

    card, errors, base, adapted = in_scene(scene, model)
    assert [adapter.name for adapter in card.adapters] == [*NAMES]
    assert "DoRA" in errors["dora"]
    assert "rank 9" in errors["wide"]
    problems = "\n".join(card.problems)
    assert "adapter m: the name m is that of a model of the repository" in problems
    assert "adapter dora: " in problems
    assert base != adapted


def test_weights_that_were_changed_since_are_not_served(model):
    async def scene(client, catalogue):
        write_adapter(model / "adapters" / "a", 99)
        with pytest.raises(RequestError, match="The adapter `a` cannot be used: its files were changed"):
            await tokens(client, catalogue, "a")
        await until(lambda: "a" not in names(catalogue))
        await client.rescan()
        return await tokens(client, catalogue, "a"), await tokens(client, catalogue, "m")

    changed, base = in_scene(scene, model)
    assert changed != base


def test_a_name_belongs_to_one_model(model):
    write_adapted_model(model.parent / "other", "a", "z")

    async def scene(client, catalogue):
        cards = {card.name: card for card in catalogue.cards()}
        with pytest.raises(RequestError, match="several models have adapters: set 'base_model_name'"):
            await client.load_adapter("y", "z", None, False)
        await client.load_adapter("y", str(model.parent / "other" / "adapters" / "z"), None, False)
        assert catalogue.get("y").model == "other"
        return cards

    cards = in_scene(scene, model)
    assert [adapter.name for adapter in cards["other"].adapters] == ["z"]
    assert cards["other"].problems == ["adapter a: the name a is that of an adapter of m; rename the adapter"]


def test_two_hundred_requests_while_adapters_come_and_go(tmp_path):
    every = [f"a{i}" for i in range(12)]
    graph = ADAPTED_GRAPH.replace("max_sequences: 64", "max_sequences: 16")
    model = write_adapted_model(tmp_path / "models" / "m", *every, graph=graph)

    async def scene(client, catalogue):
        right = {name: await tokens(client, catalogue, name) for name in ("m", *every)}
        rng, done = random.Random(0), asyncio.Event()

        async def one(i):
            await asyncio.sleep(rng.random() * 0.5)
            name = rng.choice(["m", *every])
            try:
                token_ids = await tokens(client, catalogue, name)
            except NotFound:
                return "404"
            return "right" if token_ids == right[name] else f"{name}: {token_ids}"

        async def come_and_go():
            while not done.is_set():
                name = rng.choice(every)
                await client.unload_adapter(name)
                await asyncio.sleep(0.01)
                await client.load_adapter(name, name, None, False)

        changes = asyncio.create_task(come_and_go())
        statuses = await asyncio.gather(*[one(i) for i in range(200)])
        done.set()
        await changes
        engine = engine_of(client)
        await until(lambda: not engine.has_work)
        engine.reset_prefix_cache()
        return statuses, engine.counts(), held(client), client.host._requests._coming

    answered, counts, numbers, coming = in_scene(scene, model)
    assert {*answered} <= {"right", "404"}
    assert answered.count("right") > 100
    assert counts.blocks_used == counts.running == counts.waiting == 0
    assert len(numbers) <= 3
    assert not coming
