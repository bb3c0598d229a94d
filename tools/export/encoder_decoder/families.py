"""The families of text models with encoder and decoder: their weights by common names, and their forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tools.export.encoder_decoder.decoder import HEAD, HEAD_BIAS
from tools.export.encoder_decoder.form import SideForm
from tools.export.encoder_decoder.layers import Weights
from tools.export.encoder_decoder.t5 import T5, t5_model

SIDES = ("encoder", "decoder")
LEARNED_OFFSET = 2
"""Rows that BART's tables of learned positions have before that of position 0."""


class TextModel(NamedTuple):
    """`weights` have the names of BART's; a decoder's head and bias those of `decoder.py`."""

    weights: dict[str, NDArray[Any]]
    encoder: SideForm
    decoder: SideForm


@dataclass(frozen=True)
class _Style:
    """How a family differs from BART; `sinusoidal`: its positions are sines and cosines."""

    norm_first: bool = False
    embedding_norm: bool = True
    final_norm: bool = False
    sinusoidal: bool = False


STYLES = {
    "bart": _Style(),
    "plbart": _Style(),
    "mbart": _Style(norm_first=True, final_norm=True),
    "marian": _Style(embedding_norm=False, sinusoidal=True),
    "pegasus": _Style(norm_first=True, embedding_norm=False, final_norm=True, sinusoidal=True),
}
FAMILIES = (*STYLES, *T5)
"""Values of `model_type`."""


def read_text_model(weights: Weights, config: Mapping[str, Any]) -> TextModel:
    """The model of a Hugging Face folder.  `config` are the fields of its config.json, of a family above.

    KeyError for a weight or field that is missing.
    """
    kind = str(config["model_type"])
    if kind in T5:
        return TextModel(*t5_model(weights, config))
    return _of_bart(weights, config, STYLES[kind])


def _of_bart(weights: Weights, config: Mapping[str, Any], style: _Style) -> TextModel:
    encoder, decoder = (_form(config, side, style) for side in SIDES)
    own = tuple(form.prefix for form in (encoder, decoder))
    found = {name: value for name, value in weights.items() if name.startswith(own)}
    for form in (encoder, decoder):
        _embeddings(found, weights, config, form)
        _positions(found, form, style)
    if (bias := weights.get(HEAD_BIAS)) is not None and np.any(bias):
        found[HEAD_BIAS] = np.reshape(bias, -1)
    return TextModel(found, encoder, decoder)


def _form(config: Mapping[str, Any], side: str, style: _Style) -> SideForm:
    width, heads = int(config["d_model"]), int(config[f"{side}_attention_heads"])
    sizes = [config["vocab_size"]]
    if side == "decoder" and not config.get("share_encoder_decoder_embeddings", True):
        sizes.insert(0, config.get("decoder_vocab_size"))
    return SideForm(
        side=side,
        width=width,
        heads=heads,
        head_size=width // heads,
        layers=int(config[f"{side}_layers"]),
        inner=int(config[f"{side}_ffn_dim"]),
        max_context=int(config["max_position_embeddings"]),
        vocabulary=int(next(size for size in sizes if size)),
        activation=str(config["activation_function"]),
        norm_first=style.norm_first,
        embedding_norm=style.embedding_norm,
        final_norm=style.final_norm,
        embedding_scale=width**0.5 if config.get("scale_embedding") else 1.0,
    )


def _embeddings(
    found: dict[str, NDArray[Any]], weights: Weights, config: Mapping[str, Any], form: SideForm
) -> None:
    """The table of embeddings, which has one of several names in a folder."""
    own = f"{form.prefix}embed_tokens.weight"
    names = (own, "model.shared.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    found[own] = weights[next((name for name in names if name in weights), own)]
    if form.side == "decoder" and not config.get("tie_word_embeddings", True):
        found[HEAD] = weights["lm_head.weight"]


def _positions(found: dict[str, NDArray[Any]], form: SideForm, style: _Style) -> None:
    name = f"{form.prefix}embed_positions.weight"
    if not style.sinusoidal:
        found[name] = found[name][LEARNED_OFFSET:]
    elif name not in found:
        found[name] = sinusoids(form.max_context, form.width)


def sinusoids(num_positions: int, width: int) -> NDArray[np.float32]:
    """float32[num_positions, width]: sines in the first half of the columns, cosines in the second."""
    columns = np.arange(width)
    angles = np.arange(num_positions)[:, None] / np.power(10000, 2 * (columns // 2) / width)
    return np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], axis=1).astype(np.float32)
