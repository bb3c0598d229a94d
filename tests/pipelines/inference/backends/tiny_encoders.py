"""Encoders of a few layers with random weights, exported, and what transformers itself makes of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import torch
import transformers as hf
from tiny_batches import batch_of

VOCABULARY, PADDING = 99, 3
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "initializer_range": 0.3,
    "pad_token_id": PADDING,
    "attn_implementation": "eager",
}
ENCODER: dict[str, Any] = {**SIZES, "max_position_embeddings": 64 + PADDING + 1, "type_vocab_size": 2}
DECODER: dict[str, Any] = {
    **SIZES,
    "max_position_embeddings": 64,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "tie_word_embeddings": True,
}

FAMILIES: dict[str, tuple[str, dict[str, Any], type[Any]]] = {
    "bert": ("bert", ENCODER, hf.AutoModel),
    "roberta": ("roberta", ENCODER, hf.AutoModel),
    "qwen3-scorer": ("qwen3", {**DECODER, "num_labels": 1}, hf.AutoModelForSequenceClassification),
}
"""Name → transformers' kind, settings, class; the scorer looks for padding to find a text's last token."""


class Whole(torch.nn.Module):
    """A model as it is exported: with a mask of texts, and rows or logits alone."""

    def __init__(self, model: Any, reads_types: bool) -> None:
        super().__init__()
        self.model, self.reads_types = model, reads_types
        self.is_causal = model.config.model_type == "qwen3"

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None) -> Any:
        types = {"token_type_ids": token_type_ids} if self.reads_types else {}
        mask = _causal(attention_mask) if self.is_causal else attention_mask
        return self.model(input_ids, attention_mask=mask, **types)[0]


def _causal(mask: Any) -> Any:
    """What transformers would make of it: float [num_texts, 1, width, width]; its own cannot be traced."""
    place = torch.arange(mask.shape[1])
    seen = (place[None, :] <= place[:, None]) & mask[:, None, None, :].bool()
    return {"full_attention": torch.where(seen, 0.0, torch.finfo(torch.float32).min)}


def make_model(family: str) -> Any:
    kind, settings, cls = FAMILIES[family]
    torch.manual_seed(0)
    return cls.from_config(hf.AutoConfig.for_model(kind, **settings)).eval()


def write_encoder(family: str, folder: Path) -> None:
    """model.onnx, openvino_model.xml and config.json in `folder`."""
    model = make_model(family)
    model.config.save_pretrained(folder)
    reads_types = family.startswith("bert")
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if reads_types else [])]
    ids = torch.randint(PADDING + 1, VOCABULARY, (3, 7))
    inputs = (ids, torch.ones_like(ids), torch.zeros_like(ids))[: len(names)]
    torch.onnx.export(
        Whole(model, reads_types),
        inputs,
        folder / "model.onnx",
        input_names=names,
        output_names=["logits" if "-" in family else "last_hidden_state"],
        dynamic_axes={name: {0: "texts", 1: "width"} for name in names},
        dynamo=False,  # many times faster than torch.export
    )
    ov.save_model(ov.Core().read_model(folder / "model.onnx"), folder / "openvino_model.xml", False)


def texts(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    """Random ids, no padding among them, of lengths from 1 to `longest`, which one text has."""
    rng = np.random.default_rng(seed)
    lengths = [longest, *rng.integers(1, longest + 1, count - 1).tolist()]
    return [rng.integers(PADDING + 1, VOCABULARY, length).tolist() for length in lengths]


@torch.no_grad()
def rows_alone(model: Any, text: list[int]) -> np.ndarray:
    """What transformers gives for one text: [tokens, size] or [size]."""
    batch = batch_of([text])
    types = {"token_type_ids": torch.from_numpy(batch.types)} if model.config.model_type == "bert" else {}
    return model(torch.from_numpy(batch.ids), **types)[0][0].numpy()
