"""How many requests of a batch are in flight."""

import pytest

from server.apis.batches.window import MAX, MIN, next_size


@pytest.mark.parametrize(
    ("inside", "running", "waiting", "size"),
    [
        (32, 24, 8, 48),  # 24 run: as many should wait
        (64, 32, 32, 64),
        (64, 32, 90, MIN + 2),  # other clients fill the queue
        (64, 32, 200, MIN),
        (250, 200, 40, MAX),
        (0, 0, 0, 8),
    ],
)
def test_as_many_wait_as_run(inside, running, waiting, size):
    assert next_size(inside, running, waiting) == size
