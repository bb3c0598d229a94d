"""The lines of a body, timed under their names."""

from __future__ import annotations

import queue

import numpy as np
from fake_decoder import FAKE_GRAPH, write_fake_model
from patience import PATIENCE_S
from tensor_models import write_one

from pipelines.host.models.model import load_for_host
from pipelines.inference.engine.interface.engine_contract import GenerationRequest, TensorRequest
from pipelines.repository.model_folders import open_folder
from pipelines.wire.sampling_params import SamplingParams

GUIDED = FAKE_GRAPH.replace(
    "      next: {type: sampler, from: logits}",
    "      allowed: {type: grammar, from: logits, tokenizer: tokenizer.json}\n"
    "      plan: {type: sampler, from: allowed}",  # a line may be called as a phase of the engine is
)


def test_each_line_is_a_phase_with_its_node_and_what_begins_early_is_one(tmp_path):
    folder = write_fake_model(tmp_path / "m", GUIDED, max_context=64)
    host_model = load_for_host(open_folder(folder, "m"))
    try:
        engine = host_model.engines["generated"]
        engine.submit("a", GenerationRequest([[1, 2, 3]], SamplingParams(max_tokens=3, temperature=0.0)))
        while engine.has_work:
            engine.step()
        told = {steps.kind: steps for steps in engine.profile.summary()}
    finally:
        host_model.close()
    assert {kind: steps.steps for kind, steps in told.items()} == {"with_prompts": 1, "decoding": 2}
    assert [(phase.name, phase.node) for phase in told["decoding"].phases] == [
        ("plan", ""),
        ("reserve", ""),
        ("pack", ""),
        ("begin", ""),
        ("body.logits", "model"),
        ("body.allowed", "grammar"),
        ("body.plan", "sampler"),
        ("body", ""),
        ("commit", ""),
    ]


def test_runs_over_tensors_are_steps_of_their_own_kind(tmp_path):
    write_one(tmp_path / "one", "model.xml")
    host_model = load_for_host(open_folder(tmp_path / "one", "one"))
    told = queue.SimpleQueue()
    try:
        ((node, engine),) = host_model.engines.items()
        image = np.ones((2, 4), np.float32)
        for key in range(3):
            engine.submit(key, TensorRequest({"image": image}, None, lambda key, answer: told.put(answer)))
        answers = [told.get(timeout=PATIENCE_S) for _ in range(3)]
        (runs,) = engine.profile.summary()
    finally:
        host_model.close()
    assert not any(isinstance(answer, Exception) for answer in answers)
    assert (runs.kind, runs.steps, runs.tokens) == ("tensors", 3, 0)
    assert {phase.node for phase in runs.phases} == {"tensor_model", ""}
