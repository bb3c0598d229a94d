"""Converts CLIP and SigLIP models: an encoder of texts and one of images, each to a folder of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pipelines.repository.exports.dual_graph import IMAGE_NAME, SETTINGS, TEXT_NAME
from tools.export.base.folder import ExportError, Stage, first_line, put, quiet, scratch_beside
from tools.export.base.sentence_files import find
from tools.export.base.tokenizer_files import write_tokenizer
from tools.export.encoders.encoder import keep_whole_texts
from tools.export.encoders.whole_onnx import write_onnx
from tools.export.encoders.whole_openvino import write_openvino
from tools.export.encoders.whole_tracing import TOLERANCE

DYNAMIC = torch.export.Dim.DYNAMIC
WIDTHS = (7, 20)
"""Tokens of the texts that a program is traced and checked with; of the model's bound where that is less."""
NUM_TRACED, NUM_CHECKED = 2, 3


class TextEncoder(torch.nn.Module):
    """int64[texts, width] → float32[texts, size], without a mask: the padding after a text is not seen, or is
    part of it.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = self.model.get_text_features(input_ids=input_ids)
        return values.float()


class ImageEncoder(torch.nn.Module):
    """float32[images, 3, side, side] → float32[images, size]."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = self.model.get_image_features(pixel_values=pixel_values.to(self.model.dtype))
        return values.float()


@dataclass(frozen=True)
class Half:
    """One of the two models: its folder, input and output; `example` makes inputs of a number of items."""

    name: str
    module: torch.nn.Module
    input: str
    output: str
    axes: dict[int, Any]
    example: Callable[[int], torch.Tensor]


def export_dual(source: str, folder: Path, form: str, weights: str, dtype: str, stage: Stage) -> None:
    """Write `source` (a local folder or a hub id) to `folder`: the tokenizer, config.json,
    preprocessor_config.json, and a folder for each model.

    It is complete or untouched.  Raises `ExportError`.
    """
    with quiet(), scratch_beside(folder) as scratch:
        model_folder = scratch / "model"
        stage("reading the tokenizer")
        tokenizer = write_tokenizer(source, model_folder)
        keep_whole_texts(model_folder / "tokenizer.json")
        _copy_settings(source, model_folder)
        stage("reading the model")
        model = _read(source, dtype)
        for half in _halves(model):
            stage(f"tracing the {half.name} model")
            program = trace_half(half, dtype)
            (model_folder / half.name).mkdir()
            stage(f"writing {weights} weights")
            if form == "onnx":
                write_onnx(program, (half.input,), half.output, model_folder / half.name, weights)
            else:
                write_openvino(program, half.output, model_folder / half.name, weights)
        _write_config(model.config, tokenizer.pad_token_id, model_folder)
        put(model_folder, folder)


@torch.no_grad()
def trace_half(half: Half, dtype: str) -> torch.export.ExportedProgram:
    """The program for any number of items.  Raises `ExportError` where its values are not the model's."""
    try:
        program = torch.export.export(
            half.module, (half.example(NUM_TRACED),), dynamic_shapes=(half.axes,), strict=False
        )
    except Exception as error:
        raise ExportError(f"torch cannot trace the {half.name} model: {first_line(error)}") from error
    example = half.example(NUM_CHECKED)
    traced, expected = program.module()(example), torch.cat([half.module(row[None]) for row in example])
    distance = ((traced - expected).abs().mean() / expected.std()).item()
    if not distance < TOLERANCE[dtype]:
        raise ExportError(
            f"the {half.name} model gives other values when it is traced: they differ by {distance:.2g} "
            "standard deviations"
        )
    return program


def _halves(model: Any) -> list[Half]:
    config, chance = model.config, torch.Generator().manual_seed(1)
    most, side = config.text_config.max_position_embeddings, config.vision_config.image_size
    reads_padding = config.model_type == "siglip"

    def texts(number: int) -> torch.Tensor:
        width = most if reads_padding else min(WIDTHS[number == NUM_CHECKED], most)
        return torch.randint(config.text_config.vocab_size, (number, width), generator=chance)

    def images(number: int) -> torch.Tensor:
        return torch.randn(number, 3, side, side, generator=chance)

    axes = {0: DYNAMIC} if reads_padding else {0: DYNAMIC, 1: DYNAMIC}
    return [
        Half(TEXT_NAME, TextEncoder(model), "input_ids", "text_embeds", axes, texts),
        Half(IMAGE_NAME, ImageEncoder(model), "pixel_values", "image_embeds", {0: DYNAMIC}, images),
    ]


def _read(source: str, dtype: str) -> Any:
    import transformers

    kinds = {"clip": transformers.CLIPModel, "siglip": transformers.SiglipModel}
    try:
        config = transformers.AutoConfig.from_pretrained(source)
        kind = kinds[config.model_type]
        model, loading = kind.from_pretrained(
            source, dtype=getattr(torch, dtype), attn_implementation="sdpa", output_loading_info=True
        )
    except (OSError, ValueError, KeyError) as error:
        raise ExportError(f"transformers cannot read {source}: {first_line(error)}") from error
    if missing := loading["missing_keys"]:
        raise ExportError(f"{source} lacks {len(missing)} weights of a {kind.__name__}: {missing[0]} …")
    return model.eval()


def _copy_settings(source: str, folder: Path) -> None:
    found = find(source, SETTINGS)
    if found is None:
        raise ExportError(f"{source} has no {SETTINGS}, which says how its images are read")
    shutil.copyfile(found, folder / SETTINGS)


def _write_config(config: Any, pad_id: int | None, folder: Path) -> None:
    """All fields, also those with default values; texts are padded with the tokenizer's own token."""
    fields = json.loads(config.to_json_string(use_diff=False))
    if pad_id is not None:
        fields["text_config"]["pad_token_id"] = pad_id
    (folder / "config.json").write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
