"""POST fim/completions: fills the gap of a text; the reply is a message of the assistant."""

from __future__ import annotations

from typing import Any

from pipelines.values.reply_values import ReplyUpdate, TextUpdate
from server.apis.generation.completions_endpoint import CompletionsEndpoint
from server.apis.generation.gap_request import GapRequest
from server.apis.generation.replies.chat import chat_completion
from server.apis.generation.replies.chat_chunks import ChatChunks
from server.apis.generation.replies.choice_builder import ChoiceBuilder
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter


class FimChunks(ChatChunks):
    """The events of chat/completions, of completed text."""

    def piece(self, choice: int, update: Any) -> bytes:
        if isinstance(update, TextUpdate):
            update = ReplyUpdate(update.piece, update.text)
        return super().piece(choice, update)


class FimEndpoint(CompletionsEndpoint):
    body = GapRequest
    id_prefix = "fim-"

    def full_reply(
        self, context: TextReplyContext, choices: list[ChoiceBuilder], counter: TokenCounter
    ) -> Any:
        return chat_completion(context, choices, counter)

    def chunks(self, context: TextReplyContext, counter: TokenCounter) -> Any:
        return FimChunks(context, counter)
