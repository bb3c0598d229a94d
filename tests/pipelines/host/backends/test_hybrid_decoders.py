"""Decoders with recurrent states beside attention: packed sequences give the tokens that each gives alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from engine_invariants import snapshot, violations
from lone_steps import step, together
from openvino import opset13 as ops
from recorded_hybrids import FAMILIES, recorded, unpack

from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.openvino.decoder_session import OpenVINOSession, OpenVINOSettings
from pipelines.host.backends.openvino.paged_attention import read_paged
from pipelines.host.backends.openvino.state_tables import AT_THE_END
from pipelines.host.engine.engine_contract import GenerationRequest
from pipelines.host.engine.generation_engine import EngineSettings, GenerationEngine
from pipelines.host.engine.step_context import Logits
from pipelines.host.sampling.stages import sample
from pipelines.wire.sampling_params import Beams, SamplingParams

EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")
NUM_SLOTS = 6
TOLERANCE = 2e-3
"""Of log-probabilities, recorded with 5 digits."""


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def path(family, tmp_path_factory):
    return unpack(family, tmp_path_factory.mktemp(family))


@pytest.fixture
def session(path):
    opened = OpenVINOSession(path, EXACT)
    opened.reserve(24, NUM_SLOTS)
    yield opened
    opened.close()


def engine(session: OpenVINOSession, num_blocks: int) -> GenerationEngine:
    """Chunks of at most 18 tokens of a prompt beside sequences that decode."""
    session.allocate(num_blocks)
    settings = EngineSettings(NUM_SLOTS, 24, reuse_prefixes=False, keeps_states=True)
    return GenerationEngine(
        lambda context: sample(Logits(session.run(context.step), context, session.ops)),
        settings,
        num_blocks,
        session.block_tokens,
        session.vocab_size,
        session.max_context,
        frozenset(),
    )


def generate(
    made: GenerationEngine, requests: list[GenerationRequest], preempting: bool = False
) -> dict[tuple[int, int], list[int]]:
    """(request, choice) → its tokens; the requests join two steps after one another.

    `preempting`: now and then the youngest sequence is preempted, as if blocks had run out.
    """
    texts: dict[tuple[int, int], list[int]] = {}
    joining = list(enumerate(requests))
    while joining or made.has_work:
        if joining:
            made.submit(*joining.pop(0))
        if preempting and made.scheduler.running and made.counts().steps % 5 == 4:
            made.scheduler._preempt(made.scheduler.running[-1])
        for _ in range(2):
            for output in made.step():
                texts.setdefault((output.key, output.choice), []).extend(output.piece.token_ids)
                assert output.piece.finish != "error"
            assert violations(snapshot(made)) == []
    return texts


def greedy(prompt: list[int], n: int = 1, beams: Beams | None = None) -> GenerationRequest:
    params = SamplingParams(max_tokens=16, temperature=0.0, ignore_eos=True, beams=beams)
    return GenerationRequest([prompt], params, n)


def test_tokens_of_packed_sequences_equal_transformers(family, session):
    wanted = recorded(family)
    texts = generate(engine(session, 64), [greedy(one.prompt) for one in wanted])
    assert [texts[number, 0] for number in range(len(wanted))] == [one.token_ids for one in wanted]
    assert all(len(set(one.token_ids)) > 3 for one in wanted), "degenerate text proves nothing"


def test_log_probabilities_of_a_whole_text_equal_transformers(family, session):
    session.allocate(8)
    for one in recorded(family):
        ids, first = one.prompt + one.token_ids, len(one.prompt)
        rows = list(range(first - 1, len(ids) - 1))
        logits = session.run(step(ids, 0, list(range(4)), rows, slots=[2])).astype(np.float64)
        chosen = logits[np.arange(len(rows)), one.token_ids] - np.log(np.exp(logits).sum(axis=1))
        np.testing.assert_allclose(chosen, one.logprobs, atol=TOLERANCE)


def test_choices_and_preempted_sequences_continue_from_their_own_states(family, session):
    """They are computed again in slots that others have used."""
    made, wanted = engine(session, 64), recorded(family)
    texts = generate(made, [greedy(one.prompt, n=2) for one in wanted], preempting=True)
    assert made.counts().preemptions > 3
    for number, one in enumerate(wanted):
        assert texts[number, 0] == texts[number, 1] == one.token_ids


def test_beams_fork_with_their_states(session, family):
    """The same search alone, and beside others and with beams that are preempted."""
    prompt = recorded(family)[2].prompt
    search = greedy(prompt, 3, Beams(3))
    alone = generate(engine(session, 64), [search])
    assert len({tuple(text) for text in alone.values()}) == 3
    beside = generate(engine(session, 64), [search, search, greedy(recorded(family)[1].prompt)], True)
    assert [beside[0, choice] for choice in range(3)] == [alone[0, choice] for choice in range(3)]
    assert [beside[1, choice] for choice in range(3)] == [alone[0, choice] for choice in range(3)]


def test_the_state_of_a_slot_is_that_of_its_sequence(session):
    """Padding, warm-up and the sequence that had the slot before leave nothing in it."""
    ids = np.arange(40, 60)
    session.allocate(8)
    first = session.run(step(ids, 0, [0], [19], slots=[3])).copy()
    tables, zeros = session._states.bytes, session._states.zeros
    rows = {name: table[3].copy() for name, table in tables.items()}
    assert all(row.any() for row in rows.values())
    while session.warm():
        pass
    session.run(step(ids[:1], 0, [1], [0], slots=[2]))
    for name, row in rows.items():
        np.testing.assert_array_equal(tables[name][3], row)
        assert not tables[name][zeros].any()
    np.testing.assert_array_equal(session.run(step(ids, 0, [2], [19], slots=[3])), first)


def test_a_copied_state_continues_as_the_one_it_was_copied_from(session):
    ids = np.arange(40, 70)
    session.allocate(8)
    session.run(step(ids[:20], 0, [0], [19], slots=[1]))
    expected = session.run(step(ids[20:], 20, [0], [9], slots=[1])).copy()
    session.run(step(ids[:20], 0, [0], [19], slots=[1]))
    copied = step(ids[20:], 20, [0], [9], slots=[4], state_copies=[(1, 4)])
    np.testing.assert_array_equal(session.run(copied), expected)


def test_rows_are_read_and_written_by_slot(session):
    both = together([step([5, 6, 7], 0, [0], [2], slots=[2]), step([8], 9, [1], [0], slots=[0])])
    past = np.append(both.num_past, np.array([0, 0], np.int32))
    given = session._states.inputs(past, both.slots)
    zeros, spare = session._states.zeros, NUM_SLOTS
    assert given["la.block_indices"].tolist() == [zeros, 2, 0, 0, zeros, spare, zeros, spare + 1]
    assert given["la.block_indices_begins"].tolist() == [0, 2, 4, 6, 8]
    assert given["la.past_lens"].tolist() == [0, 9, 0, 0]
    assert given["la.cache_interval"].tolist() == [AT_THE_END] * 4


def test_facts_name_the_size_of_a_state(session):
    assert session.state_bytes == sum(table[0].nbytes for table in session._states.bytes.values()) > 0
    assert session.describe()["state_bytes"] == str(session.state_bytes)


def test_a_state_that_does_not_page_is_refused_by_name(family, tmp_path):
    """One more variable, of a kind that OpenVINO does not know."""
    model = ov.Core().read_model(unpack(family, tmp_path))
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
    (count,) = [one for one in model.get_ops() if one.get_type_name() == "Range" and feeds_angles(one)]
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
        below += [target.get_node() for one in node.outputs() for target in one.get_target_inputs()]
    return False
