"""Routers of mixtures: what files say of them, and their choice beside the routers of transformers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from later import Later

from pipelines.gguf.errors import GgufError
from pipelines.gguf.linear_layers import LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.reader import GgufTensor
from pipelines.gguf.routers import (
    SIGMOID,
    SOFTMAX,
    SOFTMAX_OF_CHOSEN,
    SQRT_SOFTPLUS,
    Mixture,
    Router,
    Routing,
    read_mixture,
)
from pipelines.gguf.tensor_types import TENSOR_TYPES
from pipelines.onnx_format.onnx_writer import OnnxWriter

torch = Later("torch")
hf = Later("transformers")

EXPERTS, USED, WIDTH, TOKENS = 16, 4, 32, 50
F32 = TENSOR_TYPES[0]
RNG = np.random.default_rng(3)
WEIGHT = RNG.normal(0, 0.5, (EXPERTS, WIDTH)).astype(np.float32)
BIAS, CORRECTION, FACTORS = RNG.normal(0, 0.3, (3, EXPERTS)).astype(np.float32)
ROWS = RNG.normal(0, 1, (TOKENS, WIDTH)).astype(np.float32)


class InMemory:
    """Bytes of a tensor, in place of a file's."""

    def __init__(self, values):
        self._bytes = np.frombuffer(values.tobytes(), np.uint8)

    def read(self, offset, size):
        return self._bytes[offset : offset + size]


def tensor(name, values):
    rows = np.atleast_2d(values)
    return GgufTensor(name, F32, *rows.shape, InMemory(rows))


def routed(folder, mixture, **others):
    """The chosen experts and the weights of all experts, float [tokens, experts], 0 for the others."""
    import onnxruntime

    named = {"ffn_gate_inp.weight": WEIGHT} | {
        name.replace("__", "."): values for name, values in others.items()
    }
    tensors = {f"blk.0.{name}": tensor(name, values) for name, values in named.items()}
    with OnnxWriter(folder) as writer:
        read = ir.val("read", ir.DataType.FLOAT, [1, "tokens", WIDTH])
        linears = LinearLayers(writer, tensors, 0)
        chosen, weights = Router(mixture, WIDTH, linears, writer).choose("blk.0.", read)
        chosen.name, weights.name = "chosen", "weights"
        for value, dtype in ((chosen, ir.DataType.INT64), (weights, ir.DataType.FLOAT)):
            value.dtype, value.shape = dtype, ir.Shape([1, "tokens", USED])
        linears.write_weights()
        writer.save([read], [chosen, weights], "router")
    assert linears.unused() == set()
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    (chosen,), (weights,) = session.run(None, {"read": ROWS[None]})
    spread = np.zeros((TOKENS, EXPERTS), np.float32)
    np.put_along_axis(spread, chosen, weights, 1)
    assert all(len(set(row)) == USED for row in chosen.tolist())
    return spread


def spread(weights, chosen):
    return torch.zeros(TOKENS, EXPERTS).scatter(1, chosen, weights).detach().numpy()


def scores():
    return torch.tensor(ROWS @ WEIGHT.T)


@pytest.mark.parametrize("sums_to_one", [True, False])
def test_a_softmax(tmp_path, sums_to_one):
    best, chosen = scores().softmax(-1).topk(USED)
    wanted = best / best.sum(-1, keepdim=True) if sums_to_one else best
    given = routed(tmp_path, Mixture(EXPERTS, USED, Routing(SOFTMAX, sums_to_one)))
    np.testing.assert_allclose(given, spread(wanted, chosen), atol=1e-6)


def test_a_softmax_of_the_chosen_is_that_of_gpt_oss(tmp_path):
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssTopKRouter

    config = hf.GptOssConfig(num_local_experts=EXPERTS, num_experts_per_tok=USED, hidden_size=WIDTH)
    router = GptOssTopKRouter(config)
    router.weight.data, router.bias.data = torch.tensor(WEIGHT), torch.tensor(BIAS)
    wanted, _ = router(torch.tensor(ROWS))
    mixture = Mixture(EXPERTS, USED, Routing(SOFTMAX_OF_CHOSEN, sums_to_one=False))
    given = routed(tmp_path, mixture, ffn_gate_inp__bias=BIAS)
    np.testing.assert_allclose(given, wanted.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(("groups", "groups_used"), [(1, 1), (4, 2), (2, 1)])
def test_sigmoids_with_a_correction_in_groups_are_those_of_deepseek(tmp_path, groups, groups_used):
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter

    sizes = {"n_routed_experts": EXPERTS, "num_experts_per_tok": USED, "hidden_size": WIDTH}
    config = hf.DeepseekV3Config(
        **sizes, n_group=groups, topk_group=groups_used, norm_topk_prob=True, routed_scaling_factor=2.5
    )
    router = DeepseekV3TopkRouter(config)
    router.weight.data = torch.tensor(WEIGHT)
    above = CORRECTION + 1  # transformers gives experts of other groups 0, which is to be the least
    router.e_score_correction_bias.data = torch.tensor(above)
    chosen, weights = router(torch.tensor(ROWS))
    mixture = Mixture(EXPERTS, USED, Routing(SIGMOID), 2.5, groups, groups_used)
    routed_weights = routed(tmp_path, mixture, exp_probs_b__bias=above)
    np.testing.assert_allclose(routed_weights, spread(weights, chosen), atol=1e-6)


def test_a_negative_correction_chooses_no_other_group(tmp_path):
    below = CORRECTION - 5
    given = routed(tmp_path, Mixture(EXPERTS, USED, Routing(SIGMOID), 1.0, 4, 1), exp_probs_b__bias=below)
    assert all(len({expert // 4 for expert in np.flatnonzero(row)}) == 1 for row in given)


def test_a_root_of_softplus_and_factors_of_experts(tmp_path):
    best, chosen = torch.nn.functional.softplus(scores()).sqrt().topk(USED)
    wanted = spread(best / best.sum(-1, keepdim=True) * 1.5, chosen) * FACTORS
    mixture = Mixture(EXPERTS, USED, Routing(SQRT_SOFTPLUS), 1.5)
    given = routed(tmp_path, mixture, ffn_down_exps__scale=FACTORS)
    np.testing.assert_allclose(given, wanted, atol=1e-6)


SAID = {
    "general.architecture": "m",
    "m.expert_count": 8,
    "m.expert_used_count": 2,
    "m.expert_gating_func": 2,
    "m.expert_weights_norm": True,
    "m.expert_weights_scale": 2.5,
    "m.expert_group_count": 4,
    "m.expert_group_used_count": 2,
}


def test_what_a_file_says_goes_before_what_its_architecture_does():
    default = Routing(sums_to_one=False)
    assert read_mixture(Metadata(SAID), default) == Mixture(8, 2, Routing(SIGMOID), 2.5, 4, 2)
    few = {name: SAID[name] for name in list(SAID)[:3]}
    assert read_mixture(Metadata(few), default) == Mixture(8, 2, default)
    assert read_mixture(Metadata({"general.architecture": "m"}), default) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"m.expert_gating_func": 5}, "by function 5"),
        ({"m.expert_group_count": 3}, "2 of 3 groups of 8 experts"),
        ({"m.expert_group_used_count": 5}, "5 of 4 groups"),
        ({"m.expert_used_count": 5}, "5 of 4 experts"),
    ],
)
def test_what_cannot_be_is_refused(changes, why):
    with pytest.raises(GgufError, match=why):
        read_mixture(Metadata(SAID | changes), Routing())
