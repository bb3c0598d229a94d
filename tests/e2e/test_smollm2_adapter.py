"""An adapter that PEFT trains on SmolLM2's GGUF file, for a minute or two, on this repository's pages: its loss on
a page that it was not trained on is in Braid what it is in PEFT.
"""

from __future__ import annotations

import math

import httpx
import pytest
from click.testing import CliRunner
from server_process import ROOT, ServerProcess
from test_smollm2 import FILE

pytestmark = [
    pytest.mark.skipif(not FILE.exists(), reason=f"{FILE} is missing: `make demo-chat` fetches it"),
    pytest.mark.breadth,
]
peft = pytest.importorskip("peft", reason="needs peft: `.venv/bin/pip install peft`")
torch = pytest.importorskip("torch", reason="needs the extra export")

BASE, NAME = "smollm2", "pages"
STEPS, TOKENS, NUM_HELD_OUT = 60, 128, 6
TRAINED, HELD_OUT = ("docs/api.md", "docs/graphs.md", "docs/operations.md", "docs/ovms.md"), "docs/gpu.md"


@pytest.fixture(scope="module")
def model():
    """(transformers' model over the dequantized weights, its tokenizer)"""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    source = {"pretrained_model_name_or_path": FILE.parent, "gguf_file": FILE.name}
    return AutoModelForCausalLM.from_pretrained(**source).float(), AutoTokenizer.from_pretrained(**source)


def windows(tokenizer, *pages):
    ids = [token for page in pages for token in tokenizer((ROOT / page).read_text())["input_ids"]]
    return [ids[begin : begin + TOKENS] for begin in range(0, len(ids) - TOKENS, TOKENS)]


def loss_of(model, ids):
    text = torch.tensor([ids])
    return model(input_ids=text, labels=text).loss


@pytest.fixture(scope="module")
def trained(model):
    """The same model with a trained adapter."""
    plain, tokenizer = model
    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"])
    adapted = peft.get_peft_model(plain, config)
    optimizer = torch.optim.AdamW(
        (parameter for parameter in adapted.parameters() if parameter.requires_grad), lr=1e-3
    )
    texts = windows(tokenizer, *TRAINED)
    order = torch.randperm(len(texts)).tolist()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(adapted, texts[order[step % len(order)]]).backward()
        optimizer.step()
    return adapted.eval()


@pytest.fixture(scope="module")
def served(trained, tmp_path_factory):
    from tools.export.__main__ import main

    models = tmp_path_factory.mktemp("models")
    done = CliRunner().invoke(main, [str(FILE), "--name", BASE, "--models", str(models), "--no-first-run"])
    assert done.exit_code == 0, done.output
    trained.save_pretrained(models / BASE / "adapters" / NAME, save_embedding_layers=False)
    graph = models / BASE / "graph.yaml"
    line = "path: model/model.onnx"
    assert line in graph.read_text()
    exact = f"{line}, precision: f32, kv_cache: f32, adapters: {{folder: adapters}}"
    graph.write_text(graph.read_text().replace(line, exact))
    with ServerProcess(models, WORKERS="1") as running:
        running.ready(BASE)
        yield running.url


def losses(url, model, texts):
    """The mean loss of each text's tokens but the first."""
    found = []
    for ids in texts:
        body = {"model": model, "prompt": ids, "max_tokens": 1, "echo": True, "logprobs": 0, "temperature": 0}
        reply = httpx.post(f"{url}/v1/completions", json=body, timeout=300)
        assert reply.status_code == 200, reply.text
        logprobs = reply.json()["choices"][0]["logprobs"]["token_logprobs"][1 : len(ids)]
        found.append(-sum(logprobs) / len(logprobs))
    return found


@torch.no_grad()
def test_a_trained_adapter_loses_as_much_as_in_peft(model, trained, served):
    texts = windows(model[1], HELD_OUT)[:NUM_HELD_OUT]
    wanted = [float(loss_of(trained, ids)) for ids in texts]
    with trained.disable_adapter():
        plain = [float(loss_of(trained, ids)) for ids in texts]
    print("loss of the base", sum(plain) / len(plain), "and with the adapter", sum(wanted) / len(wanted))
    assert sum(wanted) < 0.95 * sum(plain), "the adapter has learned something"
    assert losses(served, NAME, texts) == pytest.approx(wanted, abs=1e-3)
    assert losses(served, BASE, texts) == pytest.approx(plain, abs=1e-3)
    assert all(map(math.isfinite, wanted))
