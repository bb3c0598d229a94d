"""Body of Cohere's embed: texts, images or inputs, and the types of vectors that come back.

Knows nothing of HTTP or of models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import StrictStr

from pipelines.errors import RequestError
from pipelines.tasks import PoolingInput
from pipelines.values import Prompt
from server.generation.requests.field_types import MAX_TOKEN_ID, NumTokens, Whole
from server.generation.requests.known_fields import Refused
from server.pooling.requests.pooled import PooledRequest
from server.pooling.requests.shapes import check_number
from server.pooling.requests.text_inputs import Content
from server.pooling.requests.unsupported_fields import IGNORED, REFUSED, REFUSED_COHERE

VectorType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]
ONE_OF = "Exactly one of texts, images, or inputs must be provided, and it must be non-empty"


class EmbedRequest(PooledRequest):
    """Exactly one of `texts` and `inputs` holds something."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_COHERE
    ignored: ClassVar[Mapping[str, str]] = IGNORED

    texts: list[StrictStr] | None = None
    inputs: list[Content] | None = None
    input_type: StrictStr | None = None
    embedding_types: list[VectorType] | None = None
    output_dimension: Whole | None = None
    truncate: Literal["NONE", "START", "END"] | None = None
    max_tokens: NumTokens | None = None

    def embed(self, max_context: int, has_template: bool) -> PoolingInput:
        """What is asked of a model that reads `max_context` tokens of a text.

        `inputs` are conversations where the model has a template for them.  Raises RequestError.
        """
        given = self._conversations() if self.inputs and has_template else self._prompts()
        kept = self._kept_tokens(max_context)
        cut = {"truncate_prompt_tokens": kept, "truncate_left": self.truncate == "START"}
        wanted = {"dimensions": self.output_dimension, "purpose": self.input_type}
        return PoolingInput(**{**self.shared(), **given, **cut, **wanted})

    @property
    def types(self) -> list[str]:
        """In the order of the request, each once."""
        return list(dict.fromkeys(self.embedding_types or ["float"]))

    def check_input(self) -> None:
        """Raises RequestError unless there is exactly one kind of input, with something in it."""
        for name in ("truncate_prompt_tokens", "truncation_side"):
            if getattr(self, name) is not None:
                raise RequestError(f"`{name}`: {REFUSED_COHERE[name].reason}", field=name)
        if bool(self.texts) == bool(self.inputs):
            raise RequestError(ONE_OF)
        check_number(len(self.texts or self.inputs or ()), "texts" if self.texts else "inputs")

    def _kept_tokens(self, max_context: int) -> int | None:
        """Most tokens of a text that are kept; -1 for what the model can, None where nothing is cut."""
        few = self.max_tokens if (self.max_tokens or 0) < (max_context or MAX_TOKEN_ID) else None
        if self.truncate != "NONE":
            return few or -1
        if few is not None:
            raise RequestError(
                "`max_tokens` cuts texts, which `truncate` NONE forbids; use START or END", field="max_tokens"
            )
        return None

    def _prompts(self) -> dict[str, Any]:
        texts = self.texts or ["\n".join(parts) for parts in self._parts()]
        return {"prompts": [Prompt(text=text, add_special_tokens=True) for text in texts]}

    def _conversations(self) -> dict[str, Any]:
        talks = [[_message(parts)] for parts in self._parts()]
        return {"conversations": talks, "add_generation_prompt": False}

    def _parts(self) -> list[list[str]]:
        return [each.said_parts(f"inputs.{i}") for i, each in enumerate(self.inputs or [])]


def _message(parts: list[str]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in parts]}
