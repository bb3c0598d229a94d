"""The request body of Cohere's embed: texts or inputs, and the requested types of embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import MAX_TOKEN_ID, Items, NumTokens, Whole
from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.pooling.base_request import BasePoolingRequest
from pipelines.requests.pooling.input_parsing import check_number
from pipelines.requests.pooling.text_inputs import TextInput, texts_of
from pipelines.requests.pooling.unsupported_fields import IGNORED, REFUSED, REFUSED_COHERE
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import ImageInput, PoolingInput

VectorType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]
KINDS = ("texts", "images", "inputs")
ONE_OF = "Exactly one of texts, images, or inputs must be provided, and it must be non-empty"


class CohereEmbedRequest(BasePoolingRequest):
    """Exactly one of `texts`, `images` and `inputs` is not empty; `images` are URLs, of `data:` as a rule."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_COHERE
    ignored: ClassVar[Mapping[str, str]] = IGNORED

    texts: Items[StrictStr] | None = None
    images: Items[StrictStr] | None = None
    inputs: Items[TextInput] | None = None
    input_type: StrictStr | None = None
    embedding_types: Items[VectorType] | None = None
    output_dimension: Whole | None = None
    truncate: Literal["NONE", "START", "END"] | None = None
    max_tokens: NumTokens | None = None

    def embedding_input(self, max_context: int, has_template: bool) -> PoolingInput:
        """The input of a model with a context of `max_context` tokens.

        `inputs` become conversations when the model has a chat template, or one of them shows an image.
        Raises RequestError.
        """
        is_shown = self.inputs and (has_template or self.shows_images)
        texts = self._conversations() if self.images or is_shown else self._prompts()
        truncation = {
            "truncate_prompt_tokens": self._max_prompt_tokens(max_context),
            "truncate_left": self.truncate == "START",
        }
        options = {"dimensions": self.output_dimension, "purpose": self.input_type}
        return PoolingInput(**{**self.shared_fields(), **texts, **truncation, **options})

    @property
    def types(self) -> list[str]:
        """The requested types in order, without duplicates."""
        return list(dict.fromkeys(self.embedding_types or ["float"]))

    def check_input(self) -> None:
        """Raise RequestError unless exactly one kind of input is given and not empty."""
        for name in ("truncate_prompt_tokens", "truncation_side"):
            if getattr(self, name) is not None:
                raise RequestError(f"`{name}`: {REFUSED_COHERE[name].reason}", field=name)
        given = {name: each for name in KINDS if (each := getattr(self, name))}
        if len(given) != 1:
            raise RequestError(ONE_OF)
        for name, each in given.items():
            check_number(len(each), name)

    def find_image(self) -> bool:
        return bool(self.images) or any(each.shows_images for each in self.inputs or [])

    @property
    def shown_images(self) -> list[ImageInput]:
        shown: list[ImageInput] = self._conversations()["images"]
        return shown

    def _max_prompt_tokens(self, max_context: int) -> int | None:
        """`PoolingInput.truncate_prompt_tokens`: -1 for the model's context, None for no truncation."""
        limit = self.max_tokens if (self.max_tokens or 0) < (max_context or MAX_TOKEN_ID) else None
        if self.truncate != "NONE":
            return limit or -1
        if limit is not None:
            raise RequestError(
                "`max_tokens` truncates texts, which `truncate` NONE forbids; use START or END",
                field="max_tokens",
            )
        return None

    def _prompts(self) -> dict[str, Any]:
        read = (each.read(f"inputs.{i}", []) for i, each in enumerate(self.inputs or []))
        texts = self.texts or texts_of([*read])
        return {"prompts": [Prompt.of_text(text) for text in texts]}

    def _conversations(self) -> dict[str, Any]:
        """The conversations of `images`, or of `inputs`."""
        images = [ImageInput(url, "image", f"images.{i}") for i, url in enumerate(self.images or [])]
        contents = [[{"type": "image"}] for _ in images]
        for i, each in enumerate(self.inputs or []):
            contents.append(each.checked_parts(f"inputs.{i}", images))
        conversations = [[{"role": "user", "content": content}] for content in contents]
        return {"conversations": conversations, "images": images, "add_generation_prompt": None}
