"""How each family of vision models turns an image into pixels and tokens, from the model's own files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.nodes.images.dual_encoder import read_dual_encoder
from pipelines.nodes.images.gemma3 import read_gemma3
from pipelines.nodes.images.gemma4 import Gemma4, read_gemma4
from pipelines.nodes.images.idefics3 import read_idefics3
from pipelines.nodes.images.internvl import read_internvl
from pipelines.nodes.images.lfm2_vl import Lfm2VL, read_lfm2_vl
from pipelines.nodes.images.llava import read_llava
from pipelines.nodes.images.pixtral import Pixtral, read_pixtral
from pipelines.nodes.images.qwen_vl import QwenVL, read_qwen_vl
from pipelines.nodes.images.read_image import ReadImage

if TYPE_CHECKING:
    from PIL import Image


class ImageFamily(Protocol):
    """`token_id` stands for a part of an image in a prompt.

    `marks`: what a user's text must not become: what chat templates write in the place of an image, then
    others that stand for one.
    """

    @property
    def token_id(self) -> int: ...
    @property
    def marks(self) -> tuple[str, ...]: ...

    def read(self, image: Image.Image) -> ReadImage:
        """What the encoder reads of an image in RGB, and what the prompt has of it."""


Fields = Mapping[str, Any]
FAMILIES: dict[str, Callable[[Fields, Fields], ImageFamily]] = {
    "clip": read_dual_encoder,
    "gemma3": read_gemma3,
    "gemma4": read_gemma4,
    "idefics3": read_idefics3,
    "internvl_chat": read_internvl,
    "lfm2_vl": read_lfm2_vl,
    "llava": read_llava,
    "pixtral": read_pixtral,
    "siglip": read_dual_encoder,
    "smolvlm": read_idefics3,
    "qwen2_vl": read_qwen_vl,
    "qwen2_5_vl": read_qwen_vl,
    "qwen3_vl": read_qwen_vl,
}
"""`model_type` → its family, from config.json and preprocessor_config.json."""


def is_in_order(family: ImageFamily) -> bool:
    """Whether the tokens of an image that keeps its shape have consecutive positions, as those of text."""
    return isinstance(family, (Gemma4, Lfm2VL, Pixtral))


def at_most(family: ImageFamily, num_tokens: int) -> ImageFamily:
    """A family whose images have at most `num_tokens` tokens.  Raises ValueError where the model sets it."""
    if not isinstance(family, QwenVL):
        raise ValueError("max_image_tokens: the model itself sets how many tokens an image has; remove it")
    return family.at_most(num_tokens)


def read_family(config: Path, settings: Path) -> ImageFamily:
    """Raises ValueError, which names the file, for a model whose images would be read wrong."""
    model, pixels = _object(config), _object(settings)
    kind = model.get("model_type")
    if kind not in FAMILIES:
        raise ValueError(
            f"{config}: images of models of type {kind} are not read; known: {', '.join(FAMILIES)}"
        )
    try:
        return FAMILIES[str(kind)](model, pixels)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{config} with {settings.name}: {error}") from error


def _object(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"{path} holds no JSON object")
    return fields
