"""What fails in a run of OpenVINO is raised, also where a model has one thread, for which `infer` raises nothing."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.arrays import inference_of


@pytest.fixture(params=[1, 2])
def summing(request):
    """The sum of two rows, of a model with so many threads."""
    rows = [ops.parameter([-1], np.float32, name=name) for name in "ab"]
    model = ov.Model([ops.result(ops.add(*rows))], rows)
    return ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": request.param})


def test_a_run_after_one_that_succeeded_is_an_error_of_its_own(summing):
    request, run = summing.create_infer_request(), inference_of(summing)

    def total(*lengths):
        for index, length in enumerate(lengths):
            request.set_input_tensor(index, ov.Tensor(np.ones(length, np.float32)))
        run(request)
        return request.get_output_tensor(0).data.tolist()

    assert total(3, 3) == [2, 2, 2]
    with pytest.raises(RuntimeError, match="mismatch"):
        total(3, 2)
    assert total(2, 2) == [2, 2]
