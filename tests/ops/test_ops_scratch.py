"""Memory of a thread: its own, kept, and as large as was asked for."""

import threading

import numpy as np

from ops.scratch import scratch


def test_scratch_is_kept_by_its_thread_and_grows():
    first = scratch("of this test", (2, 3), np.float32)
    assert first.shape == (2, 3)
    assert np.shares_memory(first, scratch("of this test", (4,), np.float32))
    assert scratch("of this test", (50,), np.float32).shape == (50,)
    others = []
    thread = threading.Thread(target=lambda: others.append(scratch("of this test", (4,), np.float32)))
    thread.start()
    thread.join()
    assert not np.shares_memory(others[0], scratch("of this test", (4,), np.float32))
