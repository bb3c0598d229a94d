"""GGUF files of BERT's form give transformers' vectors, from texts on and in batches of several lengths."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_files import quantized
from gguf_of_hf import randomized
from later import Later
from test_tokenizer_kinds import SPECIALS, word_pieces

from pipelines import Local
from pipelines.gguf.convert import convert
from pipelines.gguf.errors import GgufError

torch = Later("torch")
hf = Later("transformers")

WIDTH, INNER, HEADS, LAYERS, CONTEXT = 64, 128, 4, 2, 96
MEAN, CLS = 1, 2
TEXTS = ["the user's name", "don't", "The HTML page of 2024, naïve or not", "привет 今天"]
DROPPED = ("position_ids", "pooler.")


def write(path, model, words, pooling, kind):
    """As llama.cpp's converter writes it; `model` gets the weights of `kind`."""
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(model.config.layer_norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType(pooling))
    writer.add_token_type_count(2)
    writer.add_tokenizer_model("bert")
    names = [word[2:] if word.startswith("##") else f"▁{word}" for word in words[len(SPECIALS) :]]
    writer.add_token_list(SPECIALS + names)
    writer.add_token_types([3] * len(SPECIALS) + [1] * len(names))
    roles = {"padding": 0, "unknown": 1, "cls": 2, "seperator": 3}
    for role, number in roles.items():
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", number)
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, LAYERS)
    state = model.state_dict()
    for name, values in state.items():
        if any(part in name for part in DROPPED):
            continue
        own = kind if values.ndim > 1 and "embeddings" not in name else Type.F32
        raw, meant = quantized(own, values.numpy(), None)
        writer.add_tensor(known.get_name(name, try_suffixes=(".weight", ".bias")), raw, raw_dtype=own)
        state[name] = torch.tensor(meant)
    model.load_state_dict(state)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def small_model(words):
    config = hf.BertConfig(
        vocab_size=len(words),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=CONTEXT,
    )
    return randomized(hf.BertModel(config))


def expected(model, tokenizer, text, pooling):
    with torch.no_grad():
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
    vector = states.mean(0) if pooling == MEAN else states[0]
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
    ("pooling", "kind", "tolerance"), [(MEAN, Type.F32, 1e-6), (CLS, Type.F32, 1e-6), (CLS, Type.Q8_0, 2e-3)]
)
def test_vectors_are_those_of_transformers(tmp_path, pooling, kind, tolerance):
    words = word_pieces()
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8", newline="\n")
    tokenizer = hf.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    model = small_model(words)
    write(tmp_path / "small-bert.gguf", model, words, pooling, kind)
    with Local(tmp_path / "small-bert.gguf", cache=tmp_path / "cache") as braid:
        assert [card.task for card in braid.models()] == ["embed"]
        vectors = braid.embed(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert vector @ expected(model, tokenizer, text, pooling) == pytest.approx(1, abs=tolerance)


def test_an_encoder_that_does_not_say_how_it_pools_is_refused(tmp_path):
    words = word_pieces()
    write(tmp_path / "a.gguf", small_model(words), words, 0, Type.F32)
    with pytest.raises(GgufError, match=r"pools texts in way 0 \(bert.pooling_type\)"):
        convert(tmp_path / "a.gguf", tmp_path / "model")
