"""Experts of transformers' forms become one module that computes the same, and keep that when quantized."""

from __future__ import annotations

import numpy as np
import pytest
from later import Later

torch = Later("torch")

EXPERTS, INNER, WIDTH, USED, TOKENS = 6, 32, 64, 2, 20


def stacked(gate=True, transposed=False, turns=False, biases=False, activation="silu"):
    """A module of transformers 5's form, with the names and the forward of its experts."""
    from torch.nn.functional import gelu, relu, silu

    acts = {"silu": silu, "gelu": gelu, "relu2": lambda x: relu(x).square()}

    class Experts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act_fn, self.is_transposed = acts.get(activation), transposed
            self.alpha, self.limit = 1.702, 7.0
            rows = INNER * (2 if gate else 1)
            self.first = "gate_up_proj" if gate else "up_proj"
            for name, axes in ((self.first, (rows, WIDTH)), ("down_proj", (WIDTH, INNER))):
                shape = (EXPERTS, *(axes[::-1] if transposed else axes))
                setattr(self, name, torch.nn.Parameter(torch.randn(shape) * 0.5))
                if biases:
                    setattr(self, f"{name}_bias", torch.nn.Parameter(torch.randn(EXPERTS, axes[0])))

        def _apply_gate(self, both):
            gates, ups = (both[..., ::2], both[..., 1::2]) if turns else both.chunk(2, -1)
            if activation != "clamped":
                return self.act_fn(gates) * ups
            gates, ups = gates.clamp(max=self.limit), ups.clamp(-self.limit, self.limit)
            return gates * torch.sigmoid(gates * self.alpha) * (ups + 1)

        def _linear(self, name, expert, rows):
            weight = getattr(self, name)[expert]
            bias = getattr(self, f"{name}_bias")[expert] if biases else 0
            return rows @ (weight if transposed else weight.T) + bias

        def forward(self, hidden_states, top_k_index, top_k_weights):
            mixed = torch.zeros_like(hidden_states)
            for token, (chosen, weights) in enumerate(zip(top_k_index, top_k_weights, strict=True)):
                for expert, weight in zip(chosen, weights, strict=True):
                    middle = self._linear(self.first, expert, hidden_states[token])
                    middle = self._apply_gate(middle) if gate else self.act_fn(middle)
                    mixed[token] += weight * self._linear("down_proj", expert, middle)
            return mixed

    return Experts()


FORMS = {
    "plain": ({}, "silu"),
    "gpt-oss": ({"transposed": True, "turns": True, "biases": True, "activation": "clamped"}, "clamped"),
    "llama 4": ({"transposed": True}, "silu"),
    "nemotron": ({"gate": False, "activation": "relu2"}, "relu2"),
    "gelu, biases": ({"biases": True, "activation": "gelu"}, "gelu"),
}


def rows(seed=0):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator)
    chosen = torch.rand(TOKENS, EXPERTS, generator=generator).topk(USED).indices
    return hidden, chosen, torch.rand(TOKENS, USED, generator=generator)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_recognised_and_computes_the_same(form):
    from tools.export.decoders.experts import route_experts
    from tools.export.graphs.routed_experts import RoutedExperts

    torch.manual_seed(2)
    options, activation = FORMS[form]
    model = torch.nn.ModuleDict({"experts": stacked(**options)})
    with torch.no_grad():
        wanted = model["experts"](*rows())
        route_experts(model)
        assert isinstance(model["experts"], RoutedExperts)
        assert model["experts"].activation.name == activation
        torch.testing.assert_close(model["experts"](*rows()), wanted, rtol=1e-4, atol=1e-4)


def test_another_activation_stays_as_it_is():
    from tools.export.decoders.experts import route_experts

    experts = stacked()
    experts.act_fn = torch.tanh
    model = torch.nn.ModuleDict({"experts": experts})
    route_experts(model)
    assert model["experts"] is experts


def test_an_expert_that_few_tokens_meet_is_rounded_for_its_layer():
    from tools.export.decoders.experts import route_experts
    from tools.export.graphs.linear_inputs import FEW_TOKENS, ExpertInputs

    model = torch.nn.ModuleDict({"experts": stacked()})
    route_experts(model)
    inputs = ExpertInputs(model["experts"])
    hidden, chosen, weights = rows()
    chosen = chosen % (EXPERTS - 1)  # the last one meets none
    inputs.add(None, (hidden, chosen, weights))
    mean_squares = inputs.mean_squares()["up"]
    squares = hidden.square()[torch.arange(TOKENS).repeat_interleave(USED)].numpy()
    np.testing.assert_allclose(mean_squares[-1], squares.mean(0), rtol=1e-5)
    own = squares[chosen.reshape(-1).numpy() == 0]
    wanted = (own.sum(0) + FEW_TOKENS * squares.mean(0)) / (len(own) + FEW_TOKENS)
    np.testing.assert_allclose(mean_squares[0], wanted, rtol=1e-5)


@pytest.mark.parametrize(("weights", "most"), [("int8", 0.02), ("int4", 0.15)])
def test_quantized_experts_are_near_and_calibrated_ones_nearer(weights, most):
    import onnx_ir as ir

    from pipelines.onnx_format.decoder_format import DOMAIN
    from pipelines.onnx_format.experts_format import EXPERTS as NODE
    from tools.export.graphs.expert_weights import quantize_experts
    from tools.export.graphs.parameters import parameter

    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (EXPERTS, WIDTH, INNER)).astype(np.float32)
    sizes = rng.uniform(0.1, 3, (EXPERTS, INNER)).astype(np.float32)

    def lost(squares):
        """The squared error of outputs for inputs of `sizes`, as a part of their square."""
        graph = ir.Graph([], [], nodes=[], opset_imports={"": 23, DOMAIN: 1})
        stored = [parameter(graph, name, values) for name in ("up", "down")]
        inputs = [None, None, None, stored[0], None, None, None, stored[1]]
        graph.append(ir.node(NODE, inputs, {"layer": 0}, domain=DOMAIN))
        quantize_experts(ir.Model(graph, ir_version=10), weights, squares)
        (node,) = graph
        bits = node.attributes["up_bits"].as_int()
        codes, scales = (node.inputs[place].const_value.numpy() for place in (3, 4))
        if bits == 4:
            codes = np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1)
        dequantized = (codes.astype(np.float32) - 2 ** (bits - 1)) * scales[..., None]
        wrong = dequantized.reshape(values.shape) - values
        return ((wrong * sizes[:, None]) ** 2).sum() / ((values * sizes[:, None]) ** 2).sum()

    plain = lost({})
    assert plain < most**2
    if weights == "int4":
        assert lost({"up": sizes**2}) < plain
