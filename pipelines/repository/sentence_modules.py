"""The modules of a sentence-transformers folder → lines of a batcher's body.

Knows modules.json and the settings of its modules; opens no weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.repository.exports import read_json, read_object

FILE = "modules.json"
TRANSFORMER, POOLING, DENSE, NORMALIZE = "Transformer", "Pooling", "Dense", "Normalize"
READ = (TRANSFORMER, POOLING, DENSE, NORMALIZE, "Dropout")
"""Types of modules whose meaning a graph can say."""
FIRST_POOLING = "1_Pooling"
"""Where its settings lie."""
POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last",
}
MODES = {
    "cls": "cls",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
}
"""What a module's settings call a pooling, in their older words and in newer ones → ours."""


def module_types(place: Path) -> list[str]:
    """The types of the modules of a model, without their Python packages; [] where there are none."""
    return [kind for kind, _ in _modules(place)]


def module_lines(place: Path, prefix: str) -> list[tuple[str, str]]:
    """Pairs of a line's name and its settings, in order; `prefix` is what file names begin with.

    [] where there are no modules; a model whose modules do not pool gives vectors of tokens.
    Raises ValueError for a module that no graph can say.
    """
    lines: list[tuple[str, str]] = []
    for kind, path in _modules(place):
        if kind not in READ:
            raise ValueError(
                f"{FILE} has the module {kind}, which Braid cannot run; it runs {', '.join(READ)}"
            )
        if kind == POOLING:
            lines.append(("pooled", f"type: pool, how: {read_pooling(place / path)}"))
        elif kind == DENSE:
            lines.append(("wide", f"type: dense, path: {prefix}{path}"))
        elif kind == NORMALIZE:
            lines.append(("unit", "type: normalize"))
    types = module_types(place)
    return lines if POOLING in types or not types else [("pooled", "type: pool, how: none"), *lines]


def read_pooling(module: Path) -> str:
    """How a Pooling module pools, in our words; raises ValueError where that has none."""
    settings = read_object(module / "config.json")
    if settings.get("include_prompt") is False:
        raise ValueError(f"{module.name} leaves prompts out of its pooling, which Braid cannot do")
    mode = settings.get("pooling_mode")
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode]
    named = [how for name, how in POOLINGS.items() if settings.get(name)]
    if len(named) != 1:
        raise ValueError(f"{module.name} does not pool in one way: {', '.join(named) or 'it names none'}")
    return named[0]


def _modules(place: Path) -> list[tuple[str, str]]:
    """Type and path of each."""
    listed = read_json(place / FILE)
    modules: list[Any] = listed if isinstance(listed, list) else []
    return [
        (str(module.get("type", "")).rpartition(".")[2], str(module.get("path", "")))
        for module in modules
        if isinstance(module, dict)
    ]
