"""What a call sends to an engine.  Does not depend on what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from pipelines.values.node_values import Tensors, Tokens
from pipelines.values.stream_values import StreamChoice
from pipelines.values.text_images import TextImages
from pipelines.wire.requests import ImageEmbeds, Submit, SubmitTensors
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.tensor_codec import pack
from pipelines.wire.update_queue import PendingReply, UpdateQueue
from pipelines.worker.engines.faces import RequestClient

Message = TypeVar("Message", Submit, SubmitTensors)


@dataclass(slots=True, eq=False, kw_only=True)
class WithImages:
    """What may need the embeddings of images, which are to be there before it is sent.

    `path` is that of the node that it is of.  It was sent at `sent_s` of the monotonic clock; `request_id` is
    None until then.  `held_images` is the request whose outputs the embeddings are.
    """

    path: str = ""
    images: TextImages | None = None
    held_images: int | None = None
    request_id: int | None = None
    sent_s: float = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether all that it needs is there."""
        return self.images is None or self.held_images is not None

    def with_embeddings(self, message: Message) -> Message:
        """The message with the embeddings of the images, if there are any."""
        if self.images is None or self.held_images is None:
            return message
        placed = self.images.placed
        places = [[(one.start, one.num_tokens, one.digest, one.grid) for one in each] for each in placed]
        return replace(message, images=ImageEmbeds(self.held_images, places))


@dataclass(slots=True, eq=False)
class TokenSubmission(WithImages):
    """Prompts for a generative engine, as text and in the message."""

    message: Submit
    prompts: list[Tokens]
    update_queue: UpdateQueue = field(default_factory=UpdateQueue)

    @property
    def n(self) -> int:
        return self.message.request.n

    @property
    def params(self) -> SamplingParams:
        return self.message.request.params

    @property
    def num_choices(self) -> int:
        return self.message.num_choices

    @property
    def text_lengths(self) -> list[int]:
        """Tokens of each prompt."""
        return [len(ids) for ids in self.text_ids]

    @property
    def text_ids(self) -> list[list[int]]:
        """Token ids of each prompt."""
        return self.message.request.prompts

    def choice(self, index: int) -> StreamChoice:
        """Choice `i * n + k` is the k-th of prompt i."""
        prompt = index // self.n
        return StreamChoice(index, self.prompts[prompt], prompt, self.params)

    def send(self, client: RequestClient) -> None:
        """Raises Unavailable without an engine, RequestError for prompts that are too long to send."""
        self.request_id = client.submit(self.with_embeddings(self.message), self.update_queue)

    def end(self, client: RequestClient) -> None:
        if self.request_id is not None:
            client.abort(self.request_id)


@dataclass(slots=True, eq=False)
class TensorSubmission(WithImages):
    """Tensors for an engine that replies once; the message gets copies of them when it is sent.

    `text_lengths`: the tokens of each text that they hold; [] where they hold none.  What the host holds of
    a message with `hold` is its until `end`.
    """

    message: SubmitTensors
    inputs: Tensors
    text_lengths: Sequence[int] = ()
    reply: PendingReply = field(default_factory=PendingReply)
    has_ended: bool = False

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
        message = replace(self.message, inputs=pack("inputs", self.inputs))
        self.request_id = client.submit(self.with_embeddings(message), self.reply)

    def end(self, client: RequestClient) -> None:
        if self.request_id is None:
            return
        if self.message.hold and not self.has_ended:
            client.release(self.request_id)
        else:
            client.abort(self.request_id)
        self.has_ended = True


Submission = TokenSubmission | TensorSubmission
