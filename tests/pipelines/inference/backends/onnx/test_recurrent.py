"""The nodes of recurrent layers: how they are checked, and where they are computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from recurrences import Reference, write_recurrent

from pipelines.inference.backends.onnx.read_decoder import read_decoder
from pipelines.inference.backends.onnx.recurrent import find_recurrent
from pipelines.inference.backends.onnxruntime.cuda.recurrent import check_states
from pipelines.inference.backends.openvino.decoder import recurrent_nodes
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.device_errors import ModelError, Unsupported
from pipelines.onnx_format.recurrent_format import DELTA_NET, MAMBA2, SHORT_CONV


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_recurrent(tmp_path_factory.mktemp("recurrent"))


@pytest.fixture
def graph(path):
    return ir.load(path).graph


def node_of(graph, kind):
    return next(node for node in graph if node.op_type == kind)


def without(name):
    return lambda node: node.attributes.pop(name)


def with_value(name, value):
    return lambda node: node.attributes.add(ir.convenience.convert_attribute(name, value))


def with_shape(place, *shape):
    def change(node):
        node.inputs[place].shape = ir.Shape(shape)

    return change


@pytest.mark.parametrize(
    ("kind", "change", "fault"),
    [
        (SHORT_CONV, without("kernel"), "lacks .*kernel"),
        (SHORT_CONV, with_value("dilation", 2), "has .*dilation"),
        (SHORT_CONV, with_value("state", 7), r"numbered \[7, 1, 2, 3\]"),
        (SHORT_CONV, with_value("kernel", 0), "has kernel 0"),
        (SHORT_CONV, with_shape(1, 24, 4), r"weight FLOAT\[24, 4\] for FLOAT\[24, 1, 4\]"),
        (SHORT_CONV, with_shape(2, 16), r"bias FLOAT\[16\] for FLOAT\[24\]"),
        (DELTA_NET, without("epsilon"), "lacks .*epsilon"),
        (DELTA_NET, with_value("value_heads", 5), "value_heads 5 and key_heads 2"),
        (MAMBA2, with_value("groups", 3), "heads 4 and groups 3"),
        (MAMBA2, with_shape(4, 5), r"decay FLOAT\[5\]"),
    ],
)
def test_nodes_that_do_not_follow_the_format_are_refused(graph, kind, change, fault):
    assert [one.number for one in find_recurrent(graph)] == [0, 1, 2, 3]
    change(node_of(graph, kind))
    with pytest.raises(ModelError, match=fault):
        find_recurrent(graph)


def test_a_state_has_the_sizes_of_its_node(path):
    shapes = [one.state_shape for one in find_recurrent(read_decoder(path).model.graph)]
    assert shapes == [[24, 4], [4, 16, 16], [4, 8, 16], [16, 3]]
    session = OpenVINOSession(path, OpenVINOSettings())
    assert session.shape.state_bytes == 4 * sum(int(np.prod(shape)) for shape in shapes)
    session.close()


def test_states_are_float32_where_the_rest_is_not(path):
    session = OpenVINOSession(path, OpenVINOSettings(precision="bf16"))
    assert session.describe()["precision"] == "bf16"
    assert {kind.to_string() for kind in session._state_layout.types.values()} == {"f32"}
    session.close()


def test_an_attribute_that_openvino_ignores_is_refused(path, monkeypatch):
    monkeypatch.setattr(recurrent_nodes, "NORMS_KEYS", "fuse_qk_l2norm")
    with pytest.raises(Unsupported, match="no fuse_qk_l2norm of PagedGatedDeltaNet"):
        OpenVINOSession(path, OpenVINOSettings())


def test_an_operator_that_openvino_lacks_is_refused(path, monkeypatch):
    monkeypatch.setattr(recurrent_nodes, "CONV", "PagedShortConv")
    with pytest.raises(Unsupported, match="no PagedShortConv as Braid needs it"):
        OpenVINOSession(path, OpenVINOSettings())


def test_cuda_refuses_states_of_long_rows_by_name(graph):
    nodes = find_recurrent(graph)
    check_states(nodes)
    mamba = next(node for node in nodes if node.node.op_type == MAMBA2)
    long = replace(mamba, sizes={**mamba.sizes, "state_size": 512})
    with pytest.raises(ModelError, match="Mamba2 of state 2 has states with rows of 512 numbers; on cuda"):
        check_states([long])


def test_the_reference_depends_on_all_tokens_before(path):
    """A change of the first token changes what the last ones give, less than that of a near one."""
    reference, ids = Reference(path), list(range(20))
    whole = reference.logits(ids)
    far, near = (
        np.abs(reference.logits([*ids[:at], 90, *ids[at + 1 :]])[-1] - whole[-1]).max() for at in (0, 18)
    )
    assert 1e-3 < far < near
