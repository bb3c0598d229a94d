"""The encoders that are checked and measured, by name: their configs and their pooling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ops.contract import PoolingOps
from pipelines.inference.contracts.encoder_batch import TokenBatch

Made = Callable[[PoolingOps, Any, TokenBatch], Any]
"""(ops, an encoder's values, its batch) → pooled outputs on the device of the ops."""


def unit(how: str) -> Made:
    """Embeddings of length 1 with one kind of pooling."""
    return lambda ops, values, batch: ops.normalize(ops.pool(values, batch.lengths, how), batch.activate)


def chances(name: str) -> Made:
    """Probabilities from logits."""
    return lambda ops, values, batch: getattr(ops, name)(values, batch.activate)


@dataclass(frozen=True)
class EncoderShape:
    """`family` is a class of transformers without weights; `config` its settings; `dtype` of weights."""

    family: str
    made: Made
    config: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"

    def model(self) -> Any:
        """With transformers' own random weights."""
        import torch
        import transformers

        made = getattr(transformers, self.family)
        config = made.config_class(**self.config)
        torch.manual_seed(0)
        return made._from_config(config, attn_implementation="sdpa", dtype=getattr(torch, self.dtype))


_BERT = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": 256,
}
_QWEN3 = {
    **_BERT,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
_MINILM = {
    "vocab_size": 30_522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
}

ENCODERS = {
    "bert": EncoderShape("BertModel", unit("mean"), _BERT),
    "bert_f16": EncoderShape("BertModel", unit("mean"), _BERT, "float16"),
    "decoder": EncoderShape("Qwen3Model", unit("last"), _QWEN3),
    "classifier": EncoderShape(
        "BertForSequenceClassification", chances("softmax"), {**_BERT, "num_labels": 3}
    ),
    "cross_encoder": EncoderShape(
        "BertForSequenceClassification", chances("sigmoid"), {**_BERT, "num_labels": 1}
    ),
    "minilm": EncoderShape("BertModel", unit("mean"), _MINILM),
    "minilm_f16": EncoderShape("BertModel", unit("mean"), _MINILM, "float16"),
}
"""The small ones are checked against the CPU, MiniLM's shape is measured."""
CHECKED = {"bert": "bert", "bert_f16": "bert", "decoder": "decoder"}
CHECKED |= {"classifier": "classifier", "cross_encoder": "cross_encoder"}
"""Name → the encoder whose float32 values on the CPU are its reference."""
MEASURED = ("minilm", "minilm_f16")
