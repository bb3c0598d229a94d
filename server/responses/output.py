"""The items of an output, each a machine: told what the model said, it gives the events that tell the client.

An event is a dict with its `type`; the machine of the whole response numbers it.  Knows nothing of
requests, of the store or of how events become bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from pipelines.values import TextLogprob
from server.generation.replies.logprobs import chat_logprobs

Event = dict[str, Any]


def event(kind: str, **fields: Any) -> Event:
    return {"type": f"response.{kind}", **fields}


class OutputItem:
    """One item while it is said: `begin`, pieces, `end`.  `item` is it so far."""

    prefix = ""

    def __init__(self, output_index: int, **fields: Any) -> None:
        self.output_index = output_index
        self.id = f"{self.prefix}_{uuid4().hex}"
        self.item: dict[str, Any] = {"id": self.id, **fields, "status": "in_progress"}
        self._pieces: list[str] = []

    def begin(self) -> Iterator[Event]:
        yield event("output_item.added", output_index=self.output_index, item=_copy(self.item))

    def end(self, status: str) -> Iterator[Event]:
        yield from self._done("".join(self._pieces))
        self.item["status"] = status
        yield event("output_item.done", output_index=self.output_index, item=_copy(self.item))

    def _done(self, text: str) -> Iterator[Event]:
        """The item is complete: keep its text, and say so."""
        raise NotImplementedError

    def _at(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.output_index}


class Spoken(OutputItem):
    """An item with one part of text."""

    name = ""
    """Its events are `<name>.delta` and `<name>.done`."""

    def begin(self) -> Iterator[Event]:
        yield from super().begin()
        yield event("content_part.added", **self._at(), content_index=0, part=self._part(""))

    def _part(self, text: str) -> dict[str, Any]:
        raise NotImplementedError

    def _extra(self, logprobs: Sequence[TextLogprob]) -> dict[str, Any]:
        """What its events carry beside the text."""
        return {}

    def _all_extra(self) -> dict[str, Any]:
        return {}

    def say(self, text: str, logprobs: Sequence[TextLogprob] = ()) -> Event:
        self._pieces.append(text)
        extra = self._extra(logprobs)
        return event(f"{self.name}.delta", **self._at(), content_index=0, delta=text, **extra)

    def _done(self, text: str) -> Iterator[Event]:
        part = self._part(text)
        self.item["content"] = [part]
        yield event(f"{self.name}.done", **self._at(), content_index=0, text=text, **self._all_extra())
        yield event("content_part.done", **self._at(), content_index=0, part=part)


class Message(Spoken):
    """What the model says to the client."""

    prefix, name = "msg", "output_text"

    def __init__(self, output_index: int) -> None:
        super().__init__(output_index, type="message", role="assistant", content=[], phase=None)
        self._logprobs: list[dict[str, Any]] = []

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(self._logprobs)}

    def _extra(self, logprobs: Sequence[TextLogprob]) -> dict[str, Any]:
        said = chat_logprobs(logprobs).model_dump(exclude_unset=True)["content"] if logprobs else []
        self._logprobs += said
        return {"logprobs": said}

    def _all_extra(self) -> dict[str, Any]:
        return {"logprobs": list(self._logprobs)}


class Thought(Spoken):
    """What the model says to itself."""

    prefix, name = "rs", "reasoning_text"

    def __init__(self, output_index: int) -> None:
        super().__init__(output_index, type="reasoning", summary=[], content=[], encrypted_content=None)

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "reasoning_text", "text": text}


class FunctionCall(OutputItem):
    """A function that the model wants called."""

    prefix = "fc"

    def __init__(self, output_index: int, index: int, call_id: str, name: str) -> None:
        self.index = index
        unused: dict[str, Any] = {"async": None, "caller": None, "namespace": None}
        super().__init__(
            output_index, type="function_call", call_id=call_id, name=name, arguments="", **unused
        )

    def say(self, arguments: str) -> Event:
        self._pieces.append(arguments)
        return event("function_call_arguments.delta", **self._at(), delta=arguments)

    def _done(self, text: str) -> Iterator[Event]:
        self.item["arguments"] = text
        name = self.item["name"]
        yield event("function_call_arguments.done", **self._at(), arguments=text, name=name)


def _copy(item: dict[str, Any]) -> dict[str, Any]:
    """The item as it is now; its parts are never changed in place."""
    return dict(item)
