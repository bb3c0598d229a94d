"""The setting `adapters` of a line that runs a model: low-rank adapters that are served beside it."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from graphs.node import FolderPath, NodeConfig
from pipelines.adapters.read_adapter import adapter_folders, adapter_targets


class AdaptersConfig(NodeConfig):
    """Low-rank adapters (LoRA) of the model, each in a folder as PEFT writes it."""

    folder: FolderPath = Field(description="a folder of adapters' folders; each is a model of its own name")
    max_loaded: int = Field(default=8, ge=1, le=256, description="adapters in memory; more take turns")
    max_rank: int = Field(default=64, ge=1, le=512, description="the largest rank of one")
    targets: tuple[str, ...] = Field(
        default=(),
        description="what adapters may change, as q_proj, lm_head; default: what those in the folder do, or "
        "all in layers",
    )

    def found_targets(self, folder: Path) -> tuple[str, ...]:
        """What the adapters below `folder` change."""
        return tuple(sorted(adapter_targets(adapter_folders(folder / self.folder))))
