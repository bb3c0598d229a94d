"""The variables of CTranslate2's Whisper under the names of Hugging Face's, and the sizes that they show."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.export.base.folder import ExportError
from tools.export.speech.ctranslate2_file import Arrays, Ctranslate2File

KIND = "WhisperSpec"
SCALE = "_scale"
ONCE = {
    "encoder/conv1": "model.encoder.conv1",
    "encoder/conv2": "model.encoder.conv2",
    "encoder/layer_norm": "model.encoder.layer_norm",
    "decoder/layer_norm": "model.decoder.layer_norm",
}
TABLES = {
    "encoder/position_encodings/encodings": "model.encoder.embed_positions.weight",
    "decoder/position_encodings/encodings": "model.decoder.embed_positions.weight",
    "decoder/embeddings/weight": "model.decoder.embed_tokens.weight",
}
LAYER: dict[str, tuple[str, ...]] = {
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "ffn/layer_norm": ("final_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
}
"""CTranslate2's part of a layer → Hugging Face's; several share one weight, one below the other."""
PARTS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def whisper_weights(file: Ctranslate2File) -> tuple[Arrays, dict[str, Any]]:
    """(weights by Hugging Face's names, the fields of its config.json).  Raises `ExportError`."""
    if file.kind != KIND:
        raise ExportError(f"it is a {file.kind}; of CTranslate2's models Whisper ({KIND}) is exported")
    try:
        weights = dict(_renamed(file.variables))
        return weights, _config(file.variables, weights)
    except (KeyError, IndexError, ValueError) as error:
        raise ExportError(f"it lacks parts of a Whisper model: {error!r}") from error


def _renamed(variables: Arrays) -> Iterator[tuple[str, NDArray[Any]]]:
    for theirs, ours in TABLES.items():
        yield ours, _floats(variables, theirs)
    for theirs, ours in ONCE.items():
        yield from _parts(variables, theirs, (ours,))
    for side in ("encoder", "decoder"):
        for layer in range(_num_layers(variables, side)):
            for theirs, names in LAYER.items():
                ours = tuple(f"model.{side}.layers.{layer}.{name}" for name in names)
                yield from _parts(variables, f"{side}/layer_{layer}/{theirs}", ours)


def _parts(variables: Arrays, theirs: str, names: tuple[str, ...]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The weight and bias of a line of the tables; keys have no bias in Whisper, so theirs is zero."""
    for part, ours in PARTS.items():
        if f"{theirs}/{part}" in variables:
            values = np.split(_floats(variables, f"{theirs}/{part}"), len(names))
            for name, value in zip(names, values, strict=True):
                if not (ours == "bias" and name.endswith("k_proj") and not value.any()):
                    yield f"{name}.{ours}", value


def _floats(variables: Arrays, name: str) -> NDArray[Any]:
    """A variable; one of integers divided by its scale, one for each row or one for all."""
    values, scale = variables[name], variables.get(name + SCALE)
    if scale is None:
        return values
    return values.astype(np.float32) / scale.reshape(-1, *[1] * (values.ndim - 1))


def _num_layers(variables: Arrays, side: str) -> int:
    return next(i for i in count() if f"{side}/layer_{i}/ffn/linear_0/bias" not in variables)


def _config(variables: Arrays, weights: Arrays) -> dict[str, Any]:
    vocab_size, width = weights["model.decoder.embed_tokens.weight"].shape
    sides = {
        f"{side}_{field}": value
        for side in ("encoder", "decoder")
        for field, value in (
            ("layers", _num_layers(variables, side)),
            ("attention_heads", int(variables[f"{side}/num_heads"])),
            ("ffn_dim", len(weights[f"model.{side}.layers.0.fc1.bias"])),
        )
    }
    return {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "is_encoder_decoder": True,
        "activation_function": "gelu",
        "vocab_size": vocab_size,
        "d_model": width,
        "num_mel_bins": weights["model.encoder.conv1.weight"].shape[1],
        "max_source_positions": len(weights["model.encoder.embed_positions.weight"]),
        "max_target_positions": len(weights["model.decoder.embed_positions.weight"]),
        **sides,
    }
