"""Training goes on from what the repository holds; the optimizer makes updates of even strength."""

from __future__ import annotations

import torch

from tools.train_demo.__main__ import EXPORTED
from tools.train_demo.muon import Muon, orthogonal
from tools.train_demo.start_weights import load_start, read_weights


def test_the_exported_model_is_read_back() -> None:
    model = load_start(EXPORTED).eval()
    weights = read_weights(EXPORTED / "model.onnx")
    embedding = weights["lm_head.weight"]
    assert embedding.shape == (model.config.vocab_size, model.config.hidden_size)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert torch.equal(model.model.embed_tokens.weight, torch.from_numpy(embedding))
    query = model.model.layers[0].self_attn.q_proj.weight
    assert query.shape == (model.config.num_attention_heads * model.config.head_dim, model.config.hidden_size)
    assert 0.01 < float(query.detach().std()) < 1


def test_singular_values_of_an_update_are_about_one() -> None:
    torch.manual_seed(1)
    for shape in ((2, 24, 64), (2, 64, 24)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert 0.5 < float(values.min()) <= float(values.max()) < 1.5


def test_a_loss_goes_down() -> None:
    torch.manual_seed(1)
    weight = torch.nn.Parameter(torch.randn(8, 8))
    optimizer = Muon([weight], weight_decay=0.0)
    losses = []
    for _ in range(60):
        loss = (weight - torch.eye(8)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = 0.1
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
