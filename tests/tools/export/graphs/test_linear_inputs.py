"""The mean squares of what the weights of a model are multiplied with."""

import numpy as np
import pytest
from later import Later, missing

if missing("torch") or missing("transformers"):
    pytest.skip("needs the extra export", allow_module_level=True)
torch = Later("torch")
linear_inputs = Later("tools.export.graphs.linear_inputs")


class Words:
    """A tokenizer whose ids are the lengths of words."""

    def __call__(self, text):
        return {"input_ids": [len(word) for word in text.split()]}


def test_every_weight_of_a_product_is_met():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        vocab_size=24,
        max_position_embeddings=100,
    )
    model = LlamaForCausalLM(config).eval()
    model.model.layers[0].input_layernorm.weight.data[5] = 7
    seen = []
    model.model.embed_tokens.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    squares = linear_inputs.mean_squares(model, Words())
    linears = [
        name for name, parameter in model.named_parameters() if parameter.ndim == 2 and "embed" not in name
    ]
    assert set(squares) == set(linears)
    assert {name: squares_of_input.shape for name, squares_of_input in squares.items()} == {
        name: (model.get_parameter(name).shape[1],) for name in linears
    }
    assert [ids_seen.shape[1] for ids_seen in seen] == [100] * (linear_inputs.NUM_TOKENS // 100) + [
        linear_inputs.NUM_TOKENS % 100
    ]
    assert all(ids_seen.max() < 24 for ids_seen in seen)
    query = squares["model.layers.0.self_attn.q_proj.weight"]
    assert query.argmax() == 5
    assert np.median(query) == pytest.approx(len(seen), rel=0.8)
    assert not model.model.layers[0].self_attn.q_proj._forward_pre_hooks
