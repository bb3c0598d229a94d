"""Greedy replies to prompts, from a model in training or from the exported one.

Knows nothing of skills or of what a right reply is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from .tokenizer import PAD, TURN_END

MAX_NEW_TOKENS = 160
GROUP = 32  # prompts that are answered together


@torch.inference_mode()
def ask_torch(model: Any, tokenizer: Tokenizer, prompts: list[str]) -> list[str]:
    """One reply per prompt; alike lengths are answered together, padded to the left."""
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    replies = [""] * len(prompts)
    for start in range(0, len(order), GROUP):
        chosen = order[start : start + GROUP]
        answered = _ask_group(model, tokenizer, [prompts[index] for index in chosen])
        for index, reply in zip(chosen, answered, strict=True):
            replies[index] = reply
    return replies


def _ask_group(model: Any, tokenizer: Tokenizer, prompts: list[str]) -> list[str]:
    encoded = [tokenizer.encode(prompt, add_special_tokens=False).ids for prompt in prompts]
    width = max(map(len, encoded))
    pad, end = tokenizer.token_to_id(PAD), tokenizer.token_to_id(TURN_END)
    token_ids = np.full((len(encoded), width), pad)
    for row, ids in zip(token_ids, encoded, strict=True):
        row[width - len(ids) :] = ids
    given = torch.from_numpy(token_ids)
    written = model.generate(
        input_ids=given,
        attention_mask=(given != pad).long(),
        max_new_tokens=MAX_NEW_TOKENS,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=pad,
    )
    return [tokenizer.decode(ids, skip_special_tokens=True) for ids in written[:, width:].tolist()]


def load_exported(folder: Path) -> tuple[Any, Tokenizer]:
    """The exported model, ready for `ask_torch`, and its tokenizer."""
    from optimum.intel import OVModelForCausalLM  # slow to import, and needed for nothing else

    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    model = OVModelForCausalLM.from_pretrained(folder, ov_config=exact)
    return model, Tokenizer.from_file(str(folder / "tokenizer.json"))
