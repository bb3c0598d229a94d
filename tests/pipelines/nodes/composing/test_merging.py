"""Replies of several models made one."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.base.errors import EngineError
from pipelines.nodes.composing.merging import fused_hits, fused_scores, mean_classes
from pipelines.values.node_values import Classes, Prompt, Scores
from pipelines.values.search_values import Hit, Hits
from pipelines.values.tasks import PoolingInput, SearchInput


def test_classes_are_averaged_by_their_labels():
    first = Classes(np.array([[0.2, 0.8]], np.float32), ["a", "b"])
    second = Classes(np.array([[0.6, 0.4]], np.float32), ["b", "a"])
    mean = mean_classes(PoolingInput(), [first, second], [1, 3])
    assert mean.labels == ["a", "b"]
    assert np.allclose(mean.values, [[(0.2 + 3 * 0.4) / 4, (0.8 + 3 * 0.6) / 4]])


def test_other_labels_are_an_error():
    first, second = (Classes(np.zeros((1, 1), np.float32), [name]) for name in "ab")
    with pytest.raises(EngineError, match="different labels"):
        mean_classes(PoolingInput(), [first, second], [1, 1])


def test_ranks_are_those_among_the_documents_of_a_query():
    pairs = [(Prompt.of_text(query), Prompt.of_text("d")) for query in ("q", "q", "r", "q")]
    scores = [Scores(np.array(values, np.float32)) for values in ([1, 3, 0, 2], [9, 8, 7, 9])]
    fused = fused_scores(PoolingInput(pairs=pairs), scores, [1.0, 2.0])
    assert np.allclose(fused.values, [1 / 63 + 2 / 61, 1 / 61 + 2 / 63, 1 / 61 + 2 / 61, 1 / 62 + 2 / 62])


def test_passages_that_several_found_go_before():
    a, b, c = (Hit(name, name, 1.0) for name in "abc")
    found = fused_hits(SearchInput(top=2), [Hits(["q"], [[a, b]]), Hits(["q"], [[c, b]])], [1.0, 1.0])
    assert [hit.document for hit in found.found[0]] == ["b", "a"]
    assert found.found[0][0].score == pytest.approx(2 / 62)
