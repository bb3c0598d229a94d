"""Weights that are cut in place while requests run: they fail in words, and nobody else notices."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from patience import PATIENCE_S
from server_process import ROOT, ServerProcess

pytestmark = pytest.mark.breadth
NUM_CLIENTS = 3
WORDS = "was cut or rewritten after its model was loaded"


@pytest.mark.parametrize("has_handler", [True, False], ids=["kernels", "no kernels"])
def test_weights_that_are_cut_fail_their_model_alone(tmp_path, kernel_folder, has_handler):
    """Without the handler, which the kernels bring, the cut comes between two steps."""
    models = tmp_path / "models"
    for name in ("braid-demo", "braid-embed", "braid-rerank"):
        shutil.copytree(ROOT / "model_repo" / name, models / name)
    kernels = {"KERNELS": str(kernel_folder) if has_handler else "off", "CACHE": str(tmp_path / "cache")}
    with ServerProcess(models, **kernels) as server, ThreadPoolExecutor(2 * NUM_CLIENTS) as clients:
        server.all_ready()
        host = server.host().pid

        def post(path, **body):
            return httpx.post(f"{server.url}/v1/{path}", json=body, timeout=PATIENCE_S, verify=False)

        def write(number):
            return post(
                "completions", model="braid-demo", prompt=f"{number}", max_tokens=200, ignore_eos=True
            )

        def embed(number):
            return post("embeddings", model="braid-embed", input=[f"{number} {part}" for part in range(40)])

        for name, ask in (("braid-demo", write), ("braid-embed", embed)):
            weights = models / name / "model" / "model.onnx.data"
            content = weights.read_bytes()
            running = [clients.submit(ask, n) for n in range(NUM_CLIENTS) if has_handler]
            os.truncate(weights, 5000)
            for reply in [future.result() for future in running]:
                assert reply.is_success or WORDS in reply.text, reply.text
            assert WORDS in ask(NUM_CLIENTS).text
            assert post("rerank", model="braid-rerank", query="a", documents=["b", "c"]).is_success
            weights.write_bytes(content)
            assert WORDS in ask(NUM_CLIENTS).text  # until it is loaded again
        server.reload()
        server.wait_for(lambda: write(2).is_success and embed(2).is_success)
        assert server.host().pid == host, server.log()
