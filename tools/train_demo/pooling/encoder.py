"""Makes new BERT models with pretrained word embeddings, and encodes texts as their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import BertConfig, BertModel

from .sizes import MAX_TOKENS, SIZE

HEADS = 4
WEIGHT_SCALE = 0.06  # standard deviations of a new model's weights
POSITION_SCALE = 0.02
SIDE = SIZE - 1  # the dimension that marks which text of a pair a token belongs to
SIDE_SCALE = 0.25
SIDE_WEIGHT = 1.7
TAKEN_SHARE = 0.7


def config(num_layers: int, vocabulary_size: int, **more: Any) -> BertConfig:
    """BERT with vectors of 128 numbers."""
    return BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=SIZE,
        num_hidden_layers=num_layers,
        num_attention_heads=HEADS,
        intermediate_size=2 * SIZE,
        initializer_range=WEIGHT_SCALE,
        max_position_embeddings=MAX_TOKENS,
        hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.0,
        **more,
    )


def begin(model: BertModel, vectors: np.ndarray, num_matching: int = 0) -> None:
    """Sets and freezes the word embeddings, so that words outside the training data keep their meaning.

    `num_matching` heads of the first layer compare two texts from the start.
    """
    with torch.no_grad():
        embeddings = model.embeddings
        embeddings.word_embeddings.weight.copy_(torch.from_numpy(vectors))
        embeddings.position_embeddings.weight.normal_(std=POSITION_SCALE)
        embeddings.token_type_embeddings.weight.zero_()
        embeddings.word_embeddings.weight[:, SIDE] = 0
        embeddings.word_embeddings.requires_grad_(False)
        embeddings.position_embeddings.weight[:, SIDE] = 0
        embeddings.token_type_embeddings.weight[:, SIDE] = torch.tensor([SIDE_SCALE, -SIDE_SCALE])
        for head in range(num_matching):
            _match(model.encoder.layer[0].attention, slice(head * SIZE // HEADS, (head + 1) * SIZE // HEADS))


def hush(model: BertModel, share: float) -> None:
    """Makes each layer add little to its input, so that the initial model returns the word embeddings."""
    with torch.no_grad():
        for layer in model.encoder.layer:
            layer.attention.output.dense.weight.mul_(share)
            layer.output.dense.weight.mul_(share)


def _match(attention: Any, rows: slice) -> None:
    """Makes a head attend to similar words in the other text, and subtract them.

    Queries and keys are the same random projection, so that similar words attend to each other; their last
    dimension marks the token's text, with opposite signs.  What remains of a token is what the other
    text lacks.
    """
    width = rows.stop - rows.start
    shown = torch.zeros(width, SIZE)
    shown[:-1, :SIDE] = torch.linalg.qr(torch.randn(SIDE, width - 1)).Q.T
    side = torch.zeros(width, SIZE)
    side[-1, SIDE] = SIDE_WEIGHT
    attention.self.query.weight[rows] = shown + side
    attention.self.key.weight[rows] = shown - side
    attention.self.value.weight[rows] = shown
    attention.output.dense.weight[:, rows] = -TAKEN_SHARE * shown.T


def inputs(tokenizer: Tokenizer, texts: list[str] | list[tuple[str, str]]) -> dict[str, Tensor]:
    """Texts, or pairs of them, as what transformers' BERT takes: int64[len(texts), longest] each."""
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    tokenizer.enable_truncation(MAX_TOKENS)
    encoded = tokenizer.encode_batch_fast(texts)
    return {
        "input_ids": torch.tensor([one.ids for one in encoded]),
        "attention_mask": torch.tensor([one.attention_mask for one in encoded]),
        "token_type_ids": torch.tensor([one.type_ids for one in encoded]),
    }
