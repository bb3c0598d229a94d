"""Converts the modules of a sentence-transformers folder to the lines of a batcher's body."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pipelines.repository.exports.export_files import read_json, read_object

FILE, SETTINGS, ROUTES = "modules.json", "sentence_bert_config.json", "router_config.json"
TRANSFORMER, POOLING, DENSE, NORMALIZE = "Transformer", "Pooling", "Dense", "Normalize"
MLM, SPLADE, ROUTER = "MLMTransformer", "SpladePooling", "Router"
SUPPORTED = (TRANSFORMER, MLM, POOLING, SPLADE, DENSE, NORMALIZE, "Dropout")
"""Types of modules that a graph can express."""
FIRST_POOLING = "1_Pooling"
"""The usual folder of the Pooling module's settings."""
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
"""Name of a pooling mode in a module's settings, in the older format and the newer one → our name."""


def module_types(place: Path) -> list[str]:
    """The types of a model's modules, without their Python packages; [] without modules."""
    return [kind for kind, _ in _modules(place)]


def module_lines(place: Path, prefix: str) -> list[tuple[str, str]]:
    """(name, settings) of each line, in order; file names begin with `prefix`.

    [] without modules; a model without a Pooling module gives token embeddings.  Raises ValueError for a
    module that no graph can express.
    """
    lines: list[tuple[str, str]] = []
    for kind, path in _modules(place):
        if kind not in SUPPORTED:
            raise ValueError(
                f"{FILE} has the module {kind}, which Braid cannot run; it runs {', '.join(SUPPORTED)}"
            )
        if kind == POOLING:
            lines.append(("pooled", f"type: pool, how: {read_pooling(place / path)}"))
        elif kind == DENSE:
            before = sum(line.startswith("type: dense") for _, line in lines)
            lines.append((f"wide_{before + 1}" if before else "wide", f"type: dense, path: {prefix}{path}"))
        elif kind == SPLADE:
            lines.append(("sparse", splade_line(place / path)))
        elif kind == NORMALIZE:
            lines.append(("unit", "type: normalize"))
    types = module_types(place)
    return (
        lines if {POOLING, SPLADE} & {*types} or not types else [("pooled", "type: pool, how: none"), *lines]
    )


def cleaning(place: Path) -> list[str]:
    """The settings of a `tokenize` node that are true: what the Transformer module does to texts first."""
    if not {TRANSFORMER, MLM} & {*module_types(place)}:
        return []
    lowers = read_object(place / SETTINGS).get("do_lower_case") is True
    return ["strip", "lowercase"] if lowers else ["strip"]


def splade_line(module: Path) -> str:
    """The settings of a `sparse` node for a SpladePooling module, that differ from the node's own."""
    settings = read_object(module / "config.json")
    said = {"how": settings.get("pooling_strategy"), "activation": settings.get("activation_function")}
    more = [f", {name}: {value}" for name, value in said.items() if value not in (None, "max", "relu")]
    return "type: sparse" + "".join(more)


def read_pooling(module: Path) -> str:
    """The `how` of a `pool` node for a Pooling module.  Raises ValueError when there is none."""
    settings = read_object(module / "config.json")
    if settings.get("include_prompt") is False:
        raise ValueError(f"{module.name} leaves prompts out of its pooling, which Braid does not support")
    mode = settings.get("pooling_mode")
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode]
    named = [how for name, how in POOLINGS.items() if settings.get(name)]
    if len(named) != 1:
        raise ValueError(f"{module.name} does not pool in one way: {', '.join(named) or 'it names no mode'}")
    return named[0]


class Routes(NamedTuple):
    """The modules of a Router, (type, path) each: those for queries and those for other texts."""

    queries: list[tuple[str, str]]
    documents: list[tuple[str, str]]


def read_routes(folder: Path) -> Routes | None:
    """The routes of a model for search; None where it has none."""
    config = read_object(folder / ROUTES)
    kinds, routes = config.get("types"), config.get("structure")
    if not isinstance(kinds, dict) or not isinstance(routes, dict):
        return None

    def modules(name: str) -> list[tuple[str, str]]:
        paths = routes.get(name)
        return [(_last(kinds.get(path)), str(path)) for path in (paths if isinstance(paths, list) else [])]

    return Routes(modules("query"), modules("document"))


def _last(kind: object) -> str:
    """The name of a class without its Python package."""
    return str(kind or "").rpartition(".")[2]


def _modules(place: Path) -> list[tuple[str, str]]:
    """(type, path) of each module; of a model with routes those for documents, as seen from its folder."""
    content = read_json(place / FILE)
    modules: list[Any] = content if isinstance(content, list) else []
    if not modules and (routes := read_routes(place.parent)) is not None:
        return [(kind, "" if path == place.name else f"../{path}") for kind, path in routes.documents]
    return [
        (_last(module.get("type", "")), str(module.get("path", "")))
        for module in modules
        if isinstance(module, dict)
    ]
