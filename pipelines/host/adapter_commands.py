"""Adapters come and go: looks of the loader, and clients that load or unload one by hand."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.adapters.adapter_config import CONFIG
from pipelines.base.errors import BraidError, NotFound, RequestError
from pipelines.host.adapters.adapter_discovery import AdapterFit, AdaptersFound, FoundAdapter, found_adapter
from pipelines.host.adapters.registry import MAX_BY_HAND, AdapterRegistry
from pipelines.host.models.in_flight import Key
from pipelines.host.models.instances import ModelInstances
from pipelines.wire.listener import Inbox, Peer
from pipelines.wire.messages import LoadAdapter, UnloadAdapter

log = logging.getLogger("braid.host")

MAX_NAME_CHARS = 200


@dataclass(frozen=True)
class FolderRead:
    """What a client wants to load was read; an error where it cannot be used."""

    key: Key
    message: LoadAdapter
    model: str
    found: FoundAdapter | BraidError


class AdapterCommands:
    """Belongs to the host's main thread.  `changed` is called when the adapters of a model have."""

    def __init__(
        self,
        registry: AdapterRegistry,
        instances: ModelInstances,
        inbox: Inbox,
        threads: Executor,
        changed: Callable[[], None],
        settle: Callable[[Key, BraidError | None], None],
    ) -> None:
        """`settle` answers a client when every worker knows what has changed."""
        self._registry = registry
        self._instances = instances
        self._inbox = inbox
        self._threads = threads
        self._changed = changed
        self._settle = settle
        self.readers: dict[type, Callable[[Peer, Any], None]] = {
            AdaptersFound: self._found,
            LoadAdapter: self._load,
            FolderRead: self._folder_read,
            UnloadAdapter: self._unload,
        }

    def _found(self, peer: Peer, event: AdaptersFound) -> None:
        if self._registry.found(event):
            self._changed()

    def _load(self, peer: Peer, message: LoadAdapter) -> None:
        key = (peer, message.request_id)
        try:
            self._check_new(message)
            model = self._base(message)
            instance = self._instances.current(model)
            fit = instance.model.adapter_fit if instance else None
            self._threads.submit(self._read, key, message, model, self._registry.folders[model], fit)
        except BraidError as error:
            self._settle(key, error)

    def _base(self, message: LoadAdapter) -> str:
        """The model that an adapter is loaded for.  Raises RequestError."""
        folders = self._registry.folders
        if message.model in folders:
            return message.model
        if message.model is not None or not folders:
            which = f"The model `{message.model}`" if message.model else "No model"
            raise RequestError(f"{which} has adapters: its graph has no `adapters` setting")
        holding = [name for name, folder in folders.items() if _below(folder, message.path) is not None]
        if len(folders) > 1 and len(holding) != 1:
            names = ", ".join(sorted(folders))
            raise RequestError(f"several models have adapters: set 'base_model_name' to one of {names}")
        return holding[0] if holding else next(iter(folders))

    def _check_new(self, message: LoadAdapter) -> None:
        if not message.name.isprintable() or len(message.name) > MAX_NAME_CHARS or "," in message.name:
            raise RequestError(
                f"'lora_name' has at most {MAX_NAME_CHARS} printable characters, and no comma among them"
            )
        if self._registry.is_full and not self._registry.holding(message.name):
            raise RequestError(f"clients have loaded {MAX_BY_HAND} adapters already; unload one first")
        if self._registry.holding(message.name) and not message.in_place:
            raise RequestError(
                f"The lora adapter '{message.name}' has already been loaded. If you want to load the adapter "
                "in place, set 'load_inplace' to True."
            )
        if any(status.name == message.name for status in self._instances.statuses()):
            raise RequestError(f"The lora adapter '{message.name}' conflicts with a served base model.")

    def _read(self, key: Key, message: LoadAdapter, model: str, folder: Path, fit: AdapterFit | None) -> None:
        """Read an adapter that a client loads; runs in a thread of its own."""
        try:
            found: FoundAdapter | BraidError = _checked(message, folder, fit)
        except BraidError as error:
            found = error
        except Exception:
            log.exception("the adapter %s cannot be loaded", message.name)
            found = RequestError(f"Loading lora {message.name} failed; see the server's log")
        self._inbox.put((None, FolderRead(key, message, model, found)))

    def _folder_read(self, peer: Peer, event: FolderRead) -> None:
        try:
            if isinstance(event.found, BraidError):
                raise event.found
            self._check_new(event.message)
            self._registry.check_names(event.found)
            self._replace(event.model, event.found)
        except BraidError as error:
            self._settle(event.key, error)
            return
        self._changed()
        self._settle(event.key, None)

    def _replace(self, model: str, found: FoundAdapter) -> None:
        """The name belongs to this model from now on."""
        for other in self._registry.holding(found.name):
            if other.model != model:
                self._registry.unload(other.model, found.name)
        loaded = self._registry.load(model, found, by_hand=True)
        log.info("loaded the adapter %s of %s, number %d", found.name, model, loaded.number)

    def _unload(self, peer: Peer, message: UnloadAdapter) -> None:
        key, held = (peer, message.request_id), self._registry.holding(message.name)
        if not held:
            self._settle(key, NotFound(f"The lora adapter '{message.name}' cannot be found."))
            return
        for adapter in held:
            self._registry.unload(adapter.model, adapter.name)
            log.info("unloaded the adapter %s of %s", adapter.name, adapter.model)
        self._changed()
        self._settle(key, None)


def _checked(message: LoadAdapter, folder: Path, fit: AdapterFit | None) -> FoundAdapter:
    """What is in the folder that a client names.  Raises BraidError."""
    path = _below(folder, message.path)
    if path is None:
        raise RequestError(
            f"'lora_path' must name a folder below that of the model's adapters, not {message.path!r}"
        )
    if not (path / CONFIG).is_file():
        raise NotFound(f"Loading lora {message.name} failed: No adapter found for {message.path}")
    adapter = found_adapter(message.name, path, fit, folder)
    if adapter.problem:
        raise RequestError(f"Loading lora {message.name} failed: {adapter.problem}")
    return replace(adapter, path=path)


def _below(folder: Path, text: str) -> Path | None:
    """A path, absolute or from `folder`, without links; None where it is not below `folder`."""
    try:
        home, path = folder.resolve(), (folder / text).resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    is_plain = ".." not in Path(text).parts and "\0" not in text
    return path if is_plain and home in path.parents else None
