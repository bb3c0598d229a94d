"""The scheduler node: on the worker it submits prompts, in the engine host it makes the engine.

Knows nothing of text or HTTP; scheduling itself lives in `pipelines/host/engine`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from graphs.node import BodyContract, Node, NodeConfig
from pipelines.errors import RequestError
from pipelines.grammars.formats import format_of
from pipelines.host.engine.step import Sampled
from pipelines.host.engine.step_context import StepContext
from pipelines.nodes.generation.cache_size import CacheConfig, blocks_for_device, blocks_for_host
from pipelines.nodes.generation.end_tokens import end_token_ids
from pipelines.nodes.generation.generation_defaults import read_defaults
from pipelines.nodes.generation.speculation_fields import check_speculation
from pipelines.nodes.text.tokenizer import open_tokenizer, special_tokens
from pipelines.values import Stream, Tokens, TokenUpdate
from pipelines.wire.sampling_params import SamplingParams

if TYPE_CHECKING:
    from graphs.graph import Binding
    from pipelines.host.backends.decoder_contract import DecoderSession
    from pipelines.host.body import Body
    from pipelines.host.engine.loop import Engine
    from pipelines.loading import Resources
    from pipelines.tasks import GenerationInput
    from pipelines.worker.call import Call
    from pipelines.worker.submissions import GrammarWriter


class Scheduler(Node):
    """Continuous batching over a paged key-value cache."""

    place = "engine"
    body = BodyContract(root="step", gives=StepContext, result=Sampled)

    class Config(NodeConfig):
        max_sequences: int = Field(default=64, ge=1, le=4096, description="sequences in one step")
        max_step_tokens: int = Field(default=512, ge=2, description="prompt and decode tokens in one step")
        max_context: int | None = Field(
            default=None, ge=2, description="tokens of prompt and answer; default: the model's own bound"
        )
        max_tokens_limit: int | None = Field(
            default=None, ge=1, description="most tokens of an answer, and what it gets when nobody says"
        )
        best_of_limit: int = Field(default=20, ge=2, description="beams of a beam search are fewer")
        cache: CacheConfig = CacheConfig()

    def load(self, resources: Resources) -> None:
        """On the worker: what requests need.  The engine itself is started in the engine host."""
        self.address = resources.address
        self.max_context = resources.max_context
        body = resources.binding.body if resources.binding else ()
        self.defaults = self._defaults(body)
        self.write = self._grammar_writer(body, resources)
        self._body_types = {line.type_name for line in body}

    def _defaults(self, body: tuple[Binding, ...]) -> dict[str, Any]:
        """Sampling defaults that a line of the body names (the sampler's `defaults`)."""
        files = [path for line in body if (path := getattr(line.config, "defaults", None))]
        return {name: value for path in files for name, value in read_defaults(self.folder / path).items()}

    def _grammar_writer(self, body: tuple[Binding, ...], resources: Resources) -> GrammarWriter | None:
        """For bodies with a grammar node, whose tokenizer says which words are single tokens."""
        found = next((line for line in body if line.type_name == "grammar"), None)
        if found is None:
            return None
        from pipelines.grammars.grammar_text import grammar_of_format

        tokenizer = resources.shared(open_tokenizer, self.folder / found.config.tokenizer)
        return partial(grammar_of_format, specials=special_tokens(tokenizer))

    def run(self, call: Call, tokens: list[Tokens]) -> Stream[TokenUpdate]:
        lengths = [len(prompt.ids) for prompt in tokens]
        if max(lengths) >= self.max_context:
            raise RequestError(
                f"This model's maximum context length is {self.max_context} tokens. However, your prompt "
                f"contains {max(lengths)} input tokens, which leaves no room for output. "
                "Please reduce the length of the input prompt.",
                field="messages" if call.request.messages is not None else "prompt",
            )
        params = self.params(call, self.max_context - min(lengths), tokens[0].bad_words)
        updates = call.submit(self.address, [prompt.ids for prompt in tokens], params, self.write)
        self._constrain(call)
        return updates

    def _constrain(self, call: Call) -> None:
        """What was asked of the text; the marks of tools and reasoning are known to later lines."""
        request = call.request
        if request.tool_choice is not None:
            call.guide("tool_choice")
        if request.thinking_budget is not None:
            call.guide("thinking_token_budget")
        if request.constraint is not None:
            where = request.constraint.where
            guide = call.guide(where)
            guide.grammar = call.grammar(format_of(request.constraint), where)

    def params(self, call: Call, room: int, bad_words: list[list[int]]) -> SamplingParams:
        """What the client set, over the model's defaults, over the neutral values."""
        request = call.request
        asked = request.sampling.get("max_tokens", 1)
        if asked > self.max_context:
            raise RequestError(
                f"max_tokens={asked} cannot be greater than max_model_len={self.max_context}. "
                "Please request fewer output tokens.",
                field="max_tokens",
            )
        self._check_limits(request)
        check_speculation(request.sampling, self._body_types)
        most = self.config.max_tokens_limit or room
        chosen: dict[str, Any] = {"max_tokens": most} | self._defaults_of(request)
        if request.default_max_tokens is not None:
            chosen["max_tokens"] = request.default_max_tokens
        chosen |= request.sampling
        chosen["max_tokens"] = min(chosen["max_tokens"], most, room)
        chosen["bad_words_ids"] = [*chosen.get("bad_words_ids", []), *bad_words]
        return SamplingParams(**chosen)

    def _defaults_of(self, request: GenerationInput) -> dict[str, Any]:
        """What the model's files say to requests that are silent; how to draw tokens is nothing to beams."""
        if request.sampling.get("beams") is not None:
            return {name: value for name, value in self.defaults.items() if name == "max_tokens"}
        said = dict(self.defaults)
        if request.samples_always and not said.get("temperature"):
            said.pop("temperature", None)
        return request.fallbacks | said

    def _check_limits(self, request: GenerationInput) -> None:
        """Raise RequestError for more than the graph allows."""
        most, beams = self.config.max_tokens_limit, request.sampling.get("beams")
        if most is not None and request.sampling.get("max_tokens", 1) > most:
            raise RequestError(f"max_tokens exceeds limit provided in graph config: {most}", "max_tokens")
        if beams is not None and beams.width >= self.config.best_of_limit:
            limit = self.config.best_of_limit
            raise RequestError(f"best_of exceeds limit provided in graph config: {limit}", "best_of")

    def start(self, body: Body) -> Engine:
        """The engine around a loaded body, its cache allocated.  Called once, in the engine host.

        Raises ValueError when the cache cannot hold a single block, or a draft does not fit its model.
        """
        from pipelines.host.engine.loop import Engine, EngineSettings
        from pipelines.nodes.generation.body.draft import check_draft

        sessions, cache = body.sessions, self.config.cache
        target = sessions[-1]  # a draft model stands above the model it draft tokens for
        for draft in sessions[:-1]:
            check_draft(draft, target)
        max_context = self._max_context(target)
        settings = EngineSettings(
            max_sequences=self.config.max_sequences,
            max_step_tokens=self.config.max_step_tokens,
            reuse_prefixes=cache.reuse_prefixes,
            num_draft_tokens=body.num_draft_tokens,
        )
        num_blocks = blocks_for_device(cache, settings, sessions, max_context)
        num_host_blocks = blocks_for_host(cache, sessions)
        for session in sessions:
            session.allocate(num_blocks, num_host_blocks)
        ends = end_token_ids(self.folder, body.bindings)
        if body.guides is not None:
            body.guides.start(target.vocab_size, ends)
        return Engine(
            body=body,
            settings=settings,
            num_blocks=num_blocks,
            num_host_blocks=num_host_blocks,
            block_tokens=target.block_tokens,
            vocab_size=target.vocab_size,
            max_context=max_context,
            eos_token_ids=ends,
            profile=body.profile,
        )

    def _max_context(self, target: DecoderSession) -> int:
        """What the model can hold, or less where the graph says so."""
        asked = self.config.max_context
        if asked is not None and asked > target.max_context:
            raise ValueError(f"max_context: the model holds {target.max_context} tokens, not {asked}")
        return asked or target.max_context
