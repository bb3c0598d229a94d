"""Compares a random decoder in Braid's engine, session and sampler with transformers on the same device.

Every scenario's tokens are checked by transformers, position by position, over the text that Braid generated:
in 16 bits two right computations differ, and one different token would change all that follow. How far the
same model in transformers' own 16 bits is from its 32 bits is the yardstick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.telemetry.engine_counts import Counts
from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.packs.driving import Answer, EngineLimits, Request, answers, engine
from tools.lab.gpu_check.packs.models import SHAPES, Shape, random_model, random_prompts
from tools.lab.gpu_check.packs.sessions import ModelWithWeights, cuda_session, weights_of

TOP = 5  # alternatives that are compared
YARDSTICK = 3.0
"""Allowed error of Braid in multiples of transformers' own 16-bit error."""
EXACT = 2e-4
"""Errors of log-probabilities below this are the noise of 32 bits over a few layers."""
GRAPHS = {"without CUDA graphs": False, "with CUDA graphs": True}
LOOK_AT = {
    "mixed": "pipelines/inference/backends/onnxruntime/cuda/decoder_session.py (step inputs, "
    "logits_indices); the check `attention`",
    "prefixes": "copies and block tables: ops/cuda/cache_blocks.py, "
    "pipelines/inference/engine/kv_cache/cache.py",
    "recompute": "pipelines/inference/engine/scheduling/scheduler.py; slots of padding rows",
    "swap": "ops/cuda/cache_blocks.py: swap_out, swap_in, and their order in the session's run",
    "long": "positions: rotary embedding in float32 (use_tf32 must be off), windows of block tables",
}


@dataclass(frozen=True)
class Scenario:
    """`happened` returns whether a run covered what it tests."""

    name: str
    requests: list[Request]
    room: EngineLimits
    happened: Callable[[list[Answer], Counts], bool]


@dataclass(frozen=True)
class Sizes:
    """Lengths in tokens.  `blocks` is the session's cache; `few` forces preemption."""

    prompts: list[int]
    shared: int
    output: int
    long: int
    step: int
    blocks: int
    few: int


def sizes(block_tokens: int, quick: bool) -> Sizes:
    """Sizes in blocks, so that every scenario crosses block borders for any block size."""
    unit = block_tokens
    prompts = [1, 3, unit - 1, unit, unit + 1, 2 * unit + 7, 5, 3 * unit // 2]
    long = 8 * unit if quick else 24 * unit
    return Sizes(prompts, 2 * unit, unit // 2 + 5, long, unit + 40, long // unit + 40, 8)


def scenarios(shape: Shape, block_tokens: int, quick: bool = False) -> list[Scenario]:
    """Mixed steps with chunked prompts, prefix reuse, both kinds of preemption, and a long context."""
    s = sizes(block_tokens, quick)
    wide = EngineLimits(s.blocks, max_step_tokens=s.step)
    few = EngineLimits(s.few, max_step_tokens=s.step)
    prompts = random_prompts(shape, s.prompts, seed=1)
    mixed = [Request(prompt, s.output, at=2 * number, logprobs=TOP) for number, prompt in enumerate(prompts)]
    first, *tails = random_prompts(shape, [s.shared, 3, 9, 1], seed=2)
    again = [
        Request(first + tail, s.output, at=8 * number, logprobs=TOP) for number, tail in enumerate(tails)
    ]
    same = random_prompts(shape, [2 * block_tokens - 3] * 5, seed=3)
    crowd = [Request(prompt, block_tokens, logprobs=TOP) for prompt in same]
    far = [Request(random_prompts(shape, [s.long], seed=4)[0], 8, logprobs=TOP)]
    swapping = EngineLimits(s.few, max_step_tokens=s.step, num_host_blocks=s.blocks)
    return [
        Scenario("mixed", mixed, wide, lambda run, counts: counts.preemptions == 0),
        Scenario(
            "prefixes",
            again,
            EngineLimits(s.blocks, max_step_tokens=s.step, reuse_prefixes=True),
            lambda run, counts: all(answer.num_cached >= block_tokens for answer in run[1:]),
        ),
        Scenario("recompute", crowd, few, lambda run, counts: counts.preemptions > 0),
        Scenario("swap", crowd, swapping, lambda run, counts: counts.swapped_in_blocks > 0),
        Scenario("long", far, EngineLimits(s.blocks, max_step_tokens=s.long // 2), lambda run, counts: True),
    ]


Run = dict[str, list[Answer]]


def run_scenarios(
    session: DecoderSession, chosen: list[Scenario], problems: list[str], note: Callable[[str, Any], None]
) -> Run:
    """The outputs of every scenario; what was not covered, or failed, is added to `problems`."""
    run: Run = {}
    for scenario in chosen:
        if scenario.room.num_host_blocks and not session.can_swap:
            continue
        try:
            run[scenario.name], counts = answers(engine(session, scenario.room), scenario.requests)
        except Exception as error:
            problems.append(f"{scenario.name}: {type(error).__name__}: {error}\n  {LOOK_AT[scenario.name]}")
            continue
        note(f"{scenario.name} counts", asdict(counts))
        if not scenario.happened(run[scenario.name], counts):
            problems.append(f"{scenario.name}: did not do what it is here for: {counts}")
    return run


@dataclass(frozen=True)
class Judged:
    """Differences of log-probabilities to transformers in 32 bits, over chosen and best tokens.

    `yardstick` is the same for transformers in the session's own precision.  `gap` is the largest amount by
    which a chosen token was less probable for transformers than the most probable one.
    """

    positions: int
    agreeing: int
    error: float  # root mean square
    yardstick: float
    worst: float
    worst_yardstick: float
    gap: float

    @property
    def good(self) -> bool:
        allowed = max(YARDSTICK * self.worst_yardstick, 10 * EXACT)
        near = self.error <= max(YARDSTICK * self.yardstick, EXACT) and self.worst <= allowed
        return near and self.gap <= 2 * allowed

    def __str__(self) -> str:
        return (
            f"{self.agreeing} of {self.positions} tokens are transformers' likeliest "
            f"(largest gap {self.gap:.2g}); "
            f"log-probabilities off by {self.error:.2g}, worst {self.worst:.2g} "
            f"(transformers itself by {self.yardstick:.2g}, worst {self.worst_yardstick:.2g})"
        )


def judge(model: Any, exact: Any, requests: list[Request], replies: list[Answer]) -> Judged:
    """model: transformers in the session's precision; exact: the same weights in 32 bits."""
    off: list[np.ndarray] = []
    own: list[np.ndarray] = []
    agreeing, gap = 0, 0.0
    for request, answer in zip(requests, replies, strict=True):
        ids = np.array([[token.top_ids[0] for token in answer.logprobs], answer.tokens])
        reported = np.array([[token.top_logprobs[0], token.logprob] for token in answer.logprobs]).T
        right, ordinary = (
            _logprobs(reference, request.prompt, answer.tokens) for reference in (exact, model)
        )
        rows = np.arange(len(answer.tokens))
        off.append(reported - right[rows, ids])
        own.append(ordinary[rows, ids] - right[rows, ids])
        missed = right.max(axis=1) - right[rows, answer.tokens]
        agreeing += int((missed == 0).sum())
        gap = max(gap, float(missed.max()))
    errors, yardstick = (np.concatenate([array.ravel() for array in many]) for many in (off, own))
    return Judged(
        positions=sum(len(answer.tokens) for answer in replies),
        agreeing=agreeing,
        error=_rms(errors),
        yardstick=_rms(yardstick),
        worst=float(np.abs(errors).max()),
        worst_yardstick=float(np.abs(yardstick).max()),
        gap=gap,
    )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _logprobs(model: Any, prompt: list[int], tokens: list[int]) -> np.ndarray:
    """float64[len(tokens), vocab]: log-probabilities at each position of `tokens`, given those before."""
    import torch

    ids = torch.tensor([prompt + tokens[:-1]], device=next(model.parameters()).device)
    with torch.inference_mode():
        logits = model(ids, use_cache=False, logits_to_keep=len(tokens)).logits[0]
        found: np.ndarray = logits.double().log_softmax(-1).cpu().numpy()
    return found


def differences(run: Run, other: Run) -> list[str]:
    """The scenarios in which two runs are not bit-identical."""
    problems = []
    for name in run.keys() & other.keys():
        pairs = list(zip(run[name], other[name], strict=True))
        tokens = sum(first.tokens != second.tokens for first, second in pairs)
        numbers = sum(first.logprobs != second.logprobs for first, second in pairs)
        if tokens or numbers:
            problems.append(
                f"{name}: {tokens} of {len(pairs)} requests differ in tokens, {numbers} in log-probabilities"
            )
    return sorted(problems)


def check_end_to_end(setting: Setting) -> None:
    """Check float16 on the GPU against transformers, decode steps with CUDA graphs and without."""
    _check("small", GRAPHS, setting)


def check_mixture(setting: Setting) -> None:
    """Check a mixture of experts in float16 against transformers; no CUDA graph replays what routes rows."""
    _check("mixture", {"routed": False}, setting)


def _check(name: str, ways: dict[str, bool], setting: Setting) -> None:
    """Check every scenario in each way against transformers, and that all ways give the same bits."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    shape = SHAPES[name]
    model = random_model(shape, "cuda", "float16")
    problems: list[str] = []
    with weights_of(name, model, setting) as written:
        runs = {
            words: _run_on_gpu(shape, written, graphs, words, setting, problems)
            for words, graphs in ways.items()
        }
    exact = random_model(shape, "cuda", "float32")
    exact.load_state_dict(model.state_dict())
    for words, (run, chosen) in runs.items():
        for scenario in chosen:
            if scenario.name in run:
                judged = judge(model, exact, scenario.requests, run[scenario.name])
                setting.note(f"{scenario.name}, {words}", {**asdict(judged), "good": judged.good})
                setting.say(f"{scenario.name}, {words}: {judged}")
                if not judged.good:
                    problems.append(f"{scenario.name}, {words}: {judged}\n  {LOOK_AT[scenario.name]}")
    first, *others = (run for run, _ in runs.values())
    for other in others:
        problems += [f"with and without CUDA graphs, {problem}" for problem in differences(first, other)]
    if problems:
        raise Failed("\n".join(problems))


def _run_on_gpu(
    shape: Shape, written: ModelWithWeights, graphs: bool, words: str, setting: Setting, problems: list[str]
) -> tuple[Run, list[Scenario]]:
    chosen = scenarios(shape, written.packed.block_tokens, setting.quick)
    rooms = [scenario.room for scenario in chosen]
    largest = max(room.max_step_tokens for room in rooms), max(room.max_sequences for room in rooms)
    with cuda_session(written, graphs=graphs, max_tokens=largest[0], max_sequences=largest[1]) as session:
        session.allocate(max(room.num_blocks for room in rooms), max(room.num_host_blocks for room in rooms))
        mine: list[str] = []
        run = run_scenarios(session, chosen, mine, lambda name, what: setting.note(f"{words}: {name}", what))
        problems += [f"{words}: {problem}" for problem in mine]
        setting.say(f"{words}: {', '.join(f'{key} {value}' for key, value in session.describe().items())}")
    return run, chosen
