"""An export that parts from transformers is refused, with the place; also where only long prompts do."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
from breadth import after
from hf_folders import write_decoder

from pipelines.inference.engine.packed_parts import PromptPart, packed_step
from tools.export.base.folder import ExportError

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "onnxscript"))
needs_export = pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra")
WINDOW = 40
QUIET = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checked") / "mistral"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = {"num_key_value_heads": 1, "initializer_range": 0.2, "max_position_embeddings": 256}
        return write_decoder(folder, "mistral", sliding_window=WINDOW, num_hidden_layers=1, **more)


def export(source: Path, folder: Path, **options: str) -> None:
    from tools.export.decoders.decoder import export_decoder

    export_decoder(str(source), folder, **options)


@needs_export
@QUIET
@pytest.mark.parametrize("weights", after(0, ["int8", "fp16"]))
def test_exports_are_within_the_tolerance(source, tmp_path, weights):
    export(source, tmp_path / "model", weights=weights)
    assert (tmp_path / "model" / "model.onnx").is_file()


@needs_export
@QUIET
@pytest.mark.breadth
def test_a_lost_window_is_found_behind_it_and_nothing_is_written(source, tmp_path, monkeypatch):
    from tools.export.decoders.attention import Layer

    plain = Layer.attributes
    monkeypatch.setattr(Layer, "attributes", lambda self, layer: plain(self, layer) | {"window": -1})
    with pytest.raises(ExportError, match=r"parts from transformers at token (32|48|96) of a prompt of"):
        export(source, tmp_path / "models" / "model")
    assert list(tmp_path.iterdir()) == []


@needs_export
@QUIET
def test_a_wrong_weight_is_found_at_the_first_token(source, tmp_path, monkeypatch):
    from tools.export.decoders import onnx_decoder

    trace = onnx_decoder.trace

    def damaged(model, attention):
        model.model.layers[0].mlp.down_proj.weight.data.neg_()
        return trace(model, attention)

    monkeypatch.setattr(onnx_decoder, "trace", damaged)
    with pytest.raises(ExportError, match="at token 0 of a prompt of"):
        export(source, tmp_path / "model")


@needs_export
@QUIET
def test_a_checkpoint_that_lacks_weights_is_refused_by_their_name(source, tmp_path):
    from safetensors.numpy import load_file, save_file

    copy = tmp_path / "source"
    copy.mkdir()
    for file in source.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    weights = load_file(copy / "model.safetensors")
    weights.pop("model.layers.0.mlp.down_proj.weight")
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ExportError, match=r"lacks 1 weights of a MistralForCausalLM: model\.layers\.0\.mlp"):
        export(copy, tmp_path / "model")


def test_a_step_of_two_prompts_holds_their_tokens_blocks_and_rows():
    first = PromptPart(np.array([5, 6]), 3, np.array([7, 8], np.int32), np.array([1]))
    second = PromptPart(np.array([9]), 0, np.array([2, 4], np.int32), np.array([0]))
    step = packed_step([first, second], block_tokens=4)
    assert step.token_ids.tolist() == [5, 6, 9]
    assert step.positions.tolist() == [3, 4, 0]
    assert step.starts.tolist() == [0, 2, 3]
    assert step.num_blocks.tolist() == [2, 1]
    assert step.block_table.tolist() == [[7, 8], [2, -1]]
    assert step.logit_indices.tolist() == [1, 2]
    assert step.max_context == 5
