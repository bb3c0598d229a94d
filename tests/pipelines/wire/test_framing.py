from __future__ import annotations

import pytest

from pipelines.telemetry.request_record import ErrorRecord, NodeSpan, RequestRecord
from pipelines.telemetry.step_profile import Phase, Steps
from pipelines.wire.address import EngineAddress
from pipelines.wire.engine_view import (
    BlockCounts,
    History,
    HostProcess,
    ModelLoad,
    ModelTotals,
    NodeView,
    PhaseTimes,
    SequenceView,
)
from pipelines.wire.framing import MAX_FRAME_BYTES, Framer, MalformedFrame, encode
from pipelines.wire.logprobs import TokenLogprobs
from pipelines.wire.messages import (
    Abort,
    Cancelled,
    CancelRequest,
    Frame,
    GraphText,
    Hello,
    Inferred,
    Inspect,
    Inspected,
    InUse,
    ModelStatus,
    PrefixCacheReset,
    Profile,
    Profiled,
    ReportRequests,
    ResetPrefixCache,
    Status,
    TensorSpec,
    ToHost,
    TokenUpdate,
    ToWorker,
    Welcome,
)
from pipelines.wire.requests import Origin, Submit, SubmitTensors, Tensor, TokenRequest
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.token_piece import PieceLogprobs, Speculation, TokenPiece

PARAMS = SamplingParams(max_tokens=3, logit_bias={5: -1.5}, stop_token_ids=[7], seed=2**64 - 1)
HERE = EngineAddress("demo", 9, "generated")
TENSOR = Tensor("x", "float32", [1, 2], b"\0" * 8)
SPANS = [NodeSpan("prompt", "run", 0.0, 0.25), NodeSpan("text", "updates", 0.5, 1.0, 0.125)]
RECORD = RequestRecord("r", 1.5, "/v1/chat/completions", "demo", 200, "stop", 2.5, 9, 4, 3, True, SPANS)
FAILED = ErrorRecord("e", 2.5, 400, "/v1/chat/completions", None, "no such field")
TO_HOST = [
    Hello(12, "s"),
    InUse([8, 9], 3),
    Submit(
        HERE,
        TokenRequest([[1, 2], [3]], PARAMS, n=2, cache_salt="s", origin=Origin("r", "ann")),
        request_id=1,
    ),
    SubmitTensors(HERE, [TENSOR], ["y"], Origin("chatcmpl-1"), request_id=2),
    Inspect(7, "demo"),
    CancelRequest(8, "chatcmpl-1"),
    ReportRequests([RECORD], [FAILED]),
    Profile(3, "demo", 9, 1.5),
    ResetPrefixCache(4),
    Abort(1),
    Abort(1, 3),
]
STEPS = Steps(
    "decoding", 2, 6, 6, 6, 1, Phase("step", "", 0.5), [Phase("model", "model", 0.5, 0.2, 0.3, 0.3)]
)
LOGPROBS = [TokenLogprobs(-0.5, 1, [4, 5], [-0.5, -1.0])]
DRAFTED = TokenPiece(
    [4, 5],
    2,
    prefill_s=0.25,
    speculation=Speculation(3, 1),
    logprobs=PieceLogprobs(LOGPROBS * 2, drafted=[None, LOGPROBS[0]]),
)
SCORED = TokenPiece([4], 1, num_cached=16, logprobs=PieceLogprobs(LOGPROBS, LOGPROBS))
NODE = NodeView(
    *("generated", "generation", 9, 1, 1, 0),
    [
        SequenceView("r", 0, "running", 9, 9, 4, 2, 64, 1, 0.5, "sql"),
        SequenceView("r", 1, "waiting", 9, 0, 0, 0, 64, 0, 0.5),
    ],
    BlockCounts(8, 1, 2, 5, 16),
    [(1, 0), (2, -2), (5, -1)],
    [PhaseTimes("decoding", "body.model", "model", 20, 0.5, 10, 0.25)],
    {"model": {"engine": "openvino"}},
)
HISTORY = History(9.0, 1.0, {"running": [0.0, 1.0], "resident_bytes": [1e9, 2e9]})
PROCESS = HostProcess(12, 1.5, 10**9, 2.5)
TO_WORKER = [
    Inspected(7, "ready", PROCESS, [ModelLoad("demo", 1, 1, 10)], [NODE], ModelTotals(9, 4), HISTORY),
    Inspected(7, "draining", PROCESS, [], [], ModelTotals(), requests=[RECORD], errors=[FAILED]),
    Cancelled(8, 2),
    Welcome(5, "s"),
    Frame([TokenUpdate(1, 0, SCORED), TokenUpdate(2, 1, TokenPiece([], 1, "stop", 7))]),
    Frame([TokenUpdate(3, 0, TokenPiece([], 0, "error"), error="no", error_status=400)]),
    Frame([TokenUpdate(4, 0, DRAFTED)]),
    Status(
        5,
        "ready",
        [
            ModelStatus(
                "demo", 2, 9, "ready", [], "chat", {"demo": GraphText("version: 1")}, "/s", "f", [8], 64, 128
            )
        ],
    ),
    Status(5, "ready", [ModelStatus("t", 1, 3, "ready", inputs=[TensorSpec("x", "bool", [None, 2])])]),
    Frame([TokenUpdate(1, 0, SCORED), TokenUpdate(2, 1, TokenPiece([], 1, "stop", 7))]),
    Frame([TokenUpdate(3, 0, TokenPiece([], 0, "error"), error="no", error_status=400)]),
    Frame([TokenUpdate(4, 0, DRAFTED)]),
    Profiled(3, {"generated": [STEPS]}, {"idle": 1.5}),
    Profiled(3, {}, {}, "no such model", 404, "model"),
    PrefixCacheReset(4),
    Inferred(2, [TENSOR]),
    Inferred(2, [], "no such input", 400, "z"),
    Inferred(2, [], "too long", 400, "input_tokens", "context_length_exceeded"),
]


@pytest.mark.parametrize(("kind", "messages"), [(ToHost, TO_HOST), (ToWorker, TO_WORKER)])
def test_messages_come_back_equal(kind, messages):
    assert Framer(kind).feed(b"".join(map(encode, messages))) == messages


def test_who_is_not_guessed_ahead_sends_a_byte_more_for_it():
    plain = TokenUpdate(1, 0, TokenPiece([4], 1))
    told = TokenUpdate(1, 0, TokenPiece([4], 1, speculation=Speculation(0, 0)))
    assert (
        len(encode(Frame([told]))) - len(encode(Frame([plain]))) == 2
    )  # nil is a byte, an array of two zeros is three


def test_messages_come_in_any_pieces():
    wire = b"".join(map(encode, TO_HOST))
    for size in (1, 2, 3, 5, 7, 64):
        framer = Framer(ToHost)
        pieces = [wire[start : start + size] for start in range(0, len(wire), size)]
        assert [message for piece in pieces for message in framer.feed(piece)] == TO_HOST


def test_frame_begins_with_its_length_in_little_endian():
    frame = encode(Hello(12, "s"))
    assert int.from_bytes(frame[:4], "little") == len(frame) - 4


def test_length_beyond_the_bound_is_malformed_before_its_body_comes():
    with pytest.raises(MalformedFrame, match="longer than"):
        Framer(ToHost).feed((MAX_FRAME_BYTES + 1).to_bytes(4, "little"))


def test_body_that_is_no_message_is_malformed():
    with pytest.raises(MalformedFrame):
        Framer(ToHost).feed((3).to_bytes(4, "little") + b"abc")


def test_message_for_the_other_end_is_malformed():
    with pytest.raises(MalformedFrame):
        Framer(ToHost).feed(encode(TO_WORKER[0]))


def test_parameters_out_of_the_contract_are_malformed():
    frame = encode(Submit(HERE, TokenRequest([[1]], SamplingParams(max_tokens="three"))))
    with pytest.raises(MalformedFrame, match="max_tokens"):
        Framer(ToHost).feed(frame)


def test_too_long_a_message_is_refused_by_its_sender(monkeypatch):
    monkeypatch.setattr("pipelines.wire.framing.MAX_FRAME_BYTES", 64)
    with pytest.raises(ValueError, match="longer than 64"):
        encode(Submit(HERE, TokenRequest([[1000] * 64], PARAMS)))
