"""Prompts whose chunks attend to the beginning of the context and to what is right before them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gguf_files import write_llama_like
from lone_steps import step, together
from small_onnx_decoders import write_small
from test_gguf_logits import SIZES

from pipelines.gguf.convert import FLOAT_SUMS, convert
from pipelines.host.models.prefix_files import FACTS
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.backends.openvino.paging.sparse_prefill import RetainedContext, without_middle
from pipelines.inference.contracts.device_errors import ModelError

EXACT = OpenVINOSettings(kv_cache="f32", precision="f32")
KEPT = RetainedContext(first=32, recent=64)
BLOCK = 32
PROMPT = np.random.default_rng(3).integers(3, SIZES["vocab_size"], size=8 * BLOCK)


def part(past: int, size: int, rows: list[int], blocks: int = 8):
    return step(PROMPT[:size], past, list(range(10, 10 + blocks)), rows)


def test_a_chunk_reads_the_first_and_the_recent_blocks_and_its_own():
    given = without_middle(part(192, 40, []), KEPT, BLOCK)
    assert given.block_table[0, : given.num_blocks[0]].tolist() == [10, 14, 15, 16, 17]
    assert given.num_past.tolist() == [96]
    assert given.max_context == 136
    assert given.positions.tolist() == list(range(192, 232))
    assert {given.num_past.dtype, given.num_blocks.dtype, given.block_table.dtype} == {np.dtype(np.int32)}


def test_a_block_that_is_not_full_is_not_counted_among_the_recent_ones():
    given = without_middle(part(200, 20, [], blocks=7), KEPT, BLOCK)
    assert given.block_table[0, : given.num_blocks[0]].tolist() == [10, 14, 15, 16]
    assert given.num_past.tolist() == [96 + 8]


def test_sequences_with_logits_and_short_ones_keep_all():
    steps = [part(96, 40, []), part(192, 40, [39]), part(192, 40, []), part(224, 1, [0]), part(192, 9, [0])]
    packed = together(steps)
    given = without_middle(packed, KEPT, BLOCK)
    assert given.num_past.tolist() == [96, 192, 96, 224, 192]
    assert (given.num_blocks - packed.num_blocks).tolist() == [0, 0, -3, 0, 0]
    assert given.max_context == 232
    assert without_middle(together(steps[:2]), KEPT, BLOCK).num_past.tolist() == [96, 192]


def expected(state, chunk: int):
    """float32[vocab]: what transformers gives after the prompt, with a mask in place of leaving out."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SIZES)).eval()
    assert model.load_state_dict(
        {name: torch.tensor(weight) for name, weight in state.items()}, strict=False
    ) == ([], [])
    row, column = np.arange(len(PROMPT))[:, None], np.arange(len(PROMPT))
    start = row // chunk * chunk
    seen = (column < KEPT.first) | (column >= start - KEPT.recent) | (row >= len(PROMPT) - chunk)
    mask = np.where(seen & (column <= row), 0, np.finfo(np.float32).min).astype(np.float32)
    with torch.no_grad():
        logits = model(torch.tensor(PROMPT[None]), attention_mask=torch.tensor(mask[None, None])).logits
    return logits[0, -1].numpy()


@pytest.mark.slow
def test_it_is_attention_under_a_mask(tmp_path):
    state = write_llama_like(tmp_path / "tiny.gguf")
    convert(tmp_path / "tiny.gguf", tmp_path / "model", FLOAT_SUMS)
    session = OpenVINOSession(tmp_path / "model" / "model.onnx", replace(EXACT, retained=KEPT))
    session.allocate(20)
    chunk, last = BLOCK, len(PROMPT) - BLOCK
    for past in range(0, last, chunk):
        session.run(step(PROMPT[past : past + chunk], past, list(range(10, 18)), []))
    logits = session.run(step(PROMPT[last:], last, list(range(10, 18)), [chunk - 1]))[0].copy()
    np.testing.assert_allclose(logits, expected(state, chunk), rtol=1e-3, atol=1e-3)
    session.run(step(PROMPT[:last], 0, list(range(7)), []))
    whole = session.run(step(PROMPT[last:], last, list(range(8)), [chunk - 1]))[0]
    assert np.abs(logits - whole).max() > 1e-2
    session.close()


def test_a_file_of_prefixes_is_of_models_that_compute_them_alike(tmp_path):
    path = write_small(tmp_path, softcap=0.0, window=-1)
    retained = {"lossy": KEPT, "dense": None}
    said = {}
    for name, one in retained.items():
        session = OpenVINOSession(path, replace(EXACT, retained=one, threads=1))
        said[name] = {fact: session.describe()[fact] for fact in FACTS}
        session.close()
    assert said["lossy"] == said["dense"] | {"sparse_prefill": "32+64"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "retained", "reason"),
    [
        ("bloom", KEPT, "sparse_prefill: this model's attention counts the tokens between two"),
        ("mistral", RetainedContext(0, 4), "sparse_prefill: recent must be at least this model's window"),
    ],
)
def test_models_that_it_would_change_otherwise_are_refused(exported, family, retained, reason):
    with pytest.raises(ModelError, match=reason):
        OpenVINOSession(exported(family)[1] / "openvino_model.xml", replace(EXACT, retained=retained))
