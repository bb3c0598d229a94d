"""Compares mixed steps of a base and its adapters with transformers, into whose weights each was merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pipelines.adapters.weights import BASE, AdapterRoom, AdapterWeights, LinearShape
from tools.lab.gpu_check.base.setting import Failed, Setting
from tools.lab.gpu_check.correctness.end_to_end import GRAPHS, TOP, Run, differences, judge
from tools.lab.gpu_check.packs.driving import EngineLimits, Request, answers, engine
from tools.lab.gpu_check.packs.models import SHAPES, WITH_ADAPTERS, Shape, random_model, random_prompts
from tools.lab.gpu_check.packs.random_adapters import merge, random_adapter
from tools.lab.gpu_check.packs.sessions import ModelWithWeights, cuda_session, weights_of

RANKS = {1: 16, 2: 5, 3: 24, 4: 8}
"""Load number → rank."""
ROUNDS = {"mixed": (1, 2, 3), "changed": (2, 3, 4)}
"""Which are loaded: in the second round the fourth has the place of the first."""
LOOK_AT = (
    "pipelines/inference/backends/onnxruntime/cuda/adapter_pools.py (rows and owners of a step), "
    "lora_linears.py (what a graph adds); MatMul over no rows, where the base alone is wrong"
)


def requests(shape: Shape, block_tokens: int, loaded: tuple[int, ...], quick: bool) -> list[Request]:
    """One prompt with each adapter and the base, and others of mixed lengths; each comes two steps later."""
    unit, whose = block_tokens, (BASE, *loaded)
    (same,) = random_prompts(shape, [unit + 3], seed=8)
    prompts = [same] * len(whose) + random_prompts(shape, [1, unit, 2 * unit + 7, 5], seed=sum(loaded))
    num_tokens = unit // 2 if quick else unit + 5
    return [
        Request(prompt, num_tokens, 2 * number, TOP, whose[number % len(whose)])
        for number, prompt in enumerate(prompts)
    ]


def check_adapters(setting: Setting) -> None:
    """Check float16 on the GPU against transformers, with CUDA graphs and without."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    shape = SHAPES["small"]
    model = random_model(shape, "cuda", "float16")
    with weights_of("small" + WITH_ADAPTERS, model, setting) as written:
        runs = {words: run_rounds(written, shape, graphs, setting) for words, graphs in GRAPHS.items()}
        asked = {
            name: requests(shape, written.packed.block_tokens, loaded, setting.quick)
            for name, loaded in ROUNDS.items()
        }
    adapters = adapters_of(written)
    exact = random_model(shape, "cuda", "float32")
    exact.load_state_dict(model.state_dict())
    weights = [
        {name: tensor.clone() for name, tensor in module.state_dict().items()} for module in (model, exact)
    ]
    problems = []
    for number in (BASE, *RANKS):
        for module, base in zip((model, exact), weights, strict=True):
            module.load_state_dict(base)
            if number != BASE:
                merge(module, adapters[number])
        for words, run in runs.items():
            problems += judge_adapter(number, (model, exact), asked, run, words, setting)
    eager, replayed = runs.values()
    problems += [f"with and without CUDA graphs, {problem}" for problem in differences(eager, replayed)]
    problems += [f"{name}: all say the same" for name in ROUNDS if not _differ(asked[name], eager[name])]
    if problems:
        raise Failed("\n".join(problems), LOOK_AT)


def adapters_of(written: ModelWithWeights) -> Mapping[int, AdapterWeights]:
    shapes = {each["name"]: LinearShape(each["size_in"], each["size_out"]) for each in written.packed.adapted}
    return {number: random_adapter(shapes, rank, seed=number) for number, rank in RANKS.items()}


def run_rounds(written: ModelWithWeights, shape: Shape, graphs: bool, setting: Setting) -> Run:
    """What each request of each round gets, from one session."""
    adapters, block_tokens = adapters_of(written), written.packed.block_tokens
    limits = EngineLimits(64, max_step_tokens=block_tokens + 40)
    room = AdapterRoom(frozenset(), len(ROUNDS["mixed"]), max(RANKS.values()))
    sizes = {"max_tokens": limits.max_step_tokens, "max_sequences": limits.max_sequences}
    run: Run = {}
    with cuda_session(written, graphs=graphs, room=room, **sizes) as session:
        session.allocate(limits.num_blocks)
        for name, loaded in ROUNDS.items():
            for number in RANKS.keys() - set(loaded):
                session.drop_adapter(number)
            generator = engine(session, limits, adapters={number: adapters[number] for number in loaded})
            run[name], _ = answers(generator, requests(shape, block_tokens, loaded, setting.quick))
        setting.say(f"graphs {graphs}: {dict(session.describe())}")
    return run


def judge_adapter(
    number: int,
    models: tuple[Any, Any],
    asked: Mapping[str, list[Request]],
    run: Run,
    words: str,
    setting: Setting,
) -> list[str]:
    """What is wrong with the outputs of one adapter, of which `models` are transformers' in both types."""
    problems = []
    for name, listed in asked.items():
        pairs = [pair for pair in zip(listed, run[name], strict=True) if pair[0].adapter == number]
        if not pairs:
            continue
        judged = judge(*models, [request for request, _ in pairs], [answer for _, answer in pairs])
        what = f"{name}, {f'adapter {number}' if number else 'the base'}, {words}"
        setting.note(what, {**asdict(judged), "good": judged.good})
        setting.say(f"{what}: {judged}")
        if not judged.good:
            problems.append(f"{what}: {judged}")
    return problems


def _differ(listed: list[Request], given: list[Any]) -> bool:
    """Whether one prompt gets another text with each adapter."""
    pairs = zip(listed, given, strict=True)
    said = [tuple(answer.tokens) for request, answer in pairs if request.prompt == listed[0].prompt]
    return len(set(said)) == len(said)
