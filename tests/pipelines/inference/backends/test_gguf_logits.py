"""Logits of converted GGUF files on both engines, compared with transformers on the dequantized weights."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import onnx_ir as ir
import pytest
from breadth import after
from gguf import ExpertGatingFuncType
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
    LAYERS,
    WIDTH,
    Mixture,
    gate_in_up,
    vocabulary,
    write_llama_like,
)
from later import Later
from lone_steps import step

from pipelines.gguf.convert import FLOAT_SUMS, IN_FILE, convert
from pipelines.gguf.tensor_types import PACKED_TYPES
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings

torch = Later("torch")
hf = Later("transformers")

TOLERANCE = 1e-4
FEW = ("Q4_K", "Q6_K")
"""Types that `make test` computes by the kernels; `make breadth` has them all."""
NUM_IDS, CHUNK = 40, 23
TYPES = ("BF16", "Q4_1", "Q6_K", "IQ4_XS", "F32", "Q8_0", "Q4_K", "Q2_K", "TQ2_0")
TYPES += ("F16", "Q4_0", "Q5_0", "Q5_1", "Q5_K", "Q3_K", "IQ4_NL", "MXFP4", "NVFP4", "TQ1_0", "IQ1_S")
TYPES += ("IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")
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
    "tie_word_embeddings": False,
    "attn_implementation": "eager",
}


def openvino(path):
    return OpenVINOSession(path, OpenVINOSettings("cpu", "f32", "f32", 1))


ENGINES = {"openvino": openvino, "onnxruntime": OnnxCpuSession}
KERNEL_TOLERANCE, LARGE_WEIGHTS = 4e-4, {"Q6_K": 5}
"""Of logits where activations of linear layers have 15 bits; more for types whose random weights are larger."""


def ids():
    return np.random.default_rng(5).integers(5, SIZES["vocab_size"], NUM_IDS)


def expected(config, state):
    model = hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    for name in [name for name in state if name.endswith("bias") and name not in model.state_dict()]:
        linear = model.get_submodule(
            name.removesuffix(".bias")
        )  # of a file that has more biases than families
        linear.register_parameter("bias", torch.nn.Parameter(torch.empty(linear.out_features)))
    missing, unexpected = model.load_state_dict(
        {name: torch.tensor(weight) for name, weight in state.items()}, strict=False
    )
    assert (missing, unexpected) == ([], [])
    with torch.no_grad():
        return model(torch.tensor(ids())[None]).logits[0].numpy()


def given(open_session, source, folder, form=FLOAT_SUMS):
    """Logits of every token of the prompt, in two steps."""
    convert(source, folder, form)
    session = open_session(folder / "model.onnx")
    try:
        session.reserve(NUM_IDS, 1)
        session.allocate(8)
        blocks = list(range(-(-NUM_IDS // session.shape.block_tokens)))
        first = session.run(step(ids()[:CHUNK], 0, blocks, list(range(CHUNK)))).copy()
        rest = session.run(step(ids()[CHUNK:], CHUNK, blocks, list(range(NUM_IDS - CHUNK))))
        return np.concatenate([first, rest])
    finally:
        session.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", after(2, TYPES))
def test_every_type_is_its_dequantized_weights(tmp_path, kind, engine):
    source = tmp_path / "tiny.gguf"
    state = write_llama_like(source, kind=Type[kind], tied=kind == "Q8_0")
    logits = given(ENGINES[engine], source, tmp_path / "model")
    np.testing.assert_allclose(logits, expected(hf.LlamaConfig(**SIZES), state), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", after(len(FEW), [*FEW, *sorted({*PACKED_TYPES} - {*FEW})]))
def test_the_kernels_compute_every_type_of_few_bits(tmp_path, kind, kernels):
    """From the file itself to the last bit as from codes of its conversion, but for its table of embeddings:
    with least weights the rows of codes are rounded once more.
    """
    source = tmp_path / "tiny.gguf"
    state = write_llama_like(source, kind=Type[kind], tied=kind == "Q8_0")
    settings = OpenVINOSettings("cpu", "f32", "f32", 1, kernels=kernels(2))
    by_kernels = partial(OpenVINOSession, settings=settings)
    logits = given(by_kernels, source, tmp_path / "model", IN_FILE)
    wanted = expected(hf.LlamaConfig(**SIZES), state)
    tolerance = KERNEL_TOLERANCE * LARGE_WEIGHTS.get(kind, 1)
    np.testing.assert_allclose(logits, wanted, atol=tolerance, rtol=0)
    from_codes = given(by_kernels, source, tmp_path / "codes")
    tolerance = KERNEL_TOLERANCE if kind in ("Q4_1", "Q5_1", "Q4_K", "Q5_K") else 0
    np.testing.assert_allclose(from_codes, logits, atol=tolerance, rtol=0)


def _linear(model):
    from gguf import RopeScalingType

    model.writer.add_rope_scaling_type(RopeScalingType.LINEAR)
    model.writer.add_rope_scaling_factor(4.0)
    model.writer.add_rope_freq_base(50000.0)


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def _llama3(model):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](hf.LlamaConfig(**SIZES, rope_scaling=LLAMA3), "cpu")
    plain = 10000.0 ** -(np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
    model.writer.add_tensor("rope_freqs.weight", (plain / scaled.numpy()).astype(np.float32))


def _windowed(model):
    model.writer.add_sliding_window(16)
    model.writer.add_key_length(HEAD_SIZE)
    model.writer.add_value_length(HEAD_SIZE)


def _capped(model):
    _windowed(model)
    model.writer.add_attn_logit_softcapping(20.0)
    model.writer.add_final_logit_softcapping(5.0)


def _gemma3(model):
    _windowed(model)
    _linear(model)


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": CONTEXT // 4}


def _yarn(model):
    from gguf import RopeScalingType

    model.writer.add_rope_scaling_type(RopeScalingType.YARN)
    model.writer.add_rope_scaling_factor(4.0)
    model.writer.add_rope_scaling_orig_ctx_len(CONTEXT // 4)


ORIGINAL = 16
TURNED = HEAD_SIZE // 2
LONG, SHORT = ([start + 0.1 * number for number in range(TURNED // 2)] for start in (2.0, 1.0))


def _longrope(original):
    """Phi 3's factors; the converter writes the attention factor of transformers, and a part of each head."""

    def more(model):
        scale = CONTEXT / original
        model.writer.add_rope_dimension_count(TURNED)
        model.writer.add_rope_scaling_orig_ctx_len(original)
        model.writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)))
        model.writer.add_tensor("rope_factors_long.weight", np.array(LONG, np.float32))
        model.writer.add_tensor("rope_factors_short.weight", np.array(SHORT, np.float32))

    return more


def _phi3(original):
    scaling = {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}
    return hf.Phi3Config(
        **SIZES | {"pad_token_id": 0, "partial_rotary_factor": 0.5, "rope_scaling": scaling},
        original_max_position_embeddings=original,
    )


def _mixed(model):
    model.writer.add_expert_count(EXPERTS)
    model.writer.add_expert_used_count(EXPERTS_USED)
    model.writer.add_expert_feed_forward_length(EXPERT_INNER)


SHARED = 96
MIXED = SIZES | {"num_experts": EXPERTS, "num_experts_per_tok": EXPERTS_USED}
MIXED |= {"moe_intermediate_size": EXPERT_INNER, "decoder_sparse_step": 1}
MIXTRAL = {"num_local_experts": EXPERTS, "num_experts_per_tok": EXPERTS_USED, "rope_theta": 1e4}
ROUTED = SIZES | {
    "n_routed_experts": EXPERTS,
    "num_experts_per_tok": EXPERTS_USED,
    "moe_intermediate_size": EXPERT_INNER,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
}
CORRECTED = {
    "shared": EXPERT_INNER,
    "shared_name": "shared_experts",
    "gated": False,
    "correction": "gate.e_score_correction_bias",
    "dense": 1,
}
ERNIE = {
    "moe_num_experts": EXPERTS,
    "moe_k": EXPERTS_USED,
    "moe_num_shared_experts": 1,
    "moe_intermediate_size": EXPERT_INNER,
    "moe_layer_start_index": 1,
    "rope_theta": 1e4,
    "use_bias": False,
}


def _routed(groups):
    """What files say of experts that are chosen with a correction, among the best half of the `groups`."""

    def more(model):
        _mixed(model)
        model.writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
        model.writer.add_expert_weights_norm(True)
        model.writer.add_expert_weights_scale(2.5)
        model.writer.add_expert_shared_count(1)
        model.writer.add_leading_dense_block_count(1)
        model.writer.add_expert_group_count(groups)
        model.writer.add_expert_group_used_count(max(groups // 2, 1))

    return more


def _glm(model):
    _routed(1)(model)
    model.writer.add_rope_dimension_count(HEAD_SIZE // 2)


def _ernie(model):
    _mixed(model)
    model.writer.add_leading_dense_block_count(1)
    model.writer.add_interleave_moe_layer_step(1)
    model.writer.add_expert_shared_feed_forward_length(EXPERT_INNER)


FUSED = {"architecture": "phi3", "fused": True, "feed": gate_in_up}
TIED = SIZES | {"tie_word_embeddings": True}
GEMMA = TIED | {"sliding_window": 16, "query_pre_attn_scalar": HEAD_SIZE}
SCALED = {"rope_theta": 5e4, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
GEMMA2 = GEMMA | {"attn_logit_softcapping": 20.0, "final_logit_softcapping": 5.0}
GEMMA3 = GEMMA | SCALED | {"rope_local_base_freq": 1e4, "num_hidden_layers": 6}
FAMILIES = {
    "llama-linear": (lambda: hf.LlamaConfig(**SIZES, rope_theta=5e4, rope_scaling={"rope_type": "linear", "factor": 4.0}), {"more": _linear}),
    "llama-3": (lambda: hf.LlamaConfig(**SIZES, rope_scaling=LLAMA3), {"more": _llama3}),
    "llama-bias": (lambda: hf.LlamaConfig(**SIZES, attention_bias=True), {"bias": True}),
    "mistral": (lambda: hf.MistralConfig(**SIZES, sliding_window=None), {}),
    "qwen2": (lambda: hf.Qwen2Config(**SIZES), {"architecture": "qwen2", "bias": True}),
    "smollm3": (
        lambda: hf.SmolLM3Config(**SIZES | {"num_hidden_layers": 4}, pad_token_id=0, rope_theta=1e4),
        {"architecture": "smollm3", "layers": 4},
    ),
    "gemma": (lambda: hf.GemmaConfig(**TIED), {"architecture": "gemma", "tied": True, "gemma": "plain"}),
    "gemma2": (
        lambda: hf.Gemma2Config(**GEMMA2),
        {"architecture": "gemma2", "tied": True, "gemma": "norms after", "more": _capped},
    ),
    "gemma3": (
        lambda: hf.Gemma3TextConfig(**GEMMA3),
        {"architecture": "gemma3", "tied": True, "gemma": "norms after", "norms": True, "layers": 6}
        | {"more": _gemma3},
    ),
    "qwen3": (lambda: hf.Qwen3Config(**SIZES), {"architecture": "qwen3", "norms": True}),
    "llama-yarn": (lambda: hf.LlamaConfig(**SIZES, rope_scaling=YARN), {"more": _yarn}),
    "phi3-window": (
        lambda: hf.Phi3Config(**SIZES | {"pad_token_id": 0, "sliding_window": 16}),
        FUSED | {"more": lambda model: model.writer.add_sliding_window(16)},
    ),
    "phi3-long": (lambda: _phi3(ORIGINAL), FUSED | {"more": _longrope(ORIGINAL)}),
    "phi3-short": (lambda: _phi3(CONTEXT), FUSED | {"more": _longrope(CONTEXT)}),
    "mixtral": (
        lambda: hf.MixtralConfig(**SIZES | MIXTRAL | {"intermediate_size": EXPERT_INNER}),
        {"feed": Mixture("block_sparse_moe", ("w1", "w3", "w2")), "more": _mixed},
    ),
    "qwen2moe": (
        lambda: hf.Qwen2MoeConfig(**MIXED, shared_expert_intermediate_size=SHARED, norm_topk_prob=False),
        {"architecture": "qwen2moe", "bias": True, "feed": Mixture(shared=SHARED), "more": _mixed},
    ),
    "qwen3moe": (
        lambda: hf.Qwen3MoeConfig(**MIXED, norm_topk_prob=True),
        {"architecture": "qwen3moe", "norms": True, "feed": Mixture(), "more": _mixed},
    ),
    "qwen3moe-merged": (
        lambda: hf.Qwen3MoeConfig(**MIXED, norm_topk_prob=True),
        {"architecture": "qwen3moe", "norms": True, "feed": Mixture(merged=True), "more": _mixed},
    ),
    "qwen3moe-biases": (
        lambda: hf.Qwen3MoeConfig(**MIXED, norm_topk_prob=True),
        {"architecture": "qwen3moe", "norms": True, "feed": Mixture(biases=True), "more": _mixed},
    ),
    "dots1-groups": (
        lambda: hf.Dots1Config(**ROUTED, n_group=2, topk_group=1, rope_theta=1e4),
        {"architecture": "dots1", "norms": True, "feed": Mixture(**CORRECTED), "more": _routed(2)},
    ),
    "glm4moe": (
        lambda: hf.Glm4MoeConfig(**ROUTED, n_group=1, topk_group=1, partial_rotary_factor=0.5, rope_theta=1e4),
        {"architecture": "glm4moe", "feed": Mixture(**CORRECTED), "more": _glm},
    ),
    "ernie4_5": (
        lambda: hf.Ernie4_5Config(**SIZES, rope_theta=1e4, use_bias=False),
        {"architecture": "ernie4_5"},
    ),
    "ernie4_5-moe": (
        lambda: hf.Ernie4_5_MoeConfig(**SIZES | ERNIE),
        {"architecture": "ernie4_5-moe", "more": _ernie}
        | {"feed": Mixture(**CORRECTED | {"correction": "moe_statics.e_score_correction_bias"})},
    ),
}  # fmt: skip
MIXTURES = ("mixtral", "qwen2moe", "qwen3moe", "qwen3moe-merged", "qwen3moe-biases", "dots1-groups")
MIXTURES += ("glm4moe", "ernie4_5-moe")
ALWAYS = [
    *((family, "onnxruntime") for family in ("smollm3", "gemma3", "phi3-long", "dots1-groups")),
    *((family, "openvino") for family in ("phi3-window", "glm4moe")),
]
"""Each way of positions, norms, windows and experts in one family; `make breadth` has the others."""
CASES = [
    *((family, "onnxruntime") for family in FAMILIES),
    *((family, "openvino") for family in ("llama-yarn", "phi3-window", "phi3-long", *MIXTURES)),
]
CASES = after(len(ALWAYS), ALWAYS + [case for case in CASES if case not in ALWAYS])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", after(1, ("MXFP4", "Q8_0", "BF16", "F16", "Q4_0")))
def test_experts_of_every_type_are_their_dequantized_weights(tmp_path, kind, engine):
    config, written = FAMILIES["qwen3moe"]
    source = tmp_path / "tiny.gguf"
    state = write_llama_like(source, kind=Type[kind], **written)
    logits = given(ENGINES[engine], source, tmp_path / "model")
    np.testing.assert_allclose(logits, expected(config(), state), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("family", "kind"),
    after(
        1,
        [
            ("qwen2moe", "Q4_1"),
            ("qwen3moe", "MXFP4"),
            ("qwen3moe-merged", "Q8_0"),
            ("qwen3moe-biases", "Q4_0"),
            ("dots1-groups", "Q8_0"),
            ("mixtral", "Q4_0"),
        ],
    ),
)
def test_the_kernels_compute_experts_of_every_type(tmp_path, family, kind, kernels):
    """From the file itself, none of whose experts is written anew, to the last bit as from codes."""
    config, written = FAMILIES[family]
    source = tmp_path / "tiny.gguf"
    state = write_llama_like(source, kind=Type[kind], **written)
    opened = []

    def open_session(path):
        opened.append(OpenVINOSession(path, OpenVINOSettings("cpu", "f32", "f32", 1, kernels=kernels(2))))
        return opened[-1]

    logits = given(open_session, source, tmp_path / "model", IN_FILE)
    assert not any(
        "exps.weight" in name for name in ir.load(tmp_path / "model/model.onnx").graph.initializers
    )
    from_codes = given(open_session, source, tmp_path / "codes")
    for session in opened:
        assert "layers by braid kernels" in session.describe()["experts"]
    np.testing.assert_allclose(logits, expected(config(), state), atol=KERNEL_TOLERANCE, rtol=0)
    tolerance = KERNEL_TOLERANCE if kind == "Q4_1" else 0  # whose minimums are rounded once more in codes
    np.testing.assert_allclose(from_codes, logits, atol=tolerance, rtol=0)


@pytest.mark.parametrize(("family", "engine"), CASES)
def test_every_family_is_as_transformers_computes_it(tmp_path, family, engine):
    config, written = FAMILIES[family]
    source = tmp_path / "tiny.gguf"
    state = write_llama_like(source, kind=Type.Q4_1, **written)
    if family == "llama-bias":
        state |= {f"model.layers.{layer}.self_attn.o_proj.bias": np.zeros(WIDTH) for layer in range(LAYERS)}
    wanted = expected(config(), state)
    logits = given(ENGINES[engine], source, tmp_path / "model")
    np.testing.assert_allclose(logits, wanted, atol=TOLERANCE, rtol=0)
