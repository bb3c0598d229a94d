"""Trains an adapter of the exported demo model, whose own weights stay as they are served.

One process with one thread; only what the assistant writes is learned.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch.nn import functional

from ..generation import NAME
from ..rows import IGNORED, batches, inputs_of, make_rows
from ..start_weights import load_start
from ..train import FAST_BFLOAT16, SMOOTHING, rate_share
from .lessons import Lesson
from .low_rank import adapt, save_adapter

NUM_GROUPS = 8_000
"""Of conversations in the corpus of an adapter."""
NUM_SHOWN = 10
"""How often a run says how far it has come."""


def train(lesson: Lesson, model: Path, folder: Path, steps: int | None = None) -> Iterator[str]:
    """Trains into `folder`, from the exported `model`; says now and then how far it has come."""
    steps = steps or lesson.steps
    torch.set_num_threads(1)
    torch.manual_seed(lesson.seed)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    rows = make_rows(tokenizer, islice(lesson.groups(lesson.seed), NUM_GROUPS))
    network = load_start(model).train()
    adapted = adapt(network, lesson.targets, lesson.rank, alpha=2 * lesson.rank)
    weights = list(chain.from_iterable((each.lora_A, each.lora_B) for each in adapted.values()))
    optimizer = torch.optim.AdamW(weights, betas=(0.9, 0.98), weight_decay=0.0)
    smooth = 0.0
    for number, batch in enumerate(islice(batches(rows, lesson.batch_tokens, lesson.seed), steps), 1):
        optimizer.param_groups[0]["lr"] = lesson.peak_rate * rate_share(number / steps)
        inputs, targets = inputs_of(batch)
        learned = targets != IGNORED
        with torch.autocast("cpu", torch.bfloat16, enabled=FAST_BFLOAT16):
            hidden = network.model(**inputs, use_cache=False).last_hidden_state
            logits = network.lm_head(hidden[learned])
        loss = functional.cross_entropy(logits.float(), targets[learned])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        smooth += (loss.item() - smooth) * max(SMOOTHING, 1 / number)
        if number * NUM_SHOWN % steps < NUM_SHOWN:
            yield f"step {number}: loss {smooth:.4f}"
    save_adapter(adapted, folder, NAME)
