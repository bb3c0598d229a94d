"""The setting `adapters` of a line that runs a model: low-rank adapters that are served beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from graphs.node import FolderPath, NodeConfig
from pipelines.adapters.read_adapter import adapter_folders, adapter_targets
from pipelines.host.backends.device_errors import NothingToAdapt

Session = TypeVar("Session")


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

    def opened(self, folder: Path, open_with: Callable[[tuple[str, ...]], Session]) -> Session:
        """What `open_with` opens for targets: where none are set, for those of the adapters below `folder`.

        Where these change nothing that the model can have changed, as ends on a GPU, it is opened for all
        products, and they are refused one by one.
        """
        found = self.targets or tuple(sorted(adapter_targets(adapter_folders(folder / self.folder))))
        try:
            return open_with(found)
        except NothingToAdapt:
            if self.targets or not found:
                raise
            return open_with(())
