"""The speak node: a reply is spoken by a voice while it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from graphs.graph import Graph, PortsBySettings
from graphs.node import NodeConfig, Port
from pipelines.base.errors import EngineError
from pipelines.nodes.composing.spoken_reply import SpokenReply
from pipelines.nodes.interface import AskedReply, Composer, Composing
from pipelines.nodes.naming import NamesOne, nodes_of, task_of
from pipelines.nodes.voice.phonemes import Phonemes
from pipelines.nodes.voice.voice_settings import VoiceSettings
from pipelines.values.reply_values import ReplyUpdate
from pipelines.values.stream_values import Stream
from pipelines.values.tasks import SPEEDS, TASKS, SpeakInput


class Speak(NamesOne, PortsBySettings, Composing):
    """Speaks a reply where the client wants sound, as of `/v1/realtime`; other clients get its text alone.

    The text goes on as it is written. Each sentence is spoken as soon as it is whole, by an ordinary request
    to a voice, while the next ones are written; no more is spoken ahead than the client reads. The reply ends
    with its last sound. Reasoning, calls of tools and the marks of Markdown are not spoken.
    """

    class Config(NodeConfig):
        graph: str = Field(description="name of a voice of the repository, a model whose task is `speak`")
        voice: str | None = Field(
            default=None, description="one of its voices, where the client names none; default: its first"
        )
        speed: float = Field(
            default=1.0,
            ge=SPEEDS[0],
            le=SPEEDS[1],
            description="of speech, in parts of the voice's own speed",
        )
        longest: int = Field(
            default=300, ge=40, le=2000, description="characters spoken at once; a longer sentence is cut"
        )

    reads_pieces = True

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The reply of a chat, and that of the graph that is named must be speech."""
        task_of(graph, config.graph, ("speak",), "graph")
        return {"reply": Port(TASKS["chat"].reply, optional=False)}, TASKS["chat"].reply

    @property
    def voices(self) -> VoiceSettings:
        """The settings of the voice.  Raises NotFound, and Unavailable while it is loading."""
        for node in nodes_of(self.named_graph()):
            if isinstance(node, Phonemes):
                return node.settings
        raise EngineError(f"`{self.config.graph}` has no line of the type `phonemes`")

    async def compose(self, call: Composer, reply: Stream[ReplyUpdate]) -> AskedReply:
        asked, form = call.pieces(reply), getattr(call.request, "spoken", None)
        if form is None:
            return asked
        voice = self.voices.voice(form.voice or self.config.voice)
        speed = min(max(form.speed * self.config.speed, SPEEDS[0]), SPEEDS[1])

        async def say(text: str) -> AskedReply:
            return await call.ask(self.named_graph(), SpeakInput(text, voice, speed))

        return SpokenReply(asked, say, self.config.longest)
