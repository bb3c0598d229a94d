"""A vision-language decoder as a reranker (Qwen3-VL-Reranker's form) over HTTP: scores of texts and of images equal
those of transformers, on every endpoint that compares.
"""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest
from later import Later, missing

pytest.importorskip("openvino", reason="needs the extra cpu")
if missing("torch"):
    pytest.skip("needs the extra export", allow_module_level=True)

from asking import asker
from test_dual_encoder import content, shown, url_of, written
from tiny_qwen_vl import qwen_processor, write_qwen
from tiny_vision import picture

from pipelines.repository.new_graph import new_graph
from tools.export.base.options import Options
from tools.export.base.sentence_files import write_dense
from tools.export.choose_export import RERANKER_TEMPLATES, choose
from tools.export.encoders.encoder import ONE_LABEL

torch = Later("torch")

MODEL = "reranker"
NO, YES = "n", "y"
"""One token each of the tiny tokenizer."""
SYSTEM = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
INSTRUCTION = "Given a search query, retrieve relevant candidates that answer the query."
SEEN = "<|vision_start|><|image_pad|><|vision_end|>"
SMALL, TALL = (1, 140, 90), (2, 70, 200)
DOCUMENTS = [("a cat", []), ("", [SMALL]), ("both", [TALL, SMALL]), ("", [TALL])]
"""Texts and images, the images first."""


@pytest.fixture(scope="module", params=["qwen3_vl", pytest.param("qwen2_vl", marks=pytest.mark.breadth)])
def served(request, tmp_path_factory):
    """(family, transformers' model, a repository with the exported model)."""
    from transformers import AutoModelForImageTextToText

    family = request.param
    folder, model = tmp_path_factory.mktemp("vision"), tmp_path_factory.mktemp("models") / MODEL
    with warnings.catch_warnings():  # of torch's tracing
        warnings.simplefilter("ignore")
        source, built_model = write_qwen(family, folder)
        torch.set_num_threads(1)
        reference = AutoModelForImageTextToText.from_pretrained(source).eval()
        if family == "qwen3_vl":  # of which the tests have the export alone
            built_model.rename(model)
            no, yes = _answers(family)
            weight = reference.get_output_embeddings().weight.detach()
            write_dense(model / "score", weight[[yes]] - weight[[no]], None)
            shutil.copyfile(RERANKER_TEMPLATES[family], model / "score_template.jinja")
            _name(model / "config.json", **ONE_LABEL)
        else:
            _name(source / "config.json", architectures=[type(reference).__name__])
            template = RERANKER_TEMPLATES["qwen3_vl"]
            options = Options("rerank", weights="fp32", answers=(NO, YES), template=template)
            choose(str(source), options)(model / "model", lambda _: None)
    graph = new_graph(model).replace("device: cpu", "device: cpu, precision: f32")
    (model / "graph.yaml").write_text(graph)
    return family, reference, model.parent


def _name(config, **fields):
    config.write_text(json.dumps(json.loads(config.read_text()) | fields))


def _answers(family):
    tokenizer = qwen_processor(family).tokenizer
    return [tokenizer.convert_tokens_to_ids(answer) for answer in (NO, YES)]


@pytest.fixture(scope="module")
def ask(served):
    return asker(served[2], MODEL)


@pytest.fixture(scope="module")
def score(served):
    """The probability of yes against no, and the number of tokens, as transformers computes them."""
    family, model, _ = served
    processor, answers = qwen_processor(family), _answers(family)

    @torch.no_grad()
    def one(query, document, instruction=INSTRUCTION):
        (query_text, query_images), (text, images) = query, document
        prompt = (
            f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n<Instruct>: {instruction}"
            f"<Query>:{SEEN * len(query_images)}{query_text}\n<Document>:{SEEN * len(images)}{text}"
            "<|im_end|>\n<|im_start|>assistant\n"
        )
        all_images = [picture(*image_spec) for image_spec in (*query_images, *images)]
        read = processor.image_processor(all_images, return_tensors="pt") if all_images else {}
        before, *others = prompt.split("<|image_pad|>")
        for grid, after in zip(read.get("image_grid_thw", ()), others, strict=True):
            before += "<|image_pad|>" * (int(grid.prod()) // 4) + after
        ids = torch.tensor([processor.tokenizer(before)["input_ids"]])
        no, yes = model(input_ids=ids, attention_mask=torch.ones_like(ids), **read).logits[0, -1][answers]
        return float(torch.sigmoid(yes - no)), ids.shape[1]

    return one


def parts(case):
    text, images = case
    return content(*(shown(url_of(each)) for each in images), *([written(text)] if text else []))


def scores(answer):
    assert answer.status == 200, answer.body
    return [each["score"] for each in answer.json["data"]]


def ranked(answer):
    assert answer.status == 200, answer.body
    found = sorted(answer.json["results"], key=lambda each: each["index"])
    return [each["relevance_score"] for each in found]


def test_scores_equal_those_of_transformers(ask, score):
    text, image = ("dogs in the snow", []), ("like this", [SMALL])
    documents = [parts(document) for document in DOCUMENTS]
    of_text, of_image, plain, pairs, instructed, raw, ovms = ask(
        ("/v1/score", {"queries": text[0], "documents": documents}),
        ("/v1/rerank", {"query": parts(image), "documents": documents}),
        ("/v1/rerank", {"query": text[0], "documents": ["a cat", "two dogs"]}),
        ("/score", {"text_1": [parts(image), text[0]], "text_2": documents[:2]}),
        ("/rerank", {"query": text[0], "documents": documents[:2], "instruction": "Be strict."}),
        ("/score", {"queries": text[0], "documents": documents[1], "use_activation": False}),
        ("/v3/rerank", {"query": text[0], "documents": ["a cat", "two dogs"]}),
    )
    wanted = [score(text, document) for document in DOCUMENTS]
    assert len({round(value, 3) for value, _ in wanted}) == len(wanted), "scores that differ"
    np.testing.assert_allclose(scores(of_text), [value for value, _ in wanted], atol=1e-5)
    assert of_text.json["usage"]["prompt_tokens"] == sum(length for _, length in wanted)
    np.testing.assert_allclose(
        ranked(of_image), [score(image, document)[0] for document in DOCUMENTS], atol=1e-5
    )
    alone = [score(text, (text_there, []))[0] for text_there in ("a cat", "two dogs")]
    np.testing.assert_allclose(ranked(plain), alone, atol=1e-5)
    np.testing.assert_allclose(ranked(ovms), alone, atol=1e-5)
    paired = [score(image, DOCUMENTS[0])[0], score(text, DOCUMENTS[1])[0]]
    np.testing.assert_allclose(scores(pairs), paired, atol=1e-5)
    strict = [score(text, document, "Be strict.")[0] for document in DOCUMENTS[:2]]
    np.testing.assert_allclose(ranked(instructed), strict, atol=1e-5)
    odds = scores(raw)[0]
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), wanted[1][0], atol=1e-5)


def test_marks_are_text_and_what_is_not_done_is_refused(ask, score):
    text = ("a dog", [])
    typed, cut, ids = ask(
        ("/v1/score", {"queries": text[0], "documents": [SEEN, "x"]}),
        ("/v1/score", {"queries": text[0], "documents": ["x"], "max_tokens_per_doc": 3}),
        ("/v1/embeddings", {"input": "x"}),
    )
    assert scores(typed)[1] == pytest.approx(score(text, ("x", []))[0], abs=1e-5)
    assert (cut.status, cut.error["param"]) == (400, "max_tokens_per_doc")
    assert ids.status == 404
