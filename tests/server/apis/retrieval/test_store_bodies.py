"""Numbers that JSON or SQLite cannot hold are refused before they are stored: a search would fail by them."""

import pytest
from pydantic import ValidationError

from server.apis.retrieval.stores.bodies import ChangeStoreFile, SearchStore


@pytest.mark.parametrize("number", ["NaN", "1e999", "-1e999", str(1 << 63), str(-(1 << 63) - 1)])
def test_attributes_hold_numbers_that_filters_can_compare(number):
    with pytest.raises(ValidationError):
        ChangeStoreFile.model_validate_json(f'{{"attributes": {{"a": {number}}}}}')
    assert ChangeStoreFile.model_validate_json(f'{{"attributes": {{"a": {(1 << 63) - 1}}}}}').attributes


@pytest.mark.parametrize("number", ["NaN", "1e999"])
@pytest.mark.parametrize(
    "options", ['{"score_threshold": %s}', '{"hybrid_search": {"embedding_weight": %s, "text_weight": 1}}']
)
def test_scores_are_compared_with_finite_numbers(options, number):
    with pytest.raises(ValidationError):
        SearchStore.model_validate_json(f'{{"query": "a", "ranking_options": {options % number}}}')
