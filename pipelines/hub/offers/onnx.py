"""ONNX files: onnx-community's and sentence-transformers' variants, onnxruntime-genai's folders, voices."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines.hub.offers.offer import GENAI, ONNX, VOICE, Offer, as_they_are
from pipelines.hub.offers.small_files import settings_of_folder, whole_folder

SUBFOLDER = "onnx"
GENAI_CONFIG = "genai_config.json"
_FILE = re.compile(r"(?P<folder>onnx/)?(?P<part>model|text_model|vision_model)(?:_(?P<tag>[\w.-]+))?\.onnx")
"""A file of a model that is served; its end names the variant."""
PLAIN = "fp32"
"""The tag of a file whose name has no end."""
SAME = {"quantized": "int8"}
"""Tag → another word for it."""
OLD = re.compile(r"merged|with_past", re.IGNORECASE)


def onnx_offers(paths: Sequence[str]) -> list[Offer]:
    """One offer for each variant of the model, or of the pair of an encoder of texts and one of images."""
    files = [file for path in paths if (file := _FILE.fullmatch(path)) and not OLD.search(path)]
    parts = {file["part"] for file in files}
    needed = ("model",) if "model" in parts else ("text_model", "vision_model")
    if not set(needed) <= parts:
        return []
    tags = dict.fromkeys(file["tag"] or "" for file in files if file["part"] == needed[0])
    by_name = {(file["folder"] or "", file["part"], file["tag"] or ""): file[0] for file in files}
    folder = SUBFOLDER + "/" if any(file["folder"] for file in files) else ""
    return [
        _variant(paths, folder, tag, [by_name[folder, part, tag] for part in needed])
        for tag in tags
        if all((folder, part, tag) in by_name for part in needed)
    ]


def _variant(paths: Sequence[str], folder: str, tag: str, models: Sequence[str]) -> Offer:
    links = as_they_are(settings_of_folder(paths))
    for model in models:
        end = f"_{tag}.onnx" if tag else ".onnx"
        links[f"{model.removesuffix(end)}.onnx"] = model
        links |= as_they_are([path for path in paths if is_data_of(path, model)])
    same = [SAME[tag]] if tag in SAME else []
    return Offer(ONNX, tag or PLAIN, links, (models[0], f"onnx-{tag}" if tag else "onnx", *same))


def is_data_of(path: str, model: str) -> bool:
    """Whether a file has weights of an ONNX file, by its name."""
    rest = path.removeprefix(model)
    return path != rest and bool(re.fullmatch(r"[._]data(?:_\d+)?", rest))


def default_variant(offers: Sequence[Offer], device: str, is_decoder: bool) -> tuple[Offer, str]:
    """The variant that is taken without a tag, and why: by device, and whether the model generates text."""
    on_cpu = ("q4", "quantized", "int8", PLAIN) if is_decoder else (PLAIN,)
    order = ("fp16", PLAIN) if device.startswith("cuda") else on_cpu
    for tag in order:
        if found := next((offer for offer in offers if offer.answers(tag)), None):
            what = "models that generate text" if is_decoder else "other models"
            return found, f"{tag} is the default on {device} for {what}"
    return offers[0], "it is the first"


def genai_offers(paths: Sequence[str]) -> list[Offer]:
    """One offer for each folder of onnxruntime-genai."""
    folders = [path.rpartition("/")[0] for path in paths if path.rpartition("/")[2] == GENAI_CONFIG]
    return [
        Offer(
            GENAI,
            folder.replace("/", "-") or GENAI,
            as_they_are(whole_folder(paths, folder), folder),
            tuple(filter(None, {folder, folder.rpartition("/")[2]})),
        )
        for folder in folders
    ]


def default_genai(offers: Sequence[Offer], device: str) -> tuple[Offer, str]:
    """The first folder for the device, by its name."""
    words = ("cuda", "gpu") if device.startswith("cuda") else ("cpu",)
    for offer in offers:
        if any(word in offer.tag.lower() for word in words):
            return offer, f"it is the first folder for {device}"
    return offers[0], "it is the first folder"


def voice_offers(paths: Sequence[str]) -> list[Offer]:
    """One offer for each Piper voice: a file with its settings beside it."""
    names = set(paths)
    voices = [path for path in paths if path.endswith(".onnx") and f"{path}.json" in names]
    return [
        Offer(VOICE, name.removesuffix(".onnx"), {name: path, f"{name}.json": f"{path}.json"}, (path, name))
        for path in voices
        for name in [path.rpartition("/")[2]]
    ]
