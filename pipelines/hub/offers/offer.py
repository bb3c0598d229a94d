"""One thing that a repository offers: a quantisation, a folder, a set of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GGUF, OPENVINO, ONNX, GENAI = "GGUF", "OpenVINO", "ONNX", "onnxruntime-genai"
VOICE, CTRANSLATE2, SAFETENSORS = "Piper voice", "CTranslate2", "safetensors"
SERVED = (GGUF, OPENVINO, ONNX, GENAI, VOICE)
"""Kinds that are served from the files as they are."""


@dataclass(frozen=True, slots=True)
class Offer:
    """`tag` is what a person writes after the name to get it; `links` has the path of each file in the folder
    of the model → its path in the repository.
    """

    kind: str
    tag: str
    links: Mapping[str, str]
    aliases: tuple[str, ...] = ()
    note: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Files that belong to it and do not decide what it is, such as a projector."""

    @property
    def paths(self) -> list[str]:
        """The files that are fetched."""
        return sorted({*self.links.values(), *self.beside.values()})

    @property
    def all_links(self) -> dict[str, str]:
        return {**self.links, **self.beside}

    def answers(self, tag: str) -> bool:
        """Whether a tag asks for it, in any case of letters."""
        return tag.lower() in {self.tag.lower(), *map(str.lower, self.aliases)}


def as_they_are(paths: list[str], below: str = "") -> dict[str, str]:
    """Links of files that have the same path in the model's folder, without the folder `below`."""
    prefix = f"{below}/" if below else ""
    return {path.removeprefix(prefix): path for path in paths}
