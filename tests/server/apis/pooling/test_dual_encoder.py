"""CLIP and SigLIP over HTTP, as `braid export` writes them: vectors of texts and of images equal those of
transformers, on every endpoint that gives or compares them.
"""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest

pytest.importorskip("openvino", reason="needs the extra cpu")
pytest.importorskip("PIL", reason="needs the extra vision")

import tiny_dual
from asking import asker
from tiny_dual import TEXTS
from tiny_vision import picture

from pipelines.repository.new_graph import new_graph, recognise

IMAGES = [(1, 40, 30), (2, 31, 90), (3, 28, 28)]
MODEL = "dual"
IMAGE_TOKENS = {"plain": 5, "clip": 5, "siglip": 4}
FORMS = [
    ("plain", "openvino"),
    pytest.param(("clip", "openvino"), marks=pytest.mark.breadth),
    pytest.param(("siglip", "openvino"), marks=pytest.mark.breadth),
    pytest.param(("clip", "onnx"), marks=pytest.mark.breadth),
    pytest.param(("siglip", "onnx"), marks=pytest.mark.breadth),
]


def url_of(image):
    out = io.BytesIO()
    picture(*image).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


URLS = [url_of(each) for each in IMAGES]


def shown(url):
    return {"type": "image_url", "image_url": {"url": url}}


def written(text):
    return {"type": "text", "text": text}


def user(*parts):
    return [{"role": "user", "content": list(parts)}]


def content(*parts):
    return {"content": list(parts)}


@pytest.fixture(scope="module", params=FORMS, ids="-".join)
def served(request, tmp_path_factory):
    """(kind, Hugging Face's folder, a repository with the exported model)."""
    kind, form = request.param
    folder = tmp_path_factory.mktemp("dual")
    source, model = folder / "source", folder / "models" / MODEL
    if kind == "plain":
        tiny_dual.PlainModel().write(model / "model")
    else:
        from tools.export.base.options import Options
        from tools.export.choose_export import choose

        tiny_dual.write_dual(source, kind)
        choose(str(source), Options(form=form, weights="fp32"))(model / "model", lambda _: None)
    graph = new_graph(model).replace("device: cpu", "device: cpu, precision: f32")
    (model / "graph.yaml").write_text(graph)
    return kind, source, folder / "models"


@pytest.fixture(scope="module")
def ask(served):
    return asker(served[2], MODEL)


@pytest.fixture(scope="module")
def wanted(served):
    """(vectors of TEXTS, vectors of IMAGES), as transformers computes them, or numpy."""
    kind, source, _ = served
    pictures = [picture(*each) for each in IMAGES]
    if kind == "plain":
        plain = tiny_dual.PlainModel()
        return plain.text_features(TEXTS), plain.image_features(pictures)
    return tiny_dual.text_features(source, kind, TEXTS), tiny_dual.image_features(source, pictures)


def vectors(answer):
    assert answer.status == 200, answer.body
    return np.array([each["embedding"] for each in answer.json["data"]])


def test_vectors_and_scores_equal_those_of_transformers(served, ask, wanted):
    kind, (texts, images) = served[0], wanted
    asked = [shown(url) for url in URLS]
    mixed = [user(written(TEXTS[0])), user(asked[1]), user(written(TEXTS[1])), user(asked[0], written(" "))]
    pairs = {"queries": TEXTS[1], "documents": [content(asked[0]), content(asked[1]), TEXTS[0]]}
    ranking = {"query": content(asked[2]), "documents": [*TEXTS, content(asked[0])]}
    read, seen, both, raw, scored, ranked, cohere, items = ask(
        ("/v1/embeddings", {"input": TEXTS}),
        ("/v1/embeddings", {"messages": user(asked[0])}),
        ("/v1/embeddings", {"messages": mixed}),
        ("/v1/embeddings", {"messages": user(asked[0]), "use_activation": False}),
        ("/v1/score", pairs),
        ("/v1/rerank", ranking),
        ("/v2/embed", {"images": URLS, "input_type": "image"}),
        ("/v2/embed", {"inputs": [content(asked[2]), content(written(TEXTS[2]))], "input_type": "image"}),
    )
    np.testing.assert_allclose(vectors(read), texts, atol=1e-5)
    np.testing.assert_allclose(vectors(seen), images[:1], atol=1e-5)
    np.testing.assert_allclose(vectors(both), [texts[0], images[1], texts[1], images[0]], atol=1e-5)
    assert abs(np.linalg.norm(vectors(raw)) - 1) > 0.1
    np.testing.assert_allclose(tiny_dual.unit(vectors(raw)), images[:1], atol=1e-5)
    cosines = texts[1] @ np.array([images[0], images[1], texts[0]]).T
    np.testing.assert_allclose([result["score"] for result in scored.json["data"]], cosines, atol=1e-5)
    results = {result["index"]: result for result in ranked.json["results"]}
    cosines = images[2] @ np.array([*texts, images[0]]).T
    np.testing.assert_allclose([results[i]["relevance_score"] for i in range(5)], cosines, atol=1e-5)
    assert results[0]["document"] == {"text": TEXTS[0], "multi_modal": None}
    assert results[4]["document"] == {"text": None, "multi_modal": [asked[0]]}
    np.testing.assert_allclose(cohere.json["embeddings"]["float"], images, atol=1e-5)
    np.testing.assert_allclose(items.json["embeddings"]["float"], [images[2], texts[2]], atol=1e-5)
    of_image = IMAGE_TOKENS[kind]
    assert seen.json["usage"]["prompt_tokens"] == of_image
    of_texts = read.json["usage"]["prompt_tokens"]
    assert scored.json["usage"]["prompt_tokens"] < of_texts + 2 * of_image
    assert cohere.json["meta"]["billed_units"] == {"input_tokens": 0, "image_tokens": 3 * of_image}
    billed = items.json["meta"]["billed_units"]
    assert billed == {"input_tokens": len(TEXTS[2]) + 1 + (kind != "siglip"), "image_tokens": of_image}


ONE_OF = "this model has a vector for a text or for an image, not for several together"
BAD = [
    ("/v1/embeddings", {"messages": user(shown(URLS[0]), written("what"))}, 400, ONE_OF),
    ("/v1/embeddings", {"messages": user(shown(URLS[0]), shown(URLS[1]))}, 400, ONE_OF),
    ("/v1/embeddings", {"messages": user(shown("data:image/png;base64,aGVsbG8="))}, 400, "this is no image"),
    ("/v1/embeddings", {"messages": user(shown("http://localhost/a.png"))}, 400, "BRAID_ALLOWED_MEDIA"),
    ("/v1/embeddings", {"messages": [user(shown(URLS[2]))] * 33}, 400, "At most 32 image(s)"),
    ("/v1/embeddings", {"messages": user(written("x" * 99))}, 400, "maximum context length is 24"),
    (
        "/v1/embeddings",
        {"messages": user(shown(URLS[0])), "add_generation_prompt": True},
        400,
        "`add_generation_prompt`: this model has no chat template",
    ),
    (
        "/v2/embed",
        {"images": ["nothing"]},
        400,
        "`images.0`: The URL must be either a HTTP, data or file URL.",
    ),
    (
        "/v1/embeddings",
        {"messages": user(shown(URLS[0])), "mm_processor_kwargs": {"size": 7}},
        400,
        "`mm_processor_kwargs`: images are read as the model's own settings say",
    ),
    ("/v1/embeddings", {"messages": [[[shown(URLS[0])]]]}, 400, "messages.0.0"),
    ("/v2/embed", {"images": URLS, "texts": TEXTS}, 400, "Exactly one of texts, images, or inputs"),
    ("/v1/score", {"data_1": "a", "data_2": content(shown("data:,x"))}, 400, "data_2.0.content.0"),
]


def test_what_is_wrong_is_named(ask):
    answers = ask(*[(path, body) for path, body, *_ in BAD])
    for answer, (_, _, status, words) in zip(answers, BAD, strict=True):
        assert answer.status == status, answer.body
        assert words in answer.error["message"]


def test_a_folder_in_another_form_is_refused_by_name(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text('{"model_type": "clip", "text_config": {}, "vision_config": {}}')
    assert recognise(source) is None
    (source / "tokenizer.json").write_text("{}")
    assert recognise(source) == "openvino"
    with pytest.raises(ValueError, match=r"a model of type clip is served as two files.*`braid export"):
        new_graph(source)
