"""Workers and a host whose messages are not the same do not talk, and report it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading

import pytest
from patience import PATIENCE_S
from scripted_host import over, read, submit, until

from pipelines.base.errors import Unavailable
from pipelines.wire.framing import Framer, encode
from pipelines.wire.messages import SCHEMA, Hello, Status, ToHost, ToWorker, Welcome
from pipelines.wire.socket_link import over_socket


class OtherHost:
    """Listens at a path and replies to each Hello with a schema of its own, then with a status."""

    def __init__(self, path, schema):
        self.schema = schema
        self.greeted = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                return
            with connected:
                self.greeted += Framer(ToHost).feed(connected.recv(4096))
                connected.sendall(encode(Welcome(1234, self.schema)) + encode(Status(1234, "ready")))
                while connected.recv(4096):
                    pass

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(PATIENCE_S)


def test_a_worker_of_another_version_gets_no_status(running_host, caplog):
    with socket.socket(socket.AF_UNIX) as worker:
        worker.settimeout(PATIENCE_S)
        over(running_host, lambda client: asyncio.sleep(0))
        worker.connect(str(running_host.path))
        worker.sendall(encode(Hello(77, "other")) * 2)
        framer, messages = Framer(ToWorker), []
        while len(messages) < 2:
            messages += framer.feed(worker.recv(4096))
        worker.settimeout(0.1)
        with pytest.raises(TimeoutError):
            worker.recv(4096)
    assert messages == [Welcome(os.getpid(), SCHEMA)] * 2
    assert caplog.text.count("a worker (pid: 77) runs another version of Braid") == 1


def test_a_client_waits_for_a_host_of_its_own_version(running_host, tmp_path, caplog):
    async def scene():
        path = tmp_path / "other"
        other, mismatched = OtherHost(path, "other"), []
        client = over_socket(str(path))
        client.on_mismatch(mismatched.append)
        await client.start()
        await until(lambda: len(other.greeted) >= 2)
        assert (client.status, client.connected) == (None, False)
        with pytest.raises(Unavailable, match="starting"):
            submit(client, instance_id=1)
        other.close()
        path.unlink()
        path.symlink_to(running_host.path)
        await until(lambda: client.status is not None and client.status.state == "ready")
        assert client.connected
        assert (await read(submit(client)[1]))[1] == {0: "length"}
        await client.close()
        return mismatched

    assert set(asyncio.run(scene())) == {1234}
    assert caplog.text.count("(pid: 1234) runs another version of Braid") == 1
