"""A graph that scores pairs around the fake encoder: pairs, pairs in parts, and single texts."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from fake_decoder import byte_tokenizer
from fake_encoder import FAKE_BATCHER, row_of, use_fake_encoders, write_fake_encoder
from patience import PATIENCE_S
from served_models import in_one_process

from pipelines.base.errors import RequestError
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput

PAIRS = FAKE_BATCHER.replace("task: embed", "task: rerank").replace(
    "tokens: {type: tokenize, from: request.prompts,", "tokens: {type: tokenize_pairs, from: request,"
)
RANKING = PAIRS + "  ranking: {type: rank, from: {scores: rows, pairs: tokens}}\n"
WRITTEN = RANKING.replace("tokenizer.json}", "tokenizer.json, template: score.jinja}")
TEMPLATE = "{{ messages[0].content }} / {{ messages[1].content }}"
LONG = "abcdefghij" * 15


@pytest.fixture(params=[RANKING, WRITTEN], ids=["framed", "by template"])
def graph(request):
    return request.param


@pytest.fixture
def ask(graph, tmp_path, monkeypatch):
    """What the graph replies to a request: its scores."""
    use_fake_encoders(monkeypatch)
    write_fake_encoder(tmp_path / "pairs", graph, size=1)
    (tmp_path / "pairs/score.jinja").write_text(TEMPLATE)

    def whole(**fields):
        async def scene(client, catalogue):
            call = catalogue.get("pairs").open(PoolingInput(**fields), client)
            return (await asyncio.wait_for(call.answer(), PATIENCE_S)).values, call.prompt_lengths

        return in_one_process(scene, tmp_path)

    return whole


@pytest.fixture
def text_of(graph):
    """How a pair is written."""
    return lambda query, document: query + (" / " if graph is WRITTEN else "") + document


def prompts(*texts):
    return tuple(Prompt(text=text, add_special_tokens=True) for text in texts)


def score(text):
    return row_of(byte_tokenizer().encode(text).ids, size=1)[0]


def test_pairs_are_scored_in_their_order(ask, text_of):
    pairs = [("what", "it"), ("what", "that is"), ("who", "she")]
    scores, lengths = ask(pairs=[prompts(*pair) for pair in pairs])
    np.testing.assert_array_equal(scores, [score(text_of(*pair)) for pair in pairs])
    assert lengths == [len(text_of(*pair)) for pair in pairs]


def test_a_pair_in_parts_has_its_best_part_s_score(ask, text_of):
    scores, lengths = ask(pairs=[prompts("what", "it"), prompts("what", LONG)], chunk=True)
    sizes = [length - len(text_of("what", "")) for length in lengths[1:]]
    assert sum(sizes) == len(LONG) > max(sizes) > 1
    ends = np.cumsum(sizes).tolist()
    parts = [LONG[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    best = max(score(text_of("what", part)) for part in parts)
    np.testing.assert_array_equal(scores, [score(text_of("what", "it")), best])


def test_without_parts_a_long_pair_is_refused_or_cut(ask, text_of):
    with pytest.raises(RequestError, match="maximum context length is 64 tokens"):
        ask(pairs=[prompts("what", LONG)])
    scores, lengths = ask(pairs=[prompts("what", LONG)], truncate_prompt_tokens=-1, truncate_left=False)
    np.testing.assert_array_equal(scores, [score(text_of("what", LONG)[:64])])
    assert lengths == [64]
    scores, _ = ask(pairs=[prompts("what", LONG)], max_query_tokens=1, max_document_tokens=2)
    np.testing.assert_array_equal(scores, [score(text_of("w", "ab"))])


def test_single_texts_have_a_score_each(ask):
    scores, _ = ask(prompts=list(prompts("one", "two")))
    np.testing.assert_array_equal(scores, [score("one"), score("two")])
