"""Compares the log-probabilities of an exported encoder and decoder with those of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession
from pipelines.inference.backends.onnxruntime.cpu.encoder_session import OnnxCpuEncoder
from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from pipelines.inference.engine.packed_parts import PromptPart, packed_step
from tools.export.base.folder import ExportError, quiet
from tools.logit_distance import log_softmax
from tools.paged_steps import frames_in

TOLERANCES = {"fp32": 1e-3, "int8": 0.3}
"""Weights → the root mean square of the difference, over the spread of the log-probabilities."""
NUM_READ, NUM_WRITTEN = 48, 16
"""Tokens of the text and of the output that are compared, if the model takes as many."""
Logprobs = NDArray[np.float64]


def check_pair(folder: Path, source: Path, weights: str) -> None:
    """Raise `ExportError` where the model in `folder` gives other log-probabilities than that in `source`."""
    read, written, wanted = _of_transformers(source)
    found = _of_export(folder, read, written)
    distance = float(np.sqrt(np.mean((found - wanted) ** 2)) / np.std(wanted))
    if not distance <= TOLERANCES[weights]:
        raise ExportError(
            f"log-probabilities of the {weights} export differ from those of transformers by {distance:.2g} "
            f"of their spread; {TOLERANCES[weights]} is allowed"
        )


def _of_transformers(source: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], Logprobs]:
    """(ids that the encoder reads, ids that the decoder reads, log-probabilities of what follows each)."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    with quiet(), torch.no_grad():
        model: Any = AutoModelForSeq2SeqLM.from_pretrained(source, torch_dtype=torch.float32).eval()
        some = np.random.default_rng(0)
        read = some.integers(0, model.config.vocab_size, NUM_READ)
        size = model.get_output_embeddings().weight.shape[0]
        written = some.integers(0, min(size, model.config.vocab_size), NUM_WRITTEN)
        logits = model(
            input_ids=torch.tensor(read[None]), decoder_input_ids=torch.tensor(written[None])
        ).logits[0]
        return read, written, torch.log_softmax(logits.double(), -1).numpy()


def _of_export(folder: Path, read: NDArray[np.int64], written: NDArray[np.int64]) -> Logprobs:
    encoder = OnnxCpuEncoder(folder / "encoder.onnx", EncoderSettings())
    ids = read[None]
    batch = TokenBatch(ids, np.array([len(read)]), np.zeros_like(ids), np.ones(1, np.bool_))
    rows = np.array(encoder.run(batch)[0], np.float32)
    encoder.close()
    decoder = OnnxCpuSession(folder / "decoder.onnx")
    size = decoder.shape.block_tokens
    own = -(-len(written) // size)
    decoder.reserve(len(written), 1)
    decoder.allocate(own - (-len(rows) // size))
    part = PromptPart(written, 0, np.arange(own, dtype=np.int32), np.arange(len(written)))
    logprobs = log_softmax(decoder.run(frames_in(packed_step([part], size), rows, own, size)))
    decoder.close()
    return logprobs
