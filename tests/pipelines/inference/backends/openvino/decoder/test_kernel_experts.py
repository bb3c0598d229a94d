"""Routed experts by Braid's own kernels: what they compute, for whom, and from where they read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from breadth import after
from mixtures import Form, Mixture
from paged_mixtures import paged, run

EXACT = {"INFERENCE_PRECISION_HINT": "f32"}
MIXTURES = {
    "four bits": Mixture(),
    "float zeros": Mixture(forms={"": Form(zeros="float32")}),
    "packed zeros": Mixture(forms={"": Form(block=16, zeros="packed")}),
    "two bits": Mixture(inner=128, forms={"": Form(2, 16, "packed")}),
    "eight bits": Mixture(forms={"": Form(8, 16, "packed"), "up": Form(8, 32)}),
    "half scales": Mixture(forms={"": Form(scales="float16")}),
    "e2m1": Mixture(table="e2m1"),
    "e2m1 and eight bits": Mixture(table="e2m1", forms={"": Form(), "down": Form(8)}),
    "clamped with biases": Mixture(activation="clamped", has_bias=True),
    "without gate": Mixture(activation="relu2", has_gate=False),
    "gelu": Mixture(activation="gelu"),
    "gelu_tanh": Mixture(activation="gelu_tanh", has_bias=True),
    "many experts": Mixture(experts=40, used=4, width=96, inner=48, forms={"": Form(block=16)}),
}
ERROR = {2: 2e-4, 1: 3e-2}
"""Levels → the deviation of errors, as a part of that of the results."""


@pytest.mark.parametrize(
    ("name", "levels"),
    after(len(MIXTURES) + 1, [*((name, 2) for name in MIXTURES), *((name, 1) for name in MIXTURES)]),
)
def test_the_operator_computes_what_the_node_means(kernels, name, levels, tmp_path):
    mixture = MIXTURES[name]
    model, held, experts = paged(mixture, tmp_path, kernels(levels))
    assert (experts.by_kernels, experts.by_linears) == (1, 0)
    compiled = ov.Core().compile_model(model, "CPU", EXACT)
    for tokens in (1, 7, 90):
        given = mixture.inputs(tokens)
        expected = mixture.expected(**given)
        assert (run(compiled, given) - expected).std() < ERROR[levels] * expected.std()
    assert held.files


@pytest.fixture
def mixture(kernels, tmp_path):
    """A mixture, its compiled model, and what holds its weights."""
    mixture = Mixture(
        experts=12, used=4, activation="clamped", has_bias=True, forms={"": Form(zeros="float32")}
    )
    model, held, _ = paged(mixture, tmp_path, kernels(2))
    return mixture, ov.Core().compile_model(model, "CPU", EXACT), held


def test_a_token_does_not_depend_on_others(mixture):
    """To the last bit, also where more tokens come than are computed together."""
    mixture, compiled, _ = mixture
    given = mixture.inputs(1100)
    together = run(compiled, given).copy()
    for token in (0, 1, 500, 1023, 1024, 1099):
        alone = run(compiled, {name: values[:, token : token + 1] for name, values in given.items()})
        assert np.array_equal(alone[0, 0], together[0, token])


def test_several_requests_at_once_agree(mixture):
    mixture, compiled, _ = mixture
    given = [mixture.inputs(tokens, seed=tokens) for tokens in range(1, 9)]
    expected = [mixture.expected(**each) for each in given]
    requests = [compiled.create_infer_request() for _ in given]
    for request, each in zip(requests, given, strict=True):
        request.start_async([each[port.any_name] for port in compiled.inputs])
    for request, wanted in zip(requests, expected, strict=True):
        request.wait()
        np.testing.assert_allclose(request.get_output_tensor(0).data, wanted, atol=1e-3 * wanted.std())


def test_an_expert_that_there_is_not_is_an_error(mixture):
    mixture, compiled, _ = mixture
    given = mixture.inputs(2)
    given["chosen"][0, 1, 0] = mixture.experts
    with pytest.raises(RuntimeError, match="a chosen expert is none of 12"):
        run(compiled, given)


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_half_precision_changes_little(kernels, precision, tmp_path):
    mixture = Mixture()
    model, _held, _ = paged(mixture, tmp_path, kernels(2))
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": precision})
    given = mixture.inputs(9)
    expected = mixture.expected(**given)
    assert (run(compiled, given) - expected).std() < 2e-2 * expected.std()


def test_pages_of_the_file_are_given_back_when_an_expert_is_packed(kernels, tmp_path):
    mixture = Mixture(experts=4, width=512, inner=1024, used=2)
    model, held, _ = paged(mixture, tmp_path, kernels(2))
    compiled = ov.Core().compile_model(model, "CPU", EXACT)
    (file,) = held.files.values()
    file.release_pages()
    given = mixture.inputs(3)
    expected = mixture.expected(**given)
    assert (run(compiled, given) - expected).std() < ERROR[2] * expected.std()
    assert resident(file.bytes) < len(file.bytes) / 4, "but for what the system read around it"


def resident(array):
    """How many bytes of a mapped array are in this process."""
    total, inside, begin = 0, False, array.ctypes.data
    for line in Path("/proc/self/smaps").read_text().splitlines():
        word = line.split()[0]
        if "-" in word and not word.endswith(":"):
            first, last = (int(number, 16) for number in word.split("-"))
            inside = first <= begin < last
        elif inside and word == "Rss:":
            total += int(line.split()[1]) * 1024
    return total


def test_floats_are_left_to_linear_layers(kernels, tmp_path):
    _model, _held, experts = paged(Mixture(forms={"": Form(0)}), tmp_path, kernels(2))
    assert (experts.by_kernels, experts.by_linears) == (0, 1)
