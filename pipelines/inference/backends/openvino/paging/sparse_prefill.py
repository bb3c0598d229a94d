"""Leaves the middle of long contexts out of attention while a prompt is computed."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import openvino as ov

from pipelines.inference.backends.openvino.paging.carried_attention import PAGED, SLOPES_INPUT, WINDOW_INPUT
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.step import Step


class RetainedContext(NamedTuple):
    """Which of the tokens before a chunk of a prompt it attends to: the `first` and the `recent` ones.

    The form of attention is that of StreamingLLM, in prompts alone ("Tri-shape" in MInference).
    """

    first: int
    recent: int


def without_middle(step: Step, retained: RetainedContext, block_tokens: int) -> Step:
    """The step as a model reads it that has `retained`, in whole blocks, of the context of most of a prompt.

    Sequences with logits in the step keep all: a prompt's last chunk, decoding, draft tokens, scored prompts.
    Tokens keep their positions; the number of tokens before them counts only those that are retained.
    """
    first, recent = (-(-size // block_tokens) for size in retained)
    left_out = np.maximum(step.num_past // block_tokens - first - recent, 0)
    left_out[np.searchsorted(step.starts, step.logit_indices, side="right") - 1] = 0
    if not left_out.any():
        return step
    column = np.arange(step.block_table.shape[1])
    source = column + np.where(column < first, 0, left_out[:, None])
    num_past = step.num_past - left_out * block_tokens
    return replace(
        step,
        block_table=np.take_along_axis(step.block_table, source.clip(max=column[-1]), axis=1),
        num_blocks=step.num_blocks - left_out,
        num_past=num_past,
        max_context=int((num_past + np.diff(step.starts)).max()),
    )


def check_retained(model: ov.Model, retained: RetainedContext) -> None:
    """Raise `ModelError` where a paged model depends on the number of tokens between two."""
    nodes = [node for node in model.get_ops() if node.get_type_name() == PAGED]
    if any(node.get_input_shape(SLOPES_INPUT)[0] for node in nodes):
        raise ModelError("sparse_prefill: this model's attention counts the tokens between two (ALiBi).")
    window = max((_window(node) for node in nodes), default=0)
    if window > retained.recent:
        raise ModelError(f"sparse_prefill: recent must be at least this model's window, {window} tokens.")


def _window(node: ov.Node) -> int:
    return int(node.input_value(WINDOW_INPUT).get_node().get_data())
