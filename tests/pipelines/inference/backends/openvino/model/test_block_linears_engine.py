"""What an engine generates with Braid's own kernels does not depend on how its steps are packed.

The weights are those of GGUF files, the cache is f32.  transformers computes the same weights in float32.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from threading import Event

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_files import write_llama_like
from greedy_batches import NUM_TOKENS, generate_together, greedy_engine
from later import Later
from lone_steps import step, together
from patience import PATIENCE_S
from test_gguf_logits import SIZES

from pipelines.gguf.convert import convert
from pipelines.inference.backends.openvino.decoder import fixed_model
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.decoder.device_properties import compile_for
from pipelines.inference.backends.openvino.decoder.fixed_model import SEQUENCES
from pipelines.inference.backends.openvino.decoder.step_requests import StepRequest
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.wire.sampling_params import SamplingParams

torch, hf = Later("torch"), Later("transformers")
NUM_ROWS = 64


@pytest.fixture
def opened(tmp_path, kernels):
    """`opened(type, levels)` → a session, and the weights of its file."""

    def make(kind, levels=2, **options):
        state = write_llama_like(tmp_path / "tiny.gguf", kind=kind)
        convert(tmp_path / "tiny.gguf", tmp_path / "model")
        options = {"precision": "f32", "kv_cache": "f32", "kernels": kernels(levels)} | options
        settings = OpenVINOSettings(**options)
        return OpenVINOSession(tmp_path / "model" / "model.onnx", settings), state

    return make


def prompts():
    """Of 3 to 90 tokens; the last two begin alike."""
    rng = np.random.default_rng(3)
    lone = [rng.integers(5, SIZES["vocab_size"], size).tolist() for size in (3, 90, 40, 17, 64)]
    return [*lone, lone[1][:64] + lone[0], lone[1][:64] + lone[3]]


def behind_the_best(state, texts):
    """How far the logit of each token is below the largest one that transformers gives there."""
    model = hf.AutoModelForCausalLM.from_config(hf.LlamaConfig(**SIZES)).float().eval()
    model.load_state_dict({name: torch.tensor(each) for name, each in state.items()}, strict=False)
    for prompt, text in zip(prompts(), texts, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + text])).logits[0, len(prompt) - 1 : -1]
        yield from (logits.max(1).values - logits[range(NUM_TOKENS), text]).tolist()


@pytest.mark.parametrize("kind", [Type.Q4_1, Type.Q8_0])
def test_chunks_and_reused_prefixes_give_the_tokens_of_transformers(opened, kind):
    """But for those that are as likely, to the digits that 15 bits have."""
    session, state = opened(kind)
    texts, num_cached = generate_together(greedy_engine(session, num_blocks=64), prompts())
    assert num_cached >= 64
    behind = list(behind_the_best(state, texts))
    assert max(behind) < 2e-3
    assert np.mean(np.array(behind) == 0) > 0.98
    assert all(len(set(text)) > 3 for text in texts), "degenerate text proves nothing"


def test_preempted_and_repeated_prompts_give_the_same_tokens(opened):
    session, _ = opened(Type.Q4_1)
    alone = [generate_together(greedy_engine(session, num_blocks=64), [prompt])[0][0] for prompt in prompts()]
    texts, _ = generate_together(greedy_engine(session, num_blocks=9), prompts())  # of 14 that all would take
    assert texts == alone
    engine = greedy_engine(session, num_blocks=64)
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, ignore_eos=True)
    engine.submit(0, GenerationRequest([prompts()[1]], params, n=3))
    choices = [[], [], []]
    while engine.has_work:
        for output in engine.step():
            choices[output.choice].extend(output.piece.token_ids)
    assert choices == [alone[1]] * 3


def test_activations_in_groups_of_32_with_scales_for_16_weights(tmp_path, kernels):
    """Q6_K: OpenVINO does not round activations so, the kernels do."""
    write_llama_like(tmp_path / "tiny.gguf", kind=Type.Q6_K)
    convert(tmp_path / "tiny.gguf", tmp_path / "model")
    path, group = tmp_path / "model" / "model.onnx", {"kv_cache": "f32", "activation_group": 32}
    with pytest.raises(ModelError, match="32 does not divide the 16 weights"):
        OpenVINOSession(path, OpenVINOSettings(**group))
    logits = []
    for more in (group | {"kernels": kernels(1)}, {"kv_cache": "f32", "kernels": kernels(2)}):
        session = OpenVINOSession(path, OpenVINOSettings(**more))
        session.reserve(1, 1)
        session.allocate(1)
        logits.append(session.run(step([7], 0, [0], [0])).copy())
        assert re.match(r"(\d+) of \1 by braid", session.describe()["linear_layers"])
    error = np.abs(logits[0] - logits[1]).max() / np.abs(logits[1]).max()
    assert 1e-5 < error < 0.05


@pytest.mark.parametrize("levels", [1, 2])
def test_logits_of_a_token_are_those_among_64_sequences_to_the_last_bit(opened, levels):
    """Each behind one token: so attention is computed alike as well."""
    session, _ = opened(Type.Q4_K, levels)
    session.reserve(NUM_ROWS, NUM_ROWS)
    session.allocate(NUM_ROWS)
    ids = np.random.default_rng(4).integers(5, SIZES["vocab_size"], NUM_ROWS)
    steps = [step([token], 0, [number], [0]) for number, token in enumerate(ids)]
    all_at_once = session.run(together(steps)).copy()
    for number in (0, 1, 31, 63):
        np.testing.assert_array_equal(session.run(steps[number])[0], all_at_once[number])
    np.testing.assert_array_equal(session.run(together(steps[:5])), all_at_once[:5])


@pytest.mark.parametrize("options", [{}, {"kv_cache": "u8", "threads": 2}], ids=["f32", "u8"])
def test_steps_of_a_size_by_a_graph_of_their_own_give_the_same_logits(opened, options):
    session, _ = opened(Type.Q4_1, **options)
    session.reserve(NUM_ROWS, NUM_ROWS)
    texts = [*prompts(), prompts()[0]]
    before = [generate_together(greedy_engine(session, num_blocks=64), texts[:count]) for count in SEQUENCES]
    lone = [step([7 + number], 0, [number], [0]) for number in range(8)]
    logits = {count: session.run(together(lone[:count])).copy() for count in SEQUENCES}
    while session.warm():
        pass
    requests = session._requests
    assert [tuple(size) for size in requests._of_size] == [(count,) * 3 for count in SEQUENCES]
    for count in SEQUENCES:
        np.testing.assert_array_equal(session.run(together(lone[:count])), logits[count])
        assert requests._last is requests._of_size[count, count, count]
    session.allocate(64)  # of which all graphs read the same blocks
    after = [generate_together(greedy_engine(session, num_blocks=64), texts[:count]) for count in SEQUENCES]
    assert after == before
    session.close()


@pytest.mark.parametrize(("tokens", "sequences"), [(NUM_ROWS, 3), (3, NUM_ROWS)])
def test_only_sizes_that_an_engine_can_have_get_a_graph(opened, tokens, sequences):
    session, _ = opened(Type.Q4_1)
    session.reserve(tokens, sequences)
    session.allocate(3)
    while session.warm():
        pass
    assert [size.sequences for size in session._requests._of_size] == [1, 2, 3]
    session.close()


def test_what_a_change_of_shape_costs_is_timed_before_sizes_have_graphs(opened, monkeypatch):
    session, _ = opened(Type.Q4_1)
    sizes = set()

    def take_next(self, take=OpenVINOSession._take_next):
        sizes.add((self._later[0].size.sequences, len(self._warmup.changes_s)))
        take(self)

    monkeypatch.setattr(OpenVINOSession, "_take_next", take_next)
    warm(session)
    assert sizes == {(1, 0), *((count, 3) for count in SEQUENCES[1:])}
    session.close()


ERRORS = {"raises": RuntimeError("no memory"), "ends otherwise": MemoryError()}


def warm(session):
    """Warm it up to its end."""
    session.reserve(NUM_ROWS, NUM_ROWS)
    session.allocate(1)
    while session.warm():
        pass


def test_a_cache_that_comes_while_the_last_graph_is_tried_has_a_block_for_each_text(opened):
    session, _ = opened(Type.Q4_1)
    session.reserve(NUM_ROWS, NUM_ROWS)
    session.allocate(1)
    while session._later:
        session.warm()
    session.allocate(2)
    assert {tensor.shape[0] for tensor in session._memory.tensors.values()} == {2 + SEQUENCES[-1]}
    while session.warm():
        pass
    assert len(session._requests._of_size) == len(SEQUENCES)
    session.close()


@pytest.mark.parametrize("fault", ["raises", "differs", "reads no past", "ends otherwise"])
def test_a_graph_of_their_own_that_fails_is_not_used(opened, monkeypatch, fault):
    def infer(self, inputs, run=StepRequest.infer):
        if self is session._requests._any_size:
            run(self, inputs)
            return
        if fault in ERRORS:
            raise ERRORS[fault]
        run(
            self,
            inputs if fault == "differs" else {**inputs, "past_lens": np.zeros_like(inputs["past_lens"])},
        )
        if fault == "differs":
            self.request.get_output_tensor(0).data[:] += 1

    session, _ = opened(Type.Q4_1)
    monkeypatch.setattr(StepRequest, "infer", infer)
    with pytest.raises(MemoryError) if fault == "ends otherwise" else nullcontext():
        warm(session)
    assert session._requests._of_size == {}
    assert np.isfinite(session.run(step([7], 0, [0], [0]))).all()
    session.close()


def test_a_session_does_not_wait_for_that_graph_when_it_closes(opened, monkeypatch):
    begun, may_end = Event(), Event()

    def compiled(*arguments):
        begun.set()
        assert may_end.wait(PATIENCE_S)
        return compile_for(*arguments)

    session, _ = opened(Type.Q4_1)
    monkeypatch.setattr(fixed_model, "compile_for", compiled)
    session.reserve(NUM_ROWS, NUM_ROWS)
    session.allocate(1)
    assert session.warm()
    assert begun.wait(PATIENCE_S)
    fixing = session._later[0]
    session.close()
    may_end.set()
    fixing._thread.join(PATIENCE_S)
    assert fixing.compiled is None
