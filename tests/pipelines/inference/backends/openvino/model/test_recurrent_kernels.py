"""Which recurrent layers Braid's kernels compute, and in which type; that they are right: test_hybrid_decoders."""

from __future__ import annotations

import numpy as np
import pytest
from lone_steps import step
from recurrences import write_recurrent

from pipelines.base.prepared_models import PreparedModels
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.model import recurrent_kernels
from pipelines.inference.backends.openvino.prepared.prepared_decoder import GRAPH, open_prepared
from pipelines.inference.contracts.step import NO_STATE

IDS = np.arange(30, 60)
SUMS = (4 * 16 * 16, 4 * 8 * 16)
"""Numbers of the states that are sums: a delta net's and Mamba 2's."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_recurrent(tmp_path_factory.mktemp("recurrent"))


def states_after(path, **settings):
    """The facts of a session, and the states after some tokens."""
    session = OpenVINOSession(path, OpenVINOSettings(kv_cache="f32", **settings))
    session.allocate(4, num_states=2)
    session.run(step(IDS, 0, [0], [29], states=[NO_STATE, 1]))
    tables = {name: table[1].view(np.float32).copy() for name, table in session._states.bytes.items()}
    facts = dict(session.describe())
    session.close()
    return facts["recurrent_layers"], tables


def test_states_and_sums_are_float32_where_the_rest_is_not(path, kernels):
    by, wanted = states_after(path, precision="f32")
    assert by == "4 by openvino"
    by, got = states_after(path, precision="bf16", kernels=kernels(2))
    assert by.startswith("4 of 4 by braid kernels")
    assert got.keys() == wanted.keys()
    for name, states in got.items():
        np.testing.assert_allclose(states, wanted[name], atol=0.05 * np.abs(wanted[name]).max())
    sums = [states for states in got.values() if len(states) in SUMS]
    assert len(sums) == 2
    assert all(np.any(states.view(np.uint32) & 0xFFFF) for states in sums), "of bfloat16 they would be zeros"


def test_heads_of_few_rows_are_left_to_openvino(path, kernels, monkeypatch):
    monkeypatch.setattr(recurrent_kernels, "LEAST_ROWS", 9)
    assert states_after(path, precision="f32", kernels=kernels(2))[0].startswith("3 of 4 by braid kernels")


def test_a_net_whose_queries_are_not_normed_is_left_to_openvino(path, kernels, monkeypatch):
    monkeypatch.setattr(recurrent_kernels, "NORMS_KEYS", "an attribute that is not there")
    assert states_after(path, precision="f32", kernels=kernels(2))[0].startswith("3 of 4 by braid kernels")


def test_a_stored_graph_has_the_kernels_and_says_so(path, kernels, tmp_path):
    store = PreparedModels(64 << 20, tmp_path / "cache")
    settings = OpenVINOSettings(kernels=kernels(2))
    seen = []
    for _ in range(2):
        session = open_prepared(path, settings, store)
        seen.append((session.describe()["recurrent_layers"], session.first_step))
        session.close()
    assert seen[0] == seen[1]
    assert seen[0][0].startswith("4 of 4 by braid kernels")
    assert len(list(tmp_path.rglob(GRAPH))) == 1
