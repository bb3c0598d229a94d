"""Whatever the schema and whatever the model says, a completed output is JSON that the schema accepts.

`BRAID_SCHEMAS=100000 pytest tests/pipelines/inference/guides/test_random_schemas.py` looks at more of them.
"""

from __future__ import annotations

import json
import os

import jsonschema
import pytest
from breadth import after
from guide_rig import VOCAB_SIZE, GuidedRig, grammar_node, schema, text_of
from random_schemas import SchemaMaker

from pipelines.wire.sampling_params import GuideSpec

NUM_SCHEMAS = int(os.environ.get("BRAID_SCHEMAS", "10000"))
BATCH = 250
CLOSING = tuple('"]},:')


def closers() -> dict[int, float]:
    """A model that would rather come to an end: else random strings go on for ever."""
    texts = ((token_id, text_of([token_id]).strip()) for token_id in range(VOCAB_SIZE - 20))
    return {token_id: 4.0 for token_id, text in texts if text and all(char in CLOSING for char in text)}


@pytest.fixture(scope="module")
def node():
    made = grammar_node()
    yield made
    made.close()


@pytest.mark.parametrize("first", after(1, range(0, NUM_SCHEMAS, BATCH)))
def test_completed_outputs_validate(node, first):
    rig = GuidedRig(node, max_sequences=32, max_step_tokens=512, num_blocks=3000)
    schemas, bias = {}, closers()
    for seed in range(first, min(first + BATCH, NUM_SCHEMAS)):
        schemas[seed] = SchemaMaker(seed).root()
        spec = GuideSpec(schema(schemas[seed], disable_any_whitespace=seed % 3 > 0))
        rig.submit(seed, spec, [seed % VOCAB_SIZE, 7], temperature=seed % 2, seed=seed, logit_bias=bias)
    rig.run()
    completed = [seed for seed in schemas if rig.finish(seed) == "stop"]
    for seed in completed:
        checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
        validator = jsonschema.Draft202012Validator(schemas[seed], format_checker=checker)
        validator.validate(json.loads(rig.text(seed)))
    assert {rig.finish(seed) for seed in schemas} <= {"stop", "length"}
    assert len(completed) > len(schemas) * 0.6
