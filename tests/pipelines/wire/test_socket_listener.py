"""The host's end over a real socket, as a worker sees it that reads late, sends noise or leaves."""

from __future__ import annotations

import queue
import socket
import threading

import pytest
from patience import PATIENCE_S

from pipelines.wire.framing import Framer, encode
from pipelines.wire.listener import Disconnected
from pipelines.wire.messages import SCHEMA, Abort, Frame, Hello, TokenUpdate, ToWorker
from pipelines.wire.socket_listener import SocketListener
from pipelines.wire.token_piece import TokenPiece


class Worker:
    """One that has said hello; `peer` is the listener's name for it."""

    def __init__(self, listener, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(str(path))
        self._framer = Framer(ToWorker)
        self.send(Hello(7, SCHEMA))
        self.peer, message = listener.inbox.get(timeout=PATIENCE_S)
        assert message == Hello(7, SCHEMA)

    def send(self, message):
        self.socket.sendall(encode(message))

    def read(self, count):
        """So many messages, or those that came with the last of them too."""
        found = []
        while len(found) < count:
            data = self.socket.recv(65536)
            assert data, "the listener hung up"
            found += self._framer.feed(data)
        return found


@pytest.fixture
def listener(tmp_path):
    made = SocketListener(tmp_path / "s")
    made.inbox = queue.SimpleQueue()
    made.open(made.inbox)
    yield made
    made.close()


class HeldInbox(queue.SimpleQueue):
    """Holds who puts something in, once it is `held`, until it is `freed`."""

    def __init__(self):
        self.held, self.freed = False, threading.Event()

    def put(self, item):
        if self.held:
            self.freed.wait(2 * PATIENCE_S)
        super().put(item)


@pytest.fixture
def join(listener, tmp_path):
    joined = []

    def join():
        joined.append(Worker(listener, tmp_path / "s"))
        return joined[-1]

    yield join
    for worker in joined:
        worker.socket.close()


def frames(count, size=1000):
    return [Frame([TokenUpdate(number, 0, TokenPiece([1] * size, size))]) for number in range(count)]


def post_each(listener, peer, sent):
    for frame in sent:
        listener.send([(peer, frame)])


def test_a_worker_that_reads_late_gets_everything_in_order(listener, join):
    worker, sent = join(), frames(2000)  # more than a socket holds
    post_each(listener, worker.peer, sent)
    assert worker.peer.behind
    assert worker.read(2000) == sent
    later = frames(3)
    listener.send([(worker.peer, frame) for frame in later])
    assert worker.read(3) == later


def test_a_worker_that_does_not_read_holds_no_other_up(listener, join):
    slow, quick = join(), join()
    post_each(listener, slow.peer, frames(2000))
    post_each(listener, quick.peer, frames(1))
    assert quick.read(1) == frames(1)
    quick.send(Abort(3))
    assert listener.inbox.get(timeout=PATIENCE_S) == (quick.peer, Abort(3))


def test_who_posts_does_not_wait_for_the_gates_thread(tmp_path):
    listener = SocketListener(tmp_path / "s")
    listener.inbox = HeldInbox()
    listener.open(listener.inbox)
    worker = Worker(listener, tmp_path / "s")
    listener.inbox.held = True
    worker.send(Abort(3))
    posting = threading.Thread(target=post_each, args=(listener, worker.peer, frames(2000)), daemon=True)
    posting.start()
    posting.join(PATIENCE_S)
    has_waited = posting.is_alive()
    listener.inbox.freed.set()
    assert worker.read(2000) == frames(2000)
    worker.socket.close()
    listener.close()
    assert not has_waited


def test_a_message_that_cannot_be_written_is_left_out(listener, join):
    worker = join()
    listener.send([(worker.peer, Frame([object()])), (worker.peer, frames(1)[0])])
    assert worker.read(1) == frames(1)


def test_whatever_fails_while_one_is_read_the_others_are_served(listener, join):
    worker, other = join(), join()
    worker.peer._framer = None
    worker.send(Abort(3))
    assert listener.inbox.get(timeout=PATIENCE_S) == (worker.peer, Disconnected())
    other.send(Abort(4))
    assert listener.inbox.get(timeout=PATIENCE_S) == (other.peer, Abort(4))


def test_what_was_posted_is_sent_before_the_gate_closes(listener, join, tmp_path):
    worker, sent = join(), frames(2000)
    post_each(listener, worker.peer, sent)
    closing = threading.Thread(target=listener.close)
    closing.start()
    assert worker.read(2000) == sent
    closing.join()
    assert worker.socket.recv(1) == b""
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("noise", [b"\xff" * 8, b"\x01\x00\x00\x00\xc1"])
def test_noise_ends_the_connection(listener, join, noise):
    worker = join()
    worker.socket.sendall(noise)
    assert listener.inbox.get(timeout=PATIENCE_S) == (worker.peer, Disconnected())
    assert worker.socket.recv(1) == b""
    post_each(listener, worker.peer, frames(1))  # nobody is there: no error


def test_a_worker_that_left_is_gone_once(listener, join):
    worker = join()
    worker.socket.close()
    post_each(listener, worker.peer, frames(10))
    assert listener.inbox.get(timeout=PATIENCE_S) == (worker.peer, Disconnected())
    with pytest.raises(queue.Empty):
        listener.inbox.get(timeout=0.05)


def test_a_path_where_nobody_can_listen_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        SocketListener(tmp_path / "no" / "s").open(queue.SimpleQueue())


def test_a_worker_that_never_reads_is_hung_up_on(listener, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.wire.socket_listener.MAX_UNSENT_BYTES", 1 << 20)
    deaf, other = Worker(listener, tmp_path / "s"), Worker(listener, tmp_path / "s")
    frame = Frame([TokenUpdate(1, 0, TokenPiece(list(range(50_000)), 50_000))])
    for _ in range(40):
        listener.send([(deaf.peer, frame)])
        assert len(deaf.peer._unsent) < 2 << 20
    assert listener.inbox.get(timeout=PATIENCE_S) == (deaf.peer, Disconnected())
    listener.send([(deaf.peer, frame), (other.peer, Frame([TokenUpdate(2, 0, TokenPiece([5], 1))]))])
    assert other.read(1) == [Frame([TokenUpdate(2, 0, TokenPiece([5], 1))])]
    deaf.socket.close()
    other.socket.close()
