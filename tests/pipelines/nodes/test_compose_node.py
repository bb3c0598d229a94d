"""A graph as a node of another: one model's vectors feed another's head, in one call."""

import asyncio
import json

import numpy as np
import pytest
from composed_models import serving
from prompt_nodes import framed_tokenizer
from tensor_models import write_onnx

from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput

ENCODER = """encoder (int64[n, w] input_ids, int64[n, w] attention_mask) => (float[n, w, 2] hidden) {
  axes = Constant <value_ints = [2]> ()
  angle = Cast <to = 1> (input_ids)
  sine = Sin (angle)
  cosine = Cos (angle)
  first = Unsqueeze (sine, axes)
  second = Unsqueeze (cosine, axes)
  hidden = Concat <axis = 2> (first, second)
}"""
HEAD = """head (float[n, 2] x) => (float[n, 2] logits, float[n, 2] probabilities) {
  logits = Add (x, x)
  probabilities = Softmax <axis = 1> (logits)
}"""
WORDS = """\
version: 1
task: embed
nodes:
  prefixed: {type: add_prompt, from: request.prompts, prompts: prompts.json}
  tokens: {type: tokenize, from: prefixed, tokenizer: tokenizer.json}
  rows:
    type: batcher
    from: tokens
    body:
      hidden: {type: encoder, from: batch, path: model.onnx, engine: onnxruntime, threads: 1}
      pooled: {type: pool, from: hidden, how: mean}
      unit: {type: normalize, from: pooled}
  vectors: {type: matryoshka, from: rows}
"""
MOOD = """\
version: 1
task: classify
nodes:
  vectors: {type: graph, graph: words, from: request}
  logits:
    type: infer
    from: vectors
    body:
      logits: {type: tensor_model, from: batch, path: head.onnx, threads: 1, inputs: {x: embeddings}}
  classes: {type: label, from: logits, labels: labels.json}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_onnx(folder / "words/model.onnx", ENCODER)
    framed_tokenizer().save(str(folder / "words/tokenizer.json"))
    config = {"model_type": "bert", "vocab_size": 261, "max_position_embeddings": 64}
    (folder / "words/config.json").write_text(json.dumps(config))
    (folder / "words/prompts.json").write_text(json.dumps({"prompts": {"query": "q: "}}))
    (folder / "words/graph.yaml").write_text(WORDS)
    write_onnx(folder / "mood/head.onnx", HEAD)
    (folder / "mood/labels.json").write_text('["sad", "glad"]')
    (folder / "mood/graph.yaml").write_text(MOOD)
    return folder


def ask(models, name, *requests):
    """What the model answers each request."""

    async def run():
        async with serving(models) as (client, catalogue):
            return [await answer(catalogue.get(name), request, client) for request in requests]

    return asyncio.run(run())


async def answer(pipeline, request, client):
    call = pipeline.open(request, client)
    try:
        return await call.answer()
    finally:
        call.close()


def texts(*texts, **fields):
    return PoolingInput(prompts=[Prompt(text=text, add_special_tokens=True) for text in texts], **fields)


def vector(text):
    ids = np.array(framed_tokenizer().encode(text).ids)
    mean = np.array([np.sin(ids).mean(), np.cos(ids).mean()])
    return mean / np.linalg.norm(mean)


def test_one_models_vectors_are_classified_by_another(models):
    classes, logits = ask(models, "mood", texts("hello", "a"), texts("hello", "a", activate=False))
    assert classes.labels == ["sad", "glad"]
    vectors = np.stack([vector("hello"), vector("a")])
    odds = np.exp(2 * vectors)
    np.testing.assert_allclose(classes.values, odds / odds.sum(1, keepdims=True), atol=1e-5)
    assert logits.values.shape == (2, 2)


def test_what_the_named_graph_takes_up_is_taken_up(models):
    short, prefixed = ask(models, "words", texts("hello", dimensions=1), texts("hello", purpose="query"))
    np.testing.assert_allclose(np.abs(short.values), [[1.0]], atol=1e-6)
    np.testing.assert_allclose(prefixed.values[0], vector("q: hello"), atol=1e-5)
    (classes,) = ask(models, "mood", texts("hello", purpose="query"))
    (said,) = ask(models, "mood", texts("q: hello"))
    np.testing.assert_array_equal(classes.values, said.values)


def test_what_the_named_graph_refuses_is_refused(models):
    with pytest.raises(RequestError, match="only supports dimensions in range"):
        ask(models, "words", texts("hello", dimensions=3))
    with pytest.raises(ContextTooLong, match="maximum context length is 64 tokens"):
        ask(models, "mood", texts("a" * 63))
