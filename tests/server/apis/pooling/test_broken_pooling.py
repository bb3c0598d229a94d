"""No body, however broken, gets a 5xx from the endpoints that ask models, and every refusal says why."""

from __future__ import annotations

import json
import random

import pytest
from breadth import after
from broken_bodies import BROKEN, WRONG, body_of, places, replaced
from pooled_calls import TASKS, PooledPipeline
from random_bodies import random_body

PATHS = after(3, ["/v1/embeddings", "/pooling", "/classify", "/v3/embeddings", "/v3/pooling", "/v3/classify"])
NUM_RANDOM = 25
EVERY = 3
"""Each place gets every third wrong value, the next place the values after these."""


def bodies(path):
    yield from BROKEN.values()
    whole = {"model": "tiny", **body_of(path)}
    for number, place in enumerate(places(whole)):
        for value in WRONG[number % EVERY :: EVERY]:
            yield json.dumps(replaced(whole, place, value)).encode()
    rng = random.Random(path)
    for _ in range(NUM_RANDOM):
        yield json.dumps(random_body(path, rng) | {"model": "tiny"}).encode()


def answered(rig, path):
    """The statuses of all of them; no error is without words."""

    async def scenario(client):
        return [(body, await client.post(path, body)) for body in bodies(path)]

    answers = rig.run(scenario)
    for body, answer in answers:
        assert answer.status < 500, (body[:300], answer.body)
        if answer.status >= 400:
            error = answer.error
            assert error if isinstance(error, str) else error["message"], body[:300]
    return {answer.status for _, answer in answers}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("task", TASKS)
def test_every_body_is_answered(path, task, make_rig):
    statuses = answered(make_rig(PooledPipeline(task)), path)
    if path.endswith("/pooling"):
        assert 200 in statuses
