"""The request body of Cohere's embed: texts or inputs, and the requested types of embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import StrictStr

from pipelines.errors import RequestError
from pipelines.tasks import PoolingInput
from pipelines.values import Prompt
from server.generation.requests.field_types import MAX_TOKEN_ID, Items, NumTokens, Whole
from server.generation.requests.known_fields import Refused
from server.pooling.requests.base_request import BasePoolingRequest
from server.pooling.requests.input_parsing import check_number
from server.pooling.requests.text_inputs import TextInput
from server.pooling.requests.unsupported_fields import IGNORED, REFUSED, REFUSED_COHERE

VectorType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]
ONE_OF = "Exactly one of texts, images, or inputs must be provided, and it must be non-empty"


class CohereEmbedRequest(BasePoolingRequest):
    """Exactly one of `texts` and `inputs` is not empty."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_COHERE
    ignored: ClassVar[Mapping[str, str]] = IGNORED

    texts: Items[StrictStr] | None = None
    inputs: Items[TextInput] | None = None
    input_type: StrictStr | None = None
    embedding_types: Items[VectorType] | None = None
    output_dimension: Whole | None = None
    truncate: Literal["NONE", "START", "END"] | None = None
    max_tokens: NumTokens | None = None

    def embedding_input(self, max_context: int, has_template: bool) -> PoolingInput:
        """The input of a model with a context of `max_context` tokens.

        `inputs` become conversations when the model has a chat template.  Raises RequestError.
        """
        texts = self._conversations() if self.inputs and has_template else self._prompts()
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
        if bool(self.texts) == bool(self.inputs):
            raise RequestError(ONE_OF)
        check_number(len(self.texts or self.inputs or ()), "texts" if self.texts else "inputs")

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
        texts = self.texts or ["\n".join(parts) for parts in self._parts()]
        return {"prompts": [Prompt(text=text, add_special_tokens=True) for text in texts]}

    def _conversations(self) -> dict[str, Any]:
        conversations = [[_message(parts)] for parts in self._parts()]
        return {"conversations": conversations, "add_generation_prompt": False}

    def _parts(self) -> list[list[str]]:
        return [each.text_parts(f"inputs.{i}") for i, each in enumerate(self.inputs or [])]


def _message(parts: list[str]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in parts]}
