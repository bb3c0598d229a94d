"""The sentence encoder that provides the word embeddings of the pooling demos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModel

BATCH = 64
MAX_TOKENS = 128


class Teacher:
    """A BERT-shaped sentence encoder with mean pooling, in the folder of its transformers files."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self._model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()

    def vectors(self, texts: list[str]) -> np.ndarray:
        """float32[len(texts), size], each of length 1."""
        return self._pooled([encoding.ids for encoding in self.tokenizer.encode_batch(texts)])

    def of_pieces(self, pieces: list[str]) -> np.ndarray:
        """float32[len(pieces), size]: the embedding of each piece of the vocabulary as a text of its own."""
        first, last = self.tokenizer.token_to_id("[CLS]"), self.tokenizer.token_to_id("[SEP]")
        return self._pooled([[first, self.tokenizer.token_to_id(piece), last] for piece in pieces])

    @torch.inference_mode()
    def _pooled(self, rows: list[list[int]]) -> np.ndarray:
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        pooled: list[np.ndarray] = [np.empty(0)] * len(rows)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            width = max(len(rows[index]) for index in chosen)
            ids = torch.tensor([rows[index] + [0] * (width - len(rows[index])) for index in chosen])
            mask = torch.tensor([[1] * len(rows[i]) + [0] * (width - len(rows[i])) for i in chosen])
            with torch.autocast("cpu", torch.bfloat16):
                hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
            mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
            unit = torch.nn.functional.normalize(mean, dim=1).numpy()
            for index, row in zip(chosen, unit, strict=True):
                pooled[index] = row
        return np.stack(pooled).astype(np.float32)
