"""Decoders with recurrent states beside attention: packed sequences give the tokens that each gives alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from breadth import after
from engine_invariants import snapshot, violations
from host_device import HostDevice
from host_runtime import HostRuntime, lower_for_host
from lone_steps import step, together
from openvino import opset13 as ops
from recorded_hybrids import (
    BY_KERNELS,
    EXPORTS,
    FAMILIES,
    ON_CUDA,
    ON_RUNTIME,
    recorded,
    unpack,
    write,
)

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.model.operator_library import find_kernels
from pipelines.inference.backends.openvino.paging.paged_attention import read_paged
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.step import NO_STATE, ONLY_LAST, Sampled
from pipelines.inference.engine.generation_engine import EngineSettings, GenerationEngine, StepBody
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.cache_size import CacheSize
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, StepContext
from pipelines.nodes.generation.body.lookup import Lookup
from pipelines.wire.sampling_params import Beams, SamplingParams

EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")
BLOCKS = OnnxCpuSettings(block_tokens=32)
NUM_SLOTS = 6
NUM_STATES = 3 * NUM_SLOTS
DRAFT_TOKENS = 3
TOLERANCE = 2e-3
"""Of log-probabilities, recorded with 5 digits."""


@pytest.fixture(scope="module", params=after(4, FAMILIES))
def family(request):
    return request.param


@pytest.fixture(scope="module")
def path(family, tmp_path_factory):
    return write(family, tmp_path_factory.mktemp(family.replace(" ", "-")))


@pytest.fixture(scope="module")
def session(family, path, request):
    if family == ON_CUDA or family.endswith(BY_KERNELS):
        folder = request.getfixturevalue("kernel_folder")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BRAID_KERNELS", str(folder))
            opened = by_library(family, path)
    else:
        opened = OnnxCpuSession(path, BLOCKS) if family == ON_RUNTIME else OpenVINOSession(path, EXACT)
    opened.reserve(24, NUM_SLOTS)
    yield opened
    opened.close()


def by_library(family, path):
    """A session that needs the compiled kernels."""
    if family == ON_CUDA:
        lowered = lower_for_host(path, block_tokens=BLOCKS.block_tokens)
        return OnnxCudaSession(lowered, HostDevice(), HostRuntime())
    session = OpenVINOSession(path, replace(EXACT, kernels=find_kernels(2)))
    assert re.match(r"(\d) of \1 by braid kernels", session.describe()["recurrent_layers"])
    return session


@pytest.fixture
def paged(family, session):
    """A session on OpenVINO, whose tables are the device's."""
    if family in (ON_RUNTIME, ON_CUDA):
        pytest.skip("states lie in numpy's arrays")
    return session


def engine(
    session: OpenVINOSession,
    num_blocks: int,
    reuse_prefixes: bool = False,
    speculate: Lookup | None = None,
    max_step_tokens: int = 24,
) -> GenerationEngine:
    """Chunks of at most 18 tokens of a prompt beside sequences that decode."""
    session.allocate(num_blocks, num_states=NUM_STATES)

    def body(context: StepContext) -> Sampled:
        context = speculate.run(context) if speculate else context
        return sample(Logits(session.run(context.step), context, session.ops))

    return GenerationEngine(
        StepBody(body),
        EngineSettings(
            NUM_SLOTS, max_step_tokens, reuse_prefixes, num_draft_tokens=DRAFT_TOKENS if speculate else 0
        ),
        session.shape,
        CacheSize(num_blocks, NUM_STATES),
        frozenset(),
    )


def generate(
    hybrid_engine: GenerationEngine, requests: list[GenerationRequest], preempting: bool = False
) -> dict[tuple[int, int], list[int]]:
    """(request, choice) → its tokens; the requests join two steps after one another.

    `preempting`: now and then the youngest sequence is preempted, as if blocks had run out.
    """
    texts: dict[tuple[int, int], list[int]] = {}
    joining = list(enumerate(requests))
    while joining or hybrid_engine.has_work:
        if joining:
            hybrid_engine.submit(*joining.pop(0))
        if preempting and hybrid_engine.scheduler.running and hybrid_engine.counts().steps % 5 == 4:
            hybrid_engine.scheduler._preempt(hybrid_engine.scheduler.running[-1])
        for _ in range(2):
            for output in hybrid_engine.step():
                texts.setdefault((output.key, output.choice), []).extend(output.piece.token_ids)
                assert output.piece.finish != "error"
            assert violations(snapshot(hybrid_engine)) == []
    return texts


def greedy(prompt: list[int], n: int = 1, beams: Beams | None = None) -> GenerationRequest:
    params = SamplingParams(max_tokens=16, temperature=0.0, ignore_eos=True, beams=beams)
    return GenerationRequest([prompt], params, n)


@pytest.mark.parametrize("family", after(4, FAMILIES), indirect=True)
def test_tokens_of_packed_sequences_equal_transformers(family, session):
    wanted = recorded(family)
    texts = generate(engine(session, 64), [greedy(one.prompt) for one in wanted])
    assert [texts[number, 0] for number in range(len(wanted))] == [one.token_ids for one in wanted]
    assert all(len(set(one.token_ids)) > 3 for one in wanted), "degenerate text proves nothing"


def test_log_probabilities_of_a_whole_text_equal_transformers(family, session):
    session.allocate(8, num_states=3)
    for one in recorded(family):
        ids, first = one.prompt + one.token_ids, len(one.prompt)
        rows = list(range(first - 1, len(ids) - 1))
        logits = session.run(step(ids, 0, list(range(4)), rows, states=[NO_STATE, 2])).astype(np.float64)
        chosen = logits[np.arange(len(rows)), one.token_ids] - np.log(np.exp(logits).sum(axis=1))
        np.testing.assert_allclose(chosen, one.logprobs, atol=TOLERANCE)


@pytest.mark.parametrize("family", after(1, FAMILIES), indirect=True)
def test_choices_and_preempted_sequences_continue_from_their_own_states(family, session):
    """They are computed again in rows that others have used."""
    made, wanted = engine(session, 64), recorded(family)
    texts = generate(made, [greedy(one.prompt, n=2) for one in wanted], preempting=True)
    assert made.counts().preemptions > 3
    for number, one in enumerate(wanted):
        assert texts[number, 0] == texts[number, 1] == one.token_ids


@pytest.mark.parametrize("family", after(1, FAMILIES), indirect=True)
def test_beams_fork_with_their_states(session, family):
    """The same search alone, and beside others and with beams that are preempted."""
    prompt = recorded(family)[2].prompt
    search = greedy(prompt, 3, Beams(3))
    alone = generate(engine(session, 64), [search])
    assert len({tuple(text) for text in alone.values()}) == 3
    beside = generate(engine(session, 64), [search, search, greedy(recorded(family)[1].prompt)], True)
    assert [beside[0, choice] for choice in range(3)] == [alone[0, choice] for choice in range(3)]
    assert [beside[1, choice] for choice in range(3)] == [alone[0, choice] for choice in range(3)]


def test_prefixes_are_continued_from_stored_states(family, session):
    """The same prompt and its next turn, in chunks and in steps that hold whole prompts."""
    prompt, wanted = recorded(family)[1].prompt, recorded(family)[1].token_ids
    turns = [prompt, prompt, prompt + wanted]
    cold = [generate(engine(session, 64), [greedy(turn)])[0, 0] for turn in turns]
    assert cold[:2] == [wanted, wanted]
    for max_step_tokens in (24, 200):
        small_engine = engine(session, 64, True, max_step_tokens=max_step_tokens)
        cached = []
        for turn, text in zip(turns, cold, strict=True):
            before = small_engine.counts().prefix_hit_tokens
            assert generate(small_engine, [greedy(turn)]) == {(0, 0): text}
            cached.append(small_engine.counts().prefix_hit_tokens - before)
        assert cached == [0, 64, 64]


@pytest.mark.parametrize("family", after(1, FAMILIES), indirect=True)
def test_a_state_is_stored_where_a_prompt_leaves_what_is_cached(family, session):
    prompts = [[*range(30, 94), *range(20, 20 + 3 * tail)] for tail in (12, 11, 10)]
    for number, prompt in enumerate(prompts):
        prompt[64] = number
    cold = [generate(engine(session, 64), [greedy(prompt)])[0, 0] for prompt in prompts]
    warm_engine = engine(session, 64, True, max_step_tokens=200)
    cached = []
    for prompt, text in zip(prompts, cold, strict=True):
        before = warm_engine.counts().prefix_hit_tokens
        assert generate(warm_engine, [greedy(prompt)]) == {(0, 0): text}
        cached.append(warm_engine.counts().prefix_hit_tokens - before)
    assert cached == [0, 0, 64]


def test_rejected_draft_tokens_leave_no_trace_in_the_states(family, session):
    """Texts that repeat themselves, some of whose repetitions the model does not continue."""
    prompts = [case.prompt + case.token_ids + case.prompt[-20:] for case in recorded(family)]
    alone = [generate(engine(session, 64), [greedy(prompt)])[0, 0] for prompt in prompts]
    lookup = Lookup(Lookup.Config(adaptive=False, max_ngram=1, num_draft_tokens=DRAFT_TOKENS), Path())
    drafting_engine = engine(session, 64, True, lookup, 64)
    texts = generate(drafting_engine, [greedy(prompt, n=2) for prompt in prompts], preempting=True)
    for number, text in enumerate(alone):
        assert texts[number, 0] == texts[number, 1] == text
    counts = drafting_engine.counts()
    assert counts.draft_tokens - counts.accepted_tokens > 20
    assert counts.accepted_tokens > 5


def test_rows_are_written_by_the_step_alone(paged):
    """Padding, warm-up and the sequence that had the row before leave nothing in it."""
    ids = np.arange(40, 60)
    paged.allocate(8, num_states=4)
    first = paged.run(step(ids, 0, [0], [19], states=[NO_STATE, 3])).copy()
    tables, zeros = paged._states.bytes, paged._states.zeros
    rows = {name: table[3].copy() for name, table in tables.items()}
    assert all(row.any() for row in rows.values())
    while paged.warm():
        pass
    paged.run(step(ids[:1], 0, [1], [0], states=[NO_STATE, 2]))
    for name, row in rows.items():
        np.testing.assert_array_equal(tables[name][3], row)
        assert not tables[name][zeros].any()
    np.testing.assert_array_equal(paged.run(step(ids, 0, [2], [19], states=[NO_STATE, 3])), first)


def test_states_at_an_interval_are_those_of_shorter_texts(paged):
    """Of a text in two steps: after every 20 tokens from its beginning, and after the last."""
    ids = np.arange(30, 80)
    paged.allocate(8, num_states=8)
    paged.run(step(ids[:17], 0, [0, 1], [16], states=[NO_STATE, 0]))
    paged.run(step(ids[17:], 17, [0, 1], [32], states=[0, 1, 2, 3], interval=20))
    for row, length in ((1, 20), (2, 40), (3, 50)):
        paged.run(step(ids[:17], 0, [2, 3], [16], states=[NO_STATE, 4]))
        paged.run(step(ids[17:length], 17, [2, 3], [0], states=[4, 5]))
        for table in paged._states.bytes.values():
            got, want = table[row].view(np.float32), table[5].view(np.float32)
            np.testing.assert_allclose(got, want, atol=1e-4)


def test_rows_are_those_of_the_step_and_of_its_padding(paged):
    both = together(
        [
            step([5, 6, 7], 0, [0], [2], states=[NO_STATE, 2], slots=[2]),
            step([8], 9, [1], [0], states=[0, 1], slots=[0]),
        ]
    )
    paged.allocate(2, num_states=NUM_STATES)
    step_inputs = paged._states.step_inputs(both, 2)
    zeros, spare = paged._states.zeros, NUM_STATES
    assert step_inputs["la.block_indices"].tolist() == [zeros, 2, 0, 1, zeros, spare, zeros, spare + 1]
    assert step_inputs["la.block_indices_begins"].tolist() == [0, 2, 4, 6, 8]
    assert step_inputs["la.past_lens"].tolist() == [0, 9, 0, 0]
    assert step_inputs["la.cache_interval"].tolist() == [ONLY_LAST] * 4


def test_facts_name_the_size_of_a_state(paged):
    assert paged.shape.state_bytes == sum(table[0].nbytes for table in paged._states.bytes.values()) > 0
    assert paged.describe()["state_bytes"] == str(paged.shape.state_bytes)


def test_a_state_that_does_not_page_is_refused_by_name(tmp_path):
    """One more variable, of a kind that OpenVINO does not know."""
    model = ov.Core().read_model(unpack(EXPORTS[0], tmp_path))
    sums = ops.read_value(ops.constant(np.zeros((1, 1), np.float32)), "sums.0", np.float32, [1, 1])
    logits = model.get_results()[0].input(0)
    moved = ops.add(sums, ops.reduce_sum(logits.get_source_output(), np.array([1, 2]), keep_dims=False))
    logits.replace_source_output(ops.add(logits.get_source_output(), sums).output(0))
    model.add_sinks([ops.assign(moved, "sums.0")])
    changed = tmp_path / "changed.xml"
    ov.save_model(model, changed, compress_to_fp16=False)
    with pytest.raises(ModelError, match=r"cannot page 1 of its states \(sums\.0"):
        read_paged(changed)


def test_positions_that_are_counted_are_read_from_the_step(tmp_path):
    """transformers 5 counts them in LFM2: after paging, no rotation hangs on a count of its own."""
    model = read_paged(unpack("lfm2", tmp_path))
    (positions,) = [one for one in model.inputs if one.any_name == "position_ids"]
    assert len(positions.get_target_inputs()) == 1


def test_positions_that_cannot_be_given_are_refused(tmp_path):
    path: Path = unpack("lfm2", tmp_path)
    text = path.read_text()
    model = ov.Core().read_model(text, ov.Tensor(np.fromfile(path.with_suffix(".bin"), np.uint8)))
    (count,) = [
        operation
        for operation in model.get_ops()
        if operation.get_type_name() == "Range" and feeds_angles(operation)
    ]
    targets = list(count.output(0).get_target_inputs())
    doubled = ops.multiply(count, ops.constant(1, count.get_element_type().to_dtype()))
    for target in targets:
        target.replace_source_output(doubled.output(0))
    changed = tmp_path / "changed.xml"
    ov.save_model(model, changed, compress_to_fp16=False)
    with pytest.raises(ModelError, match="counts positions itself and does not read them"):
        read_paged(changed)


def feeds_angles(node: ov.Node) -> bool:
    """Whether what a node counts becomes an angle."""
    below = [target.get_node() for target in node.output(0).get_target_inputs()]
    seen = 0
    while below and seen < 20:
        seen += 1
        node = below.pop(0)
        if node.get_type_name() in ("Cos", "Sin"):
            return True
        below += [target.get_node() for output in node.outputs() for target in output.get_target_inputs()]
    return False
