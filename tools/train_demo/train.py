"""Trains the demo model from scratch on a few processor cores.

Only what the assistant writes is learned.

Each core is a process of its own with one thread, and the processes meet once a step to add up their
gradients. Threads would meet at every small operation, which is slow on a machine that others use.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tokenizers import Tokenizer
from torch import distributed
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM

from .conversation import Conversation
from .corpus import groups
from .muon import Muon
from .rendering import prompt_of, reply_of
from .rows import IGNORED, Row, batches, inputs_of, make_rows
from .start_weights import load_start
from .tokenizer import PAD, TURN_END, save_tokenizer, train_tokenizer, with_spaces_apart

MAX_TOKENS = 2048
VOCABULARY_SIZE = 2048
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
    compiled: bool = False  # faster steps after a minute or two of compiling, which needs a C++ compiler


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
    corpus = list(_groups(plan.seed, plan.num_conversations))
    if plan.start_from is None:
        texts = (_text_of(item) for group in corpus[:30_000] for item in group)
        tokenizer = train_tokenizer(texts, VOCABULARY_SIZE)
    else:
        tokenizer = with_spaces_apart(Tokenizer.from_file(str(plan.start_from / "tokenizer.json")))
    save_tokenizer(tokenizer, folder, MAX_TOKENS)
    rows = make_rows(tokenizer, corpus)
    (folder / MEETING).unlink(missing_ok=True)
    torch.multiprocessing.start_processes(
        _work, args=(plan, rows, folder), nprocs=plan.num_processes, start_method="fork"
    )


def _groups(seed: int, num_conversations: int) -> Iterator[list[Conversation]]:
    """About as many conversations, in the groups that share their beginning."""
    for group in groups(seed):
        yield group
        num_conversations -= len(group)
        if num_conversations <= 0:
            return


def _text_of(conversation: Conversation) -> str:
    return prompt_of(conversation) + reply_of(conversation)


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
        if plan.compiled:
            _compile(self.model)
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
        inputs, targets = inputs_of(batch)
        learned = targets != IGNORED
        with torch.autocast("cpu", torch.bfloat16, enabled=FAST_BFLOAT16):
            hidden = self.model.model(**inputs, use_cache=False).last_hidden_state
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


def _compile(model: Qwen3ForCausalLM) -> None:
    """Layers as compiled functions of any length, with a mask and without one."""
    torch._dynamo.config.recompile_limit = 64
    for layer in model.model.layers:
        layer.compile(dynamic=True)


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
