"""What lists say of a model: its size, its family, its context, and a digest that changes with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.wire.messages import ModelStatus
from server.apis.ollama.reply_models import ModelDetails

CONFIGS = ("config.json", "model/config.json")
TEXT = "text_config"
UNKNOWN = "unknown"
MAX_CONFIG_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`architecture` is the family by its name in GGUF files; `size` is that of all files, in bytes."""

    architecture: str
    max_context: int | None
    hidden_size: int | None
    num_layers: int | None
    num_heads: int | None
    size: int
    modified_at: str
    digest: str

    def details(self) -> ModelDetails:
        return ModelDetails(
            parent_model="",
            format="gguf",  # clients know no other
            family=self.architecture,
            families=[self.architecture],
            parameter_size="",
            quantization_level="",
            **{name: value for name, value in self._sizes().items() if value},
        )

    def _sizes(self) -> dict[str, Any]:
        return {"context_length": self.max_context, "embedding_length": self.hidden_size}

    def model_info(self, name: str) -> dict[str, Any]:
        """Names and values as those of a GGUF file; what is not known is left out."""
        own = {
            "context_length": self.max_context,
            "embedding_length": self.hidden_size,
            "block_count": self.num_layers,
            "attention.head_count": self.num_heads,
        }
        known = {f"{self.architecture}.{key}": value for key, value in own.items() if value}
        return {"general.architecture": self.architecture, "general.basename": name, **known}


def read_facts(status: ModelStatus, repository: Path) -> ModelFacts:
    """What is known of a model, from its files; reads the disk."""
    folder = _folder(repository, status.name)
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else [folder]
    stats = [(str(path), path.stat()) for path in files if path.exists()]
    config = _config(Path(status.snapshot)) if status.snapshot else {}
    named = "".join(f"{path}:{stat.st_size}:{stat.st_mtime_ns};" for path, stat in sorted(stats))
    newest = max((stat.st_mtime for _, stat in stats), default=0.0)
    return ModelFacts(
        architecture=str(config.get("model_type") or UNKNOWN).replace("_", "-"),
        max_context=status.max_context,
        hidden_size=_whole(config, "hidden_size", "d_model", "n_embd"),
        num_layers=_whole(config, "num_hidden_layers", "n_layer"),
        num_heads=_whole(config, "num_attention_heads", "n_head"),
        size=sum(stat.st_size for _, stat in stats),
        modified_at=datetime.fromtimestamp(newest, UTC).isoformat().replace("+00:00", "Z"),
        digest=hashlib.sha256(f"{status.name} {status.fingerprint} {named}".encode()).hexdigest(),
    )


def _folder(repository: Path, name: str) -> Path:
    """The folder or the file of a model: the repository itself where that is one model."""
    places = (repository / name, repository / f"{name}.gguf", repository)
    return next((place for place in places if place.exists()), repository)


def _config(snapshot: Path) -> dict[str, Any]:
    """The configuration that an exported folder has; of a model with images, its part about text."""
    for name in CONFIGS:
        path = snapshot / name
        if path.is_file() and path.stat().st_size < MAX_CONFIG_BYTES:
            config = json.loads(path.read_text())
            return (
                {**config.get(TEXT, {}), "model_type": config.get("model_type")} if TEXT in config else config
            )
    return {}


def _whole(config: dict[str, Any], *names: str) -> int | None:
    return next((config[name] for name in names if isinstance(config.get(name), int)), None)
