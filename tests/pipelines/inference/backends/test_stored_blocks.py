"""Blocks of real sessions in a file: another session over the same model goes on from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from breadth import after
from greedy_batches import greedy_engine
from host_runtime import BLOCK_TOKENS, open_on_host
from small_onnx_decoders import write_small

from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.decoder_contract import DecoderSession
from pipelines.inference.engine.generation_engine import GenerationEngine
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.kv_cache.prefix_file.prefix_file import PrefixFile
from pipelines.inference.engine.kv_cache.prefix_file.slot_file import SlotFile
from pipelines.wire.sampling_params import SamplingParams

NUM_BLOCKS = 24
SYSTEM = np.random.default_rng(3).integers(3, 90, size=100).tolist()
GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)


def start(session: DecoderSession, path: Path | None) -> GenerationEngine:
    """An engine, with a file of prefixes where there is a path."""
    engine = greedy_engine(session, NUM_BLOCKS)
    if path is not None:
        opened = partial(SlotFile, path, {}, session.shape.block_bytes, 1 << 24)
        engine.store_prefixes(PrefixFile(opened, "tiny"), session, 64)
    return engine


def ask(engine: GenerationEngine, question: list[int]) -> tuple[list[int], int]:
    """What follows SYSTEM and a question, and how many tokens were cached."""
    engine.submit("one", GenerationRequest([SYSTEM + question], GREEDY))
    tokens: list[int] = []
    cached = 0
    while engine.has_work:
        for output in engine.step():
            assert output.error is None
            tokens += output.piece.token_ids
            cached = max(cached, output.piece.num_cached)
    return tokens, cached


def check(opened: Callable[[], DecoderSession], tmp_path: Path) -> None:
    """Texts after a restart are those of an engine that has computed everything itself."""
    path, kept = tmp_path / "prefixes", []
    for question in ([5, 6, 7], [8, 9]):
        session = opened()
        engine = start(session, None)
        ask(engine, [4])
        kept.append(ask(engine, question))
        engine.close()
        session.close()
    whole_blocks = len(SYSTEM) // session.shape.block_tokens * session.shape.block_tokens
    assert [cached for _, cached in kept] == [whole_blocks, whole_blocks]

    session = opened()
    engine = start(session, path)
    ask(engine, [4])
    assert ask(engine, [5, 6, 7]) == kept[0]
    engine.close()
    session.close()
    session = opened()
    engine = start(session, path)
    assert ask(engine, [8, 9]) == kept[1]
    assert engine.counts().prefix_blocks_read == whole_blocks // session.shape.block_tokens
    for block in range(3):
        content = session.read_block(block)
        assert (content.dtype, content.shape) == (np.uint8, (session.shape.block_bytes,))
    engine.close()
    session.close()


@pytest.mark.parametrize(("kv_cache", "precision"), after(1, [("u8", "f32"), ("f32", "f32"), ("u4", "bf16")]))
def test_openvino_goes_on_from_stored_blocks(tmp_path, kv_cache, precision):
    path = write_small(tmp_path, softcap=0.0, rotary=True)
    settings = OpenVINOSettings(kv_cache=kv_cache, precision=precision)
    check(lambda: OpenVINOSession(path, settings), tmp_path)


@pytest.mark.parametrize("element_type", ["f32"])
def test_onnx_runtime_goes_on_from_stored_blocks(tmp_path, element_type):
    path = write_small(tmp_path, element_type=element_type, rotary=True)
    check(lambda: OnnxCpuSession(path, OnnxCpuSettings(1, BLOCK_TOKENS)), tmp_path)


@pytest.mark.slow
@pytest.mark.breadth
@pytest.mark.parametrize("form", ["onnx", "openvino"])
def test_an_export_on_openvino_goes_on_from_stored_blocks(exported, exported_onnx, tmp_path, form):
    path = exported_onnx("llama") if form == "onnx" else exported("llama")[1] / "openvino_model.xml"
    check(lambda: OpenVINOSession(path, OpenVINOSettings(precision="f32")), tmp_path)


def test_the_cuda_session_goes_on_from_stored_blocks(tmp_path):
    """Its kernels through the host shim; blocks pass through pinned memory."""
    folders = (tmp_path / str(number) for number in range(9))

    def opened() -> DecoderSession:
        folder = next(folders)
        folder.mkdir()
        return open_on_host(folder, num_blocks=NUM_BLOCKS)[0]

    check(opened, tmp_path)
