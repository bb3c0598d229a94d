"""A server is killed, and the next one finds the system prompt that its clients share."""

from __future__ import annotations

import openai
import pytest
from closed_clients import closed_later
from paced_model import GRAPH, write_model
from patience import PATIENCE_S
from server_process import ServerProcess

SYSTEM = "You are a helpful assistant. " * 40
STORING = GRAPH.replace("memory_gb: 0.01", "memory_gb: 0.1, prefix_file_gb: 0.05")


def ask(server: ServerProcess, question: str, **more: object) -> tuple[str, int]:
    """The answer to a question after SYSTEM, and how many of its tokens were cached."""
    client = closed_later(openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=PATIENCE_S))
    reply = client.chat.completions.create(
        model="fake",
        messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}],
        temperature=0,
        max_tokens=8,
        extra_body={"ignore_eos": True, **more},
    )
    return reply.choices[0].message.content or "", reply.usage.prompt_tokens_details.cached_tokens


@pytest.mark.breadth
def test_a_server_that_was_killed_finds_its_prefixes(tmp_path):
    models, cache = tmp_path / "models", str(tmp_path / "cache")
    write_model(models / "fake", step_s=0.001, graph=STORING)
    with ServerProcess(models, CACHE=cache) as server:
        server.ready()
        _, first = ask(server, "One?")
        expected, second = ask(server, "Two?")
        assert (first, second > 1000) == (0, True)
        ask(server, "Three?", cache_salt="mine")
        assert ask(server, "Four?", cache_salt="mine") == (ask(server, "Four?")[0], second)
        server.wait_for(lambda: server.metric("braid:prefix_file_blocks_written_total") >= second // 16 * 2)
        server.host().kill()
        server.process.kill()
        server.process.wait()
    with ServerProcess(models, CACHE=cache) as server:
        server.ready()
        assert ask(server, "Two?", cache_salt="another")[1] == 0
        assert ask(server, "Two?", cache_salt="mine") == (expected, second)
        answer, cached = ask(server, "Two?")
        assert (answer, cached) == (expected, second)
        assert server.metric("braid:prefix_file_blocks_read_total") == second // 16 * 2
