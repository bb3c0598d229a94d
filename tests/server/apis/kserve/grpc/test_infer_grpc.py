"""KServe's protocol over gRPC: the same models as over HTTP, asked by grpc's own client."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from kserve_requests import IMAGE, NUMBERS, services
from patience import PATIENCE_S

from server.apis.kserve.datatypes import NAMES
from server.apis.kserve.served import GRPC_EXTENSIONS
from server.app import create_app

grpc = pytest.importorskip("grpc", reason="the extra grpc is not installed")

from server.apis.kserve.grpc.listener import GrpcListener  # noqa: E402
from server.apis.kserve.grpc.schema import DATA_TYPES, SERVICE, TYPES  # noqa: E402


class Channel:
    """One connection to a listener."""

    def __init__(self, channel, metadata=()):
        self._channel = channel
        self._metadata = metadata

    async def ask(self, method, request, of="", **more):
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=TYPES[f"{of or method}Response"].FromString,
        )
        return await call(request, metadata=self._metadata, timeout=PATIENCE_S, **more)

    async def infer(self, model="detector", array=IMAGE, name="image", datatype="FP32", **more):
        return await self.ask("ModelInfer", infer_request(model, array, name, datatype, **more))

    def stream(self, requests):
        call = self._channel.stream_stream(
            f"/{SERVICE}/ModelStreamInfer",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=TYPES["ModelStreamInferResponse"].FromString,
        )
        return call(requests, metadata=self._metadata, timeout=PATIENCE_S)


def infer_request(model="detector", array=IMAGE, name="image", datatype="FP32", **more):
    request = TYPES["ModelInferRequest"](model_name=model, **more)
    request.inputs.add(name=name, datatype=datatype, shape=array.shape)
    request.raw_input_contents.append(array.tobytes())
    return request


@pytest.fixture(scope="module")
def tensors(models, tmp_path_factory):
    """The models that these tests ask: each test loads them."""
    folder = tmp_path_factory.mktemp("grpc")
    for name in ("detector", "org", "types", "text", "asks"):
        (folder / name).symlink_to(models / name)
    return folder


@pytest.fixture(scope="module")
def listening(tensors):
    """Runs a scene with the address of a listener, whose server has one key."""

    def run(scene, **settings):
        async def whole():
            grpc_services = services(tensors, grpc_port=1, **settings)
            create_app(grpc_services)
            await grpc_services.client.start()
            await grpc_services.catalogue.start()
            for _ in range(9000):
                cards = grpc_services.catalogue.cards()
                if cards and all(card.state == "ready" for card in cards):
                    break
                await asyncio.sleep(0.01)
            listener = GrpcListener(grpc_services)
            listener._address = "127.0.0.1:0"
            port = await listener.start()
            listener._address = f"127.0.0.1:{port}"
            try:
                async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                    return await scene(channel, listener)
            finally:
                await listener.stop()
                await grpc_services.catalogue.close()
                await grpc_services.client.close()

        return asyncio.run(whole())

    return run


METHODS = [
    *("ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelConfig"),
    *("ModelStatistics", "RepositoryIndex", "ModelInfer"),
]


async def status_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code().name, caught.value.details()


def test_every_method_and_every_refusal(listening):
    async def scene(channel, listener):
        ask = Channel(channel, (("authorization", "Bearer secret"),))
        assert (await ask.ask("ServerLive", TYPES["ServerLiveRequest"]())).live
        assert (await ask.ask("ServerReady", TYPES["ServerReadyRequest"]())).ready
        server = await ask.ask("ServerMetadata", TYPES["ServerMetadataRequest"]())
        assert (server.name, list(server.extensions)) == ("braid", [*GRPC_EXTENSIONS])
        told = await ask.ask("ModelMetadata", TYPES["ModelMetadataRequest"](name="detector", version="1"))
        assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in told.inputs] == [
            ("image", "FP32", [-1, 4])
        ]
        ready = TYPES["ModelReadyRequest"](name="detector")
        assert (await ask.ask("ModelReady", ready)).ready

        reply = await ask.infer(id="q7")
        assert (reply.model_name, reply.model_version, reply.id) == ("detector", "1", "q7")
        outputs = {
            output.name: raw for output, raw in zip(reply.outputs, reply.raw_output_contents, strict=True)
        }
        assert outputs == {"doubled": (2 * IMAGE).tobytes(), "boxes": (2 * IMAGE[:, :2]).tobytes()}

        unset = TYPES["ModelInferRequest"](model_name="detector")
        unset.inputs.add(name="image", datatype="FP32", shape=[2, 4]).contents.fp32_contents.extend(
            IMAGE.ravel()
        )
        unset.outputs.add(name="boxes")
        assert list((await ask.ask("ModelInfer", unset)).raw_output_contents) == [
            (2 * IMAGE[:, :2]).tobytes()
        ]
        unset.inputs[0].shape[0] = 3
        code, said = await status_of(ask.ask("ModelInfer", unset))
        assert (code, "has 8 elements in fp32_contents" in said) == ("INVALID_ARGUMENT", True)

        assert (await status_of(ask.infer("nope")))[0] == "NOT_FOUND"
        assert (await status_of(ask.infer(model_version="9")))[0] == "NOT_FOUND"
        assert (await status_of(ask.infer(array=IMAGE[:, :3])))[0] == "INVALID_ARGUMENT"
        assert (await status_of(ask.infer(datatype="FP8")))[0] == "INVALID_ARGUMENT"
        assert (await status_of(ask.ask("TraceSetting", ready, of="ModelReady")))[0] == "UNIMPLEMENTED"
        large = np.zeros((1 << 17, 4), np.float32)
        assert (await status_of(ask.infer(array=large)))[0] == "RESOURCE_EXHAUSTED"

        stranger = Channel(channel)
        assert (await stranger.ask("ServerLive", TYPES["ServerLiveRequest"]())).live
        assert (await status_of(stranger.infer()))[0] == "UNAUTHENTICATED"
        assert (await status_of(stranger.ask("ModelReady", ready)))[0] == "UNAUTHENTICATED"

        replies = [
            part
            async for part in ask.stream(
                iter([infer_request(id="a"), infer_request("nope"), infer_request(id="b")])
            )
        ]
        assert [reply.infer_response.id for reply in replies] == ["a", "", "b"]
        assert "does not exist" in replies[1].error_message

        fifty = await asyncio.gather(*(ask.infer(array=IMAGE + n) for n in range(50)))
        for number, reply in enumerate(fifty):
            assert (2 * (IMAGE + number)).astype(np.float32).tobytes() in list(reply.raw_output_contents)

    listening(scene, api_keys=("secret",), max_body_mb=1)


def test_models_are_described_as_over_http(listening):
    async def scene(channel, listener):
        ask = Channel(channel, (("authorization", "Bearer secret"),))
        of_types = TYPES["ModelConfigRequest"](name="types", version="1")
        config = (await ask.ask("ModelConfig", of_types)).config
        assert (config.name, config.platform, config.backend) == ("types", "braid_tensors", "braid")
        assert {DATA_TYPES[tensor.data_type] for tensor in config.input} == {*NUMBERS}
        assert {tuple(tensor.dims) for tensor in config.output} == {(-1,)}
        for count in (1, 2):
            await ask.infer()
            of_detector = TYPES["ModelStatisticsRequest"](name="detector")
            (told,) = (await ask.ask("ModelStatistics", of_detector)).model_stats
            assert (told.name, told.version, told.inference_count) == ("detector", "1", count)
            assert told.inference_stats.compute_infer.ns > 0
        index = TYPES["RepositoryIndexRequest"](ready=True)
        assert "a valid admin key" in (await status_of(ask.ask("RepositoryIndex", index)))[1]
        admin = Channel(channel, (("x-api-key", "admin"),))
        listed = (await admin.ask("RepositoryIndex", index)).models
        assert {model_entry.name: (model_entry.version, model_entry.state) for model_entry in listed}[
            "org/two"
        ] == ("1", "READY")
        assert (await status_of(ask.ask("ModelStatistics", TYPES["ModelStatisticsRequest"](name="nope"))))[
            0
        ] == "NOT_FOUND"

    listening(scene, api_keys=("secret",), admin_keys=("admin",))


def test_every_number_there_and_back(listening):
    arrays = {
        name: (np.array([0, 1, 1]) if name == "BOOL" else np.array([0, 1, 100])).astype(NAMES[name])
        for name in NUMBERS
    }

    async def scene(channel, listener):
        request = TYPES["ModelInferRequest"](model_name="types")
        for name, array in arrays.items():
            request.inputs.add(name=name, datatype=name, shape=array.shape)
            request.raw_input_contents.append(array.tobytes())
        reply = await Channel(channel).ask("ModelInfer", request)
        return {
            output.name: raw for output, raw in zip(reply.outputs, reply.raw_output_contents, strict=True)
        }

    assert listening(scene) == {f"same_{name}": array.tobytes() for name, array in arrays.items()}


@pytest.mark.parametrize("model", ["text", "asks"])
def test_a_text_is_streamed_in_pieces(listening, model):
    async def scene(channel, listener):
        request = infer_request(model, np.zeros(1), "text_input", "BYTES")
        request.raw_input_contents[0] = b"\x05\x00\x00\x00hello"
        request.parameters["max_tokens"].int64_param = 60
        request.parameters["temperature"].double_param = 0
        whole = await Channel(channel).ask("ModelInfer", request)
        pieces = [part.infer_response async for part in Channel(channel).stream(iter([request]))]
        return whole.raw_output_contents[0][4:], [piece.raw_output_contents[0][4:] for piece in pieces]

    whole, pieces = listening(scene)
    assert len(pieces) > 1
    assert b"".join(pieces) == whole


def test_a_stream_in_flight_goes_on_while_the_server_drains(listening):
    async def scene(channel, listener):
        gate = asyncio.Event()

        async def requests():
            yield infer_request(id="a")
            await gate.wait()
            yield infer_request(id="b")

        replies = aiter(Channel(channel).stream(requests()))
        first = await anext(replies)
        listener.drain()
        await asyncio.sleep(0.05)
        gate.set()
        return [first.infer_response.id, *[reply.infer_response.id async for reply in replies]]

    assert listening(scene) == ["a", "b"]


def test_a_body_that_is_no_message_is_told_so(listening, caplog):
    async def scene(channel, listener):
        codes = {}
        for name in METHODS:
            ask = channel.unary_unary(f"/{SERVICE}/{name}")
            call = ask(b"\xff\xff\xff", metadata=(("authorization", "Bearer secret"),), timeout=PATIENCE_S)
            codes[name] = await status_of(call)
        stream = channel.stream_stream(
            f"/{SERVICE}/ModelStreamInfer",
            response_deserializer=TYPES["ModelStreamInferResponse"].FromString,
        )
        replies = stream(
            iter([b"\xff\xff\xff"]), metadata=(("authorization", "Bearer secret"),), timeout=PATIENCE_S
        )
        return codes, [reply.error_message async for reply in replies]

    codes_by_method, streamed = listening(scene)
    assert codes_by_method == {
        name: ("INVALID_ARGUMENT", f"the body is no {name}Request of KServe's protocol") for name in METHODS
    }
    assert streamed == ["the body is no ModelInferRequest of KServe's protocol"]
    assert "Traceback" not in caplog.text


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
PING = bytes.fromhex("0000080600 00000000") + b"12345678"
ENHANCE_YOUR_CALM = 11


def test_pings_without_end_close_their_connection_alone(listening):
    """gRPC answers some, then says to calm down and hangs up; other connections are served meanwhile."""

    async def scene(channel, listener):
        port = int(listener._address.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(PREFACE + PING * 2000)
        async with asyncio.timeout(PATIENCE_S):
            received, reply = await asyncio.gather(
                reader.read(), Channel(channel, (("authorization", "Bearer secret"),)).infer()
            )
        writer.close()
        return received, reply

    received, reply = listening(scene)
    assert ENHANCE_YOUR_CALM.to_bytes(4) + b"too_many_pings" in received
    assert reply.model_name == "detector"
