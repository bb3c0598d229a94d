"""A client that hangs up while any line of a composed graph asks: requests, blocks, permits, all is free again."""

from __future__ import annotations

import asyncio
import shutil

import pytest
from asgi_client import AsgiClient
from documents import ROOT
from fake_decoder import FAKE_GRAPH, write_fake_model
from patience import PATIENCE_S, until

from pipelines import Local
from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_graph import index_graph
from pipelines.retrieval.index_update import Making, SourceDocument, update
from pipelines.worker.composed_call import ComposedCall
from server.app import create_app
from server.base.settings import Settings
from server.connect import make_services

DEMOS = ("braid-embed", "braid-rerank", "braid-sentiment")
LINES = {
    "passages": """\
  mood: {type: classify, graph: braid-sentiment, from: request}
  found: {type: find, graph: handbook, from: request, top: 3}
  best: {type: rerank_hits, graph: braid-rerank, from: found, top: 2}
  cited: {type: cite, from: {passages: best}}
  said: {type: ask, graph: tiny, from: {mood: mood}, template: "{{ mood }} {{ request }}", max_tokens: 3}
  sure: {type: decide, graph: tiny, from: said, question: It is so.}
  reply: {type: choose, from: {request: cited, value: sure}, cases: {">= 0": held}, otherwise: held}
""",
    "guarded": "  reply: {type: guard, graph: held, by: braid-sentiment, labels: [negative], threshold: 1, every: 4}\n",
    "cascaded": "  reply: {type: cascade, graph: tiny, larger: held, at_least: 0}\n",
    "decided": "  reply: {type: cascade, graph: tiny, larger: held, measure: decision, at_least: 1}\n",
    "joined": "  reply: {type: join, graphs: [held, tiny, held], how: majority}\n",
    "nested": "  reply: {type: graph, graph: guarded, from: request}\n",
}
NUM_ASKED = {"passages": 6, "guarded": 3, "cascaded": 2, "decided": 3, "joined": 3, "nested": 4}
"""Requests of lines that have begun when the last one of a graph generates; of `guarded` a look at its reply too."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cancelled")
    for name in DEMOS:
        shutil.copytree(ROOT / "model_repo" / name, folder / name)
    documents = [SourceDocument.of_text(f"{at}.md", f"Whales are mammals {at}.", {}) for at in range(4)]
    with Local(folder, names=["braid-embed"]) as braid:

        def embed(texts):
            return braid.embed_kinds(texts, ["dense"], model="braid-embed", input_type="document")

        update(IndexFolder(folder / "handbook/index"), documents, Making("braid-embed", embed, Cutting(60)))
    (folder / "handbook/graph.yaml").write_text(index_graph("braid-embed", None, {"dense": 1.0}, "docs"))
    write_fake_model(folder / "tiny")
    plain = FAKE_GRAPH.replace(
        ", reasoning: qwen3, tools: hermes", ""
    )  # a parser of reasoning holds text back
    write_fake_model(folder / "held", plain, step_s=0.002, max_context=1 << 20)
    for name, lines in LINES.items():
        (folder / name).mkdir()
        (folder / name / "graph.yaml").write_text(f"version: 1\ntask: chat\nnodes:\n{lines}")
    return folder


def test_all_is_free_when_a_client_hangs_up_at_any_line(folder, monkeypatch):
    ask, begun, at = ComposedCall.ask, [], []

    async def noted(self, line, graph, request):
        asked = await ask(self, line, graph, request)
        begun.append(asked)
        if len(begun) == at[0]:
            at[1].hang_up()
        return asked

    monkeypatch.setattr(ComposedCall, "ask", noted)

    async def whole():
        services = make_services(Settings(responses_store=False), InProcessClient(ModelSource(folder)))
        async with asyncio.timeout(PATIENCE_S), AsgiClient(create_app(services)) as client:
            await until(lambda: {card.state for card in services.catalogue.cards()} == {"ready"})
            for name, number in [(each, k + 1) for each in LINES for k in range(NUM_ASKED[each])]:
                body = {
                    "model": name,
                    "messages": [{"role": "user", "content": "Hi"}],
                    "ignore_eos": True,
                    "max_tokens": 60,
                }
                begun.clear()
                request = client.begin_post("/v1/chat/completions", body)
                at[:] = [number, request]
                await request.task
                assert len(begun) >= number, (name, number)
                await until(lambda: is_free(services))
            assert (await client.post("/v1/search", {"model": "handbook", "query": "whales"})).status == 200

    asyncio.run(whole())


def is_free(services):
    """Whether no permit is taken, no line runs, and no engine has a request or a block of one."""
    tasks = [task.get_name() for task in asyncio.all_tasks()]
    instances = services.client.host._instances
    counts = [engine.counts() for each in instances for engine in each.model.engines.values()]
    is_idle = not any(each.running or each.waiting or each.blocks_used for each in counts)
    return is_idle and not services.admission.num_inside and not any(map(_is_line, tasks))


def _is_line(name):
    return name.startswith(("line-", "compose-"))
