"""Folders that sentence-transformers writes get, exported and served, the vectors that it computes."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pytest
from breadth import after
from served_models import in_one_process

from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput

HAS_EXPORT = all(
    importlib.util.find_spec(name) for name in ("torch", "transformers", "sentence_transformers")
)
pytestmark = [pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra"), pytest.mark.slow]

FORMS = [
    ("embeddinggemma", "openvino"),
    ("deberta", "onnx"),
    ("embeddinggemma", "onnx"),
    ("albert", "onnx"),
    ("deberta", "openvino"),
]
TEXTS = ["the", " leading and trailing \n", "why?", "plants turn light into sugar, and give off oxygen."]


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Name → the model in sentence-transformers, and its folder."""
    from tiny_sentence_models import write_sentence_model

    models = {}

    def written(name):
        if name not in models:
            folder = tmp_path_factory.mktemp("sources") / name
            models[name] = (write_sentence_model(name, folder), folder)
        return models[name]

    return written


async def vectors(client, pipeline, purpose):
    request = PoolingInput(
        prompts=[Prompt(text=text, add_special_tokens=True) for text in TEXTS], purpose=purpose
    )
    call = pipeline.open(request, client)
    try:
        return (await call.answer()).values
    finally:
        call.close()


@pytest.mark.parametrize(("name", "form"), after(0, FORMS))
def test_vectors_are_those_of_sentence_transformers(name, form, references, tmp_path):
    from tiny_pooling_models import export

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves
        model, source = references(name)
        export(name, source, tmp_path, form)
        expected = {purpose: model.encode(TEXTS, prompt_name=purpose) for purpose in (None, "query")}

    async def scene(client, catalogue):
        return {purpose: await vectors(client, catalogue.get(name), purpose) for purpose in expected}

    served = in_one_process(scene, tmp_path)
    for purpose, rows in expected.items():
        np.testing.assert_allclose(served[purpose], rows, rtol=0, atol=1e-4)
    assert np.abs(expected[None] - expected["query"]).max() > 0.01
