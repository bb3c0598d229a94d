"""POST pooling and classify: what each task of a model gives, and what it refuses."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from pooled_calls import TASKS, PooledPipeline, classes, scores, token_rows

from pipelines.values.node_values import Classes
from server.apis.pooling.base_endpoint import LONG_REPLY_VALUES
from server.apis.pooling.replies.reply_models import ClassificationList, PoolingList

BODY = {"input": ["a", "b"]}
RECORDED = Path(__file__).parents[3] / "recorded"


@pytest.fixture
def rig_of(make_rig):
    return lambda task: make_rig(PooledPipeline(task))


@pytest.mark.parametrize("path", ["/pooling", "/v1/pooling", "/v3/pooling"])
@pytest.mark.parametrize("task", TASKS)
def test_each_task_gives_its_rows(path, task, rig_of):
    answer = rig_of(task).post(path, {"model": "tiny", **BODY})
    values = TASKS[task](2).values
    wanted = [np.atleast_1d(row).tolist() for row in values]
    assert [each["data"] for each in answer.json["data"]] == wanted
    assert {each["object"] for each in answer.json["data"]} == {"pooling"}
    assert answer.json["id"].startswith("pooling-")
    assert json.loads(PoolingList.model_validate_json(answer.body).to_json()) == answer.json


def test_rows_of_tokens_have_their_shape_in_the_header(rig_of):
    """As recorded: two texts, a row for each token."""
    recorded = json.loads((RECORDED / "nomat__004_pool_bytes.json").read_text())["response"]
    told = json.loads(recorded["headers"]["metadata"])
    rig = rig_of("token_embed")
    body = np.frombuffer(base64.b64decode(recorded["body_b64"]), np.float32)
    ends = [place["end"] // 4 for place in told["data"]]
    parts = np.split(body, ends[:-1])
    rig.pipeline.value = token_rows(0)
    rig.pipeline.value.values.extend(
        part.reshape(place["shape"]) for part, place in zip(parts, told["data"], strict=True)
    )
    rig.pipeline.name = told["model"]
    answer = rig.post(
        "/pooling",
        {"input": [[1] * 5, [1]], "encoding_format": "bytes"},
        x_request_id=told["id"].removeprefix("pooling-"),
    )
    assert answer.body == body.tobytes()
    got = json.loads(answer.headers["metadata"])
    assert {**got, "created": told["created"]} == told


@pytest.mark.parametrize(
    ("task", "asked", "words"),
    [
        (
            "embed",
            "token_embed",
            "Try switching the model's pooling_task via --pooler-config.task token_embed.",
        ),
        ("token_embed", "embed", "Try switching the model's pooling_task via --pooler-config.task embed."),
        ("classify", "token_classify", "--pooler-config.task token_classify."),
        ("classify", "embed", "Unsupported task: 'embed' Supported tasks: ['classify', 'token_classify']"),
        ("rerank", "token_embed", "Unsupported task: 'token_embed' Supported tasks: ['classify', "),
        ("embed", "classify", "Unsupported task: 'classify' Supported tasks: ['embed', 'token_embed']"),
        (
            "embed",
            "embed&token_classify",
            "Unsupported task: 'embed&token_classify' Supported tasks: ['embed'",
        ),
        ("embed", "plugin", "No IOProcessor plugin installed."),
        ("embed", "foo", "`task` must be 'embed', 'classify'"),
    ],
)
def test_a_task_that_the_model_lacks_is_refused(task, asked, words, rig_of):
    answer = rig_of(task).post("/pooling", {**BODY, "task": asked})
    assert answer.status == 400
    assert words in answer.error["message"]
    assert answer.error["param"] == "task"


@pytest.mark.parametrize(
    ("task", "asked"), [("embed", "embed"), ("token_embed", "token_embed"), ("rerank", "classify")]
)
def test_a_task_that_the_model_has_may_be_named(task, asked, rig_of):
    assert rig_of(task).post("/pooling", {**BODY, "task": asked}).status == 200


@pytest.mark.parametrize("field", [{"dimensions": 2}, {"data": {"a": 1}}], ids=str)
def test_what_pooling_does_not_take_is_refused(field, rig_of):
    answer = rig_of("embed").post("/pooling", {**BODY, **field})
    assert (answer.status, answer.error["param"]) == (400, *field)


@pytest.mark.parametrize("path", ["/classify", "/v1/classify", "/v3/classify"])
def test_classes_have_the_name_of_the_likeliest(path, rig_of):
    reply = rig_of("classify").post(path, {"model": "tiny", **BODY}).json
    found = classes(2)
    assert [each["probs"] for each in reply["data"]] == found.values.tolist()
    assert [each["label"] for each in reply["data"]] == [found.labels[i] for i in found.values.argmax(1)]
    assert [each["num_classes"] for each in reply["data"]] == [3, 3]


def test_a_reply_of_classes_is_the_recorded_one(rig_of):
    wanted = json.loads((RECORDED / "cls__006_no_act.json").read_text())["response"]["json"]
    rig = rig_of("classify")
    rig.pipeline.name = wanted["model"]
    [row] = wanted["data"]
    rig.pipeline.value = Classes(np.float32([row["probs"]]), ["neg", "neu", "pos"])
    body = {"input": [1, 2, 3], "use_activation": False}
    reply = rig.post("/classify", body, x_request_id=wanted["id"].removeprefix("classify-")).json
    assert json.dumps({**reply, "created": wanted["created"]}) == json.dumps(wanted)
    assert rig.pipeline.asked.activate is False


def test_a_model_that_scores_has_one_class(rig_of):
    reply = rig_of("rerank").post("/classify", BODY).json
    assert [each["probs"] for each in reply["data"]] == [[each] for each in scores(2).values.tolist()]
    assert {each["label"] for each in reply["data"]} == {"LABEL_0"}


def test_a_class_without_a_name_has_none(rig_of):
    rig = rig_of("classify")
    rig.pipeline.value = Classes(np.float32([[0, 1], [1, 0]]), ["only"])
    assert [each["label"] for each in rig.post("/classify", BODY).json["data"]] == [None, "only"]


def test_what_is_written_is_what_the_schema_says(rig_of):
    written = rig_of("classify").post("/classify", BODY).body
    assert json.loads(ClassificationList.model_validate_json(written).to_json()) == json.loads(written)


def test_many_texts_are_answered_in_order(rig_of):
    num_texts = LONG_REPLY_VALUES // 3 + 1
    reply = rig_of("classify").post("/classify", {"input": ["a"] * num_texts}).json
    assert [each["probs"] for each in reply["data"]] == classes(num_texts).values.tolist()


@pytest.mark.parametrize("task", ["embed", "token_embed", "chat"])
def test_a_model_without_classes_is_a_404(task, rig_of):
    answer = rig_of(task).post("/classify", BODY)
    assert answer.status == 404
    assert f"does not classify: its task is {task}" in answer.error["message"]


def test_conversations_are_classified(rig_of):
    rig = rig_of("classify")
    messages = [{"role": "user", "content": "hello"}]
    assert len(rig.post("/classify", {"messages": [messages, messages]}).json["data"]) == 2
    assert rig.pipeline.asked.conversations == [messages, messages]
