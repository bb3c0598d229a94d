"""Texts that are known beforehand, given token by token to a speculation node, on a machine made of numbers."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from pipelines.inference.contracts.step import Step, no_pairs
from pipelines.inference.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.step_context import StepContext

VOCAB_SIZE = 5000
BLOCK_TOKENS = 4


def step_of(
    speculation: SpeculationSlots,
    sampling: SamplingSlots,
    slots: list[int],
    room: int,
    extra: int = 0,
    columns: int = 64,
) -> StepContext:
    """One token each of `slots`, which may be followed by `room`; and `extra` tokens of a prompt in a last slot."""
    lengths = [len(speculation.token_ids[slot]) for slot in slots]
    num_past = np.array([length - 1 for length in lengths] + [0] * bool(extra), np.int32)
    new = np.array([1] * len(slots) + [extra] * bool(extra), np.int32)
    starts = np.concatenate([[0], np.cumsum(new)]).astype(np.int32)
    num_seqs = len(num_past)
    prompt = speculation.token_ids[len(speculation.token_ids) - 1][:extra].tolist() if extra else []
    of = [*slots, *([len(speculation.token_ids) - 1] if extra else [])]
    step = Step(
        token_ids=np.array([speculation.token_ids[slot][-1] for slot in slots] + prompt, np.int64),
        positions=np.arange(starts[-1]) + np.repeat(num_past - starts[:-1], new),
        starts=starts,
        num_past=num_past,
        block_table=np.array([np.arange(columns) + slot * columns for slot in of], np.int32),
        num_blocks=np.full(num_seqs, columns, np.int32),
        max_context=int((num_past + new).max()),
        logit_indices=np.arange(len(slots)),
        logit_slots=np.array(slots, np.int32),
        copies=no_pairs(),
        slots=np.array(of, np.int32),
        draft_budget=np.array([room] * len(slots) + [0] * bool(extra), np.int32),
    )
    return StepContext(step, sampling, speculation)


def rows_of(token_ids: list[list[int]]) -> SpeculationSlots:
    """A slot for each list, with an owner of its own."""
    speculation = SpeculationSlots(len(token_ids))
    for slot, ids in enumerate(token_ids):
        speculation.token_ids[slot] = array("q", ids)
        speculation.owner[slot] = slot + 1
    return speculation


def cpu_s(num_tokens: int) -> float:
    """Seconds of a step of a model of 0.6 billion weights on two cores."""
    sizes, took_ms = [1, 2, 4, 6, 8, 16, 32, 64, 512], [19.4, 19.6, 20.8, 22.3, 24, 41, 72, 126, 1000]
    return float(np.interp(num_tokens, sizes, took_ms)) / 1000


@dataclass
class Played:
    seconds: float = 0.0
    plain_s: float = 0.0  # had there been no draft tokens
    num_drafted: int = 0
    num_accepted: int = 0

    @property
    def speedup(self) -> float:
        return self.plain_s / self.seconds


def play(
    draft_token: Callable[[StepContext], StepContext],
    texts: list[tuple[list[int], list[int]]],
    random: Random,
    room: int = 5,
    draft_s: Callable[[], float] = lambda: 0.0,
) -> Played:
    """All texts (prompt, output) to their ends, decoded side by side.

    What a step takes is told to the cost with noise, with disturbances, and with what a new shape takes;
    `draft_s` are the seconds that the draft tokens of a step took.
    """
    speculation = rows_of([prompt + output[:1] for prompt, output in texts])
    sampling = SamplingSlots(len(texts), VOCAB_SIZE)
    played, shapes = Played(), set()
    live = list(range(len(texts)))
    while live:
        is_due = speculation.is_due()
        step = draft_token(step_of(speculation, sampling, live, room if is_due else 0)).step
        took_s = cpu_s(step.num_tokens) * random.lognormvariate(0, 0.03)
        drafted_s = draft_s()
        odd_s = 0.1 if random.random() < 0.01 else 0.0
        if step.num_tokens not in shapes:
            shapes.add(step.num_tokens)
            odd_s += random.uniform(0.01, 0.3)
        if is_due:
            speculation.cost.exclude(drafted_s)
            speculation.cost.learn(step.num_tokens, took_s + drafted_s + odd_s)
        played.seconds += took_s + drafted_s
        for seq, slot in enumerate(live):
            come(
                played,
                step.token_ids[step.starts[seq] + 1 : step.starts[seq + 1]].tolist(),
                speculation,
                texts,
                slot,
            )
        live = [
            slot
            for slot in live
            if len(speculation.token_ids[slot]) < len(texts[slot][0]) + len(texts[slot][1])
        ]
    longest = max(len(output) for _, output in texts)
    for at in range(1, longest):
        played.plain_s += cpu_s(sum(len(output) > at for _, output in texts))
    return played


def come(
    played: Played,
    draft_tokens: list[int],
    speculation: SpeculationSlots,
    texts: list[tuple[list[int], list[int]]],
    slot: int,
) -> None:
    """The slot's text grows by the accepted draft tokens and the token after them."""
    prompt, output = texts[slot]
    at = len(speculation.token_ids[slot]) - len(prompt)
    accepted = 0
    while accepted < len(draft_tokens) and output[at + accepted : at + accepted + 1] == [
        draft_tokens[accepted]
    ]:
        accepted += 1
    speculation.token_ids[slot].extend(output[at : at + accepted + 1])
    played.num_drafted += len(draft_tokens)
    played.num_accepted += accepted


def random_text(random: Random, num_tokens: int) -> tuple[list[int], list[int]]:
    """Tokens as uneven as words are, in no order."""
    ids = [int(min(VOCAB_SIZE - 1, random.paretovariate(0.7))) for _ in range(300 + num_tokens)]
    return ids[:300], ids[300:]


def copied_text(random: Random, num_tokens: int) -> tuple[list[int], list[int]]:
    """An output of passages of the prompt, with a few other tokens between them."""
    prompt = [random.randrange(VOCAB_SIZE) for _ in range(500)]
    output: list[int] = []
    while len(output) < num_tokens:
        begin = random.randrange(400)
        output += prompt[begin : begin + random.randrange(20, 80)]
        output += [random.randrange(VOCAB_SIZE) for _ in range(random.randrange(1, 5))]
    return prompt, output[:num_tokens]
