"""Questions per second by decisions, beside the same questions asked by chat, of a running server.

Run `python -m tools.lab.bench.decisions URL MODEL`: both ways in turns, all questions of a round at once.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import click

from tools.client.async_client import AsyncClient

QUESTIONS = 16
INPUT = (
    "My parcel was to arrive on Monday. It is Thursday now, and the page still says that it is on its way. "
    "I have written twice without an answer. Please send my money back, or the parcel by tomorrow. "
)
TOPICS = ("refund", "delivery", "account", "praise")


def questions(count: int) -> list[dict[str, object]]:
    """Questions of one kind, each different."""
    choices = [{"value": topic} for topic in TOPICS]
    return [
        {"type": "choice", "instructions": f"What is part {part} of this about?", "choices": choices}
        for part in range(count)
    ]


def asked(question: dict[str, object]) -> str:
    """The question in as many words as a decision has."""
    options = [f'{letter}: "{topic}"' for letter, topic in zip("ABCD", TOPICS, strict=True)]
    lines = [
        f"Question: {question['instructions']}",
        *options,
        "Answer with the name of the best option only.",
    ]
    return "\n".join(lines)


async def decided(client: AsyncClient, model: str, text: str) -> None:
    """All questions in one request."""
    body = {"model": model, "input": text, "questions": questions(QUESTIONS)}
    await client.post("/v1/decisions", body)


async def chatted(client: AsyncClient, model: str, text: str) -> None:
    """A request for each question, all at once, whose reply can be nothing but one of the options."""
    bodies = [
        {
            "model": model,
            "messages": [{"role": "user", "content": f"{text}\n\n{asked(question)}"}],
            "temperature": 0,
            "max_tokens": 16,
            "structured_outputs": {"choice": [*TOPICS]},
        }
        for question in questions(QUESTIONS)
    ]
    await asyncio.gather(*(client.post("/v1/chat/completions", body) for body in bodies))


async def measure(url: str, model: str, rounds: int, repeats: int) -> None:
    """Prints the median of both, in questions per second, for a short and a long input."""
    async with AsyncClient(url) as client:
        for times in (1, repeats):
            rates: dict[str, list[float]] = {"decisions": [], "chat": []}
            for part in range(2 * rounds):
                name, ask = [("decisions", decided), ("chat", chatted)][part % 2]
                text = f"{time.time_ns()} " + INPUT * times  # nothing of it is cached
                start_s = time.monotonic()
                await ask(client, model, text)
                rates[name].append(QUESTIONS / (time.monotonic() - start_s))
            medians = {name: statistics.median(rate) for name, rate in rates.items()}
            shown = ", ".join(f"{name} {rate:.1f} questions/s" for name, rate in medians.items())
            print(f"input of {len(INPUT * times)} characters: {shown}")


@click.command()
@click.argument("url")
@click.argument("model")
@click.option("--rounds", default=5, show_default=True, help="rounds of each")
@click.option(
    "--repeats", default=8, show_default=True, help="how often the long input repeats the short one"
)
def main(url: str, model: str, rounds: int, repeats: int) -> None:
    """Measures decisions beside chat."""
    asyncio.run(measure(url, model, rounds, repeats))


if __name__ == "__main__":
    main()
