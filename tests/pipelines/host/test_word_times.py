"""When words were spoken: a second pass over the frames that the engine host holds, where it is read."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from ctranslate2_files import write_folder
from later import Later
from patience import PATIENCE_S
from scripted_host import until
from served_models import in_one_process
from tiny_whisper import FRAMES, SIZES, make_whisper, weights_of

from pipelines.inference.backends.open_model import open_tensors
from pipelines.inference.contracts.tensor_contract import run_tensors
from pipelines.repository.new_graph import new_graph
from pipelines.values.tasks import SpeechInput
from tools.export.speech.whisper_folder import read_whisper
from tools.export.whisper.alignment import default_heads, write_alignment
from tools.export.whisper.decoder import write_decoder
from tools.export.whisper.encoder import write_encoder

torch = Later("torch")

HEADS = [(1, 0), (0, 1)]
SECONDS = FRAMES / 50
SOUND = np.random.default_rng(0).uniform(-1, 1, round(SECONDS * 16_000)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    return make_whisper(eos_token_id=50257, attn_implementation="eager")


@pytest.fixture(scope="module")
def models(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "whisper"
    write_folder(folder / "source", weights_of(model), SIZES["encoder_attention_heads"])
    weights = read_whisper(folder / "source")
    for write in (write_encoder, write_decoder):
        write(weights.weights, weights.config, folder)
    write_alignment(folder / "decoder.onnx", HEADS, folder / "alignment.onnx")
    ids = weights.files["tokenizer.json"]["model"]["vocab"]
    written = {ids[letter] for letter in "abcdefgh.\u0120"}  # the last is a space
    weights.files["generation_config.json"]["suppress_tokens"] = [*({*range(50257)} - written)]
    for name, fields in weights.files.items():
        (folder / name).write_text(json.dumps(fields))
    (folder / "graph.yaml").write_text(new_graph(folder))
    return folder.parent


def test_weights_are_those_of_transformers(model, models):
    session = open_tensors(models / "whisper" / "alignment.onnx")
    ids = np.array([[50258, 50259, 50266, 3, 4, 5, 6]])
    frames = np.random.default_rng(1).standard_normal((1, FRAMES, SIZES["d_model"])).astype(np.float32)
    positions = np.arange(ids.size)[None]
    tensors = run_tensors(session, {"input_ids": ids, "position_ids": positions, "context_frames": frames})
    with torch.no_grad():
        decoder = model.model.decoder
        outputs = decoder(
            torch.tensor(ids), encoder_hidden_states=torch.tensor(frames), output_attentions=True
        )
    wanted = [outputs.cross_attentions[layer][0, head].numpy() for layer, head in HEADS]
    np.testing.assert_allclose(tensors["weights"], wanted, atol=1e-5)
    assert not (models / "whisper" / "alignment.onnx.data").exists()  # its weights are the decoder's


def test_heads_that_a_model_does_not_have_are_refused(models, tmp_path):
    with pytest.raises(ValueError, match="no head 2 in a layer 1"):
        write_alignment(models / "whisper" / "decoder.onnx", [(1, 2)], tmp_path / "alignment.onnx")
    assert default_heads({"decoder_layers": 4, "decoder_attention_heads": 2}) == [
        (2, 0),
        (2, 1),
        (3, 0),
        (3, 1),
    ]


def test_words_are_read_from_the_frames_that_are_held(models):
    async def scene(client, catalogue):
        sampling = {"temperature": 1.0, "seed": 3, "max_tokens": 40, "ignore_eos": True}
        request = SpeechInput(windows=[SOUND], language="de", timestamps=True, sampling=sampling)
        call = catalogue.get("whisper").open(request, client)
        segments, words = [], None
        async for batch in call.updates():
            for _, update in batch:
                segments += update.segments
                words = update.words
        await until(lambda: len(client.host._calls) == 1)  # the frames; nothing was asked for
        times_of_words = await asyncio.wait_for(call.value(words), PATIENCE_S)
        call.close()
        await until(lambda: not len(client.host._calls))
        return segments, times_of_words, await asyncio.wait_for(call.value(words), PATIENCE_S)

    segments, word_times, late = in_one_process(scene, models)
    assert late is None
    assert len(word_times) == len(segments) >= 1
    assert sum(map(len, word_times)) > 2
    for segment, words in zip(segments, word_times, strict=True):
        assert "".join(word.text for word in words) == segment.text.replace(" ", "")
    times = [time for words in word_times for word in words for time in word[1:]]
    assert times
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= SECONDS
