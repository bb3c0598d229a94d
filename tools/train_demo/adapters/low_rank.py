"""Low-rank adapters of a torch model, and their two files in the form of PEFT's `save_pretrained`.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021: y = W·x + scale · B·(A·x).
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

PREFIX = "base_model.model."
"""What PEFT writes before the names of a model's modules."""


class LowRank(nn.Module):
    """A product whose weights stay as they are, and what an adapter adds to it."""

    def __init__(self, product: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.product, self.scale = product, alpha / rank
        self.lora_A = nn.Parameter(torch.empty(rank, product.in_features))
        self.lora_B = nn.Parameter(torch.zeros(product.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, rows: Tensor) -> Tensor:
        added: Tensor = (rows @ self.lora_A.T) @ self.lora_B.T
        return self.product(rows) + self.scale * added


def adapt(model: nn.Module, targets: tuple[str, ...], rank: int, alpha: float) -> dict[str, LowRank]:
    """Put an adapter behind each product that `targets` names, as q_proj; nothing else is trained any more.

    Returns the adapted products by their names.
    """
    model.requires_grad_(False)
    adapted = {}
    for name, module in list(model.named_modules()):
        parent, _, last = name.rpartition(".")
        if last in targets and isinstance(module, nn.Linear):
            adapted[name] = LowRank(module, rank, alpha)
            setattr(model.get_submodule(parent), last, adapted[name])
    return adapted


def save_adapter(adapted: dict[str, LowRank], folder: Path, base: str) -> None:
    """Write adapter_config.json and adapter_model.safetensors, in float16; `base` is the model's name."""
    folder.mkdir(parents=True, exist_ok=True)
    one = next(iter(adapted.values()))
    rank = len(one.lora_A)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": round(one.scale * rank),
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({name.rpartition(".")[2] for name in adapted}),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = {
        f"{PREFIX}{name}.{side}.weight": getattr(each, side).detach().to(torch.float16).contiguous()
        for name, each in adapted.items()
        for side in ("lora_A", "lora_B")
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
