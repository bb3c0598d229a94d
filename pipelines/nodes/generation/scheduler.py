"""The scheduler node: on the worker it submits prompts, in the engine host it makes the engine.

Scheduling itself is in `pipelines/inference/engine`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from graphs.graph import Binding
from graphs.node import BodyContract, Node, NodeConfig
from pipelines.base.errors import ContextTooLong
from pipelines.grammars.formats import GrammarWriter
from pipelines.inference.contracts.decoder_contract import RoutesExperts
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.sampling.step_context import StepContext
from pipelines.nodes.generation.body.grammar import Grammar
from pipelines.nodes.generation.model_settings import end_token_ids, read_defaults
from pipelines.nodes.generation.output_guide import (
    check_guidable,
    grammar_writer,
    guide_spec,
)
from pipelines.nodes.generation.sampling_rules import SamplingRules
from pipelines.nodes.interface import Checking, Loading, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.text.tokenizing.tokenizer import open_tokenizer
from pipelines.values.node_values import PooledOutputs, Tokens
from pipelines.values.stream_values import Deferred, Stream
from pipelines.values.tasks import GenerationInput
from pipelines.values.text_images import shown_in
from pipelines.wire.messages import TokenUpdate

if TYPE_CHECKING:
    from pipelines.inference.contracts.decoder_contract import DecoderSession
    from pipelines.inference.engine.generation_engine import GenerationEngine
    from pipelines.nodes.body_interface import Body


class CacheConfig(NodeConfig):
    """The paged key-value cache: a hard bound in bytes, taken at load."""

    memory_gb: float | None = Field(default=None, gt=0, description="GiB; default: from free memory")
    reuse_prefixes: bool = Field(default=True, description="retain blocks of finished prompts for reuse")
    swap_gb: float = Field(
        default=0, ge=0, description="GiB of host memory for preempted sequences of a GPU; else recomputed"
    )
    prefix_file_gb: float | None = Field(
        default=None,
        ge=0,
        description="GiB of a file in which prefixes that were reused outlive the server; "
        "default: BRAID_PREFIX_FILE_GB, else none",
    )


HELD_PORTS = ("context", "images")
"""Inputs of a scheduler that name a batcher, whose vectors stay in the engine host."""


class Scheduler(Node, Checking, Planning):
    """Continuous batching over a paged key-value cache.

    `context`: what each prompt attends to beside its own tokens, the encoder's hidden states for its text or
    sound; they stay in the engine host, and their keys and values are in the same cache.  `images`: the
    embeddings that an encoder gives for the images of the prompts, which the model reads in the place of
    their tokens.
    """

    place = "engine"
    body = BodyContract(root="step", gives=StepContext, result=Sampled)

    class Config(NodeConfig):
        max_sequences: int = Field(default=64, ge=1, le=4096, description="sequences in one step")
        max_step_tokens: int = Field(default=512, ge=2, description="prompt and decode tokens in one step")
        max_step_ms: int = Field(
            default=2000,
            ge=0,
            description="about how long prompts may make a step in which other sequences decode; "
            "0: as long as max_step_tokens take",
        )
        max_context: int | None = Field(
            default=None, ge=2, description="tokens of prompt and output; default: the model's own bound"
        )
        max_tokens_limit: int | None = Field(
            default=None, ge=1, description="most tokens of an answer, also the default"
        )
        best_of_limit: int = Field(default=20, ge=2, description="the width of a beam search must be smaller")
        cache: CacheConfig = CacheConfig()

    def load(self, resources: Loading) -> None:
        """On the worker: what requests need.  The engine itself is started in the engine host."""
        self.address = resources.address
        self.max_context = resources.max_context
        body = resources.binding.body if resources.binding else ()
        sources = resources.binding.sources if resources.binding else {}
        self.held = frozenset(sources[port].root for port in HELD_PORTS if port in sources)
        self.write = self._grammar_writer(body, resources)
        self.rules = SamplingRules(
            self.max_context,
            self.config.max_tokens_limit,
            self.config.best_of_limit,
            self._defaults(body),
            frozenset(line.type_name for line in body),
        )

    def _defaults(self, body: tuple[Binding, ...]) -> dict[str, Any]:
        """Sampling defaults that a line of the body names (the sampler's `defaults`)."""
        files = [path for line in body if (path := getattr(line.config, "defaults", None))]
        return {name: value for path in files for name, value in read_defaults(self.folder / path).items()}

    def _grammar_writer(self, body: tuple[Binding, ...], resources: Loading) -> GrammarWriter | None:
        """Writes grammars with the tokenizer of the body's grammar node; None where it has none."""
        tokenizers = [line.config.tokenizer for line in body if isinstance(line.config, Grammar.Config)]
        if not tokenizers:
            return None
        file = self.folder / tokenizers[0]
        return grammar_writer(resources.shared(open_tokenizer, file), file)

    def plan(self, request: GenerationInput) -> RequestPlan:
        return RequestPlan(held=self.held)

    def check(self, request: GenerationInput, plan: RequestPlan) -> None:
        check_guidable(request, self.write)

    def run(
        self,
        call: Running,
        tokens: list[Tokens],
        context: Deferred[PooledOutputs] | None = None,
        images: Deferred[PooledOutputs] | None = None,
    ) -> Stream[TokenUpdate]:
        lengths = [len(prompt.ids) for prompt in tokens]
        if max(lengths) >= self.max_context:
            raise ContextTooLong(
                f"This model's maximum context length is {self.max_context} tokens. However, your prompt "
                f"contains {max(lengths)} input tokens, which leaves no room for output. "
                "Please reduce the length of the input prompt.",
                field="messages" if call.request.messages is not None else "prompt",
            )
        max_output = self.max_context - min(lengths)
        params = self.rules.params(call.request, max_output, tokens[0].bad_words)
        params = replace(params, **tokens[0].sampling)
        params.max_tokens = min(params.max_tokens + len(params.opening), max_output)
        params.guide = guide_spec(call.request, call.plan, tokens[0], self.write)
        if context is None:
            return call.submit(self.address, tokens, params, images=shown_in(tokens, images))
        return context.stream(lambda rows: call.submit(self.address, tokens, params, rows.held))

    def start(self, body: Body) -> GenerationEngine:
        """The engine around a loaded body, its cache allocated.  Called once, in the engine host.

        Raises ValueError when the cache cannot hold a single block, or a draft does not fit its model.
        """
        from pipelines.inference.engine.generation_engine import GenerationEngine, StepBody
        from pipelines.inference.engine.kv_cache.cache_size import device_cache, host_blocks
        from pipelines.inference.engine.sequences.policy import EngineSettings
        from pipelines.nodes.generation.body.draft import check_draft

        sessions, cache = body.sessions, self.config.cache
        target = sessions[-1]  # a draft model is above its target model
        for draft in sessions[:-1]:
            check_draft(draft, target)
            if target.shape.encoder_hidden_size:
                raise ValueError(
                    "a decoder that attends to encoder states has no draft model; remove its line"
                )
            if target.shape.inputs_embeds_size:
                raise ValueError("a draft model does not see images; remove its line")
        max_context = self._max_context(target)
        settings = EngineSettings(
            max_sequences=self.config.max_sequences,
            max_step_tokens=self.config.max_step_tokens,
            reuse_prefixes=cache.reuse_prefixes,
            num_draft_tokens=body.num_draft_tokens,
            max_step_s=self.config.max_step_ms / 1000,
        )
        size = device_cache(cache.memory_gb, settings, sessions, max_context)
        size = size._replace(num_host_blocks=host_blocks(cache.swap_gb, sessions))
        for session in sessions:
            session.allocate(size.num_blocks, size.num_host_blocks, size.num_states)
        ends = end_token_ids(self.folder, body.bindings)
        if body.guides is not None:
            body.guides.start(target.shape.vocab_size, ends)
        return GenerationEngine(
            StepBody(
                body,
                adapters=target,
                routed_experts=target.routed_experts if isinstance(target, RoutesExperts) else None,
                profile=body.profile,
                close=body.close,
            ),
            settings,
            replace(target.shape, max_context=max_context),
            size,
            ends,
        )

    def _max_context(self, target: DecoderSession) -> int:
        """What the model can hold, or less where the graph sets less."""
        bound = self.config.max_context
        if bound is not None and bound > target.shape.max_context:
            raise ValueError(f"max_context: the model holds {target.shape.max_context} tokens, not {bound}")
        return bound or target.shape.max_context
