"""Braid's engine with `activation_group: 32`: it rounds activations as openvino_genai and llama.cpp do."""

from __future__ import annotations

from typing import ClassVar

from tools.lab.bench import engine


class Engine(engine.Engine):
    """Activations are one int8 number each, 32 to a scale."""

    activation_group: ClassVar[int | None] = 32
