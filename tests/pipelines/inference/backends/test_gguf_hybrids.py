"""GGUF files of hybrid decoders: logits and texts of transformers on the same weights."""

from __future__ import annotations

from functools import partial

import gguf_layouts
import numpy as np
import pytest
from breadth import after
from compiled_kernels import compiled_kernels
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
from gguf_hybrids import (
    KERNEL,
    LAYERS,
    MAMBA,
    NET,
    SCALES,
    SHARED,
    write_delta_net,
    write_granite_hybrid,
    write_lfm2,
)
from gguf_of_hf import config_of, randomized, write_model
from golden_texts import check_texts
from host_device import HostDevice
from host_runtime import HostRuntime, lower_for_host
from later import Later
from lone_steps import step

from pipelines.gguf.convert import FLOAT_SUMS, convert
from pipelines.inference.backends.onnxruntime.cpu.decoder_session import OnnxCpuSession, OnnxCpuSettings
from pipelines.inference.backends.onnxruntime.cuda.decoder_session import OnnxCudaSession
from pipelines.inference.backends.openvino.decoder.decoder_session import OpenVINOSession
from pipelines.inference.backends.openvino.decoder.decoder_settings import OpenVINOSettings
from pipelines.inference.contracts.step import NO_STATE

torch = Later("torch")
hf = Later("transformers")

TOLERANCE = 1e-4
SIZES = {
    "vocab_size": len(vocabulary()[0]),
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": len(LAYERS),
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": CONTEXT,
    "rope_theta": 1e4,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
KINDS = ["full_attention" if kind == "attention" else "linear_attention" for kind in LAYERS]
DELTA = SIZES | {
    "head_dim": HEAD_SIZE,
    "partial_rotary_factor": 0.25,
    "rms_norm_eps": 1e-5,
    "layer_types": KINDS,
    "linear_conv_kernel_dim": KERNEL + 1,
    "linear_key_head_dim": NET["size"],
    "linear_value_head_dim": NET["size"],
    "linear_num_key_heads": NET["groups"],
    "linear_num_value_heads": NET["heads"],
}
MIXED = {
    "num_experts": EXPERTS,
    "num_experts_per_tok": EXPERTS_USED,
    "moe_intermediate_size": EXPERT_INNER,
    "shared_expert_intermediate_size": SHARED,
    "norm_topk_prob": True,
}
DENSE = {"num_experts": 0, "mlp_only_layers": list(range(len(LAYERS)))}
GRANITE = SIZES | {
    "rms_norm_eps": 1e-5,
    "layer_types": ["attention" if kind == "attention" else "mamba" for kind in LAYERS],
    "mamba_n_heads": MAMBA["heads"],
    "mamba_d_head": MAMBA["size"],
    "mamba_n_groups": MAMBA["groups"],
    "mamba_d_state": MAMBA["state"],
    "mamba_d_conv": KERNEL + 1,
    "mamba_chunk_size": 16,  # transformers' plain pass computes whole chunks: 256 tokens, if not told
    **{f"{name}_multiplier": SCALES[name] for name in ("embedding", "residual", "attention")},
    "logits_scaling": SCALES["logit"],
}
GRANITE_MIXED = {
    "intermediate_size": EXPERT_INNER,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": EXPERTS_USED,
    "shared_intermediate_size": SHARED,
}
FAMILIES = {
    "lfm2": (
        lambda: hf.Lfm2Config(
            **SIZES | {"tie_word_embeddings": True},
            norm_eps=1e-5,
            conv_L_cache=KERNEL,
            block_auto_adjust_ff_dim=False,
            layer_types=["full_attention" if kind == "attention" else "conv" for kind in LAYERS],
        ),
        write_lfm2,
    ),
    "granitehybrid": (
        lambda: hf.GraniteMoeHybridConfig(**GRANITE, num_local_experts=0, shared_intermediate_size=INNER),
        write_granite_hybrid,
    ),
    "granitehybrid, a mixture": (
        lambda: hf.GraniteMoeHybridConfig(**GRANITE | GRANITE_MIXED),
        partial(write_granite_hybrid, mixed=True),
    ),
    "qwen35": (lambda: hf.Qwen3NextConfig(**DELTA | DENSE), write_delta_net),
    "qwen3next": (
        lambda: hf.Qwen3NextConfig(**DELTA | MIXED),
        partial(write_delta_net, architecture="qwen3next"),
    ),
    "qwen35moe": (
        lambda: hf.Qwen3NextConfig(**DELTA | MIXED),
        partial(write_delta_net, architecture="qwen35moe"),
    ),
}


def written(architecture, **options):
    """What writes transformers' own model under the converter's names, and gives its weights."""

    def write(path, kind):
        torch.manual_seed(3)
        config = config_of(FAMILIES[architecture][0])
        model = randomized(hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager"))
        write_model(path, model, architecture, kind=kind, **options)
        return {name: values.numpy() for name, values in model.state_dict().items()}

    return write


FOUR = {name: each for name, each in SIZES.items() if name not in ("rope_theta", "num_hidden_layers")}
MIXED_OF_FILE = {"{arch}.expert_count": EXPERTS, "{arch}.expert_used_count": EXPERTS_USED}
MIXED_OF_FILE |= {"{arch}.expert_feed_forward_length": EXPERT_INNER}
NEMOTRON = FOUR | {
    "head_dim": HEAD_SIZE,
    "intermediate_size": INNER,
    "ssm_state_size": MAMBA["state"],
    "mamba_num_heads": MAMBA["heads"],
    "mamba_head_dim": MAMBA["size"],
    "n_groups": 2,
    "conv_kernel": KERNEL + 1,
    "chunk_size": 16,
    "layer_norm_epsilon": 1e-5,
    "time_step_min": 1e-9,  # files do not say it
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}
NEMOTRON_OF_FILE = {
    "{arch}.attention.head_count_kv": [0, KV_HEADS, 0, 0],
    "{arch}.attention.layer_norm_epsilon": 1e-5,
    "{arch}.feed_forward_length": [0, 0, INNER, 0],
    "{arch}.ssm.conv_kernel": KERNEL + 1,
    "{arch}.ssm.inner_size": MAMBA["heads"] * MAMBA["size"],
    "{arch}.ssm.state_size": MAMBA["state"],
    "{arch}.ssm.time_step_rank": MAMBA["heads"],
    "{arch}.ssm.group_count": 2,
}
FAMILIES |= {
    "lfm2moe": (
        lambda: hf.Lfm2MoeConfig(
            **FOUR | {"tie_word_embeddings": True, "intermediate_size": INNER},
            rope_parameters={"rope_type": "default", "rope_theta": 1e4},
            num_hidden_layers=4,
            norm_eps=1e-5,
            moe_intermediate_size=EXPERT_INNER,
            num_dense_layers=1,
            num_experts=EXPERTS,
            num_experts_per_tok=EXPERTS_USED,
            conv_L_cache=KERNEL,
            layer_types=["conv", "full_attention"] * 2,
        ),
        written(
            "lfm2moe",
            more=MIXED_OF_FILE
            | {
                "{arch}.attention.head_count_kv": [0, KV_HEADS, 0, KV_HEADS],
                "{arch}.shortconv.l_cache": KERNEL,
                "{arch}.leading_dense_block_count": 1,
                "{arch}.expert_gating_func": 2,
            },
            rearranged=gguf_layouts.lfm2,
        ),
    ),
    "nemotron_h": (
        lambda: hf.NemotronHConfig(**NEMOTRON, layers_block_type=["mamba", "attention", "mlp", "mamba"]),
        written("nemotron_h", more=NEMOTRON_OF_FILE, rearranged=gguf_layouts.nemotron(2)),
    ),
    "nemotron_h_moe": (
        lambda: hf.NemotronHConfig(
            **NEMOTRON,
            layers_block_type=["mamba", "attention", "moe", "mamba"],
            n_routed_experts=EXPERTS,
            num_experts_per_tok=EXPERTS_USED,
            moe_intermediate_size=EXPERT_INNER,
            moe_shared_expert_intermediate_size=SHARED,
            moe_latent_size=128,
            routed_scaling_factor=2.5,
        ),
        written(
            "nemotron_h_moe",
            more=NEMOTRON_OF_FILE
            | MIXED_OF_FILE
            | {
                "{arch}.moe_latent_size": 128,
                "{arch}.expert_weights_scale": 2.5,
                "{arch}.expert_weights_norm": True,
                "{arch}.expert_shared_count": 1,
                "{arch}.expert_shared_feed_forward_length": SHARED,
            },
            rearranged=gguf_layouts.nemotron(2),
        ),
    ),
}
"""transformers' Qwen3.5 is its Qwen3-Next with other projections, so one model is the reference of both.
transformers 5 alone has the last three.
"""


def peer(config, state):
    model = hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    merged = {
        name for name in model.state_dict() if name.endswith(("experts.gate_up_proj", "experts.down_proj"))
    }
    tensors = {name: torch.tensor(each) for name, each in _stacked(state, merged).items()}
    assert model.load_state_dict(tensors, strict=False) == ([], [])
    return model


def _stacked(state, merged):
    """The weights of experts as transformers 5 has them: those of a layer in one tensor, gate and up joined."""
    left = dict(state)
    for name in merged - left.keys():
        place, _, kind = name.rpartition(".")
        sides = ("gate_proj", "up_proj") if kind == "gate_up_proj" else (kind,)
        rows = [[left.pop(f"{place}.{at}.{side}.weight") for side in sides] for at in range(EXPERTS)]
        left[name] = np.stack([np.concatenate(each) for each in rows])
    return left


def on_cuda(path):
    """The CUDA session, its kernels on the host."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRAID_KERNELS", str(compiled_kernels()))
        return OnnxCudaSession(lower_for_host(path, block_tokens=32), HostDevice(), HostRuntime())


ENGINES = {
    "openvino": lambda path: OpenVINOSession(path, OpenVINOSettings("cpu", "f32", "f32", 1)),
    "onnxruntime": lambda path: OnnxCpuSession(path, OnnxCpuSettings(block_tokens=32)),
    "cuda": on_cuda,
}


def session_of(source, folder, engine="openvino"):
    convert(source, folder, FLOAT_SUMS)
    return ENGINES[engine](folder / "model.onnx")


@pytest.mark.parametrize(
    ("family", "kind", "engine"),
    [
        *after(2, [(family, "Q4_1", "openvino") for family in FAMILIES]),
        *after(1, [(family, "Q4_1", "onnxruntime") for family in FAMILIES]),
        *after(0, [(family, "Q4_1", "cuda") for family in ("qwen35", "qwen3next", "granitehybrid", "lfm2")]),
        *after(0, [("qwen35", "F32", "openvino"), ("lfm2", "Q4_K", "openvino")]),
    ],
)
def test_logits_are_as_transformers_computes_them(tmp_path, family, kind, engine):
    config, write = FAMILIES[family]
    state = write(tmp_path / "tiny.gguf", kind=Type[kind])
    ids = np.random.default_rng(5).integers(5, SIZES["vocab_size"], 70)
    with torch.no_grad():
        wanted = peer(config(), state)(torch.tensor(ids)[None]).logits[0].numpy()
    session = session_of(tmp_path / "tiny.gguf", tmp_path / "model", engine)
    session.reserve(48, 1, 48)
    session.allocate(8, num_states=3)
    blocks = list(range(4))
    first = session.run(step(ids[:37], 0, blocks, list(range(37)), states=[NO_STATE, 1])).copy()
    rest = session.run(step(ids[37:], 37, blocks, list(range(33)), states=[1, 2]))
    session.close()
    np.testing.assert_allclose(np.concatenate([first, rest]), wanted, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("family", "engine"),
    after(
        1,
        [
            (family, engine)
            for engine in ENGINES
            for family in ("qwen35", "lfm2", "granitehybrid", "qwen3next", "nemotron_h_moe", "lfm2moe")
        ],
    ),
)
def test_texts_of_one_engine_are_those_of_transformers(tmp_path, family, engine):
    """Also where one continues another's state."""
    config, write = FAMILIES[family]
    model = peer(config_of(config), write(tmp_path / "tiny.gguf", kind=Type.Q4_1))
    session = session_of(tmp_path / "tiny.gguf", tmp_path / "model", engine)
    check_texts(model, session, SIZES["vocab_size"])
