"""Token ids in pieces → text in pieces: half characters and possible stop strings are held back.

Knows nothing of what the text means, of HTTP or of how the tokens were computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.nodes.interface import Loading, Running
from pipelines.nodes.text.replies.incremental_decoder import Decoder
from pipelines.nodes.text.replies.prompt_logprobs import PromptTexts, TellPrompt
from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer
from pipelines.values import (
    Alternative,
    Speculation,
    Stream,
    StreamChoice,
    TextLogprob,
    TextSpeculation,
    TextUpdate,
    TokenLogprobs,
    TokenUpdate,
)

REPETITION = "repetition_detected"
"""The stop reason of an output that repeats itself, in vLLM's word."""


class Detokenize(Node):
    """Text of the generated tokens, ended at the first stop string."""

    class Config(NodeConfig):
        tokenizer: FilePath = Field(description="a tokenizer.json")

    def load(self, resources: Loading) -> None:
        self.tokenizer = resources.shared(open_tokenizer, self.folder / self.config.tokenizer)

    def run(self, call: Running, generated: Stream[TokenUpdate]) -> Stream[TextUpdate]:
        request, prompts = call.request, PromptTexts()
        skips = request.skip_special_tokens and not call.plan.keep_special_tokens

        def make(choice: StreamChoice) -> Detokenizer:
            decoder = Decoder(self.tokenizer, skips)
            stops = StopStrings(request.stop, request.include_stop_str_in_output)
            scored = choice.params.prompt_logprobs is not None
            tell_prompt = partial(prompts.tell, choice) if scored else None
            return Detokenizer(decoder, stops, request.sampling.get("min_tokens", 0), tell_prompt)

        return generated.pipe(make)


class StopStrings:
    """Finds the earliest stop string across piece borders; holds back what may become one."""

    def __init__(self, stops: Sequence[str], include: bool) -> None:
        self.stops = stops
        self.include = include
        self.held = ""

    def push(self, text: str) -> tuple[str, str | None]:
        """(text that is safe to show, the stop string that ended it or None)."""
        if not self.stops:
            return text, None
        text = self.held + text
        hits = [(at, stop) for stop in self.stops if (at := text.find(stop)) >= 0]
        if hits:
            at, stop = min(hits, key=lambda hit: hit[0])
            self.held = ""
            return text[: at + len(stop) if self.include else at], stop
        keep = max(_overlap(text, stop) for stop in self.stops)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep], None

    def flush(self) -> str:
        text, self.held = self.held, ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    for size in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0


class Detokenizer:
    """The push machine of one choice.  Stop strings count only after `min_tokens` output tokens.

    `tell_prompt` makes text of what the first update says of the prompt, when that was asked for.
    """

    def __init__(
        self, decoder: Decoder, stops: StopStrings, min_tokens: int, tell_prompt: TellPrompt | None = None
    ) -> None:
        self.decoder = decoder
        self.stops = stops
        self.min_tokens = min_tokens
        self.num_tokens = 0
        self._tell_prompt = tell_prompt

    def push(self, update: TokenUpdate) -> TextUpdate:
        parts: list[str] = []
        stop = None
        for token_id in update.token_ids:
            piece, stop = self._token(token_id)
            parts.append(piece)
            if stop is not None:
                break
        count = len(parts)
        token_ids = update.token_ids[:count]
        pairs = zip(token_ids, update.logprobs, strict=False)
        out = TextUpdate(
            "".join(parts),
            count,
            [self._logprob(*pair) for pair in pairs] if update.logprobs else [],
            num_cached=update.num_cached,
            token_ids=token_ids,
            parts=parts,
        )
        if update.speculation is not None:
            out.speculation = self._speculation(update.speculation, token_ids)
        if self._tell_prompt is not None:
            out.prompt_logprobs = self._tell_prompt(update.prompt_logprobs, self._logprob)
            self._tell_prompt = None
        if stop is not None:
            out.finish, out.stop_reason = "stop", stop
        elif update.finish is not None:
            self._end(out, update)
        return out

    def _token(self, token_id: int) -> tuple[str, str | None]:
        self.num_tokens += 1
        text = self.decoder.push(token_id)
        return self.stops.push(text) if self.num_tokens > self.min_tokens else (text, None)

    def _end(self, out: TextUpdate, update: TokenUpdate) -> None:
        """The engine ended the choice: everything held back leaves, and a stop string may still be in it."""
        text, stop = self.stops.push(self.decoder.flush())
        out.text += text + (self.stops.flush() if stop is None else "")
        out.finish = "stop" if stop is not None else update.finish
        out.stop_reason = stop if stop is not None else update.stop_token_id
        if out.finish == "repetition":
            out.stop_reason = REPETITION
        if update.finish == "stop":
            out.num_tokens += 1  # the end token was computed too, as vLLM counts it

    def _speculation(self, speculation: Speculation, token_ids: list[int]) -> TextSpeculation:
        told = [
            None if logprobs is None else self._logprob(token_id, logprobs)
            for token_id, logprobs in zip(token_ids, speculation.logprobs, strict=False)
        ]
        return TextSpeculation(speculation.num_drafted, speculation.num_accepted, told)

    def _logprob(self, token_id: int, logprobs: TokenLogprobs) -> TextLogprob:
        text, raw = self.decoder.token_text(token_id)
        top = [
            Alternative(*self.decoder.token_text(top_id), value, top_id)
            for top_id, value in zip(logprobs.top_ids, logprobs.top_logprobs, strict=True)
        ]
        return TextLogprob(text, raw, token_id, logprobs.logprob, top, logprobs.rank)
