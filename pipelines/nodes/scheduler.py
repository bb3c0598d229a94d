"""The scheduler node: on the worker it submits prompts, in the engine host it makes the engine.

Knows nothing of text or HTTP; scheduling itself lives in `pipelines/engine`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from graphs.node import BodyContract, Node, NodeConfig
from pipelines.engine.feed import Sampled, Step
from pipelines.errors import RequestError
from pipelines.nodes.defaults import read_defaults
from pipelines.sampling.params import SamplingParams
from pipelines.values import Stream, Tokens, TokenUpdate

if TYPE_CHECKING:
    from graphs.graph import Binding
    from pipelines.backends.contract import DecoderSession
    from pipelines.build import Body, Resources
    from pipelines.engine.loop import Engine
    from pipelines.pipeline import Call

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
        cache: CacheConfig = CacheConfig()

    def load(self, resources: Resources) -> None:
        """On the worker: what requests need.  The engine itself is started in the engine host."""
        self.address = resources.address
        self.max_context = resources.max_context
        self.defaults = self._defaults(resources.binding.body if resources.binding else ())

    def _defaults(self, body: tuple[Binding, ...]) -> dict[str, Any]:
        """Sampling defaults that a line of the body names (the sampler's `defaults`)."""
        files = [path for line in body if (path := getattr(line.config, "defaults", None))]
        return {
            name: value
            for path in files
            for name, value in read_defaults(self.folder / path).items()
            if name != "eos_token_ids"
        }

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
        return call.submit(self.address, [prompt.ids for prompt in tokens], params)

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
        chosen: dict[str, Any] = {"max_tokens": room} | self.defaults
        if request.default_max_tokens is not None:
            chosen["max_tokens"] = request.default_max_tokens
        chosen |= request.sampling
        chosen["max_tokens"] = min(chosen["max_tokens"], room)
        return SamplingParams(**chosen, bad_words_ids=bad_words)

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
            max_context=target.max_context,
            eos_token_ids=end_token_ids(self.folder, body),
        )

    def _num_blocks(self, sessions: list[DecoderSession]) -> int:
        """Blocks that fit the cache's bytes, and no more than all rows together can use."""
        block_bytes = sum(session.block_bytes for session in sessions)
        limits = (self.config.max_step_tokens, self.config.max_sequences)
        spare = min(session.reserve(*limits) for session in sessions)
        asked = self.config.cache.memory_gb
        budget = spare if asked is None else int(asked * GIB)
        useful = self.config.max_sequences * -(-sessions[-1].max_context // sessions[-1].block_tokens)
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
