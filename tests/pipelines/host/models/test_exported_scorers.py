"""Texts and pairs through the graphs that exports make get the classes, scores and vectors of transformers."""

from __future__ import annotations

import asyncio
import importlib.util
import warnings
from functools import cache

import numpy as np
import pytest
from breadth import after
from patience import PATIENCE_S
from served_models import in_one_process

from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "optimum"))
pytestmark = [pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra"), pytest.mark.slow]

CLOSE = {"rtol": 0, "atol": 1e-4}
TEXTS = ["the", "how far is the moon?", "a", "plants turn light into sugar, and give off oxygen.", "why?"]
PAIRS = [(query, document) for query in TEXTS[1::3] for document in TEXTS]
QWEN3_ASKED = """\
<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. \
Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: Given a web search query, retrieve relevant passages that answer the query
<Query>: {}
<Document>: {}<|im_end|>
<|im_start|>assistant
<think>

</think>

"""


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """`references(name)` → the model in transformers."""
    from tiny_pooling_models import Reference, write_source

    folder = tmp_path_factory.mktemp("sources")
    return cache(lambda name: Reference(name, write_source(name, folder / name)))


@pytest.fixture
def answers(name, form, references, tmp_path):
    """What the served model gives for `PAIRS` where it reads these, else for `TEXTS`."""
    from tiny_pooling_models import export

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and transformers warn of themselves
        export(name, references(name).tokenizer.name_or_path, tmp_path / "models", form)

    async def scene(client, catalogue):
        return await ask(client, catalogue.get(name), request_of(name))

    return in_one_process(scene, tmp_path / "models")


def request_of(name):
    if name in ("bert-pairs", "xlm-r-pairs", "qwen3-answers"):
        return PoolingInput(pairs=[(prompt(query), prompt(document)) for query, document in PAIRS])
    return PoolingInput(prompts=[prompt(text) for text in TEXTS])


def prompt(text):
    return Prompt(text=text, add_special_tokens=True)


async def ask(client, pipeline, request):
    call = pipeline.open(request, client)
    try:
        return await asyncio.wait_for(call.answer(), PATIENCE_S)
    finally:
        call.close()


def forms(*cases, few=1):
    """Those after the first `few` run in `make breadth`."""
    return pytest.mark.parametrize(("name", "form"), after(few, cases))


def softmax(logits):
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


@forms(("bert-pairs", "openvino"), ("bert-pairs", "onnx"), ("xlm-r-pairs", "openvino"))
def test_a_cross_encoder_s_scores(name, form, answers, references):
    logits = np.array([references(name)(*pair).logits.item() for pair in PAIRS])
    assert logits.std() > 0.05
    np.testing.assert_allclose(answers.values, 1 / (1 + np.exp(-logits)), **CLOSE)


@forms(("qwen3-answers", "onnx"), ("qwen3-answers", "openvino"), few=0)
def test_the_share_of_yes_in_a_decoder_s_answer(name, form, answers, references):
    reference = references(name)
    words = [reference.tokenizer.vocab[word] for word in ("no", "yes")]
    logits = np.array([reference(QWEN3_ASKED.format(*pair)).logits[0, -1, words].numpy() for pair in PAIRS])
    expected = softmax(logits)[:, 1]
    assert expected.std() > 0.01
    np.testing.assert_allclose(answers.values, expected, **CLOSE)


@forms(("bert-classes", "openvino"), ("qwen3-classes", "openvino"), few=0)
def test_probabilities_of_classes(name, form, answers, references):
    logits = np.array([references(name)(text).logits[0].numpy() for text in TEXTS])
    np.testing.assert_allclose(answers.values, softmax(logits), **CLOSE)
    assert answers.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]


@forms(("qwen3-vectors", "openvino"), few=0)
def test_vectors_of_last_tokens(name, form, answers, references):
    last = np.array([references(name)(text).last_hidden_state[0, -1].numpy() for text in TEXTS])
    expected = last / np.linalg.norm(last, axis=1, keepdims=True)
    np.testing.assert_allclose(answers.values, expected, **CLOSE)
