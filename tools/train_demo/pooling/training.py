"""One run of training on one processor core: steps, learning rate, optimizers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

PEAK_RATE = 3e-3
WARMUP_SHARE = 0.05
SMOOTHING = 0.02
TOLD_EVERY = 50


@dataclass(frozen=True)
class Plan:
    """`steps` updates from a `seed`; the same seed gives the same model on the same machine."""

    steps: int
    seed: int = 1


def run(plan: Plan, model: nn.Module, loss_of: Callable[[], Tensor]) -> float:
    """Trains the model with the loss `loss_of` of each batch; returns the minutes that it took."""
    torch.set_num_threads(1)
    optimizers, started_s, smooth = _optimizers(model), time.monotonic(), 0.0
    rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    model.train()
    with Progress(*columns) as bar:
        task = bar.add_task("training", total=plan.steps)
        for step in range(plan.steps):
            for optimizer, peaks in zip(optimizers, rates, strict=True):
                for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                    group["lr"] = peak * rate_share(step / plan.steps)
            loss = _step(model, optimizers, loss_of)
            smooth += (loss - smooth) * max(SMOOTHING, 1 / (step + 1))
            bar.update(task, advance=1, description=f"loss {smooth:.3f}")
            if step % TOLD_EVERY == TOLD_EVERY - 1:
                bar.console.print(f"step {step + 1}: loss {smooth:.4f}")
    model.eval()
    return (time.monotonic() - started_s) / 60


def _step(model: nn.Module, optimizers: list[torch.optim.Optimizer], loss_of: Callable[[], Tensor]) -> float:
    loss = loss_of()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def rate_share(progress: float) -> float:
    """The learning rate as a share of its peak: a short rise, then a cosine down to zero."""
    if progress < WARMUP_SHARE:
        return progress / WARMUP_SHARE + 1e-3
    return 0.5 + 0.5 * math.cos(math.pi * (progress - WARMUP_SHARE) / (1 - WARMUP_SHARE))


def _optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al., 2024) for the matrices of the layers, AdamW for the rest."""
    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    matrices = [weight for name, weight in named if weight.ndim == 2 and ".layer." in name]
    chosen = {id(weight) for weight in matrices}
    others = [weight for _, weight in named if id(weight) not in chosen]
    return [
        torch.optim.Muon(matrices, PEAK_RATE, weight_decay=0.05, ns_steps=4, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
    ]
