"""A schema means the same in every dialect, and a completed output is valid by what it means."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import jsonschema
import pytest
from breadth import after
from guide_rig import VOCAB_SIZE, GuidedRig, grammar_node, schema
from hypothesis import given, settings
from hypothesis import strategies as st
from random_dialects import DialectWriter
from random_schemas import SchemaMaker
from test_random_schemas import closers

from pipelines.base.errors import RequestError
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.normal_schema import loose_schema, normal_schema
from pipelines.grammars.schema_keywords import SchemaError
from pipelines.wire.sampling_params import GuideSpec

NUM_SCHEMAS = int(os.environ.get("BRAID_SCHEMAS", "4000"))
BATCH = 100
SEEDS = st.integers(0, 2**32)


@given(SEEDS, SEEDS)
@settings(max_examples=150, deadline=None)
def test_the_normal_form_is_that_of_the_meaning(meant, written):
    """Where nothing is moved and no bound is added, the normal forms are equal."""
    value = SchemaMaker(meant).root()
    if isinstance(value, dict) and "$defs" not in value:
        said = DialectWriter(written, widens=False, refers=False).root(value)
        assert in_order(normal_schema(said)) == in_order(normal_schema(value))
        assert loose_schema(said) == (normal_schema(said), set())


def in_order(value):
    """With the types of each schema in one order."""

    def read(each):
        return {**each, "type": sorted(each["type"])} if isinstance(each.get("type"), list) else each

    return json.loads(json.dumps(value), object_hook=read)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def damaged(draw):
    """A schema in some dialect of which one place holds any JSON."""
    value = DialectWriter(draw(SEEDS)).root(SchemaMaker(draw(SEEDS)).root())
    place = value
    while isinstance(place, dict | list) and place:
        key = draw(
            st.sampled_from(sorted(place)) if isinstance(place, dict) else st.sampled_from(range(len(place)))
        )
        if draw(st.booleans()) or not isinstance(place[key], dict | list) or not place[key]:
            place[key] = draw(JSON)
            break
        place = place[key]
    return value


def test_a_damaged_schema_leaves_the_next_one_as_it_is():
    """Else the same draws give another schema, and hypothesis calls its strategy flaky."""

    def written():
        return [DialectWriter(seed).root({"type": "null"}) for seed in range(50)]

    first = json.dumps(written())
    for said in written():
        for value in said.values():
            if isinstance(value, dict):
                value["damaged"] = True
            elif isinstance(value, list):
                value.append("damaged")
    assert json.dumps(written()) == first


@given(damaged())
@settings(deadline=None)
def test_a_damaged_schema_is_a_grammar_or_a_refusal(value):
    for made in (value, {"properties": {"a": value}, "$ref": "#/properties/a"}):
        with suppress(RequestError):
            schema(made)
        with suppress(BoundError, SchemaError):
            if isinstance(made, dict):
                loose_schema(made)


@pytest.fixture(scope="module")
def node():
    made = grammar_node()
    yield made
    made.close()


@pytest.mark.parametrize("first", after(1, range(0, NUM_SCHEMAS, BATCH)))
def test_completed_outputs_are_valid_by_the_meaning(node, first):
    rig = GuidedRig(node, max_sequences=32, max_step_tokens=512, num_blocks=3000)
    meanings, bias = {}, closers()
    for seed in range(first, min(first + BATCH, NUM_SCHEMAS)):
        meanings[seed] = SchemaMaker(seed).root()
        said = DialectWriter(seed).root(meanings[seed])
        spec = GuideSpec(schema(said, disable_any_whitespace=seed % 3 > 0))
        rig.submit(seed, spec, [seed % VOCAB_SIZE, 7], temperature=seed % 2, seed=seed, logit_bias=bias)
    rig.run()
    completed = [seed for seed in meanings if rig.finish(seed) == "stop"]
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    for seed in completed:
        validator = jsonschema.Draft202012Validator(meanings[seed], format_checker=checker)
        validator.validate(json.loads(rig.text(seed)))
    assert {rig.finish(seed) for seed in meanings} <= {"stop", "length"}
    assert len(completed) > len(meanings) * 0.6
