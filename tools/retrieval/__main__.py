"""`python -m tools.retrieval`: shows the best passage per question by a server's embeddings."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import yaml
from rich.console import Console

from tools.client.api_server import ApiServer
from tools.client.http_client import RequestFailed
from tools.client.options import server_at

QUESTIONS = Path(__file__).with_name("questions.yaml")
Vector = list[float]


@click.command()
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="The server.")
@click.option("--model", default="minilm", show_default=True, help="An embedding model that it serves.")
@click.option("--key", default="none", help="An API key, where the server wants one.")
def main(url: str, model: str, key: str) -> None:
    """Print the nearest passage of each built-in question; exits with 1 when one is wrong."""
    console = Console()
    pairs = yaml.safe_load(QUESTIONS.read_text(encoding="utf-8"))
    texts = [pair["question"] for pair in pairs] + [pair["passage"] for pair in pairs]
    try:
        vectors = embed(server_at(url, key), model, texts)
    except RequestFailed as error:
        console.print(f"{url} gave no vectors: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(2)
    questions, passages = vectors[: len(pairs)], vectors[len(pairs) :]
    num_right = 0
    for number, (pair, question) in enumerate(zip(pairs, questions, strict=True)):
        place, score = nearest(question, passages)
        num_right += place == number
        console.print(f"{pair['question']}", style="bold", markup=False)
        mark = "✓" if place == number else "✗"
        console.print(f"  {mark} {score:.2f}  {pairs[place]['passage']}", markup=False, highlight=False)
    console.print(f"{num_right} of {len(pairs)} questions found their passage first")
    sys.exit(0 if num_right == len(pairs) else 1)


def embed(server: ApiServer, model: str, texts: list[str]) -> list[Vector]:
    """An embedding of length 1 for each text.  Raises RequestFailed."""
    reply = server.post("/embeddings", {"model": model, "input": texts})
    return [one["embedding"] for one in reply["data"]]


def nearest(question: Vector, passages: list[Vector]) -> tuple[int, float]:
    """(the passage with the largest dot product, that product)."""
    scores = [sum(a * b for a, b in zip(question, passage, strict=True)) for passage in passages]
    return scores.index(max(scores)), max(scores)


if __name__ == "__main__":
    main()
