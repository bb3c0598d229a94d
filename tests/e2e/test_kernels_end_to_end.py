"""The whole way of the CPU kernels: a first start without any, a real compiler, and a model that is loaded again."""

from __future__ import annotations

import re

import httpx
import pytest
from gguf import GGMLQuantizationType as Type
from gguf_files import write_llama_like
from server_process import ServerProcess

from ops.cpu.build import find_compiler

pytestmark = [
    pytest.mark.breadth,
    pytest.mark.slow,
    pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler"),
]
COMPILED_S = 600


def test_the_next_load_of_a_model_uses_what_was_compiled_meanwhile(tmp_path):
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    write_llama_like(tmp_path / "models" / "tiny" / "tiny.gguf", kind=Type.Q4_0, tied=False)
    kernels = {"KERNELS": "auto", "CACHE": str(tmp_path / "cache")}

    def linear_layers():
        return re.findall(r"linear_layers (?:\d+ of )?\d+ of \d+ by (\w+)", server.log())

    with ServerProcess(tmp_path / "models", **kernels) as server:
        server.all_ready()
        before = linear_layers()
        server.wait_for(lambda: "CPU kernels for openvino were compiled" in server.log(), COMPILED_S)
        for change in ("unload", "load"):
            reply = httpx.post(f"{server.url}/v2/repository/models/tiny/{change}", verify=False)
            assert reply.is_success, reply.text
        server.wait_for(lambda: len(linear_layers()) > len(before))
        assert linear_layers()[-1] == "braid"
        reply = httpx.post(
            f"{server.url}/v1/completions",
            json={"model": "tiny", "prompt": "a", "max_tokens": 3, "ignore_eos": True},
            verify=False,
        )
        assert reply.json()["usage"]["completion_tokens"] == 3
    assert "braid" not in before
