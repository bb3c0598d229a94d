"""The families of decoders that are tried: what a small random model of each is made with."""

from __future__ import annotations

from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
HALF_WINDOWS: dict[str, Any] = {
    "sliding_window": 32,
    "layer_types": ["sliding_attention", "full_attention"],
}
WINDOWS: dict[str, Any] = {"sliding_window": 32}
PER_LAYER: dict[str, Any] = {"vocab_size_per_layer_input": 512, "activation_sparsity_pattern": [0.5, 0.0]}
SHARED_KEYS: dict[str, Any] = {
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 2,
    "sliding_window": 32,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
}
"""The last two layers attend to the keys of the first two."""
HEADS: dict[str, Any] = {"head_dim": 16}
OLD_SIZES: dict[str, Any] = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512, "n_inner": 128}
"""SIZES in the words of the first decoders."""
EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
ROUTED: dict[str, Any] = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
LATENT: dict[str, Any] = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
}
STATES: dict[str, Any] = {"mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 16, "mamba_n_groups": 1}
LINEAR: dict[str, Any] = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}


def rope(kind: str, **more: Any) -> dict[str, Any]:
    """Rotary positions of another kind, in the words of transformers 4, which 5 reads too."""
    return {"rope_scaling": {"rope_type": kind, **more}}


FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, rope llama3": (
        "llama",
        rope(
            "llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    ),
    "llama, rope yarn": ("llama", rope("yarn", factor=4.0, original_max_position_embeddings=128)),
    "llama, rope linear, biases": (
        "llama",
        rope("linear", factor=2.0) | {"attention_bias": True, "mlp_bias": True},
    ),
    "llama, rope dynamic": ("llama", rope("dynamic", factor=2.0)),
    "qwen2": ("qwen2", {}),
    "qwen2, rope yarn": ("qwen2", rope("yarn", factor=4.0, original_max_position_embeddings=128)),
    "qwen2, sliding window": (
        "qwen2",
        {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": 32},
    ),
    "qwen3": ("qwen3", HEADS),
    "qwen2_moe": ("qwen2_moe", EXPERTS),
    "qwen3_moe": ("qwen3_moe", HEADS | EXPERTS),
    "mistral": ("mistral", HEADS | WINDOWS),
    "ministral": ("ministral", HEADS | HALF_WINDOWS),
    "ministral3": ("ministral3", HEADS),
    "mixtral": ("mixtral", EXPERTS),
    "gemma": ("gemma", HEADS),
    "gemma2": ("gemma2", HEADS | HALF_WINDOWS | {"query_pre_attn_scalar": 16}),
    "gemma3_text": ("gemma3_text", HEADS | HALF_WINDOWS | {"query_pre_attn_scalar": 16}),
    "gemma3n_text": ("gemma3n_text", HEADS | HALF_WINDOWS | PER_LAYER | {"num_kv_shared_layers": 0}),
    "gemma3n_text, shared keys": ("gemma3n_text", HEADS | PER_LAYER | SHARED_KEYS),
    "gemma4_text": ("gemma4_text", HEADS | HALF_WINDOWS | PER_LAYER),
    "gemma4_text, shared keys": ("gemma4_text", HEADS | PER_LAYER | SHARED_KEYS),
    "vaultgemma": ("vaultgemma", HEADS | HALF_WINDOWS),
    "phi": ("phi", {"num_key_value_heads": 4}),
    "phi3": ("phi3", {}),
    "phi3, rope longrope": (
        "phi3",
        {
            "original_max_position_embeddings": 128,
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1.0] * 8,
                "long_factor": [2.0 + 0.5 * each for each in range(8)],
            },
        },
    ),
    "phimoe": ("phimoe", EXPERTS),
    "granite": ("granite", {"attention_multiplier": 0.1, "residual_multiplier": 0.7, "logits_scaling": 2.0}),
    "granitemoe": ("granitemoe", EXPERTS),
    "granitemoehybrid": (
        "granitemoehybrid",
        EXPERTS | STATES | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 32},
    ),
    "granitemoehybrid, attention only": (
        "granitemoehybrid",
        EXPERTS | STATES | {"layer_types": ["attention"] * 2, "shared_intermediate_size": 32},
    ),
    "smollm3": ("smollm3", {"no_rope_layer_interval": 2}),
    "glm": ("glm", HEADS),
    "glm4": ("glm4", HEADS | {"partial_rotary_factor": 0.5}),
    "glm4_moe": ("glm4_moe", HEADS | ROUTED),
    "glm4_moe_lite": ("glm4_moe_lite", LATENT | ROUTED),
    "olmo": ("olmo", {"clip_qkv": 4.0}),
    "olmo2": ("olmo2", {}),
    "olmo3": ("olmo3", HALF_WINDOWS),
    "olmoe": ("olmoe", EXPERTS),
    "flex_olmo": ("flex_olmo", EXPERTS),
    "cohere": ("cohere", {"use_qk_norm": True}),
    "cohere2": ("cohere2", HALF_WINDOWS),
    "exaone4": ("exaone4", HALF_WINDOWS | {"sliding_window_pattern": 2}),
    "ernie4_5": ("ernie4_5", HEADS),
    "ernie4_5_moe": ("ernie4_5_moe", ROUTED | {"moe_num_experts": 4, "moe_k": 2, "moe_layer_start_index": 0}),
    "seed_oss": ("seed_oss", HEADS),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", HEADS),
    "hunyuan_v1_moe": ("hunyuan_v1_moe", HEADS | EXPERTS | {"moe_topk": 2}),
    "dots1": ("dots1", HEADS | ROUTED),
    "minimax": ("minimax", EXPERTS | {"layer_types": ["linear_attention", "full_attention"]}),
    "minimax_m2": ("minimax_m2", HEADS | EXPERTS),
    "apertus": ("apertus", {}),
    "arcee": ("arcee", {}),
    "helium": ("helium", HEADS),
    "bitnet": ("bitnet", {}),
    "nanochat": ("nanochat", {}),
    "jais2": ("jais2", HEADS),
    "youtu": ("youtu", LATENT),
    "solar_open": ("solar_open", HEADS | ROUTED),
    "longcat_flash": (
        "longcat_flash",
        LATENT
        | {"num_layers": 1, "ffn_hidden_size": 128, "expert_ffn_hidden_size": 32, "moe_topk": 2}
        | {"n_routed_experts": 4, "zero_expert_num": 2, "head_dim": 16},
    ),
    "afmoe": ("afmoe", HEADS | EXPERTS | HALF_WINDOWS | {"num_dense_layers": 1}),
    "starcoder2": ("starcoder2", WINDOWS),
    "nemotron": ("nemotron", HEADS),
    "stablelm": ("stablelm", {}),
    "persimmon": ("persimmon", {}),
    "gpt2": ("gpt2", OLD_SIZES),
    "gpt_bigcode": ("gpt_bigcode", OLD_SIZES),
    "gpt_neo": (
        "gpt_neo",
        {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 32},
    ),
    "gpt_neox": ("gpt_neox", {}),
    "gptj": ("gptj", OLD_SIZES | {"rotary_dim": 8}),
    "codegen": ("codegen", OLD_SIZES | {"rotary_dim": 8}),
    "gpt_oss": ("gpt_oss", HEADS | EXPERTS | HALF_WINDOWS),
    "bloom": ("bloom", {"n_layer": 2, "n_head": 4}),
    "falcon": ("falcon", {"multi_query": True, "new_decoder_architecture": False, "alibi": False}),
    "falcon, new architecture": ("falcon", {"num_kv_heads": 2, "new_decoder_architecture": True}),
    "falcon, ALiBi": ("falcon", {"multi_query": False, "new_decoder_architecture": False, "alibi": True}),
    "mpt": ("mpt", {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 512}),
    "opt": ("opt", {"ffn_dim": 128, "word_embed_proj_dim": 64, "pad_token_id": 1}),
    "biogpt": ("biogpt", {"pad_token_id": 1}),
    "xglm": (
        "xglm",
        {"d_model": 64, "ffn_dim": 128, "num_layers": 2, "attention_heads": 4, "pad_token_id": 1},
    ),
    "jetmoe": ("jetmoe", EXPERTS | {"kv_channels": 16}),
    "diffllama": ("diffllama", HEADS),
    "doge": ("doge", {}),
    "deepseek_v2": ("deepseek_v2", LATENT | ROUTED),
    "deepseek_v3": ("deepseek_v3", LATENT | ROUTED),
    "llama4_text": ("llama4_text", HEADS | EXPERTS | {"attention_chunk_size": 64}),
    "llama4_text, no rope": (
        "llama4_text",
        HEADS | EXPERTS | {"attention_chunk_size": 128, "no_rope_layers": [1, 0], "floor_scale": 16},
    ),
    "qwen3_next": ("qwen3_next", HEADS | EXPERTS | LINEAR),
    "qwen3_5_text": ("qwen3_5_text", HEADS | LINEAR),
    "lfm2": ("lfm2", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}),
    "lfm2_moe": (
        "lfm2_moe",
        EXPERTS | {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    ),
    "falcon_h1": ("falcon_h1", HEADS | STATES | {"mamba_d_ssm": 128}),
    "bamba": ("bamba", STATES | {"attn_layer_indices": [1]}),
    "jamba": (
        "jamba",
        EXPERTS | {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    ),
    "nemotron_h": ("nemotron_h", HEADS | {"hybrid_override_pattern": "M*"}),
    "olmo_hybrid": ("olmo_hybrid", LINEAR),
    "zamba2": (
        "zamba2",
        {"layers_block_type": ["mamba", "hybrid"], "n_mamba_heads": 4, "mamba_ngroups": 1},
    ),
    "mamba": ("mamba", {"state_size": 8}),
    "mamba2": ("mamba2", {"num_heads": 4, "head_dim": 32, "state_size": 16, "n_groups": 1}),
    "recurrent_gemma": ("recurrent_gemma", HEADS | {"num_hidden_layers": 3, "attention_window_size": 32}),
}
"""What a row is called → transformers' model type, and what differs from SIZES."""
