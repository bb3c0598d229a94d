"""Folders of OpenVINO IR: those that optimum-intel exports, and the files of sentence-transformers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines.hub.offers.offer import OPENVINO, Offer, as_they_are
from pipelines.hub.offers.small_files import WEIGHTS, settings_of_folder, whole_folder

MODEL, LANGUAGE = "openvino_model", "openvino_language_model"
SUBFOLDER = "openvino"
"""Where sentence-transformers has the files of its OpenVINO backend."""
ENCODER = "openvino_encoder_model.xml"
"""A file of encoder-decoder models, whose caches are inside: they are not served."""
_VARIANT = re.compile(rf"{SUBFOLDER}/{MODEL}(?:_(?P<tag>[\w.-]+))?\.xml")


def openvino_offers(paths: Sequence[str]) -> list[Offer]:
    """One offer for each folder with a model, and for each file of sentence-transformers' folder."""
    names = set(paths)
    folders = sorted(
        {path.rpartition("/")[0] for path in paths if _is_model(path)}, key=lambda path: path.count("/")
    )
    own = [folder for folder in folders if folder != SUBFOLDER or f"{SUBFOLDER}/config.json" in names]
    offers = [_folder_offer(paths, folder) for folder in own]
    if SUBFOLDER in own:
        return offers
    return offers + [
        _variant_offer(paths, variant) for path in paths if (variant := _VARIANT.fullmatch(path))
    ]


def _is_model(path: str) -> bool:
    return path.rpartition("/")[2] in (f"{MODEL}.xml", f"{LANGUAGE}.xml")


def _folder_offer(paths: Sequence[str], folder: str) -> Offer:
    """A folder with all its files, but weights that are not OpenVINO's."""
    prefix = f"{folder}/" if folder else ""
    chosen = [path for path in whole_folder(paths, folder) if _belongs(path.removeprefix(prefix))]
    tag = folder.rpartition("/")[2] or SUBFOLDER
    return Offer(OPENVINO, tag, as_they_are(chosen, folder), (folder,) if folder else (SUBFOLDER,))


def _belongs(path: str) -> bool:
    name = path.rpartition("/")[2]
    if "/" in path and not path.startswith(("additional_chat_templates/", "1/")) and not path[0].isdecimal():
        return False
    is_weight = name.lower().endswith(WEIGHTS)
    return not is_weight or name.startswith("openvino_") or path[0].isdecimal()


def _variant_offer(paths: Sequence[str], found: re.Match[str]) -> Offer:
    """A file of sentence-transformers, under the name of the plain one, with the small files beside."""
    stem, tag = found[0].removesuffix(".xml"), found["tag"]
    links = as_they_are(settings_of_folder(paths))
    links |= {
        f"{SUBFOLDER}/{MODEL}{end}": f"{stem}{end}" for end in (".xml", ".bin") if f"{stem}{end}" in paths
    }
    label = f"{SUBFOLDER}-{tag}" if tag else SUBFOLDER
    return Offer(OPENVINO, label, links, tuple(filter(None, (tag, found[0]))))
