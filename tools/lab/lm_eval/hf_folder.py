"""A GGUF file of the llama architecture → a Hugging Face folder in float32, with the `gguf` package alone.

The tokenizer is the one that Braid reads from the file: lm-eval sends token ids, so that both score the same.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
OF_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""llama.cpp's names of tensors → those of transformers."""
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def write(source: Path, converted: Path, folder: Path) -> None:
    """Write config.json, model.safetensors, and the tokenizer of `converted`, Braid's folder of the file.

    Raises KeyError for another architecture.
    """
    reader = gguf.GGUFReader(source)
    config = _config({name: field.contents() for name, field in reader.fields.items()})
    weights = dict(_weights(reader, config["num_attention_heads"], config["num_key_value_heads"]))
    config["vocab_size"] = len(weights["model.embed_tokens.weight"])
    config["tie_word_embeddings"] = "lm_head.weight" not in weights
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in TOKENIZER:
        shutil.copy(converted / name, folder)


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    heads = fields["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields.get("llama.attention.head_count_kv", heads),
        "rms_norm_eps": float(fields["llama.attention.layer_norm_rms_epsilon"]),
        "rope_theta": float(fields.get("llama.rope.freq_base", 10000.0)),
        "max_position_embeddings": fields["llama.context_length"],
        "bos_token_id": fields.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
    }


def _weights(reader: gguf.GGUFReader, heads: int, kv_heads: int) -> Iterator[tuple[str, np.ndarray]]:
    for tensor in reader.tensors:
        name, values = tensor.name.removesuffix(".weight"), gguf.dequantize(tensor.data, tensor.tensor_type)
        weight = values.astype(np.float32).reshape([int(size) for size in tensor.shape[::-1]])
        if name in WHOLE:
            yield f"{WHOLE[name]}.weight", weight
            continue
        _, layer, part = name.split(".")
        if part in ("attn_q", "attn_k"):
            weight = _halves(weight, heads if part == "attn_q" else kv_heads)
        yield f"model.layers.{layer}.{OF_A_LAYER[part]}.weight", weight


def _halves(weight: np.ndarray, heads: int) -> np.ndarray:
    """The rows of rotary pairs, which llama.cpp stores side by side, in two halves of each head."""
    side_by_side = weight.reshape(heads, len(weight) // heads // 2, 2, -1)
    return np.ascontiguousarray(side_by_side.swapaxes(1, 2)).reshape(weight.shape)
