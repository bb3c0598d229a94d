"""Numbers of texts as classes by name."""

import json

import numpy as np
import pytest
from prompt_nodes import call_of, loaded

from pipelines.base.errors import EngineError
from pipelines.nodes.pooling.label import Label
from pipelines.values.node_values import PooledOutputs, Tensors
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import PoolingInput

HALVES = np.full((2, 2), 0.5, np.float32)


def labelled(tmp_path, found, labels=("no", "yes"), activate=True, **settings):
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    node = loaded(Label, tmp_path, labels="labels.json", **settings)
    (make,) = node.run(call_of(PoolingInput(activate=activate)), Deferred("engine")).makers
    return make(found)


@pytest.mark.parametrize(
    ("file", "names"),
    [
        (["no", "yes"], ["no", "yes"]),
        ({"id2label": {"1": "yes", "0": "no"}}, ["no", "yes"]),
        ({"model_type": "bert"}, ["LABEL_0", "LABEL_1"]),
        ({"num_labels": 2}, ["LABEL_0", "LABEL_1"]),
    ],
)
def test_rows_get_the_names_of_the_file(tmp_path, file, names):
    classes = labelled(tmp_path, PooledOutputs(HALVES), file)
    assert classes.labels == names
    assert classes.values is HALVES


@pytest.mark.parametrize("file", [[], {"id2label": {"0": "a", "2": "b"}}, [1], "no"])
def test_a_file_that_names_no_classes_is_told_at_load(tmp_path, file):
    with pytest.raises(ValueError, match=r"labels\.json"):
        labelled(tmp_path, PooledOutputs(HALVES), file)


@pytest.mark.parametrize(
    ("activate", "settings", "first"),
    [(True, {}, 0.5), (False, {}, 3.0), (True, {"probabilities": "p"}, 0.75), (False, {"logits": "p"}, 0.75)],
)
def test_of_a_head_the_wanted_tensor_is_taken(tmp_path, activate, settings, first):
    head = Tensors(probabilities=HALVES, logits=np.full((2, 2), 3.0), p=np.full((2, 2), 0.75, np.float32))
    classes = labelled(tmp_path, head, activate=activate, **settings)
    assert (classes.values[0, 0], classes.values.dtype) == (first, np.float32)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            PooledOutputs(np.zeros((2, 3), np.float32)),
            r"gives \[2, 3\] numbers, but labels.json names 2 classes",
        ),
        (PooledOutputs([HALVES]), "one per token"),
        (Tensors(scores=HALVES), "needs the tensor `probabilities`; the model gives scores"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, found, message):
    with pytest.raises(EngineError, match=message):
        labelled(tmp_path, found)
