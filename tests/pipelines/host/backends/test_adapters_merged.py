"""A batch of a base model and three adapters says for each sequence what a model says whose weights are
merged.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from adapter_batches import NUM_TOKENS, Case, allocated, engine_of, generate
from small_onnx_decoders import CONTEXT, VOCABULARY, small_decoder

from pipelines.adapters.weights import AdapterWeights, LowRank, ProductShape
from pipelines.host.backends.decoder_contract import DecoderSession
from pipelines.host.backends.onnx.decoder_format import ATTENTION
from pipelines.host.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.host.backends.openvino.decoder_session import OpenVINOSession, OpenVINOSettings

ALL: frozenset[str] = frozenset()
LAST = ("q_proj", "k_proj", "v_proj", "o_proj")
RANKS = {"a": (4, LAST), "b": (7, ("q_proj", "v_proj")), "c": (1, ("o_proj",))}
"""Name → rank and targets."""


def write(folder: Path, adapter: AdapterWeights | None = None) -> Path:
    """A small decoder whose weights have a checkpoint's names, into which the adapter is merged."""
    folder.mkdir()
    model = small_decoder(rotary=True).model
    products = [node for node in model.graph if node.op_type == "MatMul"][: 2 * len(LAST)]
    for number, node in enumerate(products):
        layer, place = divmod(number, len(LAST))
        name, weight = f"layers.{layer}.self_attn.{LAST[place]}", node.inputs[1]
        values = weight.const_value.numpy() * 2
        if adapter is not None and name in adapter.products:
            own = adapter.products[name]
            values = values + (own.b @ own.a).T
        weight.name = f"model.{name}.weight"
        weight.const_value = ir.tensor(values, name=weight.name)
    for node in model.graph:
        if node.op_type == ATTENTION:
            node.attributes["softcap"] = ir.AttrFloat32("softcap", 0.0)
    ir.save(model, folder / "model.onnx")
    config = {"max_position_embeddings": CONTEXT, "vocab_size": VOCABULARY}
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "model.onnx"


def openvino(path: Path, targets: frozenset[str] | None = None) -> DecoderSession:
    settings = OpenVINOSettings(precision="f32", kv_cache="f32", targets=targets)
    return allocated(OpenVINOSession(path, settings))


def onnxruntime(path: Path, targets: frozenset[str] | None = None) -> DecoderSession:
    return allocated(OnnxCpuSession(path, OnnxCpuSettings(threads=1, targets=targets)))


def made_for(shapes: dict[str, ProductShape], name: str) -> AdapterWeights:
    rank, targets = RANKS[name]
    rng = np.random.default_rng(rank)
    products = {
        product: LowRank(
            rng.standard_normal((rank, shape.size_in)).astype(np.float32) * 0.4,
            rng.standard_normal((shape.size_out, rank)).astype(np.float32) * 0.4,
        )
        for product, shape in shapes.items()
        if product.endswith(targets)
    }
    return AdapterWeights(rank, products)


@pytest.mark.parametrize("opened", [openvino, onnxruntime])
def test_a_mixed_batch_says_what_merged_models_say_alone(tmp_path, opened):
    mixed = opened(write(tmp_path / "base"), ALL)
    assert len(mixed.products) == 2 * len(LAST)
    adapters = {name: made_for(dict(mixed.products), name) for name in RANKS}
    rng = np.random.default_rng(2)
    prompts = [rng.integers(0, VOCABULARY, size).tolist() for size in (30, 7, 45)]
    cases = []
    for name in (None, *RANKS):
        path = write(tmp_path / f"merged-{name}", adapters.get(name))
        alone = engine_of(opened(path), {})
        own = [Case(None, prompt, []) for prompt in prompts]
        said = generate(alone, own)
        cases += [Case(name, *each) for each in zip(prompts, said, strict=True)]
    assert len({tuple(case.tokens) for case in cases}) > 2 * len(prompts)
    order = rng.permutation(len(cases)).tolist()
    cases = [cases[place] for place in order]
    for speculates in (False, True):
        engine = engine_of(mixed, adapters, speculates)
        found = generate(engine, cases)
        assert [len(text) for text in found] == [NUM_TOKENS] * len(cases)
        assert found == [case.tokens for case in cases]
        assert engine.counts().preemptions >= 2
