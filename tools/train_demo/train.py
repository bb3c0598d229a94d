"""Trains the demo model from scratch on a few processor cores.

Only what the assistant writes is learned. Rows hold one conversation each and are sorted by length
into batches, so there is little padding and no mask: padding is on the right.

Each core is a process of its own with one thread, and the processes meet once a step to add up their
gradients. Threads would meet at every small operation, which is slow on a machine that others use.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tokenizers import Tokenizer
from torch import Tensor, distributed
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM

from .conversation import Conversation
from .corpus import conversations
from .muon import Muon
from .rendering import prompt_of, reply_of
from .start_weights import load_start
from .tokenizer import PAD, TURN_END, TURN_START, save_tokenizer, train_tokenizer

MAX_TOKENS = 2048
VOCABULARY_SIZE = 2048
IGNORED = -100
MEETING = "meeting"  # the file for the rendezvous of the processes
SAVES = 20  # how often the model is written during a run
FAST_BFLOAT16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
SMOOTHING = 0.01  # the share of one step in the loss that is shown
WARMUP_SHARE = 0.02
DECAY_SHARE = 0.6


@dataclass(frozen=True)
class Plan:
    """The size of a run. Every process sees about `batch_tokens` tokens a step.

    A run ends after `steps` steps or `minutes` minutes, whichever comes first; the learning rate
    follows the one that is nearer, so that it has come down by then.
    """

    steps: int = 8000
    minutes: float = 60.0
    seed: int = 1
    num_conversations: int = 60_000
    batch_tokens: int = 1536
    num_processes: int = 2
    start_from: Path | None = None  # a trained folder, whose tokenizer and weights are the start
    peak_rate: float = 2.5e-3


@dataclass(frozen=True)
class Row:
    """One conversation: `labels[i]` is `token_ids[i]` for learned tokens, else IGNORED.

    Both are int16[num_tokens].
    """

    token_ids: np.ndarray
    labels: np.ndarray


def new_model(seed: int, tokenizer: Tokenizer) -> Qwen3ForCausalLM:
    """Almost two million weights in Qwen3's architecture, with tied embeddings."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY_SIZE,
            hidden_size=192,
            intermediate_size=448,
            num_hidden_layers=4,
            num_attention_heads=6,
            num_key_value_heads=3,
            head_dim=32,
            max_position_embeddings=MAX_TOKENS,
            initializer_range=0.05,
            rope_theta=10_000.0,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.token_to_id(TURN_END),
            pad_token_id=tokenizer.token_to_id(PAD),
        )
    )


def train(plan: Plan, folder: Path) -> None:
    """Trains into `folder`: tokenizer, config, and weights, which are saved many times during a run."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = list(conversations(plan.seed, plan.num_conversations))
    if plan.start_from is None:
        tokenizer = train_tokenizer(map(_text_of, corpus[:40_000]), VOCABULARY_SIZE)
    else:
        tokenizer = Tokenizer.from_file(str(plan.start_from / "tokenizer.json"))
    save_tokenizer(tokenizer, folder, MAX_TOKENS)
    rows = make_rows(tokenizer, corpus)
    (folder / MEETING).unlink(missing_ok=True)
    torch.multiprocessing.start_processes(
        _work, args=(plan, rows, folder), nprocs=plan.num_processes, start_method="fork"
    )


def _work(rank: int, plan: Plan, rows: list[Row], folder: Path) -> None:
    """One process of the run; the first one also shows progress and saves."""
    torch.set_num_threads(1)
    meeting = folder.resolve() / MEETING
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=plan.num_processes)
    run = _Run(plan, rank, rows, folder)
    if rank == 0:
        _follow(run)
    else:
        for _ in run.steps():
            pass
    distributed.destroy_process_group()


def _follow(run: _Run) -> None:
    """Runs the first process's part under a progress bar, with a line now and then."""
    num_saves = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("training", total=run.plan.steps)
        for step in run.steps():
            done = step.progress * run.plan.steps
            bar.update(task, completed=done, description=f"loss {step.loss:.3f}")
            if step.progress * SAVES < num_saves + 1:
                continue
            num_saves += 1
            run.model.save_pretrained(run.folder)
            bar.console.print(f"step {step.number}, {run.minutes():.1f} minutes: loss {step.loss:.4f}")


def make_rows(tokenizer: Tokenizer, corpus: list[Conversation]) -> list[Row]:
    """Tokens and labels of every conversation."""
    prompts = tokenizer.encode_batch_fast([prompt_of(item) for item in corpus], add_special_tokens=False)
    replies = tokenizer.encode_batch_fast([reply_of(item) for item in corpus], add_special_tokens=False)
    opening = tokenizer.encode(f"{TURN_START}assistant\n").ids
    end = tokenizer.token_to_id(TURN_END)
    return [
        Row(
            np.array(prompt.ids + reply.ids, dtype=np.int16),
            np.array(_earlier_labels(prompt.ids, opening, end) + reply.ids, dtype=np.int16),
        )
        for prompt, reply in zip(prompts, replies, strict=True)
    ]


def _earlier_labels(token_ids: list[int], opening: list[int], end: int) -> list[int]:
    """Labels for the assistant's earlier turns within a prompt.

    The first token of such a turn is not learned: history is written without a thought, so what
    follows the opening there differs from what follows it at inference.
    """
    labels = [IGNORED] * len(token_ids)
    for start in range(len(token_ids) - len(opening)):
        if token_ids[start : start + len(opening)] != opening or end not in token_ids[start:]:
            continue
        stop = token_ids.index(end, start) + 1
        first = start + len(opening) + 1
        labels[first:stop] = token_ids[first:stop]
    return labels


def batches(rows: list[Row], max_tokens: int, seed: int) -> Iterator[list[Row]]:
    """An endless stream of batches of at most `max_tokens` padded tokens, with similar lengths per batch."""
    chooser = random.Random(seed)
    while True:
        order = sorted(rows, key=lambda row: len(row.token_ids) + 8 * chooser.random())
        groups: list[list[Row]] = [[]]
        for row in order:
            if groups[-1] and (len(groups[-1]) + 1) * len(row.token_ids) > max_tokens:
                groups.append([])
            groups[-1].append(row)
        chooser.shuffle(groups)
        yield from groups


def _text_of(conversation: Conversation) -> str:
    return prompt_of(conversation) + reply_of(conversation)


def _padded(sequences: list[np.ndarray], fill: int) -> Tensor:
    """int64[num_sequences, longest], filled to the right."""
    padded = np.full((len(sequences), max(map(len, sequences))), fill, dtype=np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(padded)


@dataclass(frozen=True)
class Step:
    """A finished update; `progress` grows from 0 to 1, `loss` is per learned token, smoothed."""

    number: int
    progress: float
    loss: float


class _Run:
    """One process's part of a run: its model, optimizer and share of the rows.

    The models of all processes are equal after every step: same start, same summed gradients.
    """

    def __init__(self, plan: Plan, rank: int, rows: list[Row], folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.model = new_model(plan.seed, self.tokenizer)
        if plan.start_from is not None:
            self.model = load_start(plan.start_from).train()
        self.parameters = list(self.model.parameters())
        self.data = batches(rows[rank :: plan.num_processes], plan.batch_tokens, plan.seed + rank)
        self.optimizers = _optimizers(self.model)
        self.started_s = time.monotonic()

    def minutes(self) -> float:
        return (time.monotonic() - self.started_s) / 60

    def steps(self) -> Iterator[Step]:
        """Trains until the plan is fulfilled."""
        number, progress, smooth = 0, 0.0, 0.0
        while progress < 1.0:
            number += 1
            mine = max(number / self.plan.steps, self.minutes() / self.plan.minutes)
            loss_sum, num_learned = self._backward(next(self.data))
            loss_sum, num_learned, shares = self._add_up([loss_sum, num_learned, mine])
            progress = shares / self.plan.num_processes
            self._update(self.plan.peak_rate * rate_share(progress), num_learned)
            smooth += (loss_sum / num_learned - smooth) * max(SMOOTHING, 1 / number)
            yield Step(number, progress, smooth)

    def _backward(self, batch: list[Row]) -> tuple[float, float]:
        """Adds to the gradients; returns the summed loss and the number of learned tokens.

        The head runs only on learned positions; other logits are not needed.
        """
        token_ids = _padded([row.token_ids for row in batch], 0)[:, :-1]
        targets = _padded([row.labels for row in batch], IGNORED)[:, 1:]
        learned = targets != IGNORED
        with torch.autocast("cpu", torch.bfloat16, enabled=FAST_BFLOAT16):
            hidden = self.model.model(input_ids=token_ids, use_cache=False).last_hidden_state
            logits = self.model.lm_head(hidden[learned])
        loss = functional.cross_entropy(logits.float(), targets[learned], reduction="sum")
        loss.backward()
        return loss.item(), float(learned.sum())

    def _add_up(self, numbers: list[float]) -> list[float]:
        """Replaces gradients and `numbers` by their sums over all processes."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        packed = torch.cat([torch.tensor(numbers), *(gradient.flatten() for gradient in gradients)])
        distributed.all_reduce(packed)
        sizes = [len(numbers), *(gradient.numel() for gradient in gradients)]
        sums, *parts = packed.split(sizes)
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
        return [float(value) for value in sums]

    def _update(self, rate: float, num_learned: float) -> None:
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad /= num_learned
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)


def _optimizers(model: Qwen3ForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and norms."""
    matrices = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
    chosen = {id(weight) for weight in matrices}
    others = [weight for weight in model.parameters() if id(weight) not in chosen]
    return [
        Muon(matrices, weight_decay=0.05),
        torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
    ]


def rate_share(progress: float) -> float:
    """The learning rate as a share of its peak: a short rise, a plateau, a cosine down to zero."""
    if progress < WARMUP_SHARE:
        return (progress + 1e-4) / WARMUP_SHARE
    if progress < 1 - DECAY_SHARE:
        return 1.0
    return 0.5 + 0.5 * math.cos(math.pi * (progress - 1 + DECAY_SHARE) / DECAY_SHARE)
