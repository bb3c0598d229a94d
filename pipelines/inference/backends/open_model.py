"""Opens a model file with the engine that the registry, the device and the graph's settings choose."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pipelines.inference.backends.registry import (
    DECODERS,
    ENCODERS,
    TENSORS,
    Opener,
    engine_names,
    examples,
    file_kinds,
)
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.decoder_settings import DecoderSettings
from pipelines.inference.contracts.device_errors import (
    EXPORT_ADVICE,
    ModelError,
    NothingToAdapt,
    Unsupported,
    require_file,
)
from pipelines.inference.contracts.encoder_contract import EncoderSession, EncoderSettings
from pipelines.inference.contracts.tensor_contract import TensorSession
from pipelines.inference.contracts.tensor_settings import TensorSettings

log = logging.getLogger(__name__)


class EngineChoice(Protocol):
    """The settings of a graph's line that choose the engine."""

    @property
    def device(self) -> str: ...

    @property
    def engine(self) -> str | None: ...


Session = TypeVar("Session")


def open_decoder(path: Path, settings: DecoderSettings) -> DecoderSession:
    """The session for an exported decoder.  Raises `ModelError`."""
    if not any(each.opens(path) for each in DECODERS if each.files or each.runs_on(settings.device)):
        kinds = ", ".join(file_kinds(DECODERS))
        raise ModelError(f"{path.name}: decoders are opened from {kinds}. {EXPORT_ADVICE}")
    session: DecoderSession = _open(DECODERS, path, settings)
    return session


def open_encoder(path: Path, settings: EncoderSettings) -> EncoderSession:
    """The session for an exported encoder.  Raises `ModelError`."""
    if not any(each.opens(path) for each in ENCODERS):
        raise ModelError(f"{path.name}: encoders are opened from {', '.join(file_kinds(ENCODERS))}.")
    require_file(path)
    session: EncoderSession = _open(ENCODERS, path, settings)
    return session


def open_tensors(path: Path, settings: TensorSettings | None = None) -> TensorSession:
    """The session for a model of named tensors.  Raises `ModelError`.

    The engine is the one that the graph names, or the first of the device that has its settings.
    """
    settings = settings or TensorSettings()
    able = [opener for opener in TENSORS if opener.opens(path)]
    if not able:
        kinds = ", ".join(file_kinds(TENSORS))
        raise ModelError(f"{path.name}: tensor models are opened from {kinds}.")
    chosen = _chosen(TENSORS, settings)
    fit = [
        opener for opener in chosen if opener in able and not any(getattr(settings, n) for n in opener.lacks)
    ]
    engine = (fit or chosen)[0].engine
    opener = next((opener for opener in chosen if opener in able and opener.engine == engine), None)
    if opener is None:
        raise ModelError(
            f"{path.name}: {engine} does not open {path.suffix} on {settings.device}; "
            f"{' or '.join(engine_names(able))} does, on {' or '.join(examples(able))}."
        )
    session: TensorSession = opener.open(path, settings)
    return session


def open_for_adapters(
    targets: tuple[str, ...], changed: tuple[str, ...], open_with: Callable[[tuple[str, ...]], Session]
) -> Session:
    """What `open_with` opens for the `targets` of a graph, or else for what its adapters change, `changed`.

    Where a model has nothing of the latter, as ends on a GPU, it is opened for all linear layers, and its
    adapters are refused one by one.
    """
    try:
        return open_with(targets or changed)
    except NothingToAdapt:
        if targets or not changed:
            raise
        return open_with(())


def log_opened_model(path: Path, facts: Mapping[str, object]) -> dict[str, str]:
    """Log which model was opened and how it is run; returns these facts as texts."""
    texts = {name: str(value) for name, value in facts.items()}
    log.info("%s: %s", path, ", ".join(f"{name} {text}" for name, text in texts.items()))
    return texts


def _open(openers: Sequence[Opener], path: Path, settings: EngineChoice) -> Any:
    """Open a file with the engine that the settings name, or else the first that can."""
    chosen = _chosen(openers, settings)
    able = [opener for opener in chosen if opener.opens(path)]
    if not able:
        raise ModelError(f"{path.name}: {chosen[0].advice}")
    return able[0].open(path, settings) if settings.engine else _open_with_first(able, path, settings)


def _chosen(openers: Sequence[Opener], settings: EngineChoice) -> list[Opener]:
    """The openers for the device of the settings, of the engine that these may name.

    Raises `ModelError` where there is none: no engine computes on another device than the one that is named.
    """
    device, engine = settings.device, settings.engine
    on_device = [opener for opener in openers if opener.runs_on(device)]
    if chosen := [opener for opener in on_device if engine in (None, opener.engine)]:
        return chosen
    if not on_device:
        known = " or ".join(examples(openers))
        raise ModelError(f"device {device} is not available for models of this kind; they run on {known}.")
    others = " or ".join(engine_names(on_device)) or "an engine without a name"
    own = " or ".join(examples(opener for opener in openers if opener.engine == engine))
    raise ModelError(
        f"device {device} is run by {others}, and {engine} runs on {own}; "
        f"change `device`, or remove `engine: {engine}`."
    )


def _open_with_first(openers: Sequence[Opener], path: Path, settings: EngineChoice) -> Any:
    """Try the engines in order; use the first that is installed and can run the file."""
    reasons: list[str] = []
    for opener in openers:
        try:
            return opener.open(path, settings)
        except (Unsupported, ImportError) as error:
            log.warning("%s cannot be run by %s: %s", path, opener.engine, error)
            reasons.append(str(error))
        except ModelError as error:
            raise type(error)("; ".join([*reasons, str(error)])) from error
    raise ModelError("; ".join(reasons))
