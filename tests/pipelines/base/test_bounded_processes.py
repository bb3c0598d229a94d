"""Processes with bounded time and memory: a job that goes wrong ends alone, and so does one whose client left."""

from __future__ import annotations

import threading

import pytest
from patience import PATIENCE_S

from pipelines.base.bounded_processes import BoundedProcesses, OutOfBounds, OutOfTime
from pipelines.base.cancellation import ShortWork, TakesLong, WorkCancelled, cancelled_by, need_long_work
from pipelines.base.errors import Unavailable

ENDLESS = {
    "source": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "special_tokens": {},
    "arguments": {
        "messages": [],
        "tools": None,
        "add_generation_prompt": False,
        "continue_final_message": False,
        "kwargs": {},
    },
}
SHORT = {**ENDLESS, "source": "hello"}


@pytest.fixture
def processes():
    made = BoundedProcesses("pipelines.nodes.text.templates.rendering", 1, 512 << 20, "render templates")
    yield made
    made.close()


def test_a_job_gives_its_outcome_and_its_time(processes):
    found = processes.outcome(SHORT, 5.0)
    assert found.value == {"text": "hello"}
    assert 0 <= found.took_s < 5


def test_a_job_that_takes_too_long_is_ended_and_the_next_one_runs(processes):
    with pytest.raises(OutOfTime, match="longer than 0.2 s"):
        processes.outcome(ENDLESS, 0.2)
    assert processes.outcome(SHORT, 5.0).value == {"text": "hello"}


def test_a_process_that_fails_is_out_of_bounds(processes):
    with pytest.raises(OutOfBounds):
        processes.outcome({"no": "job"}, 5.0)
    assert processes.outcome(SHORT, 5.0).value == {"text": "hello"}


def test_a_client_that_leaves_ends_its_job_and_frees_its_place(processes):
    gone, ended = threading.Event(), []

    def work():
        with cancelled_by(gone), pytest.raises(WorkCancelled):
            processes.outcome(ENDLESS, 600.0)
        ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    waiting = threading.Event()

    def wait_behind():
        with cancelled_by(waiting), pytest.raises(WorkCancelled):
            processes.outcome(SHORT, 600.0)
        ended.append(True)

    behind = threading.Thread(target=wait_behind)
    behind.start()
    waiting.set()
    behind.join(PATIENCE_S)
    gone.set()
    thread.join(PATIENCE_S)
    assert ended == [True, True]
    assert processes.outcome(SHORT, 5.0).value == {"text": "hello"}


def test_who_waits_too_long_for_a_place_learns_it(processes, monkeypatch):
    monkeypatch.setattr("pipelines.base.bounded_processes.PATIENCE", 0)
    processes._free.acquire()
    with pytest.raises(Unavailable, match="render templates"):
        processes.outcome(SHORT, 1.0)
    processes._free.release()


def test_short_work_that_turns_out_to_be_long_says_so():
    need_long_work()
    with ShortWork(), pytest.raises(TakesLong):
        need_long_work()
