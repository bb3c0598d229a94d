"""One request through a real pipeline and a real engine, both ends of the wire in one process."""

import asyncio
from contextlib import contextmanager

import pytest
from composed_models import serving
from fake_decoder import FAKE_GRAPH, write_fake_model
from patience import PATIENCE_S

from pipelines.base.errors import ContextTooLong, NotFound, RequestError, Unavailable
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput
from pipelines.wire.messages import Status
from pipelines.wire.sampling_params import BACKGROUND, RepetitionDetection
from pipelines.worker.model_table import ModelTable

HELLO = [{"role": "user", "content": "Hello"}]
GREEDY = {"temperature": 0.0, "max_tokens": 8, "ignore_eos": True}
ALIAS = "version: 1\ntask: chat\nnodes:\n  reply: {type: graph, graph: tiny, from: request}\n"
MODEL_LINE = "      logits: {type: model, from: step,"
OLD_LOOKUP = (
    "      drafted: {type: lookup, from: step, num_guesses: 5}\n      logits: {type: model, from: drafted,"
)
GRAPHS = {
    "tiny": FAKE_GRAPH,
    "alias": ALIAS,
    "bounded": FAKE_GRAPH.replace("    max_sequences: 64\n", "    max_sequences: 64\n    max_context: 16\n"),
    "broken": FAKE_GRAPH.replace("type: sampler", "type: samplr"),
    "old": FAKE_GRAPH.replace(MODEL_LINE, OLD_LOOKUP),
}


async def read(call):
    pieces = {}
    try:
        async for pairs in call.updates():
            for choice, update in pairs:
                pieces.setdefault(choice, []).append(update)
    finally:
        call.close()
    return pieces


@contextmanager
def asking(models):
    """A function that asks one server, whose loop runs while a reply is read."""
    with asyncio.Runner() as runner:
        opened = serving(models)
        client, catalogue = runner.run(opened.__aenter__())

        async def replies(request, name):
            return await read(catalogue.get(name).open(request, client))

        try:
            yield lambda request, name="tiny": runner.run(replies(request, name))
        finally:
            runner.run(opened.__aexit__(None, None, None))


def content(updates):
    return "".join(update.content for update in updates)


@pytest.fixture
def models(tmp_path):
    write_fake_model(tmp_path / "tiny")
    return tmp_path


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, graph in GRAPHS.items():
        write_fake_model(folder / name, graph)
    with asking(folder) as asked:
        yield asked


def test_a_conversation_gets_a_reply(ask):
    (updates,) = ask(GenerationInput(messages=HELLO, sampling=GREEDY)).values()
    assert updates[-1].piece.finish == "length"
    assert sum(update.piece.num_tokens for update in updates) == 8


def test_greedy_text_does_not_change(ask):
    request = GenerationInput(messages=HELLO, sampling=GREEDY)
    assert content(ask(request)[0]) == content(ask(request)[0])


@pytest.mark.parametrize(
    ("fields", "whole"),
    [
        ({}, True),
        ({"streams": True}, False),
        ({"stop": ["."]}, False),  # the worker finds it, and ends the rest
        ({"sampling": GREEDY | {"priority": BACKGROUND - 1}}, False),
    ],
)
def test_a_background_reply_that_is_read_at_its_end_wakes_nobody_for_each_token(fields, whole, models):
    request = GenerationInput(**{"messages": HELLO, "sampling": GREEDY | {"priority": BACKGROUND}, **fields})

    async def run():
        async with serving(models) as (client, catalogue):
            call = catalogue.get("tiny").open(request, client)
            return call.result.source.update_queue.whole, await read(call)

    is_whole, texts = asyncio.run(run())
    (updates,) = texts.values()
    assert is_whole == whole
    assert 1 <= sum(update.piece.num_tokens for update in updates) <= 8
    assert not whole or len(updates) <= 2


def test_each_prompt_gets_n_choices(ask):
    prompts = [Prompt(text="one"), Prompt(ids=[1, 2, 3])]
    request = GenerationInput(prompts=prompts, n=2, sampling=GREEDY | {"temperature": 1.0, "seed": 5})
    assert sorted(ask(request)) == [0, 1, 2, 3]


def test_a_stop_string_ends_the_choice_and_the_engine_stops(models, ask):
    whole = content(ask(GenerationInput(messages=HELLO, sampling=GREEDY | {"max_tokens": 64}))[0])
    stop = whole[10:12]

    async def run():
        async with serving(models) as (client, catalogue):
            request = GenerationInput(messages=HELLO, sampling=GREEDY | {"max_tokens": 64}, stop=[stop])
            pieces = await read(catalogue.get("tiny").open(request, client))
            while client.num_in_flight:
                await asyncio.sleep(0.01)
            return pieces

    pieces = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert content(pieces[0]) == whole[: whole.index(stop)]
    assert (pieces[0][-1].piece.finish, pieces[0][-1].piece.stop_reason) == ("stop", stop)


def test_a_prompt_longer_than_the_context_is_refused_before_anything_starts(ask):
    request = GenerationInput(prompts=[Prompt(ids=[1] * 4096)], sampling=GREEDY)
    with pytest.raises(ContextTooLong, match="maximum context length is 4096 tokens"):
        ask(request)


def test_more_tokens_than_the_context_are_refused(ask):
    request = GenerationInput(messages=HELLO, sampling={"max_tokens": 5000})
    with pytest.raises(RequestError, match="max_tokens=5000 cannot be greater"):
        ask(request)


def test_a_token_id_outside_the_vocabulary_is_refused(ask):
    with pytest.raises(RequestError, match="vocabulary"):
        ask(GenerationInput(prompts=[Prompt(ids=[1, 99999])], sampling=GREEDY))


def test_an_unknown_model_names_the_nearest(ask):
    with pytest.raises(NotFound, match="did you mean `tiny`"):
        ask(GenerationInput(messages=HELLO), name="tinny")


@pytest.mark.parametrize("name", ["", "any"])
def test_a_server_without_models_says_so(name):
    table = ModelTable()
    table.take(Status(1, "ready", []))
    with pytest.raises(NotFound, match="This server has no models"):
        table.status(name)


def test_a_closed_call_frees_the_engine(models):
    async def run():
        async with serving(models) as (client, catalogue):
            call = catalogue.get("tiny").open(
                GenerationInput(messages=HELLO, sampling=GREEDY | {"max_tokens": 4000}), client
            )
            async for _ in call.updates():
                break
            call.close()
            call.close()
            return client.num_in_flight

    assert asyncio.run(run()) == 0


def test_a_failed_step_fails_its_request_and_nothing_else(tmp_path):
    write_fake_model(tmp_path / "tiny", poison=7)

    async def run():
        async with serving(tmp_path) as (client, catalogue):
            pipeline = catalogue.get("tiny")
            with pytest.raises(Exception, match="the step that computed this request failed"):
                await read(pipeline.open(GenerationInput(prompts=[Prompt(ids=[7])], sampling=GREEDY), client))
            return await read(
                pipeline.open(
                    GenerationInput(prompts=[Prompt(ids=[8])], sampling=GREEDY | {"max_tokens": 1}), client
                )
            )

    assert asyncio.run(run())[0][-1].piece.finish == "length"


def test_a_graph_inside_a_graph_answers_like_the_graph_itself(ask):
    request = GenerationInput(messages=HELLO, sampling=GREEDY)
    assert content(ask(request, "alias")[0]) == content(ask(request, "tiny")[0])


def test_a_second_name_has_the_context_of_its_model(models):
    (models / "alias").mkdir()
    (models / "alias" / "graph.yaml").write_text(ALIAS)

    async def run():
        async with serving(models) as (_, catalogue):
            cards = {card.name: card.max_context for card in catalogue.cards()}
            return cards, catalogue.get("alias").max_context

    assert asyncio.run(run()) == ({"alias": 4096, "tiny": 4096}, 4096)


def test_a_graph_may_bound_its_context(ask):
    with pytest.raises(ContextTooLong, match="maximum context length is 16 tokens"):
        ask(GenerationInput(prompts=[Prompt(ids=[1] * 16)], sampling={"max_tokens": 1}), "bounded")
    request = GenerationInput(prompts=[Prompt(ids=[1] * 4)], sampling=GREEDY | {"max_tokens": 16})
    (updates,) = ask(request, "bounded").values()
    assert sum(update.piece.num_tokens for update in updates) == 12


def test_a_model_that_fails_to_load_says_why_and_the_others_serve(ask):
    request = GenerationInput(messages=HELLO, sampling=GREEDY)
    with pytest.raises(Unavailable, match="did you mean `sampler`"):
        ask(request, "broken")
    assert content(ask(request)[0])


def test_a_setting_that_was_renamed_names_the_new_word(ask):
    said = "unknown setting `num_guesses`: it is called `num_draft_tokens` now"
    with pytest.raises(Unavailable, match=said):
        ask(GenerationInput(messages=HELLO), "old")


def test_scores_of_prompts_come_with_the_first_piece_of_each_choice(ask):
    prompts = [Prompt(text="one"), Prompt(ids=[1, 2])]
    sampling = GREEDY | {"max_tokens": 0, "prompt_logprobs": 1}
    updates_of = ask(GenerationInput(prompts=prompts, n=2, sampling=sampling))
    for updates in updates_of.values():
        assert [(update.piece.finish, update.piece.num_tokens) for update in updates] == [("length", 0)]
    first, same, second, _ = (updates_of[choice][0].piece.logprobs.prompt for choice in range(4))
    assert "".join(logprob.token for logprob in first) == "ne"
    assert first == same
    assert [logprob.token_id for logprob in second] == [2]
    assert all(logprob.logprob <= logprob.alternatives[0].logprob for logprob in first)


def test_who_asks_for_no_scores_gets_none(ask):
    (updates,) = ask(GenerationInput(messages=HELLO, sampling=GREEDY)).values()
    assert all(update.piece.logprobs is None for update in updates)


def test_an_output_that_repeats_itself_is_ended(ask):
    wanted = RepetitionDetection(max_pattern_size=1, min_count=4)
    sampling = GREEDY | {"logit_bias": {70: 100.0}, "repetition_detection": wanted}
    (updates,) = ask(GenerationInput(messages=HELLO, sampling=sampling)).values()
    assert (updates[-1].piece.finish, updates[-1].piece.stop_reason) == ("repetition", "repetition_detected")
    assert sum(update.piece.num_tokens for update in updates) == 4
