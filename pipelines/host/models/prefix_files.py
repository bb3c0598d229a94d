"""Which engines have a file of prefixes, where it is, and what its blocks depend on.

CACHE/prefixes/0/NAME-1f0c…     one for each engine node of a model; 0 is the engine host's number
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from graphs.graph import Binding
from pipelines.base.cache_folder import default_cache
from pipelines.base.code_digest import code_digest
from pipelines.base.digests import digest
from pipelines.host.models.body import LiveBody
from pipelines.host.models.passed_models import folder_digest
from pipelines.inference.engine.generation_engine import GenerationEngine
from pipelines.inference.engine.kv_cache.cache_size import GIB
from pipelines.inference.engine.kv_cache.prefix_file.prefix_file import PrefixFile
from pipelines.inference.engine.kv_cache.prefix_file.slot_file import (
    SlotFile,
    read_facts,
    remove_file,
    slots_within,
)
from pipelines.inference.engine.kv_cache.stored_prefixes import MIN_TOKENS
from pipelines.inference.engine.sequences.policy import blocks_for
from pipelines.nodes.body_interface import HasDecoder
from pipelines.nodes.generation.scheduler import CacheConfig, Scheduler
from pipelines.repository.model_folders import ModelFolder

if TYPE_CHECKING:
    from pipelines.inference.contracts.decoder_contract import DecoderSession

log = logging.getLogger("braid.host")

FACTS = (
    "engine",
    "device",
    "precision",
    "activation_group",
    "linear_layers",
    "sparse_prefill",
    "kv_cache",
    "block_tokens",
)
"""The facts that a session says of itself and that its blocks depend on."""
COMPUTES = (
    "pipelines.inference.backends",
    "pipelines.inference.contracts",
    "pipelines.onnx_format",
    "pipelines.adapters",
    "pipelines.gguf",
    "pipelines.inference.engine.kv_cache.adapter_keys",
    "pipelines.inference.engine.kv_cache.prefix_digests",
    "ops",
)
"""Modules that decide what is in a block, and by which digest it is found."""


@dataclass(frozen=True)
class PrefixFiles:
    """The files of one engine host.  `default_gb`: of engines whose graph does not say; 0: none."""

    folder: Path
    default_gb: float = 0

    @classmethod
    def of(cls, cache_folder: Path | None, default_gb: float, engine: str = "0") -> PrefixFiles:
        """`cache_folder`: None is the user's own; `engine` is the number of the engine host."""
        return cls((cache_folder or default_cache()) / "prefixes" / engine, default_gb)

    def give(self, engine: GenerationEngine, body: LiveBody, model: ModelFolder, line: Binding) -> None:
        """Let an engine have its file, where the graph or the server wants one.

        Raises ValueError where the graph wants one that the model cannot have.
        """
        config = _cache_config(line)
        wanted_gb = self.default_gb if config.prefix_file_gb is None else config.prefix_file_gb
        if not wanted_gb:
            return
        problem = why_without(body.sessions, config) or _too_small(wanted_gb, body.sessions[-1])
        if problem and config.prefix_file_gb is not None:
            raise ValueError(f"cache.prefix_file_gb: {problem}")
        if problem:
            log.warning("%s: no prefixes are stored: %s", model.name, problem)
            return
        session, path = body.sessions[-1], self._path(model, line)
        facts = _facts(model, line, body)
        self._sweep()
        opened = partial(SlotFile, path, facts, session.shape.block_bytes, int(wanted_gb * GIB))
        engine.store_prefixes(PrefixFile(opened, model.name), session)

    def _path(self, model: ModelFolder, line: Binding) -> Path:
        place = digest(f"{model.path.resolve()}\0{line.name}", num_bytes=8)
        return self.folder / f"{model.name.replace('/', '_')}-{place}"

    def _sweep(self) -> None:
        """Remove the files of models that are gone."""
        try:
            for path in self.folder.glob("*"):
                model = read_facts(path).get("model")
                if model and not Path(model).exists():
                    remove_file(path)
        except OSError as error:
            log.warning("%s: files of models that are gone stay: %s", self.folder, error)


def why_without(sessions: list[DecoderSession], config: CacheConfig) -> str:
    """Why a model's prefixes cannot be stored; "" where they can."""
    session = sessions[-1]
    if not config.reuse_prefixes:
        return "reuse_prefixes is false"
    if len(sessions) > 1:
        return "the draft model has a cache of its own, which is not stored"
    if session.shape.state_bytes:
        return "this model keeps recurrent states, which are not stored"
    if session.shape.encoder_hidden_size:
        return "this model attends to the states of an encoder, which are not stored"
    return ""


def _cache_config(line: Binding) -> CacheConfig:
    assert isinstance(line.config, Scheduler.Config), "only schedulers start engines that step"
    return line.config.cache


def _too_small(wanted_gb: float, session: DecoderSession) -> str:
    """Why a file of this size is of no use; "" where it is."""
    num_blocks = blocks_for(MIN_TOKENS, session.shape.block_tokens)
    if slots_within(int(wanted_gb * GIB), session.shape.block_bytes) >= num_blocks:
        return ""
    needed = num_blocks * session.shape.block_bytes / GIB
    return f"prefixes of {MIN_TOKENS} tokens take {needed:.2g} GiB, the file may have {wanted_gb:g}"


def _facts(model: ModelFolder, line: Binding, body: LiveBody) -> dict[str, str]:
    """What the blocks of an engine depend on.  Blocks of adapters have names of their own."""
    said = body.sessions[-1].describe()
    return {
        "model": str(model.path.resolve()),
        "files": " ".join(_decoder_files(model, body)),
        "code": code_digest(*COMPUTES),
        "machine": platform.machine(),
        **{name: said.get(name, "") for name in FACTS},
    }


def _decoder_files(model: ModelFolder, body: LiveBody) -> Iterator[str]:
    """The digest of the folder of each decoder's file."""
    for binding, live in zip(body.bindings, body.lines, strict=True):
        if isinstance(live.node, HasDecoder):
            path = Path(getattr(binding.config, "path", ""))
            yield f"{path.name}={folder_digest((model.path / path).parent)}"
