"""What a worker has an engine do: each struct is built once, by the call, and travels as it is.

A field that a request gets is a field here, and a line where the call fills it.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pipelines.wire.address import EngineAddress
from pipelines.wire.sampling_params import SamplingParams

NOT_SENT = 0
"""The id of a request until it is sent; the ids of requests begin with 1."""


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """Names the client whose request it is.

    `name` is the id of the HTTP request, which several may have.  `tenant` is a digest of the API key or
    session that it came with: tenants take turns.
    """

    name: str = ""
    tenant: str = ""


NO_ORIGIN = Origin()


class TokenRequest(msgspec.Struct, frozen=True, array_like=True):
    """`n` choices for each prompt of token ids; choice `i * n + k` is the k-th of prompt i.

    Prefixes are shared only between requests of equal `cache_salt`.
    """

    prompts: list[list[int]]
    params: SamplingParams
    n: int = 1
    cache_salt: str = ""
    origin: Origin = NO_ORIGIN


class ImageEmbeds(msgspec.Struct, frozen=True, array_like=True):
    """The images of the prompts of a Submit, or of the texts of a SubmitTensors: their embeddings are
    the outputs that the host holds of `request_id`, one after another; `images[i]` are those of prompt i:
    first token, number of tokens, digest, and where the model's positions depend on them the rows and columns
    of its tokens.
    """

    request_id: int
    images: list[list[tuple[int, int, bytes, tuple[int, int] | None]]]


class Tensor(msgspec.Struct, frozen=True, array_like=True):
    """One array: `dtype` is a name of `pipelines.base.element_types`, `data` its elements row by row.

    Numbers are in the machine's byte order, strings as in `pipelines.wire.string_tensors`.
    """

    name: str
    dtype: str
    shape: list[int]
    data: bytes


class Submit(msgspec.Struct, frozen=True, array_like=True, tag="submit"):
    """Worker to host: generate what `request` asks for at an engine node.

    `context` is the id of the SubmitTensors whose outputs are held: prompt i attends to those of its text i.
    `adapter` is the load number of one of the model's; 0: none.  `request_id` is unique on its connection.
    """

    address: EngineAddress
    request: TokenRequest
    context: int | None = None
    images: ImageEmbeds | None = None
    adapter: int = 0
    request_id: int = NOT_SENT

    long_part: ClassVar[str] = "prompts"

    @property
    def origin(self) -> Origin:
        return self.request.origin

    @property
    def num_choices(self) -> int:
        """Choices of all prompts together."""
        return len(self.request.prompts) * self.request.n

    @property
    def refers_to(self) -> list[int]:
        """The requests whose held outputs it reads."""
        context = [] if self.context is None else [self.context]
        return [*_held_requests(self.images), *context]


class SubmitTensors(msgspec.Struct, frozen=True, array_like=True, tag="infer"):
    """Worker to host: run tensors through an engine node; `Inferred` replies.

    `outputs` None is all.
    `hold`: the vectors of tokens that it gives stay in the host until Abort, or until the worker is gone; the
    reply has their `lengths`, and the id in `held`.
    `held`: further inputs, which the host holds: their names → the requests whose vectors they are, of which
    each text has as many.
    `adapter` is the load number of one of the model's; 0: none.  `request_id` is from the same numbers as
    that of Submit, and Abort cancels it.
    """

    address: EngineAddress
    inputs: list[Tensor] = []
    outputs: list[str] | None = None
    origin: Origin = NO_ORIGIN
    hold: bool = False
    held: dict[str, int] = {}
    images: ImageEmbeds | None = None
    adapter: int = 0
    request_id: int = NOT_SENT

    long_part: ClassVar[str] = "names of the tensors"
    num_choices: ClassVar[int] = 1

    @property
    def refers_to(self) -> list[int]:
        """The requests whose held outputs it reads."""
        return [*_held_requests(self.images), *self.held.values()]


def _held_requests(images: ImageEmbeds | None) -> list[int]:
    return [] if images is None else [images.request_id]
