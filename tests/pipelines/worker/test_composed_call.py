"""Composed graphs: lines that ask other models, with real pipelines and engines in one process."""

import asyncio

import pytest
from composed_models import chat, scenes, serving, texts
from fake_decoder import write_fake_model
from patience import until

from pipelines.base.errors import RequestError
from pipelines.values.tasks import GenerationInput
from pipelines.worker.composed_pipeline import ComposedPipeline

GREEDY = {"temperature": 0.0, "max_tokens": 8, "ignore_eos": True}
TWICE = """\
version: 1
task: chat
nodes:
  first: {type: ask, graph: tiny, template: "Say: {{ request }}", system: Be brief., max_tokens: 5, temperature: 0}
  reply: {type: ask, graph: tiny, from: {said: first}, template: "Again: {{ said }}!"}
"""
ALIAS = "version: 1\ntask: chat\nnodes:\n  reply: {type: graph, graph: twice, from: request}\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_fake_model(folder / "tiny")
    for name, graph in (("twice", TWICE), ("alias", ALIAS)):
        (folder / name).mkdir()
        (folder / name / "graph.yaml").write_text(graph)
    return folder


@pytest.fixture(scope="module")
def run(models):
    with scenes(models) as run_scene:
        yield run_scene


@pytest.mark.parametrize("name", ["twice", "alias"])
def test_the_reply_is_that_of_the_same_steps_done_one_by_one(run, name):
    async def scene(catalogue, client):
        tiny, composed = catalogue.get("tiny"), catalogue.get(name)
        assert isinstance(composed, ComposedPipeline)
        system = {"role": "system", "content": "Be brief."}
        asked = GenerationInput(
            messages=[system, {"role": "user", "content": "Say: Hello"}],
            sampling={"max_tokens": 5, "temperature": 0.0},
        )
        first, steps = await texts(tiny, asked, client)
        second, last = await texts(tiny, chat(f"Again: {first[0]}!", sampling=GREEDY, n=2), client)
        whole, call = await texts(composed, chat("Hello", sampling=GREEDY, n=2), client)
        assert whole == second
        assert call.others.num_prompt == sum(steps.prompt_lengths) + sum(last.prompt_lengths)
        assert call.others.num_output == 5

    run(scene)


def test_an_error_names_its_line(run):
    async def scene(catalogue, client):
        with pytest.raises(RequestError, match="^line `first`: model `tiny`: .*"):
            await texts(catalogue.get("twice"), chat("long " * 4000, sampling=GREEDY), client)
        with pytest.raises(
            RequestError, match="^line `reply`: model `twice`: line `first`: model `tiny`: .*"
        ):
            await texts(catalogue.get("alias"), chat("long " * 4000, sampling=GREEDY), client)

    run(scene)


@pytest.mark.parametrize("num_asked", [1, 2, 3])
def test_what_is_closed_at_any_line_frees_everything(tmp_path, num_asked):
    """`held` generates until it is stopped, so the line that it answers is the one that runs."""
    write_fake_model(tmp_path / "tiny")
    write_fake_model(tmp_path / "held", step_s=0.002, max_context=1 << 20)
    lines = ["graph: held" if at == num_asked else "graph: tiny, max_tokens: 4" for at in (1, 2, 3)]
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps/graph.yaml").write_text(
        "version: 1\ntask: chat\nnodes:\n"
        f"  one: {{type: ask, {lines[0]}, template: 'One {{{{ request }}}}'}}\n"
        f"  two: {{type: ask, {lines[1]}, from: {{one: one}}, template: 'Two {{{{ one }}}}'}}\n"
        f"  three: {{type: ask, {lines[2]}, from: {{two: two}}, template: 'Three {{{{ two }}}}'}}\n"
    )

    async def scene(catalogue, client):
        call = catalogue.get("steps").open(chat("Hi", sampling={"ignore_eos": True}), client)
        reading = asyncio.create_task(anext(call.updates(), None))
        await until(lambda: len(call.asked) == num_asked and blocks_used(client, "held") > 0)
        call.close()
        await reading
        await until(lambda: blocks_used(client, "held") == blocks_used(client, "tiny") == 0)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith(("line", "compose"))]
        with pytest.raises(ValueError, match="closed"):
            call.start()

    async def whole():
        async with serving(tmp_path) as (client, catalogue):
            await scene(catalogue, client)

    asyncio.run(whole())


def blocks_used(client, name):
    """Blocks of the cache that sequences of a model hold."""
    held = [each for each in client.host._instances if each.folder.name == name]
    return sum(engine.counts().blocks_used for each in held for engine in each.model.engines.values())
