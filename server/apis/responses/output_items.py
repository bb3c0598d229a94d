"""The output items of a response: each collects the model's text and returns the events about itself.

An event is a dict with its `type`; `ResponseEvents` numbers it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar
from uuid import uuid4

from pipelines.values.reply_values import Citation, TextLogprob
from server.apis.generation.replies.citations import url_of
from server.apis.generation.replies.logprobs import chosen_logprobs
from server.apis.responses.argument_text import ArgumentText
from server.apis.responses.built_in_tools import APPLY_PATCH, BUILT_IN, LOCAL_SHELL, SHELL, arguments_of
from server.apis.responses.compaction import sealed
from server.apis.responses.tools import CUSTOM, FUNCTION, SEARCH, DeclaredTool

Event = dict[str, Any]


def make_event(kind: str, **fields: Any) -> Event:
    return {"type": f"response.{kind}", **fields}


class OutputItem:
    """One item while it is generated: `start`, `add` per piece, `end`.  `item` is its current state."""

    prefix = ""

    def __init__(self, output_index: int, **fields: Any) -> None:
        self.output_index = output_index
        self.id = f"{self.prefix}_{uuid4().hex}"
        self.item: dict[str, Any] = {"id": self.id, **fields, "status": "in_progress"}
        self._pieces: list[str] = []

    def start(self) -> Iterator[Event]:
        yield make_event("output_item.added", output_index=self.output_index, item=_copy(self.item))

    def end(self, status: str) -> Iterator[Event]:
        yield from self._done("".join(self._pieces))
        self.item["status"] = status
        yield make_event("output_item.done", output_index=self.output_index, item=_copy(self.item))

    def _done(self, text: str) -> Iterator[Event]:
        """Put the complete text into `item`; the events about it."""
        raise NotImplementedError

    def _position(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.output_index}


class OutputText(OutputItem):
    """An item with one content part of text."""

    event_name = ""
    """The name of its events: `<event_name>.delta` and `<event_name>.done`."""

    def start(self) -> Iterator[Event]:
        yield from super().start()
        yield make_event("content_part.added", **self._position(), content_index=0, part=self._part(""))

    def _part(self, text: str) -> dict[str, Any]:
        raise NotImplementedError

    def _extra(self, logprobs: Sequence[TextLogprob]) -> dict[str, Any]:
        """Fields of its delta events besides the text."""
        return {}

    def _total_extra(self) -> dict[str, Any]:
        return {}

    def add(self, text: str, logprobs: Sequence[TextLogprob] = ()) -> Event:
        self._pieces.append(text)
        extra = self._extra(logprobs)
        return make_event(
            f"{self.event_name}.delta", **self._position(), content_index=0, delta=text, **extra
        )

    def _done(self, text: str) -> Iterator[Event]:
        part = self._part(text)
        self.item["content"] = [part]
        yield make_event(
            f"{self.event_name}.done", **self._position(), content_index=0, text=text, **self._total_extra()
        )
        yield make_event("content_part.done", **self._position(), content_index=0, part=part)


class OutputMessage(OutputText):
    """The model's message to the client."""

    prefix, event_name = "msg", "output_text"

    def __init__(self, output_index: int) -> None:
        super().__init__(output_index, type="message", role="assistant", content=[])
        self._logprobs: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []

    def cite(self, citations: Iterable[Citation]) -> Iterator[Event]:
        """The events of passages that its text names."""
        for citation in citations:
            annotation = _annotation(citation)
            yield make_event(
                "output_text.annotation.added",
                **self._position(),
                content_index=0,
                annotation_index=len(self._annotations),
                annotation=annotation,
            )
            self._annotations.append(annotation)

    def _part(self, text: str) -> dict[str, Any]:
        annotations, logprobs = list(self._annotations), list(self._logprobs)
        return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}

    def _extra(self, logprobs: Sequence[TextLogprob]) -> dict[str, Any]:
        encoded = list(chosen_logprobs(logprobs))
        self._logprobs += encoded
        return {"logprobs": encoded}

    def _total_extra(self) -> dict[str, Any]:
        return {"logprobs": list(self._logprobs)}


def _annotation(citation: Citation) -> dict[str, Any]:
    """A passage that a text names: of an address, or of a file."""
    passage = citation.passage
    if (url := url_of(passage)) is not None:
        place = {"start_index": citation.start, "end_index": citation.end}
        return {"type": "url_citation", "url": url, "title": passage.heading or passage.document, **place}
    named = {"file_id": passage.document, "filename": passage.document}
    return {"type": "file_citation", **named, "index": citation.number - 1}


class OutputReasoning(OutputText):
    """The model's reasoning."""

    prefix, event_name = "rs", "reasoning_text"

    def __init__(self, output_index: int) -> None:
        super().__init__(output_index, type="reasoning", summary=[], content=[])

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "reasoning_text", "text": text}


class OutputCall(OutputItem):
    """A call of a tool that the client runs, the `index`-th of the reply."""

    unused: ClassVar[dict[str, Any]] = {"async": None, "caller": None}

    def __init__(self, output_index: int, index: int, call_id: str, tool: DeclaredTool) -> None:
        self.index = index
        super().__init__(output_index, call_id=call_id, **self._fields(tool))

    def _fields(self, tool: DeclaredTool) -> dict[str, Any]:
        raise NotImplementedError

    def add(self, arguments: str) -> Iterator[Event]:
        """The events of a piece of the call's arguments, JSON."""
        self._pieces.append(arguments)
        yield from ()


class OutputFunctionCall(OutputCall):
    """A function call of the model."""

    prefix = "fc"

    def _fields(self, tool: DeclaredTool) -> dict[str, Any]:
        named = {"name": tool.name, "arguments": "", "namespace": tool.namespace}
        return {"type": "function_call", **named, **self.unused}

    def add(self, arguments: str) -> Iterator[Event]:
        yield from super().add(arguments)
        yield make_event("function_call_arguments.delta", **self._position(), delta=arguments)

    def _done(self, text: str) -> Iterator[Event]:
        self.item["arguments"] = text
        name = self.item["name"]
        yield make_event("function_call_arguments.done", **self._position(), arguments=text, name=name)


class OutputCustomCall(OutputCall):
    """A call of a custom tool: its input is the text in the arguments."""

    prefix = "ctc"

    def __init__(self, output_index: int, index: int, call_id: str, tool: DeclaredTool) -> None:
        super().__init__(output_index, index, call_id, tool)
        self._text = ArgumentText()

    def _fields(self, tool: DeclaredTool) -> dict[str, Any]:
        named = {"name": tool.name, "input": "", "namespace": tool.namespace}
        return {"type": "custom_tool_call", **named, **self.unused}

    def add(self, arguments: str) -> Iterator[Event]:
        yield from self._delta(self._text.push(arguments))

    def _delta(self, text: str) -> Iterator[Event]:
        if text:
            yield make_event("custom_tool_call_input.delta", **self._position(), delta=text)

    def _done(self, text: str) -> Iterator[Event]:
        yield from self._delta(self._text.finish())
        self.item["input"] = self._text.text
        yield make_event("custom_tool_call_input.done", **self._position(), input=self._text.text)


class OutputSearchCall(OutputCall):
    """A search for tools; its arguments are an object."""

    prefix = "tsc"

    def _fields(self, tool: DeclaredTool) -> dict[str, Any]:
        return {"type": "tool_search_call", "execution": "client", "arguments": {}}

    def _done(self, text: str) -> Iterator[Event]:
        try:
            self.item["arguments"] = json.loads(text or "{}")
        except ValueError:  # cut short
            self.item["arguments"] = text
        yield from ()


class OutputBuiltInCall(OutputCall):
    """A call of one of OpenAI's tools that the client runs: its item has fields of its own."""

    prefix = "btc"

    def _fields(self, tool: DeclaredTool) -> dict[str, Any]:
        self._tool = BUILT_IN[tool.kind]
        return {"type": f"{tool.kind}_call", **self._tool.call({})}

    def _done(self, text: str) -> Iterator[Event]:
        self.item |= self._tool.call(arguments_of(text))
        yield from ()


class OutputPatchCall(OutputBuiltInCall):
    """A patch of a file; one that is cut off is never completed, which has no other word."""

    def end(self, status: str) -> Iterator[Event]:
        yield from super().end("in_progress" if status == "incomplete" else status)


class OutputCompaction(OutputItem):
    """The summary that stands for the conversation, which clients do not read."""

    prefix = "cmp"

    def __init__(self, output_index: int) -> None:
        super().__init__(output_index, type="compaction", encrypted_content="")

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def _done(self, text: str) -> Iterator[Event]:
        self.item["encrypted_content"] = sealed(text.strip())
        yield from ()


OUTPUT_CALLS: dict[str, type[OutputCall]] = {
    FUNCTION: OutputFunctionCall,
    CUSTOM: OutputCustomCall,
    SEARCH: OutputSearchCall,
    SHELL: OutputBuiltInCall,
    LOCAL_SHELL: OutputBuiltInCall,
    APPLY_PATCH: OutputPatchCall,
}
"""Kind of a tool → the item of its calls."""


def _copy(item: dict[str, Any]) -> dict[str, Any]:
    """A shallow copy: parts of an item are never changed in place."""
    return dict(item)
