"""The scheduler node: on the worker it submits prompts, in the engine host it makes the engine.

Knows nothing of text or HTTP; scheduling itself lives in `pipelines/engine`.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from graphs.node import BodyContract, Node, NodeConfig
from pipelines.engine.feed import Sampled, Step
from pipelines.engine.policy import MAX_SCORED_TOKENS
from pipelines.errors import RequestError
from pipelines.guides.formats import format_of
from pipelines.nodes.defaults import read_defaults
from pipelines.nodes.tokenizer import open_tokenizer, special_tokens
from pipelines.sampling.params import SamplingParams
from pipelines.values import Stream, Tokens, TokenUpdate

if TYPE_CHECKING:
    from graphs.graph import Binding
    from pipelines.backends.contract import DecoderSession
    from pipelines.build import Body, Resources
    from pipelines.engine.loop import Engine
    from pipelines.pipeline import Call, GrammarWriter
    from pipelines.tasks import Generation

GIB = 1 << 30
GENAI_CONFIG = "genai_config.json"
END_TOKEN_FILES = ("generation_config.json", "config.json", GENAI_CONFIG)
"""Files of a model that may name its end tokens; the last is onnxruntime-genai's."""


class CacheConfig(NodeConfig):
    """The paged key-value cache: a hard bound in bytes, taken at load."""

    memory_gb: float | None = Field(default=None, gt=0, description="GiB; default: from free memory")
    reuse_prefixes: bool = Field(default=True, description="keep blocks of finished prompts for reuse")
    swap_gb: float = Field(
        default=0, ge=0, description="GiB of host memory for preempted sequences of a GPU; else recomputed"
    )


class Scheduler(Node):
    """Continuous batching over a paged key-value cache."""

    place = "engine"
    body = BodyContract(root="step", gives=Step, result=Sampled)

    class Config(NodeConfig):
        max_sequences: int = Field(default=64, ge=1, le=4096, description="sequences in one step")
        max_step_tokens: int = Field(default=512, ge=2, description="prompt and decode tokens in one step")
        max_context: int | None = Field(
            default=None, ge=2, description="tokens of a prompt and its answer; default: the model's own bound"
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

    def _defaults(self, body: tuple[Binding, ...]) -> dict[str, Any]:
        """Sampling defaults that a line of the body names (the sampler's `defaults`)."""
        files = [path for line in body if (path := getattr(line.config, "defaults", None))]
        return {
            name: value
            for path in files
            for name, value in read_defaults(self.folder / path).items()
            if name != "eos_token_ids"
        }

    def _grammar_writer(self, body: tuple[Binding, ...], resources: Resources) -> GrammarWriter | None:
        """For bodies with a grammar node, whose tokenizer says which words are single tokens."""
        found = next((line for line in body if line.type_name == "grammar"), None)
        if found is None:
            return None
        from pipelines.guides.grammars import grammar_of_format

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
        most = self.config.max_tokens_limit or room
        chosen: dict[str, Any] = {"max_tokens": most} | self._defaults_of(request)
        if request.default_max_tokens is not None:
            chosen["max_tokens"] = request.default_max_tokens
        chosen |= request.sampling
        chosen["max_tokens"] = min(chosen["max_tokens"], room)
        chosen["bad_words_ids"] = [*chosen.get("bad_words_ids", []), *bad_words]
        return SamplingParams(**chosen)

    def _defaults_of(self, request: Generation) -> dict[str, Any]:
        """What the model's files say to requests that are silent; how to draw tokens is nothing to beams."""
        if request.sampling.get("beams") is not None:
            return {name: value for name, value in self.defaults.items() if name == "max_tokens"}
        said = dict(self.defaults)
        if request.samples_always and not said.get("temperature"):
            said.pop("temperature", None)
        return request.fallbacks | said

    def _check_limits(self, request: Generation) -> None:
        """Raise RequestError for more than the graph allows."""
        most, beams = self.config.max_tokens_limit, request.sampling.get("beams")
        if most is not None and request.sampling.get("max_tokens", 1) > most:
            raise RequestError(f"max_tokens exceeds limit provided in graph config: {most}", "max_tokens")
        if beams is not None and beams.width >= self.config.best_of_limit:
            limit = self.config.best_of_limit
            raise RequestError(f"best_of exceeds limit provided in graph config: {limit}", "best_of")

    def start(self, body: Body) -> Engine:
        """The engine around a loaded body, its cache allocated.  Called once, in the engine host.

        Raises ValueError when the cache cannot hold a single block.
        """
        from pipelines.engine.loop import Engine, EngineSettings

        sessions = body.sessions
        num_blocks, num_host_blocks = self._num_blocks(sessions), self._num_host_blocks(sessions)
        for session in sessions:
            session.allocate(num_blocks, num_host_blocks)
        target = sessions[-1]  # a draft model stands above the model it guesses for
        ends = end_token_ids(self.folder, body)
        if body.guides is not None:
            body.guides.start(target.vocab_size, ends)
        return Engine(
            body=body,
            settings=EngineSettings(
                max_sequences=self.config.max_sequences,
                max_step_tokens=self.config.max_step_tokens,
                reuse_prefixes=self.config.cache.reuse_prefixes,
            ),
            num_blocks=num_blocks,
            num_host_blocks=num_host_blocks,
            block_tokens=target.block_tokens,
            vocab_size=target.vocab_size,
            max_context=self._max_context(target),
            eos_token_ids=ends,
        )

    def _max_context(self, target: DecoderSession) -> int:
        """What the model can hold, or less where the graph says so."""
        asked = self.config.max_context
        if asked is not None and asked > target.max_context:
            raise ValueError(f"max_context: the model holds {target.max_context} tokens, not {asked}")
        return asked or target.max_context

    def _num_blocks(self, sessions: list[DecoderSession]) -> int:
        """Blocks that fit the cache's bytes, and no more than all rows together can use."""
        block_bytes = sum(session.block_bytes for session in sessions)
        limits = (self.config.max_step_tokens, self.config.max_sequences, MAX_SCORED_TOKENS)
        spare = min(session.reserve(*limits) for session in sessions)
        asked = self.config.cache.memory_gb
        budget = spare if asked is None else int(asked * GIB)
        useful = self.config.max_sequences * -(-self._max_context(sessions[-1]) // sessions[-1].block_tokens)
        num_blocks = min(budget // block_bytes, useful)
        if num_blocks < 1:
            raise ValueError(
                f"cache.memory_gb: one block takes {block_bytes} bytes, the cache may have {budget}"
            )
        return num_blocks

    def _num_host_blocks(self, sessions: list[DecoderSession]) -> int:
        """Blocks of host memory that preempted sequences may be moved to."""
        swap_bytes = int(self.config.cache.swap_gb * GIB)
        if swap_bytes and not all(session.can_swap for session in sessions):
            raise ValueError(
                "cache.swap_gb: this device's cache lies in host memory already; give memory_gb more instead"
            )
        return swap_bytes // sum(session.block_bytes for session in sessions)


def end_token_ids(folder: Path, body: Body) -> frozenset[int]:
    """The model's end tokens: what the settings beside the model, or one folder above it, name so.

    `onnx/model.onnx` has its settings in the folder above.
    """
    paths = [getattr(line.config, name, None) for line in body.bindings for name in ("defaults", "path")]
    named = [folder / path for path in paths if path]
    places = {file.parent for file in named} | {file.parent.parent for file in named if file.parent != folder}
    files = (place / name for place in places for name in END_TOKEN_FILES)
    return frozenset(token_id for file in files if file.is_file() for token_id in _eos(file))


def _eos(settings: Path) -> list[int]:
    fields = json.loads(settings.read_text())
    eos = (fields.get("model", fields) if settings.name == GENAI_CONFIG else fields).get("eos_token_id")
    return eos if isinstance(eos, list) else [] if eos is None else [eos]
