"""What nodes may use of their process, and what the processes may use of a node.

`Loading` and `Running` are all that a node sees of what loads and runs it.  The other Protocols are
capabilities: a node class that has one names it as a base class, and is found by its type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from graphs.graph import Binding
from graphs.node import Node
from pipelines.base.prepared_models import PreparedModels
from pipelines.nodes.line import Line
from pipelines.nodes.request_plan import RequestPlan
from pipelines.values.composed_values import WholeReply
from pipelines.values.node_values import Held, Tensors, Tokens
from pipelines.values.stream_values import Deferred, Stream, StreamChoice
from pipelines.values.text_images import TextImages
from pipelines.wire.address import EngineAddress
from pipelines.wire.messages import TokenUpdate
from pipelines.wire.sampling_params import SamplingParams

T = TypeVar("T")


class NamedGraph(Protocol):
    """The live graph of another model, run as a part of a call."""

    @property
    def max_context(self) -> int:
        """Tokens of prompt and output together."""

    @property
    def takes_long(self) -> bool:
        """Whether `run` may take so long that no event loop may wait for it."""

    @property
    def answering(self) -> Sequence[Line]:
        """The lines that make the reply."""

    def plan(self, request: Any) -> RequestPlan:
        """What its nodes need of each other for this request."""

    def check(self, request: Any, plan: RequestPlan) -> None:
        """Raise RequestError where one of its nodes cannot do what the plan holds."""

    def run(self, call: Running, request: Any) -> Any:
        """The value of its last line."""


class Loading(Protocol):
    """What a node may use while it loads."""

    @property
    def address(self) -> EngineAddress:
        """The node's own address in the engine host."""

    @property
    def max_context(self) -> int:
        """Tokens of prompt and output together; 0 where no bound is known."""

    @property
    def binding(self) -> Binding | None:
        """The node's own line of the graph."""

    @property
    def above(self) -> Mapping[str, Node]:
        """The live nodes of the lines before it."""

    @property
    def device(self) -> str | None:
        """Replaces the device that the graph names; None: the graph decides."""

    @property
    def prepared(self) -> PreparedModels | None:
        """What engines made of models before, and where it is stored; None: nothing is stored."""

    @property
    def pipeline(self) -> Callable[[str], NamedGraph] | None:
        """Finds the live graph of another model; None in the engine host."""

    def shared(self, open_file: Callable[..., T], path: Path, *settings: Any) -> T:
        """What `open_file(path, *settings)` returns, opened once for all nodes with the same arguments."""


class Running(Protocol):
    """What a node may use of the call it runs for."""

    @property
    def request(self) -> Any:
        """The request of the graph's task; frozen."""

    @property
    def model(self) -> str:
        """The name that the client requested."""

    @property
    def plan(self) -> RequestPlan:
        """What the later nodes need."""

    def submit(
        self,
        address: EngineAddress,
        prompts: list[Tokens],
        params: SamplingParams,
        context: Held | None = None,
        images: TextImages | None = None,
    ) -> Stream[TokenUpdate]:
        """Prepare prompts for a generative engine: `request.n` choices for each of them.

        Prompt i attends to text i of `context`, which this call has had held.  `images` are those of the
        prompts; they are sent once the rows of all images are there.
        """

    def infer(
        self,
        address: EngineAddress,
        inputs: Tensors,
        outputs: list[str] | None = None,
        text_lengths: Sequence[int] | None = None,
        hold: bool = False,
        held: Mapping[str, Held] | None = None,
        images: TextImages | None = None,
    ) -> Deferred[Tensors]:
        """Prepare tensors for an engine that replies once; `text_lengths` are the tokens of each text.

        `hold`: the rows that it gives stay in the engine host until the call ends.  `held`: further inputs,
        by name, which a call has had held and has not closed; their texts have the same number of rows.
        `images` are those that the texts show; they are sent once the rows of all images are there.
        """


@runtime_checkable
class Planning(Protocol):
    """A node that needs something of the nodes before it, or handles an optional field of the request."""

    def plan(self, request: Any) -> RequestPlan:
        """This node's part of the plan for one request; called before any node runs."""


@runtime_checkable
class Checking(Protocol):
    """A node that can refuse a request by its plan."""

    def check(self, request: Any, plan: RequestPlan) -> None:
        """Raise RequestError where this node cannot do what the plan holds; called before any node runs."""


@runtime_checkable
class ChecksFiles(Protocol):
    """A node type whose files `braid check` reads from end to end."""

    @classmethod
    def check_files(cls, config: Any, folder: Path) -> None:
        """Raises ValueError for files that are damaged, and OSError."""


@runtime_checkable
class HasNotes(Protocol):
    """A loaded node with something of its files that `braid check` shows."""

    def notes(self) -> Sequence[str]:
        """Lines for a person."""


@runtime_checkable
class NamesGraph(Protocol):
    """A node that runs the graph of another model, or of several."""

    @classmethod
    def names(cls, config: Any) -> Sequence[str]:
        """The names of the models in its settings."""

    def named_graphs(self) -> Sequence[NamedGraph]:
        """The live graphs.  Raises NotFound, and Unavailable while one is loading."""


class AskedReply(ABC):
    """The reply of another model to the request of a line: whole, or piece by piece.

    No Protocol: whether a value is one is asked several times for each request.
    """

    @property
    @abstractmethod
    def streams(self) -> bool:
        """Whether its reply comes in pieces, as `updates`; else it is an `answer`."""

    @property
    @abstractmethod
    def num_choices(self) -> int:
        """Choices of the reply."""

    @abstractmethod
    def updates(self) -> AsyncIterator[list[tuple[int, Any]]]:
        """What arrived since the last iteration: (choice, update) pairs; read once.  Raises BraidError."""

    @abstractmethod
    def choice(self, index: int) -> StreamChoice:
        """A choice of the stream, once its first update has come."""

    @abstractmethod
    def end_choice(self, index: int) -> None:
        """End one choice of the stream, whose updates are not read any more; the others run on."""

    @abstractmethod
    async def reply(self) -> WholeReply:
        """The first choice of a stream, joined; reads `updates` to their end."""

    @abstractmethod
    async def answer(self) -> Any:
        """The reply that comes whole.  Raises BraidError."""

    def parts(self) -> AsyncIterator[Any]:
        """The parts of a reply that comes in parts, as sound does.  Raises BraidError."""
        raise TypeError("this reply has no parts")

    @abstractmethod
    def hand_on(self) -> None:
        """From now on the updates go to the client, and are counted there."""


class Composer(Protocol):
    """What a node that asks other models may use of the call that it runs for."""

    @property
    def request(self) -> Any:
        """The request of the composed graph; frozen."""

    @property
    def is_result(self) -> bool:
        """Whether the reply of the node's line goes to the client: it is the last one, or the last one passes
        it on.
        """

    @property
    def tenant(self) -> str:
        """A digest of the client's API key, or of its session; "" where it has neither."""

    async def ask(self, graph: NamedGraph, request: Any) -> AskedReply:
        """Start a call of another model, for the same client and in the same trace.  It ends with the outer
        call at the latest.  Raises BraidError.
        """

    def pieces(self, stream: Stream[Any]) -> AskedReply:
        """The stream of another line, to be read piece by piece; once, and by a node that `reads_pieces`."""

    def hear(self, where: str, text: str) -> None:
        """Note for the endpoint what is said in a sound of the request, by its place in it."""

    def note(self, decision: str) -> None:
        """Record what the line decided, for metrics and traces: the model that it took, a refusal."""


@runtime_checkable
class Composing(Protocol):
    """A node that may ask other models by requests that are known while the graph runs.

    A graph with such a node is composed.  One that has a `run` too runs in plain graphs as well, and makes
    none composed.
    """

    compose: Callable[..., Awaitable[Any]]
    """Takes a `Composer` and the values of its inputs, those of streams and deferred values as well; gives
    the value of the line, which may be `AskedReply`."""

    reads_pieces: ClassVar[bool] = False
    """Whether a node takes its inputs as they are declared: streams as `Stream`, for `Composer.pieces`."""


@runtime_checkable
class HandingOn(Composing, Protocol):
    """A composing node that gives one model's reply, and knows at once which model gets which request."""

    handed_on: Callable[..., tuple[NamedGraph, Any]]
    """Takes what `compose` takes; gives the model and its request.  Waits for nothing."""


@runtime_checkable
class MarksMedia(Protocol):
    """A node that reads images or sounds of a conversation, which a prompt shows by marks."""

    def media_marks(self) -> Sequence[str]:
        """What a chat template writes where a message shows one; read when the node is loaded."""
