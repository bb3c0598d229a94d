"""Writes the decoder of a Whisper model in Braid's ONNX format, from its plain weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.export.encoder_decoder import decoder
from tools.export.encoder_decoder.form import SideForm
from tools.export.encoder_decoder.layers import Weights


def write_decoder(weights: Weights, config: Mapping[str, Any], folder: Path, name: str = "decoder") -> None:
    """Write `name`.onnx and its data to `folder`: embeddings, layers with two attentions each, and the head.

    `weights` have the names and `config` the fields of Hugging Face's Whisper.  KeyError for a weight that
    is missing, ValueError for one of another shape.
    """
    width, heads = int(config["d_model"]), int(config["decoder_attention_heads"])
    form = SideForm(
        side="decoder",
        width=width,
        heads=heads,
        head_size=width // heads,
        layers=int(config["decoder_layers"]),
        inner=int(config["decoder_ffn_dim"]),
        max_context=int(config["max_target_positions"]),
        vocabulary=int(config["vocab_size"]),
    )
    decoder.write_decoder(weights, form, folder, name)
