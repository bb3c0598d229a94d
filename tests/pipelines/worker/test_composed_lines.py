"""Lines of composed graphs beside each other: choices by a value or by shares, forms of replies, plain lines."""

import threading

import pytest
from composed_models import chat, scenes, texts
from fake_decoder import FAKE_GRAPH, write_fake_model
from patience import until
from scripted_model import write_scripted_model

from pipelines.base.errors import EngineError, RequestError
from pipelines.loading.inspection import inspect
from pipelines.nodes.composing.line_template import LineTemplate
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import Constraint, GenerationInput

GREEDY = {"temperature": 0.0, "max_tokens": 8, "ignore_eos": True}
GRAPHS = {
    "by_field": """\
  reply:
    type: choose
    from: {value: request.n}
    cases: {">= 3": writer, "2": other}
    otherwise: tiny
""",
    "by_list": "  reply: {type: choose, from: {value: request.stop}, cases: {'>0': other}, otherwise: tiny}\n",
    "by_no_number": "  reply: {type: choose, from: {value: request}, cases: {'> 0': other}, otherwise: tiny}\n",
    "by_reply": """\
  word: {type: ask, graph: writer, template: "Which? {{ request }}", choice: [Left, right]}
  reply:
    type: choose
    from: {value: word}
    cases: {left: other}
    otherwise: tiny
""",
    "by_data": """\
  plan:
    type: ask
    graph: writer
    template: "Plan {{ request }}"
    json_schema: {type: object, properties: {steps: {type: integer}}, required: [steps]}
  reply: {type: ask, graph: tiny, from: {plan: plan}, template: "{{ plan.data.steps }} steps"}
""",
    "shared": "  reply: {type: choose, shares: {tiny: 3, other: 1}}\n",
    "talk": """\
  reply: {type: ask, graph: tiny, template: "<{{ request }}>", conversation: true, system: Be brief., max_tokens: 3, stop: [x]}
""",
    "own_engine": FAKE_GRAPH.split("nodes:\n")[1].split("  reply:")[0]
    + "  reply: {type: ask, graph: tiny, from: {text: text}, template: 'After {{ text }}'}\n",
    "parsed_between": """\
  said: {type: ask, graph: raw, template: "Go on: {{ request }}", temperature: 0, max_tokens: 8}
  parsed: {type: parse_reply, from: said, reasoning: qwen3}
  reply: {type: ask, graph: tiny, from: {said: parsed}, template: "After {{ said }}"}
""",
    "parsed_inner": """\
  said: {type: graph, graph: asks_raw, from: request}
  reply: {type: parse_reply, from: said, reasoning: qwen3}
""",
    "first_name": "  reply: {type: graph, graph: named, from: request}\n",
    "named": "  reply: {type: graph, graph: tiny, from: request}\n",
    "read_twice": """\
  said: {type: ask, graph: raw, template: "Go on: {{ request }}", temperature: 0, max_tokens: 8}
  parsed: {type: parse_reply, from: said, reasoning: qwen3}
  reply: {type: ask, graph: tiny, from: {one: parsed, two: said}, template: "{{ one }} {{ two }}"}
""",
    "parsed": """\
  said: {type: ask, graph: raw, template: "Go on: {{ request }}", temperature: 0, max_tokens: 8}
  reply: {type: parse_reply, from: said, reasoning: qwen3}
""",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    write_fake_model(folder / "tiny")
    write_fake_model(folder / "other")
    raw = FAKE_GRAPH.replace("task: chat", "task: completion").split("  reply:")[0]
    raw = raw.replace("  prompt: {type: chat_template, template: chat_template.jinja}\n", "")
    write_fake_model(folder / "raw", raw.replace("from: prompt", "from: request.prompts"))
    write_scripted_model(folder / "writer", [("Which?", "Left"), ("Plan", '{"steps": 4}'), ("Hi", "Well")])
    asks_raw = "version: 1\ntask: completion\nnodes:\n" + GRAPHS["parsed"].splitlines()[0].replace(
        "said", "text"
    )
    write_fake_model(folder / "asks_raw", asks_raw)
    for name, lines in GRAPHS.items():
        write_fake_model(folder / name, f"version: 1\ntask: chat\nnodes:\n{lines}")
    return folder


@pytest.fixture(scope="module")
def run(models):
    with scenes(models) as run_scene:
        yield run_scene


def test_the_first_case_that_holds_has_the_request(run):
    async def scene(catalogue, client):
        async def way(name, **fields):
            said, call = await texts(catalogue.get(name), chat("Hi", **fields), client)
            alone, _ = await texts(catalogue.get(call.decisions["reply"]), chat("Hi", **fields), client)
            assert said == alone
            return call.decisions["reply"]

        greedy = {"sampling": GREEDY}
        taken = [
            await way("by_field", n=n, sampling=GREEDY | {"temperature": 1.0, "seed": 1}) for n in (1, 2, 3)
        ]
        assert taken == ["tiny", "other", "writer"]
        assert [await way("by_list", **greedy), await way("by_list", stop=["§"], **greedy)] == [
            "tiny",
            "other",
        ]
        assert await way("by_reply", **greedy) == "other"
        with pytest.raises(EngineError, match=r"line `reply`: the case `> 0` compares a number, .*'Hi'"):
            await way("by_no_number")

    run(scene)


def test_templates_of_lines_are_written_beside_the_event_loop(run, monkeypatch):
    """One of an operator may take seconds over a long text."""
    threads, render = [], LineTemplate.render

    def noted(self, values):
        threads.append(threading.current_thread())
        return render(self, values)

    monkeypatch.setattr(LineTemplate, "render", noted)

    async def scene(catalogue, client):
        await texts(catalogue.get("talk"), chat("it", sampling=GREEDY), client)

    run(scene)
    assert threads
    assert threading.main_thread() not in threads


def test_a_session_has_one_model_by_its_share(run):
    async def scene(catalogue, client):
        async def way(text):
            _, call = await texts(
                catalogue.get("shared"), chat(text, sampling=GREEDY | {"max_tokens": 1}), client
            )
            return call.decisions["reply"]

        first = [await way(f"question {at}") for at in range(40)]
        assert first == [await way(f"question {at}") for at in range(40)]
        assert 22 <= first.count("tiny") <= 38

    run(scene)


def test_a_reply_in_a_form_is_read_by_its_fields(run):
    async def scene(catalogue, client):
        said, _ = await texts(catalogue.get("by_data"), chat("it", sampling=GREEDY), client)
        assert said == (await texts(catalogue.get("tiny"), chat("4 steps", sampling=GREEDY), client))[0]

    run(scene)


def test_the_last_line_answers_in_the_conversation_as_the_client_sets(run):
    async def scene(catalogue, client):
        said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        request = GenerationInput(messages=[*said, {"role": "user", "content": "c"}], sampling=GREEDY)
        shown = [{"role": "system", "content": "Be brief."}, *said, {"role": "user", "content": "<c>"}]
        whole, _ = await texts(catalogue.get("talk"), request, client)
        alone, _ = await texts(
            catalogue.get("tiny"), GenerationInput(messages=shown, sampling=GREEDY, stop=["x"]), client
        )
        assert whole == alone
        short = GenerationInput(messages=shown, sampling={"temperature": 0.0, "max_tokens": 3}, stop=["x"])
        own = GenerationInput(messages=request.messages, sampling={"temperature": 0.0})
        assert (await texts(catalogue.get("talk"), own, client))[0] == (
            await texts(catalogue.get("tiny"), short, client)
        )[0]
        for fields in ({"continue_final_message": True}, {"completion_ids": [1]}):
            with pytest.raises(RequestError, match="none can be continued"):
                await texts(catalogue.get("talk"), chat("c", **fields), client)

    run(scene)


def test_plain_lines_feed_lines_that_ask_and_read_them(run):
    async def scene(catalogue, client):
        first, _ = await texts(catalogue.get("tiny"), chat("Hi", sampling=GREEDY), client)
        second, _ = await texts(catalogue.get("tiny"), chat(f"After {first[0]}", sampling=GREEDY), client)
        whole, call = await texts(catalogue.get("own_engine"), chat("Hi", sampling=GREEDY), client)
        assert whole == second
        assert call.others.num_output == 8  # tokens of the graph's own engine
        short = {"temperature": 0.0, "max_tokens": 8}
        raw = GenerationInput(prompts=[Prompt(text="Go on: Hi", add_special_tokens=True)], sampling=short)
        text, _ = await texts(catalogue.get("raw"), raw, client)
        assert (await texts(catalogue.get("parsed"), chat("Hi", sampling=GREEDY), client))[0] == text

    run(scene)


def test_the_clients_own_form_of_a_reply_takes_precedence(run):
    async def scene(catalogue, client):
        constraint = Constraint("choice", ["Well", "Bad"], "choice")
        said, _ = await texts(catalogue.get("by_field"), chat("Hi", n=3, constraint=constraint), client)
        assert set(said.values()) == {"Well"}

    run(scene)


def test_stages_follow_the_stream_of_another_composed_graph(run):
    async def scene(catalogue, client):
        request = chat("Hi", sampling=GREEDY)
        alone, _ = await texts(catalogue.get("parsed"), request, client)
        assert (await texts(catalogue.get("parsed_inner"), request, client))[0] == alone
        after, _ = await texts(catalogue.get("tiny"), chat(f"After {alone[0]}", sampling=GREEDY), client)
        assert (await texts(catalogue.get("parsed_between"), request, client))[0] == after

    run(scene)


def test_a_stream_that_would_be_read_twice_is_refused(models):
    (problem,) = next(found for found in inspect(models) if found.name == "read_twice").problems
    assert problem.endswith(
        "reply (ask): it reads the same stream as `parsed`, which comes once; read one of them"
    )


def test_requests_of_lines_have_the_salt_and_the_priority_of_the_clients(run):
    async def scene(catalogue, client):
        request = chat("Hi", sampling=GREEDY | {"priority": 7}, cache_salt="mine")
        _, call = await texts(catalogue.get("by_reply"), request, client)
        asked = [inner_call._call.request for inner_call in call.asked]
        assert [
            (request_asked.cache_salt, request_asked.sampling["priority"]) for request_asked in asked
        ] == [("mine", 7)] * 2
        ids = GenerationInput(prompts=[Prompt(ids=[1, 2])], sampling=GREEDY)
        with pytest.raises(RequestError, match="line `reply`: .* no token ids"):
            await texts(catalogue.get("talk"), ids, client)
        with pytest.raises(RequestError, match="no prompt to score"):
            await texts(catalogue.get("talk"), chat("Hi", sampling={"prompt_logprobs": 1}), client)

    run(scene)


def test_a_graph_that_becomes_composed_is_composed_for_those_that_name_it(run, models):
    """`first_name` names `named`, and is not loaded anew when that is."""

    async def scene(catalogue, client):
        async def reloaded(text):
            (models / "named" / "graph.yaml").write_text(text)
            client.host.rescan()
            await until(lambda: catalogue.built("named").text == text)
            await until(lambda: catalogue._followed == client.status.number)

        plain = (models / "named" / "graph.yaml").read_text()
        request = chat("Hi", sampling=GREEDY)
        alone, _ = await texts(catalogue.get("first_name"), request, client)
        asks = "  reply: {type: ask, graph: tiny, template: '<{{ request }}>'}\n"
        await reloaded(f"version: 1\ntask: chat\nnodes:\n{asks}")
        composed, call = await texts(catalogue.get("first_name"), request, client)
        assert composed == (await texts(catalogue.get("tiny"), chat("<Hi>", sampling=GREEDY), client))[0]
        assert call.is_composed
        await reloaded(plain)
        said, call = await texts(catalogue.get("first_name"), request, client)
        assert (said, call.is_composed) == (alone, False)

    run(scene)
