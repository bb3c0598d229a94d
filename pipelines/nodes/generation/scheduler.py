"""The scheduler node: on the worker it submits prompts, in the engine host it makes the engine.

Knows nothing of text or HTTP; scheduling itself lives in `pipelines/host/engine`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from graphs.node import BodyContract, Node, NodeConfig
from pipelines.errors import RequestError
from pipelines.grammars.formats import Format, format_of
from pipelines.host.engine.step import Sampled
from pipelines.host.engine.step_context import StepContext
from pipelines.nodes.generation.cache_size import CacheConfig, blocks_for_device, blocks_for_host
from pipelines.nodes.generation.end_tokens import end_token_ids
from pipelines.nodes.generation.generation_defaults import read_defaults
from pipelines.nodes.generation.speculation_fields import check_speculation
from pipelines.nodes.interface import Checking, Loading, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.text.tokenizer import open_tokenizer, special_tokens
from pipelines.values import Stream, Tokens, TokenUpdate
from pipelines.wire.sampling_params import GuideSpec, SamplingParams

if TYPE_CHECKING:
    from graphs.graph import Binding
    from pipelines.host.backends.decoder_contract import DecoderSession
    from pipelines.host.body import Body
    from pipelines.host.engine.loop import Engine
    from pipelines.tasks import GenerationInput


GrammarWriter = Callable[[Format, str], str]
"""A format and the request's field that it came from → a checked grammar.  Raises RequestError."""


class Scheduler(Node, Checking):
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

    def load(self, resources: Loading) -> None:
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

    def _grammar_writer(self, body: tuple[Binding, ...], resources: Loading) -> GrammarWriter | None:
        """For bodies with a grammar node, whose tokenizer says which words are single tokens."""
        found = next((line for line in body if line.type_name == "grammar"), None)
        if found is None:
            return None
        from pipelines.grammars.grammar_text import grammar_of_format

        tokenizer = resources.shared(open_tokenizer, self.folder / found.config.tokenizer)
        return partial(grammar_of_format, specials=special_tokens(tokenizer))

    def run(self, call: Running, tokens: list[Tokens]) -> Stream[TokenUpdate]:
        lengths = [len(prompt.ids) for prompt in tokens]
        if max(lengths) >= self.max_context:
            raise RequestError(
                f"This model's maximum context length is {self.max_context} tokens. However, your prompt "
                f"contains {max(lengths)} input tokens, which leaves no room for output. "
                "Please reduce the length of the input prompt.",
                field="messages" if call.request.messages is not None else "prompt",
            )
        params = self.params(call.request, self.max_context - min(lengths), tokens[0].bad_words)
        params.guide = self.guide(call.request, call.plan, tokens[0])
        return call.submit(self.address, tokens, params)

    def check(self, request: GenerationInput, plan: RequestPlan) -> None:
        """Raise RequestError where the output must be restricted and this graph cannot do that."""
        restricting = {"tool_choice": request.tool_choice, "thinking_token_budget": request.thinking_budget}
        fields = [field for field, wanted in restricting.items() if wanted is not None]
        if request.constraint is not None:
            fields.append(request.constraint.where)
        for field in fields:
            if self.write is None:
                raise RequestError("this model's graph has no grammar node, which this needs", field)
            if request.sampling.get("beams") is not None:
                raise RequestError("beam search cannot keep to this", field)

    def guide(self, request: GenerationInput, plan: RequestPlan, prompt: Tokens) -> GuideSpec | None:
        """What the output must be, None for anything.  Raises RequestError for what is no valid format.

        What the request does not demand (`strict` tools) is left out where the graph cannot restrict output.
        """
        if self.write is None or request.sampling.get("beams") is not None:
            return None
        grammar = None
        if request.constraint is not None:
            grammar = self.write(format_of(request.constraint), request.constraint.where)
        if plan.tool_calls is not None:
            reply_format = plan.tool_calls.reply_format(request)
            grammar = grammar if reply_format is None else self.write(reply_format, "tools")
        if grammar is None and request.thinking_budget is None:
            return None
        thinking = None if plan.reasoning is None else plan.reasoning.thinking(prompt)
        return None if grammar is None and thinking is None else GuideSpec(grammar, thinking)

    def params(self, request: GenerationInput, room: int, bad_words: list[list[int]]) -> SamplingParams:
        """What the client set, over the model's defaults, over the neutral values."""
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
