"""Graphs with a line that draft tokens: checked, drawn, loaded, and served with the same texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_decoder import FAKE_GRAPH, write_fake_model
from test_pipeline import HELLO, asking

from pipelines.host.models.model import HostModel, load_for_host
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.loading.inspection import inspect
from pipelines.loading.load import BuildError
from pipelines.repository.model_folders import scan
from pipelines.values.tasks import GenerationInput
from pipelines.wire.sampling_params import SamplingParams

LOOKUP = "lookup, from: step, max_ngram: 3, num_draft_tokens: 5"
DRAFT = "draft, from: step, path: draft.json, device: fake, num_draft_tokens: 4"


def speculation(line: str) -> str:
    return FAKE_GRAPH.replace(
        "      logits: {type: model, from: step,",
        f"      drafted: {{type: {line}}}\n      logits: {{type: model, from: drafted,",
    )


def write(folder: Path, line: str, **draft: object) -> Path:
    write_fake_model(folder, speculation(line))
    (folder / "draft.json").write_text(json.dumps({"vocab_size": 259, **draft}))
    return folder


def load(folder: Path) -> HostModel:
    (model,) = scan(folder)
    return load_for_host(model)


@pytest.mark.parametrize("line", [LOOKUP, DRAFT])
def test_the_graph_is_checked_and_drawn(tmp_path, line):
    (finding,) = inspect(write(tmp_path / "tiny", line))
    assert finding.problems == ()
    kind = line.partition(",")[0]
    drawn = finding.text()
    assert f"● drafted  {kind}" in drawn
    assert "← drafted" in drawn
    assert "drafted" in finding.mermaid()


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (LOOKUP.replace("max_ngram: 3", "max_ngrams: 3"), "max_ngram"),
        (LOOKUP.replace("num_draft_tokens: 5", "num_draft_tokens: 0"), "num_draft_tokens"),
        (DRAFT.replace("draft.json", "missing.json"), "missing.json"),
        ("draft, from: step", "path"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, line, word):
    (finding,) = inspect(write(tmp_path / "tiny", line))
    assert any(word in problem for problem in finding.problems)


@pytest.mark.parametrize("line", [LOOKUP, DRAFT, LOOKUP + ", adaptive: false", DRAFT + ", adaptive: false"])
def test_the_texts_are_those_without_guesses(tmp_path, line):
    write_fake_model(tmp_path / "plain" / "tiny")
    write(tmp_path / "speculation" / "tiny", line, dissent=0.3)
    said = []
    for models in ("plain", "speculation"):
        host_model = load(tmp_path / models)
        engine = host_model.engines["generated"]
        for key, temperature in (("greedy", 0.0), ("drawn", 1.0)):
            params = SamplingParams(max_tokens=60, temperature=temperature, seed=3)
            engine.submit(key, GenerationRequest([[1, 2, 3, 1, 2, 3]], params))
        tokens = {"greedy": [], "drawn": []}
        while engine.has_work:
            for output in engine.step():
                tokens[output.key] += output.piece.token_ids
        said.append(tokens)
        host_model.close()
    assert said[0] == said[1]
    assert len(said[0]["drawn"]) == 60


def test_guesses_of_a_draft_come_true(tmp_path):
    host_model = load(write(tmp_path / "models" / "tiny", DRAFT + ", adaptive: false").parent)
    engine = host_model.engines["generated"]
    engine.submit("call", GenerationRequest([[1, 2, 3]], SamplingParams(max_tokens=41, temperature=0)))
    while engine.has_work:
        engine.step()
    counts = engine.counts()
    assert (counts.accepted_tokens, counts.draft_tokens, counts.steps) == (32, 32, 9)
    assert (
        host_model.cache_bytes
        == 2 * counts.blocks_total * host_model.bodies["generated"].sessions[0].shape.block_bytes
    )
    host_model.close()


@pytest.mark.parametrize(
    ("fake", "message"),
    [
        ({"block_tokens": 8}, "draft's blocks hold 8 tokens, the model's 4"),
        ({"vocab_size": 5000}, "draft has 5000 tokens, the model 259"),
    ],
)
def test_a_draft_that_does_not_fit_is_refused(tmp_path, fake, message):
    write(tmp_path / "tiny", DRAFT, **fake)
    with pytest.raises(BuildError, match=message):
        load(tmp_path)


def test_a_draft_may_guess_where_nothing_was_found(tmp_path):
    drafted = speculation(DRAFT.replace("step", "found") + ", adaptive: false")
    lookup_line = f"      found: {{type: {LOOKUP}, adaptive: false}}\n      drafted:"
    write_fake_model(write(tmp_path / "both", DRAFT), drafted.replace("      drafted:", lookup_line))
    write_fake_model(tmp_path / "plain")
    (both, plain) = (load_for_host(model) for model in scan(tmp_path))
    texts = []
    for host_model in (both, plain):
        engine = host_model.engines["generated"]
        engine.submit("call", GenerationRequest([[1, 2, 3]], SamplingParams(max_tokens=60, seed=3)))
        texts.append(
            [token for _ in range(60) for output in engine.step() for token in output.piece.token_ids]
        )
    assert texts[0] == texts[1]
    assert both.engines["generated"].counts().accepted_tokens > 30
    assert both.engines["generated"].scheduler.settings.num_draft_tokens == 5  # who comes first, or the other
    both.close()
    plain.close()


@pytest.mark.parametrize("line", [LOOKUP, DRAFT])
def test_a_whole_request_is_answered(tmp_path, line):
    write(tmp_path / "tiny", line)
    write_fake_model(tmp_path / "plain")
    request = GenerationInput(
        messages=HELLO, sampling={"max_tokens": 40, "temperature": 0.0, "ignore_eos": True}
    )
    with asking(tmp_path) as ask:
        texts = ["".join(piece.content for piece in ask(request, name)[0]) for name in ("tiny", "plain")]
    assert texts[0] == texts[1]
