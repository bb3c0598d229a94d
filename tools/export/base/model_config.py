"""Reads config.json with transformers, from folders that transformers 4 or 5 wrote."""

from __future__ import annotations

from typing import Any

from tools.export.base.folder import ExportError, first_line

PLACED = ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings")
"""Rotary settings that are fields of their own in transformers 4."""
LAYERS = ("full_attention", "sliding_attention")
"""Kinds of layers with rotary settings of their own in transformers 5."""
SCALING, LOCAL = "rope_scaling", "rope_local_base_freq"
"""Fields of transformers 4 for what is not the default kind, and for the base of sliding layers."""


def is_transformers_5() -> bool:
    from transformers import __version__

    return int(__version__.partition(".")[0]) >= 5


def read_model_config(source: str) -> Any:
    """transformers' configuration of the model in `source` (a local folder or a hub id).

    Its rotary settings are those of the file, whichever version wrote it.  Raises `ExportError`.
    """
    from transformers import AutoConfig, __version__

    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except Exception as error:  # of many classes: files, hub, fields
        raise ExportError(f"transformers {__version__} cannot read {source}: {first_line(error)}") from error
    if not is_transformers_5():
        place_rope_parameters(config.get_text_config())
    return config


def place_rope_parameters(config: Any) -> None:
    """Write the `rope_parameters` of transformers 5 as the fields that transformers 4 reads.

    Raises `ExportError` where those fields cannot express them.
    """
    rope = dict(getattr(config, "rope_parameters", None) or {})
    if any(isinstance(value, dict) for value in rope.values()):
        rope = _of_full_layers(config, rope)
    kind = rope.pop("rope_type", "default")
    for name in PLACED:
        if rope.get(name) is not None and hasattr(config, name):
            setattr(config, name, rope[name])
    read = {"rope_theta": None, "partial_rotary_factor": 1.0}
    if any(name in rope and rope[name] != getattr(config, name, read[name]) for name in read):
        raise _unread(config)
    if kind != "default":
        others = {name: value for name, value in rope.items() if name not in PLACED[:2]}
        config.rope_scaling = {"rope_type": kind, **others}


def check_positions(source: str) -> None:
    """Raise `ExportError` when another library would read other rotary settings than `read_model_config`."""
    from transformers import AutoConfig

    ours = read_model_config(source).get_text_config()
    theirs = AutoConfig.from_pretrained(source, trust_remote_code=False).get_text_config()
    if any(getattr(ours, name, None) != getattr(theirs, name, None) for name in (*PLACED, LOCAL, SCALING)):
        raise _unread(ours)


def _of_full_layers(config: Any, rope: dict[str, Any]) -> dict[str, Any]:
    """The settings of full layers; the base of sliding ones is written to its field."""
    full, local = (dict(rope.get(name) or {}) for name in LAYERS)
    is_plain = local.get("rope_type", "default") == "default"
    if set(rope) - set(LAYERS) or not is_plain or not hasattr(config, LOCAL):
        raise _unread(config)
    config.rope_local_base_freq = local.get("rope_theta", config.rope_local_base_freq)
    return full


def _unread(config: Any) -> ExportError:
    return ExportError(
        f"config.json was written by transformers 5, whose rope_parameters transformers 4 cannot read for "
        f"{config.model_type}; export it with transformers 5"
    )
