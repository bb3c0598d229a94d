"""Chats and completions from Python: opens their calls and joins what comes to replies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from pipelines.base.cancellation import ClientGone
from pipelines.local.engine import LocalEngine, LocalRequest
from pipelines.local.replies import ReplyPiece, RequestedCall, TextChoice, TextReply, TokenCounts
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.values.reply_values import ReplyUpdate, TextUpdate, ToolCallPiece
from pipelines.wire.token_piece import PieceLogprobs
from pipelines.worker.call import Call
from pipelines.worker.model_choice import TEXT
from pipelines.worker.required_nodes import check_chat, check_completion

TextBody = ChatRequest | CompletionRequest
TextLike = ReplyUpdate | TextUpdate


async def read_text(engine: LocalEngine, body: TextBody) -> TextReply:
    """The whole reply.  Raises BraidError."""
    with LocalRequest() as request:
        running = await open_text(engine, body, request)
        async for _ in running.pieces():
            pass
        return running.reply


async def open_text(engine: LocalEngine, body: TextBody, request: LocalRequest) -> RunningText:
    """A call that generates text.  Raises BraidError."""
    pipeline = await engine.find(body.model, TEXT, request)
    if isinstance(body, ChatRequest):
        check_chat(pipeline, body.calls_tools)
    else:
        check_completion(pipeline)
    call = await engine.begin(pipeline, lambda: body.generation(pipeline.max_context), request)
    parallel = not isinstance(body, ChatRequest) or body.parallel_tool_calls is not False
    return RunningText(call, pipeline.name, body.num_choices, parallel)


class RunningText:
    """A call that generates text, and what has come of each of its choices."""

    def __init__(self, call: Call, model: str, num_choices: int, parallel_calls: bool) -> None:
        self._call = call
        self._model = model
        self._parallel_calls = parallel_calls
        self._choices: dict[int, TextLike] = {}
        self._num_open = num_choices
        self._num_choices = num_choices

    async def pieces(self) -> AsyncIterator[list[ReplyPiece]]:
        """What came since the last iteration.  Raises BraidError, and ClientGone when the call is closed."""
        async for batch in self._call.updates():
            yield [self._piece(choice, update) for choice, update in batch]
        if self._num_open:
            raise ClientGone

    @property
    def reply(self) -> TextReply:
        """All that has come, joined; the `finish_reason` of a choice that has not ended is "abort"."""
        updates = [self._choices.get(choice) for choice in range(self._num_choices)]
        return TextReply(self._model, tuple(map(self._choice, updates)), self._usage())

    def _piece(self, choice: int, update: TextLike) -> ReplyPiece:
        piece = ReplyPiece(
            text_of(update),
            choice,
            update.reasoning if isinstance(update, ReplyUpdate) else "",
            tuple(self._calls(update)),
            update.piece.finish,
            tuple(update.piece.token_ids),
            tuple((update.piece.logprobs or PieceLogprobs()).tokens),
        )
        self._num_open -= update.piece.finish is not None
        before = self._choices.setdefault(choice, update)
        if before is not update:
            before.extend(update)  # type: ignore[arg-type]  # of one kind in one stream
        return piece

    def _calls(self, update: TextLike) -> list[ToolCallPiece]:
        calls = update.tool_calls if isinstance(update, ReplyUpdate) else []
        return [call for call in calls if self._parallel_calls or call.index == 0]

    def _choice(self, update: TextLike | None) -> TextChoice:
        if update is None:
            return TextChoice("", "abort")
        piece, logprobs = update.piece, update.piece.logprobs or PieceLogprobs()
        return TextChoice(
            text_of(update),
            piece.finish or "abort",
            update.reasoning if isinstance(update, ReplyUpdate) else "",
            tuple(joined_calls(self._calls(update))),
            piece.stop_reason,
            tuple(piece.token_ids),
            tuple(logprobs.tokens),
            tuple(logprobs.prompt or ()),
        )

    def _usage(self) -> TokenCounts:
        """A prompt is computed once, for its first choice."""
        updates = self._choices.values()
        counted = [update.num_reasoning for update in updates if isinstance(update, ReplyUpdate)]
        reasoning = [count for count in counted if count is not None]
        others = self._call.others
        return TokenCounts(
            sum(self._call.prompt_lengths) + others.num_prompt,
            sum(update.piece.num_tokens for update in updates) + others.num_output,
            (self._choices[0].piece.num_cached if 0 in self._choices else 0) + others.num_cached,
            sum(reasoning) if reasoning else None,
        )


def text_of(update: TextLike) -> str:
    """The text of an update, whether the graph parses replies or not."""
    return update.text if isinstance(update, TextUpdate) else update.content


def joined_calls(pieces: Iterable[ToolCallPiece]) -> list[RequestedCall]:
    """The calls that pieces make, in their order."""
    calls: dict[int, RequestedCall] = {}
    for piece in pieces:
        before = calls.get(piece.index) or RequestedCall(piece.id or "", piece.name or "", "")
        calls[piece.index] = RequestedCall(before.id, before.name, before.arguments + piece.arguments)
    return [call for _, call in sorted(calls.items())]
