"""What a call sends to an engine.  Does not depend on what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from pipelines.values.node_values import Deferred, PlacedImage, PooledOutputs, StreamChoice, Tensors, Tokens
from pipelines.wire.address import EngineAddress
from pipelines.wire.messages import ImageRows
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.update_queue import PendingReply, UpdateQueue
from pipelines.worker.engines.faces import RequestClient


class Origin(NamedTuple):
    """What a submission is a part of: the id of the HTTP request, and the path of the node."""

    name: str = ""
    path: str = ""


NO_ORIGIN = Origin()


@dataclass(slots=True, eq=False, kw_only=True)
class WithImages:
    """What may need the rows of images, which are to be there before it is sent.

    `sent_s` is when that was, by the monotonic clock.
    """

    origin: Origin = NO_ORIGIN
    sent_s: float = 0.0
    images: Deferred[PooledOutputs] | None = None
    held_images: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether all that it needs is there."""
        return self.images is None or self.held_images is not None

    def image_rows(self, placed: Sequence[Sequence[PlacedImage]]) -> ImageRows | None:
        """The images of each prompt, `placed` in it; None without any."""
        if self.held_images is None:
            return None
        places = [[(one.start, one.num_tokens, one.digest, one.grid) for one in each] for each in placed]
        return ImageRows(self.held_images, places)


@dataclass(slots=True, eq=False)
class TokenSubmission(WithImages):
    """Prompts for a generative engine: `n` choices of each.  `request_id` is None until they were sent.

    `context` is the id of the request whose held outputs they attend to, if they do.  `adapter` is a load
    number; 0: none.
    """

    address: EngineAddress
    prompts: list[Tokens]
    params: SamplingParams
    n: int
    cache_salt: str
    tenant: str = ""
    context: int | None = None
    adapter: int = 0
    update_queue: UpdateQueue = field(default_factory=UpdateQueue)
    request_id: int | None = None

    @property
    def num_choices(self) -> int:
        return len(self.prompts) * self.n

    @property
    def text_lengths(self) -> list[int]:
        """Tokens of each prompt."""
        return [len(prompt.ids) for prompt in self.prompts]

    @property
    def text_ids(self) -> list[list[int]]:
        """Token ids of each prompt."""
        return [prompt.ids for prompt in self.prompts]

    def choice(self, index: int) -> StreamChoice:
        """Choice `i * n + k` is the k-th of prompt i."""
        prompt = index // self.n
        return StreamChoice(index, self.prompts[prompt], prompt, self.params)

    def send(self, client: RequestClient) -> None:
        """Raises Unavailable without an engine, RequestError for prompts that are too long to send."""
        address = self.address
        self.request_id = client.submit(
            address.model,
            address.instance_id,
            address.node,
            [prompt.ids for prompt in self.prompts],
            self.params,
            update_queue=self.update_queue,
            n=self.n,
            cache_salt=self.cache_salt,
            tenant=self.tenant,
            context=self.context,
            images=self.image_rows([prompt.images for prompt in self.prompts]),
            adapter=self.adapter,
            name=self.origin.name,
        )

    def end(self, client: RequestClient) -> None:
        if self.request_id is not None:
            client.abort(self.request_id)


@dataclass(slots=True, eq=False)
class TensorSubmission(WithImages):
    """Tensors for an engine that replies once.  `request_id` is None until they were sent.

    `text_lengths`: the tokens of each text that they hold; [] where they hold none.  `hold`: the host holds
    what the engine gives until `end`.  `held` are further inputs: the ids of the requests whose outputs it
    holds.  `placed` are the images that each text shows.  `adapter` is a load number; 0: none.
    """

    address: EngineAddress
    inputs: Tensors
    outputs: list[str] | None
    text_lengths: Sequence[int] = ()
    tenant: str = ""
    hold: bool = False
    held: Mapping[str, int] = field(default_factory=dict)
    placed: Sequence[Sequence[PlacedImage]] = ()
    adapter: int = 0
    reply: PendingReply = field(default_factory=PendingReply)
    request_id: int | None = None

    @property
    def has_images(self) -> bool:
        return "names" in self.inputs

    @property
    def num_choices(self) -> int:
        """Each text counts as a choice."""
        return len(self.text_lengths) or 1

    @property
    def text_ids(self) -> list[list[int]]:
        """Token ids of each text."""
        ids = iter(self.inputs["ids"].tolist())
        return [list(islice(ids, length)) for length in self.text_lengths]

    def send(self, client: RequestClient) -> None:
        """Raises Unavailable without an engine, RequestError for tensors that cannot be sent."""
        address = self.address
        self.request_id = client.infer(
            address.model,
            address.instance_id,
            address.node,
            self.inputs,
            self.outputs,
            slot=self.reply,
            tenant=self.tenant,
            hold=self.hold,
            held=self.held,
            images=self.image_rows(self.placed),
            adapter=self.adapter,
            name=self.origin.name,
        )

    def end(self, client: RequestClient) -> None:
        if self.request_id is None:
            return
        if self.hold:
            self.hold = False
            client.release(self.request_id)
        else:
            client.abort(self.request_id)


Submission = TokenSubmission | TensorSubmission
