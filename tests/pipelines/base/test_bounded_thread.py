"""Work in a thread that is waited for as long as a limit says."""

from __future__ import annotations

import threading

import pytest
from patience import PATIENCE_S

from pipelines.base import bounded_thread
from pipelines.base.bounded_thread import TookTooLong, run_within
from pipelines.base.cancellation import WorkCancelled, cancelled_by
from pipelines.base.errors import Unavailable


def test_it_gives_what_the_work_returns_and_raises_what_it_raises():
    assert run_within(PATIENCE_S, lambda: 6 * 7) == 42
    with pytest.raises(SystemExit):
        run_within(PATIENCE_S, lambda: exit(3))


def test_a_loop_without_end_is_ended_and_its_place_is_known():
    threads = []

    def loop():
        threads.append(threading.current_thread())
        while True:
            pass

    with pytest.raises(TookTooLong, match="did not end within 0.1 s") as caught:
        run_within(0.1, loop)
    assert caught.value.stack[-1].name == "loop"
    threads[0].join(PATIENCE_S)
    assert not threads[0].is_alive()


def test_a_loop_that_swallows_its_end_once_is_ended_again(monkeypatch):
    monkeypatch.setattr(bounded_thread, "AGAIN_S", 0.01)
    monkeypatch.setattr(bounded_thread, "_late", late := set())
    ends = []

    def loop():
        while len(ends) < 3:
            try:
                while True:
                    pass
            except BaseException as error:
                ends.append(error)

    with pytest.raises(TookTooLong):
        run_within(0.1, loop)
    (thread,) = late
    thread.join(PATIENCE_S)
    assert len(ends) == 3


def test_a_client_that_leaves_ends_the_wait():
    gone = threading.Event()
    gone.set()
    with cancelled_by(gone), pytest.raises(WorkCancelled):
        run_within(PATIENCE_S, threading.Event().wait)


def test_work_that_cannot_be_ended_is_bounded_in_number(monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(bounded_thread, "_late", late := set())
    for _ in range(bounded_thread.MAX_LATE):
        with pytest.raises(TookTooLong):
            run_within(0.0, release.wait)
    with pytest.raises(Unavailable, match="16 runs of code of models"):
        run_within(PATIENCE_S, int)
    release.set()
    for thread in list(late):
        thread.join(PATIENCE_S)
    assert run_within(PATIENCE_S, int) == 0
