"""A toy vocabulary: enough node types and tasks to make every shape of graph, and none that computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NewType, TypeVar

from pydantic import Field

from graphs.check import TaskContract
from graphs.node import BodyContract, FilePath, Node, NodeConfig, Port

if TYPE_CHECKING:
    from somewhere import Call  # a name that is never imported: the checker must not need it

T = TypeVar("T")
Text = NewType("Text", str)


class Stream(Generic[T]):
    pass


@dataclass
class Ask:
    messages: list[str]
    query: str
    documents: list[str]


@dataclass
class Tokens:
    ids: list[int]


class Reply:
    pass


class Step:
    pass


class Logits:
    pass


class Sampled:
    pass


class ChatTemplate(Node):
    """Renders the conversation.

    More words that a schema has no room for.
    """

    class Config(NodeConfig):
        template: FilePath

    def run(self, call: Call, request: Ask) -> Text:
        raise NotImplementedError


class Tokenize(Node):
    """Text to ids."""

    class Config(NodeConfig):
        tokenizer: FilePath
        max_tokens: int | None = None

    def run(self, call: Call, text: str) -> list[Tokens]:
        raise NotImplementedError


class Pairs(Node):
    """A query against each document."""

    def run(self, query: str, documents: list[str], instruction: str = "") -> list[Tokens]:
        raise NotImplementedError


class Cache(NodeConfig):
    memory_gb: float | None = None
    renamed = {"prefixes": "reuse_prefixes"}

    reuse_prefixes: bool = True


class Part(NodeConfig):
    file: FilePath


class Scheduler(Node):
    """A loop."""

    place = "engine"
    body = BodyContract(root="step", gives=Step, result=Sampled)

    class Config(NodeConfig):
        renamed = {"max_batch": "max_sequences"}

        max_sequences: int = 64
        cache: Cache = Cache()

    def run(self, call: Call, prompts: list[Tokens]) -> Stream[list[int]]:
        raise NotImplementedError


class Model(Node):
    """An exported model."""

    place = "step"

    class Config(NodeConfig):
        path: FilePath
        device: Literal["cpu", "cuda"] = "cpu"
        precision: str = Field(default="f32", pattern="^(f32|f16)$", description="f32 or f16")
        threads: int = Field(default=1, ge=1)
        extra: FilePath | None = None
        parts: list[Part] = []

    def run(self, step: Step) -> Logits:
        raise NotImplementedError


class Mask(Node):
    """Reads two values of the body."""

    place = "step"

    def run(self, logits: Logits, step: Step) -> Logits:
        raise NotImplementedError


class Sampler(Node):
    """Chooses."""

    place = "step"

    def run(self, logits: Logits) -> Sampled:
        raise NotImplementedError


class Detokenize(Node):
    """Ids to text."""

    def run(self, generated: Stream[list[int]]) -> Stream[str]:
        raise NotImplementedError


class Parse(Node):
    """Text to a reply."""

    class Config(NodeConfig):
        reasoning: str | None = None
        tools: str | int | None = None

    def run(self, text: Stream[str]) -> Reply:
        raise NotImplementedError


class GraphNode(Node):
    """Another graph."""

    class Config(NodeConfig):
        graph: str

    @classmethod
    def ports_for(cls, config: Any, graphs: Any) -> tuple[dict[str, Port], Any]:
        other = graphs(config.graph)
        return {"request": Port(other.request, False)}, other.reply

    def run(self, request: Any) -> Any:
        raise NotImplementedError


NODE_TYPES: dict[str, type[Node]] = {
    "chat_template": ChatTemplate,
    "tokenize": Tokenize,
    "pairs": Pairs,
    "scheduler": Scheduler,
    "model": Model,
    "mask": Mask,
    "sampler": Sampler,
    "detokenize": Detokenize,
    "parse": Parse,
    "graph": GraphNode,
}

TASKS = {
    "chat": TaskContract(request=Ask, reply=Reply),
    "tokens": TaskContract(request=Ask, reply=list[Tokens]),
    "text": TaskContract(request=Ask, reply=Text),
}

CHAT = """\
version: 1
task: chat
nodes:
  prompt: {type: chat_template, template: model/chat_template.jinja}
  tokens: {type: tokenize, from: prompt, tokenizer: model/tokenizer.json}
  generated:
    type: scheduler
    from: tokens
    max_sequences: 128
    cache: {memory_gb: 4, reuse_prefixes: true}
    body:
      logits: {type: model, from: step, path: model/model.xml, device: cpu}
      next: {type: sampler, from: logits}
  text: {type: detokenize, from: generated}
  reply: {type: parse, from: text, reasoning: qwen3}
"""

FILES = ("model/chat_template.jinja", "model/tokenizer.json", "model/model.xml")
