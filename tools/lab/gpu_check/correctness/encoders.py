"""Compares encoders and pooling on the GPU with ONNX Runtime's CPU kernels and numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.encoder_batch import TokenBatch
from pipelines.inference.contracts.encoder_contract import EncoderSettings
from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.correctness.distance import distance
from tools.lab.gpu_check.packs.encoder_folders import encoder_file
from tools.lab.gpu_check.packs.encoder_models import CHECKED, ENCODERS, Made

Open = Callable[[Path], Any]
"""A model.onnx → its `EncoderSession`."""

LIMITS = {"float32": 1e-4, "float16": 2e-2}
"""Allowed relative error by type of weights."""
BATCHES = {"one": [7], "mixed": [5, 61, 1, 120, 33, 2], "alike": [64] * 16, "long": [250, 3]}
"""Lengths of the texts of each batch, in tokens."""
LOOK_AT = "pipelines/inference/backends/onnxruntime/cuda/{encoder,texts}.py, ops/cuda/pooling.cu"


def open_on_gpu(path: Path) -> Any:
    from pipelines.inference.backends.onnxruntime.cuda.encoder_session import open_encoder

    return open_encoder(path, EncoderSettings("cuda:0"))


def open_on_cpu(path: Path) -> Any:
    from pipelines.inference.backends.onnxruntime.cpu.encoder_session import OnnxCpuEncoder

    return OnnxCpuEncoder(path)


def check_encoders(setting: Setting) -> None:
    """Check every encoder with every batch; fails with all differences."""
    wrong: list[str] = []
    for name, reference in CHECKED.items():
        try:
            wrong += check_encoder(name, reference, setting)
        except Exception as error:  # an exception of one encoder must not hide the next
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    if wrong:
        raise Failed("\n".join(wrong), LOOK_AT)


def check_encoder(name: str, reference: str, setting: Setting, open_here: Open | None = None) -> list[str]:
    """The problems, one line each; `name` must give what `reference` gives on the CPU."""
    limit, outputs = LIMITS[ENCODERS[name].dtype], ENCODERS[name].made
    wrong, errors = [], {}
    with (
        _session(name, open_here or open_on_gpu, setting) as session,
        _session(reference, open_on_cpu, setting) as expected,
    ):
        for kind, lengths in BATCHES.items():
            batch = random_batch(lengths, session.vocab_size)
            rows = rows_of(session, batch, outputs)
            far = distance(rows, rows_of(expected, batch, outputs))
            apart = float(np.abs(rows - _alone(session, batch, outputs)).max())
            errors[kind] = {"rms": far.rms, "worst": far.worst, "alone": apart}
            if not far.within(limit):
                wrong.append(f"{name}, {kind}: {far}")
            if apart > limit:
                wrong.append(f"{name}, {kind}: a text in a batch differs by {apart:.2g} from itself alone")
    setting.note(name, errors)
    setting.say(f"{name}: error {max(error['rms'] for error in errors.values()):.2g} of its size")
    return wrong


def rows_of(session: Any, batch: TokenBatch, made: Made) -> NDArray[np.float32]:
    """The pooled outputs of a batch, in host memory."""
    rows: NDArray[np.float32] = session.ops.fetch(made(session.ops, session.run(batch), batch))
    return rows


def random_batch(lengths: list[int], vocab_size: int, seed: int = 0) -> TokenBatch:
    """A batch of texts with these lengths; every third one without activation."""
    width, count = max(lengths), np.array(lengths)
    ids = np.random.default_rng(seed).integers(0, vocab_size, (len(lengths), width))
    ids[np.arange(width) >= count[:, None]] = 0
    return TokenBatch(ids, count, np.zeros_like(ids), np.arange(len(lengths)) % 3 != 2)


def _alone(session: Any, batch: TokenBatch, outputs: Made) -> NDArray[np.float32]:
    """The pooled outputs of a batch's texts, each from a batch of one text without padding."""
    texts = [
        TokenBatch(
            batch.ids[at : at + 1, :length],
            batch.lengths[at : at + 1],
            batch.types[at : at + 1, :length],
            batch.activate[at : at + 1],
        )
        for at, length in enumerate(batch.lengths.tolist())
    ]
    return np.concatenate([rows_of(session, text, outputs) for text in texts])


@contextmanager
def _session(name: str, opened: Open, setting: Setting) -> Iterator[Any]:
    with ExitStack() as stack:
        session = opened(stack.enter_context(encoder_file(name, setting)))
        stack.callback(session.close)
        yield session
