"""What stands before a text, by what its vector is for."""

import json

import pytest
from prompt_nodes import call_of, loaded

from pipelines.base.errors import RequestError
from pipelines.nodes.text.add_prompt import AddPrompt
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput

E5 = {"prompts": {"query": "query: ", "passage": "passage: ", "clustering": "group: "}}


def prefixed(tmp_path, config, purpose, prompts=None):
    (tmp_path / "prompts.json").write_text(json.dumps(config))
    call = call_of(PoolingInput(purpose=purpose))
    node = loaded(AddPrompt, tmp_path, prompts="prompts.json")
    found = node.run(call, prompts or [Prompt(text="hi", add_special_tokens=True)])
    return found, node.plan(call.request).handled


@pytest.mark.parametrize(
    ("purpose", "text"),
    [
        (None, "hi"),
        ("query", "query: hi"),
        ("search_query", "query: hi"),
        ("search_document", "passage: hi"),
        ("clustering", "group: hi"),
        ("classification", "hi"),
    ],
)
def test_the_prompt_is_that_of_the_purpose(tmp_path, purpose, text):
    found, handled = prefixed(tmp_path, E5, purpose)
    assert found == [Prompt(text=text, add_special_tokens=True)]
    assert handled == {"purpose"}


def test_a_model_may_have_a_default(tmp_path):
    found, _ = prefixed(tmp_path, {**E5, "default_prompt_name": "passage"}, None)
    assert found[0].text == "passage: hi"


def test_a_name_of_its_own_wins_over_what_it_is_also_called(tmp_path):
    found, _ = prefixed(tmp_path, {"prompts": {"search_query": "sq ", "query": "q "}}, "search_query")
    assert found[0].text == "sq hi"


def test_instructions_of_a_config_come_first(tmp_path):
    found, _ = prefixed(tmp_path, {"task_instructions": {"query": "task "}, **E5}, "query")
    assert found[0].text == "task hi"


def test_an_unknown_purpose_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(RequestError) as error:
        prefixed(tmp_path, E5, "sorting")
    assert error.value.message == (
        "Unsupported input_type 'sorting'. Supported values: clustering, passage, query"
    )


def test_token_ids_get_no_prompt(tmp_path):
    found, _ = prefixed(tmp_path, E5, "query", [Prompt(ids=[1, 2])])
    assert found == [Prompt(ids=[1, 2])]


def test_a_file_without_prompts_takes_up_no_purpose(tmp_path):
    found, handled = prefixed(tmp_path, {"prompts": {}, "default_prompt_name": None}, "sorting")
    assert (found[0].text, handled) == ("hi", set())


@pytest.mark.parametrize("config", [{"prompts": ["a"]}, {**E5, "default_prompt_name": "none"}])
def test_a_file_that_makes_no_sense_is_told_at_load(tmp_path, config):
    with pytest.raises(ValueError, match=r"prompts\.json"):
        prefixed(tmp_path, config, None)
