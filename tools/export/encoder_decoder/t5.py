"""T5's weights by the names of BART's, and the forms of its encoder and decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tools.export.encoder_decoder.decoder import HEAD
from tools.export.encoder_decoder.form import Buckets, SideForm
from tools.export.encoder_decoder.layers import Weights

T5 = ("t5", "mt5")
"""Values of `model_type`."""
MAX_CONTEXT, FARTHEST = 512, 128
"""The value of T5's configurations that do not say it."""
ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
RENAMED_ACTIVATIONS = {"gated-gelu": "gelu_new"}


def t5_model(
    weights: Weights, config: Mapping[str, Any]
) -> tuple[dict[str, NDArray[Any]], SideForm, SideForm]:
    """(weights, form of the encoder, form of the decoder).  KeyError for what is missing."""
    forms = [_form(config, side) for side in ("encoder", "decoder")]
    renamed: dict[str, NDArray[Any]] = {}
    for form in forms:
        names = (f"{form.side}.embed_tokens.weight", "shared.weight", "lm_head.weight")
        renamed[f"{form.prefix}embed_tokens.weight"] = weights[
            next(name for name in names if name in weights)
        ]
        renamed[f"{form.prefix}layer_norm.weight"] = weights[f"{form.side}.final_layer_norm.weight"]
        bias = f"{form.side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        renamed[f"{form.prefix}relative_bias.weight"] = weights[bias]
        for layer in range(form.layers):
            for theirs, ours in _layer_names(form).items():
                name = f"{form.side}.block.{layer}.layer.{theirs}.weight"
                renamed[f"{form.prefix}layers.{layer}.{ours}.weight"] = weights[name]
    if not _is_tied(config):
        renamed[HEAD] = weights["lm_head.weight"]
    encoder, decoder = forms
    return renamed, encoder, decoder


def _layer_names(form: SideForm) -> dict[str, str]:
    """T5's name of each weight of a layer → BART's."""
    last = 1 if form.side == "encoder" else 2
    first = {"wi_0": "fc1", "wi_1": "fc_gate"} if form.gated else {"wi": "fc1"}
    parts = [(0, "SelfAttention", "self_attn")]
    if form.side == "decoder":
        parts.append((1, "EncDecAttention", "encoder_attn"))
    return {
        **{f"{at}.{kind}.{a}": f"{ours}.{b}" for at, kind, ours in parts for a, b in ATTENTION.items()},
        **{f"{at}.layer_norm": f"{ours}_layer_norm" for at, _, ours in parts},
        **{f"{last}.DenseReluDense.{a}": b for a, b in {**first, "wo": "fc2"}.items()},
        f"{last}.layer_norm": "final_layer_norm",
    }


def _form(config: Mapping[str, Any], side: str) -> SideForm:
    activation = str(config.get("feed_forward_proj", "relu"))
    num_layers = config["num_layers"]
    if side == "decoder":
        num_layers = config.get("num_decoder_layers") or num_layers
    farthest = int(config.get("relative_attention_max_distance", FARTHEST))
    return SideForm(
        side=side,
        width=int(config["d_model"]),
        heads=int(config["num_heads"]),
        head_size=int(config["d_kv"]),
        layers=int(num_layers),
        inner=int(config["d_ff"]),
        max_context=int(config.get("n_positions", MAX_CONTEXT)),
        vocabulary=int(config["vocab_size"]),
        activation=RENAMED_ACTIVATIONS.get(activation, activation.removeprefix("gated-")),
        positions=False,
        relative=Buckets(int(config["relative_attention_num_buckets"]), farthest),
        gated=activation.startswith("gated-"),
        rms=True,
        epsilon=float(config["layer_norm_epsilon"]),
        scale=1.0,
        head_scale=int(config["d_model"]) ** -0.5 if _is_tied(config) else 1.0,
    )


def _is_tied(config: Mapping[str, Any]) -> bool:
    return bool(config.get("tie_word_embeddings", True))
