"""What a composed graph costs that only hands its request on (`python -m tools.lab.composed_cost`).

Plain and composed requests of one token to the demo model take turns in one process; the processor time of
the event loop's thread is that of a worker's Python, without the model.  The lower quartile of the turns
counts: what else runs makes a turn longer.  Then requests that are sent at once, half of them composed, take
turns with as many plain ones.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, thread_time
from typing import Any

from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from pipelines.values.tasks import GenerationInput
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.pipeline import Pipeline

DEMO = Path(__file__).parents[2] / "model_repo" / "braid-demo"
HANDED = """\
version: 1
task: chat
nodes:
  reply: {type: choose, from: {value: request.n}, cases: {"> 8": braid-demo}, otherwise: braid-demo}
"""
TURN = 20
"""Requests of a kind before those of the other."""


async def measured(rounds: int, together: int) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "braid-demo").symlink_to(DEMO)
        (Path(folder) / "handed").mkdir()
        (Path(folder) / "handed" / "graph.yaml").write_text(HANDED)
        client = InProcessClient(ModelSource(Path(folder)))
        catalogue = Catalogue(client)
        await client.start()
        await catalogue.start()
        try:
            while len([card for card in catalogue.cards() if card.state == "ready"]) < 2:
                await asyncio.sleep(0.05)
            await _print(catalogue.get("braid-demo"), catalogue.get("handed"), client, rounds, together)
        finally:
            await catalogue.close()
            await client.close()


async def _print(plain: Pipeline, composed: Pipeline, client: Any, rounds: int, together: int) -> None:
    turns = [[await _turn(pipeline, client) for pipeline in (plain, composed)] for _ in range(rounds)]
    own, handed = (1000 * quantiles(times, n=4)[0] for times in zip(*turns, strict=True))
    print(f"plain {own:.3f} ms of processor time each, handed on {handed - own:.3f} more")
    pairs = [
        [await _at_once(kinds * together, client) for kinds in ([plain, plain], [plain, composed])]
        for _ in range(max(1, rounds // 20))
    ]
    ratios = sorted(flat / mixed for flat, mixed in pairs)
    shown = f"{median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}, {len(ratios)} rounds)"
    print(f"throughput of {together} composed beside {together} plain: {shown} of {2 * together} plain")


async def _turn(pipeline: Pipeline, client: Any) -> float:
    """Processor seconds of one request."""
    from_s = thread_time()
    for _ in range(TURN):
        await _read(pipeline, client, 1)
    return (thread_time() - from_s) / TURN


async def _at_once(pipelines: list[Pipeline], client: Any) -> float:
    """Seconds until all have ended."""
    from_s = perf_counter()
    await asyncio.gather(*(_read(pipeline, client, 32) for pipeline in pipelines))
    return perf_counter() - from_s


async def _read(pipeline: Pipeline, client: Any, num_tokens: int) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    sampling = {"max_tokens": num_tokens, "temperature": 0.0, "ignore_eos": True}
    call = pipeline.open(GenerationInput(messages=messages, sampling=sampling), client)
    try:
        async for _ in call.updates():
            pass
    finally:
        call.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--together", type=int, default=64)
    given = parser.parse_args()
    asyncio.run(measured(given.rounds, given.together))
