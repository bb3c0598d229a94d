"""Exported encoders and rerankers, run by OpenVINO without Braid: what a model costs by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

BATCH_TOKENS = 1024
"""Tokens of a batch, padding included, as in a batcher of Braid on a CPU."""
FILES = ("openvino_model.xml", "model.onnx")
Floats = NDArray[np.float32]


class BareModel:
    """Runs one exported model of a repository: tokenizes texts or pairs, and batches near lengths."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the model's in the repository.  Raises FileNotFoundError."""
        files = folder / "model"
        path = next((files / name for name in FILES if (files / name).exists()), None)
        if path is None:
            raise FileNotFoundError(f"{files} has neither {' nor '.join(FILES)}")
        self._tokenizer = Tokenizer.from_file(str(files / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_max_tokens(files))
        compiled = ov.Core().compile_model(path, "CPU", {"PERFORMANCE_HINT": "LATENCY"})
        self._inputs = [port.get_any_name() for port in compiled.inputs]
        self._request = compiled.create_infer_request()
        self._prompts = _prompts(files)

    def embed(self, texts: Sequence[str], purpose: str) -> Floats:
        """The mean of the hidden states of each text, of length 1: float32[texts, size].

        `purpose` is the name of a prompt, where the model has one of this name.
        """
        prompt = self._prompts.get(purpose, "")
        vectors: list[Any] = [None] * len(texts)
        encodings = self._tokenizer.encode_batch([prompt + text.strip() for text in texts])
        for places, mask, output in self._batches(encodings):
            pooled = np.einsum("btd,bt->bd", output, mask) / mask.sum(1, keepdims=True)
            for place, vector in zip(places, pooled / np.linalg.norm(pooled, axis=1)[:, None], strict=True):
                vectors[place] = vector
        return np.stack(vectors)

    def score(self, query: str, documents: Sequence[str]) -> Floats:
        """The logit of each pair: float32[documents]."""
        scores = np.zeros(len(documents), np.float32)
        encodings = self._tokenizer.encode_batch([(query, text) for text in documents])
        for places, _, output in self._batches(encodings):
            scores[places] = output[:, 0]
        return scores

    def _batches(self, encodings: Sequence[Encoding]) -> Iterator[tuple[list[int], Floats, Floats]]:
        """(places, mask, first output) of batches of near lengths."""
        order = sorted(range(len(encodings)), key=lambda place: len(encodings[place].ids))
        while order:
            width = len(encodings[order[-1]].ids)
            places = order[-max(1, BATCH_TOKENS // width) :]
            del order[-len(places) :]
            arrays = {name: np.zeros((len(places), width), np.int64) for name in self._inputs}
            mask = np.zeros((len(places), width), np.int64)
            for row, place in enumerate(places):
                encoding = encodings[place]
                count = len(encoding.ids)
                mask[row, :count] = 1
                arrays["input_ids"][row, :count] = encoding.ids
                if "token_type_ids" in arrays:
                    arrays["token_type_ids"][row, :count] = encoding.type_ids
            arrays["attention_mask"] = mask
            self._request.infer([arrays[name] for name in self._inputs], share_inputs=True)
            yield places, mask.astype(np.float32), self._request.get_output_tensor(0).data


def _max_tokens(files: Path) -> int:
    """The longest text, which sentence-transformers' file may say, else config.json."""
    path = files / "sentence_bert_config.json"
    longest = json.loads(path.read_text()).get("max_seq_length") if path.exists() else None
    if longest is None:
        longest = json.loads((files / "config.json").read_text())["max_position_embeddings"]
    return int(longest)


def _prompts(files: Path) -> dict[str, str]:
    path = files / "config_sentence_transformers.json"
    return json.loads(path.read_text()).get("prompts", {}) if path.exists() else {}
