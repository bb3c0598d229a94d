"""Runs the exported model directly, one text at a time: the lower bound of the latency."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
from tokenizers import Tokenizer

from tools.lab.bench.pooling.load import Embed, Vectors

MAX_TOKENS = 256


def opened(folder: Path, from_text: bool = False) -> Embed:
    """Unless `from_text`, a text is tokenized once: later rounds measure the model and the mean pooling."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    compiled = ov.Core().compile_model(folder / "openvino_model.xml", "CPU", {"PERFORMANCE_HINT": "LATENCY"})
    names = [port.get_any_name() for port in compiled.inputs]
    request = compiled.create_infer_request()
    known: dict[str, list[np.ndarray]] = {}

    def inputs(text: str) -> list[np.ndarray]:
        ids = np.array([tokenizer.encode(text).ids])
        arrays = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        return [arrays.get(name, np.zeros_like(ids)) for name in names]

    def embed(texts: list[str]) -> Vectors:
        vectors = []
        for text in texts:
            if from_text or text not in known:
                known[text] = inputs(text)
            request.infer(known[text], share_inputs=True, share_outputs=True)
            vectors.append(request.get_output_tensor(0).data[0].mean(0))
        return [vector / np.linalg.norm(vector) for vector in vectors]

    return embed
