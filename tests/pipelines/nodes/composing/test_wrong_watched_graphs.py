"""Graphs of guards, cascades and joins that cannot be served: each problem with its line."""

from __future__ import annotations

import json

import pytest
from every_case import every_case
from fake_decoder import write_fake_model
from fake_encoder import FAKE_BATCHER, write_fake_encoder

from pipelines.loading.inspection import inspect

CLASSIFY = (
    FAKE_BATCHER.replace("task: embed", "task: classify")
    + "  classes: {type: label, from: rows, labels: l.json}\n"
)
NESTED = "version: 1\ntask: classify\nnodes:\n  classes: {type: graph, graph: moods, from: request}\n"
GUARD = "type: guard, graph: tiny"
CASCADE = "type: cascade, graph: tiny, larger: tiny"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    write_fake_model(folder / "tiny")
    write_fake_encoder(folder / "vectors")
    write_fake_encoder(folder / "moods", CLASSIFY)
    (folder / "moods" / "l.json").write_text(json.dumps(["glad", "angry"]))
    for name in ("nested", "wrong"):
        (folder / name).mkdir()
    (folder / "nested" / "graph.yaml").write_text(NESTED)
    return folder


@every_case(
    ("task", "line", "problem"),
    [
        ("chat", f"{GUARD}, labels: [angry]", "the setting `by` is missing"),
        ("chat", f"{GUARD}, by: mods, labels: [angry]", "there is no graph `mods`; did you mean `moods`?"),
        ("chat", "type: guard, graph: tinyy, by: moods, labels: [angry]", "there is no graph `tinyy`; did you mean `tiny`?"),
        ("chat", f"{GUARD}, by: moods", "`labels` is missing: which labels of `moods` are refused; its label line has no `moderation`"),
        ("chat", f"{GUARD}, by: moods, labels: [angri]", "`moods` has no label `angri`; did you mean `angry`?"),
        ("chat", f"{GUARD}, by: nested, labels: [x]", "`nested` has no label `x`; labels: glad, angry"),
        ("chat", f"{GUARD}, by: nested", "`labels` is missing: which labels of `nested` are refused; its label line has no `moderation`"),
        ("chat", f"{GUARD}, by: tiny", "`tiny` is no guard model: its parse_reply line has no `guard`; name one, or a classifier"),
        ("chat", f"{GUARD}, by: vectors", "the task of `vectors` is `embed`; this line needs one of `classify` or `chat`"),
        ("chat", "type: guard, graph: moods, by: moods, labels: [glad]", "the task of `moods` is `classify`; this line needs one of `chat` or `completion`"),
        ("chat", f"{GUARD}, by: moods, labels: [glad], treshold: 0.5", "unknown setting `treshold`; did you mean `threshold`?"),
        ("chat", f"{GUARD}, by: moods, labels: [glad], checks: [replies]", "`checks[0]` must be 'request' or 'reply', not \"replies\"; did you mean 'reply'?"),
        ("chat", f"{CASCADE}", "the setting `at_least` is missing"),
        ("chat", f"{CASCADE}, at_least: 1", "`at_least` is 0 or less for `measure: mean_logprob`: log-probabilities are"),
        ("chat", f"{CASCADE}, at_least: -1, measure: mean", "`measure` must be 'mean_logprob', 'least_logprob', 'entropy' or 'decision', not \"mean\""),
        ("chat", f"{CASCADE}, at_least: -1, measure: decision", "`at_least` is a probability, from 0 to 1, for `measure: decision`"),
        ("chat", f"{CASCADE}, at_least: -1, by: tiny", "`by` is of `measure: decision`"),
        ("chat", f"{CASCADE}, at_least: 0.5, measure: decision, by: moods", "the task of `moods` is `classify`; this line needs one of `chat` or `completion`"),
        ("chat", "type: cascade, graph: tiny, larger: moods, at_least: -1", "the task of `moods` is `classify`; this line needs one of `chat`"),
        ("chat", "type: join, graphs: [tiny, tiny], how: mean", "replies of the task `chat` are merged by `best` or `majority`, not `mean`"),
        ("chat", "type: join, graphs: [tiny, moods], how: best", "the task of `moods` is `classify`; this line needs one of `chat`"),
        ("chat", "type: join, graphs: [tiny, tinny], how: best", "there is no graph `tinny`; did you mean `tiny`?"),
        ("chat", "type: join, graphs: [tiny, tiny], how: best, by: moods", "the task of `moods` is `classify`; this line needs one of `rerank`"),
        ("chat", "type: join, graphs: [tiny, tiny], how: majority, by: moods", "`by` is of `how: best`"),
        ("classify", "type: join, graphs: [moods, nested], how: mean, weights: [1]", "`weights` must be 2 numbers, one for each model, none below 0 and not all 0"),
        ("chat", "type: join, graphs: [tiny, tiny], how: best, weights: [1, 1]", "`weights` are of `how: mean` and `how: fuse`"),
        ("chat", f"{GUARD}, by: wrong, labels: [x]", "the graph `wrong` has problems of its own: wrong/graph.yaml:1: a graph cannot contain itself: wrong → wrong"),
    ],
)  # fmt: skip
def test_each_is_refused_with_its_line(models, task, line, problem):
    text = f"version: 1\ntask: {task}\nnodes:\n  reply: {{{line}, from: request}}\n"
    (models / "wrong" / "graph.yaml").write_text(text)
    assert inspect(models / "wrong")[0].problems == (f"wrong/graph.yaml:4: {problem}",)
