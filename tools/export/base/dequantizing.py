"""Writes a quantized checkpoint as a plain one, so that every way of export can read it.

The codes of a weight and its scales become one tensor in the checkpoint's own floating-point type.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tools.export.base.dequantized_weights import SCHEMES, Parts, Scheme
from tools.export.base.folder import ExportError, Stage, read_config

NATIVE = ("mxfp4",)
"""Quantizations that transformers itself undoes."""
INDEX, SUFFIX = "model.safetensors.index.json", ".safetensors"
CODES = (torch.int8, torch.uint8, torch.int32, torch.float8_e4m3fn, torch.float8_e5m2)
"""Element types that are never a plain weight."""
Find = Callable[[str], torch.Tensor]


def dequantized(source: str, folder: Path, stage: Stage) -> str:
    """`source`, or `folder` with its files and plain weights when `source` is quantized.

    Raises `ExportError` for a quantization that cannot be undone, by its name.
    """
    config = _config(source)
    settings = config.pop("quantization_config", None)
    method = str((settings or {}).get("quant_method", "unknown"))
    if settings is None or method in NATIVE:
        return source
    scheme = SCHEMES.get(method)
    if scheme is None:
        raise ExportError(
            f"{source} has weights that {method} quantized, which Braid cannot undo (it can: "
            f"{', '.join(SCHEMES)}); export the checkpoint it was made from, with --weights int8 or int4"
        )
    if not Path(source).is_dir():
        raise ExportError(f"{source} has weights that {method} quantized: download it, and export the folder")
    stage(f"dequantizing weights of {method}")
    folder.mkdir()
    for file in Path(source).iterdir():
        if file.is_file() and file.suffix in (".json", ".model", ".txt", ".jinja") and file.name != INDEX:
            shutil.copyfile(file, folder / file.name)
    (folder / "config.json").write_text(json.dumps(config))
    dtype = getattr(torch, str(config.get("dtype") or config.get("torch_dtype") or "bfloat16"))
    _write_weights(Path(source), folder, scheme, settings, dtype)
    return str(folder)


def _config(source: str) -> dict[str, Any]:
    try:
        return read_config(source)
    except Exception:  # reported when the model is read
        return {}


def _write_weights(
    source: Path, folder: Path, scheme: Scheme, settings: Mapping[str, Any], dtype: torch.dtype
) -> None:
    """Write one file for each file of `source`, and the index of all."""
    index: dict[str, str] = {}
    files = {name: file for file in sorted(source.glob(f"*{SUFFIX}")) for name in _names(file)}
    if not files:
        raise ExportError(f"{source} has no {SUFFIX} files")

    def find(name: str) -> torch.Tensor:
        with safe_open(files[name], "pt") as opened:
            return opened.get_tensor(name)

    plain: dict[Path, dict[str, torch.Tensor]] = defaultdict(dict)
    for file, name, weight in _weights(files, find, scheme, settings):
        plain[file][name] = weight.to(dtype).contiguous()
        index[name] = file.name
    for file, weights in plain.items():
        save_file(weights, folder / file.name, metadata={"format": "pt"})
    if len(plain) > 1:
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": index}))


def _names(file: Path) -> list[str]:
    with safe_open(file, "pt") as opened:
        return list(opened.keys())


def _weights(
    files: Mapping[str, Path], find: Find, scheme: Scheme, settings: Mapping[str, Any]
) -> Iterator[tuple[Path, str, torch.Tensor]]:
    """(file, name, tensor) of each plain weight."""
    modules: dict[str, dict[str, str]] = defaultdict(dict)
    for name in files:
        module, part = _split(name, scheme)
        modules[module][part] = name
    for module, parts in modules.items():
        if any(marker in parts for marker in scheme.markers):
            tensors: Parts = {part: find(name) for part, name in parts.items() if part in scheme.parts}
            weight = scheme.undo(module, tensors, settings)
            yield files[next(iter(parts.values()))], f"{module}.weight", weight
            parts = {part: name for part, name in parts.items() if part not in scheme.parts}
        for name in parts.values():
            tensor = find(name)
            if tensor.dtype in CODES:
                raise ExportError(f"{name} has {tensor.dtype} without scales that Braid knows")
            yield files[name], name, tensor


def _split(name: str, scheme: Scheme) -> tuple[str, str]:
    """A tensor's module and its part of the module."""
    for part in sorted(scheme.parts, key=len, reverse=True):
        if name.endswith(f".{part}"):
            return name.removesuffix(f".{part}"), part
    module, _, part = name.rpartition(".")
    return module, part
