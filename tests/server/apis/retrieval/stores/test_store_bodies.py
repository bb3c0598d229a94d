"""Numbers that JSON or SQLite cannot hold are refused before they are stored: a search would fail by them."""

import pytest
from pydantic import ValidationError

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
