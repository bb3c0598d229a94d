"""The small files that belong to a model beside its weights, and files that are never fetched."""

from __future__ import annotations

import re
from collections.abc import Iterable

SETTINGS = (".json", ".jinja", ".txt", ".model", ".tiktoken", ".pbtxt", ".yaml", ".spm")
NEVER = (
    ".py",
    ".pkl",
    ".pickle",
    ".pt",
    ".pth",
    ".ckpt",
    ".h5",
    ".msgpack",
    ".joblib",
    ".npz",
    ".so",
    ".dll",
)
"""Code, and formats whose reader may run code: they are never fetched."""
WEIGHTS = (
    ".safetensors",
    ".gguf",
    ".onnx",
    ".bin",
    ".xml",
    ".onnx_data",
    ".data",
    ".mlmodel",
    ".tflite",
    ".ot",
)
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".mp4", ".wav", ".mp3", ".pdf")
PYTORCH = re.compile(r"(?:^|/)(?:pytorch_model|training_args|optimizer|scheduler|rng_state)[^/]*\.bin$")
MODULE = re.compile(r"\d+_\w+/[^/]+")
"""A file of a module of sentence-transformers."""
TEMPLATES = "additional_chat_templates/"


def is_never_fetched(path: str) -> bool:
    """Whether a file is code, may run code when it is read, or is hidden, as git's and Braid's notes."""
    *_, name = parts = path.lower().split("/")
    return name.endswith(NEVER) or bool(PYTORCH.search(path)) or any(part.startswith(".") for part in parts)


def settings_of_folder(paths: Iterable[str]) -> list[str]:
    """The small files in a folder and its modules: tokenizer, configuration, chat template, pooling."""
    return [path for path in paths if _is_setting(path)]


def whole_folder(paths: Iterable[str], folder: str = "") -> list[str]:
    """All files of a folder but code, pictures, and weights of other formats in folders below."""
    prefix = f"{folder}/" if folder else ""
    return [
        path
        for path in paths
        if path.startswith(prefix) and not is_never_fetched(path) and not path.lower().endswith(PICTURES)
    ]


def _is_setting(path: str) -> bool:
    if is_never_fetched(path):
        return False
    if MODULE.fullmatch(path):
        return True
    return path.lower().endswith(SETTINGS) and ("/" not in path or path.startswith(TEMPLATES))
