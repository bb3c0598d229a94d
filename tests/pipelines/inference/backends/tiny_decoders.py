"""Decoders of a few layers with random weights, and what transformers itself generates with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY = 320
CONTEXT = 512

SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
SLIDING = 24  # tokens, shorter than most prompts of the tests
CHUNK = 128  # tokens, longer than all of them with their outputs

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
    "qwen2": {},
    "qwen3": {"head_dim": 64, "tie_word_embeddings": True},
    "mistral": {"sliding_window": SLIDING, "tie_word_embeddings": True},
    "gemma2": {
        "head_dim": 32,
        "query_pre_attn_scalar": 32,
        "sliding_window": SLIDING,
        "layer_types": ["sliding_attention", "full_attention"],
        "final_logit_softcapping": 5.0,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "gemma3_text": {
        "head_dim": 32,
        "query_pre_attn_scalar": 32,
        "sliding_window": SLIDING,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "phi3": {},
    "bloom": {"initializer_range": 0.1},  # no positions among the inputs of its export
    "olmo2": {},
    "smollm3": {"no_rope_layer_interval": 2},
    "granite": {
        "embedding_multiplier": 2.0,
        "attention_multiplier": 0.1,
        "residual_multiplier": 0.7,
        "logits_scaling": 2.0,
    },
    "cohere": {"use_qk_norm": True},
    "glm4": {"head_dim": 32, "partial_rotary_factor": 0.5},
    "starcoder2": {"sliding_window": SLIDING, "num_hidden_layers": 3},
    "gpt_neo": {
        "num_layers": 4,
        "num_hidden_layers": 4,
        "attention_types": [[["global", "local"], 2]],
        "window_size": SLIDING,
    },
    "gpt_oss": {
        "head_dim": 32,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": SLIDING,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 64,
            "truncate": False,
        },
    },
    "qwen3_moe": {
        "head_dim": 32,
        "moe_intermediate_size": 64,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
    },
    "llama4_text": {
        "num_hidden_layers": 4,
        "intermediate_size_mlp": 128,
        "num_local_experts": 2,
        "head_dim": 32,
        "attention_chunk_size": CHUNK,
        "pad_token_id": 0,
    },
}
"""transformers' model type → what differs from SIZES."""


def write_decoder(family: str, folder: Path, **changes: Any) -> None:
    """A Hugging Face folder with a random decoder of `family` and a byte-level tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(7)
    config = AutoConfig.for_model(family, **SIZES | FAMILIES[family] | changes)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    _write_tokenizer(folder)


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={text: number for number, text in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def prompts() -> list[list[int]]:
    """Shorter than a block, longer than a chunk, at the edge of a block, and two that share 64 tokens."""
    rng = np.random.default_rng(3)
    alone = [rng.integers(3, VOCABULARY, size=size).tolist() for size in (5, 90, 33, 64)]
    return [*alone, alone[1][:70] + alone[0], alone[3] + alone[2]]


def generate_alone(folder: Path, prompts: list[list[int]], num_tokens: int) -> list[list[int]]:
    """What transformers generates greedily in float32 for each prompt by itself."""
    import torch
    from transformers import AutoModelForCausalLM

    eager = {"attn_implementation": "eager"}  # the only attention that caps Gemma 2's scores
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **eager)
    outputs = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=num_tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        outputs.append(output[0].tolist()[len(prompt) :])
    return outputs
