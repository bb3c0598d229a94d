"""The body of vLLM's generate: a prompt in token ids, and sampling parameters."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, StrictStr, ValidationError, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import CacheSalt, Items, Priority, RequestId, TokenIds
from pipelines.requests.fields.known_fields import NO_CACHE_MOVES, Refused, check_fields
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.requests.generation.generation_fields import StreamOptions

REFUSED: dict[str, Refused] = {
    "features": Refused("images of prompts in token ids are not supported"),
    "content_parts": Refused("images of prompts in token ids are not supported"),
    "kv_transfer_params": Refused(NO_CACHE_MOVES, ({},)),
    "ec_transfer_params": Refused(NO_CACHE_MOVES, ({},)),
}
OF_RENDERING = "what rendering a prompt gives beside its tokens"
IGNORED: dict[str, str] = {
    "token_offsets": OF_RENDERING,
    "reasoning_ended": OF_RENDERING,
    "reasoning_parser_kwargs": OF_RENDERING,
}
INTERNAL = ("output_kind", "skip_clone", "skip_reading_prefix_cache", "detokenize", "extra_args")
"""Parameters that are vLLM's own way of handling a request."""


class TokensRequest(DeferredModel):
    """`sampling_params` are fields of completions."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    refused: ClassVar[dict[str, Refused]] = REFUSED
    ignored: ClassVar[dict[str, str]] = IGNORED

    token_ids: Annotated[TokenIds, Field(min_length=1)]
    sampling_params: dict[str, Any]
    model: StrictStr | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    output_mode: Literal["tokens"] | None = None
    cache_salt: CacheSalt | None = None
    priority: Priority | None = None
    request_id: RequestId | None = None

    @model_validator(mode="after")
    def _check_other_fields(self) -> TokensRequest:
        """Raises RequestError."""
        check_fields(self.model_extra or {}, type(self).model_fields, self.refused, self.ignored)
        return self

    def completion(self) -> CompletionRequest:
        """The completion of the prompt.  Raises RequestError."""
        wanted = {name: value for name, value in self.sampling_params.items() if name not in INTERNAL}
        shared = ("model", "stream", "cache_salt", "priority", "request_id")
        fields = wanted | {name: getattr(self, name) for name in shared}
        if self.stream_options is not None:
            fields["stream_options"] = self.stream_options.model_dump(exclude_unset=True)
        fields |= {"prompt_token_ids": self.token_ids, "return_token_ids": self.return_token_ids}
        try:
            return CompletionRequest.model_validate(fields)
        except ValidationError as error:
            raise _inside(from_validation(error)) from None


def _inside(error: RequestError) -> RequestError:
    """An error of a sampling parameter, named by its place."""
    if error.field is not None:
        error.field = f"sampling_params.{error.field}"
    return error


class AbortRequest(DeferredModel):
    """The ids of requests, as replies and `X-Request-Id` have them."""

    request_ids: Items[StrictStr]
