"""Dense GGUF architectures beside transformers: its own small models, under the converter's names."""

from __future__ import annotations

import math
from functools import partial

import gguf_layouts
import numpy as np
import pytest
from breadth import after
from gguf import GGMLQuantizationType as Type
from gguf_files import (
    CONTEXT,
    EXPERT_INNER,
    EXPERTS,
    EXPERTS_USED,
    HEAD_SIZE,
    HEADS,
    INNER,
    KV_HEADS,
    WIDTH,
    vocabulary,
)
from gguf_layouts import gpt_oss, granite_experts, joined_heads, latent, stacked_experts
from gguf_of_hf import config_of, randomized, write_model
from golden_texts import check_texts
from later import Later
from lone_steps import step

from pipelines.gguf.convert import FLOAT_SUMS, IN_FILE, convert
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings

torch = Later("torch")
hf = Later("transformers")

TOLERANCE = 1e-4
NUM_IDS, CHUNK, WINDOW = 40, 23, 16
LAYERS = 4
SIZES = {
    "vocab_size": len(vocabulary()[0]),
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_SIZE,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": WINDOW}
LAYER_TYPES = ["sliding_attention"] * 3 + ["full_attention"]
WINDOWED = {"{arch}.attention.sliding_window": WINDOW}
PATTERN = {"{arch}.attention.sliding_window_pattern": [True, True, True, False]}


def openvino(path):
    return OpenVINOSession(path, OpenVINOSettings("cpu", "f32", "f32", 1))


ENGINES = {"openvino": openvino, "onnxruntime": OnnxCpuSession}


def ids():
    return np.random.default_rng(5).integers(5, SIZES["vocab_size"], NUM_IDS)


def xielu(model):
    """What Apertus' converter reads of its activations."""
    layers = [layer.mlp.act_fn for layer in model.model.layers]
    names = ("alpha_p", "alpha_n", "beta", "eps")
    return {
        f"xielu.{name}": [getattr(layer, name).detach().float().item() for layer in layers] for name in names
    }


def with_growing_queries(model, slope):
    """Ministral 3's attention, of which transformers 4 has only Mistral's part.

    A query times a number that its position determines may be multiplied before it is rotated.
    """
    growth = 1 + slope * torch.log(1 + torch.floor(torch.arange(NUM_IDS) / WINDOW))
    for layer in model.model.layers:
        layer.self_attn.q_proj.register_forward_hook(lambda *seen: seen[2] * growth[None, :, None])
    return model


MIXED = {
    "{arch}.expert_count": EXPERTS,
    "{arch}.expert_used_count": EXPERTS_USED,
    "{arch}.expert_feed_forward_length": EXPERT_INNER,
}
YARN_OF_FILE = {
    "{arch}.rope.scaling.type": "yarn",
    "{arch}.rope.scaling.factor": 4.0,
    "{arch}.rope.scaling.original_context_length": WINDOW,
}
EXPERT_SIZES = SIZES | {"intermediate_size": EXPERT_INNER, "num_experts_per_tok": EXPERTS_USED}
ROUTED_OF_FILE = MIXED | {
    "{arch}.leading_dense_block_count": 1,
    "{arch}.expert_shared_count": 1,
    "{arch}.expert_weights_scale": 2.5,
    "{arch}.expert_weights_norm": True,
    "{arch}.expert_gating_func": 2,
    "{arch}.expert_group_count": 2,
    "{arch}.expert_group_used_count": 1,
}
ROUTED = {
    "moe_intermediate_size": EXPERT_INNER,
    "n_routed_experts": EXPERTS,
    "num_experts_per_tok": EXPERTS_USED,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
}
PLAIN, TURNED, VALUE, RANK = 64, 16, 32, 64
LATENT = {name: each for name, each in SIZES.items() if name != "head_dim"} | {
    "num_key_value_heads": HEADS,
    "qk_nope_head_dim": PLAIN,
    "qk_rope_head_dim": TURNED,
    "v_head_dim": VALUE,
    "kv_lora_rank": RANK,
    "q_lora_rank": 96,
    "n_group": 2,
    "topk_group": 1,
    **ROUTED,
}
LATENT_OF_FILE = ROUTED_OF_FILE | {
    "{arch}.attention.head_count_kv": 1,
    "{arch}.attention.key_length": RANK + TURNED,
    "{arch}.attention.value_length": RANK,
    "{arch}.attention.key_length_mla": PLAIN + TURNED,
    "{arch}.attention.value_length_mla": VALUE,
    "{arch}.attention.kv_lora_rank": RANK,
    "{arch}.attention.q_lora_rank": 96,
    "{arch}.rope.dimension_count": TURNED,
}
GRANITE = {"embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.2}
GRANITE |= {"logits_scaling": 5.0}
GRANITE_OF_FILE = {
    "{arch}.embedding_scale": 3.0,
    "{arch}.residual_scale": 0.4,
    "{arch}.attention.scale": 0.2,
    "{arch}.logit_scale": 5.0,
}
LOCAL_FIRST = ["sliding_attention", "full_attention"] * (LAYERS // 2)


def gemma4(layers=LAYERS, **others):
    """Layers that attend to all tokens have larger heads, and no weights for values."""
    sizes = {name: size for name, size in SIZES.items() if name != "rope_theta"}
    return hf.Gemma4TextConfig(
        **sizes | {"tie_word_embeddings": True, "num_hidden_layers": layers},
        layer_types=LOCAL_FIRST * (layers // LAYERS),
        sliding_window=WINDOW,
        global_head_dim=2 * HEAD_SIZE,
        num_global_key_value_heads=1,
        attention_k_eq_v=True,
        vocab_size_per_layer_input=SIZES["vocab_size"],
        final_logit_softcapping=30.0,
        rope_parameters={
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": 1e6,
                "partial_rotary_factor": 0.25,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
        **others,
    )


def gemma4_of_file(layers=LAYERS, size=0, shared=0):
    own = {"sliding_window": WINDOW, "sliding_window_pattern": [True, False] * (layers // 2)}
    own |= {"head_count_kv": [KV_HEADS, 1] * (layers // 2), "shared_kv_layers": shared}
    for name in ("key_length", "value_length"):
        own |= {name: 2 * HEAD_SIZE, f"{name}_swa": HEAD_SIZE}
    return {f"{{arch}}.attention.{name}": value for name, value in own.items()} | {
        "{arch}.embedding_length_per_layer_input": size,
        "{arch}.feed_forward_length": [INNER] * layers,
        "{arch}.rope.freq_base": 1e6,
        "{arch}.rope.freq_base_swa": 1e4,
        "{arch}.rope.dimension_count": 2 * HEAD_SIZE,
        "{arch}.rope.dimension_count_swa": HEAD_SIZE,
        "{arch}.final_logit_softcapping": 30.0,
    }


GEMMA4_ROPE = {
    "rope_freqs.weight": (np.where(np.arange(HEAD_SIZE) < 16, 1, 1e30).astype(np.float32), Type.F32)
}
FAMILIES = {
    "glm4": (
        lambda: hf.Glm4Config(**SIZES, partial_rotary_factor=0.5, attention_bias=True),
        {"more": {"{arch}.rope.dimension_count": HEAD_SIZE // 2}},
    ),
    "granite": (
        lambda: hf.GraniteConfig(**SIZES, **GRANITE),
        {"is_interleaved": True, "more": GRANITE_OF_FILE},
    ),
    "mistral3": (
        lambda: hf.MistralConfig(**SIZES, sliding_window=None, rope_scaling=YARN | {"attention_factor": 1.0}),
        {
            "is_interleaved": True,
            "more": YARN_OF_FILE
            | {
                "{arch}.rope.scaling.yarn_log_multiplier": 1.0,
                "{arch}.attention.temperature_scale": 0.3,
            },
        },
    ),
    "hunyuan-dense": (lambda: hf.HunYuanDenseV1Config(**SIZES), {}),
    "seed_oss": (lambda: hf.SeedOssConfig(**SIZES, attention_bias=True, attention_out_bias=False), {}),
    "exaone4": (
        lambda: hf.Exaone4Config(**SIZES, sliding_window=WINDOW, layer_types=LAYER_TYPES),
        {"more": WINDOWED | PATTERN},
    ),
    "exaone4, full": (
        lambda: hf.Exaone4Config(**SIZES, sliding_window=None, layer_types=["full_attention"] * LAYERS),
        {},
    ),
    "cohere2": (
        lambda: hf.Cohere2Config(
            **{name: each for name, each in SIZES.items() if name != "rms_norm_eps"}
            | {"tie_word_embeddings": True},
            layer_norm_eps=1e-5,
            sliding_window=WINDOW,
            layer_types=LAYER_TYPES,
            logit_scale=0.3,
        ),
        {"more": WINDOWED | {"{arch}.logit_scale": 0.3, "{arch}.rope.scaling.type": "none"}},
    ),
    "olmo2": (lambda: hf.Olmo2Config(**SIZES), {}),
    "olmo2, windows": (
        lambda: hf.Olmo3Config(**SIZES, sliding_window=WINDOW, layer_types=LAYER_TYPES, rope_scaling=YARN),
        {"more": WINDOWED | PATTERN | YARN_OF_FILE},
    ),
    "apertus": (lambda: hf.ApertusConfig(**SIZES, hidden_act="xielu", rope_scaling=None), {"more": xielu}),
    "phimoe": (
        lambda: hf.PhimoeConfig(
            **EXPERT_SIZES,
            num_local_experts=EXPERTS,
            sliding_window=None,
            attention_bias=True,
            lm_head_bias=True,
        ),
        {"more": MIXED, "rearranged": gguf_layouts.phimoe},
    ),
    "olmoe": (
        lambda: hf.OlmoeConfig(**EXPERT_SIZES, num_experts=EXPERTS, norm_topk_prob=False),
        {"more": MIXED, "rearranged": stacked_experts},
    ),
    "gemma3n": (
        lambda: hf.Gemma3nTextConfig(
            **SIZES | {"tie_word_embeddings": True, "num_hidden_layers": 6, "intermediate_size": [INNER] * 6},
            layer_types=["sliding_attention", "full_attention"] * 3,
            sliding_window=WINDOW,
            rope_local_base_freq=5000.0,
            num_kv_shared_layers=2,
            hidden_size_per_layer_input=32,
            vocab_size_per_layer_input=SIZES["vocab_size"],
            activation_sparsity_pattern=[0.95, 0.9, 0.0, 0.0, 0.0, 0.0],
            laurel_rank=32,
            altup_num_inputs=3,
            final_logit_softcapping=30.0,
        ),
        {
            "more": WINDOWED
            | {
                "{arch}.feed_forward_length": [INNER] * 6,
                "{arch}.attention.sliding_window_pattern": [True, False] * 3,
                "{arch}.attention.shared_kv_layers": 2,
                "{arch}.rope.freq_base_swa": 5000.0,
                "{arch}.embedding_length_per_layer_input": 32,
                "{arch}.altup.num_inputs": 3,
                "{arch}.altup.active_idx": 0,
                "{arch}.activation_sparsity_scale": [1.6448536, 1.2815516] + [-math.inf] * 4,
                "{arch}.final_logit_softcapping": 30.0,
            },
            "rearranged": gguf_layouts.gemma3n,
        },
    ),
    "gemma4": (
        lambda: gemma4(2 * LAYERS, hidden_size_per_layer_input=32, num_kv_shared_layers=4),
        {"more": gemma4_of_file(2 * LAYERS, 32, 4), "rearranged": gguf_layouts.gemma4, "others": GEMMA4_ROPE},
    ),
    "gemma4, experts": (
        lambda: gemma4(
            hidden_size_per_layer_input=0,
            enable_moe_block=True,
            num_experts=EXPERTS,
            top_k_experts=EXPERTS_USED,
            moe_intermediate_size=EXPERT_INNER,
        ),
        {"more": gemma4_of_file() | MIXED, "rearranged": gguf_layouts.gemma4, "others": GEMMA4_ROPE},
    ),
    "minimax-m2": (
        lambda: hf.MiniMaxM2Config(
            **{name: each for name, each in EXPERT_SIZES.items() if name != "rope_theta"},
            rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
            num_local_experts=EXPERTS,
        ),
        {
            "more": MIXED | {"{arch}.rope.dimension_count": HEAD_SIZE // 2, "{arch}.expert_gating_func": 2},
            "rearranged": partial(stacked_experts, correction="e_score_correction_bias"),
        },
    ),
    "granitemoe": (
        lambda: hf.GraniteMoeConfig(**EXPERT_SIZES, num_local_experts=EXPERTS, **GRANITE),
        {"is_interleaved": True, "more": MIXED | GRANITE_OF_FILE, "rearranged": granite_experts},
    ),
    "hunyuan-moe": (
        lambda: hf.HunYuanMoEV1Config(**EXPERT_SIZES, num_experts=EXPERTS, moe_topk=EXPERTS_USED),
        {"more": MIXED, "rearranged": stacked_experts},
    ),
    "bailingmoe2": (  # the same as Dots 1, with one weight for queries, keys and values
        lambda: hf.Dots1Config(**SIZES | ROUTED, n_group=2, topk_group=1),
        {"more": ROUTED_OF_FILE, "rearranged": joined_heads},
    ),
    "deepseek2": (
        lambda: hf.DeepseekV3Config(**LATENT, rope_scaling=YARN | {"mscale": 0.7, "mscale_all_dim": 0.7}),
        {
            "more": LATENT_OF_FILE | YARN_OF_FILE | {"{arch}.rope.scaling.yarn_log_multiplier": 0.07},
            "rearranged": latent(HEADS, PLAIN),
        },
    ),
    "deepseek2, lite": (
        lambda: hf.DeepseekV3Config(**LATENT | {"q_lora_rank": None}),
        {
            "more": LATENT_OF_FILE
            | {
                "{arch}.attention.q_lora_rank": None,
                "{arch}.attention.head_count_kv": HEADS,
                "{arch}.attention.key_length": PLAIN + TURNED,
                "{arch}.attention.value_length": VALUE,
                "{arch}.attention.key_length_mla": None,
                "{arch}.attention.value_length_mla": None,
            },
            "rearranged": stacked_experts,
        },
    ),
    "gpt-oss": (
        lambda: hf.GptOssConfig(
            **SIZES | {"intermediate_size": EXPERT_INNER},
            num_local_experts=EXPERTS,
            num_experts_per_tok=EXPERTS_USED,
            sliding_window=WINDOW,
            layer_types=["sliding_attention", "full_attention"] * (LAYERS // 2),
            rope_scaling=YARN | {"truncate": False},
            attention_bias=True,
        ),
        {"more": WINDOWED | MIXED | YARN_OF_FILE, "rearranged": gpt_oss, "experts": Type.MXFP4},
    ),
}
ALWAYS = [
    ("glm4", "onnxruntime"),
    ("exaone4", "openvino"),
    ("gpt-oss", "openvino"),
    ("deepseek2", "openvino"),
    ("gemma3n", "onnxruntime"),
]
CASES = ALWAYS + [
    (family, engine) for family in FAMILIES for engine in ENGINES if (family, engine) not in ALWAYS
]


def given(open_session, source, folder, form=FLOAT_SUMS):
    """Logits of the prompt beside a shorter one with another beginning: first chunks of both, then the rest."""
    convert(source, folder, form)
    session = open_session(folder / "model.onnx")
    try:
        session.reserve(2 * NUM_IDS, 2)
        session.allocate(16)
        blocks = list(range(math.ceil(NUM_IDS / session.shape.block_tokens)))
        first = session.run(step(ids()[:CHUNK], 0, blocks, list(range(CHUNK)))).copy()
        rest = session.run(step(ids()[CHUNK:], CHUNK, blocks, list(range(NUM_IDS - CHUNK))))
        return np.concatenate([first, rest])
    finally:
        session.close()


def written_model(path, family):
    """The family's small model of transformers, whose weights are those of the file at `path`."""
    make_config, written = FAMILIES[family]
    torch.manual_seed(3)
    config = config_of(make_config)
    model = randomized(hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager"))
    more = written.get("more", {})
    options = written | {"more": more(model) if callable(more) else more, "kind": Type.Q8_0}
    write_model(path, model, family.partition(",")[0], **options)
    return model


@pytest.mark.parametrize(("family", "engine"), after(len(ALWAYS), CASES))
def test_every_family_is_as_transformers_computes_it(tmp_path, family, engine):
    model = written_model(tmp_path / "tiny.gguf", family)
    if family == "mistral3":
        with_growing_queries(model, 0.3)
    with torch.no_grad():
        wanted = model(torch.tensor(ids())[None]).logits[0].numpy()
    logits = given(ENGINES[engine], tmp_path / "tiny.gguf", tmp_path / "model")
    np.testing.assert_allclose(logits, wanted, atol=TOLERANCE * max(1, abs(wanted).max()), rtol=0)


def test_the_kernels_compute_gpt_oss_from_its_file(tmp_path, kernels):
    """Experts of MXFP4 with biases and a clamped activation."""
    model, opened = written_model(tmp_path / "tiny.gguf", "gpt-oss"), []

    def open_session(path):
        opened.append(OpenVINOSession(path, OpenVINOSettings("cpu", "f32", "f32", 1, kernels=kernels(2))))
        return opened[0]

    with torch.no_grad():
        wanted = model(torch.tensor(ids())[None]).logits[0].numpy()
    logits = given(open_session, tmp_path / "tiny.gguf", tmp_path / "model", IN_FILE)
    assert opened[0].describe()["experts"].startswith(f"{LAYERS} of {LAYERS} layers by braid kernels")
    np.testing.assert_allclose(logits, wanted, atol=10 * TOLERANCE * max(1, abs(wanted).max()), rtol=0)


@pytest.mark.parametrize(
    ("family", "engine"),
    after(0, [(family, engine) for engine in ENGINES for family in ("gpt-oss", "deepseek2", "gemma4")]),
)
def test_texts_of_one_engine_are_those_of_transformers(tmp_path, family, engine):
    model = written_model(tmp_path / "tiny.gguf", family)
    convert(tmp_path / "tiny.gguf", tmp_path / "model", FLOAT_SUMS)
    check_texts(model, ENGINES[engine](tmp_path / "model" / "model.onnx"), SIZES["vocab_size"])
