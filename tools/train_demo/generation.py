"""Generates greedy replies to prompts, with a model in training or with the exported one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from pipelines.host.engine.engine_contract import GenerationRequest
from pipelines.host.engine.generation_engine import EngineSettings, GenerationEngine
from pipelines.host.engine.step_context import Logits
from pipelines.host.sampling.stages import sample
from pipelines.nodes.generation.body.model import Model, open_session
from pipelines.wire.sampling_params import SamplingParams

from .tokenizer import PAD, TURN_END

MAX_NEW_TOKENS = 160
GROUP = 32  # prompts per batch
SEQUENCES, STEP_TOKENS, NUM_BLOCKS = 64, 1024, 2048


@torch.inference_mode()
def ask_torch(model: Any, tokenizer: Tokenizer, prompts: list[str]) -> list[str]:
    """One reply per prompt; prompts of similar length form a batch, padded on the left."""
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


class Exported:
    """The exported model in Braid's own engine, all prompts in one continuous batch."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._session = open_session(folder / "model.onnx", Model.Config(path="model.onnx"))
        self._session.reserve(STEP_TOKENS, SEQUENCES)
        self._session.allocate(NUM_BLOCKS)

    def ask(self, prompts: list[str]) -> list[str]:
        """One reply per prompt."""
        engine = self._engine()
        params = SamplingParams(max_tokens=MAX_NEW_TOKENS, temperature=0.0)
        for number, prompt in enumerate(prompts):
            ids = self.tokenizer.encode(prompt, add_special_tokens=False).ids
            engine.submit(number, GenerationRequest([ids], params))
        written: list[list[int]] = [[] for _ in prompts]
        while engine.has_work:
            for output in engine.step():
                written[int(str(output.key))] += output.piece.token_ids
        return [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in written]

    def _engine(self) -> GenerationEngine:
        session = self._session
        return GenerationEngine(
            body=lambda context: sample(Logits(session.run(context.step), context, session.ops)),
            settings=EngineSettings(SEQUENCES, STEP_TOKENS),
            num_blocks=NUM_BLOCKS,
            block_tokens=session.block_tokens,
            vocab_size=session.vocab_size,
            max_context=session.max_context,
            eos_token_ids=frozenset([self.tokenizer.token_to_id(TURN_END)]),
        )
