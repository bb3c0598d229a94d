"""Two engines behind one face: where requests go, and what happens when a host is lost.  The hosts are lists."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from msgspec.structs import replace
from patience import PATIENCE_S, until

from pipelines.base.errors import EngineError, NotFound, Overloaded, Unavailable
from pipelines.telemetry.request_record import RequestRecord
from pipelines.wire.address import EngineAddress
from pipelines.wire.client import EngineClient
from pipelines.wire.engine_view import HostProcess, ModelTotals
from pipelines.wire.messages import (
    Abort,
    AdapterStatus,
    Cancelled,
    CancelRequest,
    Frame,
    GraphText,
    Inspect,
    Inspected,
    InUse,
    ModelSettled,
    ModelStatus,
    PrefixCacheReset,
    ReleaseModel,
    ReportRequests,
    Status,
    TokenUpdate,
    UnloadModel,
    WantModel,
)
from pipelines.wire.requests import ImageEmbeds, Submit, SubmitTensors, TokenRequest
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.token_piece import TokenPiece
from pipelines.wire.update_queue import MAX_UNREAD, PendingReply, UpdateQueue
from pipelines.worker.engines.engines import Engines

NUM = 2


class Host:
    """The other end of a link: `sent` holds what came, `say` sends."""

    def __init__(self, engine):
        self.sent = []
        self.link = EngineClient(None, itertools.count(NUM + engine, NUM))
        self.link._link = self
        self.say = self.link.received

    def send(self, message):
        self.sent.append(message)

    def close(self): ...

    def of(self, kind):
        return [message for message in self.sent if isinstance(message, kind)]

    def serve(self, instance_id, state="ready", number=1, adapters=()):
        model = ModelStatus(
            "m",
            1,
            instance_id,
            "ready",
            graphs={"m": GraphText("graph")},
            fingerprint="a",
            adapters=[*adapters],
        )
        self.say(Status(1, state, [model], number))


def submit(instance_id, **more):
    return Submit(EngineAddress("m", instance_id, "generated"), TokenRequest([[1]], SamplingParams()), **more)


def infer(instance_id, **more):
    return SubmitTensors(EngineAddress("m", instance_id, "encoded"), **more)


class Rig:
    """Two hosts that have one model ready, as instances 70 and 80, and the engines made of them."""

    def __init__(self):
        self.hosts = [Host(engine) for engine in range(NUM)]
        self.engines = Engines([host.link for host in self.hosts], max_ahead=2)
        for engine, host in enumerate(self.hosts):
            host.link.on_status(lambda status, engine=engine: self.engines._take_status(engine, status))
            host.serve(70 + 10 * engine)

    @property
    def number(self):
        return self.engines.status.models[0].instance_id

    def submit(self, route, **more):
        queue = UpdateQueue()
        return route.submit(submit(self.number, **more), queue), queue

    def infer(self, route, **more):
        return route.submit(infer(self.number, **more), PendingReply())

    def key_of(self, engine):
        """A key that has its place at an engine."""
        for number in range(100):
            before = len(self.hosts[engine].of(Submit))
            route = self.engines.route(str(number))
            request_id, _ = self.submit(route)
            route.abort(request_id)
            if len(self.hosts[engine].of(Submit)) > before:
                return str(number)
        raise AssertionError("the engine is too busy")


@pytest.fixture
def rig():
    return Rig()


def test_a_request_names_the_instance_of_its_engine_and_ids_name_the_engine(rig):
    ids = [rig.submit(rig.engines.route(None))[0] for _ in range(6)]
    for engine, host in enumerate(rig.hosts):
        sent = host.of(Submit)
        assert len(sent) == 3  # without a key to the one with fewer requests
        assert {message.address.instance_id for message in sent} == {70 + 10 * engine}
        assert {message.request_id % NUM for message in sent} == {engine}
    assert sorted(ids) == sorted(message.request_id for host in rig.hosts for message in host.of(Submit))
    assert rig.engines.num_in_flight == 6


def test_a_request_names_the_adapter_by_the_number_that_it_has_at_its_engine(rig):
    for engine, host in enumerate(rig.hosts):
        host.serve(70 + 10 * engine, number=2, adapters=[AdapterStatus("french", 5 + engine, "/french", 0)])
    (adapter,) = rig.engines.status.models[0].adapters
    for engine, host in enumerate(rig.hosts):
        route = rig.engines.route(rig.key_of(engine))
        rig.submit(route, adapter=adapter.number)
        rig.infer(route, adapter=adapter.number)
        assert [host.of(kind)[-1].adapter for kind in (Submit, SubmitTensors)] == [5 + engine] * 2


def test_a_client_that_does_not_read_is_cut_off(rig):
    """Its request ends in the host, and what waits for it is bounded."""

    async def scenario():
        request_id, queue = rig.submit(rig.engines.route(None))
        (host,) = (host for host in rig.hosts if host.of(Submit))
        piece = [7] * 1024
        for _ in range(1 + MAX_UNREAD // len(piece)):
            assert not host.of(Abort)
            host.say(Frame([TokenUpdate(request_id, 0, TokenPiece([*piece], len(piece)))]))
        assert [message.request_id for message in host.of(Abort)] == [request_id]
        assert rig.engines.num_in_flight == 0
        num_read = 0
        while num_read < MAX_UNREAD + len(piece):
            (unread,) = await queue.get()
            num_read += len(unread.piece.token_ids)
        assert num_read == MAX_UNREAD + len(piece)
        with pytest.raises(Overloaded, match="reads its stream too slowly"):
            await queue.get()

    asyncio.run(scenario())


def test_a_session_keeps_to_its_engine_up_to_the_bound(rig):
    for engine in (0, 1):
        key = rig.key_of(engine)
        before = [len(host.of(Submit)) for host in rig.hosts]
        for _ in range(4):
            rig.submit(rig.engines.route(key))
        after = [len(host.of(Submit)) for host in rig.hosts]
        gained = [now - then for now, then in zip(after, before, strict=True)]
        assert gained[engine] == 3  # two more than the other one, then one beyond
        rig.engines.abort_all(Unavailable("end"))


def test_a_call_stays_where_its_first_request_went_and_is_cancelled_there(rig):
    route = rig.engines.route(None)
    held = rig.infer(route, hold=True)
    engine = held % NUM
    key = rig.key_of(engine)
    for _ in range(2):
        rig.submit(rig.engines.route(key))  # its engine is the busier one now
    request_id, _ = rig.submit(route, images=ImageEmbeds(held, [[]]))
    again = rig.infer(route, held={"rows": held})
    assert [request_id % NUM, again % NUM] == [engine, engine]
    route.abort(request_id)
    route.release(held)
    aborted = [message.request_id for message in rig.hosts[engine].of(Abort)]
    assert aborted[-2:] == [request_id, held]


def test_what_refers_to_a_lost_engine_fails_and_does_not_move(rig):
    route = rig.engines.route(None)
    held = rig.infer(route, hold=True)
    rig.hosts[held % NUM].link.lost()
    with pytest.raises(Unavailable, match="is gone"):
        rig.submit(route, context=held)
    assert not any(host.of(Submit) for host in rig.hosts)


def test_a_lost_engine_fails_its_own_requests_and_new_ones_go_to_the_other(rig):
    async def scene():
        requests = [rig.submit(rig.engines.route(None)) for _ in range(4)]
        rig.hosts[0].link.lost()
        outcomes = {}
        for request_id, queue in requests:
            if request_id % NUM == 0:
                with pytest.raises(Unavailable, match="the engine died"):
                    await queue.get()
            outcomes.setdefault(request_id % NUM, []).append(bool(queue.open))
        assert outcomes == {0: [False, False], 1: [True, True]}
        assert [rig.submit(rig.engines.route(str(key)))[0] % NUM for key in range(8)] == [1] * 8
        assert rig.engines.status.state == "ready"
        rig.hosts[1].link.lost()
        assert rig.engines.status is None
        with pytest.raises(Unavailable, match="the engine is starting"):
            rig.engines.route(None).submit(submit(1), UpdateQueue())

    asyncio.run(scene())


def test_nothing_new_goes_to_a_host_that_drains(rig):
    rig.hosts[0].serve(70, state="draining", number=2)
    assert [rig.submit(rig.engines.route(str(key)))[0] % NUM for key in range(8)] == [1] * 8
    rig.hosts[1].serve(80, state="draining", number=2)
    with pytest.raises(Unavailable, match="shutting down"):
        rig.submit(rig.engines.route(None))


def test_each_host_hears_of_its_own_instances(rig):
    assert rig.engines.report_use([rig.number], rig.engines.status.number)
    assert [host.of(InUse) for host in rig.hosts] == [[InUse([70], 1)], [InUse([80], 1)]]


def asked(rig, kind, engine):
    return rig.hosts[engine].of(kind)[-1].request_id


def settle(rig, kind, *errors):
    for engine, error in enumerate(errors):
        status = {} if error is None else {"error": error[0], "error_status": error[1]}
        rig.hosts[engine].say(ModelSettled(asked(rig, kind, engine), **status))


NOT_FOUND, BROKEN = ("unknown", 404), ("broken", 500)


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ((None, None), None),
        ((None, NOT_FOUND), None),  # a host that was restarted may not know it
        ((NOT_FOUND, NOT_FOUND), NotFound),
        ((None, BROKEN), EngineError),
    ],
)
def test_unloading_reaches_all(rig, errors, raised):
    async def scene():
        task = asyncio.create_task(rig.engines.unload("m"))
        await until(lambda: all(host.of(UnloadModel) for host in rig.hosts))
        settle(rig, UnloadModel, *errors)
        await asyncio.wait_for(task, PATIENCE_S)

    if raised is None:
        asyncio.run(scene())
    else:
        with pytest.raises(raised):
            asyncio.run(scene())


def test_a_host_that_dies_meanwhile_is_no_error(rig):
    async def scene():
        task = asyncio.create_task(rig.engines.reset_prefix_cache())
        await until(lambda: all(len(host.sent) for host in rig.hosts))
        rig.hosts[0].link.lost()
        rig.hosts[1].say(PrefixCacheReset(rig.hosts[1].sent[-1].request_id))
        await asyncio.wait_for(task, PATIENCE_S)

    asyncio.run(scene())


def test_a_request_waits_for_the_first_engine_that_loads_its_model(rig):
    async def scene():
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(answer())
            async with rig.engines.wanted("m"):
                assert not rig.hosts[1].of(ReleaseModel)
        assert all(len(host.of(ReleaseModel)) == 1 for host in rig.hosts)  # what still loads is let go

    async def answer():
        await until(lambda: all(host.of(WantModel) for host in rig.hosts))
        settle(rig, WantModel, BROKEN)
        await asyncio.sleep(0)
        rig.hosts[1].say(ModelSettled(asked(rig, WantModel, 1)))

    asyncio.run(scene())


def test_a_client_that_loads_waits_for_all(rig):
    async def scene():
        entered = asyncio.Event()

        async def load():
            async with rig.engines.wanted("m", by_hand=True):
                entered.set()

        task = asyncio.create_task(load())
        await until(lambda: all(host.of(WantModel) for host in rig.hosts))
        settle(rig, WantModel, None)
        await asyncio.sleep(0.01)
        assert not entered.is_set()
        rig.hosts[1].say(ModelSettled(asked(rig, WantModel, 1)))
        await asyncio.wait_for(task, PATIENCE_S)
        assert entered.is_set()

    asyncio.run(scene())


def test_no_engine_loads_it(rig):
    async def scene():
        async def load():
            async with rig.engines.wanted("m"):
                raise AssertionError("entered")

        task = asyncio.create_task(load())
        await until(lambda: all(host.of(WantModel) for host in rig.hosts))
        settle(rig, WantModel, BROKEN, BROKEN)
        with pytest.raises(EngineError, match="broken"):
            await asyncio.wait_for(task, PATIENCE_S)

    asyncio.run(scene())


def test_one_engine_is_its_own_route_with_ids_from_one():
    host = Host(0)
    host.link = client = EngineClient(None)
    client._link = host
    client.received(Status(1, "ready", []))
    assert client.route("any key") is client
    client.submit(infer(70), PendingReply())
    assert [message.request_id for message in host.of(SubmitTensors)] == [1]


RECORD = RequestRecord("r", 1.5, "/v1/completions", "m", 200, "stop", 0.5)
PROCESS = HostProcess(7, 1.0, 10**6, 0.5)


def inspected(rig, engine, state="ready"):
    request_id = asked(rig, Inspect, engine)
    rig.hosts[engine].say(Inspected(request_id, state, PROCESS, [], [], ModelTotals(engine)))


def test_each_engine_that_is_there_is_shown_under_its_number(rig):
    rig.hosts[0].serve(70, state="draining", number=2)

    async def scene():
        task = asyncio.create_task(rig.engines.inspect("m"))
        await until(lambda: all(host.of(Inspect) for host in rig.hosts))
        inspected(rig, 0, "draining")
        inspected(rig, 1)
        both = await asyncio.wait_for(task, PATIENCE_S)
        task = asyncio.create_task(rig.engines.inspect("m"))
        await until(lambda: all(len(host.of(Inspect)) == 2 for host in rig.hosts))
        rig.hosts[0].link.lost()
        inspected(rig, 1)
        inspection = await asyncio.wait_for(task, PATIENCE_S)
        task = asyncio.create_task(rig.engines.inspect("m"))
        await until(lambda: len(rig.hosts[1].of(Inspect)) == 3)
        rig.hosts[1].link.lost()
        with pytest.raises(Unavailable):
            await asyncio.wait_for(task, PATIENCE_S)
        with pytest.raises(Unavailable, match="starting"):
            await rig.engines.inspect("m")
        return both, inspection

    both, alone = asyncio.run(scene())
    assert [(view.engine, view.state, view.totals.prompt_tokens) for view in both] == [
        *(("0", "draining", 0), ("1", "ready", 1))
    ]
    assert [view.engine for view in alone] == ["1"]


@pytest.mark.parametrize(("numbers", "total"), [((0, 2), 2), ((1, 1), 2), ((0, 0), 0), ((1, None), 1)])
def test_a_request_is_cancelled_in_all_engines(rig, numbers, total):
    async def scene():
        task = asyncio.create_task(rig.engines.cancel("mine"))
        await until(lambda: all(host.of(CancelRequest) for host in rig.hosts))
        for host, number in zip(rig.hosts, numbers, strict=True):
            if number is None:
                host.link.lost()
            else:
                host.say(Cancelled(host.of(CancelRequest)[-1].request_id, number))
        return await asyncio.wait_for(task, PATIENCE_S)

    assert asyncio.run(scene()) == total


def test_a_request_that_may_be_in_a_lost_engine_is_not_said_to_be_nowhere(rig):
    async def scene():
        task = asyncio.create_task(rig.engines.cancel("mine"))
        await until(lambda: all(host.of(CancelRequest) for host in rig.hosts))
        rig.hosts[0].link.lost()
        rig.hosts[1].say(Cancelled(rig.hosts[1].of(CancelRequest)[-1].request_id, 0))
        await asyncio.wait_for(task, PATIENCE_S)

    with pytest.raises(Unavailable):
        asyncio.run(scene())


def test_records_go_to_one_engine_and_again_to_its_next_host(rig):
    first, second = rig.hosts
    rig.engines.report([RECORD], [])
    assert [host.of(ReportRequests) for host in rig.hosts] == [[ReportRequests([RECORD], [])], []]
    first.link.lost()
    later = replace(RECORD, id="later", at=2.5)
    rig.engines.report([later], [])
    assert [host.of(ReportRequests)[-1] for host in rig.hosts] == [
        *(ReportRequests([RECORD], []), ReportRequests([later], []))
    ]
    first.link._link = first
    first.serve(71)
    first.serve(71, number=2)
    assert first.of(ReportRequests) == [ReportRequests([RECORD], [])] * 2
    assert len(second.of(ReportRequests)) == 1


def test_while_no_engine_is_there_records_wait(rig):
    for host in rig.hosts:
        host.link.lost()
    rig.engines.report([RECORD], [])
    assert not rig.hosts[0].of(ReportRequests)
    rig.hosts[0].link._link = rig.hosts[0]
    rig.hosts[0].serve(70)
    assert rig.hosts[0].of(ReportRequests) == [ReportRequests([RECORD], [])]
