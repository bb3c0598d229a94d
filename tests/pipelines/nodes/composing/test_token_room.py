"""Passages within a number of tokens: of the model that reads them, or of the one that ranks them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_decoder import byte_tokenizer

from pipelines.nodes.composing.cite import Cite
from pipelines.nodes.retrieval.rerank_hits import RerankHits
from pipelines.values.node_values import Scores
from pipelines.values.search_values import Hit, Hits
from pipelines.values.tasks import GenerationInput

TEXTS = ["a" * 10, "b" * 20, "c" * 5]


def hits():
    found = [Hit(f"{at}.md", text, 1.0) for at, text in enumerate(TEXTS)]
    return Hits(["q"], [found])


class Bytes:
    """A live graph whose tokens are bytes."""

    answering = (SimpleNamespace(node=SimpleNamespace(tokenizer=byte_tokenizer())),)


@pytest.mark.parametrize(("most", "left"), [(9, 0), (10, 1), (29, 1), (30, 2), (35, 3)])
def test_a_request_with_citations_has_the_passages_within_the_tokens(most, left):
    node = Cite(Cite.Config(max_tokens=most, graph="bytes"), Path())
    node.load(SimpleNamespace(pipeline=lambda name: Bytes()))
    asked = GenerationInput(messages=[{"role": "user", "content": "q"}])
    made = asyncio.run(node.compose(None, hits(), asked))
    assert [hit.text for hit in made.passages] == TEXTS[:left]


def test_ranked_passages_are_those_within_the_tokens():
    node = RerankHits(RerankHits.Config(max_tokens=25, graph="bytes"), Path())
    node.load(SimpleNamespace(pipeline=lambda name: Bytes()))

    class Ranked:
        async def answer(self):
            return Scores(np.array([0.1, 0.2, 0.9], np.float32))

    async def ask(graph, request):
        return Ranked()

    asked = GenerationInput(messages=[{"role": "user", "content": "q"}])
    best = asyncio.run(node.compose(SimpleNamespace(ask=ask), hits(), asked))
    assert [hit.text for hit in best.found[0]] == [TEXTS[2], TEXTS[1]]
