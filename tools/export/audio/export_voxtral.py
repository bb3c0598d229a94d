"""A Voxtral model → a folder that Braid serves, compared with transformers before it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from pipelines.repository.exports.audio_graph import DECODER, ENCODER, TABLE
from pipelines.repository.exports.export_files import TOKENIZER, read_object
from tools.export.audio.tekken_file import TEKKEN, read_tekken
from tools.export.base.folder import ExportError, Stage, first_line, put, quiet, scratch_beside
from tools.export.base.options import Options

KIND = "voxtral"
TEMPLATE = Path(__file__).parent / "voxtral.jinja"
LEAST = {"int4": "int8"}
"""Weights of the language model → those of the other parts, where they are not the same."""
ROWS_APART = {"int8": 0.1}
"""Weights of the encoder → how far its output may lie from transformers', in its standard deviations."""
EXACT = 0.02


def is_voxtral(source: str) -> bool:
    return read_object(Path(source) / "config.json").get("model_type") == KIND


def check_alone(options: Options) -> None:
    """Raise click's error for an option that goes with other models."""
    if options.form == "onnx" or options.weights == "bf16":
        raise click.BadParameter("an audio model is served from OpenVINO IR alone", param_hint="--format")
    for hint, option in (
        ("--activations", options.activations),
        ("--classifier-tokens", options.answers),
        ("--score-template", options.template),
    ):
        if option:
            raise click.BadParameter("it does not go with an audio model", param_hint=hint)


def export_voxtral(source: Path, folder: Path, weights: str, stage: Stage) -> None:
    """Write `source` to `folder`, which is complete or untouched.

    `weights`: int8, int4, fp16 or fp32, those of the language model; with int4 the other parts have int8.
    Raises `ExportError`.
    """
    from tools.export.decoders.logit_check import check_export, expected_logprobs, tolerance

    with quiet(), scratch_beside(folder) as scratch:
        model_folder = scratch / "model"
        stage("reading the tokenizer")
        tokenizer = _write_tokenizer(source, model_folder)
        stage("reading the model")
        model = _read(source, model_folder)
        stage("computing what transformers gives")
        expected = expected_logprobs(model.language_model, tokenizer)
        stage("tracing the encoder")
        _write_encoder(model, model_folder, weights)
        stage("tracing the language model with optimum-intel")
        _write_decoder(model.language_model, model_folder, weights)
        stage("comparing with transformers")
        check_export(
            model_folder / DECODER, expected, tolerance(weights, "f16" if weights == "fp16" else "f32")
        )
        stage("writing the folder")
        put(model_folder, folder)


def _write_tokenizer(source: Path, folder: Path) -> Any:
    """Write tokenizer.json and the chat template, those of the model where it has them."""
    from tools.export.base.tokenizer_check import check_converted
    from tools.export.base.tokenizer_files import write_tokenizer

    if (source / TOKENIZER).is_file() or not (source / TEKKEN).is_file():
        tokenizer = write_tokenizer(str(source), folder)
    else:
        tokenizer = read_tekken(source / TEKKEN)
        check_converted(tokenizer, str(source))
    if not tokenizer.chat_template:
        tokenizer.chat_template = TEMPLATE.read_text(encoding="utf-8")
    tokenizer.save_pretrained(folder)
    return tokenizer


def _read(source: Path, folder: Path) -> Any:
    """The model; its settings are written to `folder`.  Raises `ExportError`."""
    import torch
    from transformers import VoxtralForConditionalGeneration, WhisperFeatureExtractor

    try:
        extractor = WhisperFeatureExtractor.from_pretrained(source)
        model, loading = VoxtralForConditionalGeneration.from_pretrained(
            source, dtype=torch.float32, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ExportError(f"transformers cannot read a Voxtral in {source}: {first_line(error)}") from error
    if missing := sorted(loading["missing_keys"]):
        raise ExportError(f"{source} lacks {len(missing)} weights of a Voxtral: {missing[0]} …")
    extractor.save_pretrained(folder)
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    return model.eval()


def _write_encoder(model: Any, folder: Path, weights: str) -> None:
    """Write the encoder with its projector, and compare its embeddings.  Raises `ExportError`."""
    import openvino as ov
    import torch

    from tools.export.encoders.whole_openvino import compressed

    class Heard(torch.nn.Module):
        """float32[windows, mels, frames] → float32[windows, rows, size]."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_features: torch.Tensor) -> torch.Tensor:
            rows = self.model.get_audio_features(input_features)
            return rows.reshape(input_features.shape[0], -1, rows.shape[-1])

    audio = model.config.audio_config
    heard, shape = Heard(), (2, audio.num_mel_bins, 2 * audio.max_source_positions)
    with torch.no_grad():
        windows = torch.randn(shape, generator=torch.Generator().manual_seed(0)) / 2
        wanted = heard(windows).numpy()
        free = ({0: torch.export.Dim("windows", min=1, max=64)},)
        program = torch.export.export(heard, (windows,), dynamic_shapes=free)
    encoder = ov.convert_model(program)
    encoder.inputs[0].get_tensor().set_names({"input_features"})
    encoder.outputs[0].get_tensor().set_names({"last_hidden_state"})
    encoder.reshape([-1, *shape[1:]])
    encoder = compressed(encoder, LEAST.get(weights, weights))
    ov.save_model(encoder, folder / ENCODER, compress_to_fp16=weights == "fp16")
    rows = ov.compile_model(encoder, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(windows.numpy())[0]
    apart = float(np.sqrt(np.mean((rows - wanted) ** 2)) / wanted.std())
    if not apart <= ROWS_APART.get(LEAST.get(weights, weights), EXACT):
        raise ExportError(
            f"embeddings of the exported encoder lie {apart:.2g} standard deviations from transformers'"
        )


def _write_decoder(model: Any, folder: Path, weights: str) -> None:
    """Write the language model, and the table of embeddings that it is given.  Raises `ExportError`."""
    try:
        from optimum.exporters.openvino.convert import export_models
        from optimum.exporters.openvino.model_configs import (
            get_vlm_text_embeddings_config,
            get_vlm_text_generation_config,
        )
        from optimum.intel.openvino.configuration import OVConfig
    except Exception as error:  # optimum-intel of another version of transformers fails in many ways
        raise ExportError(
            "optimum-intel, which exports its language model, cannot be imported (pip install -c "
            "constraints.txt -e '.[export,optimum]')"
        ) from error
    import openvino as ov

    from tools.export.encoders.whole_openvino import compressed

    config, table = model.config, model.get_input_embeddings()
    table.config = config
    traced = folder.with_name("traced")
    names = (config.model_type, config, "int64", "fp32")
    parts = {
        DECODER: (model, get_vlm_text_generation_config(*names)),
        TABLE: (table, get_vlm_text_embeddings_config(*names)),
    }
    try:
        export_models(
            parts,
            traced,
            output_names=list(parts),
            stateful=[True, False],
            ov_config=OVConfig(dtype="fp32"),
            library_name="transformers",
        )
    except Exception as error:  # of any class, as models and libraries fail in their own ways
        raise ExportError(f"optimum-intel cannot export its language model: {first_line(error)}") from error
    for name, own in ((DECODER, weights), (TABLE, LEAST.get(weights, weights))):
        part = compressed(ov.Core().read_model(traced / name), own)
        ov.save_model(part, folder / name, compress_to_fp16=weights == "fp16")
