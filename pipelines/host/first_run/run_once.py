"""One request for each engine of a model, so that a model that ends its process does so now."""

from __future__ import annotations

import queue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.element_types import DTYPES
from pipelines.base.errors import RequestError
from pipelines.host.models.model import HostModel
from pipelines.inference.engine.batching.batch_engine import BatchEngine
from pipelines.inference.engine.batching.tensor_engine import CannotJoin, TensorEngine
from pipelines.inference.engine.batching.threaded_engine import ThreadedEngine
from pipelines.inference.engine.generation_engine import GenerationEngine
from pipelines.inference.engine.interface.engine_contract import GenerationRequest, Result, TensorRequest
from pipelines.loading.load import BuildError
from pipelines.wire.sampling_params import SamplingParams

PROMPT_TOKENS, NEW_TOKENS = 33, 2
"""More than a block, and a step of one token after it."""
ROWS = 3
"""Rows of tensors that can be joined: a model that gives one row for all of them is found out."""


def run_once(model: HostModel) -> None:
    """Raises BuildError where a run fails."""
    for name, stepped in model.stepped.items():
        _check(name, _generate(stepped))
    for name, threaded in model.threaded.items():
        _check(name, _infer(threaded))


def _check(engine: str, error: object) -> None:
    if error is not None:
        raise BuildError([f"{engine}: its first run failed: {error}"])


def _generate(engine: GenerationEngine) -> str | None:
    """The error, if there is one."""
    limits = engine.limits
    count = max(1, min(PROMPT_TOKENS, limits.max_context - NEW_TOKENS - 1))
    params = SamplingParams(max_tokens=NEW_TOKENS, temperature=0.0, ignore_eos=True)
    encoder_hidden_size = limits.model.encoder_hidden_size
    frames = [np.zeros((1, encoder_hidden_size), np.float32)] if encoder_hidden_size else []
    prompts = [_ids(count, limits.model.vocab_size).tolist()]
    engine.submit("first", GenerationRequest(prompts, params, encoder_states=frames))
    while engine.has_work:
        for output in engine.step():
            if output.error is not None:
                return output.error
    return None


def _infer(engine: ThreadedEngine[Any]) -> Exception | None:
    """The error, if there is one.  Tensors of a model's own may be refused: which fit, only it knows; but
    requests that the graph joins must be of use joined.
    """
    results: queue.SimpleQueue[Result] = queue.SimpleQueue()
    if isinstance(engine, BatchEngine):
        inputs = _text(engine)
    elif isinstance(engine, TensorEngine):
        inputs = _zeros(engine)
    else:
        return None
    try:
        engine.submit(
            "first", TensorRequest(inputs, outputs=None, on_result=lambda key, result: results.put(result))
        )
    except RequestError as error:
        return None if isinstance(engine, TensorEngine) else error
    result = results.get()
    if isinstance(engine, TensorEngine):
        return result if isinstance(result, CannotJoin) else None
    return result if isinstance(result, Exception) else None


def _text(engine: BatchEngine) -> dict[str, NDArray[Any]]:
    if engine.bounds.columns is not None:
        features = np.zeros((1, *engine.bounds.columns), np.float32)
        of_one_token = {"grids": np.ones((1, 2), np.int32)} if features.ndim == 2 else {}
        return {"features": features, **of_one_token}
    count = min(PROMPT_TOKENS, engine.bounds.max_tokens)
    ids = _ids(count, engine.bounds.vocab_size)
    return {"ids": ids.astype(np.int32), "lengths": np.array([count], np.int32)}


def _zeros(engine: TensorEngine) -> dict[str, NDArray[Any]]:
    """Every free length is 1, but where requests are joined the first one is `ROWS`."""
    rows = [ROWS] if engine.joins else []
    return {
        name: np.zeros(
            [*rows, *(1 if size is None else size for size in (port.shape or ())[len(rows) :])],
            DTYPES[port.dtype],
        )
        for name, port in engine.inputs.items()
    }


def _ids(count: int, vocab_size: int) -> NDArray[np.int64]:
    return np.arange(1, count + 1) % vocab_size
