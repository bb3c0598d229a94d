"""Requests of models whose graphs draft token tokens ahead: what they may ask, and that no text changes."""

from __future__ import annotations

import json

import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model
from test_pipeline import asking, content

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import GenerationInput

LOGITS = "      logits: {type: model, from: step,"
DRAFT = "{type: draft, from: step, path: draft.json, device: fake, num_draft_tokens: 3, adaptive: false}"


def speculation(line: str) -> str:
    return FAKE_GRAPH.replace(LOGITS, f"      drafted: {line}\n" + LOGITS.replace("step", "drafted"))


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_fake_model(folder / "plain")
    lookup = "{type: lookup, from: step, num_draft_tokens: 3, adaptive: false}"
    write_fake_model(folder / "lookup", speculation(lookup))
    write_fake_model(folder / "draft", speculation(DRAFT))
    draft = {"vocab_size": 259, "dissent": 0.3}
    (folder / "draft" / "draft.json").write_text(json.dumps(draft))
    with asking(folder) as asked:
        yield asked


def request(n=1, **sampling) -> GenerationInput:
    chosen = {"max_tokens": 60, "ignore_eos": True, "seed": 7, **sampling}
    return GenerationInput(prompts=[Prompt(ids=[5, 6, 7])], sampling=chosen, n=n, parse_reasoning=False)


@pytest.mark.parametrize(
    "sampling", [{"temperature": 0.0}, {"temperature": 0.7}, {"min_p": 0.2, "logprobs": 1}]
)
@pytest.mark.parametrize("name", ["lookup", "draft"])
def test_a_text_is_that_of_the_plain_graph(ask, name, sampling):
    plain, drafted = (ask(request(n=2, **sampling), one) for one in ("plain", name))
    assert {choice: content(pieces) for choice, pieces in plain.items()} == {
        choice: content(pieces) for choice, pieces in drafted.items()
    }


@pytest.mark.parametrize(("name", "repeats"), [("lookup", {"allowed_token_ids": [65, 66]}), ("draft", {})])
def test_what_came_true_is_told(ask, name, repeats):
    (pieces,) = ask(request(temperature=0.0, **repeats), name).values()
    draft_tokens = pieces[-1].piece.speculation
    assert 0 < draft_tokens.num_accepted <= draft_tokens.num_drafted
    assert sum(update.piece.num_tokens for update in pieces) == 60


def test_no_guesses_may_be_asked_for(ask):
    (pieces,) = ask(request(temperature=0.0, num_draft_tokens=0), "lookup").values()
    assert pieces[-1].piece.speculation is None


def test_the_draft_tells_what_it_thought_of_the_tokens_that_came_true(ask):
    wanted = request(temperature=0.0, logprobs=2, draft_logprobs=True)
    (pieces,) = ask(wanted, "draft").values()
    told = [
        (entry.token_id, token_id)
        for update in pieces
        for entry, token_id in zip(
            update.piece.logprobs.drafted if update.piece.logprobs else [],
            update.piece.token_ids,
            strict=False,
        )
        if entry is not None
    ]
    assert len(told) == pieces[-1].piece.speculation.num_accepted
    assert all(of_entry == token_id for of_entry, token_id in told)


def test_what_is_looked_up_has_no_log_probabilities(ask):
    wanted = request(temperature=0.0, logprobs=2, draft_logprobs=True, allowed_token_ids=[65, 66])
    (pieces,) = ask(wanted, "lookup").values()
    assert pieces[-1].piece.speculation.num_accepted > 0
    assert not any(update.piece.logprobs.drafted for update in pieces if update.piece.logprobs is not None)


FIELDS = {
    "num_draft_tokens": ("num_assistant_tokens", 3),
    "draft_threshold": ("assistant_confidence_threshold", 0.5),
    "max_ngram": ("max_ngram_size", 2),
}


@pytest.mark.parametrize(
    ("graph", "name", "node"),
    [
        ("plain", "num_draft_tokens", "lookup or draft"),
        ("plain", "draft_threshold", "draft"),
        ("plain", "max_ngram", "lookup"),
        ("lookup", "draft_threshold", "draft"),
        ("draft", "max_ngram", "lookup"),
    ],
)
def test_a_field_without_its_node_is_refused(ask, graph, name, node):
    field, value = FIELDS[name]
    with pytest.raises(RequestError, match=f"`{field}` needs a {node} node") as refused:
        ask(request(**{name: value}), graph)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("graph", "name"),
    [
        ("lookup", "num_draft_tokens"),
        ("lookup", "max_ngram"),
        ("draft", "num_draft_tokens"),
        ("draft", "draft_threshold"),
    ],
)
def test_what_a_node_can_do_is_taken(ask, graph, name):
    plain = ask(request(temperature=0.0), "plain")
    drafted = ask(request(temperature=0.0, **{name: FIELDS[name][1]}), graph)
    assert content(drafted[0]) == content(plain[0])


def test_a_graph_without_guesses_takes_what_asks_for_none(ask):
    assert ask(request(num_draft_tokens=0, draft_threshold=0.0, draft_logprobs=True), "plain")[0]
