"""Measures whether a seed gives the same tokens alone and among other requests, on a server that runs.

    python -m tools.lab.seeded_texts http://127.0.0.1:8000 MODEL [--requests 200] [--crowd 60]

Every request is sent alone first, then twice among `--crowd` others at once.  Prints how many texts and how
many log-probabilities differ, and by how much at most; exits with 1 when a text does.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from typing import Any

from tools.client.async_client import AsyncClient

WORDS = (
    "what",
    "is",
    "the",
    "capital",
    "of",
    "mars",
    "write",
    "numbers",
    "weather",
    "other",
    "seven",
    "Oslo",
)
Reply = list[tuple[list[int], list[float]]]
"""Token ids and their log-probabilities, for each choice."""


def body(model: str, number: int) -> dict[str, Any]:
    """A request of the kinds that clients send, the same for the same number."""
    draw = random.Random(number)
    prompt = " ".join(draw.choices(WORDS, k=draw.randint(1, 60)))
    fields: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "seed": draw.getrandbits(30),
        "temperature": draw.choice([0.7, 1.0, 1.5]),
        "max_tokens": draw.randint(5, 60),
        "n": draw.choice([1, 1, 2]),
        "logprobs": draw.choice([0, 5]),
        "return_token_ids": True,
    }
    fields |= draw.choice([{}, {"top_p": 0.9}, {"top_k": 40}, {"presence_penalty": 1.0}])
    return fields | draw.choice([{}, {}, {"echo": True}, {"echo": True, "prompt_logprobs": 2}])


async def ask(client: AsyncClient, fields: dict[str, Any]) -> Reply:
    """Raises RequestFailed."""
    reply: Reply = []
    for choice in (await client.post("/v1/completions", fields))["choices"]:
        ids = choice["token_ids"]
        reply.append((ids, choice["logprobs"]["token_logprobs"][-len(ids) :]))
    return reply


async def measure(url: str, model: str, num_requests: int, crowd: int) -> int:
    bodies = [body(model, number) for number in range(num_requests)]
    async with AsyncClient(url) as client:
        alone = [await ask(client, fields) for fields in bodies]
        places = asyncio.Semaphore(crowd)

        async def in_crowd(fields: dict[str, Any]) -> Reply:
            async with places:
                return await ask(client, fields)

        differing = 0
        for turn in (1, 2):
            together = await asyncio.gather(*map(in_crowd, bodies))
            differing += report(turn, alone, together)
    return differing


def report(turn: int, alone: list[Reply], together: list[Reply]) -> int:
    """Print one line; the number of requests whose tokens differ."""
    texts, numbers, largest = [], 0, 0.0
    for number, (text, other) in enumerate(zip(alone, together, strict=True)):
        if [ids for ids, _ in text] != [ids for ids, _ in other]:
            texts.append(number)
            continue
        gaps = [
            abs(a - b)
            for (_, mine), (_, theirs) in zip(text, other, strict=True)
            for a, b in zip(mine, theirs, strict=True)
        ]
        numbers += any(gaps)
        largest = max(largest, *gaps)
    print(
        f"among others, {turn}. time: of {len(alone)} requests {len(texts)} texts differ {texts}, "
        f"and log-probabilities of {numbers}, by {largest:.3g} at most",
        flush=True,
    )
    return len(texts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--crowd", type=int, default=60)
    asked = parser.parse_args()
    sys.exit(bool(asyncio.run(measure(asked.url, asked.model, asked.requests, asked.crowd))))


if __name__ == "__main__":
    main()
