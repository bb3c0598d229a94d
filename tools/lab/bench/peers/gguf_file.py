"""`python -m tools.lab.bench.peers.gguf_file SOURCE TARGET`: a folder of a Qwen3 → model.gguf, q8_0.

Written with the `gguf` package, since llama.cpp's own converter wants a tokenizer that it knows by its hash.
Runs in the environment of llama.cpp; knows nothing of how the file is run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np

BFLOAT16 = "BF16"


def tensors(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Names and float32 values of a safetensors file in bfloat16, which numpy does not have."""
    raw = np.memmap(path, np.uint8, "r")
    head_bytes = int(raw[:8].view(np.uint64)[0])
    head = json.loads(bytes(raw[8 : 8 + head_bytes]))
    for name, entry in head.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != BFLOAT16:
            raise ValueError(f"{name} is {entry['dtype']}, not {BFLOAT16}")
        begin, end = (8 + head_bytes + offset for offset in entry["data_offsets"])
        upper = np.array(raw[begin:end]).view(np.uint16).astype(np.uint32) << 16
        yield name, upper.view(np.float32).reshape(entry["shape"])


def add_shape(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: dict, config: dict) -> None:
    """A byte-level vocabulary, padded to the model's size; special tokens are control tokens."""
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    texts = {number: text for text, number in tokenizer["model"]["vocab"].items()} | special
    size = range(config["vocab_size"])
    kinds = [gguf.TokenType.CONTROL if number in special else gguf.TokenType.NORMAL for number in size]
    pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([texts.get(number, f"[PAD{number}]") for number in size])
    writer.add_token_types(kinds)
    writer.add_token_merges(pairs)
    writer.add_eos_token_id(config["eos_token_id"])


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    config = json.loads((source / "config.json").read_text())
    arch = gguf.MODEL_ARCH.QWEN3
    unfinished = target / "unfinished.gguf"
    writer = gguf.GGUFWriter(unfinished, gguf.MODEL_ARCH_NAMES[arch])
    add_shape(writer, config)
    add_tokenizer(writer, json.loads((source / "tokenizer.json").read_text()), config)
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    q8_0 = gguf.GGMLQuantizationType.Q8_0
    for name, values in tensors(source / "model.safetensors"):
        own = names.get_name(name, try_suffixes=(".weight",))
        if values.ndim == 1:
            writer.add_tensor(own, values)
        else:
            writer.add_tensor(own, gguf.quantize(values, q8_0), raw_dtype=q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.rename(target / "model.gguf")


if __name__ == "__main__":
    main()
