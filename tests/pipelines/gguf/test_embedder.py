"""GGUF files that embed texts, as Qwen3-Embedding: their vectors are those of transformers, over the API too."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import PoolingType
from gguf_files import CONTEXT, HEAD_SIZE, HEADS, INNER, KV_HEADS, WIDTH, GgufModel, quantized, vocabulary
from gguf_of_hf import randomized, write_model
from later import Later

from pipelines import Local
from pipelines.gguf.convert import convert
from pipelines.gguf.errors import GgufError

torch = Later("torch")
hf = Later("transformers")

MEAN, LAST, RANK = 1, 3, 4
TEXTS = ["the user", "in the hat 12", "x", "don't the the the in 2024"]


@pytest.fixture(scope="module")
def model():
    config = hf.Qwen3Config(
        vocab_size=len(vocabulary()[0]),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_SIZE,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        tie_word_embeddings=True,
    )
    return randomized(hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager"))


def write(path, model, pooling, kind=Type.F32):
    more = {"{arch}.pooling_type": pooling, "tokenizer.ggml.add_eos_token": True}
    write_model(path, model, "qwen3", kind=kind, more=more)


def expected(model, ids):
    """The unit vector of a text's last token."""
    with torch.no_grad():
        states = model.model(torch.tensor(ids)[None]).last_hidden_state[0, -1].numpy()
    return states / np.linalg.norm(states)


@pytest.mark.parametrize(("kind", "tolerance"), [(Type.F32, 1e-6), (Type.Q8_0, 2e-3), (Type.Q4_1, 2e-3)])
def test_vectors_are_those_of_transformers(tmp_path, model, kind, tolerance):
    """Linear layers of few bits may round what they multiply to eight bits."""
    from tokenizers import Tokenizer

    write(tmp_path / "Tiny-Embedding.gguf", model, LAST, kind)
    convert(tmp_path / "Tiny-Embedding.gguf", tmp_path / "converted")
    tokenizer = Tokenizer.from_file(str(tmp_path / "converted" / "tokenizer.json"))
    with Local(tmp_path / "Tiny-Embedding.gguf", cache=tmp_path / "cache") as braid:
        (card,) = braid.models()
        assert (card.name, card.task) == ("Tiny-Embedding", "embed")
        vectors = braid.embed(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = tokenizer.encode(text).ids
        assert ids[-1] == 4, "eos, which the file wants"
        assert vector @ expected(model, ids) == pytest.approx(1, abs=tolerance)


@pytest.mark.parametrize("kind", [None, "F32", "Q8_0"])
def test_tokens_on_both_sides_count_in_gemma_embedding(tmp_path, kind):
    """Also with the two linear layers that the files of its makers have behind pooling."""
    from tokenizers import Tokenizer

    sizes = {"vocab_size": len(vocabulary()[0]), "hidden_size": WIDTH, "intermediate_size": INNER}
    sizes |= {"num_hidden_layers": 6, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS}
    config = hf.Gemma3TextConfig(
        **sizes,
        head_dim=HEAD_SIZE,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        rope_theta=50000.0,
        rope_local_base_freq=10000.0,
        query_pre_attn_scalar=HEAD_SIZE,
        sliding_window=8,
        use_bidirectional_attention=True,
        tie_word_embeddings=True,
    )
    model = randomized(hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager"))
    more = {"{arch}.pooling_type": MEAN, "{arch}.attention.sliding_window": 8}
    others, dense = {}, []
    for name, shape in (("dense_2", (2 * WIDTH, WIDTH)), ("dense_3", (WIDTH, 2 * WIDTH))) if kind else ():
        weight = np.random.default_rng(7).normal(0, 0.1, shape).astype(np.float32)
        raw, meant = quantized(Type[kind], weight, None)
        others[f"{name}.weight"] = raw, Type[kind]
        more |= {f"{{arch}}.{name}_feat_in": shape[1], f"{{arch}}.{name}_feat_out": shape[0]}
        dense.append(meant)
    write_model(tmp_path / "gemma.gguf", model, "gemma-embedding", more=more, others=others)
    convert(tmp_path / "gemma.gguf", tmp_path / "converted")
    tokenizer = Tokenizer.from_file(str(tmp_path / "converted" / "tokenizer.json"))
    with Local(tmp_path / "gemma.gguf", cache=tmp_path / "cache") as braid:
        vectors = braid.embed(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        with torch.no_grad():
            ids = torch.tensor(tokenizer.encode(text).ids)[None]
            wanted = model.model(ids).last_hidden_state[0].mean(0).numpy()
        for weight in dense:
            wanted = weight @ wanted
        assert vector @ (wanted / np.linalg.norm(wanted)) == pytest.approx(1, abs=1e-6)


MODERN = {
    "attn.Wqkv": "attn_qkv",
    "attn.Wo": "attn_output",
    "attn_norm": "attn_norm",
    "mlp_norm": "ffn_norm",
    "mlp.Wi": "ffn_up",
    "mlp.Wo": "ffn_down",
}
"""Modules of a layer of ModernBERT → their names in a file."""
MODERN_LAYERS = 5


def write_modern(path, model):
    config, written = model.config, GgufModel(path, "modern-bert")
    written.text()
    writer = written.writer
    writer.add_block_count(MODERN_LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_eps(config.norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(PoolingType.MEAN)
    writer.add_rope_freq_base(config.global_rope_theta)
    writer.add_float32("modern-bert.rope.freq_base_swa", config.local_rope_theta)
    writer.add_sliding_window(config.local_attention)
    writer.add_uint32("modern-bert.attention.sliding_window_pattern", config.global_attn_every_n_layers)
    state = {name: values.numpy() for name, values in model.state_dict().items()}
    writer.add_tensor("token_embd.weight", state["embeddings.tok_embeddings.weight"])
    writer.add_tensor("token_embd_norm.weight", state["embeddings.norm.weight"])
    writer.add_tensor("output_norm.weight", state["final_norm.weight"])
    for layer in range(MODERN_LAYERS):
        for theirs, name in MODERN.items():
            if (values := state.get(f"layers.{layer}.{theirs}.weight")) is not None:
                writer.add_tensor(f"blk.{layer}.{name}.weight", values)
    written.write()


@pytest.mark.breadth
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_vectors_of_modern_bert_are_those_of_transformers(tmp_path):
    from tokenizers import Tokenizer

    config = hf.ModernBertConfig(
        vocab_size=len(vocabulary()[0]),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=MODERN_LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=CONTEXT,
        local_attention=8,
        pad_token_id=0,
        attn_implementation="eager",
        reference_compile=False,
    )
    model = randomized(hf.ModernBertModel(config))
    write_modern(tmp_path / "modern.gguf", model)
    convert(tmp_path / "modern.gguf", tmp_path / "converted")
    tokenizer = Tokenizer.from_file(str(tmp_path / "converted" / "tokenizer.json"))
    with Local(tmp_path / "modern.gguf", cache=tmp_path / "cache") as braid:
        vectors = braid.embed(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        with torch.no_grad():
            ids = torch.tensor(tokenizer.encode(text).ids)[None]
            wanted = model(ids).last_hidden_state[0].mean(0).numpy()
        assert vector @ (wanted / np.linalg.norm(wanted)) == pytest.approx(1, abs=1e-6)


RERANK = '<|im_start|>Judge {{ this }}: "yes" or no.\n<Query>: {query}\n<Document>: {document}<|im_end|>'


@pytest.mark.parametrize("kind", [Type.F32, Type.Q8_0])
def test_scores_are_those_of_yes_beside_no(tmp_path, model, kind):
    from tokenizers import Tokenizer

    rows = np.random.default_rng(2).normal(0, 0.2, (2, WIDTH)).astype(np.float32)
    raw, rows = quantized(kind, rows, None)
    more = {"{arch}.pooling_type": RANK, "{arch}.classifier.output_labels": ["yes", "no"]}
    more |= {"tokenizer.chat_template.rerank": RERANK}
    write_model(tmp_path / "rank.gguf", model, "qwen3", more=more, others={"cls.output.weight": (raw, kind)})
    convert(tmp_path / "rank.gguf", tmp_path / "converted")
    tokenizer = Tokenizer.from_file(str(tmp_path / "converted" / "tokenizer.json"))
    query, documents = "the {query}", ["in the hat", "x {document}", "12 the"]
    with Local(tmp_path / "rank.gguf", cache=tmp_path / "cache") as braid:
        assert [card.task for card in braid.models()] == ["rerank"]
        ranked = braid.rank(query, documents)
    scores = {score.index: score.score for score in ranked}
    for at, document in enumerate(documents):
        before, between, after = re.split("{query}|{document}", RERANK)
        text = f"{before}{query}{between}{document}{after}"
        with torch.no_grad():
            ids = torch.tensor(tokenizer.encode(text).ids)[None]
            state = model.model(ids).last_hidden_state[0, -1].numpy()
        yes, no = rows @ state
        assert scores[at] == pytest.approx(1 / (1 + np.exp(no - yes)), abs=1e-4)


def test_a_way_to_pool_that_is_not_served_is_named(tmp_path, model):
    write(tmp_path / "a.gguf", model, 7)
    with pytest.raises(GgufError, match=r"pools texts in way 7 \(qwen3.pooling_type\)"):
        convert(tmp_path / "a.gguf", tmp_path / "model")
    write(tmp_path / "b.gguf", model, RANK)
    with pytest.raises(GgufError, match=r"ranks by \[\] and a template tokenizer.chat_template.rerank"):
        convert(tmp_path / "b.gguf", tmp_path / "other")
