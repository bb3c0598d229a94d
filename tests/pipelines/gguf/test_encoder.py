"""GGUF files of BERT's form give transformers' vectors, from texts on and in batches of several lengths."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_files import quantized
from gguf_of_hf import config_of, randomized
from later import Later
from test_tokenizer_kinds import SPECIALS, word_pieces
from tokenizers import Tokenizer

from pipelines import Local
from pipelines.gguf.convert import convert
from pipelines.gguf.errors import GgufError

torch = Later("torch")
hf = Later("transformers")

WIDTH, INNER, HEADS, LAYERS, CONTEXT = 64, 128, 4, 2, 96
MEAN, CLS, RANK = 1, 2, 4
TEXTS = ["the user's name", "don't", "The HTML page of 2024, naïve or not", "привет 今天"]
DROPPED = ("position_ids",)
POOLER = {"bert.pooler.dense": "cls", "classifier": "cls.output"}
"""Modules of a reranker → their names in a file."""


NOMIC = {
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "attn_output_norm",
    "post_mlp_layernorm": "layer_output_norm",
    **{f"mlp.{side}_proj": f"ffn_{side}" for side in ("gate", "up", "down")},
}
"""Modules of a layer of NomicBERT in transformers 5 → their names in a file."""


def write_nomic(path, model, words):
    """Queries, keys and values have one weight, as in published files."""
    writer = begun(path, "nomic-bert", words, MEAN, model.config.layer_norm_eps)
    writer.add_rope_freq_base(model.config.rope_parameters["rope_theta"])
    state = {name: values.numpy() for name, values in model.state_dict().items()}
    for name, new in (("word_embeddings", "token_embd"), ("token_type_embeddings", "token_types")):
        writer.add_tensor(f"{new}.weight", state[f"embeddings.{name}.weight"])
    for part in ("weight", "bias"):
        writer.add_tensor(f"token_embd_norm.{part}", state[f"embeddings.LayerNorm.{part}"])
    for layer in range(LAYERS):
        theirs = f"layers.{layer}."
        joined = [state[f"{theirs}self_attn.{letter}_proj.weight"] for letter in "qkv"]
        writer.add_tensor(f"blk.{layer}.attn_qkv.weight", np.concatenate(joined))
        for name, new in NOMIC.items():
            for part in ("weight", "bias"):
                if (values := state.get(f"{theirs}{name}.{part}")) is not None:
                    writer.add_tensor(f"blk.{layer}.{new}.{part}", values)
    finish(writer)


def write(path, model, words, pooling, kind):
    """As llama.cpp's converter writes it; `model` gets the weights of `kind`."""
    writer = begun(path, "bert", words, pooling, model.config.layer_norm_eps)
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, LAYERS)
    state = model.state_dict()
    for name, values in state.items():
        if any(part in name for part in DROPPED):
            continue
        module, _, part = name.rpartition(".")
        if pooling != RANK and "pooler" in name:
            continue
        own = kind if values.ndim > 1 and "embeddings" not in name else Type.F32
        raw, meant = quantized(own, values.numpy(), None)
        plain = known.get_name(name.removeprefix("bert."), try_suffixes=(".weight", ".bias"))
        writer.add_tensor(f"{POOLER[module]}.{part}" if module in POOLER else plain, raw, raw_dtype=own)
        state[name] = torch.tensor(meant)
    model.load_state_dict(state)
    finish(writer)


def begun(path, architecture, words, pooling, epsilon):
    """A file without tensors."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(epsilon)
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
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def small_config(words, **others):
    return hf.BertConfig(
        vocab_size=len(words),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=CONTEXT,
        **others,
    )


def small_model(words):
    return randomized(hf.BertModel(small_config(words)))


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


def test_scores_of_pairs_are_those_of_transformers(tmp_path):
    words = word_pieces()
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8", newline="\n")
    tokenizer = hf.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    model = randomized(hf.BertForSequenceClassification(small_config(words, num_labels=1)))
    write(tmp_path / "rank.gguf", model, words, RANK, Type.F32)
    query, documents = "the user", ["don't", "привет 今天", "The HTML page"]
    with Local(tmp_path / "rank.gguf", cache=tmp_path / "cache") as braid:
        assert [card.task for card in braid.models()] == ["rerank"]
        ranked = braid.rank(query, documents)
    assert len(ranked) == len(documents)
    for document in ranked:
        pair = tokenizer(query, documents[document.index], return_tensors="pt")
        with torch.no_grad():
            wanted = model(**pair).logits[0, 0].sigmoid().item()
        assert document.score == pytest.approx(wanted, abs=1e-5)


@pytest.mark.breadth
def test_vectors_of_an_encoder_with_rotary_positions_are_those_of_transformers(tmp_path):
    words = word_pieces()
    config = config_of(
        lambda: hf.NomicBertConfig(
            vocab_size=len(words),
            hidden_size=WIDTH,
            intermediate_size=INNER,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            max_position_embeddings=CONTEXT,
            rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
        )
    )
    model = randomized(hf.NomicBertModel(config))
    write_nomic(tmp_path / "nomic.gguf", model, words)
    convert(tmp_path / "nomic.gguf", tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    with Local(tmp_path / "nomic.gguf", cache=tmp_path / "cache") as braid:
        vectors = braid.embed(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        with torch.no_grad():
            ids = torch.tensor(tokenizer.encode(text).ids)[None]
            wanted = model(ids).last_hidden_state[0].numpy().mean(0)
        assert vector @ (wanted / np.linalg.norm(wanted)) == pytest.approx(1, abs=1e-6)


def test_an_encoder_that_does_not_say_how_it_pools_is_refused(tmp_path):
    words = word_pieces()
    write(tmp_path / "a.gguf", small_model(words), words, 0, Type.F32)
    with pytest.raises(GgufError, match=r"pools texts in way 0 \(bert.pooling_type\)"):
        convert(tmp_path / "a.gguf", tmp_path / "model")
