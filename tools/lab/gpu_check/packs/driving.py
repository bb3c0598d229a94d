"""Drives Braid's engine without a server: requests that arrive at given steps, and their outputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from types import MappingProxyType
from typing import NamedTuple

from pipelines.adapters.weights import BASE, AdapterWeights
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.engine.generation_engine import GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.interface.outputs import Output
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.engine.sequences.policy import EngineSettings
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.telemetry.engine_counts import Counts
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.sampling_params import SamplingParams

Body = Callable[[StepContext], Sampled]
NONE: Mapping[int, AdapterWeights] = MappingProxyType({})


class Request(NamedTuple):
    """A greedy request without an end token, for `num_tokens` tokens; submitted before step `at`.

    `adapter` is the load number of its adapter.
    """

    prompt: list[int]
    num_tokens: int
    at: int = 0
    logprobs: int | None = None
    adapter: int = BASE


@dataclass
class Answer:
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    num_cached: int = 0


@dataclass(frozen=True)
class EngineLimits:
    """The limits of an engine; `num_blocks` is at most that of the session's cache."""

    num_blocks: int
    max_sequences: int = 16
    max_step_tokens: int = 512
    num_host_blocks: int = 0
    reuse_prefixes: bool = False
    num_states: int = 0


def body(session: DecoderSession) -> Body:
    """A step of the engine: the model, then the sampler."""
    return lambda context: sample(Logits(session.run(context.step), context, session.ops))


def engine(
    session: DecoderSession,
    room: EngineLimits,
    compute: Body | None = None,
    adapters: Mapping[int, AdapterWeights] = NONE,
) -> GenerationEngine:
    """An engine over the session's cache that holds these adapters, by their load numbers."""
    settings = EngineSettings(room.max_sequences, room.max_step_tokens, room.reuse_prefixes)
    built = GenerationEngine(
        StepBody(compute or body(session), adapters=session),
        settings,
        session.shape,
        CacheSize(room.num_blocks, room.num_states, room.num_host_blocks),
        frozenset(),
    )
    for number, weights in adapters.items():
        built.put_adapter(number, weights)
    return built


def answers(generator: GenerationEngine, requests: list[Request]) -> tuple[list[Answer], Counts]:
    """Run all requests to their ends.  Raises RuntimeError when a step failed."""
    replies = [Answer() for _ in requests]
    number = 0
    while generator.has_work or any(request.at >= number for request in requests):
        for key, request in enumerate(requests):
            if request.at == number:
                generator.submit(
                    key, GenerationRequest([request.prompt], params(request), adapter=request.adapter)
                )
        outputs = generator.step()
        _checked(outputs)
        for output in outputs:
            answer = replies[int(str(output.key))]
            answer.tokens += output.piece.token_ids
            if output.piece.logprobs is not None:
                answer.logprobs += output.piece.logprobs.tokens
            answer.num_cached = max(answer.num_cached, output.piece.num_cached)
        number += 1
    return replies, generator.counts()


def params(request: Request) -> SamplingParams:
    return SamplingParams(
        max_tokens=request.num_tokens, temperature=0.0, ignore_eos=True, logprobs=request.logprobs
    )


@dataclass
class Decoding:
    """Seconds: of all prompts together, of the whole run, and of each step in which every sequence decoded.

    `run_s` is the session's run, which may return before the device has finished; `sample_s` sampling, which
    waits for the device; `host_s` the rest of a step: planning, packing, committing.
    """

    prompt_s: float = 0.0
    whole_s: float = 0.0
    step_s: list[float] = field(default_factory=list)
    host_s: list[float] = field(default_factory=list)
    run_s: list[float] = field(default_factory=list)
    sample_s: list[float] = field(default_factory=list)

    def add(self, step: float, run: float, sampling: float) -> None:
        for times, time_s in (
            (self.step_s, step),
            (self.run_s, run),
            (self.sample_s, sampling),
            (self.host_s, step - run - sampling),
        ):
            times.append(time_s)


def decode(
    session: DecoderSession,
    room: EngineLimits,
    prompts: list[list[int]],
    num_tokens: int,
    wait: Callable[[], None] = lambda: None,
    adapters: Mapping[int, AdapterWeights] = NONE,
) -> Decoding:
    """Compute the prompts, then decode all together; the first two decode steps are not counted.

    `wait` is called after every run of the session, and is part of its time.  The prompts take turns with
    `adapters`.
    """
    spent = [0.0, 0.0]

    def compute(context: StepContext) -> Sampled:
        begin = time.perf_counter()
        logits = Logits(session.run(context.step), context, session.ops)
        wait()
        middle = time.perf_counter()
        sampled = sample(logits)
        spent[:] = middle - begin, time.perf_counter() - middle
        return sampled

    generator = engine(session, room, compute, adapters)
    _submit_all(generator, prompts, num_tokens, list(adapters))
    begin, decoding, full = time.perf_counter(), Decoding(), 0
    while generator.has_work:
        start = time.perf_counter()
        came = _checked(generator.step())
        now = time.perf_counter()
        if not full:
            decoding.prompt_s = now - begin
        elif full > 2 and came == len(prompts):
            decoding.add(now - start, *spent)
        full += came == len(prompts) or full > 0
    decoding.whole_s = time.perf_counter() - begin
    return decoding


def start_decoding(
    session: DecoderSession, room: EngineLimits, prompts: list[list[int]], num_tokens: int
) -> GenerationEngine:
    """An engine in which every prompt has decoded a few steps."""
    made = engine(session, room)
    _submit_all(made, prompts, num_tokens)
    full = 0
    while full < 5:
        full += _checked(made.step()) == len(prompts)
    return made


def prefill_s(session: DecoderSession, room: EngineLimits, prompt: list[int]) -> float:
    """Seconds from a prompt to its first token."""
    made = engine(session, room)
    begin = time.perf_counter()
    _submit_all(made, [prompt], 1)
    while made.has_work:
        _checked(made.step())
    return time.perf_counter() - begin


def _submit_all(
    made: GenerationEngine, prompts: list[list[int]], num_tokens: int, adapters: Sequence[int] = ()
) -> None:
    for key, (prompt, adapter) in enumerate(zip(prompts, cycle(adapters or [BASE]), strict=False)):
        wanted = params(Request(prompt, num_tokens))
        made.submit(key, GenerationRequest([prompt], wanted, adapter=adapter))


def _checked(outputs: list[Output]) -> int:
    """The number of sequences that got a token.  Raises RuntimeError when a step failed."""
    for output in outputs:
        if output.piece.finish == "error":
            raise RuntimeError(f"request {output.key}: {output.error}")
    return sum(bool(output.piece.token_ids) for output in outputs)
