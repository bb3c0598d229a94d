"""Numbers that JSON or SQLite cannot hold are refused before they are stored: a search would fail by them."""

import pytest
from pydantic import BaseModel, FiniteFloat, StrictStr, ValidationError

from pipelines.requests.fields.field_types import Items
from pipelines.requests.fields.validation import from_validation
from server.apis.retrieval.stores.bodies import ChangeStoreFile, SearchStore


@pytest.mark.parametrize("number", ["NaN", "1e999", "-1e999", "1" + "0" * 400])
def test_attributes_hold_numbers_that_filters_can_compare(number):
    with pytest.raises(ValidationError):
        ChangeStoreFile.model_validate_json(f'{{"attributes": {{"a": {number}}}}}')


def test_a_whole_number_beyond_64_bits_is_stored_as_sqlite_reads_it():
    body = f'{{"attributes": {{"a": {(1 << 63) - 1}, "b": {1 << 63}}}}}'
    attributes = ChangeStoreFile.model_validate_json(body).attributes
    assert attributes == {"a": (1 << 63) - 1, "b": 2.0**63}
    assert [*map(type, attributes.values())] == [int, float]


@pytest.mark.parametrize("number", ["NaN", "1e999"])
@pytest.mark.parametrize(
    "options", ['{"score_threshold": %s}', '{"hybrid_search": {"embedding_weight": %s, "text_weight": 1}}']
)
def test_scores_are_compared_with_finite_numbers(options, number):
    with pytest.raises(ValidationError):
        SearchStore.model_validate_json(f'{{"query": "a", "ranking_options": {options % number}}}')


@pytest.mark.parametrize(
    ("body", "model", "field", "says"),
    [
        ({"query": []}, SearchStore, "query", "a list of at least one"),
        ({"query": {}}, SearchStore, "query", "must be a list"),
        ({"query": ["a", ""]}, SearchStore, "query.1", "at least 1 character"),
        ({"query": ["a"] * 33}, SearchStore, "query", "32 texts at most"),
        ({"attributes": {"a": [1]}}, ChangeStoreFile, "attributes.a", "a number or a boolean"),
        ({"attributes": {"a": None}}, ChangeStoreFile, "attributes.a", "a number or a boolean"),
        ({"attributes": {"a": "x" * 513}}, ChangeStoreFile, "attributes.a", "at most 512 characters"),
        ({"attributes": dict.fromkeys(map(str, range(17)), 1)}, ChangeStoreFile, "attributes", "16 attri"),
        (
            {"query": "a", "ranking_options": {"hybrid_search": {"embedding_weight": 0, "text_weight": 0}}},
            SearchStore,
            "ranking_options.hybrid_search",
            "more than 0",
        ),
    ],
    ids=str,
)
def test_a_wrong_value_is_one_fault_by_the_field_as_the_client_sent_it(body, model, field, says):
    with pytest.raises(ValidationError) as caught:
        model.model_validate(body)
    error = from_validation(caught.value)
    assert error.field == field
    assert says in error.message
    assert ";" not in error.message


class SeveralTypes(BaseModel):
    """A field of two types, and one whose keys are the client's."""

    vectors: StrictStr | Items[Items[FiniteFloat]] | None = None
    counts: dict[str, int] = {}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"vectors": [[1, None]]}, "`vectors.0.1` must be a number, got null"),
        ({"vectors": [1]}, "`vectors.0` must be a list, got 1"),
        ({"vectors": 3}, "`vectors` must be a string, got 3; `vectors` must be a list, got 3"),
        ({"counts": {"str": "x"}}, '`counts.str` must be an integer, got "x"'),
    ],
    ids=str,
)
def test_a_field_of_several_types_is_named_without_its_types(body, message):
    with pytest.raises(ValidationError) as caught:
        SeveralTypes.model_validate(body)
    assert from_validation(caught.value).message == message
