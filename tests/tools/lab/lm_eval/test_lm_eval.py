"""The items of lm-eval, the weights that transformers reads, and what is said of the answers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from gguf import GGMLQuantizationType as Type
from gguf_files import write_llama_like
from safetensors.numpy import load_file

from tools.lab.lm_eval import hf_folder, items
from tools.lab.lm_eval.comparing import faults, gap, table
from tools.lab.lm_eval.evaluating import FOLDER, TASKS, Outcome, read


def test_there_are_500_items_and_always_the_same(tmp_path):
    choices, cloze = items.choices(), items.cloze()
    assert len(choices) + len(cloze) >= 500
    assert len({json.dumps(item) for item in [*choices, *cloze]}) == len(choices) + len(cloze)
    for item in choices:
        assert len(set(item["answers"])) == 3
        assert all(item["answers"])
    assert {item["right"] for item in choices} == {0, 1, 2}
    assert items.choices() == choices
    by_question = {item["question"]: item["answers"][item["right"]] for item in choices}
    assert by_question["The capital of New Zealand is"] == "Wellington"
    assert by_question["nine plus ten equals"] == "nineteen"
    items.write(tmp_path, limit=10)
    lines = (tmp_path / "choices.jsonl").read_text().splitlines()
    assert 10 <= len(lines) <= 11
    assert all(json.loads(line) in choices for line in lines)


def test_the_tasks_read_the_fields_of_the_items():
    tasks = [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))]
    assert {task["task"]: task["dataset_kwargs"]["data_files"]["test"].split("/")[-1] for task in tasks} == {
        name: f"{part}.jsonl" for name, part in TASKS.items()
    }
    (choices, cloze) = tasks
    assert {choices["doc_to_text"], choices["doc_to_choice"], choices["doc_to_target"]} == {
        "{{question}}",
        "{{answers}}",
        "right",
    }
    assert (cloze["doc_to_text"], cloze["doc_to_target"]) == ("{{text}}", "{{' ' + word}}")
    assert items.choices()[0].keys() == {"question", "answers", "right"}
    assert items.cloze()[0].keys() == {"text", "word"}


@pytest.mark.parametrize("tied", [True, False])
def test_the_weights_are_those_of_the_file_in_the_order_of_transformers(tmp_path, tied):
    converted = tmp_path / "converted"
    converted.mkdir()
    for name in hf_folder.TOKENIZER:
        (converted / name).write_text("{}")
    state = write_llama_like(tmp_path / "tiny.gguf", kind=Type.Q4_1, tied=tied)
    hf_folder.write(tmp_path / "tiny.gguf", converted, tmp_path / "hf")
    weights = load_file(tmp_path / "hf" / "model.safetensors")
    if tied:
        del state["lm_head.weight"]
    assert weights.keys() == state.keys()
    for name, weight in weights.items():
        np.testing.assert_array_equal(weight, state[name], err_msg=name)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert (config["vocab_size"], config["tie_word_embeddings"]) == (266, tied)
    assert (config["rope_theta"], config["eos_token_id"]) == (10000.0, 4)


def outcome(shift=0.0, acc=0.5):
    scores = {"choices": {"acc": acc}, "cloze": {"acc": 0.25, "perplexity": 8.0}}
    return Outcome(scores, {"choices": {0: [-1.0, -2.0 + shift], 1: [-3.0, -1.5]}, "cloze": {0: [-4.0]}})


def test_a_gap_is_of_log_likelihoods_and_of_answers():
    apart = gap(outcome(), outcome(1.25))
    assert (apart.mean, apart.most, apart.same, apart.items) == (0.25, 1.25, 1, 2)
    assert gap(outcome(), outcome(float("nan"))).most == float("inf")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (outcome(0.0005), []),
        (outcome(0.01), ["log-likelihoods differ by up to 0.01, more than 0.001"]),
        (outcome(acc=0.75), ["the accuracies of choices differ"]),
    ],
    ids=["near", "far", "accuracy"],
)
def test_what_should_be_equal_and_is_not_is_said(other, said):
    assert faults(outcome(), other) == said


def test_the_table_has_a_line_for_each():
    *_, reference, other = table(outcome(), {"int8": outcome(0.5, acc=0.25)})
    assert reference == "| transformers, f32 | 50.00% |  | 25.00% | 8.0000 | |"
    assert other == "| int8 | 25.00% | 2 of 2 | 25.00% | 8.0000 | 0.1, 0.5 |"


def test_the_newest_answers_of_a_folder_are_read(tmp_path):
    """As lm-eval writes them."""
    for stamp, acc in (("2026-01-01T00-00-00.1", 0.0), ("2026-01-02T00-00-00.1", 0.5)):
        results = {task: {"alias": task, "acc,none": acc, "acc_stderr,none": "N/A"} for task in TASKS}
        (tmp_path / "m").mkdir(exist_ok=True)
        (tmp_path / "m" / f"results_{stamp}.json").write_text(json.dumps({"results": results}))
        for task in TASKS:
            line = {"doc_id": 7, "resps": [[["-1.5", "False"]], [["-2.5", "True"]]], "acc": acc}
            (tmp_path / "m" / f"samples_{task}_{stamp}.jsonl").write_text(json.dumps(line) + "\n")
    results_read = read(tmp_path)
    assert results_read.scores == {part: {"acc": 0.5} for part in TASKS.values()}
    assert results_read.logprobs == {part: {7: [-1.5, -2.5]} for part in TASKS.values()}
