"""Weights that are converted before they are served: CTranslate2's Whisper, and safetensors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines.hub.offers.offer import CTRANSLATE2, SAFETENSORS, Offer, as_they_are
from pipelines.hub.offers.small_files import is_never_fetched, settings_of_folder

VOCABULARIES = ("vocabulary.txt", "vocabulary.json", "shared_vocabulary.txt", "shared_vocabulary.json")
SHARD = re.compile(r"(?P<stem>[\w.-]+)-\d{5}-of-\d{5}\.safetensors")
ADAPTER = "adapter_config.json"


def ctranslate2_offers(paths: Sequence[str]) -> list[Offer]:
    """The model of faster-whisper's form, if it is there."""
    if not ("model.bin" in paths and "config.json" in paths and any(name in paths for name in VOCABULARIES)):
        return []
    links = as_they_are(["model.bin", *settings_of_folder(paths)])
    return [Offer(CTRANSLATE2, "ctranslate2", links, note="converted to ONNX after it was fetched")]


def safetensors_offers(paths: Sequence[str]) -> list[Offer]:
    """The plain weights, if they are there: one file, or the parts that an index lists."""
    if "config.json" not in paths or ADAPTER in paths:
        return []
    weights = _weights([path for path in paths if path.endswith(".safetensors") and "/" not in path])
    if not weights:
        return []
    modules = [path for path in paths if re.fullmatch(r"\d+_\w+/model\.safetensors", path)]
    links = as_they_are([*weights, *modules, *settings_of_folder(paths)])
    return [Offer(SAFETENSORS, "safetensors", links, note="exported first, by --export")]


def _weights(names: Sequence[str]) -> list[str]:
    """`model.safetensors` or the parts of `model`; copies for other loaders (`consolidated`) are left out."""
    if "model.safetensors" in names:
        return ["model.safetensors"]
    parts = [name for name in names if (found := SHARD.fullmatch(name)) and found["stem"] == "model"]
    return parts or [name for name in names if not name.startswith("consolidated")] or list(names)


def why_nothing(paths: Sequence[str]) -> str:
    """What a repository without any offer holds, and what to do."""
    if ADAPTER in paths:
        return "it holds a LoRA adapter, which is served beside its base model (docs/adapters.md)"
    if any("openvino_encoder_model.xml" in path for path in paths):
        return (
            "it holds an encoder and a decoder of optimum-intel, which cannot be paged; for Whisper take a "
            "repository of faster-whisper's form, as Systran/faster-whisper-base"
        )
    if any("merged" in path and path.endswith(".onnx") for path in paths):
        return "it holds a merged decoder of ONNX, which is not served; take a GGUF or OpenVINO repository"
    if any(is_never_fetched(path) and path.endswith((".bin", ".pt", ".pth", ".ckpt")) for path in paths):
        return "it holds pickled weights alone, which are never loaded: reading them may run code"
    return "it holds neither GGUF files, an OpenVINO or ONNX export, nor safetensors"
