"""A lookup line changes no text in float32, whatever runs the model."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from breadth import after
from exact_models import END, ENGINES, VOCABULARY, export

from pipelines.host.models.model import HostModel, load_for_host
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.repository.model_folders import open_folder
from pipelines.repository.new_graph import new_graph
from pipelines.wire.sampling_params import SamplingParams

LINE = "      found: {type: lookup, from: step}\n"
ALWAYS = LINE.replace("}", ", adaptive: false}")
"""With draft tokens where they do not pay too, so that no time decides."""
SAMPLING = (
    {"temperature": 0.0},
    {"temperature": 0.3, "seed": 5},
    {"temperature": 0.7, "top_k": 4, "repetition_penalty": 1.05, "seed": 6},
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return export(tmp_path_factory.mktemp("exact") / "model")


def loaded(folder: Path, exported: Path, graph: str) -> HostModel:
    shutil.copytree(exported, folder / "model")
    (folder / "graph.yaml").write_text(graph)
    return load_for_host(open_folder(folder, folder.name))


def prompts() -> list[list[int]]:
    """Passages that come again, with their beginning at the end."""
    draw = random.Random(3)
    passages = [[draw.randrange(END + 1, VOCABULARY) for _ in range(25)] for _ in range(4)]
    return [[*passage, *passage, *passage[:5]] for passage in passages]


def texts_of(model: HostModel) -> tuple[list[list[int]], int]:
    """The tokens of each request, which run side by side, and how many draft tokens were accepted."""
    engine, texts = model.stepped["generated"], []
    for number, (prompt, sampling) in enumerate((p, s) for p in prompts() for s in SAMPLING):
        params = SamplingParams(max_tokens=48, ignore_eos=True, **sampling)
        engine.submit(number, GenerationRequest([prompt], params))
        texts.append([])
        for _ in range(8):  # the next joins later
            for output in engine.step():
                texts[output.key] += output.piece.token_ids
    while engine.has_work:
        for output in engine.step():
            texts[output.key] += output.piece.token_ids
    accepted = engine.counts().accepted_tokens
    model.close()
    return texts, accepted


@pytest.mark.parametrize("engine", after(0, sorted(ENGINES)))
def test_the_texts_are_those_without_the_line(engine, exported, tmp_path):
    shutil.copytree(exported, tmp_path / "new" / "model")
    written = new_graph(tmp_path / "new").replace("device: cpu", f"device: cpu, {ENGINES[engine]}")
    written = written.replace("cache: {", "cache: {memory_gb: 0.03, ")
    assert LINE in written
    with_line, accepted = texts_of(loaded(tmp_path / "with", exported, written.replace(LINE, ALWAYS)))
    adaptive, _ = texts_of(loaded(tmp_path / "adaptive", exported, written))
    plain = written.replace(LINE, "").replace("from: found", "from: step")
    without, none = texts_of(loaded(tmp_path / "without", exported, plain))
    assert with_line == adaptive == without
    assert accepted > 20
    assert none == 0
