"""Adapters of a torch model: what they add, what stays as it is, and files that Braid reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pipelines.adapters.read_adapter import adapter_folders, read_adapter
from pipelines.adapters.weights import ProductShape
from tools.train_demo.adapters.lessons import LESSONS
from tools.train_demo.adapters.low_rank import adapt, save_adapter
from tools.train_demo.adapters.training import train
from tools.train_demo.generation import ADAPTERS, HOME

MAX_BYTES = 200_000


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down_proj, self.up_proj = nn.Linear(6, 4, bias=False), nn.Linear(4, 6, bias=False)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])


def test_an_adapter_is_a_sum_that_braid_reads(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = Layers()
    adapted = adapt(model, ("down_proj",), rank=2, alpha=8)
    assert sorted(adapted) == ["layers.0.down_proj", "layers.1.down_proj"]
    assert {name for name, weight in model.named_parameters() if weight.requires_grad} == {
        f"{name}.lora_{side}" for name in adapted for side in "AB"
    }
    one, rows = adapted["layers.1.down_proj"], torch.randn(3, 6)
    assert torch.equal(one(rows), one.product(rows)), "an adapter begins as nothing"
    nn.init.normal_(one.lora_B)
    save_adapter(adapted, tmp_path, "a-model")
    products = {name: ProductShape(6, 4) for name in adapted}
    read = read_adapter(tmp_path, products, max_rank=2).products["layers.1.down_proj"]
    added = (one(rows) - one.product(rows)).detach().numpy()
    np.testing.assert_allclose(rows.numpy() @ read.a.T @ read.b.T, added, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", LESSONS)
def test_a_committed_adapter_is_of_its_lesson_and_small(name: str) -> None:
    lesson, folder = LESSONS[name], ADAPTERS / name
    products = {
        f"layers.{number}.mlp.{target}": ProductShape(448, 192)
        for number in range(4)
        for target in lesson.targets
    }
    read = read_adapter(folder, products, lesson.rank)
    assert (read.products.keys(), read.rank) == (products.keys(), lesson.rank)
    assert sum(file.stat().st_size for file in folder.iterdir()) < MAX_BYTES


def test_every_committed_adapter_has_a_lesson() -> None:
    assert [folder.name for folder in adapter_folders(ADAPTERS)] == sorted(LESSONS)


def test_training_lowers_the_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.train_demo.adapters.training.NUM_GROUPS", 60)
    lesson = replace(LESSONS["french"], batch_tokens=256)
    lines = train(lesson, HOME / "model", tmp_path / "french", steps=10)
    losses = [float(line.split()[-1]) for line in lines]
    assert losses[-1] < 0.9 * losses[0]
    assert (tmp_path / "french" / "adapter_model.safetensors").exists()
