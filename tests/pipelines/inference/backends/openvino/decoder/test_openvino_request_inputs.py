"""What a request reads: the last step's inputs, however they were given."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.decoder.request_inputs import MAX_COPIED_BYTES, RequestInputs


@pytest.fixture(scope="module")
def compiled():
    ids, more = ops.parameter([-1], np.int64, name="ids"), ops.parameter([], np.int64, name="more")
    for one in (ids, more):
        one.output(0).set_names({one.get_friendly_name()})
    return ov.Core().compile_model(ov.Model([ops.add(ids, more)], [ids, more], "sums"), "CPU")


class Request:
    """Adds `more` to `ids`."""

    def __init__(self, compiled):
        self._request = compiled.create_infer_request()
        ports = {port.any_name: index for index, port in enumerate(compiled.inputs)}
        self.inputs = RequestInputs(self._request, ports)

    def sums(self, *ids, more=0):
        self.inputs.write({"ids": np.array(ids), "more": np.array(more), "unknown": np.zeros(3)})
        return self.result()

    def result(self):
        self._request.infer()
        return self._request.get_output_tensor(0).data.tolist()


def test_each_step_has_its_own(compiled):
    request = Request(compiled)
    assert request.sums(1, 2) == [1, 2]
    assert request.sums(3, 4, more=10) == [13, 14]
    assert request.sums(5, more=1) == [6]
    assert request.sums(7, 8) == [7, 8]


def test_a_step_s_arrays_stay_as_they_are(compiled):
    request, ids = Request(compiled), np.array([1, 2])
    request.inputs.write({"ids": ids, "more": np.array(0)})
    assert request.sums(5, 6) == [5, 6]
    assert ids.tolist() == [1, 2]


def test_what_is_given_is_read_until_the_next(compiled):
    request, array = Request(compiled), np.array([100])
    request.sums(1, 2)
    request.inputs.give("more", np.array(1000))
    assert request.result() == [1001, 1002]
    request.inputs.give("ids", array)
    assert request.result() == [1100]
    array[0] = 200
    assert request.result() == [1200]
    assert request.sums(3) == [3]
    assert array.tolist() == [200]


def test_large_ones_are_read_where_they_are(compiled):
    request = Request(compiled)
    large = np.arange(MAX_COPIED_BYTES // 8 + 1)
    for at in range(2):
        request.inputs.write({"ids": large + at, "more": np.array(at)})
        assert request.result() == (large + 2 * at).tolist()
    request.inputs.write({"ids": large, "more": np.array(0)})
    large += 1
    assert request.result() == large.tolist()
