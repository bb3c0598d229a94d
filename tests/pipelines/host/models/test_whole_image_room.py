"""A graph whose steps have no room for a whole image is refused when it is loaded."""

from __future__ import annotations

import pytest

from pipelines.host.models import context_checks
from pipelines.inference.contracts.encoder_batch import RowShape
from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.engine.batching.batch_engine import BatchEngine
from pipelines.inference.engine.batching.text_checks import Bounds
from pipelines.inference.engine.interface.submission_checks import Limits
from pipelines.inference.engine.sequences.policy import EngineSettings


@pytest.mark.parametrize(("step_tokens", "refused"), [(575, True), (576, False), (512, True)])
def test_an_image_of_256_tokens_needs_twice_as_many_beside_those_that_decode(step_tokens, refused):
    encoder = object.__new__(BatchEngine)
    encoder.bounds, encoder._results = Bounds(256, 0, output_size=8), (RowShape(per_token=True, size=8),)
    room = EngineSettings(max_sequences=64, max_step_tokens=step_tokens).max_uncut
    for whole in (0, room):
        limits = Limits(64, ModelShape(320, 512, 32, inputs_embeds_size=8), 4096, max_uncut=whole)
        fault = context_checks._too_large(limits, encoder)
        if whole and refused:
            assert fault is not None
            assert "must be at least 576" in fault
        else:
            assert fault is None
