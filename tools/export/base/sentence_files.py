"""Copies the files of sentence-transformers of a model: modules, their settings and weights, prompts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from pipelines.repository.exports.sentence_modules import (
    FIRST_POOLING,
    NORMALIZE,
    POOLING,
    SPLADE,
    SUPPORTED,
    TRANSFORMER,
)
from tools.export.base.folder import ExportError, first_line

MODULES = "modules.json"
SETTINGS = ("sentence_bert_config.json", "config_sentence_transformers.json")
CONFIG, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
CLIP = "CLIPModel"
LAST_TOKEN = {TRANSFORMER: "", POOLING: FIRST_POOLING, NORMALIZE: ""}
"""Types of modules → their folders."""
IDENTITY = "torch.nn.modules.linear.Identity"


def copy_sentence_files(source: str, folder: Path) -> None:
    """Copy those files that `source` (a local folder or a hub id) has; pickled weights become safetensors.

    Raises `ExportError` for weights that cannot be read.
    """
    for name in (MODULES, *SETTINGS):
        if file := find(source, name):
            shutil.copyfile(file, folder / name)
    for module in read_modules(source):
        if module.get("path"):
            _copy_module(source, folder, str(module["path"]))


def read_modules(source: str) -> list[dict[str, Any]]:
    """(type, path) of each module in modules.json; [] without the file."""
    found = find(source, MODULES)
    return json.loads(found.read_text(encoding="utf-8")) if found else []


def read_types(source: str) -> list[str]:
    """The types of the modules, without their Python packages."""
    return [_type(module) for module in read_modules(source)]


def predicts_words(source: str) -> bool:
    """Whether the model's logits over the vocabulary are pooled to sparse vectors."""
    return SPLADE in read_types(source)


def check_place(source: str) -> None:
    """Raise `ExportError` for a model in a subfolder."""
    for module in read_modules(source):
        if _type(module) == TRANSFORMER and (place := module.get("path")):
            raise ExportError(
                f"{source} has the old layout of sentence-transformers, its model in {place}: move the files "
                f'of {place} next to {MODULES}, and set "path": "" for it there'
            )


def check_types(source: str) -> None:
    """Raise `ExportError` for a module that no graph can express."""
    if unknown := [kind for kind in read_types(source) if kind not in SUPPORTED]:
        raise ExportError(
            f"{source}: {MODULES} has the module {unknown[0]}, which Braid cannot run; it runs "
            f"{', '.join(SUPPORTED)}"
        )


def forget_pooling(folder: Path) -> None:
    """Remove pooling from the modules in `folder`, so that they give token embeddings."""
    modules = read_modules(str(folder)) or [{"type": "Transformer", "path": ""}, {"type": "Normalize"}]
    remaining = [module for module in modules if not str(module["type"]).endswith("Pooling")]
    (folder / MODULES).write_text(json.dumps(remaining, indent=2) + "\n", encoding="utf-8")


def write_last_token(folder: Path) -> None:
    """Modules in `folder` that give the vector of the last token, of length 1; nothing where it has some."""
    if (folder / MODULES).is_file():
        return
    modules = [{"type": kind, "path": path} for kind, path in LAST_TOKEN.items()]
    (folder / MODULES).write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    (folder / FIRST_POOLING).mkdir()
    (folder / FIRST_POOLING / CONFIG).write_text('{"pooling_mode": "lasttoken"}\n', encoding="utf-8")


def write_dense(folder: Path, weight: Any, bias: Any) -> None:
    """A Dense module: torch weight [out, in] and bias [out] or None, without an activation."""
    from safetensors.torch import save_file

    folder.mkdir()
    sizes = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": bias is not None}
    described = json.dumps(sizes | {"activation_function": IDENTITY}, indent=2)
    (folder / CONFIG).write_text(described + "\n", encoding="utf-8")
    named = {"linear.weight": weight} | ({} if bias is None else {"linear.bias": bias})
    save_file({name: tensor.contiguous().clone() for name, tensor in named.items()}, folder / WEIGHTS)


def clip_folder(source: str) -> str:
    """The folder of a CLIP model in sentence-transformers' layout; `source` where it has no such layout."""
    modules = read_modules(source) if Path(source).is_dir() else []
    is_clip = [_type(module) for module in modules] == [CLIP]
    return str(Path(source) / str(modules[0].get("path") or "")) if is_clip else source


def find(source: str, name: str) -> Path | None:
    """The file of `source`, downloaded for a hub id; None when it does not exist."""
    from transformers.utils import cached_file

    found = cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    return Path(found) if found else None


def _type(module: dict[str, Any]) -> str:
    return str(module["type"]).rpartition(".")[2]


def _copy_module(source: str, folder: Path, place: str) -> None:
    """Copy a module's settings and weights; a module without either has no folder."""
    config, weights, pickled = (find(source, f"{place}/{name}") for name in (CONFIG, WEIGHTS, PICKLED))
    if config is None:
        return
    (folder / place).mkdir(parents=True)
    shutil.copyfile(config, folder / place / CONFIG)
    if weights is not None:
        shutil.copyfile(weights, folder / place / WEIGHTS)
    elif pickled is not None:
        _unpickle(pickled, folder / place / WEIGHTS)


def _unpickle(pickled: Path, to: Path) -> None:
    import torch
    from safetensors.torch import save_file

    try:
        weights = torch.load(pickled, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ExportError(f"{pickled} cannot be read as weights: {first_line(error)}") from error
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, to)
