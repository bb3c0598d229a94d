"""Who handles a message of the host: the thread that brings it, or the main thread."""

from __future__ import annotations

import threading
import time

import pytest
from patience import PATIENCE_S

from pipelines.host.inbox import HostInbox

LONG_S = 2 * PATIENCE_S


def until(condition):
    for _ in range(int(PATIENCE_S * 100)):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come true")


class Main:
    """A main thread that waits once; `returned` is set when it has the turn again."""

    def __init__(self, inbox, notes=False):
        self._inbox, self._notes = inbox, notes
        self.returned = threading.Event()
        self.thread = threading.Thread(target=self._wait, daemon=True)
        self.thread.start()
        until(lambda: not inbox._turn.locked())

    def _wait(self):
        self._inbox.wait(LONG_S, notes=self._notes)
        self.returned.set()

    def ends(self):
        assert self.returned.wait(PATIENCE_S)


@pytest.fixture
def handled():
    """(thread, peer, message) of what was handled at once."""
    return []


@pytest.fixture
def inbox(handled):
    def handle(peer, message):
        handled.append((threading.current_thread(), peer, message))

    made = HostInbox()
    made.handle_at_once({int: handle, str: handle}, noted=frozenset({str}))
    return made


def test_while_the_main_thread_waits_a_message_is_handled_where_it_is_put(inbox, handled):
    main = Main(inbox)
    inbox.put(("worker", 1))
    assert handled == [(threading.current_thread(), "worker", 1)]
    assert (inbox.num_at_once, inbox.take(), main.returned.is_set()) == (1, None, False)
    inbox.put(("worker", 2.0))  # of another type
    main.ends()
    assert inbox.take() == ("worker", 2.0)


def test_while_the_main_thread_works_all_messages_wait_in_order(inbox, handled):
    inbox.put(("worker", 1))
    inbox.put(("worker", 2.0))
    inbox.put(("worker", 3))
    inbox.wait(LONG_S, notes=False)  # returns: something waits
    assert [inbox.take() for _ in range(4)] == [("worker", 1), ("worker", 2.0), ("worker", 3), None]
    assert handled == []


def test_a_message_does_not_overtake_one_that_waits(inbox, handled):
    main = Main(inbox)
    with inbox._turn:  # the main thread wakes up, and does not have the turn yet
        inbox.put(("worker", 2.0))
        until(inbox._woken.locked)
    inbox._waiting.append(("worker", 3.0))
    inbox.put(("worker", 4))
    main.ends()
    assert [inbox.take()[1] for _ in range(3)] == [2.0, 3.0, 4]
    assert handled == []


@pytest.mark.parametrize("notes", [False, True])
def test_the_main_thread_is_woken_for_what_it_wants_to_know(inbox, handled, notes):
    main = Main(inbox, notes)
    inbox.put(("worker", 1))
    assert not main.returned.is_set()
    inbox.put(("worker", "noted"))
    assert [message for _, _, message in handled] == [1, "noted"]
    if notes:
        main.ends()
    else:
        inbox.put(("worker", 2.0))
        main.ends()


def test_what_a_handler_puts_is_for_the_main_thread(inbox):
    inbox.handle_at_once({int: lambda peer, message: inbox.put((peer, message + 1))}, noted=frozenset())
    main = Main(inbox)
    inbox.put(("worker", 1))
    main.ends()
    assert (inbox.take(), inbox.take()) == (("worker", 2), None)


def test_a_wait_ends_after_its_time(inbox):
    inbox.wait(0.01, notes=False)
    assert inbox.take() is None
