"""Compares an exported decoder with transformers before its folder is written.

Three prompts, one longer than any window of attention, run through Braid's paged steps; the log-probabilities
of some of their positions must be those of transformers.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.inference.backends.model_config import CONTEXT_FIELDS
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.device_errors import ModelError, Unsupported
from tools.export.base.folder import ExportError, first_line
from tools.logit_distance import GROUP, LONGEST, distances, log_softmax, rows_to_compare
from tools.paged_steps import Prompt, prompt_logits

SENTENCES = (
    "The quick brown fox jumps over the lazy dog. It was the best of times, it was the worst of times.",
    "def add(a, b):\n    return a + b\n\nprint(add(2, 40))  # 42\n",
    'What is the capital of France? Answer in JSON: {"capital": "Paris", "population": 2103000}',
    "今天天气很好，我们去公园散步吧。 Größe, naïve, año, Привет, 世界! 3.14159 × 10^8",
)
"""What models are watched and compared on."""
OF_WEIGHTS, OF_ACTIVATIONS = {"int8": 0.15, "int4": 0.7}, {"f32": 2e-3, "f16": 2e-2, "bf16": 8e-2}
"""Allowed distance by type of weights and of activations."""
NUM_RANDOM, LONG = 100, 160  # tokens of the prompts
STEP_TOKENS = 96  # of a prompt in a step, so that prompts run in several
REACHES = ("sliding_window", "attention_chunk_size", "original_max_position_embeddings")
"""Settings of a model behind which its tokens are treated differently."""


class Expected(NamedTuple):
    """A prompt, and transformers' log-probabilities float32[rows, vocab] at its rows."""

    prompt: Prompt
    logprobs: NDArray[np.float32]


def tolerance(weights: str, activations: str) -> float:
    """The allowed difference of an export."""
    return max(OF_WEIGHTS.get(weights, 0.0), OF_ACTIVATIONS[activations])


@torch.no_grad()
def expected_logprobs(model: Any, tokenizer: Any) -> list[Expected]:
    """What transformers gives for the three prompts.  Raises `ExportError` when the model does not run."""
    config = model.config.get_text_config()
    prompts = _prompts(tokenizer, config)
    try:
        return [Expected(prompt, _logprobs(model, prompt)) for prompt in prompts]
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise ExportError(f"{type(model).__name__} does not run: {first_line(error)}") from error


def check_export(path: Path, expected: Sequence[Expected], allowed: float) -> None:
    """Raise `ExportError` where the exported model at `path` parts from transformers."""
    session = _open(path)
    expected = [_within(sample, session.shape.max_context) for sample in expected]
    try:
        all_logits = prompt_logits(session, [sample.prompt for sample in expected], STEP_TOKENS)
    except RuntimeError as error:
        raise ExportError(f"the exported model does not run: {_last_line(error)}") from error
    finally:
        session.close()
    for sample, logits in zip(expected, all_logits, strict=True):
        for begin, distance in distances(sample.logprobs, log_softmax(logits), sample.prompt.rows):
            if not distance <= allowed:
                raise ExportError(
                    f"the exported model parts from transformers at token {begin} of a prompt of "
                    f"{len(sample.prompt.ids)}: log-probabilities lie {distance:.2g} standard deviations "
                    f"apart (allowed: {allowed:g})"
                )


def _open(path: Path) -> DecoderSession:
    """The exported model in exact arithmetic, on the engine that serves it on a CPU."""
    from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
    from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings

    try:
        try:
            return OpenVINOSession(path, OpenVINOSettings(precision="f32", kv_cache="f32"))
        except Unsupported:
            from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession

            return OnnxCpuSession(path)
    except ModelError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ExportError(f"the exported model cannot be opened: {reason}") from error
    except RuntimeError as error:  # of its first step
        raise ExportError(f"the exported model does not run: {_last_line(error)}") from error


def _last_line(error: RuntimeError) -> str:
    """Where engines say what is wrong, below the places in their own files."""
    return str(error).strip().rpartition("\n")[2]


def _within(each: Expected, context: int) -> Expected:
    """The part of the prompt that is served: some layers bound the context below that of config.json."""
    rows = each.prompt.rows[each.prompt.rows < context]
    prompt = Prompt(each.prompt.ids[:context], rows, each.prompt.images)
    return Expected(prompt, each.logprobs[: len(rows)])


# Prompts


def _prompts(tokenizer: Any, config: Any) -> list[Prompt]:
    """A sentence, random ids, and text that is longer than every reach of the model."""
    vocab_size, context = config.vocab_size, _context(config)
    reach = max(int(getattr(config, name, None) or 0) for name in REACHES)
    texts = [np.array(tokenizer(text)["input_ids"], np.int64) for text in SENTENCES]
    words = [ids for ids in texts if len(ids) > 1 and ids.max() < vocab_size]
    noise = np.random.default_rng(1).integers(0, vocab_size, NUM_RANDOM)
    length = min(max(LONG, reach + 2 * GROUP), LONGEST)
    long = np.resize(np.concatenate([noise, *words]), length)
    cut = [ids[:context] for ids in (*words[:1], noise, long)]
    return [Prompt(ids, rows_to_compare(len(ids), reach)) for ids in cut]


def _context(config: Any) -> int:
    return next((int(value) for name in CONTEXT_FIELDS if (value := getattr(config, name, None))), LONGEST)


# Log-probabilities


def _logprobs(model: Any, prompt: Prompt) -> NDArray[np.float32]:
    ids, rows = torch.from_numpy(prompt.ids)[None], torch.from_numpy(prompt.rows)
    keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
    logits = model(ids, use_cache=False, **({"logits_to_keep": rows} if keeps else {})).logits[0]
    wanted = logits if keeps else logits[rows]
    return wanted.float().log_softmax(-1).numpy()
